/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveBitpack on the device: what encoder and decoder share. */
#ifndef FZM_GPU_ADAPTIVE_BITPACK_CUH
#define FZM_GPU_ADAPTIVE_BITPACK_CUH

extern "C" {
#include "../core/le.h"
#include "../core/stages.h"
#include "../core/stages/adaptive_bitpack.h"
#include "ops.h"
}

#include "bit_group.cuh"
#include "transpose.cuh"

enum { FZM_BITPACK_N_THREADS = 512 };

/* Widths of a super-tile, in shared memory. */
struct fzm_bitpack_tiles {
    uint64_t widths[FZM_BITPACK_SUPER_TILES];
    uint32_t first[FZM_BITPACK_SUPER_TILES]; /* planes before the tile */
    uint32_t n_planes;
};

/* One warp; each lane has the tiles lane and lane + 32. Sums of v over the tiles before, and over all; the
 * sum of 32 tiles must be below 65536. */
FZM_D void fzm_bitpack_tile_sums(const uint32_t v[2], uint32_t before[2], uint32_t *total)
{
    const unsigned lane = threadIdx.x & 31;
    uint32_t end = v[0] | v[1] << 16;
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, end, d);
        end += lane >= d ? other : 0;
    }
    const uint32_t all = __shfl_sync(FZM_FULL_WARP, end, 31);
    before[0] = (end & 0xffff) - v[0];
    before[1] = (end >> 16) + (all & 0xffff) - v[1];
    *total = (all & 0xffff) + (all >> 16);
}

/* One warp: sets the widths of the tiles lane and lane + 32. Returns the planes of all. */
FZM_D uint32_t fzm_bitpack_tiles_set(struct fzm_bitpack_tiles *t, const uint64_t w[2])
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t n[2] = {fzm_bitpack_widths_sum(w[0]), fzm_bitpack_widths_sum(w[1])};
    uint32_t first[2], total;
    fzm_bitpack_tile_sums(n, first, &total);
#pragma unroll
    for (int j = 0; j < 2; j++) {
        t->widths[lane + 32 * j] = w[j];
        t->first[lane + 32 * j] = first[j];
    }
    if (lane == 0)
        t->n_planes = total;
    return total;
}

/* Width of a block, and the planes before it. */
FZM_D uint32_t fzm_bitpack_tiles_get(const struct fzm_bitpack_tiles *t, uint32_t block, uint32_t *first)
{
    const uint32_t tile = block / FZM_BITPACK_TILE_BLOCKS, shift = block % FZM_BITPACK_TILE_BLOCKS * 8;
    const uint64_t w = t->widths[tile];
    *first = t->first[tile] + fzm_bitpack_widths_sum(w & (((uint64_t)1 << shift) - 1));
    return (uint32_t)(w >> shift) & 0xffu;
}

extern "C" int fzm_gpu_adaptive_bitpack_inverse(struct fzm_call *c);

#endif
