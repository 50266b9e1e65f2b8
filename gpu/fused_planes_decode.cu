/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of bit planes, backward: a block of 16 warps decodes a tile, found through the tables of the
 * section. The payload is untrusted: it is copied to shared memory within its bounds. Where a segment ends
 * is known only by reading it: one warp walks over them and checks them, the others decode each as soon as
 * it is found. */
#include "fused_planes.cuh"

#include "../core/stages/zigzag.h"
#include "planes_sum.cuh"
#include "zero_code.cuh"

struct decode_args {
    struct fzm_plane_grid grid;
    struct fzm_linear_f32 k;
    uint32_t n_tiles, aligned, is_float;
    uint32_t *elems;
    const uint8_t *section, *modes;
    const int32_t *origins;
    uint64_t section_nbytes;
    struct fzm_gpu_fast_result *result;
};

struct decode_shared {
    uint4 payload[TILE_NBYTES / 16 + 4]; /* at its address modulo 4; then the tile */
    uint4 planes[TILE_NBYTES / 16];
    uint32_t segments[32];      /* place | mode << 16; or SEGMENT_UNKNOWN, SEGMENT_DAMAGED */
    uint32_t size, begin, lead; /* of the payload; lead: 33 if it is damaged */
};

#define SEGMENT_UNKNOWN 0xffffffffu
#define SEGMENT_DAMAGED 0xfffffffeu /* this one or one before it */

/* One warp: size and place of the payload of a tile. Returns whether its group is sound. */
FZM_D bool find_payload(const struct decode_args *a, struct decode_shared *sh, uint32_t tile)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t n_groups = (a->n_tiles + FZM_ZERO_GROUP_CHUNKS - 1) / FZM_ZERO_GROUP_CHUNKS;
    const uint32_t *const ends = (const uint32_t *)(const void *)(a->section + 8);
    const uint32_t group = tile / FZM_ZERO_GROUP_CHUNKS, place = tile % FZM_ZERO_GROUP_CHUNKS;
    const uint16_t *const sizes = (const uint16_t *)(const void *)(ends + n_groups) + tile - place;
    const uint32_t n_here = min(a->n_tiles - (tile - place), (uint32_t)FZM_ZERO_GROUP_CHUNKS);
    const uint64_t payloads_nbytes = a->section_nbytes - fzm_zero_table_nbytes(a->n_tiles);
    const uint32_t begin = group ? ends[group - 1] : 0, end = ends[group];
    const uint32_t low = lane < n_here ? sizes[lane] : 0, high = lane + 32 < n_here ? sizes[lane + 32] : 0;
    const uint32_t sum = __reduce_add_sync(FZM_FULL_WARP, low + high);
    const uint32_t before =
        __reduce_add_sync(FZM_FULL_WARP, (lane < place ? low : 0) + (lane + 32 < place ? high : 0));
    const uint32_t size = __shfl_sync(FZM_FULL_WARP, place < 32 ? low : high, place % 32);
    bool good = begin <= end && end <= payloads_nbytes && end - begin == sum && size <= TILE_NBYTES;
    if (group == n_groups - 1)
        good = good && end == payloads_nbytes &&
               ((uint64_t)ends[-1] << 32 | ends[-2]) == (uint64_t)a->n_tiles * TILE_NBYTES;
    if (lane == 0) {
        sh->begin = begin + before;
        sh->size = size;
        sh->lead = good ? 0 : 33;
    }
    return good;
}

/* Makes the place of a segment known to warps that wait for it: one word, so that no fence is needed. */
FZM_D void tell_segment(struct decode_shared *sh, uint32_t plane, uint32_t segment)
{
    if (threadIdx.x % 32 == 0)
        *(volatile uint32_t *)&sh->segments[plane] = segment;
}

FZM_D uint32_t wait_for_segment(struct decode_shared *sh, uint32_t plane)
{
    uint32_t segment;
    while ((segment = *(volatile uint32_t *)&sh->segments[plane]) == SEGMENT_UNKNOWN)
        __nanosleep(64);
    return segment;
}

/* One warp: finds the segments after `lead` empty ones. Whether the payload is sound, head excluded. */
FZM_D bool find_segments(struct decode_shared *sh, const uint8_t *p, uint32_t lead, uint32_t size)
{
    uint32_t at = fzm_zero_head_nbytes(32, lead), plane = lead;
    for (; plane < 32; plane++) {
        const uint32_t i = plane - lead, mode = p[1 + i / 4] >> i % 4 * 2 & 3;
        const int nbytes = fzm_zero_segment_nbytes(p + at, (int)(size - at), mode);
        if (nbytes < 0)
            break;
        tell_segment(sh, plane, at | mode << 16);
        at += (uint32_t)nbytes;
    }
    const bool good = plane == 32 && at == size;
    for (; plane < 32; plane++)
        tell_segment(sh, plane, SEGMENT_DAMAGED);
    return good;
}

/* Whole block: planes of a tile whose payload is not empty. Returns the number of leading empty ones, 33 if
 * the payload is damaged. */
FZM_D uint32_t decode_planes(const struct decode_args *a, struct decode_shared *sh, uint32_t size)
{
    enum { N_DECODERS = PLANE_WARPS - 1 };
    const unsigned warp = threadIdx.x / 32;
    const bool raw = size == TILE_NBYTES;
    const uint8_t *const payload = a->section + fzm_zero_table_nbytes(a->n_tiles) + sh->begin;
    const uint32_t skip = (uintptr_t)payload % 4, n_words = (skip + size + 3) / 4;
    const uint32_t *const words = (const uint32_t *)(const void *)(payload - skip);
    for (uint32_t i = threadIdx.x; i < n_words; i += PLANE_THREADS)
        ((uint32_t *)(void *)sh->payload)[i] = __ldg(words + i);
    if (warp == 0)
        sh->segments[threadIdx.x] = raw ? threadIdx.x * PLANE_NBYTES | FZM_ZERO_WORDS << 16 : SEGMENT_UNKNOWN;
    __syncthreads();
    const uint8_t *const p = (const uint8_t *)sh->payload + skip;
    const uint32_t lead = raw ? 0 : p[0];
    if (lead > 32 || (!raw && size < fzm_zero_head_nbytes(32, lead)))
        return 33;
    if (warp == N_DECODERS) {
        const bool good = raw || find_segments(sh, p, lead, size);
        if (threadIdx.x % 32 == 0)
            sh->lead = good ? lead : 33;
    } else {
        for (uint32_t plane = lead + warp; plane < 32; plane += N_DECODERS) {
            const uint32_t s = wait_for_segment(sh, plane);
            if (s != SEGMENT_DAMAGED)
                fzm_zero_segment_get(p + (s & 0xffff), s >> 16, (uint8_t *)sh->planes + plane * PLANE_NBYTES);
        }
    }
    __syncthreads();
    return sh->lead;
}

template <int G, bool QUANTIZED>
static __global__ void __launch_bounds__(PLANE_THREADS, 4)
decode_kernel(const __grid_constant__ struct decode_args a)
{
    __shared__ struct decode_shared shared;
    struct decode_shared *const sh = &shared;
    const uint32_t tile = blockIdx.x;
    const uint32_t mode = a.modes[tile / 4] >> tile % 4 * 2 & 3;
    const uint32_t origin = (uint32_t)a.origins[tile];
    bool good = mode < fzm_plane_geo<G>::n_modes;
    if (threadIdx.x / 32 == 0)
        find_payload(&a, sh, tile);
    __syncthreads();
    const uint32_t size = sh->size;
    good = good && sh->lead == 0;
    uint32_t v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (good && size) {
        const uint32_t lead = decode_planes(&a, sh, size);
        good = lead <= 32;
        if (good) {
            fzm_join_planes((const uint8_t *)sh->planes, lead, v);
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] = QUANTIZED ? fzm_zigzag_decode32(v[i]) : fzm_negabinary_decode32(v[i]);
            fzm_undo_mode<G>(v, mode, (uint32_t *)(void *)sh->payload);
        }
    }
    if (!good) {
        if (threadIdx.x == 0)
            a.result->corrupt = 1;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int32_t code = (int32_t)(v[i] + origin);
        v[i] = QUANTIZED    ? __float_as_uint(fzm_linear_f32_decode(&a.k, (float)code))
               : a.is_float ? (uint32_t)fzm_ordered_i32(code)
                            : (uint32_t)code;
    }
    fzm_plane_store(a.elems, fzm_plane_place_at<G>(a.grid, tile), a.aligned, v);
}

template <int G> static void launch_decode(const struct decode_args *a, bool quantized, cudaStream_t stream)
{
    if (quantized)
        decode_kernel<G, true><<<a->n_tiles, PLANE_THREADS, 0, stream>>>(*a);
    else
        decode_kernel<G, false><<<a->n_tiles, PLANE_THREADS, 0, stream>>>(*a);
}

extern "C" cudaError_t fzm_gpu_planes_inverse(const struct fzm_gpu_planes *f, cudaStream_t stream)
{
    const struct fzm_tiling *const t = f->tiling;
    const uint64_t n_elems = t->n_batch * t->dims[0] * t->dims[1] * t->dims[2];
    if ((f->quantizer && f->quantizer->kind != FZM_QUANTIZER_LINEAR) || t->n_tile_elems != 4096 ||
        n_elems > 1u << 30)
        return cudaErrorInvalidValue;
    struct decode_args a = {};
    a.grid = fzm_plane_grid_init(t);
    if (f->quantizer)
        a.k = fzm_linear_f32_init(f->quantizer);
    a.n_tiles = (uint32_t)t->n_tiles;
    a.aligned = fzm_plane_rows_aligned(t, f->elems);
    a.is_float = f->is_float != 0;
    a.elems = (uint32_t *)f->elems;
    a.section = f->section;
    a.modes = f->modes;
    a.origins = f->origins;
    a.section_nbytes = f->section_nbytes;
    a.result = f->result;
    const bool sound = a.n_tiles ? f->section_nbytes >= fzm_zero_table_nbytes(a.n_tiles)
                                 : f->section_nbytes == 0;
    const cudaError_t err = cudaMemsetAsync(f->result, sound ? 0 : 1, sizeof *f->result, stream);
    if (err != cudaSuccess || !sound || a.n_tiles == 0)
        return err;
    switch (f->geometry) {
    case FZM_GEOMETRY_1D: launch_decode<FZM_GEOMETRY_1D>(&a, f->quantizer != NULL, stream); break;
    case FZM_GEOMETRY_2D: launch_decode<FZM_GEOMETRY_2D>(&a, f->quantizer != NULL, stream); break;
    case FZM_GEOMETRY_3D: launch_decode<FZM_GEOMETRY_3D>(&a, f->quantizer != NULL, stream); break;
    case FZM_GEOMETRY_2D_WIDE: launch_decode<FZM_GEOMETRY_2D_WIDE>(&a, f->quantizer != NULL, stream); break;
    case FZM_GEOMETRY_3D_FLAT: launch_decode<FZM_GEOMETRY_3D_FLAT>(&a, f->quantizer != NULL, stream); break;
    default: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
