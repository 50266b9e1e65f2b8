/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitpack on the device: a block of 4096 elements in shared memory. W: word of an element, 32 bits or 64. */
#ifndef FZM_GPU_BITPACK_BLOCK_CUH
#define FZM_GPU_BITPACK_BLOCK_CUH

#include "../core/stage.h"
#include "../core/stages/bitpack.h"
#include "transpose.cuh"

enum {
    FZM_PACK_N_THREADS = 256,
    FZM_PACK_N_WARPS = FZM_PACK_N_THREADS / 32,
    FZM_PACK_SLOTS = FZM_BITPACK_BLOCK_ELEMS / 32 * 33,
};

template <typename W> struct fzm_pack_shared {
    W min[FZM_PACK_N_WARPS], max[FZM_PACK_N_WARPS], differing[FZM_PACK_N_WARPS];
    uint64_t base; /* 8-byte units before the block's payload */
};

/* Place of element i: neighbouring threads read elements up to 32 apart, in different banks. */
FZM_D uint32_t fzm_pack_slot(uint32_t i) { return i + i / 32; }

FZM_D void fzm_pack_reduce(uint32_t *min, uint32_t *max, uint32_t *differing)
{
    *min = __reduce_min_sync(FZM_FULL_WARP, *min);
    *max = __reduce_max_sync(FZM_FULL_WARP, *max);
    *differing = __reduce_or_sync(FZM_FULL_WARP, *differing);
}

FZM_D void fzm_pack_reduce(uint64_t *min, uint64_t *max, uint64_t *differing)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        const uint64_t less = __shfl_xor_sync(FZM_FULL_WARP, *min, d);
        const uint64_t more = __shfl_xor_sync(FZM_FULL_WARP, *max, d);
        *min = less < *min ? less : *min;
        *max = more > *max ? more : *max;
        *differing |= __shfl_xor_sync(FZM_FULL_WARP, *differing, d);
    }
}

/* All threads: how n > 0 elements become fields; their sign bits are flipped. */
template <typename W>
FZM_D struct fzm_bitpack_block fzm_pack_measure(const W *v, uint32_t n, struct fzm_pack_shared<W> *sh)
{
    __syncthreads();
    const W first = v[0];
    W min = first, max = first, differing = 0;
    for (uint32_t i = threadIdx.x; i < n; i += FZM_PACK_N_THREADS) {
        const W x = v[fzm_pack_slot(i)];
        min = x < min ? x : min;
        max = x > max ? x : max;
        differing |= x ^ first;
    }
    fzm_pack_reduce(&min, &max, &differing);
    if (threadIdx.x % 32 == 0) {
        sh->min[threadIdx.x / 32] = min;
        sh->max[threadIdx.x / 32] = max;
        sh->differing[threadIdx.x / 32] = differing;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < FZM_PACK_N_WARPS; i++) {
        min = sh->min[i] < min ? sh->min[i] : min;
        max = sh->max[i] > max ? sh->max[i] : max;
        differing |= sh->differing[i];
    }
    return fzm_bitpack_block_from(min, max, differing);
}

/* All threads: n_words words of the fields (v - minimum) >> shift, width bits each; 0 behind them. */
template <typename W>
FZM_D void fzm_pack_fields(const W *v, uint32_t n, uint32_t width, W minimum, uint32_t shift, uint32_t *out,
                           uint32_t n_words)
{
    for (uint32_t k = threadIdx.x; k < n_words; k += FZM_PACK_N_THREADS) {
        uint32_t i = 32 * k / width;
        const uint32_t passed = 32 * k - i * width;
        uint32_t word = 0, n_filled = width - passed;
        if (i < n)
            word = (uint32_t)((W)(v[fzm_pack_slot(i)] - minimum) >> shift >> passed);
        for (i++; n_filled < 32 && i < n; i++, n_filled += width)
            word |= (uint32_t)((W)(v[fzm_pack_slot(i)] - minimum) >> shift) << n_filled;
        out[k] = word;
    }
}

extern "C" int fzm_gpu_bitpack_inverse(struct fzm_call *c);

#endif
