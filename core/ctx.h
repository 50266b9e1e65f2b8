/* SPDX-License-Identifier: BSD-3-Clause */
/* The context: engine, threads, scratch memory, last error. */
#ifndef FZM_CTX_H
#define FZM_CTX_H

#include "arena.h"
#include "cpu/pool.h"
#include "stream.h"

struct fzm_ctx {
    int engine;
    unsigned n_threads;
    int device; /* index, or -1: by local MPI rank */
    bool fusion;
    struct fzm_pool *pool;
    struct fzm_arena arena;
    struct fzm_err err;
    const char *engine_used;
    struct fzm_pipeline lossless; /* for bounds of 0 and chunks that a lossy pipeline does not shrink */
    struct fzm_stream stream;     /* working copies, too large for small stacks */
    struct fzm_stream candidate;
};

/* Tests compare fused with staged runs: same bytes. On by default. */
void fzm_ctx_set_fusion(fzm_ctx *ctx, int on);

/* ---- run.c ---- */

/* Runs a graph forward over a chunk (host byte order). On success the sections of s have data in
 * ctx->arena and their sizes. s->shape, mode, bound, graph (with inherited bounds) are set by the
 * caller. Returns 1, with nothing run, if a stage says that the bound asks for exact values. */
int fzm_run_forward(fzm_ctx *ctx, struct fzm_stream *s, const void *in, const void *fill);

/* Runs the inverse of a stream that was read by fzm_stream_read(): fills out (host byte order). */
int fzm_run_inverse(fzm_ctx *ctx, struct fzm_stream *s, void *out);

#endif
