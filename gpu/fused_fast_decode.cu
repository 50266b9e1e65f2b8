/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast chain, backward: one block of 8 warps decodes a super-tile of 64 tiles, found through the table
 * of ends; a warp takes 8 tiles. The payload is untrusted: it is read within its bounds only.
 *
 * Tiles with widths of at most 8 are summed up as 16-bit halves, two blocks per register. */
#include "fused_fast.cuh"

#include "../core/stages/adaptive_bitpack.h"
#include "tile.cuh"

enum {
    N_WARPS = 8,
    WARP_TILES = 8,
    HEAD_WORDS = FZM_BITPACK_HEAD_NBYTES / 4,
    STAGED_WORDS = 6144, /* payloads up to here are decoded out of shared memory */
};

#define MAX_FAST_CODE 2097152 /* origins below go through float without rounding */
#define TILE_WIDE 0x80000000u /* a width above 8 */

struct decode_args {
    struct fzm_tiling tiling;
    struct fzm_linear_f32 k;
    uint32_t pitch_y, pitch_z, n_tiles, n_super;
    float *elems;
    const uint8_t *section, *modes;
    const int32_t *origins;
    uint64_t section_nbytes;
    struct fzm_gpu_fast_result *result;
};

struct decode_shared {
    uint32_t payload[STAGED_WORDS];
    uint32_t blocks[FZM_BITPACK_SUPER_BLOCKS]; /* width << 16 | first word, from the first plane of all */
    uint64_t widths[FZM_BITPACK_SUPER_TILES];
    uint32_t tiles[FZM_BITPACK_SUPER_TILES]; /* first word, TILE_WIDE */
    uint32_t head_words; /* 0: damaged */
};

/* The rate bytes of a tile at byte `at` of the staged head; reads up to 12 bytes from at & ~3 on. */
FZM_D uint64_t load_rates(const uint32_t *head, uint32_t at)
{
    const uint32_t *const p = head + at / 4;
    const uint32_t a = p[0], b = p[1], c = p[2], shift = at % 4 * 8;
    return __funnelshift_r(a, b, shift) | (uint64_t)__funnelshift_r(b, c, shift) << 32;
}

/* One warp: reads map, classes and rates of the payload of n_words > 0 and checks them. Each lane has the
 * tiles lane and lane + 32. Returns the words of the head, 0 if the payload is damaged. */
static __device__ uint32_t parse_head(struct decode_shared *sh, uint32_t n_words)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t *const head = sh->payload;
    if (n_words < 2)
        return 0;
    const uint32_t live[2] = {head[0], head[1]};
    const uint32_t n_live_0 = __popc(live[0]), n_live = n_live_0 + __popc(live[1]);
    const uint32_t class_words = (n_live + 15) / 16;
    if (n_words < 2 + class_words)
        return 0;
    uint32_t rate_class[2], n_bytes[2];
    bool here[2];
    for (int j = 0; j < 2; j++) {
        const uint32_t rank = __popc(live[j] & ((1u << lane) - 1)) + (j ? n_live_0 : 0);
        here[j] = live[j] >> lane & 1;
        rate_class[j] = here[j] ? head[2 + rank / 16] >> rank % 16 * 2 & 3 : 0;
        n_bytes[j] = here[j] ? fzm_bitpack_class_nbytes(rate_class[j]) : 0;
    }
    uint32_t end = n_bytes[0] | n_bytes[1] << 16;
    for (unsigned d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, end, d);
        end += lane >= d ? other : 0;
    }
    const uint32_t total = __shfl_sync(FZM_FULL_WARP, end, 31);
    const uint32_t head_words = 2 + class_words + ((total & 0xffff) + (total >> 16) + 3) / 4;
    if (n_words < head_words)
        return 0;
    uint64_t w[2];
    uint32_t sum[2];
    bool valid = true;
    for (int j = 0; j < 2; j++) {
        const uint32_t at = (j ? (end >> 16) + (total & 0xffff) : end & 0xffff) - n_bytes[j];
        w[j] = here[j] ? fzm_bitpack_rates_decode(load_rates(head + 2 + class_words, at), rate_class[j])
            : 0;
        valid = valid && fzm_bitpack_widths_valid(w[j], 32);
        sum[j] = fzm_bitpack_widths_sum(w[j]) & 0xffff;
    }
    if (!__all_sync(FZM_FULL_WARP, valid))
        return 0;
    uint32_t place = sum[0] | sum[1] << 16; /* at most 32 * 256 in each half */
    for (unsigned d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, place, d);
        place += lane >= d ? other : 0;
    }
    const uint32_t all = __shfl_sync(FZM_FULL_WARP, place, 31);
    if (n_words != head_words + (all & 0xffff) + (all >> 16))
        return 0;
    for (int j = 0; j < 2; j++) {
        const uint32_t first = (j ? (place >> 16) + (all & 0xffff) : place & 0xffff) - sum[j];
        const bool wide = ((w[j] + 0x7777777777777777u) & 0x8080808080808080u) != 0;
        sh->widths[lane + 32 * j] = w[j];
        sh->tiles[lane + 32 * j] = first | (wide ? TILE_WIDE : 0);
    }
    return head_words;
}

/* at: the lane's element of block 0. */
template <int G> FZM_D void store_whole(const struct decode_args *a, float *at, const float y[8])
{
#pragma unroll
    for (unsigned b = 0; b < 8; b++)
        at[fzm_block_offset<G>(b, a->pitch_y, a->pitch_z)] = y[b];
}

template <int G>
FZM_D void store_part(const struct decode_args *a, float *at, uint32_t extents, const float y[8])
{
    const unsigned lane = threadIdx.x & 31;
#pragma unroll
    for (unsigned b = 0; b < 8; b++)
        if (fzm_lane_valid<G>(extents, lane, b))
            at[fzm_block_offset<G>(b, a->pitch_y, a->pitch_z)] = y[b];
}

/* Plane word of a lane: plane `plane` of a block, the sign plane above it. */
FZM_D uint32_t plane_word(const uint32_t *planes, uint32_t block, unsigned plane)
{
    const uint32_t w = block >> 16;
    return w ? planes[(block & 0xffff) + (plane < w ? w - 1 - plane : 0)] : 0;
}

/* Values of a tile with widths up to 8. */
template <int G>
FZM_D void decode_bytes(const struct decode_args *a, const struct fzm_transpose &t,
                        const uint32_t *planes, const uint32_t *blocks, uint32_t mode,
                        int32_t origin, float y[8])
{
    const unsigned lane = threadIdx.x & 31;
    const unsigned block = lane / 16 + (lane & 8) / 2; /* bytes: blocks 0 4 1 5, then 2 6 3 7 */
    const uint32_t flip = (lane & 7) == 7 ? 0xffffffffu : 0; /* bytes + 128: unsigned */
    const uint32_t v0 = plane_word(planes, blocks[block], lane & 7) ^ flip;
    const uint32_t v1 = plane_word(planes, blocks[block + 2], lane & 7) ^ flip;
    const uint32_t b0 = fzm_transpose_32x32(t, v0), b1 = fzm_transpose_32x32(t, v1);
    uint32_t p[4] = {__byte_perm(b0, 0, 0x4140), __byte_perm(b0, 0, 0x4342), __byte_perm(b1, 0, 0x4140),
                     __byte_perm(b1, 0, 0x4342)};
#pragma unroll
    for (int k = 0; k < 4; k++)
        p[k] -= 0x00800080u; /* lo + (hi << 16) from here on */
    if (mode >= 1) {
        if (mode >= 2) {
            if (mode >= 3)
                fzm_sum_z<4>(p);
            fzm_sum_y<G, 4, true>(p, lane);
        }
        fzm_sum_x<G, 4, true>(p, lane);
    }
    const float less = (float)(8388608 + 32768 - origin);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint32_t u = p[k] + 0x80008000u;
        y[k] = fzm_linear_f32_decode(&a->k, __uint_as_float(__byte_perm(u, 0x4b004b00u, 0x5410)) - less);
        y[k + 4] = fzm_linear_f32_decode(&a->k, __uint_as_float(__byte_perm(u, 0x4b004b00u,
            0x5432)) - less);
    }
}

/* Values of any tile. */
template <int G>
FZM_D void decode_words(const struct decode_args *a, const struct fzm_transpose &t,
                        const uint32_t *planes, const uint32_t *blocks, uint32_t mode,
                        int32_t origin, float y[8])
{
    const unsigned lane = threadIdx.x & 31;
    uint32_t d[8];
#pragma unroll
    for (unsigned b = 0; b < 8; b++)
        d[b] = fzm_transpose_32x32(t, plane_word(planes, blocks[b], lane));
    if (mode >= 3 && G == FZM_GEOMETRY_3D) fzm_sum_z<8>(d);
    if (mode >= 2) fzm_sum_y<G, 8, false>(d, lane);
    if (mode >= 1) fzm_sum_x<G, 8, false>(d, lane);
#pragma unroll
    for (int b = 0; b < 8; b++)
        y[b] = fzm_linear_f32_decode(&a->k, (float)(int32_t)(d[b] + (uint32_t)origin));
}

template <int G>
FZM_D void decode_warp(const struct decode_args *a, const struct decode_shared *sh,
                       const uint32_t *planes, bool all_zero)
{
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const uint32_t first_tile = blockIdx.x * FZM_BITPACK_SUPER_TILES + warp * WARP_TILES;
    const struct fzm_transpose t = fzm_transpose_init(lane);
    const uint32_t my_tile = min(first_tile + (lane & 7), a->n_tiles - 1);
    const struct fzm_warp_tile mine = fzm_warp_tile_at(a->tiling, my_tile);
    const int32_t my_origin = a->origins[my_tile];
    const uint32_t my_mode = a->modes[my_tile / 4] >> my_tile % 4 * 2 & 3;
    const uint32_t my_place = all_zero ? 0 : sh->tiles[warp * WARP_TILES + (lane & 7)];
    const bool zero = all_zero || sh->widths[warp * WARP_TILES + (lane & 7)] == 0;
    const bool fast = !(my_place & TILE_WIDE) && my_origin > -MAX_FAST_CODE && my_origin < MAX_FAST_CODE &&
                      !(G == FZM_GEOMETRY_1D && my_mode >= 2);
    if (my_mode >= fzm_geo<G>::n_modes)
        a->result->corrupt = 1;
    const unsigned zeros = __ballot_sync(FZM_FULL_WARP, zero), fasts = __ballot_sync(FZM_FULL_WARP, fast);
    const unsigned wholes = __ballot_sync(FZM_FULL_WARP, mine.whole);
    float *const lane_elems = a->elems + fzm_lane_y<G>(lane, 0) * a->pitch_y + fzm_lane_x<G>(lane, 0);
#pragma unroll 1
    for (unsigned i = 0; i < WARP_TILES && first_tile + i < a->n_tiles; i++) {
        const int32_t origin = __shfl_sync(FZM_FULL_WARP, my_origin, i);
        float *const at = lane_elems + __shfl_sync(FZM_FULL_WARP, mine.first, i);
        const uint32_t *const blocks = &sh->blocks[(warp * WARP_TILES + i) * FZM_BITPACK_TILE_BLOCKS];
        float y[8];
        if (zeros >> i & 1) {
            y[0] = fzm_linear_f32_decode(&a->k, (float)origin);
#pragma unroll
            for (int b = 1; b < 8; b++)
                y[b] = y[0];
        } else {
            const uint32_t mode = __shfl_sync(FZM_FULL_WARP, my_mode, i);
            if (fasts >> i & 1)
                decode_bytes<G>(a, t, planes, blocks, mode, origin, y);
            else
                decode_words<G>(a, t, planes, blocks, mode, origin, y);
        }
        if (wholes >> i & 1)
            store_whole<G>(a, at, y);
        else
            store_part<G>(a, at, __shfl_sync(FZM_FULL_WARP, mine.extents, i), y);
    }
}

template <int G>
static __global__ void __launch_bounds__(32 * N_WARPS,
                                         5) decode_kernel(const __grid_constant__ struct decode_args a)
{
    __shared__ struct decode_shared sh;
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const uint32_t super = blockIdx.x;
    const uint32_t *const table = (const uint32_t *)(const void *)(a.section + 8);
    const uint64_t n_payload_words = (a.section_nbytes - fzm_bitpack_table_nbytes(a.n_super)) / 4;
    const uint32_t begin = super ? table[super - 1] : 0, end = table[super];
    /* the host has checked that the table is there */
    bool good = begin <= end && end <= n_payload_words;
    if (super == a.n_super - 1)
        good = good && end == n_payload_words &&
            ((uint64_t)table[-1] << 32 | table[-2]) == (uint64_t)a.n_tiles * 1024;
    if (!good) {
        if (threadIdx.x == 0)
            a.result->corrupt = 1;
        return;
    }
    const uint32_t n_words = end - begin;
    const uint32_t *const payload = table + a.n_super + begin;
    const uint32_t n_staged = min(n_words, n_words <= STAGED_WORDS ? (uint32_t)STAGED_WORDS
                                  : (uint32_t)HEAD_WORDS);
    const uint32_t *planes = sh.payload;
    if (n_words) {
        for (uint32_t i = threadIdx.x; i < n_staged; i += 32 * N_WARPS)
            sh.payload[i] = payload[i];
        __syncthreads();
        if (warp == 0) {
            const uint32_t head_words = parse_head(&sh, n_words);
            if (lane == 0)
                sh.head_words = head_words;
        }
        __syncthreads();
        if (sh.head_words == 0) {
            if (threadIdx.x == 0)
                a.result->corrupt = 1;
            return;
        }
        planes = (n_words <= STAGED_WORDS ? sh.payload : payload) + sh.head_words;
        /* this warp's blocks: exclusive sums of the widths are the bytes of a product */
        for (unsigned b = lane; b < WARP_TILES * FZM_BITPACK_TILE_BLOCKS; b += 32) {
            const unsigned tile = warp * WARP_TILES + b / 8, shift = b % 8 * 8;
            const uint64_t w = sh.widths[tile];
            const uint32_t before = (uint32_t)((w << 8) * FZM_BITPACK_ONES >> shift) & 0xff;
            sh.blocks[tile * 8 + b % 8] = (uint32_t)(w >> shift & 0xff) << 16 |
                ((sh.tiles[tile] & 0xffff) + before);
        }
        __syncwarp();
    }
    decode_warp<G>(&a, &sh, planes, n_words == 0);
}

template <int G> static cudaError_t launch_decode(const struct decode_args *a, cudaStream_t stream)
{
    decode_kernel<G><<<a->n_super, 32 * N_WARPS, 0, stream>>>(*a);
    return cudaGetLastError();
}

extern "C" cudaError_t fzm_gpu_fast_inverse(const struct fzm_gpu_fast *f, cudaStream_t stream)
{
    const struct fzm_tiling *const t = f->tiling;
    const uint64_t n_elems = t->n_batch * t->dims[0] * t->dims[1] * t->dims[2];
    if (f->quantizer->kind != FZM_QUANTIZER_LINEAR || t->n_tile_elems != 256 || n_elems > 1u << 30)
        return cudaErrorInvalidValue;
    struct decode_args a;
    a.tiling = *t;
    a.k = fzm_linear_f32_init(f->quantizer);
    a.pitch_y = (uint32_t)t->dims[2];
    a.pitch_z = (uint32_t)(t->dims[1] * t->dims[2]);
    a.n_tiles = (uint32_t)t->n_tiles;
    a.n_super = (uint32_t)fzm_div_up(t->n_tiles, FZM_BITPACK_SUPER_TILES);
    a.elems = f->elems;
    a.section = f->section;
    a.modes = f->modes;
    a.origins = f->origins;
    a.section_nbytes = f->section_nbytes;
    a.result = f->result;
    const bool sound = f->section_nbytes % 4 == 0 &&
        f->section_nbytes >= fzm_bitpack_table_nbytes(a.n_super) &&
                       (a.n_super || f->section_nbytes == 0);
    const cudaError_t err = cudaMemsetAsync(f->result, sound ? 0 : 1, sizeof *f->result, stream);
    if (err != cudaSuccess || !sound || a.n_super == 0)
        return err;
    return f->geometry == FZM_GEOMETRY_1D   ? launch_decode<FZM_GEOMETRY_1D>(&a, stream)
           : f->geometry == FZM_GEOMETRY_2D ? launch_decode<FZM_GEOMETRY_2D>(&a, stream)
                                            : launch_decode<FZM_GEOMETRY_3D>(&a, stream);
}
