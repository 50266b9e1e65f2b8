/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of bit planes on the device, 32-bit elements: Quantizer (linear, f32 to i32) -> AdaptiveLorenzo
 * (tiles of 4096, cost planes) -> Zigzag -> Bitshuffle -> RZE, and the same without a Quantizer and with
 * Negabinary; with the bytes of the CPU engine.
 *
 * All pointers are device pointers. Nothing allocates or synchronises; results are there when the stream
 * has got so far. Arrays have at most 2^30 elements. */
#ifndef FZM_GPU_FUSED_PLANES_CUH
#define FZM_GPU_FUSED_PLANES_CUH

#include "fused_fast.cuh"

#ifdef __cplusplus
extern "C" {
#endif

struct fzm_gpu_planes {
    const struct fzm_quantizer_params *quantizer; /* host memory; resolved, kind linear; NULL: lossless */
    const struct fzm_tiling *tiling;              /* host memory; tiles of 4096 */
    int geometry;            /* enum fzm_geometry, not auto */
    int is_float;            /* lossless: the elements are f32, else i32 or u32 */
    void *elems;             /* the array, 4-byte aligned; read only by forward */
    uint8_t *section;        /* 4-byte aligned, accessible in whole words; forward: room for its bound */
    uint64_t section_nbytes; /* inverse only */
    uint8_t *modes;          /* 2 bits per tile, n_tiles / 4 bytes rounded up */
    int32_t *origins;        /* n_tiles */
    uint32_t *mask;          /* forward with a quantizer only: 1 bit per element, whole 32-bit words */
    int mask_is_zero;        /* forward only: the caller has cleared mask */
    struct fzm_gpu_fast_result *result; /* 8-byte aligned */
    void *scratch;           /* forward: fzm_gpu_planes_scratch_nbytes(), 256-byte aligned, junk on entry */
};

size_t fzm_gpu_planes_scratch_nbytes(const struct fzm_tiling *tiling);

/* Bits of mask beyond the last element are 0. Origins of masked tiles are settled too. */
cudaError_t fzm_gpu_planes_forward(const struct fzm_gpu_planes *f, cudaStream_t stream);

/* Fills elems, outliers excepted; the section is untrusted, modes and origins may hold anything. */
cudaError_t fzm_gpu_planes_inverse(const struct fzm_gpu_planes *f, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
