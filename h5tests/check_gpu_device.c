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

/* One chunk in device memory against the CPU's stream. extra: room in the output beyond the bound. */
static void check_chunk(struct gpu_check *g, const fzm_pipeline *p, struct gpu_chunk *c, size_t extra, void *stream)
{
    struct device_buf in, out, back;
    size_t nbytes = 0, restored = 0;
    if (fzm_compress(g->cpu, p, &c->array, c->in, c->nbytes, c->stream, c->cap, &c->stream_nbytes) < 0)
        return;
    device_new(&in, c->nbytes, 0x11);
    device_new(&out, c->cap + extra, 0x22);
    device_new(&back, c->nbytes, 0x33);
    cudaMemcpy(in.data, c->in, c->nbytes, cudaMemcpyHostToDevice);
    const int code = fzm_compress_device(g->gpu, p, &c->array, in.data, c->nbytes, out.data, out.nbytes, &nbytes, stream);
    if (code == FZM_ERR_ENGINE && strstr(fzm_error_text(g->gpu), "does not run there")) {
        g->n_declined++;
    } else if (GPU_CHECK(code == 0, "%s: compressing gives %d (%s)", c->name, code, fzm_error_text(g->gpu))) {
        cudaStreamSynchronize(stream);
        cudaMemcpy(c->other, out.data, nbytes < c->cap ? nbytes : c->cap, cudaMemcpyDeviceToHost);
        GPU_CHECK(nbytes == c->stream_nbytes && memcmp(c->stream, c->other, nbytes) == 0, "%s: streams of %zu and %zu bytes differ",
                  c->name, c->stream_nbytes, nbytes);
        const int undone =
            fzm_decompress_device(g->gpu, out.data, nbytes, back.data, c->nbytes, &restored, 1, stream);
        cudaStreamSynchronize(stream);
        cudaMemcpy(c->out, back.data, c->nbytes, cudaMemcpyDeviceToHost);
        GPU_CHECK(undone == 0 && restored == c->nbytes &&
                      fzm_decompress(g->cpu, c->stream, c->stream_nbytes, c->expected, c->nbytes, &restored, 1) == 0 &&
                      memcmp(c->out, c->expected, c->nbytes) == 0,
                  "%s: restoring gives %d (%s)", c->name, undone, fzm_error_text(g->gpu));
    }
    GPU_CHECK(device_is_intact(&in, 0x11) && device_is_intact(&out, 0x22) && device_is_intact(&back, 0x33),
              "%s: written beyond a buffer", c->name);
    cudaFree(in.data);
    cudaFree(out.data);
    cudaFree(back.data);
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
    GPU_CHECK(fzm_compress_device(g->gpu, p, &c.array, in.data, c.nbytes - 1, out.data, c.cap, &nbytes, NULL) ==
                  FZM_ERR_ARGUMENT, "a size that does not fit the array");
    GPU_CHECK(fzm_compress_device(g->gpu, p, &c.array, in.data, c.nbytes, out.data + 4, c.cap, &nbytes, NULL) ==
                  FZM_ERR_ARGUMENT, "an unaligned output");
    c.array.big_endian = 1;
    GPU_CHECK(fzm_compress_device(g->gpu, p, &c.array, in.data, c.nbytes, out.data, c.cap, &nbytes, NULL) ==
                  FZM_ERR_UNSUPPORTED, "foreign byte order");
    GPU_CHECK(fzm_decompress_device(g->gpu, in.data, 5, out.data, c.cap, &nbytes, 1, NULL) == FZM_ERR_CORRUPT,
              "a stream of 5 zeros");
    cudaFree(in.data);
    cudaFree(out.data);
    fzm_pipeline_free(&p);
    gpu_chunk_free(&c);
}

void gpu_check_device_memory(struct gpu_check *g)
{
    static const int patterns[] = {PATTERN_SMOOTH, PATTERN_SPECIAL, PATTERN_RANDOM};
    char text[FZM_ERROR_TEXT_NBYTES];
    struct fzm_shape shape;
    cudaStream_t streams[2] = {NULL, NULL};
    GPU_CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking) == cudaSuccess, "a stream");
    for (size_t i = 0; fzm_preset(i); i++) {
        for (unsigned s = 0; pattern_shape(s, FZM_F32, &shape); s++) {
            fzm_pipeline *p = NULL;
            struct gpu_chunk c;
            if (g->is_quick && s % 4)
                continue;
            gpu_chunk_new(&c, &shape, patterns[s % 3], s);
            if (fzm_pipeline_from_preset(&p, fzm_preset(i)->number, s % 2 ? FZM_ABS : FZM_RANGE, 1e-3, text) == 0 &&
                fzm_pipeline_check(p, &c.array, text) == 0) {
                check_chunk(g, p, &c, 0, streams[s % 2]);
                check_chunk(g, p, &c, c.cap / 2 + 100000, streams[s % 2]); /* sections are made in place */
            }
            fzm_pipeline_free(&p);
            gpu_chunk_free(&c);
        }
    }
    check_errors(g);
    cudaStreamDestroy(streams[1]);
}
