/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, and what a stream says of itself. */
#include "ctx.h"

#include "shape.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Largest thread count that an environment variable may ask for. */
enum { MAX_THREADS = 1024, LOSSLESS_PRESET = 5 };

static unsigned affinity_n_cpus(void)
{
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

/* Integer of an environment variable in [min, max]; fallback when unset or empty. */
static int env_integer(const char *name, long min, long max, long fallback, long *value, struct fzm_err *err)
{
    const char *const text = getenv(name);
    *value = fallback;
    if (!text || !*text)
        return 0;
    char *end;
    const long v = strtol(text, &end, 10);
    if (*end || v < min || v > max)
        return fzm_err_set(err, FZM_ERR_ARGUMENT, "%s=%.40s: expected an integer from %ld to %ld", name, text, min, max);
    *value = v;
    return 0;
}

static int env_engine(int *engine, struct fzm_err *err)
{
    static const char *const names[] = {"auto", "cpu", "gpu"};
    const char *const text = getenv("FZM_ENGINE");
    *engine = FZM_ENGINE_AUTO;
    if (!text || !*text)
        return 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *engine = i;
            return 0;
        }
    return fzm_err_set(err, FZM_ERR_ARGUMENT, "FZM_ENGINE=%.40s: expected auto, cpu or gpu", text);
}

static int ctx_init(struct fzm_ctx *ctx, const fzm_options *options)
{
    struct fzm_err *const err = &ctx->err;
    long n_threads, device;
    int engine;
    FZM_TRY(env_engine(&engine, err));
    FZM_TRY(env_integer("FZM_NUM_THREADS", 1, MAX_THREADS, affinity_n_cpus(), &n_threads, err));
    FZM_TRY(env_integer("FZM_DEVICE", 0, 1023, -1, &device, err));
    ctx->engine = options && options->engine ? options->engine : engine;
    ctx->n_threads = options && options->n_threads ? options->n_threads : (unsigned)n_threads;
    ctx->device = options && options->device > 0 ? options->device - 1 : (int)device;
    if (ctx->engine < 0 || ctx->engine > FZM_ENGINE_GPU || ctx->n_threads > MAX_THREADS)
        return fzm_err_set(err, FZM_ERR_ARGUMENT, "fzm_options: engine %d or n_threads %u is out of range", ctx->engine,
                           ctx->n_threads);
    if (ctx->engine == FZM_ENGINE_GPU && !fzm_gpu_class)
        return fzm_err_set(err, FZM_ERR_ENGINE, "engine gpu was asked for, but this build has no GPU engine; use auto or cpu");
    if (options) {
        ctx->log = options->log;
        ctx->log_arg = options->log_arg;
    }
    ctx->engine_used = "cpu";
    ctx->fusion = true;
    FZM_TRY(fzm_preset_build(&ctx->lossless, LOSSLESS_PRESET, FZM_LOSSLESS, 0, err));
    ctx->pool = fzm_pool_new(ctx->n_threads);
    return ctx->pool ? 0 : fzm_err_set(err, FZM_ERR_MEMORY, "out of memory");
}

int fzm_ctx_new(fzm_ctx **ctx, const fzm_options *options, char *text)
{
    *ctx = NULL;
    struct fzm_ctx *c = calloc(1, sizeof *c);
    int code = FZM_ERR_MEMORY;
    if (c && options && options->size < sizeof *options)
        code = fzm_err_set(&c->err, FZM_ERR_ARGUMENT, "fzm_options.size is %zu, expected %zu", options->size,
                           sizeof *options);
    else if (c)
        code = ctx_init(c, options);
    if (code == 0) {
        *ctx = c;
        return 0;
    }
    if (text)
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", c ? c->err.text : "out of memory");
    fzm_ctx_free(&c);
    return code;
}

void fzm_ctx_free(fzm_ctx **ctx)
{
    if (!*ctx)
        return;
    if ((*ctx)->gpu)
        fzm_gpu_class->close(*ctx);
    fzm_pool_free(&(*ctx)->pool);
    fzm_arena_free(&(*ctx)->arena);
    free(*ctx);
    *ctx = NULL;
}

const char *fzm_error_text(const fzm_ctx *ctx) { return ctx->err.text; }
const char *fzm_ctx_engine_used(const fzm_ctx *ctx) { return ctx->engine_used; }
size_t fzm_ctx_memory_nbytes(const fzm_ctx *ctx)
{
    return fzm_arena_nbytes(&ctx->arena) + (ctx->gpu ? fzm_gpu_class->memory_nbytes(ctx) : 0);
}
void fzm_ctx_set_fusion(fzm_ctx *ctx, int on) { ctx->fusion = on != 0; }
void fzm_ctx_set_poison(fzm_ctx *ctx, int on) { ctx->poison = on != 0; }

size_t fzm_array_nbytes(const fzm_array *array)
{
    struct fzm_shape shape;
    return fzm_shape_from_array(&shape, array, NULL) == 0 ? fzm_shape_nbytes(&shape) : 0;
}

size_t fzm_compress_bound(const fzm_array *array) { return fzm_array_nbytes(array) + FZM_MAX_OVERHEAD_NBYTES; }

static void describe_array(const struct fzm_stream *s, fzm_array *array)
{
    memset(array, 0, sizeof *array);
    array->dtype = s->shape.dtype;
    array->rank = s->shape.dims[0] > 1 ? 4 : s->shape.rank;
    array->big_endian = s->big_endian;
    for (int i = 0; i < array->rank; i++)
        array->dims[i] = s->shape.dims[4 - array->rank + i];
}

/* Half the step of the stage that took the bound: the absolute bound that the chunk was coded with. */
static double stream_abs_bound(const struct fzm_stream *s)
{
    for (unsigned i = 0; i < s->graph.n_nodes; i++) {
        const struct fzm_node *const n = &s->graph.nodes[i];
        const int step = fzm_params_find(n->stage, "step");
        if ((n->stage->flags & FZM_STAGE_LOSSY) && step >= 0)
            return fzm_params_get(n->stage, n->params.bytes, (unsigned)step) / 2;
    }
    return 0;
}

int fzm_stream_read_info(const void *in, size_t in_nbytes, fzm_stream_info *info, char *json, size_t json_cap,
                         char *text)
{
    struct fzm_err err = {0};
    struct fzm_stream *const s = malloc(sizeof *s);
    struct fzm_pipeline *const p = calloc(1, sizeof *p);
    int code = FZM_ERR_MEMORY;
    if (s && p)
        code = fzm_stream_read(s, in, in_nbytes, &err);
    if (code == 0) {
        memset(info, 0, sizeof *info);
        describe_array(s, &info->array);
        info->stream_nbytes = in_nbytes;
        info->array_nbytes = fzm_shape_nbytes(&s->shape);
        info->header_nbytes = s->header_nbytes;
        info->stored = s->stored;
        info->mode = s->mode;
        info->bound = s->bound;
        info->abs_bound = stream_abs_bound(s);
        info->n_sections = s->n_sections;
        for (unsigned i = 0; i < s->n_sections; i++) {
            const struct fzm_stage *const stage = s->graph.nodes[s->sections[i].node].stage;
            info->sections[i].stage = stage->name;
            info->sections[i].port = stage->out[s->sections[i].port].name;
            info->sections[i].nbytes = s->sections[i].nbytes;
        }
        p->graph = s->graph;
        p->mode = s->mode;
        p->bound = s->bound;
        p->preset = -1;
        if (json && json_cap)
            s->stored ? (void)(json[0] = 0) : (void)fzm_config_print(p, json, json_cap);
    } else if (text) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", err.code ? err.text : "out of memory");
    }
    free(s);
    free(p);
    return code;
}
