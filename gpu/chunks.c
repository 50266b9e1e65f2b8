/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole chunks on the GPU engine, from and to host and device memory. */
#include "engine.h"
#include "payload.h"

#include <string.h>

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

/* To a stream in host memory. Returns 1 if the stored form would not be longer. */
static int compress_to_host(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                            size_t *out_nbytes)
{
    set_out(ctx, NULL, 0);
    const int code = fzm_compress_on(ctx, &fzm_gpu_backend, chunk, in, NULL,
                                     fzm_shape_nbytes(&chunk->shape) + FZM_MAX_OVERHEAD_NBYTES, out_nbytes);
    if (code != 0)
        return code;
    if (*out_nbytes > out_cap)
        return fzm_err_set(&ctx->err, FZM_ERR_CAPACITY, "stream of %zu bytes does not fit into %zu", *out_nbytes, out_cap);
    return fzm_gpu_download(ctx, out, fzm_gpu_of(ctx)->out, *out_nbytes);
}

static int compress_host(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                         size_t *out_nbytes)
{
    const size_t in_nbytes = fzm_shape_nbytes(&chunk->shape);
    void *device_in;
    FZM_TRY(fzm_gpu_take(ctx, &device_in, in_nbytes));
    FZM_TRY(fzm_gpu_upload(ctx, device_in, in, in_nbytes));
    return compress_to_host(ctx, chunk, device_in, out, out_cap, out_nbytes);
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

/* Leaves the fill value out of a copy of the chunk if the array is not padded with it. */
static int settle_fill(fzm_ctx *ctx, struct fzm_chunk *chunk, const void *in)
{
    const size_t elem_nbytes = fzm_dtype_nbytes(chunk->shape.dtype), nbytes = fzm_shape_nbytes(&chunk->shape);
    uint8_t first[8], last[8];
    if (!chunk->fill_is_padding || nbytes == 0)
        return 0;
    FZM_TRY(fzm_gpu_read(ctx->gpu, first, in, elem_nbytes, &ctx->err));
    FZM_TRY(fzm_gpu_read(ctx->gpu, last, (const uint8_t *)in + nbytes - elem_nbytes, elem_nbytes, &ctx->err));
    if (memcmp(first, chunk->fill, elem_nbytes) != 0 && memcmp(last, chunk->fill, elem_nbytes) != 0)
        chunk->fill = NULL;
    return 0;
}

static int compress_there(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                          size_t *out_nbytes)
{
    struct fzm_chunk settled = *chunk;
    FZM_TRY(settle_fill(ctx, &settled, in));
    set_out(ctx, out, out_cap);
    const int code = fzm_compress_on(ctx, &fzm_gpu_backend, &settled, in, out, out_cap, out_nbytes);
    return code == 1 ? fzm_write_stored(ctx, &fzm_gpu_backend, &settled, in, out, out_cap, out_nbytes) : code;
}

static int compress_device(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                           size_t *out_nbytes, void *stream)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, (cudaStream_t)stream, &device));
    const int code = compress_there(ctx, chunk, in, out, out_cap, out_nbytes);
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
}

static int compress_across(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                           size_t *out_nbytes)
{
    struct fzm_chunk settled = *chunk;
    FZM_TRY(settle_fill(ctx, &settled, in));
    const int code = compress_to_host(ctx, &settled, in, out, out_cap, out_nbytes);
    if (code != 1)
        return code;
    set_out(ctx, NULL, 0);
    FZM_TRY(fzm_write_stored(ctx, &fzm_gpu_backend, &settled, in, NULL, out_cap, out_nbytes));
    return fzm_gpu_download(ctx, out, fzm_gpu_of(ctx)->out, *out_nbytes);
}

static int compress_from_device(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                                size_t *out_nbytes)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, fzm_gpu_of(ctx)->own_stream, &device));
    const int code = compress_across(ctx, chunk, in, out, out_cap, out_nbytes);
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

/* Of a stream in host memory to an array in device memory, enqueued. */
static int decompress_from_host(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out,
                                bool verify)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    void *device_in;
    FZM_TRY(fzm_gpu_take(ctx, &device_in, in_nbytes));
    FZM_TRY(fzm_gpu_upload(ctx, device_in, in, in_nbytes));
    e->known[0] = (struct fzm_gpu_known){device_in, in, in_nbytes};
    e->n_known = 1;
    return run_inverse(ctx, s, (const uint8_t *)device_in + s->header_nbytes, out, verify);
}

static int decompress_host(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out, bool verify)
{
    const size_t nbytes = fzm_shape_nbytes(&s->shape);
    void *device_out;
    FZM_TRY(fzm_gpu_take(ctx, &device_out, nbytes));
    FZM_TRY(decompress_from_host(ctx, s, in, in_nbytes, device_out, verify));
    return fzm_gpu_download(ctx, out, device_out, nbytes);
}

static int wait_for(fzm_ctx *ctx, int code)
{
    return code < 0 ? code : fzm_gpu_check(cudaStreamSynchronize(ctx->gpu->stream), "run", &ctx->err);
}

static int decompress_to_device(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out,
                                bool verify)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, fzm_gpu_of(ctx)->own_stream, &device));
    const int code = wait_for(ctx, decompress_from_host(ctx, s, in, in_nbytes, out, verify));
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
}

static int copy_to_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out)
{
    int device = 0;
    FZM_TRY(fzm_gpu_enter(ctx, fzm_gpu_of(ctx)->own_stream, &device));
    const int code = wait_for(ctx, fzm_gpu_upload(ctx, out, in, in_nbytes));
    finish(ctx, code);
    fzm_gpu_leave(ctx, device);
    return code;
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
    FZM_TRY(fzm_device_check_out(ctx, s, out, out_cap));
    FZM_TRY(read_section_heads(ctx, s, (const uint8_t *)in + s->header_nbytes));
    FZM_TRY(run_inverse(ctx, s, (const uint8_t *)in + s->header_nbytes, out, verify));
    *out_nbytes = fzm_shape_nbytes(&s->shape);
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
    .compress_from_device = compress_from_device,
    .decompress_to_device = decompress_to_device,
    .copy_to_device = copy_to_device,
};

const struct fzm_gpu_class *const fzm_gpu_class = &the_class;
