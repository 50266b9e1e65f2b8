/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of 4096 elements in a block of 512 threads: a thread holds 8 neighbours of tile order, so that it
 * has one byte of each bit plane. G is an enum fzm_geometry. */
#ifndef FZM_GPU_PLANE_TILE_CUH
#define FZM_GPU_PLANE_TILE_CUH

#include "../core/stages/adaptive_lorenzo.h"
#include "transpose.cuh"

enum { PLANE_THREADS = 512, PLANE_WARPS = 16, PLANE_NBYTES = 512, TILE_NBYTES = 16384 };

template <int G> struct fzm_plane_geo {
    static constexpr unsigned x = G == FZM_GEOMETRY_1D        ? 4096
                                  : G == FZM_GEOMETRY_3D      ? 16
                                  : G == FZM_GEOMETRY_2D_WIDE ? 256 : 64;
    static constexpr unsigned y = G == FZM_GEOMETRY_1D ? 1 : G == FZM_GEOMETRY_2D ? 64 : 16;
    static constexpr unsigned z = 4096 / x / y;
    static constexpr unsigned n_modes = z > 1 ? 4 : 3;
    static constexpr unsigned row = x / 8;       /* threads of a row */
    static constexpr unsigned plane = x * y / 8; /* and of a plane */
};

/* Where a thread's elements are: index of the first one, and which exist (bit j: element j). */
struct fzm_plane_place {
    uint32_t first, valid;
};

/* Whether rows of 8 elements that are whole can be moved in 16 bytes at a time. */
static inline bool fzm_plane_rows_aligned(const struct fzm_tiling *t, const void *elems)
{
    return (uintptr_t)elems % 16 == 0 && (t->dims[2] % 4 == 0 || t->n_batch * t->dims[0] * t->dims[1] == 1);
}

FZM_D void fzm_plane_load(const uint32_t *elems, const struct fzm_plane_place &p, bool aligned, uint32_t v[8])
{
    const uint32_t *const from = elems + p.first;
    if (aligned && p.valid == 0xff) {
        const uint4 *const pair = (const uint4 *)(const void *)from;
        const uint4 a = __ldg(pair), b = __ldg(pair + 1);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        v[i] = p.valid >> i & 1 ? from[i] : 0;
}

FZM_D void fzm_plane_store(uint32_t *elems, const struct fzm_plane_place &p, bool aligned,
                           const uint32_t v[8])
{
    uint32_t *const to = elems + p.first;
    if (aligned && p.valid == 0xff) {
        ((uint4 *)(void *)to)[0] = make_uint4(v[0], v[1], v[2], v[3]);
        ((uint4 *)(void *)to)[1] = make_uint4(v[4], v[5], v[6], v[7]);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        if (p.valid >> i & 1)
            to[i] = v[i];
}

/* A grid of tiles with what divides by its extents: n / d is the high word of n * factor, shifted, for
 * n < 2^31. */
struct fzm_plane_divisor {
    uint32_t d, factor, shift;
};
struct fzm_plane_grid {
    struct fzm_plane_divisor x, y, z;
    uint32_t dx, dy, dz; /* elements of a field */
};

static inline struct fzm_plane_divisor fzm_plane_divisor_init(uint64_t d)
{
    struct fzm_plane_divisor v = {(uint32_t)d, 0, 0};
    while ((uint64_t)1 << (v.shift + 1) < d)
        v.shift++;
    if (d > 1)
        v.factor = (uint32_t)(((uint64_t)1 << (32 + v.shift)) / d + 1);
    return v;
}

static inline struct fzm_plane_grid fzm_plane_grid_init(const struct fzm_tiling *t)
{
    struct fzm_plane_grid g;
    g.x = fzm_plane_divisor_init(t->grid[2]);
    g.y = fzm_plane_divisor_init(t->grid[1]);
    g.z = fzm_plane_divisor_init(t->grid[0]);
    g.dx = (uint32_t)t->dims[2], g.dy = (uint32_t)t->dims[1], g.dz = (uint32_t)t->dims[0];
    return g;
}

FZM_D uint32_t fzm_plane_divide(uint32_t n, const struct fzm_plane_divisor &v)
{
    return v.d == 1 ? n : __umulhi(n, v.factor) >> v.shift;
}

template <int G>
FZM_D struct fzm_plane_place fzm_plane_place_at(const struct fzm_plane_grid &g, uint32_t tile)
{
    typedef fzm_plane_geo<G> geo;
    struct fzm_plane_place p;
    if (G == FZM_GEOMETRY_1D) {
        p.first = tile * geo::x + threadIdx.x * 8;
        p.valid = p.first >= g.dx ? 0 : g.dx - p.first >= 8 ? 0xff : (1u << (g.dx - p.first)) - 1;
        return p;
    }
    const uint32_t rest = fzm_plane_divide(tile, g.x), rest2 = fzm_plane_divide(rest, g.y);
    const uint32_t batch = fzm_plane_divide(rest2, g.z);
    const uint32_t x = (tile - rest * g.x.d) * geo::x + threadIdx.x % geo::row * 8;
    const uint32_t y = (rest - rest2 * g.y.d) * geo::y + threadIdx.x / geo::row % geo::y;
    const uint32_t z = (rest2 - batch * g.z.d) * geo::z + threadIdx.x / geo::plane;
    p.first = ((batch * g.dz + z) * g.dy + y) * g.dx + x;
    p.valid = z < g.dz && y < g.dy && x < g.dx ? (g.dx - x >= 8 ? 0xffu : (1u << (g.dx - x)) - 1) : 0;
    return p;
}

/* 8 words to and from two 16-byte accesses without bank conflicts. */
FZM_D void fzm_put8(uint4 *buffer, const uint32_t v[8])
{
    buffer[threadIdx.x] = make_uint4(v[0], v[1], v[2], v[3]);
    buffer[PLANE_THREADS + threadIdx.x] = make_uint4(v[4], v[5], v[6], v[7]);
}

FZM_D void fzm_get8(const uint4 *buffer, unsigned thread, uint32_t v[8])
{
    const uint4 a = buffer[thread], b = buffer[PLANE_THREADS + thread];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

/* fzm_transpose8() on two words. */
FZM_D void fzm_transpose8_step(uint32_t &v)
{
    uint32_t t = (v ^ (v >> 7)) & 0x00aa00aau;
    v ^= t ^ (t << 7);
    t = (v ^ (v >> 14)) & 0x0000ccccu;
    v ^= t ^ (t << 14);
}

FZM_D void fzm_transpose8_words(uint32_t &lo, uint32_t &hi)
{
    fzm_transpose8_step(lo);
    fzm_transpose8_step(hi);
    const uint32_t t = (lo ^ (hi << 4)) & 0xf0f0f0f0u;
    lo ^= t;
    hi ^= t >> 4;
}

/* Byte k of a, b, c, d, as a word. */
FZM_D uint32_t fzm_bytes_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d, unsigned k)
{
    const uint32_t select = k | (4 + k) << 4;
    return __byte_perm(__byte_perm(a, b, select), __byte_perm(c, d, select), 0x5410);
}

/* The thread's byte of each plane from `lead` on. */
FZM_D void fzm_split_planes(const uint32_t v[8], unsigned lead, uint8_t *planes)
{
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        if (32 - lead <= 8 * k)
            break;
        uint32_t lo = fzm_bytes_of(v[0], v[1], v[2], v[3], k), hi = fzm_bytes_of(v[4], v[5], v[6], v[7], k);
        fzm_transpose8_words(lo, hi);
#pragma unroll
        for (unsigned bit = 0; bit < 8; bit++)
            planes[(31 - 8 * k - bit) * PLANE_NBYTES + threadIdx.x] =
                (uint8_t)((bit < 4 ? lo : hi) >> bit % 4 * 8);
    }
}

FZM_D void fzm_join_planes(const uint8_t *planes, unsigned lead, uint32_t v[8])
{
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        v[i] = 0;
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        uint32_t lo = 0, hi = 0;
        if (32 - lead <= 8 * k)
            break;
#pragma unroll
        for (unsigned bit = 0; bit < 8; bit++) {
            const unsigned plane = 31 - 8 * k - bit;
            const uint32_t byte = plane >= lead ? planes[plane * PLANE_NBYTES + threadIdx.x] : 0;
            if (bit < 4)
                lo |= byte << bit * 8;
            else
                hi |= byte << (bit - 4) * 8;
        }
        fzm_transpose8_words(lo, hi);
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            v[i] |= ((i < 4 ? lo : hi) >> i % 4 * 8 & 0xff) << 8 * k;
    }
}

#endif
