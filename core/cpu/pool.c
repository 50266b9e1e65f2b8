/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers sleep on a condition variable between runs; inside a run tasks are handed out by a counter. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "fpenv.h"

struct fzm_pool {
    unsigned n_threads;
    unsigned n_started; /* helper threads alive in process pid */
    pid_t pid;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    uint64_t run_id;    /* bumped to start a run; helpers compare with the last they saw */
    unsigned n_active;  /* helpers still inside the current run */
    bool quit;
    void (*task)(void *, size_t, unsigned);
    void *arg;
    size_t n_tasks;
    _Atomic size_t next_task;
};

struct worker_arg {
    struct fzm_pool *pool;
    unsigned worker;
};

static void run_tasks(struct fzm_pool *p, unsigned worker)
{
    for (;;) {
        const size_t i = atomic_fetch_add_explicit(&p->next_task, 1, memory_order_relaxed);
        if (i >= p->n_tasks)
            return;
        p->task(p->arg, i, worker);
    }
}

static void *worker_main(void *opaque)
{
    struct worker_arg *const a = opaque;
    struct fzm_pool *const p = a->pool;
    const unsigned worker = a->worker;
    free(a);
    fzm_fpenv_enter();
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->run_id == seen && !p->quit)
            pthread_cond_wait(&p->wake, &p->lock);
        if (p->quit)
            break;
        seen = p->run_id;
        pthread_mutex_unlock(&p->lock);
        run_tasks(p, worker);
        pthread_mutex_lock(&p->lock);
        if (--p->n_active == 0)
            pthread_cond_signal(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Threads do not survive a fork: the child forgets them and starts its own. A thread that cannot be
 * started is done without. */
static void start_threads(struct fzm_pool *p)
{
    const pid_t pid = getpid();
    if (p->pid == pid)
        return;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->idle, NULL);
    p->pid = pid;
    p->run_id = 0;
    p->n_active = 0;
    p->n_started = 0;
    for (unsigned i = 1; i < p->n_threads; i++) {
        struct worker_arg *const a = malloc(sizeof *a);
        if (!a)
            break;
        a->pool = p;
        a->worker = i;
        if (pthread_create(&p->threads[p->n_started], NULL, worker_main, a) != 0) {
            free(a);
            break;
        }
        p->n_started++;
    }
}

struct fzm_pool *fzm_pool_new(unsigned n_threads)
{
    struct fzm_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n_threads = n_threads ? n_threads : 1;
    p->threads = calloc(p->n_threads, sizeof *p->threads);
    if (!p->threads) {
        free(p);
        return NULL;
    }
    return p;
}

void fzm_pool_free(struct fzm_pool **pool)
{
    struct fzm_pool *const p = *pool;
    if (!p)
        return;
    if (p->pid == getpid()) {
        pthread_mutex_lock(&p->lock);
        p->quit = true;
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
        for (unsigned i = 0; i < p->n_started; i++)
            pthread_join(p->threads[i], NULL);
        pthread_cond_destroy(&p->wake);
        pthread_cond_destroy(&p->idle);
        pthread_mutex_destroy(&p->lock);
    }
    free(p->threads);
    free(p);
    *pool = NULL;
}

unsigned fzm_pool_n_threads(const struct fzm_pool *pool) { return pool ? pool->n_threads : 1; }

void fzm_pool_run(struct fzm_pool *pool, size_t n_tasks, void (*task)(void *arg, size_t i, unsigned worker), void *arg)
{
    if (pool && pool->n_threads > 1 && n_tasks > 1)
        start_threads(pool);
    if (!pool || n_tasks <= 1 || pool->n_threads == 1 || pool->n_started == 0) {
        for (size_t i = 0; i < n_tasks; i++)
            task(arg, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
    pool->n_active = pool->n_started;
    pool->run_id++;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    run_tasks(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->n_active > 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

uint64_t fzm_sequence_take(struct fzm_sequence *s, uint64_t i, uint64_t nbytes)
{
    /* Predecessors have been handed out before us, so someone is working on them. */
    for (unsigned spins = 0; atomic_load_explicit(&s->next, memory_order_acquire) != i; spins++)
        if (spins > 64)
            sched_yield();
    const uint64_t offset = s->total;
    s->total = offset + nbytes;
    atomic_store_explicit(&s->next, i + 1, memory_order_release);
    return offset;
}
