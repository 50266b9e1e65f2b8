/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between pageable host memory and the device. One thread fills pinned memory at a fifth of the bus's speed,
 * so all threads of the pool do, each with a stream and two pieces of its own. */
#include "engine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct fzm_gpu_engine *e;
    char *host, *device;
    size_t nbytes;
    bool is_upload;
    _Atomic int code; /* cudaError_t of the first failure */
};

static cudaError_t lane_init(struct fzm_gpu_lane *lane)
{
    cudaError_t code = cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking);
    for (int i = 0; i < 2 && code == cudaSuccess; i++) {
        code = cudaEventCreateWithFlags(&lane->done[i], cudaEventDisableTiming);
        if (code == cudaSuccess)
            code = cudaMallocHost((void **)&lane->half[i], FZM_GPU_PIECE_NBYTES);
    }
    return code;
}

void fzm_gpu_free_lanes(struct fzm_gpu_engine *e)
{
    for (unsigned k = 0; k < e->n_lanes; k++) {
        struct fzm_gpu_lane *const lane = &e->lanes[k];
        for (int i = 0; i < 2; i++) {
            cudaFreeHost(lane->half[i]);
            if (lane->done[i])
                cudaEventDestroy(lane->done[i]);
        }
        if (lane->stream)
            cudaStreamDestroy(lane->stream);
    }
    e->n_lanes = 0;
}

static cudaError_t copy_piece(struct job *j, size_t first, size_t nbytes, struct fzm_gpu_lane *lane)
{
    const unsigned k = lane->next;
    cudaError_t code = cudaSetDevice(j->e->device);
    lane->next = 1 - k;
    if (code == cudaSuccess && !lane->stream)
        code = lane_init(lane);
    if (code == cudaSuccess)
        code = cudaStreamWaitEvent(lane->stream, j->e->ready, 0);
    if (code == cudaSuccess)
        code = cudaEventSynchronize(lane->done[k]);
    if (code != cudaSuccess)
        return code;
    if (j->is_upload)
        memcpy(lane->half[k], j->host + first, nbytes);
    code = j->is_upload
               ? cudaMemcpyAsync(j->device + first, lane->half[k], nbytes, cudaMemcpyHostToDevice, lane->stream)
               : cudaMemcpyAsync(lane->half[k], j->device + first, nbytes, cudaMemcpyDeviceToHost, lane->stream);
    if (code == cudaSuccess)
        code = cudaEventRecord(lane->done[k], lane->stream);
    if (code != cudaSuccess || j->is_upload)
        return code;
    code = cudaEventSynchronize(lane->done[k]);
    if (code == cudaSuccess)
        memcpy(j->host + first, lane->half[k], nbytes);
    return code;
}

static void copy_task(void *arg, size_t task, unsigned worker)
{
    struct job *const j = arg;
    const size_t first = task * FZM_GPU_PIECE_NBYTES, left = j->nbytes - first;
    if (j->code != cudaSuccess)
        return;
    const cudaError_t code = copy_piece(j, first, left < FZM_GPU_PIECE_NBYTES ? left : FZM_GPU_PIECE_NBYTES,
                                        &j->e->lanes[worker]);
    if (code != cudaSuccess)
        j->code = (int)code;
}

static bool is_pinned(const void *host)
{
    struct cudaPointerAttributes a;
    if (cudaPointerGetAttributes(&a, host) == cudaSuccess)
        return a.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return false;
}

static int copy(fzm_ctx *ctx, char *host, char *device, size_t nbytes, bool is_upload)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    if (nbytes == 0)
        return 0;
    if (is_pinned(host)) {
        FZM_TRY(fzm_gpu_check(is_upload ? cudaMemcpyAsync(device, host, nbytes, cudaMemcpyHostToDevice, e->ops.stream)
                                        : cudaMemcpyAsync(host, device, nbytes, cudaMemcpyDeviceToHost, e->ops.stream),
                              "copy", &ctx->err));
        return is_upload ? 0 : fzm_gpu_check(cudaStreamSynchronize(e->ops.stream), "copy", &ctx->err);
    }
    const unsigned n_threads = fzm_pool_n_threads(ctx->pool);
    if (!e->lanes) {
        e->lanes = calloc(n_threads, sizeof *e->lanes);
        if (!e->lanes)
            return fzm_err_set(&ctx->err, FZM_ERR_MEMORY, "out of memory");
        e->n_lanes = n_threads;
    }
    struct job j = {e, host, device, nbytes, is_upload, cudaSuccess};
    FZM_TRY(fzm_gpu_check(cudaEventRecord(e->ready, e->ops.stream), "copy", &ctx->err));
    fzm_pool_run(ctx->pool, (size_t)fzm_div_up(nbytes, FZM_GPU_PIECE_NBYTES), copy_task, &j);
    FZM_TRY(fzm_gpu_check((cudaError_t)j.code, "copy", &ctx->err));
    for (unsigned k = 0; is_upload && k < n_threads; k++)
        for (int i = 0; i < 2 && e->lanes[k].stream; i++)
            FZM_TRY(fzm_gpu_check(cudaStreamWaitEvent(e->ops.stream, e->lanes[k].done[i], 0), "copy", &ctx->err));
    return 0;
}

int fzm_gpu_upload(fzm_ctx *ctx, void *device, const void *host, size_t nbytes)
{
    return copy(ctx, (char *)(uintptr_t)host, device, nbytes, true);
}

int fzm_gpu_download(fzm_ctx *ctx, void *host, const void *device, size_t nbytes)
{
    return copy(ctx, host, (char *)(uintptr_t)device, nbytes, false);
}
