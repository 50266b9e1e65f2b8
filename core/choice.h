/* SPDX-License-Identifier: BSD-3-Clause */
/* Which engine runs a chunk. */
#ifndef FZM_CHOICE_H
#define FZM_CHOICE_H

#include "ctx.h"

/* One call, on either engine. Both return what fzm_compress_on() or fzm_run_inverse() returns. */
struct fzm_way {
    int (*on_cpu)(void *arg);
    int (*on_gpu)(void *arg);
    enum fzm_direction direction;
    size_t nbytes; /* of the elements */
    const struct fzm_graph *graph;
    void *arg;
};

/* Runs it on the engine asked for. Engine auto takes the GPU for chunks of a size for which it has been the faster
 * one, and the CPU when the GPU fails. Sets ctx->engine_used. */
int fzm_choice_run(fzm_ctx *ctx, const struct fzm_way *way);

/* 0, or FZM_ERR_UNSUPPORTED if the GPU engine lacks a stage of the graph. */
int fzm_choice_check_gpu(const struct fzm_graph *graph, struct fzm_err *err);

#endif
