/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast chain, forward: arguments, shared memory, and the quantiser. One translation unit only. */
#ifndef FZM_GPU_FAST_ENCODE_CUH
#define FZM_GPU_FAST_ENCODE_CUH

#include "fused_fast.cuh"

#include "../core/stages/adaptive_bitpack.h"
#include "lookback.cuh"
#include "tile.cuh"

enum {
    N_WARPS = 8,
    WARP_TILES = 8,
    LAG = 480,           /* super-tiles from encoding to moving: a part of those that run at a time */
    RING_SLOTS = 1280,   /* more than LAG and all that run at a time */
    SLOT_HEAD = 256,     /* words of a slot: sizes, then map,
                         classes and rates from word 16 on; then planes */
    WARP_WORDS = WARP_TILES * 256, /* most words of the planes of a warp */
    SLOT_WORDS = SLOT_HEAD + N_WARPS * WARP_WORDS,
    STAGES = 3,          /* tiles of a warp on their way to shared memory, or there */
    ROW = 20,            /* words of a lane in the exchange buffer: 16 and padding against bank conflicts */
};

#define MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, found in the low bits */
#define MAX_FAST_CODE 2097152.0f

struct encode_args {
    struct fzm_tiling tiling;
    struct fzm_linear_f32 k;
    uint32_t pitch_y, pitch_z, n_tiles, n_super;
    uint32_t wide_loads; /* rows of tiles are whole and aligned to 16 bytes */
    uint32_t lag; /* LAG or n_super */
    uint32_t has_fill, fill;
    uint32_t in_range;
    const float *elems;
    uint8_t *section, *modes, *masked;
    int32_t *origins;
    uint32_t *mask;
    uint64_t *lookback;
    uint32_t *slots;
    struct fzm_gpu_fast_result *result;
};

struct encode_shared {
    float ring[N_WARPS][STAGES][256];
    uint32_t exchange[N_WARPS][32 * ROW];
    uint64_t widths[FZM_BITPACK_SUPER_TILES];
    uint32_t head[FZM_BITPACK_HEAD_NBYTES / 4 + 1];
    uint32_t warp_words[N_WARPS];
    int32_t origins[FZM_BITPACK_SUPER_TILES];
    uint32_t modes[N_WARPS], masked[N_WARPS]; /* 2 bits, 1 bit per tile */
    struct fzm_transpose transpose[32];
    uint32_t n_encoded; /* warps that are done with their tiles */
    /* Of the super-tile to be moved: its place, and how many warps have moved their part. */
    uint64_t base, base_known; /* base_known: an mbarrier */
    uint32_t n_moved;
};

/* What a warp's functions share. */
struct tile_state {
    uint32_t *exchange; /* of this warp */
    unsigned lane;
    const struct fzm_transpose *transpose; /* of this lane */
};

/* Copies a whole tile to shared memory, row-major, without waiting for it. Neighbouring tiles read the
 * other sectors of the lines soon. */
template <int G>
FZM_D void fetch_tile(const struct encode_args *a, uint32_t first, uint32_t to)
{
    const unsigned lane = threadIdx.x & 31;
    if (a->wide_loads) { /* 16 bytes a lane, twice */
        uint32_t offset = 4 * lane, step = 128;
        if (G == FZM_GEOMETRY_2D)
            offset = lane / 4 * a->pitch_y + lane % 4 * 4, step = 8 * a->pitch_y;
        if (G == FZM_GEOMETRY_3D)
            offset = lane / 16 * a->pitch_z + lane / 2 % 8 * a->pitch_y + lane % 2 * 4, step =
                2 * a->pitch_z;
        const float *const p = a->elems + (first + offset);
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                     ::"r"(to + 16 * lane), "l"(p) : "memory");
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                     ::"r"(to + 16 * lane + 512), "l"(p + step) : "memory");
    } else {
        const float *const p = a->elems + (first + fzm_lane_y<G>(lane,
                                                                 0) * a->pitch_y + fzm_lane_x<G>(lane, 0));
#pragma unroll
        for (unsigned b = 0; b < 8; b++)
            asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(to + 4 * lane + 128 * b),
                         "l"(p + fzm_block_offset<G>(b, a->pitch_y, a->pitch_z)) : "memory");
    }
}

/* Loads a tile with padding, which gets the value of the first element; to: the lane's word of block 0. */
template <int G>
FZM_D void load_part(const struct encode_args *a, uint32_t first, uint32_t extents,
                     uint32_t lane_offset, float *to)
{
    float x[8];
#pragma unroll
    for (unsigned b = 0; b < 8; b++) {
        const bool valid = fzm_lane_valid<G>(extents, threadIdx.x & 31, b);
        x[b] = a->elems[first + (valid ? lane_offset + fzm_block_offset<G>(b, a->pitch_y, a->pitch_z) : 0)];
    }
#pragma unroll
    for (unsigned b = 0; b < 8; b++)
        to[32 * b] = x[b];
}

/* Quantises by the definition, with outliers, padding and all; leaves code - origin in the exchange
 * buffer, word b of each lane. Returns the number of outliers, -1 if the tile has no good element. */
template <int G>
FZM_D int quantize_any(const struct encode_args *a, uint32_t *mine, uint32_t first,
                    uint32_t extents, int32_t *origin)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t lane_first = first + fzm_lane_y<G>(lane, 0) * a->pitch_y + fzm_lane_x<G>(lane, 0);
    int32_t last = 0, first_good = 0;
    unsigned n_leading = 256;
    int n_bad = 0;
#pragma unroll 1
    for (unsigned b = 0; b < 8; b++) {
        const bool valid = fzm_lane_valid<G>(extents, lane, b);
        const uint32_t i = lane_first + fzm_block_offset<G>(b, a->pitch_y, a->pitch_z);
        const float x = valid ? a->elems[i] : 0;
        int32_t code = 0;
        const bool good = valid && fzm_linear_f32_encode(&a->k, x, &code) &&
                          !(a->has_fill && __float_as_uint(x) == a->fill);
        const unsigned goods = __ballot_sync(FZM_FULL_WARP, good);
        if (valid && !good)
            atomicOr(&a->mask[i / 32], 1u << i % 32);
        n_bad += __popc(__ballot_sync(FZM_FULL_WARP, valid && !good));
        if (goods && n_leading == 256) {
            n_leading = 32 * b + __ffs(goods) - 1;
            last = first_good = __shfl_sync(FZM_FULL_WARP, code, __ffs(goods) - 1);
        }
        if (goods) {
            const unsigned before = goods & ((2u << lane) - 1);
            const int32_t nearest = __shfl_sync(FZM_FULL_WARP, code, before ? 31 - __clz(before) : 0);
            code = before ? nearest : last;
            last = __shfl_sync(FZM_FULL_WARP, code, 31);
        } else {
            code = last;
        }
        mine[b] = (uint32_t)code;
    }
#pragma unroll 1
    for (unsigned b = 0; b < 8; b++)
        mine[b] = 32 * b + lane < n_leading ? 0 : mine[b] - (uint32_t)first_good;
    *origin = first_good;
    return n_leading < 256 ? n_bad : -1 - n_bad;
}

/* Variants of the kernel: what a first try of the quantiser looks at. */
enum { NO_OFFSET, OFFSET, ALL_CHECKS };

/* Codes of a loaded whole tile, and whether each is right as far as the lane sees, if small. */
template <int KIND>
FZM_D bool quantize_small(const struct encode_args *a, const float x[8], float q[8])
{
    bool ok = true;
#pragma unroll
    for (int b = 0; b < 8; b++) {
        const float from = KIND == NO_OFFSET ? x[b] : x[b] - a->k.offset;
        q[b] = (from * a->k.inv_step + MAGIC) - MAGIC;
        const float on_grid = q[b] * a->k.step, y = KIND == NO_OFFSET ? on_grid : on_grid + a->k.offset;
        ok = ok && fabsf(x[b] - y) <= a->k.fast_max;
        if (KIND == ALL_CHECKS) {
            ok = ok && x[b] >= a->k.lo && x[b] <= a->k.hi;
            ok = ok && !(a->has_fill && __float_as_uint(x[b]) == a->fill);
        }
    }
    return ok;
}

/* Takes the second try where the first one was not good enough: q is words 0 to 7 of each lane in the
 * exchange buffer; that of outliers becomes NaN. */
static __device__ __noinline__ void retry_elems(const struct encode_args *a, const float *tile, float *mine)
{
#pragma unroll 1
    for (unsigned b = 0; b < 8; b++) {
        int32_t code;
        const float x = tile[32 * b + (threadIdx.x & 31)], q = mine[b];
        if (!(fabsf(x - fzm_linear_f32_decode(&a->k, q)) <= a->k.fast_max))
            mine[b] = fzm_linear_f32_retry(&a->k, x, q, &code) ? (float)code : __uint_as_float(0x7fffffffu);
        if (!(x >= a->k.lo && x <= a->k.hi) || (a->has_fill && __float_as_uint(x) == a->fill))
            mine[b] = __uint_as_float(0x7fffffffu);
    }
}

/* Codes of a tile in shared memory by both tries; whether all are right if they are small. */
template <int KIND>
FZM_D bool quantize(const struct encode_args *a, const struct tile_state *s, const float *tile,
                    float q[8])
{
    bool ok;
    {
        float x[8];
#pragma unroll
        for (int b = 0; b < 8; b++)
            x[b] = tile[32 * b + s->lane];
        ok = quantize_small<KIND>(a, x, q);
    }
    if (__all_sync(FZM_FULL_WARP, ok))
        return true;
    float *const mine = (float *)(void *)&s->exchange[s->lane * ROW];
    __syncwarp();
#pragma unroll
    for (int b = 0; b < 8; b++)
        mine[b] = q[b];
    retry_elems(a, tile, mine);
    ok = true;
#pragma unroll
    for (int b = 0; b < 8; b++) {
        q[b] = mine[b];
        ok = ok && q[b] == q[b];
    }
    __syncwarp();
    return ok;
}

#endif
