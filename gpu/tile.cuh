/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of 256 elements in a warp: lane = element of a block of 32, register = block.
 *
 * Two blocks b and b + 4 (3-D: planes z and z + 2) may share a 32-bit register as 16-bit halves; b is the
 * low half. Geometry G is an enum fzm_geometry. */
#ifndef FZM_GPU_TILE_CUH
#define FZM_GPU_TILE_CUH

#include <cuda_fp16.h>

#include "../core/stages/tile.h"
#include "transpose.cuh"

/* Lanes of a row of x, and modes of the adaptive predictor. */
template <int G> struct fzm_geo {
    static constexpr unsigned row = G == FZM_GEOMETRY_1D ? 32 : G == FZM_GEOMETRY_2D ? 16 : 8;
    static constexpr unsigned n_modes = G == FZM_GEOMETRY_3D ? 4 : 3;
    /* struct fzm_warp_tile's extents of a tile without padding. */
    static constexpr uint32_t whole = G == FZM_GEOMETRY_1D ? 0x100ff : G == FZM_GEOMETRY_2D ? 0x10f0f
        : 0x40707;
    /* The second axis steps by this many lanes; lanes below take their predecessor from another block. */
    static constexpr unsigned step = G == FZM_GEOMETRY_1D ? 1 : row;
};

/* Place of a lane's element of block b in the array, from the tile's first one; z, y in the tile. */
template <int G> FZM_D uint32_t fzm_lane_z(unsigned b) { return G == FZM_GEOMETRY_3D ? b / 2 : 0; }

template <int G> FZM_D uint32_t fzm_lane_y(unsigned lane, unsigned b)
{
    return G == FZM_GEOMETRY_3D ? b % 2 * 4 + lane / 8 : G == FZM_GEOMETRY_2D ? b * 2 + lane / 16 : 0;
}

template <int G> FZM_D uint32_t fzm_lane_x(unsigned lane, unsigned b)
{
    return G == FZM_GEOMETRY_1D ? b * 32 + lane : lane % fzm_geo<G>::row;
}

/* Elements from block 0 to block b of the same lane. */
template <int G> FZM_D uint32_t fzm_block_offset(unsigned b, uint32_t pitch_y, uint32_t pitch_z)
{
    if (G == FZM_GEOMETRY_3D)
        return b / 2 * pitch_z + b % 2 * (4 * pitch_y);
    return G == FZM_GEOMETRY_2D ? b * (2 * pitch_y) : b * 32;
}

/* A tile as the kernels see it. extents: z, y - 1, x - 1 in bits 16.., 8.., 0..; whole: no padding. */
struct fzm_warp_tile {
    uint32_t first, extents;
    bool whole;
};

FZM_D struct fzm_warp_tile fzm_warp_tile_at(const struct fzm_tiling &t, uint32_t tile)
{
    const uint32_t gx = (uint32_t)t.grid[2], gy = (uint32_t)t.grid[1], gz = (uint32_t)t.grid[0];
    const uint32_t dx = (uint32_t)t.dims[2], dy = (uint32_t)t.dims[1], dz = (uint32_t)t.dims[0];
    const uint32_t rest = tile / gx, tx = tile - rest * gx;
    const uint32_t rest2 = rest / gy, ty = rest - rest2 * gy;
    const uint32_t batch = rest2 / gz, tz = rest2 - batch * gz;
    const uint32_t x = tx * t.tile[2], y = ty * t.tile[1], z = tz * t.tile[0];
    struct fzm_warp_tile w;
    w.first = ((batch * dz + z) * dy + y) * dx + x;
    const uint32_t ez = min(dz - z, t.tile[0]), ey = min(dy - y, t.tile[1]), ex = min(dx - x, t.tile[2]);
    w.extents = ez << 16 | (ey - 1) << 8 | (ex - 1);
    w.whole = ez * ey * ex == 256;
    return w;
}

template <int G> FZM_D bool fzm_lane_valid(uint32_t extents, unsigned lane, unsigned b)
{
    return fzm_lane_z<G>(b) < extents >> 16 && fzm_lane_y<G>(lane, b) <= (extents >> 8 & 0xff) &&
           fzm_lane_x<G>(lane, b) <= (extents & 0xff);
}

/* Word as two halves and back. */
FZM_D __half2 fzm_as_half2(uint32_t v)
{
    __half2 h;
    memcpy(&h, &v, 4);
    return h;
}

FZM_D uint32_t fzm_from_half2(__half2 h)
{
    uint32_t v;
    memcpy(&v, &h, 4);
    return v;
}

/* Predecessor along the second axis: the value `step` lanes below; the lanes without one take that of the
 * register before. rotated[k] is register k rotated up by step lanes. */
template <int G> FZM_D uint32_t fzm_rotate(uint32_t v, unsigned lane)
{
    return __shfl_sync(FZM_FULL_WARP, v, lane - fzm_geo<G>::step);
}

/* Differences of packed halves, in place. Exact: all values are integers below 2048. */
template <int G> FZM_D void fzm_half_difference_x(uint32_t p[4], unsigned lane)
{
    if (G == FZM_GEOMETRY_1D) {
        uint32_t s[4];
        for (int k = 0; k < 4; k++)
            s[k] = fzm_rotate<G>(p[k], lane);
        const bool inner = lane >= 1;
        for (int k = 0; k < 4; k++)
            p[k] = fzm_from_half2(__hsub2(fzm_as_half2(p[k]), fzm_as_half2(inner ? s[k] : k ? s[k - 1]
                : s[3] << 16)));
    } else {
        const __half2 minus = fzm_as_half2(lane % fzm_geo<G>::row ? 0xbc00bc00u : 0u); /* -1 or 0 */
        for (int k = 0; k < 4; k++) {
            const uint32_t s = __shfl_up_sync(FZM_FULL_WARP, p[k], 1, fzm_geo<G>::row);
            p[k] = fzm_from_half2(__hfma2(fzm_as_half2(s), minus, fzm_as_half2(p[k])));
        }
    }
}

template <int G> FZM_D void fzm_half_difference_y(uint32_t p[4], unsigned lane)
{
    if (G == FZM_GEOMETRY_1D) {
        fzm_half_difference_x<G>(p, lane);
        return;
    }
    uint32_t s[4];
    const bool inner = lane >= fzm_geo<G>::step;
    for (int k = 0; k < 4; k++)
        s[k] = fzm_rotate<G>(p[k], lane);
    for (int k = 0; k < 4; k++) {
        const uint32_t outer = G == FZM_GEOMETRY_3D ? (k % 2 ? s[k - 1] : 0) : k ? s[k - 1] : s[3] << 16;
        p[k] = fzm_from_half2(__hsub2(fzm_as_half2(p[k]), fzm_as_half2(inner ? s[k] : outer)));
    }
}

FZM_D void fzm_half_difference_z(uint32_t p[4])
{
    for (int k = 0; k < 2; k++) {
        const uint32_t even = p[k], odd = p[k + 2]; /* planes 0 and 2, 1 and 3 */
        p[k + 2] = fzm_from_half2(__hsub2(fzm_as_half2(odd), fzm_as_half2(even)));
        p[k] = fzm_from_half2(__hsub2(fzm_as_half2(even), fzm_as_half2(odd << 16)));
    }
}

/* Differences of 8 whole words, in place; wrapping. */
template <int G> FZM_D void fzm_difference_y(uint32_t d[8], unsigned lane);

template <int G> FZM_D void fzm_difference_x(uint32_t d[8], unsigned lane)
{
    if (G == FZM_GEOMETRY_1D) {
        fzm_difference_y<G>(d, lane);
    } else {
        for (int b = 0; b < 8; b++) {
            const uint32_t s = __shfl_up_sync(FZM_FULL_WARP, d[b], 1, fzm_geo<G>::row);
            d[b] -= lane % fzm_geo<G>::row ? s : 0;
        }
    }
}

template <int G> FZM_D void fzm_difference_y(uint32_t d[8], unsigned lane)
{
    uint32_t before = 0;
    for (int b = 0; b < 8; b++) {
        const uint32_t s = fzm_rotate<G>(d[b], lane);
        d[b] -= lane >= fzm_geo<G>::step ? s : G == FZM_GEOMETRY_3D && b % 2 == 0 ? 0 : before;
        before = s;
    }
}

FZM_D void fzm_difference_z(uint32_t d[8])
{
    for (int b = 7; b >= 2; b--)
        d[b] -= d[b - 2];
}

/* Sums: the inverses, for words (packed: two sums in one word, lo + (hi << 16), wrapping). */
template <unsigned WIDTH, unsigned FROM, int N>
FZM_D void fzm_lane_scan(uint32_t d[N], unsigned lane)
{
    for (unsigned step = FROM; step < WIDTH; step *= 2) {
        const uint32_t take = (lane & (WIDTH - 1)) >= step ? 1 : 0;
        for (int b = 0; b < N; b++)
            d[b] += take * __shfl_up_sync(FZM_FULL_WARP, d[b], step, WIDTH);
    }
}

/* Adds to each register the last `step` lanes of the register before it. */
template <int G, int N, bool PACKED>
FZM_D void fzm_carry_blocks(uint32_t d[N], unsigned lane)
{
    const unsigned last = 32 - fzm_geo<G>::step + (lane & (fzm_geo<G>::step - 1));
    uint32_t carry = 0;
    for (int b = 0; b < N; b++) {
        if (!(G == FZM_GEOMETRY_3D && b % 2 == 0))
            d[b] += carry;
        if (G != FZM_GEOMETRY_3D || b % 2 == 0)
            carry = __shfl_sync(FZM_FULL_WARP, d[b], last);
    }
    if (PACKED && G != FZM_GEOMETRY_3D)
        for (int b = 0; b < N; b++)
            d[b] += carry << 16;
}

template <int G, int N, bool PACKED> FZM_D void fzm_sum_x(uint32_t d[N], unsigned lane)
{
    fzm_lane_scan<fzm_geo<G>::row, 1, N>(d, lane);
    if (G == FZM_GEOMETRY_1D)
        fzm_carry_blocks<G, N, PACKED>(d, lane);
}

template <int G, int N, bool PACKED> FZM_D void fzm_sum_y(uint32_t d[N], unsigned lane)
{
    if (G == FZM_GEOMETRY_1D) {
        fzm_sum_x<G, N, PACKED>(d, lane);
        return;
    }
    fzm_lane_scan<32, fzm_geo<G>::step, N>(d, lane);
    fzm_carry_blocks<G, N, PACKED>(d, lane);
}

/* 3-D. N = 8: words; N = 4: packed, planes z and z + 2. */
template <int N> FZM_D void fzm_sum_z(uint32_t d[N])
{
    if (N == 8) {
        for (int b = 2; b < 8; b++)
            d[b % N] += d[(b - 2) % N];
    } else {
        for (int k = 0; k < 2; k++) {
            d[k + 2] += d[k];
            const uint32_t plane_1 = d[k + 2] << 16;
            d[k] += plane_1;
            d[k + 2] += plane_1;
        }
    }
}

#endif
