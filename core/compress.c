/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression and decompression of whole chunks, on whichever engine. */
#include "ctx.h"

#include "choice.h"
#include "cpu/fpenv.h"
#include "shape.h"

#include <string.h>

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

static int run_pipeline(fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s,
                        const struct fzm_pipeline *p, const struct fzm_chunk *chunk, const void *in)
{
    memset(s, 0, sizeof *s);
    s->shape = chunk->shape;
    s->big_endian = chunk->big_endian;
    s->mode = p->mode;
    s->bound = p->bound;
    s->graph = p->graph;
    s->original = &p->graph;
    fzm_graph_inherit_bound(&s->graph, p->mode, p->bound);
    return fzm_run_forward(ctx, backend, s, in, chunk->fill);
}

/* Runs the pipeline, and the lossless one where the bound asks for exact values or where the lossy
 * stream saves less than a quarter. Leaves the smaller one in ctx->stream. */
static int run_best(fzm_ctx *ctx, const struct fzm_backend *backend, const struct fzm_chunk *chunk, const void *in)
{
    const struct fzm_pipeline *const pipeline = chunk->pipeline;
    const size_t in_nbytes = fzm_shape_nbytes(&chunk->shape);
    const bool lossy = has_lossy_stage(&pipeline->graph);
    int code = 1;
    if (!lossy || pipeline->bound > 0)
        code = run_pipeline(ctx, backend, &ctx->stream, pipeline, chunk, in);
    if (code < 0)
        return code;
    if (!lossy || (code == 0 && sections_nbytes(&ctx->stream) < in_nbytes - in_nbytes / 4))
        return 0;
    FZM_TRY(run_pipeline(ctx, backend, &ctx->candidate, &ctx->lossless, chunk, in));
    if (code == 1 || sections_nbytes(&ctx->candidate) < sections_nbytes(&ctx->stream))
        ctx->stream = ctx->candidate;
    return 0;
}

int fzm_compress_on(fzm_ctx *ctx, const struct fzm_backend *backend, const struct fzm_chunk *chunk, const void *in,
                    void *out, size_t out_cap, size_t *out_nbytes)
{
    const size_t in_nbytes = fzm_shape_nbytes(&chunk->shape);
    if (in_nbytes == 0)
        return 1;
    FZM_TRY(run_best(ctx, backend, chunk, in));
    if (sections_nbytes(&ctx->stream) >= in_nbytes)
        return 1;
    const int code = backend->write(ctx, &ctx->stream, out, out_cap, out_nbytes);
    if (code == 0 && *out_nbytes < in_nbytes)
        return 0;
    if (code != 0 && code != FZM_ERR_CAPACITY)
        return code;
    ctx->err.code = 0;
    return 1;
}

int fzm_write_stored(fzm_ctx *ctx, const struct fzm_backend *backend, const struct fzm_chunk *chunk, const void *in,
                     void *out, size_t out_cap, size_t *out_nbytes)
{
    struct fzm_stream *const s = &ctx->stream;
    memset(s, 0, sizeof *s);
    s->shape = chunk->shape;
    s->big_endian = chunk->big_endian;
    s->stored = true;
    s->n_sections = 1;
    s->sections[0].data = in;
    s->sections[0].nbytes = fzm_shape_nbytes(&chunk->shape);
    return backend->write(ctx, s, out, out_cap, out_nbytes);
}

static bool has_fill(int kind, const void *in, size_t in_nbytes, const uint8_t *fill, size_t elem_nbytes)
{
    const uint8_t *const first = in, *const last = first + in_nbytes - elem_nbytes;
    return in_nbytes > 0 &&
           (kind == FZM_FILL_VALUE || (kind == FZM_FILL_PADDING && (memcmp(first, fill, elem_nbytes) == 0 ||
                                                                    memcmp(last, fill, elem_nbytes) == 0)));
}

/* A call of fzm_compress() or fzm_decompress(). */
struct job {
    fzm_ctx *ctx;
    struct fzm_chunk chunk; /* compression */
    uint8_t fill[8];
    const void *in; /* compression: in host byte order */
    size_t in_nbytes;
    void *out;
    size_t out_cap, *out_nbytes;
    bool verify;
};

/* The chunk as the engines take it: in host byte order, swapped into ctx->arena if need be. */
static int make_chunk(struct job *j, const fzm_pipeline *pipeline, const fzm_array *array)
{
    fzm_ctx *const ctx = j->ctx;
    struct fzm_chunk *const chunk = &j->chunk;
    FZM_TRY(fzm_shape_from_array(&chunk->shape, array, &ctx->err));
    if (j->in_nbytes != fzm_shape_nbytes(&chunk->shape))
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "chunk has %zu bytes, its type and shape need %zu", j->in_nbytes,
                           fzm_shape_nbytes(&chunk->shape));
    const size_t elem_nbytes = fzm_dtype_nbytes(chunk->shape.dtype);
    chunk->pipeline = pipeline;
    chunk->big_endian = array->big_endian && elem_nbytes > 1;
    memcpy(j->fill, array->fill, sizeof j->fill);
    if (chunk->big_endian) {
        void *const swapped = fzm_arena_get(&ctx->arena, j->in_nbytes);
        if (!swapped)
            return fzm_err_set(&ctx->err, FZM_ERR_MEMORY, "out of memory (%zu bytes of scratch)", j->in_nbytes);
        fzm_arena_touch(&ctx->arena, swapped, j->in_nbytes);
        swap_bytes(swapped, j->in, j->in_nbytes, elem_nbytes);
        swap_in_place(j->fill, elem_nbytes, elem_nbytes);
        j->in = swapped;
    }
    chunk->fill = has_fill(array->has_fill, j->in, j->in_nbytes, j->fill, elem_nbytes) ? j->fill : NULL;
    return 0;
}

static int compress_on_cpu(void *arg)
{
    struct job *const j = arg;
    return fzm_compress_on(j->ctx, &fzm_cpu_backend, &j->chunk, j->in, j->out, j->out_cap, j->out_nbytes);
}

static int compress_on_gpu(void *arg)
{
    struct job *const j = arg;
    return fzm_gpu_class->compress(j->ctx, &j->chunk, j->in, j->out, j->out_cap, j->out_nbytes);
}

static int decompress_on_cpu(void *arg)
{
    struct job *const j = arg;
    if (j->verify)
        FZM_TRY(fzm_stream_verify(&j->ctx->stream, j->in, j->ctx->pool, &j->ctx->err));
    return fzm_run_inverse(j->ctx, &fzm_cpu_backend, &j->ctx->stream, j->out);
}

static int decompress_on_gpu(void *arg)
{
    struct job *const j = arg;
    return fzm_gpu_class->decompress(j->ctx, &j->ctx->stream, j->in, j->in_nbytes, j->out, j->verify);
}

static int compress_chunk(struct job *j, const fzm_pipeline *pipeline, const fzm_array *array)
{
    const void *const stored = j->in;
    FZM_TRY(make_chunk(j, pipeline, array));
    const struct fzm_way way = {compress_on_cpu, compress_on_gpu, FZM_COMPRESS, j->in_nbytes, &pipeline->graph, j};
    const int code = fzm_choice_run(j->ctx, &way);
    if (code != 1)
        return code;
    return fzm_write_stored(j->ctx, &fzm_cpu_backend, &j->chunk, stored, j->out, j->out_cap, j->out_nbytes);
}

int fzm_compress(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in, size_t in_nbytes,
                 void *out, size_t out_cap, size_t *out_nbytes)
{
    struct job j = {.ctx = ctx, .in = in, .in_nbytes = in_nbytes, .out = out, .out_cap = out_cap, .out_nbytes = out_nbytes};
    memset(&ctx->err, 0, sizeof ctx->err);
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    const int code = compress_chunk(&j, pipeline, array);
    fzm_fpenv_leave(fpenv);
    fzm_arena_reset(&ctx->arena);
    return code;
}

static int decompress_chunk(struct job *j)
{
    fzm_ctx *const ctx = j->ctx;
    struct fzm_stream *const s = &ctx->stream;
    FZM_TRY(fzm_stream_read(s, j->in, j->in_nbytes, &ctx->err));
    const size_t nbytes = fzm_shape_nbytes(&s->shape);
    if (nbytes > j->out_cap)
        return fzm_err_set(&ctx->err, FZM_ERR_CAPACITY, "chunk of %zu bytes does not fit into %zu", nbytes, j->out_cap);
    if (s->stored) {
        if (j->verify)
            FZM_TRY(fzm_stream_verify(s, j->in, ctx->pool, &ctx->err));
        memcpy(j->out, (const uint8_t *)j->in + s->header_nbytes, nbytes);
    } else {
        const struct fzm_way way = {decompress_on_cpu, decompress_on_gpu, FZM_DECOMPRESS, nbytes, &s->graph, j};
        FZM_TRY(fzm_choice_run(ctx, &way));
        if (s->big_endian)
            swap_in_place(j->out, nbytes, fzm_dtype_nbytes(s->shape.dtype));
    }
    *j->out_nbytes = nbytes;
    return 0;
}

int fzm_decompress(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes,
                   int verify)
{
    struct job j = {.ctx = ctx, .in = in, .in_nbytes = in_nbytes, .out = out, .out_cap = out_cap,
                    .out_nbytes = out_nbytes, .verify = verify != 0};
    memset(&ctx->err, 0, sizeof ctx->err);
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    const int code = decompress_chunk(&j);
    fzm_fpenv_leave(fpenv);
    fzm_arena_reset(&ctx->arena);
    return code;
}
