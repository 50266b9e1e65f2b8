/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: a context of the core library with what is kept from chunk to chunk. Callers in different threads
 * get different ones. */
#ifndef FZM_WORKER_H
#define FZM_WORKER_H

#include "cd_values.h"

struct worker {
    fzm_ctx *ctx;
    uint8_t *scratch;
    size_t scratch_nbytes;
    fzm_pipeline *pipeline; /* of values */
    unsigned values[CD_MAX_WORDS];
    size_t n_values;
};

/* A worker for this call alone; text says why there is none (e.g. an invalid environment variable). */
int worker_take(struct worker **worker, char *text);
void worker_give(struct worker *worker);

/* Scratch memory of at least nbytes, or NULL. Its contents are lost. */
uint8_t *worker_scratch(struct worker *worker, size_t nbytes);

/* The pipeline of cd_values in either form; it belongs to the worker. NULL with a text. */
const fzm_pipeline *worker_pipeline(struct worker *worker, const unsigned *values, size_t n_values,
                                    char *text);

#endif
