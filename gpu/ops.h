/* SPDX-License-Identifier: BSD-3-Clause */
/* What the GPU engine has of a stage: the device twins of the functions in struct fzm_stage, with the same
 * results to the last bit. The engine (engine.cu) owns streams and memory; ops only enqueue work.
 *
 * In a call all in[].data, out[].data and scratch are device pointers: 256-byte aligned, except @input and
 * stored sections, which may have any alignment (the elements of @input are aligned to their own size).
 * A buffer can be read and written up to the next multiple of 16 bytes beyond its cap, except @input and the
 * array that is rebuilt. params, shapes and fill are in host memory and valid during the call only. */
#ifndef FZM_GPU_OPS_H
#define FZM_GPU_OPS_H

#include <cuda_runtime_api.h>

#include "../core/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The engine, as ops see it: call->gpu. */
struct fzm_gpu {
    cudaStream_t stream;
    int n_multiprocessors;
    uint32_t *corrupt; /* device word, 0 at the start of a run: inverse ops set it when a section is damaged */
};

/* forward() enqueues the work. An output whose size the device decides gets out[j].pending = fzm_gpu_slot(),
 * a device word that its kernels fill with nbytes, and out[j].nbytes = 0; all others get out[j].nbytes. Words are
 * 0 at the start of a run. NULL: no slot is left (never happens with fewer than FZM_GPU_N_SLOTS). */
enum { FZM_GPU_N_SLOTS = 256 };
uint64_t *fzm_gpu_slot(struct fzm_gpu *gpu);

/* Copies to host memory in stream order and waits: for resolve() and inverse_nbytes(). */
int fzm_gpu_read(struct fzm_gpu *gpu, void *host, const void *device, size_t nbytes, struct fzm_err *err);

/* 0, or FZM_ERR_ENGINE with the CUDA error's text. Call it on cudaGetLastError() after launches. */
int fzm_gpu_check(cudaError_t code, const char *what, struct fzm_err *err);

struct fzm_gpu_ops {
    const struct fzm_stage *stage;

    /* Bytes of device scratch for forward and inverse (and resolve). NULL: none. */
    size_t (*scratch)(const void *params, const struct fzm_shape *in);

    /* As in struct fzm_stage, but may wait for the device. NULL if the stage has none. */
    int (*resolve)(void *params, const struct fzm_call *c);
    int (*inverse_nbytes)(const struct fzm_call *c, size_t *in_nbytes);

    /* Enqueue only. in[].nbytes are settled. inverse() reads untrusted bytes: as in struct fzm_stage, and what
     * it finds damaged sets *gpu->corrupt instead of returning FZM_ERR_CORRUPT. */
    int (*forward)(struct fzm_call *c);
    int (*inverse)(struct fzm_call *c);
};

/* Rows of one kind: X.cu defines fzm_gpu_ops_X, see core/stages.h for the list of X. */

#ifdef __cplusplus
}
#endif
#endif
