/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include "log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Idle workers. A slot is emptied and filled by one atomic exchange, so there is no lock that a fork could
 * catch in a locked state: the child has the idle workers of its parent, and core starts their threads anew.
 */
enum { N_SLOTS = 32 };
static _Atomic(struct worker *) slots[N_SLOTS];

static void worker_free(struct worker *worker)
{
    fzm_pipeline_free(&worker->pipeline);
    fzm_ctx_free(&worker->ctx);
    free(worker->scratch);
    free(worker);
}

static void log_warning(void *arg, const char *text)
{
    (void)arg;
    log_line(LOG_WARN, "%s", text);
}

int worker_take(struct worker **worker, char *text)
{
    for (int i = 0; i < N_SLOTS; i++)
        if (atomic_load_explicit(&slots[i], memory_order_relaxed) &&
            (*worker = atomic_exchange(&slots[i], NULL)))
            return 0;
    int code = log_check(text);
    if (code < 0)
        return code;
    *worker = calloc(1, sizeof **worker);
    if (!*worker) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "out of memory");
        return FZM_ERR_MEMORY;
    }
    const fzm_options options = {.size = sizeof options, .log = log_warning};
    code = fzm_ctx_new(&(*worker)->ctx, &options, text);
    if (code < 0) {
        worker_free(*worker);
        *worker = NULL;
    }
    return code;
}

void worker_give(struct worker *worker)
{
    for (int i = 0; i < N_SLOTS; i++) {
        struct worker *empty = NULL;
        if (atomic_compare_exchange_strong(&slots[i], &empty, worker))
            return;
    }
    worker_free(worker);
}

uint8_t *worker_scratch(struct worker *worker, size_t nbytes)
{
    if (worker->scratch_nbytes < nbytes) {
        free(worker->scratch);
        worker->scratch = malloc(nbytes);
        worker->scratch_nbytes = worker->scratch ? nbytes : 0;
    }
    return worker->scratch;
}

const fzm_pipeline *worker_pipeline(struct worker *worker, const unsigned *values, size_t n_values,
                                    char *text)
{
    if (worker->pipeline && worker->n_values == n_values &&
        memcmp(worker->values, values, n_values * sizeof *values) == 0)
        return worker->pipeline;
    fzm_pipeline_free(&worker->pipeline);
    struct cd_request request;
    if (cd_read_request(&request, values, n_values, text) < 0 ||
        cd_new_pipeline(&worker->pipeline, &request, NULL, 0, text) < 0)
        return NULL;
    memcpy(worker->values, values, n_values * sizeof *values);
    worker->n_values = n_values;
    return worker->pipeline;
}
