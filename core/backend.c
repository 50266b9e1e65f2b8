/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU engine as the graph walker sees it: the functions of the stage rows. */
#include "ctx.h"

static void *get(fzm_ctx *ctx, size_t nbytes) { return fzm_arena_get(&ctx->arena, nbytes); }
static void touch(fzm_ctx *ctx, const void *data, size_t nbytes) { fzm_arena_touch(&ctx->arena, data, nbytes); }
static void put(fzm_ctx *ctx, void *data) { fzm_arena_put(&ctx->arena, data); }

static size_t scratch(fzm_ctx *ctx, const struct fzm_stage *stage, const void *params, const struct fzm_shape *in)
{
    return stage->scratch ? stage->scratch(params, in, ctx->n_threads) : 0;
}

static int resolve(const struct fzm_stage *stage, void *params, const struct fzm_call *c)
{
    return stage->resolve(params, c);
}

static int inverse_nbytes(const struct fzm_stage *stage, const struct fzm_call *c, size_t *in_nbytes)
{
    return stage->inverse_nbytes(c->params, c->out, in_nbytes, c->err);
}

static int forward(const struct fzm_stage *stage, struct fzm_call *c) { return stage->forward(c); }
static int inverse(const struct fzm_stage *stage, struct fzm_call *c) { return stage->inverse(c); }

static int write_stream(fzm_ctx *ctx, struct fzm_stream *s, void *out, size_t out_cap, size_t *out_nbytes)
{
    return fzm_stream_write(s, ctx->pool, out, out_cap, out_nbytes, &ctx->err);
}

const struct fzm_backend fzm_cpu_backend = {
    .name = "cpu",
    .get = get,
    .touch = touch,
    .put = put,
    .scratch = scratch,
    .resolve = resolve,
    .inverse_nbytes = inverse_nbytes,
    .forward = forward,
    .inverse = inverse,
    .fused = fzm_cpu_fused,
    .write = write_stream,
};
