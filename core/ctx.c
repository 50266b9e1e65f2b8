/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, and compression and decompression of whole chunks. */
#include "ctx.h"

#include "cpu/fpenv.h"
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
    if (ctx->engine == FZM_ENGINE_GPU)
        return fzm_err_set(err, FZM_ERR_ENGINE, "engine gpu was asked for, but this build has no GPU engine; use auto or cpu");
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
    fzm_pool_free(&(*ctx)->pool);
    fzm_arena_free(&(*ctx)->arena);
    free(*ctx);
    *ctx = NULL;
}

const char *fzm_error_text(const fzm_ctx *ctx) { return ctx->err.text; }
const char *fzm_ctx_engine_used(const fzm_ctx *ctx) { return ctx->engine_used; }
size_t fzm_ctx_memory_nbytes(const fzm_ctx *ctx) { return fzm_arena_nbytes(&ctx->arena); }
void fzm_ctx_set_fusion(fzm_ctx *ctx, int on) { ctx->fusion = on != 0; }

size_t fzm_array_nbytes(const fzm_array *array)
{
    struct fzm_shape shape;
    return fzm_shape_from_array(&shape, array, NULL) == 0 ? fzm_shape_nbytes(&shape) : 0;
}

size_t fzm_compress_bound(const fzm_array *array) { return fzm_array_nbytes(array) + FZM_MAX_OVERHEAD_NBYTES; }

static void swap_bytes(void *out, const void *in, size_t nbytes, size_t elem_nbytes)
{
    const uint8_t *const from = in;
    uint8_t *const to = out;
    for (size_t i = 0; i < nbytes; i += elem_nbytes)
        for (size_t j = 0; j < elem_nbytes; j++)
            to[i + j] = from[i + elem_nbytes - 1 - j];
}

static void swap_in_place(void *data, size_t nbytes, size_t elem_nbytes)
{
    uint8_t *const p = data;
    for (size_t i = 0; i < nbytes; i += elem_nbytes)
        for (size_t j = 0; j < elem_nbytes / 2; j++) {
            const uint8_t t = p[i + j];
            p[i + j] = p[i + elem_nbytes - 1 - j];
            p[i + elem_nbytes - 1 - j] = t;
        }
}

static bool has_lossy_stage(const struct fzm_graph *graph)
{
    bool lossy = false;
    for (unsigned i = 0; i < graph->n_nodes; i++)
        lossy |= (graph->nodes[i].stage->flags & FZM_STAGE_LOSSY) != 0;
    return lossy;
}

static size_t sections_nbytes(const struct fzm_stream *s)
{
    size_t nbytes = 0;
    for (unsigned i = 0; i < s->n_sections; i++)
        nbytes += s->sections[i].nbytes;
    return nbytes;
}

static int run_pipeline(fzm_ctx *ctx, struct fzm_stream *s, const struct fzm_pipeline *p, const struct fzm_shape *shape,
                        const void *in, const void *fill)
{
    memset(s, 0, sizeof *s);
    s->shape = *shape;
    s->mode = p->mode;
    s->bound = p->bound;
    s->graph = p->graph;
    fzm_graph_inherit_bound(&s->graph, p->mode, p->bound);
    return fzm_run_forward(ctx, s, in, fill);
}

/* Runs the pipeline, and the lossless one where the bound asks for exact values or where the lossy
 * stream saves less than a quarter. Leaves the smaller one in ctx->stream; *original is its graph. */
static int run_best(fzm_ctx *ctx, const struct fzm_pipeline *pipeline, const struct fzm_shape *shape, const void *in,
                    const void *fill, const struct fzm_graph **original)
{
    const size_t in_nbytes = fzm_shape_nbytes(shape);
    const bool lossy = has_lossy_stage(&pipeline->graph);
    int code = 1;
    *original = &pipeline->graph;
    if (!lossy || pipeline->bound > 0)
        code = run_pipeline(ctx, &ctx->stream, pipeline, shape, in, fill);
    if (code < 0)
        return code;
    if (!lossy || (code == 0 && sections_nbytes(&ctx->stream) < in_nbytes - in_nbytes / 4))
        return 0;
    FZM_TRY(run_pipeline(ctx, &ctx->candidate, &ctx->lossless, shape, in, fill));
    if (code == 1 || sections_nbytes(&ctx->candidate) < sections_nbytes(&ctx->stream)) {
        ctx->stream = ctx->candidate;
        *original = &ctx->lossless.graph;
    }
    return 0;
}

/* Writes the elements as they are. */
static int write_stored(fzm_ctx *ctx, const struct fzm_shape *shape, bool big_endian, const void *in, void *out,
                        size_t out_cap, size_t *out_nbytes)
{
    struct fzm_stream *const s = &ctx->stream;
    memset(s, 0, sizeof *s);
    s->shape = *shape;
    s->big_endian = big_endian;
    s->stored = true;
    s->n_sections = 1;
    s->sections[0].data = in;
    s->sections[0].nbytes = fzm_shape_nbytes(shape);
    return fzm_stream_write(s, NULL, ctx->pool, out, out_cap, out_nbytes, &ctx->err);
}

static bool has_fill(int kind, const void *in, size_t in_nbytes, const uint8_t *fill, size_t elem_nbytes)
{
    const uint8_t *const first = in, *const last = first + in_nbytes - elem_nbytes;
    return kind == FZM_FILL_VALUE || (kind == FZM_FILL_PADDING && (memcmp(first, fill, elem_nbytes) == 0 ||
                                                                   memcmp(last, fill, elem_nbytes) == 0));
}

static int compress_chunk(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in,
                          size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes)
{
    struct fzm_shape shape;
    FZM_TRY(fzm_shape_from_array(&shape, array, &ctx->err));
    if (in_nbytes != fzm_shape_nbytes(&shape))
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "chunk has %zu bytes, its type and shape need %zu", in_nbytes,
                           fzm_shape_nbytes(&shape));
    const size_t elem_nbytes = fzm_dtype_nbytes(shape.dtype);
    const bool swap = array->big_endian && elem_nbytes > 1;
    const void *native = in;
    uint8_t fill[8];
    memcpy(fill, array->fill, sizeof fill);
    if (swap) {
        void *const swapped = fzm_arena_get(&ctx->arena, in_nbytes);
        if (!swapped)
            return fzm_err_set(&ctx->err, FZM_ERR_MEMORY, "out of memory (%zu bytes of scratch)", in_nbytes);
        fzm_arena_touch(&ctx->arena, swapped, in_nbytes);
        swap_bytes(swapped, in, in_nbytes, elem_nbytes);
        swap_in_place(fill, elem_nbytes, elem_nbytes);
        native = swapped;
    }
    const struct fzm_graph *original;
    if (in_nbytes > 0) {
        const bool use_fill = has_fill(array->has_fill, native, in_nbytes, fill, elem_nbytes);
        FZM_TRY(run_best(ctx, pipeline, &shape, native, use_fill ? fill : NULL, &original));
        ctx->stream.big_endian = swap;
        /* A stream is worth its header only if it is smaller than the stored form. */
        if (sections_nbytes(&ctx->stream) < in_nbytes) {
            const int code = fzm_stream_write(&ctx->stream, original, ctx->pool, out, out_cap, out_nbytes, &ctx->err);
            if (code == 0 && *out_nbytes < in_nbytes)
                return 0;
            if (code != 0 && code != FZM_ERR_CAPACITY)
                return code;
            ctx->err.code = 0;
        }
    }
    return write_stored(ctx, &shape, swap, in, out, out_cap, out_nbytes);
}

int fzm_compress(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in, size_t in_nbytes,
                 void *out, size_t out_cap, size_t *out_nbytes)
{
    memset(&ctx->err, 0, sizeof ctx->err);
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    const int code = compress_chunk(ctx, pipeline, array, in, in_nbytes, out, out_cap, out_nbytes);
    fzm_fpenv_leave(fpenv);
    fzm_arena_reset(&ctx->arena);
    return code;
}

static int decompress_chunk(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                            size_t *out_nbytes, bool verify)
{
    struct fzm_stream *const s = &ctx->stream;
    FZM_TRY(fzm_stream_read(s, in, in_nbytes, &ctx->err));
    const size_t nbytes = fzm_shape_nbytes(&s->shape);
    if (nbytes > out_cap)
        return fzm_err_set(&ctx->err, FZM_ERR_CAPACITY, "chunk of %zu bytes does not fit into %zu", nbytes, out_cap);
    if (verify)
        FZM_TRY(fzm_stream_verify(s, in, ctx->pool, &ctx->err));
    if (s->stored)
        memcpy(out, (const uint8_t *)in + s->header_nbytes, nbytes);
    else {
        FZM_TRY(fzm_run_inverse(ctx, s, out));
        if (s->big_endian)
            swap_in_place(out, nbytes, fzm_dtype_nbytes(s->shape.dtype));
    }
    *out_nbytes = nbytes;
    return 0;
}

int fzm_decompress(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes,
                   int verify)
{
    memset(&ctx->err, 0, sizeof ctx->err);
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    const int code = decompress_chunk(ctx, in, in_nbytes, out, out_cap, out_nbytes, verify != 0);
    fzm_fpenv_leave(fpenv);
    fzm_arena_reset(&ctx->arena);
    return code;
}

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
