/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of the adaptive predictor, elements of any width: a team of threads holds a tile, each thread 8
 * neighbours along x in registers. Teams of tiles of 256 are warps and exchange by shuffles; those of
 * tiles of 4096 are blocks of 512 threads and exchange through shared memory.
 *
 * W is the unsigned element, BIG tells the size of the tiles. What every thread of a team calls has "team"
 * in its name. */
#ifndef FZM_GPU_ADAPTIVE_LORENZO_CUH
#define FZM_GPU_ADAPTIVE_LORENZO_CUH

#include "../core/stages/adaptive_bitpack.h"
#include "../core/stages/adaptive_lorenzo.h"
#include "../core/stages/zigzag.h"
#include "quantizer_load.cuh"

enum { FZM_RUN = 8, FZM_TEAM_MAX_WARPS = 16 };

template <bool BIG> struct fzm_team {
    static constexpr unsigned n_threads = BIG ? 512 : 32, per_block = BIG ? 1 : 8;
    static constexpr unsigned n_elems = n_threads * FZM_RUN;
};

/* Shared memory of a block; teams that are warps use nothing of it. */
template <typename W, bool BIG> struct fzm_team_shared {
    W exchange[FZM_RUN][BIG ? 512 : 1];
    W ends[FZM_TEAM_MAX_WARPS], firsts[FZM_TEAM_MAX_WARPS], origin;
    bool any[FZM_TEAM_MAX_WARPS];
    uint32_t costs[4][FZM_TEAM_MAX_WARPS];
};

template <bool BIG> FZM_D void fzm_team_sync()
{
    if (BIG)
        __syncthreads();
}

/* A thread's place in its tile. */
struct fzm_team_place {
    unsigned thread, x, y, z, n_valid; /* elements of the run that are not padding come first */
    uint64_t index;                    /* of the run's first element in the array */
};

/* As fzm_tiling_at(), with 32-bit divisions where these do. */
FZM_D struct fzm_tile_at fzm_team_tile_at(const struct fzm_tiling &t, uint64_t tile)
{
    uint64_t tx, ty, tz;
    const uint64_t rest = fzm_divide(tile, t.grid[2], &tx), rest2 = fzm_divide(rest, t.grid[1], &ty);
    const uint64_t batch = fzm_divide(rest2, t.grid[0], &tz);
    const uint64_t z = tz * t.tile[0], y = ty * t.tile[1], x = tx * t.tile[2];
    struct fzm_tile_at at;
    at.first = ((batch * t.dims[0] + z) * t.dims[1] + y) * t.dims[2] + x;
    at.extent[0] = (uint32_t)(t.dims[0] - z < t.tile[0] ? t.dims[0] - z : t.tile[0]);
    at.extent[1] = (uint32_t)(t.dims[1] - y < t.tile[1] ? t.dims[1] - y : t.tile[1]);
    at.extent[2] = (uint32_t)(t.dims[2] - x < t.tile[2] ? t.dims[2] - x : t.tile[2]);
    return at;
}

template <bool BIG> FZM_D struct fzm_team_place fzm_team_place_of(const struct fzm_tiling &t, uint64_t tile)
{
    const struct fzm_tile_at at = fzm_team_tile_at(t, tile);
    struct fzm_team_place p;
    p.thread = BIG ? threadIdx.x : threadIdx.x & 31;
    const unsigned shift_x = __ffs(t.tile[2]) - 1, shift_y = __ffs(t.tile[1]) - 1; /* powers of two */
    const unsigned row = p.thread * FZM_RUN >> shift_x;
    p.x = p.thread * FZM_RUN & (t.tile[2] - 1);
    p.y = row & (t.tile[1] - 1);
    p.z = row >> shift_y;
    p.n_valid =
        p.y < at.extent[1] && p.z < at.extent[0] && p.x < at.extent[2] ? min(at.extent[2] - p.x, 8u) : 0;
    p.index = at.first + (p.z * t.dims[1] + p.y) * t.dims[2] + p.x;
    return p;
}

/* Registers of the thread `off` below, 0 where there is none. */
template <typename W, bool BIG, int N>
FZM_D void fzm_team_below(const W (&r)[N], W (&below)[N], unsigned off, bool there,
                          struct fzm_team_shared<W, BIG> *sh)
{
    if (BIG) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < N; k++)
            sh->exchange[k][threadIdx.x] = r[k];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < N; k++)
            below[k] = there ? sh->exchange[k][threadIdx.x - off] : (W)0;
    } else {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const W v = (W)__shfl_sync(0xffffffffu, r[k], (threadIdx.x - off) & 31);
            below[k] = there ? v : (W)0;
        }
    }
}

/* r minus what is one step below it along x, y or z. */
template <typename W, bool BIG>
FZM_D void fzm_team_difference_x(W (&r)[FZM_RUN], const struct fzm_team_place &p,
                                 struct fzm_team_shared<W, BIG> *sh)
{
    const W end[1] = {r[FZM_RUN - 1]};
    W before[1];
    fzm_team_below<W, BIG, 1>(end, before, 1, p.x > 0, sh);
#pragma unroll
    for (int k = FZM_RUN - 1; k > 0; k--)
        r[k] = (W)(r[k] - r[k - 1]);
    r[0] = (W)(r[0] - before[0]);
}

template <typename W, bool BIG>
FZM_D void fzm_team_difference_yz(W (&r)[FZM_RUN], unsigned off, bool there,
                                  struct fzm_team_shared<W, BIG> *sh)
{
    W below[FZM_RUN];
    fzm_team_below<W, BIG, FZM_RUN>(r, below, off, there, sh);
#pragma unroll
    for (int k = 0; k < FZM_RUN; k++)
        r[k] = (W)(r[k] - below[k]);
}

/* From the residuals of a mode to those of the next one. */
template <typename W, bool BIG>
FZM_D void fzm_team_next_mode(W (&r)[FZM_RUN], unsigned mode, const struct fzm_tiling &t,
                              const struct fzm_team_place &p, struct fzm_team_shared<W, BIG> *sh)
{
    if (mode == 1 || (mode == 2 && t.tile[1] == 1))
        fzm_team_difference_x<W, BIG>(r, p, sh);
    else if (mode == 2)
        fzm_team_difference_yz<W, BIG>(r, t.tile[2] / FZM_RUN, p.y > 0, sh);
    else
        fzm_team_difference_yz<W, BIG>(r, t.tile[2] * t.tile[1] / FZM_RUN, p.z > 0, sh);
#pragma unroll
    for (unsigned k = 0; k < FZM_RUN; k++)
        r[k] = k < p.n_valid ? r[k] : (W)0;
}

FZM_D uint8_t fzm_negabinary_of(uint8_t x) { return fzm_negabinary_encode8(x); }
FZM_D uint16_t fzm_negabinary_of(uint16_t x) { return fzm_negabinary_encode16(x); }
FZM_D uint32_t fzm_negabinary_of(uint32_t x) { return fzm_negabinary_encode32(x); }
FZM_D uint64_t fzm_negabinary_of(uint64_t x) { return fzm_negabinary_encode64(x); }

/* Cost of the 256 residuals of a warp. A block of 32 elements is held by 4 lanes. */
template <typename W> FZM_D uint32_t fzm_warp_cost(const W (&r)[FZM_RUN], int cost)
{
    const unsigned lane = threadIdx.x & 31;
    W any = 0, folded = 0;
    if (cost == FZM_TILE_COST_PLANES) {
#pragma unroll
        for (int k = 0; k < FZM_RUN; k++)
            any |= fzm_negabinary_of(r[k]);
        return 8 * __reduce_add_sync(0xffffffffu, (unsigned)__popcll((unsigned long long)any));
    }
#pragma unroll
    for (int k = 0; k < FZM_RUN; k++) {
        any |= r[k];
        folded |= (W)(r[k] ^ (W)(0 - (r[k] >> (8 * sizeof(W) - 1))));
    }
    for (int d = 1; d < 4; d *= 2) {
        any |= (W)__shfl_xor_sync(0xffffffffu, any, d);
        folded |= (W)__shfl_xor_sync(0xffffffffu, folded, d);
    }
    const uint32_t width = fzm_bitpack_width(any, folded) << (lane / 4 % 4 * 8);
    const uint32_t low = __reduce_or_sync(0xffffffffu, lane < 16 ? width : 0);
    const uint32_t high = __reduce_or_sync(0xffffffffu, lane < 16 ? 0 : width);
    return fzm_bitpack_tile_cost64(low | (uint64_t)high << 32, 32);
}

template <typename W, bool BIG>
FZM_D uint32_t fzm_team_cost(const W (&r)[FZM_RUN], int cost, unsigned mode,
                             struct fzm_team_shared<W, BIG> *sh)
{
    const uint32_t own = fzm_warp_cost<W>(r, cost);
    if (!BIG)
        return own;
    if ((threadIdx.x & 31) == 0)
        sh->costs[mode][threadIdx.x / 32] = own;
    __syncthreads();
    return __reduce_add_sync(0xffffffffu,
                             (threadIdx.x & 31) < FZM_TEAM_MAX_WARPS ? sh->costs[mode][threadIdx.x & 15] : 0);
}

/* Residuals of the cheapest mode of a tile of values relative to the origin (padding 0), its mode and its
 * cost. */
struct fzm_team_choice {
    unsigned mode;
    uint32_t cost_nbits;
};

template <typename W, bool BIG>
FZM_D struct fzm_team_choice fzm_team_choose(W (&r)[FZM_RUN], W (&best)[FZM_RUN], int cost,
                                             const struct fzm_tiling &t, const struct fzm_team_place &p,
                                             struct fzm_team_shared<W, BIG> *sh)
{
    const unsigned n_modes = fzm_tile_n_modes(&t);
    struct fzm_team_choice choice = {0, 0xffffffffu};
    for (unsigned mode = 0; mode < n_modes; mode++) {
        if (mode > 0)
            fzm_team_next_mode<W, BIG>(r, mode, t, p, sh);
        const uint32_t nbits = fzm_team_cost<W, BIG>(r, cost, mode, sh);
        if (nbits < choice.cost_nbits) {
            choice.mode = mode;
            choice.cost_nbits = nbits;
#pragma unroll
            for (int k = 0; k < FZM_RUN; k++)
                best[k] = r[k];
        }
    }
    return choice;
}

/* Sums along y or z, n threads that lie off apart; at: the coordinate. */
template <typename W, bool BIG>
FZM_D void fzm_team_sum_yz(W (&r)[FZM_RUN], unsigned n, unsigned off, unsigned at,
                           struct fzm_team_shared<W, BIG> *sh)
{
    for (unsigned d = 1; d < n; d *= 2) {
        W below[FZM_RUN];
        fzm_team_below<W, BIG, FZM_RUN>(r, below, d * off, at >= d, sh);
#pragma unroll
        for (int k = 0; k < FZM_RUN; k++)
            r[k] = (W)(r[k] + below[k]);
    }
}

/* Sums along rows of nx elements. */
template <typename W, bool BIG>
FZM_D void fzm_team_sum_x(W (&r)[FZM_RUN], unsigned nx, struct fzm_team_shared<W, BIG> *sh)
{
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32, width = min(nx / FZM_RUN, 32u);
#pragma unroll
    for (int k = 1; k < FZM_RUN; k++)
        r[k] = (W)(r[k] + r[k - 1]);
    W end = r[FZM_RUN - 1];
    for (unsigned d = 1; d < width; d *= 2) {
        const W below = (W)__shfl_up_sync(0xffffffffu, end, d);
        end = (W)(end + ((lane & (width - 1)) >= d ? below : (W)0));
    }
    W before = (W)(end - r[FZM_RUN - 1]);
    if (BIG && nx > 32 * FZM_RUN) {
        __syncthreads();
        if (lane == 31)
            sh->ends[warp] = end;
        __syncthreads();
        for (unsigned i = 0; i < warp; i++)
            before = (W)(before + sh->ends[i]);
    }
#pragma unroll
    for (int k = 0; k < FZM_RUN; k++)
        r[k] = (W)(r[k] + before);
}

/* Residuals of a mode to values relative to the origin. */
template <typename W, bool BIG>
FZM_D void fzm_team_restore(W (&r)[FZM_RUN], unsigned mode, const struct fzm_tiling &t,
                            const struct fzm_team_place &p, struct fzm_team_shared<W, BIG> *sh)
{
    const unsigned nx = t.tile[2], ny = t.tile[1];
    if (mode >= 3)
        fzm_team_sum_yz<W, BIG>(r, t.tile[0], nx * ny / FZM_RUN, p.z, sh);
    if (mode >= 2 && ny > 1)
        fzm_team_sum_yz<W, BIG>(r, ny, nx / FZM_RUN, p.y, sh);
    if (mode >= 1)
        fzm_team_sum_x<W, BIG>(r, nx, sh);
    if (mode == 2 && ny == 1)
        fzm_team_sum_x<W, BIG>(r, nx, sh);
}

/* Float bits as integers that order like the values, and back. */
FZM_D uint8_t fzm_ordered_bits(uint8_t b) { return b; }
FZM_D uint16_t fzm_ordered_bits(uint16_t b) { return b; }
FZM_D uint32_t fzm_ordered_bits(uint32_t b) { return (uint32_t)fzm_ordered_i32((int32_t)b); }
FZM_D uint64_t fzm_ordered_bits(uint64_t b) { return (uint64_t)fzm_ordered_i64((int64_t)b); }

/* The run's bits of a mask; reads no byte that holds none of them. */
FZM_D unsigned fzm_run_mask(const uint8_t *mask, uint64_t index, unsigned n)
{
    const unsigned shift = (unsigned)(index % 8);
    unsigned bits = n ? mask[index / 8] : 0;
    if (shift + n > 8)
        bits |= (unsigned)mask[index / 8 + 1] << 8;
    return bits >> shift & ((1u << n) - 1);
}

/* Masked elements (bad) take the last good value before them in the tile, leading ones the first good value.
 * Returns whether there is one in the tile. */
template <typename W, bool BIG>
FZM_D bool fzm_team_fill(W (&v)[FZM_RUN], unsigned bad, unsigned n_valid, struct fzm_team_shared<W, BIG> *sh)
{
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32, good = ~bad & ((1u << n_valid) - 1);
    W first = 0, last = 0;
#pragma unroll
    for (int k = 0; k < FZM_RUN; k++) {
        first = good >> k & 1 && !(good & ((1u << k) - 1)) ? v[k] : first;
        last = good >> k & 1 ? v[k] : last;
    }
    const unsigned lanes = __ballot_sync(0xffffffffu, good != 0), below = lanes & ((1u << lane) - 1);
    W carry = (W)__shfl_sync(0xffffffffu, last, below ? 31 - __clz(below) : 0);
    W warp_first = (W)__shfl_sync(0xffffffffu, first, lanes ? __ffs(lanes) - 1 : 0);
    const W warp_last = (W)__shfl_sync(0xffffffffu, last, lanes ? 31 - __clz(lanes) : 0);
    bool found = lanes != 0, has_carry = below != 0;
    if (BIG) {
        __syncthreads();
        if (lane == 0) {
            sh->any[warp] = lanes != 0;
            sh->firsts[warp] = warp_first;
            sh->ends[warp] = warp_last;
        }
        __syncthreads();
        found = false;
        for (int i = FZM_TEAM_MAX_WARPS - 1; i >= 0; i--) {
            if (!sh->any[i])
                continue;
            if (i < (int)warp && !has_carry) {
                carry = sh->ends[i];
                has_carry = true;
            }
            warp_first = sh->firsts[i];
            found = true;
        }
    }
    carry = has_carry ? carry : warp_first;
#pragma unroll
    for (int k = 0; k < FZM_RUN; k++) {
        carry = good >> k & 1 ? v[k] : carry;
        v[k] = bad >> k & 1 ? carry : v[k];
    }
    return found;
}

/* Value of the tile's first element. */
template <typename W, bool BIG> FZM_D W fzm_team_origin(W first, struct fzm_team_shared<W, BIG> *sh)
{
    if (!BIG)
        return (W)__shfl_sync(0xffffffffu, first, 0);
    __syncthreads();
    if (threadIdx.x == 0)
        sh->origin = first;
    __syncthreads();
    return sh->origin;
}

#endif
