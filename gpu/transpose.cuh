/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposing a 32 x 32 bit matrix held as one word per lane. */
#ifndef FZM_GPU_TRANSPOSE_CUH
#define FZM_GPU_TRANSPOSE_CUH

#include <stdint.h>

#ifndef FZM_D
#define FZM_D static __device__ __forceinline__
#endif

#define FZM_FULL_WARP 0xffffffffu

/* The lane's part in the exchanges. Keeping it in registers saves recomputing it for every word. */
struct __align__(16) fzm_transpose {
    uint32_t select_16, select_8;      /* byte permutations */
    uint32_t keep_4, keep_2, keep_1;   /* bits that stay */
    uint32_t rotate_4, rotate_2, rotate_1;
};

FZM_D struct fzm_transpose fzm_transpose_init(unsigned lane)
{
    struct fzm_transpose t;
    t.select_16 = lane & 16 ? 0x3276u : 0x5410u;
    t.select_8 = lane & 8 ? 0x3715u : 0x6240u;
    t.keep_4 = lane & 4 ? 0xf0f0f0f0u : 0x0f0f0f0fu;
    t.keep_2 = lane & 2 ? 0xccccccccu : 0x33333333u;
    t.keep_1 = lane & 1 ? 0xaaaaaaaau : 0x55555555u;
    t.rotate_4 = lane & 4 ? 28 : 4;
    t.rotate_2 = lane & 2 ? 30 : 2;
    t.rotate_1 = lane & 1 ? 31 : 1;
    return t;
}

/* Reads a copy in shared memory, 16-byte aligned, each time anew: saves registers. */
FZM_D struct fzm_transpose fzm_transpose_load(const struct fzm_transpose *p)
{
    struct fzm_transpose t;
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t.select_16), "=r"(t.select_8), "=r"(t.keep_4), "=r"(t.keep_2) : "r"(at));
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t.keep_1), "=r"(t.rotate_4), "=r"(t.rotate_2), "=r"(t.rotate_1) : "r"(at + 16));
    return t;
}

FZM_D uint32_t fzm_transpose_round(uint32_t v, unsigned distance, uint32_t keep,
                                   uint32_t rotate)
{
    const uint32_t other = __shfl_xor_sync(FZM_FULL_WARP, v, distance);
    return (v & keep) | (__funnelshift_l(other, other, rotate) & ~keep);
}

/* Bit j of the result on lane i is bit i of v on lane j. */
FZM_D uint32_t fzm_transpose_32x32(const struct fzm_transpose &t, uint32_t v)
{
    v = __byte_perm(v, __shfl_xor_sync(FZM_FULL_WARP, v, 16), t.select_16);
    v = __byte_perm(v, __shfl_xor_sync(FZM_FULL_WARP, v, 8), t.select_8);
    v = fzm_transpose_round(v, 4, t.keep_4, t.rotate_4);
    v = fzm_transpose_round(v, 2, t.keep_2, t.rotate_2);
    return fzm_transpose_round(v, 1, t.keep_1, t.rotate_1);
}

#endif
