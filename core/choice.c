/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine auto: the first chunks of each size class run on both engines by turns, then the faster one has them all.
 * Bytes do not depend on it. */
#include "choice.h"

#include "stages.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A GPU call costs tens of microseconds before it does anything: smaller chunks are not worth a trial. */
enum { MIN_GPU_NBYTES = 256 << 10 };

/* Chunks of a size class that each engine is timed on; the first one warms up. */
enum { N_TRIALS = 3 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned size_class(size_t nbytes)
{
    unsigned n = 0;
    for (; nbytes > 1; nbytes >>= 1)
        n++;
    return n < FZM_N_SIZE_CLASSES ? n : FZM_N_SIZE_CLASSES - 1;
}

static int run(fzm_ctx *ctx, const struct fzm_way *way, bool on_gpu)
{
    ctx->engine_used = on_gpu ? "gpu" : "cpu";
    return on_gpu ? way->on_gpu(way->arg) : way->on_cpu(way->arg);
}

/* Opens the device at the first chunk that may go there. Under auto a failure is remembered, not returned. */
static int open_gpu(fzm_ctx *ctx)
{
    if (ctx->gpu)
        return 0;
    return fzm_gpu_class->open(ctx);
}

static void warn(fzm_ctx *ctx)
{
    char text[sizeof ctx->err.text + 64];
    snprintf(text, sizeof text, "engine gpu left for engine cpu: %s", ctx->err.text);
    if (ctx->log)
        ctx->log(ctx->log_arg, text);
    memset(&ctx->err, 0, sizeof ctx->err);
}

/* A failure of the device, not of the data. */
static bool is_gpu_failure(int code) { return code == FZM_ERR_ENGINE || code == FZM_ERR_MEMORY; }

/* Which engine is next: true for the GPU. */
static bool choose(const struct fzm_choice_class *c)
{
    if (c->n[1] < N_TRIALS || c->n[0] < N_TRIALS)
        return c->n[1] <= c->n[0];
    return c->least_s[1] < c->least_s[0];
}

static const struct fzm_stage *first_off_gpu(const struct fzm_graph *graph)
{
    for (unsigned i = 0; i < graph->n_nodes; i++)
        if (!fzm_stage_is_on_gpu(graph->nodes[i].stage))
            return graph->nodes[i].stage;
    return NULL;
}

int fzm_choice_check_gpu(const struct fzm_graph *graph, struct fzm_err *err)
{
    const struct fzm_stage *const stage = first_off_gpu(graph);
    return stage ? fzm_err_set(err, FZM_ERR_UNSUPPORTED, "stage %s runs on engine cpu only: ask for engine auto or cpu",
                               stage->name)
                 : 0;
}

static int run_auto(fzm_ctx *ctx, const struct fzm_way *way)
{
    struct fzm_choice *const choice = &ctx->choice;
    if (!fzm_gpu_class || choice->gpu_is_off || way->nbytes < MIN_GPU_NBYTES || first_off_gpu(way->graph))
        return run(ctx, way, false);
    if (open_gpu(ctx) < 0) {
        /* no GPU at all is nothing to warn of */
        choice->gpu_is_off = true;
        memset(&ctx->err, 0, sizeof ctx->err);
        return run(ctx, way, false);
    }
    struct fzm_choice_class *const c = &choice->classes[way->direction][size_class(way->nbytes)];
    const bool on_gpu = choose(c);
    const double start = now_s();
    int code = run(ctx, way, on_gpu);
    if (on_gpu && is_gpu_failure(code)) {
        warn(ctx);
        if (++choice->n_gpu_failures >= N_TRIALS)
            choice->gpu_is_off = true;
        return run(ctx, way, false);
    }
    const double seconds = (now_s() - start) / (double)way->nbytes;
    if (c->n[on_gpu] > 0 && (c->n[on_gpu] == 1 || seconds < c->least_s[on_gpu]))
        c->least_s[on_gpu] = seconds;
    if (c->n[on_gpu] < N_TRIALS)
        c->n[on_gpu]++;
    return code;
}

int fzm_choice_run(fzm_ctx *ctx, const struct fzm_way *way)
{
    if (ctx->engine == FZM_ENGINE_AUTO)
        return run_auto(ctx, way);
    if (ctx->engine == FZM_ENGINE_GPU) {
        FZM_TRY(fzm_choice_check_gpu(way->graph, &ctx->err));
        FZM_TRY(open_gpu(ctx));
        return run(ctx, way, true);
    }
    return run(ctx, way, false);
}
