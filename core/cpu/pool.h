/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread pool of the CPU engine, and ordered output of variable-size pieces. */
#ifndef FZM_POOL_H
#define FZM_POOL_H

#include <stddef.h>
#include <stdint.h>

struct fzm_pool;

/* A pool of n_threads workers, the caller among them (so 1 starts no thread). Threads start at the
 * first run and again after a fork. NULL when out of memory. */
struct fzm_pool *fzm_pool_new(unsigned n_threads);
void fzm_pool_free(struct fzm_pool **pool);
unsigned fzm_pool_n_threads(const struct fzm_pool *pool);

/* Calls task(arg, i, worker) for every i in [0, n_tasks), each exactly once, in increasing order of
 * start; worker is in [0, n_threads) and never runs two tasks at a time. Returns when all are done.
 * pool may be NULL: all run on the caller as worker 0. Not re-entrant on one pool. */
void fzm_pool_run(struct fzm_pool *pool, size_t n_tasks,
                  void (*task)(void *arg, size_t i, unsigned worker), void *arg);

/* Ordered emission: task i learns where its n bytes go once tasks 0..i-1 have told their sizes.
 * Zero-initialise before fzm_pool_run(). The bytes of the output never depend on timing. */
struct fzm_sequence {
    _Atomic uint64_t next; /* task whose turn it is */
    uint64_t total;        /* bytes given out so far; final after the run */
};

/* Waits for the turn of task i, takes n bytes, returns their offset. Call exactly once per task. */
uint64_t fzm_sequence_take(struct fzm_sequence *s, uint64_t i, uint64_t nbytes);

#endif
