/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of a tile of 4096 along its axes: what undoes the predictor of the chain of bit planes. */
#ifndef FZM_GPU_PLANES_SUM_CUH
#define FZM_GPU_PLANES_SUM_CUH

#include "plane_tile.cuh"

/* Where word i of a tile, in tile order, lies in shared memory: columns of all axes are read, and groups of 4
 * words moved, without bank conflicts. */
template <int G> FZM_D unsigned fzm_place_of(unsigned i)
{
    if (G == FZM_GEOMETRY_2D)
        return i ^ (i >> 9 & 7) << 2;
    if (G == FZM_GEOMETRY_3D)
        return i ^ ((i >> 7 ^ i >> 11) & 1) << 4;
    if (G == FZM_GEOMETRY_2D_WIDE)
        return i ^ (i >> 11 & 1) << 4;
    return G == FZM_GEOMETRY_3D_FLAT ? i ^ (i >> 9 & 1) << 4 : i;
}

template <int G> FZM_D void fzm_put_row(uint32_t *tile, const uint32_t v[8])
{
    *(uint4 *)(void *)(tile + fzm_place_of<G>(8 * threadIdx.x)) = make_uint4(v[0], v[1], v[2], v[3]);
    *(uint4 *)(void *)(tile + fzm_place_of<G>(8 * threadIdx.x + 4)) = make_uint4(v[4], v[5], v[6], v[7]);
}

template <int G> FZM_D void fzm_get_row(const uint32_t *tile, uint32_t v[8])
{
    const uint4 a = *(const uint4 *)(const void *)(tile + fzm_place_of<G>(8 * threadIdx.x));
    const uint4 b = *(const uint4 *)(const void *)(tile + fzm_place_of<G>(8 * threadIdx.x + 4));
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

/* In place: sums of the columns of LENGTH words, STEP apart. A thread takes 8 words of a column, or two
 * columns of 4; the threads of a column are in one warp. */
template <int G, unsigned STEP, unsigned LENGTH> FZM_D void fzm_sum_columns(uint32_t *tile)
{
    constexpr unsigned own = LENGTH < 8 ? LENGTH : 8, n_parts = LENGTH / own, spread = 32 / n_parts;
    const unsigned lane = threadIdx.x & 31, part = lane / spread;
#pragma unroll
    for (unsigned j = 0; j < 8 / own; j++) {
        const unsigned column = threadIdx.x / 32 * spread + lane % spread + j * PLANE_THREADS;
        const unsigned first = column / STEP * (STEP * LENGTH) + column % STEP + part * (own * STEP);
        uint32_t d[own];
#pragma unroll
        for (unsigned i = 0; i < own; i++) {
            d[i] = tile[fzm_place_of<G>(first + i * STEP)];
            d[i] += i ? d[i - 1] : 0;
        }
        uint32_t end = d[own - 1];
#pragma unroll
        for (unsigned k = spread; k < 32; k *= 2) {
            const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, end, k);
            end += lane >= k ? other : 0;
        }
        const uint32_t before = end - d[own - 1];
#pragma unroll
        for (unsigned i = 0; i < own; i++)
            tile[fzm_place_of<G>(first + i * STEP)] = d[i] + before;
    }
}

/* Sums along the rows; whole block for one-dimensional tiles, with PLANE_WARPS words of exchange. */
template <int G> FZM_D void fzm_sum_rows(uint32_t v[8], uint32_t *exchange)
{
    typedef fzm_plane_geo<G> geo;
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
#pragma unroll
    for (unsigned i = 1; i < 8; i++)
        v[i] += v[i - 1];
    uint32_t end = v[7];
#pragma unroll
    for (unsigned k = 1; k < 32 && k < geo::row; k *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, end, k);
        end += lane % geo::row >= k ? other : 0;
    }
    uint32_t before = end - v[7];
    if (geo::row > 32) {
        __syncthreads(); /* what was read there before */
        if (lane == 31)
            exchange[warp] = end;
        __syncthreads();
        before += __reduce_add_sync(FZM_FULL_WARP, lane < warp ? exchange[lane] : 0);
    }
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        v[i] += before;
}

/* v: residuals to codes less the origin. Whole block; tile: shared memory that nobody uses. */
template <int G> FZM_D void fzm_undo_mode(uint32_t v[8], unsigned mode, uint32_t *tile)
{
    typedef fzm_plane_geo<G> geo;
    if (mode == 0)
        return;
    fzm_sum_rows<G>(v, tile);
    if (mode == 1)
        return;
    if (G == FZM_GEOMETRY_1D) {
        fzm_sum_rows<G>(v, tile);
        return;
    }
    fzm_put_row<G>(tile, v);
    __syncthreads();
    if (geo::y > 1)
        fzm_sum_columns<G, geo::x, geo::y>(tile);
    __syncthreads();
    if (geo::z > 1 && mode > 2) {
        fzm_sum_columns<G, geo::x * geo::y, geo::z>(tile);
        __syncthreads();
    }
    fzm_get_row<G>(tile, v);
}

#endif
