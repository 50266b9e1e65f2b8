/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the device of a context. No CUDA call is made before the first chunk that may go there, and none
 * in a child process of one that has made some. */
#include "engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The process that has used CUDA, 0: none; and whether its context is beyond repair. */
static _Atomic long cuda_pid;
static _Atomic int is_broken;

int fzm_gpu_check(cudaError_t code, const char *what, struct fzm_err *err)
{
    if (code == cudaSuccess)
        return 0;
    cudaGetLastError();
    if (code == cudaErrorMemoryAllocation)
        return fzm_err_set(err, FZM_ERR_MEMORY, "GPU: out of device memory (%s)", what);
    if (cudaDeviceSynchronize() != cudaSuccess)
        is_broken = 1;
    return fzm_err_set(err, FZM_ERR_ENGINE, "GPU: %s: %s", what, cudaGetErrorString(code));
}

/* CUDA in a child of a process that has used it cannot work. */
static int check_process(struct fzm_err *err)
{
    const long pid = (long)getpid();
    long none = 0;
    if (!atomic_compare_exchange_strong(&cuda_pid, &none, pid) && none != pid)
        return fzm_err_set(err, FZM_ERR_ENGINE,
                           "GPU: process %ld was forked from one that had used CUDA; start it before the first use, "
                           "or use engine cpu", pid);
    if (is_broken)
        return fzm_err_set(err, FZM_ERR_ENGINE, "GPU: an earlier error has made CUDA unusable in this process");
    return 0;
}

/* This process's rank on its node, from the launchers' variables; 0 without one. */
static int local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *const text = getenv(names[i]);
        char *end;
        const long rank = text ? strtol(text, &end, 10) : -1;
        if (text && *text && !*end && rank >= 0 && rank < 1 << 20)
            return (int)rank;
    }
    return 0;
}

static int choose_device(fzm_ctx *ctx, int *device)
{
    struct fzm_err *const err = &ctx->err;
    int n_devices = 0, driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return fzm_err_set(err, FZM_ERR_ENGINE, "GPU: no NVIDIA driver is loaded");
    const cudaError_t code = cudaGetDeviceCount(&n_devices);
    if (code == cudaErrorInsufficientDriver)
        return fzm_err_set(err, FZM_ERR_ENGINE, "GPU: the driver supports CUDA %d.%d, this build needs %d.%d or later",
                           driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (code != cudaSuccess || n_devices == 0) {
        cudaGetLastError();
        return fzm_err_set(err, FZM_ERR_ENGINE, "GPU: no device is visible (%s)",
                           code == cudaSuccess ? "none found" : cudaGetErrorString(code));
    }
    if (ctx->device >= n_devices)
        return fzm_err_set(err, FZM_ERR_ENGINE, "GPU: device %d was asked for (FZM_DEVICE or options), there are 0 to %d",
                           ctx->device, n_devices - 1);
    *device = ctx->device >= 0 ? ctx->device : local_rank() % n_devices;
    return 0;
}

static int init(struct fzm_gpu_engine *e, struct fzm_err *err)
{
    int has_pool = 0;
    FZM_TRY(fzm_gpu_check(cudaDeviceGetAttribute(&has_pool, cudaDevAttrMemoryPoolsSupported, e->device), "attributes", err));
    e->has_pool = has_pool != 0;
    FZM_TRY(fzm_gpu_check(cudaDeviceGetAttribute(&e->ops.n_multiprocessors, cudaDevAttrMultiProcessorCount, e->device),
                          "attributes", err));
    FZM_TRY(fzm_gpu_check(cudaStreamCreateWithFlags(&e->own_stream, cudaStreamNonBlocking), "stream", err));
    FZM_TRY(fzm_gpu_check(cudaEventCreateWithFlags(&e->ready, cudaEventDisableTiming), "event", err));
    FZM_TRY(fzm_gpu_check(cudaMalloc((void **)&e->words, FZM_GPU_N_WORDS * sizeof *e->words), "memory", err));
    FZM_TRY(fzm_gpu_check(cudaMallocHost((void **)&e->host_words, FZM_GPU_N_WORDS * sizeof *e->words + FZM_GPU_READ_NBYTES +
                                          FZM_GPU_HEADS_NBYTES),
                          "pinned memory", err));
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(e->words, 0, FZM_GPU_N_WORDS * sizeof *e->words, e->own_stream), "memory", err));
    FZM_TRY(fzm_gpu_check(cudaStreamSynchronize(e->own_stream), "memory", err));
    e->ops.corrupt = (uint32_t *)(void *)e->words;
    e->ops.stream = e->own_stream;
    return 0;
}

int fzm_gpu_open(fzm_ctx *ctx)
{
    int device = 0, callers_device = 0;
    FZM_TRY(check_process(&ctx->err));
    FZM_TRY(choose_device(ctx, &device));
    struct fzm_gpu_engine *const e = calloc(1, sizeof *e);
    if (!e)
        return fzm_err_set(&ctx->err, FZM_ERR_MEMORY, "out of memory");
    e->device = device;
    e->pid = getpid();
    ctx->gpu = &e->ops;
    int code = fzm_gpu_check(cudaGetDevice(&callers_device), "device", &ctx->err);
    if (code == 0)
        code = fzm_gpu_check(cudaSetDevice(device), "device", &ctx->err);
    if (code == 0)
        code = init(e, &ctx->err);
    cudaSetDevice(callers_device);
    if (code < 0)
        fzm_gpu_close(ctx);
    return code;
}

int fzm_gpu_enter(fzm_ctx *ctx, cudaStream_t stream, int *callers_device)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    FZM_TRY(check_process(&ctx->err));
    FZM_TRY(fzm_gpu_check(cudaGetDevice(callers_device), "device", &ctx->err));
    FZM_TRY(fzm_gpu_check(cudaSetDevice(e->device), "device", &ctx->err));
    e->ops.stream = stream;
    return 0;
}

void fzm_gpu_leave(fzm_ctx *ctx, int callers_device)
{
    (void)ctx;
    cudaSetDevice(callers_device);
}

void fzm_gpu_close(fzm_ctx *ctx)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    int callers_device = 0;
    if (e->pid == getpid() && !is_broken && cudaGetDevice(&callers_device) == cudaSuccess) {
        cudaSetDevice(e->device);
        e->ops.stream = e->own_stream;
        if (e->own_stream)
            cudaDeviceSynchronize();
        fzm_gpu_free_lanes(e);
        fzm_gpu_free_all(e);
        cudaFree(e->words);
        cudaFreeHost(e->host_words);
        if (e->ready)
            cudaEventDestroy(e->ready);
        if (e->own_stream)
            cudaStreamDestroy(e->own_stream);
        cudaSetDevice(callers_device);
    }
    free(e->blocks);
    free(e->lanes);
    free(e);
    ctx->gpu = NULL;
}
