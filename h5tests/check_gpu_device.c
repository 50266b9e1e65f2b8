/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine on arrays and streams in device memory, on streams of the caller. */
#include "check_gpu.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_NBYTES = 256 };

/* Device memory with a guard behind it, filled with one byte. */
struct device_buf {
    uint8_t *data;
    size_t nbytes;
};

static void device_new(struct device_buf *b, size_t nbytes, int byte)
{
    b->nbytes = nbytes;
    GPU_CHECK(cudaMalloc((void **)&b->data, nbytes + GUARD_NBYTES) == cudaSuccess &&
                  cudaMemset(b->data, byte, nbytes + GUARD_NBYTES) == cudaSuccess,
              "device memory of %zu bytes", nbytes);
}

static bool device_is_intact(const struct device_buf *b, int byte)
{
    uint8_t guard[GUARD_NBYTES];
    if (cudaMemcpy(guard, b->data + b->nbytes, sizeof guard, cudaMemcpyDeviceToHost) != cudaSuccess)
        return false;
    for (size_t i = 0; i < sizeof guard; i++)
        if (guard[i] != byte)
            return false;
    return true;
}

/* How a chunk lies in device memory: room of the stream's buffer beyond the bound, and bytes by which its array, the
 * stream that is restored, and the restored array are shifted off the alignment of cudaMalloc(). */
struct layout {
    size_t room, in_shift, stream_shift, out_shift;
};

/* Buffers of a chunk in device memory. again: a shifted copy of the stream. */
struct device_chunk {
    struct device_buf in, out, again, back;
};

static void restore(struct gpu_check *g, struct gpu_chunk *c, struct device_chunk *d, const struct layout *l,
                    size_t nbytes, void *stream)
{
    size_t restored = 0;
    uint8_t *const again = d->again.data + l->stream_shift, *const back = d->back.data + l->out_shift;
    cudaMemcpy(again, d->out.data, nbytes, cudaMemcpyDeviceToDevice);
    cudaDeviceSynchronize();
    const int undone = fzm_decompress_device(g->gpu, again, nbytes, back, c->nbytes, &restored, 1, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(c->out, back, c->nbytes, cudaMemcpyDeviceToHost);
    GPU_CHECK(undone == 0 && restored == c->nbytes &&
                  fzm_decompress(g->cpu, c->stream, c->stream_nbytes, c->expected, c->nbytes, &restored, 1) ==
                      0 &&
                  memcmp(c->out, c->expected, c->nbytes) == 0,
              "%s, shifts %zu and %zu: restoring gives %d (%s)", c->name, l->stream_shift, l->out_shift,
              undone, fzm_error_text(g->gpu));
}

/* One chunk in device memory against the CPU's stream. */
static void check_chunk(struct gpu_check *g, const fzm_pipeline *p, struct gpu_chunk *c,
                        const struct layout *l, void *stream)
{
    struct device_chunk d;
    size_t nbytes = 0;
    if (fzm_compress(g->cpu, p, &c->array, c->in, c->nbytes, c->stream, c->cap, &c->stream_nbytes) < 0)
        return;
    device_new(&d.in, c->nbytes + l->in_shift, 0x11);
    device_new(&d.out, c->cap + l->room, 0x22);
    device_new(&d.again, c->cap + l->stream_shift, 0x44);
    device_new(&d.back, c->nbytes + l->out_shift, 0x33);
    cudaMemcpy(d.in.data + l->in_shift, c->in, c->nbytes, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
    const int code = fzm_compress_device(g->gpu, p, &c->array, d.in.data + l->in_shift, c->nbytes, d.out.data,
                                         d.out.nbytes, &nbytes, stream);
    if (GPU_CHECK(code == 0 && nbytes <= c->cap, "%s, shift %zu: compressing gives %d (%s)", c->name,
                  l->in_shift, code, fzm_error_text(g->gpu))) {
        cudaStreamSynchronize(stream);
        cudaMemcpy(c->other, d.out.data, nbytes, cudaMemcpyDeviceToHost);
        GPU_CHECK(nbytes == c->stream_nbytes && memcmp(c->stream, c->other, nbytes) == 0,
                  "%s, shift %zu: streams of %zu and %zu bytes differ", c->name, l->in_shift,
                  c->stream_nbytes, nbytes);
        restore(g, c, &d, l, nbytes, stream);
    }
    GPU_CHECK(device_is_intact(&d.in, 0x11) && device_is_intact(&d.out, 0x22) &&
                  device_is_intact(&d.again, 0x44) && device_is_intact(&d.back, 0x33),
              "%s: written beyond a buffer", c->name);
    cudaFree(d.in.data);
    cudaFree(d.out.data);
    cudaFree(d.again.data);
    cudaFree(d.back.data);
}

static void check_errors(struct gpu_check *g)
{
    const struct fzm_shape shape = {FZM_F32, 1, {1, 1, 1, 10000}, 10000};
    char text[FZM_ERROR_TEXT_NBYTES];
    struct gpu_chunk c;
    struct device_buf in, out;
    fzm_pipeline *p = NULL;
    size_t nbytes;
    gpu_chunk_new(&c, &shape, PATTERN_SMOOTH, 3);
    device_new(&in, c.nbytes, 0);
    device_new(&out, c.cap, 0);
    if (fzm_pipeline_from_preset(&p, 1, FZM_ABS, 1e-3, text) < 0)
        abort();
    GPU_CHECK(fzm_compress_device(g->gpu, p, &c.array, in.data, c.nbytes - 1, out.data, c.cap, &nbytes,
                                  NULL) == FZM_ERR_ARGUMENT,
              "a size that does not fit the array");
    GPU_CHECK(fzm_compress_device(g->gpu, p, &c.array, in.data, c.nbytes, out.data + 4, c.cap, &nbytes,
                                  NULL) == FZM_ERR_ARGUMENT,
              "an unaligned output");
    c.array.big_endian = 1;
    GPU_CHECK(fzm_compress_device(g->gpu, p, &c.array, in.data, c.nbytes, out.data, c.cap, &nbytes, NULL) ==
                  FZM_ERR_UNSUPPORTED,
              "foreign byte order");
    GPU_CHECK(fzm_decompress_device(g->gpu, in.data, 5, out.data, c.cap, &nbytes, 1, NULL) == FZM_ERR_CORRUPT,
              "a stream of 5 zeros");
    cudaFree(in.data);
    cudaFree(out.data);
    fzm_pipeline_free(&p);
    gpu_chunk_free(&c);
}

static void check_array(struct gpu_check *g, const fzm_preset_info *preset, const struct fzm_shape *shape,
                        unsigned salt, void *stream)
{
    static const int patterns[] = {PATTERN_SMOOTH, PATTERN_SPECIAL, PATTERN_RANDOM};
    const size_t elem = fzm_dtype_nbytes(shape->dtype);
    char text[FZM_ERROR_TEXT_NBYTES];
    fzm_pipeline *p = NULL;
    struct gpu_chunk c;
    gpu_chunk_new(&c, shape, patterns[salt % 3], salt);
    /* with room, sections are made in place */
    const struct layout layouts[] = {{0, 0, 0, 0},
                                     {c.cap / 2 + 100000, 0, 0, 0},
                                     {0, elem, 1 + salt % 15, elem},
                                     {c.cap / 2 + 100000, 3 * elem, 4 * (salt % 4), 7 * elem}};
    const int mode = salt % 2 || !fzm_dtype_is_float(shape->dtype) ? FZM_ABS : FZM_RANGE;
    const double bound = fzm_dtype_is_float(shape->dtype) ? 1e-3 : 2;
    if (fzm_pipeline_from_preset(&p, preset->number, mode, bound, text) == 0 &&
        fzm_pipeline_check(p, &c.array, text) == 0)
        for (unsigned i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
            check_chunk(g, p, &c, &layouts[i], stream);
    fzm_pipeline_free(&p);
    gpu_chunk_free(&c);
}

void gpu_check_device_memory(struct gpu_check *g)
{
    static const int others[] = {FZM_F64, FZM_U8, FZM_I16, FZM_U32};
    struct fzm_shape shape;
    cudaStream_t streams[2] = {NULL, NULL};
    GPU_CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking) == cudaSuccess, "a stream");
    for (size_t i = 0; fzm_preset(i); i++)
        for (unsigned s = 0; pattern_shape(s, FZM_F32, &shape); s++) {
            if (g->is_quick && s % 4)
                continue;
            check_array(g, fzm_preset(i), &shape, s, streams[s % 2]);
            shape.dtype = (uint8_t)others[s % 4];
            check_array(g, fzm_preset(i), &shape, s + 1, streams[s % 2]);
        }
    check_errors(g);
    cudaStreamDestroy(streams[1]);
}
