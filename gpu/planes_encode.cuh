/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of bit planes, forward: arguments, shared memory, the quantiser and the predictor of one tile.
 * One translation unit only. */
#ifndef FZM_GPU_PLANES_ENCODE_CUH
#define FZM_GPU_PLANES_ENCODE_CUH

#include "fused_planes.cuh"

#include "../core/stages/zigzag.h"
#include "lookback.cuh"
#include "plane_tile.cuh"
#include "zero_code.cuh"

#define MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, found in the low bits */

enum { TILE_MASKED = 4 }; /* state of a tile: its mode, or this */

struct encode_args {
    struct fzm_plane_grid grid;
    struct fzm_linear_f32 k;
    uint32_t n_tiles, aligned, is_float, has_fill, fill;
    const uint32_t *elems;
    uint8_t *section, *states;
    int32_t *origins;
    uint32_t *mask;
    uint64_t *lookback;
    struct fzm_gpu_fast_result *result;
};

/* Sign map of residuals in front of their planes. The choice of modes always looks at negabinary. */
template <bool QUANTIZED> FZM_D uint32_t sign_encode(uint32_t r)
{
    return QUANTIZED ? fzm_zigzag_encode32(r) : fzm_negabinary_encode32(r);
}

struct encode_shared {
    uint4 exchange[TILE_NBYTES / 16 + 4]; /* codes of the tile as put by fzm_put8(), then the payload */
    uint4 planes[TILE_NBYTES / 16];
    uint4 any[PLANE_WARPS];   /* OR of the residuals of each mode in negabinary */
    uint32_t mapped[PLANE_WARPS]; /* OR of the residuals of the chosen mode as they are coded */
    uint2 costs[PLANE_WARPS]; /* of modes 0 and 1, 2 and 3 in halves */
    uint32_t segments[32];    /* size | mode << 16 */
    uint32_t last[PLANE_WARPS], first[PLANE_WARPS], n_bad[PLANE_WARPS];
    uint32_t has_good;
    uint64_t base;
};

/* ---- elements to codes ---- */

/* By the definition: the code, and whether it is good. */
static __device__ __noinline__ int2 quantize_one(const struct encode_args *a, float x)
{
    int32_t code = 0;
    const bool good = fzm_linear_f32_encode(&a->k, x, &code);
    return make_int2(code, good);
}

/* Replaces fill values, which are outliers whatever their code, by one that is easy to code. */
FZM_D uint32_t take_fill(const struct encode_args *a, uint32_t valid, uint32_t v[8])
{
    uint32_t fills = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const bool is_fill = v[i] == a->fill;
        fills |= is_fill ? valid & 1u << i : 0;
        v[i] = is_fill ? __float_as_uint(a->k.offset) : v[i];
    }
    return fills;
}

/* v: bits of floats to codes. Returns which are outliers. */
FZM_D uint32_t quantize(const struct encode_args *a, uint32_t valid, uint32_t v[8])
{
    uint32_t q[8], high = 0, bad = a->has_fill ? take_fill(a, valid, v) : 0;
    bool ok = true;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float x = __uint_as_float(v[i]), biased = (x - a->k.offset) * a->k.inv_step + MAGIC;
        const float y = (biased - MAGIC) * a->k.step + a->k.offset;
        ok = ok && fabsf(x - y) <= a->k.fast_max && x >= a->k.lo && x <= a->k.hi;
        q[i] = __float_as_uint(biased) - __float_as_uint(MAGIC);
        high |= __float_as_uint(biased) ^ __float_as_uint(MAGIC);
    }
    if (!ok || high >> 23) { /* sign or exponent differ: too large for that way of rounding */
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int2 r = quantize_one(a, __uint_as_float(v[i]));
            q[i] = (uint32_t)r.x;
            bad |= r.y ? 0 : valid & 1u << i;
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = q[i];
    return bad;
}

/* Outliers get the last good code before them in the tile, the leading ones the first good code; into the
 * exchange buffer, too. Marks them in the mask. Whole block; false if the tile has no good element. */
static __device__ __noinline__ bool fill_outliers(const struct encode_args *a, struct encode_shared *sh,
                                                  uint32_t first, uint32_t valid, uint32_t bad)
{
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const uint32_t good = valid & ~bad;
    uint32_t v[8], last = 0, first_good = 0;
    if (bad) {
        const uint64_t bits = (uint64_t)bad << first % 32;
        if ((uint32_t)bits) atomicOr(&a->mask[first / 32], (uint32_t)bits);
        if (bits >> 32) atomicOr(&a->mask[first / 32 + 1], (uint32_t)(bits >> 32));
    }
    fzm_get8(sh->exchange, threadIdx.x, v);
#pragma unroll
    for (int i = 7; i >= 0; i--) {
        first_good = good >> i & 1 ? v[i] : first_good;
        last = good >> (7 - i) & 1 ? v[7 - i] : last;
    }
    const unsigned goods = __ballot_sync(FZM_FULL_WARP, good != 0), below = goods & ((1u << lane) - 1);
    const uint32_t n_bad = __reduce_add_sync(FZM_FULL_WARP, __popc(bad));
    const uint32_t before = __shfl_sync(FZM_FULL_WARP, last, below ? 31 - __clz(below) : 0);
    last = __shfl_sync(FZM_FULL_WARP, last, goods ? 31 - __clz(goods) : 0);
    first_good = __shfl_sync(FZM_FULL_WARP, first_good, goods ? __ffs(goods) - 1 : 0);
    if (threadIdx.x == 0)
        sh->has_good = 0;
    __syncthreads();
    if (lane == 0) {
        sh->last[warp] = last;
        sh->first[warp] = first_good;
        sh->n_bad[warp] = n_bad;
        if (goods)
            atomicOr(&sh->has_good, 1u << warp);
    }
    __syncthreads();
    const uint32_t warps = sh->has_good, warps_below = warps & ((1u << warp) - 1);
    if (warp == 0) {
        const uint32_t n = __reduce_add_sync(FZM_FULL_WARP, lane < PLANE_WARPS ? sh->n_bad[lane] : 0);
        if (lane == 0)
            atomicAdd((unsigned long long *)&a->result->n_outliers, (unsigned long long)n);
    }
    if (warps == 0)
        return false;
    uint32_t code = below ? before
                    : warps_below ? sh->last[31 - __clz(warps_below)] : sh->first[__ffs(warps) - 1];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = code = good >> i & 1 ? v[i] : code;
    fzm_put8(sh->exchange, v);
    __syncthreads();
    return true;
}

/* ---- codes to residuals ---- */

/* e minus the codes `back` threads before; those of the tile's border are the origin. */
FZM_D void subtract_row(const uint4 *exchange, unsigned back, bool exists, uint32_t origin, uint32_t e[8])
{
    uint32_t u[8];
    if (exists)
        fzm_get8(exchange, threadIdx.x - back, u);
#pragma unroll
    for (int i = 0; i < 8; i++)
        e[i] -= exists ? u[i] : origin;
}

template <int G> FZM_D bool has_row_before()
{
    return threadIdx.x / fzm_plane_geo<G>::row % fzm_plane_geo<G>::y != 0;
}

/* e: codes less those of the row before; subtracts the same of the plane before. Differences along x come
 * last, so that all neighbours can be read from the codes. */
template <int G> FZM_D void subtract_plane(const uint4 *exchange, uint32_t origin, uint32_t e[8])
{
    typedef fzm_plane_geo<G> geo;
    if (threadIdx.x < geo::plane)
        return;
    uint32_t u[8];
    fzm_get8(exchange, threadIdx.x - geo::plane, u);
#pragma unroll
    for (int i = 0; i < 8; i++)
        e[i] -= u[i];
    if (has_row_before<G>())
        fzm_get8(exchange, threadIdx.x - geo::plane - geo::row, u);
#pragma unroll
    for (int i = 0; i < 8; i++)
        e[i] += has_row_before<G>() ? u[i] : origin;
}

/* What lies left of e[0] in the row: 0 at its start. */
template <int G> FZM_D uint32_t left_of(const uint4 *exchange, uint32_t origin, const uint32_t e[8])
{
    const uint32_t left = __shfl_up_sync(FZM_FULL_WARP, e[7], 1);
    if (G == FZM_GEOMETRY_1D && threadIdx.x % 32 == 0)
        return threadIdx.x ? exchange[PLANE_THREADS + threadIdx.x - 1].w - origin : 0;
    return threadIdx.x % fzm_plane_geo<G>::row ? left : 0;
}

/* One-dimensional tiles: the difference left of that of e[0]. */
FZM_D uint32_t left_difference(const uint4 *exchange, const uint32_t e[8])
{
    const uint32_t left = __shfl_up_sync(FZM_FULL_WARP, e[7] - e[6], 1);
    if (threadIdx.x % 32 != 0)
        return left;
    const uint4 before = exchange[PLANE_THREADS + (threadIdx.x ? threadIdx.x - 1 : 0)];
    return threadIdx.x ? before.w - before.z : 0;
}

/* OR of the residuals that exist, in negabinary; DX: of the differences of e. */
template <bool DX> FZM_D uint32_t any_of(const uint32_t e[8], uint32_t left, uint32_t valid)
{
    uint32_t any = 0;
    if (valid == 0xff) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            any |= fzm_negabinary_encode32(DX ? e[i] - (i ? e[i - 1] : left) : e[i]);
        return any;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        any |= valid >> i & 1 ? fzm_negabinary_encode32(DX ? e[i] - (i ? e[i - 1] : left) : e[i]) : 0;
    return any;
}

FZM_D void difference_x(uint32_t e[8], uint32_t left)
{
#pragma unroll
    for (int i = 7; i > 0; i--)
        e[i] -= e[i - 1];
    e[0] -= left;
}

/* OR of this thread's residuals for each mode. */
template <int G>
FZM_D void try_modes(const uint4 *exchange, uint32_t origin, uint32_t valid, const uint32_t v[8],
                     uint32_t any[4])
{
    uint32_t e[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        e[i] = v[i] - origin;
    any[0] = any_of<false>(e, 0, valid);
    const uint32_t left = left_of<G>(exchange, origin, e);
    any[1] = any_of<true>(e, left, valid);
    any[3] = 0;
    if (G == FZM_GEOMETRY_1D) {
        const uint32_t left_dx = left_difference(exchange, e);
        difference_x(e, left);
        any[2] = any_of<true>(e, left_dx, valid);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            e[i] = v[i];
        subtract_row(exchange, fzm_plane_geo<G>::row, has_row_before<G>(), origin, e);
        any[2] = any_of<true>(e, left_of<G>(exchange, origin, e), valid);
    }
    if (fzm_plane_geo<G>::n_modes > 3) {
        subtract_plane<G>(exchange, origin, e);
        any[3] = any_of<true>(e, left_of<G>(exchange, origin, e), valid);
    }
}

/* v: codes to residuals, sign-mapped; those of padding are 0. */
template <int G, bool QUANTIZED>
FZM_D void apply_mode(const uint4 *exchange, uint32_t origin, uint32_t valid, unsigned mode, uint32_t v[8])
{
    if (mode < 2 || G == FZM_GEOMETRY_1D) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] -= origin;
    } else {
        subtract_row(exchange, fzm_plane_geo<G>::row, has_row_before<G>(), origin, v);
        if (fzm_plane_geo<G>::n_modes > 3 && mode > 2)
            subtract_plane<G>(exchange, origin, v);
    }
    if (mode) {
        const uint32_t left_dx = G == FZM_GEOMETRY_1D ? left_difference(exchange, v) : 0;
        difference_x(v, left_of<G>(exchange, origin, v));
        if (G == FZM_GEOMETRY_1D && mode > 1)
            difference_x(v, left_dx);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = valid >> i & 1 ? sign_encode<QUANTIZED>(v[i]) : 0;
}

/* Chooses the cheapest mode; v: codes to its residuals, sign-mapped. Whole block. Returns the OR of all
 * residuals in negabinary. */
template <int G, bool QUANTIZED>
FZM_D uint32_t predict(struct encode_shared *sh, uint32_t valid, uint32_t v[8], unsigned *mode)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t origin = sh->exchange[0].x;
    uint32_t any[4];
    try_modes<G>(sh->exchange, origin, valid, v, any);
    const uint32_t n_low = __reduce_add_sync(FZM_FULL_WARP, __popc(any[0]) | __popc(any[1]) << 16);
    const uint32_t n_high = __reduce_add_sync(FZM_FULL_WARP, __popc(any[2]) | __popc(any[3]) << 16);
#pragma unroll
    for (int i = 0; i < 4; i++)
        any[i] = i < fzm_plane_geo<G>::n_modes ? __reduce_or_sync(FZM_FULL_WARP, any[i]) : 0;
    if (lane == 0) {
        sh->costs[threadIdx.x / 32] = make_uint2(n_low, n_high);
        sh->any[threadIdx.x / 32] = make_uint4(any[0], any[1], any[2], any[3]);
    }
    __syncthreads();
    const uint2 n = sh->costs[lane % PLANE_WARPS];
    const uint32_t low = __reduce_add_sync(FZM_FULL_WARP, lane < PLANE_WARPS ? n.x : 0);
    const uint32_t high = __reduce_add_sync(FZM_FULL_WARP, lane < PLANE_WARPS ? n.y : 0);
    uint32_t best = min((low & 0xffff) * 4, (low >> 16) * 4 + 1); /* cost * 4 + mode */
    best = min(best, (high & 0xffff) * 4 + 2);
    if (fzm_plane_geo<G>::n_modes > 3)
        best = min(best, (high >> 16) * 4 + 3);
    *mode = best & 3;
    apply_mode<G, QUANTIZED>(sh->exchange, origin, valid, *mode, v);
    const uint32_t *const anys = (const uint32_t *)(const void *)&sh->any[lane % PLANE_WARPS];
    return __reduce_or_sync(FZM_FULL_WARP, anys[*mode]);
}

#endif
