/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast chain on the device, float32: Quantizer (linear, i32 codes) -> AdaptiveLorenzo (tiles of 256) ->
 * AdaptiveBitpack (blocks of 32), with the bytes of the CPU engine.
 *
 * All pointers are device pointers. Nothing allocates or synchronises; results are there when the stream
 * has got so far. Arrays have at most 2^30 elements. */
#ifndef FZM_GPU_FUSED_FAST_CUH
#define FZM_GPU_FUSED_FAST_CUH

#include <cuda_runtime_api.h>

#include "../core/stages/quantizer.h"
#include "../core/stages/tile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call has found; cleared by the call itself. */
struct fzm_gpu_fast_result {
    uint64_t section_nbytes; /* of the pack section */
    uint64_t n_outliers;
    uint32_t n_masked_tiles; /* tiles with outliers only */
    uint32_t corrupt;        /* inverse: not 0 if the section is damaged */
};

struct fzm_gpu_fast {
    const struct fzm_quantizer_params *quantizer; /* host memory; resolved, kind linear */
    const struct fzm_tiling *tiling;              /* host memory; tiles of 256 */
    int geometry;                                 /* enum fzm_geometry: 1d, 2d or 3d */
    float *elems;                                 /* the array, 4-byte aligned; read only by forward */
    uint8_t *section;       /* 4-byte aligned; forward: room for the bound of the section */
    uint64_t section_nbytes; /* inverse only */
    uint8_t *modes;         /* 2 bits per tile, n_tiles / 4 bytes rounded up */
    int32_t *origins;       /* n_tiles */
    uint32_t *mask;         /* forward only: 1 bit per element; whole 32-bit words, written as such */
    int in_range;           /* forward only: 1 (faster): no finite element is outside [lo, hi] */
    int mask_is_zero;       /* forward only: the caller has cleared mask */
    struct fzm_gpu_fast_result *result; /* 8-byte aligned */
    void *scratch;          /* fzm_gpu_fast_scratch_nbytes(), 256-byte aligned, junk on entry */
};

size_t fzm_gpu_fast_scratch_nbytes(const struct fzm_tiling *tiling);

/* Bits of mask beyond the last element are 0. Origins of masked tiles are settled too. */
cudaError_t fzm_gpu_fast_forward(const struct fzm_gpu_fast *f, cudaStream_t stream);

/* Fills elems, outliers excepted; the section is untrusted, modes and origins may hold anything. */
cudaError_t fzm_gpu_fast_inverse(const struct fzm_gpu_fast *f, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
