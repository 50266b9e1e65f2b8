/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine as the graph walker and fzm_compress() see it. */
#include "engine.h"
#include "payload.h"

#include "../core/stages.h"

#include <string.h>

#define FZM_DECLARE_OPS(name) extern const struct fzm_gpu_ops fzm_gpu_ops_##name;
FZM_STAGES(FZM_DECLARE_OPS)
#define FZM_LIST_OPS(name) &fzm_gpu_ops_##name,
static const struct fzm_gpu_ops *const all_ops[] = {FZM_STAGES(FZM_LIST_OPS)};

extern const struct fzm_fused *const fzm_gpu_fused[]; /* fused.cu */

static const struct fzm_gpu_ops *ops_of(const struct fzm_stage *stage)
{
    for (size_t i = 0; i < sizeof all_ops / sizeof all_ops[0]; i++)
        if (all_ops[i]->stage == stage)
            return all_ops[i];
    return NULL;
}

/* ---- for ops ---- */

static struct fzm_gpu_engine *engine_of(struct fzm_gpu *gpu) { return (struct fzm_gpu_engine *)(void *)gpu; }

uint64_t *fzm_gpu_slot(struct fzm_gpu *gpu)
{
    struct fzm_gpu_engine *const e = engine_of(gpu);
    return e->n_slots < FZM_GPU_N_SLOTS ? &e->words[1 + e->n_slots++] : NULL;
}

static const uint8_t *find_known(const struct fzm_gpu_engine *e, const void *device, size_t nbytes)
{
    for (unsigned i = 0; i < e->n_known; i++) {
        const struct fzm_gpu_known *const k = &e->known[i];
        const size_t at = (size_t)((uintptr_t)device - (uintptr_t)k->device);
        if ((uintptr_t)device >= (uintptr_t)k->device && at <= k->nbytes && nbytes <= k->nbytes - at)
            return k->host + at;
    }
    return NULL;
}

int fzm_gpu_read(struct fzm_gpu *gpu, void *host, const void *device, size_t nbytes, struct fzm_err *err)
{
    struct fzm_gpu_engine *const e = engine_of(gpu);
    char *const pinned = (char *)(e->host_words + FZM_GPU_N_WORDS);
    const bool fits = nbytes <= FZM_GPU_READ_NBYTES;
    const uint8_t *const known = find_known(e, device, nbytes);
    if (known) {
        memcpy(host, known, nbytes);
        return 0;
    }
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(fits ? pinned : host, device, nbytes, cudaMemcpyDeviceToHost, gpu->stream), "read",
                          err));
    FZM_TRY(fzm_gpu_check(cudaStreamSynchronize(gpu->stream), "read", err));
    if (fits)
        memcpy(host, pinned, nbytes);
    return 0;
}

/* ---- for the walker ---- */

static void touch(fzm_ctx *ctx, const void *data, size_t nbytes) { (void)ctx, (void)data, (void)nbytes; }

static size_t scratch(fzm_ctx *ctx, const struct fzm_stage *stage, const void *params, const struct fzm_shape *in)
{
    (void)ctx;
    const struct fzm_gpu_ops *const ops = ops_of(stage);
    return ops->scratch ? ops->scratch(params, in) : 0;
}

static int resolve(const struct fzm_stage *stage, void *params, const struct fzm_call *c)
{
    return ops_of(stage)->resolve(params, c);
}

static int inverse_nbytes(const struct fzm_stage *stage, const struct fzm_call *c, size_t *in_nbytes)
{
    return ops_of(stage)->inverse_nbytes(c, in_nbytes);
}

static int forward(const struct fzm_stage *stage, struct fzm_call *c) { return ops_of(stage)->forward(c); }
static int inverse(const struct fzm_stage *stage, struct fzm_call *c) { return ops_of(stage)->inverse(c); }

int fzm_gpu_settle(fzm_ctx *ctx)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    const size_t nbytes = (1 + e->n_slots) * sizeof *e->words;
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(e->host_words, e->words, nbytes, cudaMemcpyDeviceToHost, e->ops.stream), "run",
                          &ctx->err));
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(e->words, 0, nbytes, e->ops.stream), "run", &ctx->err));
    FZM_TRY(fzm_gpu_check(cudaStreamSynchronize(e->ops.stream), "run", &ctx->err));
    e->n_slots = 0;
    if (e->host_words[0] & FZM_GPU_DAMAGED_PAYLOAD)
        return fzm_err_set(&ctx->err, FZM_ERR_CORRUPT, "stream payload does not match its checksum");
    if (e->host_words[0])
        return fzm_err_set(&ctx->err, FZM_ERR_CORRUPT, "a section of the stream is damaged");
    return 0;
}

static uint64_t pending_nbytes(fzm_ctx *ctx, const uint64_t *pending)
{
    const struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    return e->host_words[pending - e->words];
}

static int get(fzm_ctx *ctx, void **data, size_t nbytes)
{
    *data = fzm_gpu_get(ctx, nbytes);
    if (!*data)
        return fzm_err_set(&ctx->err, FZM_ERR_MEMORY, "GPU: out of device memory (%zu bytes)", nbytes);
    return 0;
}

/* The first section of the first run of a chunk. The header's length is that of the params as they are now, and what
 * params that later stages settle have added to the last one. Should that be wrong, move_misplaced() puts it right. */
static void *place(fzm_ctx *ctx, const struct fzm_stream *s, unsigned node, unsigned port, size_t nbytes)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    struct fzm_stream copy = *s;
    struct fzm_header header;
    struct fzm_err err = {0};
    if (e->is_placed || fzm_stream_list_sections(&copy, &err) < 0 || copy.sections[0].node != node ||
        copy.sections[0].port != port || fzm_stream_make_header(&copy, &header, SIZE_MAX, &err) < 0)
        return NULL;
    const size_t header_nbytes = copy.header_nbytes + e->header_growth;
    if (!e->out) {
        const size_t bound = fzm_shape_nbytes(&s->shape) + FZM_MAX_OVERHEAD_NBYTES, room = nbytes + FZM_MAX_HEADER_NBYTES + 16;
        e->out_cap = room > bound ? room : bound;
        e->out = fzm_gpu_get(ctx, e->out_cap);
    }
    /* ops may write whole words at the end */
    if (!e->out || e->out_cap < header_nbytes || e->out_cap - header_nbytes < nbytes + 16)
        return NULL;
    e->is_placed = true;
    e->header_nbytes = copy.header_nbytes;
    return e->out + header_nbytes;
}

/* Takes a section out of the way of a stream in which it would lie elsewhere. */
static int move_misplaced(fzm_ctx *ctx, struct fzm_stream *s)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    struct fzm_section *const first = &s->sections[0];
    const uintptr_t at = (uintptr_t)first->data, begin = (uintptr_t)e->out;
    void *data;
    if (first->nbytes == 0 || at < begin || at - begin >= e->out_cap || at - begin == s->header_nbytes)
        return 0;
    FZM_TRY(get(ctx, &data, (size_t)first->nbytes));
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(data, first->data, (size_t)first->nbytes, cudaMemcpyDeviceToDevice, e->ops.stream),
                          "payload", &ctx->err));
    first->data = (const uint8_t *)data;
    return 0;
}

static int write_stream(fzm_ctx *ctx, struct fzm_stream *s, void *out, size_t out_cap, size_t *out_nbytes)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    uint64_t *const hash = e->words + FZM_GPU_N_WORDS - 1;
    struct fzm_header header;
    struct fzm_gpu_parts parts = {0};
    struct fzm_gpu_header head;
    uint64_t end = 0;
    void *data;
    if (!e->out) {
        e->out_cap = fzm_shape_nbytes(&s->shape) + FZM_MAX_OVERHEAD_NBYTES;
        FZM_TRY(get(ctx, &data, e->out_cap));
        e->out = data;
    }
    out = e->out;
    FZM_TRY(fzm_stream_make_header(s, &header, out_cap, &ctx->err));
    if (e->is_placed)
        e->header_growth = s->header_nbytes > e->header_nbytes ? s->header_nbytes - e->header_nbytes : 0;
    FZM_TRY(move_misplaced(ctx, s));
    for (unsigned i = 0; i < s->n_sections; i++) {
        if (s->sections[i].nbytes == 0)
            continue;
        end += s->sections[i].nbytes;
        parts.data[parts.n] = s->sections[i].data;
        parts.end[parts.n++] = end;
    }
    head.nbytes = (uint32_t)s->header_nbytes;
    head.hash_at = (uint32_t)header.hash_at;
    memcpy(head.bytes, header.bytes, s->header_nbytes);
    FZM_TRY(fzm_gpu_check(fzm_gpu_payload_gather(&parts, (uint8_t *)out + s->header_nbytes, hash, e->ops.stream), "payload",
                          &ctx->err));
    FZM_TRY(fzm_gpu_check(fzm_gpu_payload_head(&head, out, hash, e->ops.stream), "header", &ctx->err));
    *out_nbytes = s->header_nbytes + (size_t)s->payload_nbytes;
    return 0;
}

static const struct fzm_backend fzm_gpu_backend = {
    .name = "gpu",
    .get = fzm_gpu_get,
    .touch = touch,
    .put = fzm_gpu_put,
    .place = place,
    .scratch = scratch,
    .resolve = resolve,
    .inverse_nbytes = inverse_nbytes,
    .forward = forward,
    .inverse = inverse,
    .fused = fzm_gpu_fused,
    .settle = fzm_gpu_settle,
    .pending_nbytes = pending_nbytes,
    .write = write_stream,
};

/* ---- whole chunks ---- */

/* A failed run leaves slots behind that nobody has read. */
static void finish(fzm_ctx *ctx, int code)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    if (code < 0) {
        e->n_slots = 0;
        cudaMemsetAsync(e->words, 0, FZM_GPU_N_WORDS * sizeof *e->words, e->ops.stream);
        cudaStreamSynchronize(e->ops.stream);
        cudaGetLastError();
    }
    e->n_known = 0;
    fzm_gpu_reset(ctx);
}

static void set_out(fzm_ctx *ctx, void *out, size_t out_cap)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    e->out = out;
    e->out_cap = out_cap;
    e->is_placed = false;
}

static int compress_host(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                         size_t *out_nbytes)
{
    const size_t in_nbytes = fzm_shape_nbytes(&chunk->shape);
    void *device_in;
    FZM_TRY(get(ctx, &device_in, in_nbytes));
    set_out(ctx, NULL, 0);
    FZM_TRY(fzm_gpu_upload(ctx, device_in, in, in_nbytes));
    const int code = fzm_compress_on(ctx, &fzm_gpu_backend, chunk, device_in, NULL, in_nbytes + FZM_MAX_OVERHEAD_NBYTES,
                                     out_nbytes);
    if (code != 0)
        return code;
    if (*out_nbytes > out_cap)
        return fzm_err_set(&ctx->err, FZM_ERR_CAPACITY, "stream of %zu bytes does not fit into %zu", *out_nbytes, out_cap);
    return fzm_gpu_download(ctx, out, fzm_gpu_of(ctx)->out, *out_nbytes);
}

static int compress(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                    size_t *out_nbytes)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, fzm_gpu_of(ctx)->own_stream, &device));
    const int code = compress_host(ctx, chunk, in, out, out_cap, out_nbytes);
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
}

static int compress_device(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                           size_t *out_nbytes, void *stream)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, (cudaStream_t)stream, &device));
    set_out(ctx, out, out_cap);
    int code = fzm_compress_on(ctx, &fzm_gpu_backend, chunk, in, out, out_cap, out_nbytes);
    if (code == 1)
        code = fzm_write_stored(ctx, &fzm_gpu_backend, chunk, in, out, out_cap, out_nbytes);
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
}

/* The inverse run of a stream whose payload is in device memory. */
static int run_inverse(fzm_ctx *ctx, struct fzm_stream *s, const uint8_t *payload, void *out, bool verify)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    const uint8_t *p = payload;
    if (verify)
        FZM_TRY(fzm_gpu_check(fzm_gpu_payload_verify(payload, s->payload_nbytes, s->payload_hash,
                                                     e->words + FZM_GPU_N_WORDS - 1, e->ops.corrupt,
                                                     FZM_GPU_DAMAGED_PAYLOAD, e->ops.stream), "payload", &ctx->err));
    for (unsigned i = 0; i < s->n_sections; i++) {
        s->sections[i].data = p;
        p += s->sections[i].nbytes;
    }
    if (!s->stored)
        return fzm_run_inverse(ctx, &fzm_gpu_backend, s, out);
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(out, payload, (size_t)s->payload_nbytes, cudaMemcpyDeviceToDevice, e->ops.stream),
                          "copy", &ctx->err));
    return fzm_gpu_settle(ctx);
}

static int decompress_host(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out, bool verify)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    const size_t nbytes = fzm_shape_nbytes(&s->shape);
    void *device_in, *device_out;
    FZM_TRY(get(ctx, &device_in, in_nbytes));
    FZM_TRY(get(ctx, &device_out, nbytes));
    FZM_TRY(fzm_gpu_upload(ctx, device_in, in, in_nbytes));
    e->known[0] = (struct fzm_gpu_known){device_in, in, in_nbytes};
    e->n_known = 1;
    FZM_TRY(run_inverse(ctx, s, (const uint8_t *)device_in + s->header_nbytes, device_out, verify));
    return fzm_gpu_download(ctx, out, device_out, nbytes);
}

static int decompress(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out, bool verify)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, fzm_gpu_of(ctx)->own_stream, &device));
    const int code = decompress_host(ctx, s, in, in_nbytes, out, verify);
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
}

/* Fetches what the stages ask of their sections, which is in front, in one go. */
static int read_section_heads(fzm_ctx *ctx, const struct fzm_stream *s, const uint8_t *payload)
{
    enum { HEAD_NBYTES = 64 };
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    uint8_t *const pinned = (uint8_t *)(e->host_words + FZM_GPU_N_WORDS) + FZM_GPU_READ_NBYTES;
    for (unsigned i = 1; i < s->n_sections; i++) {
        const uint64_t nbytes = s->sections[i].nbytes;
        struct fzm_gpu_known *const k = &e->known[e->n_known];
        payload += s->sections[i - 1].nbytes;
        if (nbytes == 0)
            continue;
        *k = (struct fzm_gpu_known){payload, pinned + HEAD_NBYTES * e->n_known, nbytes < HEAD_NBYTES ? nbytes : HEAD_NBYTES};
        FZM_TRY(fzm_gpu_check(cudaMemcpyAsync((void *)(uintptr_t)k->host, payload, k->nbytes, cudaMemcpyDeviceToHost,
                                              e->ops.stream), "read", &ctx->err));
        e->n_known++;
    }
    return e->n_known ? fzm_gpu_check(cudaStreamSynchronize(e->ops.stream), "read", &ctx->err) : 0;
}

static int decompress_there(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes,
                            bool verify)
{
    struct fzm_stream *const s = &ctx->stream;
    uint8_t header[FZM_MAX_HEADER_NBYTES];
    const size_t front = in_nbytes < sizeof header ? in_nbytes : sizeof header;
    FZM_TRY(fzm_gpu_read(ctx->gpu, header, in, front, &ctx->err));
    FZM_TRY(fzm_stream_read(s, header, in_nbytes, &ctx->err));
    const size_t nbytes = fzm_shape_nbytes(&s->shape);
    if (nbytes > out_cap)
        return fzm_err_set(&ctx->err, FZM_ERR_CAPACITY, "chunk of %zu bytes does not fit into %zu", nbytes, out_cap);
    if (s->big_endian && fzm_dtype_nbytes(s->shape.dtype) > 1)
        return fzm_err_set(&ctx->err, FZM_ERR_UNSUPPORTED, "device memory: elements must be in the host's byte order");
    if ((uintptr_t)out % fzm_dtype_nbytes(s->shape.dtype) != 0)
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "device memory: out must be aligned to its elements");
    FZM_TRY(read_section_heads(ctx, s, (const uint8_t *)in + s->header_nbytes));
    FZM_TRY(run_inverse(ctx, s, (const uint8_t *)in + s->header_nbytes, out, verify));
    *out_nbytes = nbytes;
    return 0;
}

static int decompress_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                             size_t *out_nbytes, bool verify, void *stream)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, (cudaStream_t)stream, &device));
    const int code = decompress_there(ctx, in, in_nbytes, out, out_cap, out_nbytes, verify);
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
}

static const struct fzm_gpu_class the_class = {
    .open = fzm_gpu_open,
    .close = fzm_gpu_close,
    .memory_nbytes = fzm_gpu_memory_nbytes,
    .compress = compress,
    .decompress = decompress,
    .compress_device = compress_device,
    .decompress_device = decompress_device,
};

const struct fzm_gpu_class *const fzm_gpu_class = &the_class;
