/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveLorenzo on the device: a team of threads (adaptive_lorenzo.cuh) per tile. */
#include <string.h>

extern "C" {
#include "../core/stages.h"
#include "ops.h"
}

#include "adaptive_lorenzo.cuh"

enum { ARRAY = 0, MASK = 1, OUT_RESIDUALS = 0, OUT_MODES = 1, OUT_ORIGINS = 2 };

enum { BIG_N_ELEMS = 4096, MIN_SCRATCH_NBYTES = 64 };

/* What the kernels work on. Sections may have any alignment in the inverse; in forward they are written. */
struct tile_args {
    struct fzm_tiling tiling;
    void *array;
    const uint8_t *mask;    /* NULL: none */
    bool is_float, is_wide; /* is_wide: whole runs can be moved in words */
    int cost;
    void *residuals, *origins;
    uint8_t *modes;
    uint32_t *empty;           /* forward with a mask: a bit per tile */
    uint64_t n_samples;        /* measuring */
    unsigned long long *nbits; /* measuring: cost of the sample */
    uint32_t *corrupt;         /* inverse */
};

/* Values of a run, filled where masked. Returns whether the tile has any good element. */
template <typename W, bool BIG>
FZM_D bool fetch(const struct tile_args &a, const struct fzm_team_place &p, W (&v)[FZM_RUN],
                 struct fzm_team_shared<W, BIG> *sh)
{
    const W *const from = (const W *)a.array + p.index;
    if (a.is_wide && p.n_valid == FZM_RUN) {
        fzm_run_load<W, FZM_RUN>(v, from);
    } else {
#pragma unroll
        for (unsigned k = 0; k < FZM_RUN; k++)
            v[k] = k < p.n_valid ? from[k] : (W)0;
    }
    if (a.is_float) {
#pragma unroll
        for (int k = 0; k < FZM_RUN; k++)
            v[k] = fzm_ordered_bits(v[k]);
    }
    if (!a.mask)
        return true;
    const unsigned bad = fzm_run_mask(a.mask, p.index, p.n_valid);
    return fzm_team_fill<W, BIG>(v, bad, p.n_valid, sh);
}

/* MEASURE: adds up the cost of sampled tiles instead of writing. */
template <typename W, bool BIG, bool MEASURE>
static __global__ void __launch_bounds__(BIG ? 512 : 256)
    forward_kernel(const __grid_constant__ struct tile_args a)
{
    __shared__ struct fzm_team_shared<W, BIG> shared;
    struct fzm_team_shared<W, BIG> *const sh = &shared;
    uint64_t tile = (uint64_t)blockIdx.x * fzm_team<BIG>::per_block + (BIG ? 0 : threadIdx.x / 32);
    if (tile >= (MEASURE ? a.n_samples : a.tiling.n_tiles))
        return;
    if (MEASURE)
        tile = fzm_tile_sample_at(tile, a.n_samples, a.tiling.n_tiles);
    const struct fzm_team_place p = fzm_team_place_of<BIG>(a.tiling, tile);
    W r[FZM_RUN], best[FZM_RUN];
    const bool any = fetch<W, BIG>(a, p, r, sh);
    struct fzm_team_choice choice = {0, 0};
    const W origin = fzm_team_origin<W, BIG>(r[0], sh);
#pragma unroll
    for (unsigned k = 0; k < FZM_RUN; k++) {
        r[k] = k < p.n_valid ? (W)(r[k] - origin) : (W)0;
        best[k] = 0;
    }
    if (any)
        choice = fzm_team_choose<W, BIG>(r, best, a.cost, a.tiling, p, sh);
    if (MEASURE) {
        if (p.thread == 0)
            atomicAdd(a.nbits, (unsigned long long)choice.cost_nbits + FZM_TILE_OVERHEAD_NBITS);
        return;
    }
    fzm_run_store<W, FZM_RUN>((W *)a.residuals + tile * fzm_team<BIG>::n_elems + p.thread * FZM_RUN, best);
    if (p.thread != 0)
        return;
    if (choice.mode)
        atomicOr((uint32_t *)(void *)a.modes + tile / 16, choice.mode << (2 * (tile % 16)));
    if (any)
        ((W *)a.origins)[tile] = origin;
    else
        atomicOr(a.empty + tile / 32, 1u << (tile % 32));
}

/* Origins of fully masked tiles: that of the last tile before that has a good element, else 0. A warp per
 * 32 tiles looks back over 1024 tiles at a time. */
template <typename W>
static __global__ void __launch_bounds__(256)
    empty_origins_kernel(const uint32_t *empty, W *origins, uint64_t n_tiles)
{
    const unsigned lane = threadIdx.x & 31;
    const uint64_t i = (uint64_t)blockIdx.x * 8 + threadIdx.x / 32, tile = 32 * i + lane;
    if (32 * i >= n_tiles || empty[i] == 0)
        return;
    const uint32_t word = empty[i];
    int64_t source = -1;
    for (int64_t j = (int64_t)i - 1; j >= 0 && source < 0; j -= 32) {
        const uint32_t good = j >= (int64_t)lane ? ~empty[j - lane] : 0;
        const unsigned found = __ballot_sync(0xffffffffu, good != 0);
        if (found) {
            const int from = __ffs(found) - 1;
            source = (j - from) * 32 + 31 - __clz(__shfl_sync(0xffffffffu, good, from));
        }
    }
    const uint32_t before = ~word & ((1u << lane) - 1);
    if ((word >> lane & 1) && tile < n_tiles) {
        const int64_t from = before ? 32 * (int64_t)i + 31 - __clz(before) : source;
        origins[tile] = from < 0 ? (W)0 : origins[from];
    }
}

template <typename W, bool BIG>
static __global__ void __launch_bounds__(BIG ? 512 : 256)
    inverse_kernel(const __grid_constant__ struct tile_args a, const struct fzm_section residuals,
                   const struct fzm_section origins, bool is_packed)
{
    __shared__ struct fzm_team_shared<W, BIG> shared;
    struct fzm_team_shared<W, BIG> *const sh = &shared;
    const uint64_t tile = (uint64_t)blockIdx.x * fzm_team<BIG>::per_block + (BIG ? 0 : threadIdx.x / 32);
    if (tile >= a.tiling.n_tiles)
        return;
    const struct fzm_team_place p = fzm_team_place_of<BIG>(a.tiling, tile);
    const unsigned mode = a.modes[tile / 4] >> (2 * (tile % 4)) & 3u;
    const uint64_t first = tile * fzm_team<BIG>::n_elems + p.thread * FZM_RUN;
    if (mode >= fzm_tile_n_modes(&a.tiling)) {
        *a.corrupt = 1;
        return;
    }
    W r[FZM_RUN];
    if (is_packed) {
        fzm_run_load<W, FZM_RUN>(r, (const W *)(const void *)residuals.bytes + first);
    } else {
#pragma unroll
        for (int k = 0; k < FZM_RUN; k++)
            r[k] = fzm_section_load<W>(residuals, first + k);
    }
    const W origin = fzm_section_load<W>(origins, tile);
    fzm_team_restore<W, BIG>(r, mode, a.tiling, p, sh);
#pragma unroll
    for (int k = 0; k < FZM_RUN; k++) {
        r[k] = (W)(r[k] + origin);
        r[k] = a.is_float ? fzm_ordered_bits(r[k]) : r[k];
    }
    W *const to = (W *)a.array + p.index;
    if (a.is_wide && p.n_valid == FZM_RUN) {
        fzm_run_store<W, FZM_RUN>(to, r);
        return;
    }
#pragma unroll
    for (unsigned k = 0; k < FZM_RUN; k++)
        if (k < p.n_valid)
            to[k] = r[k];
}

#define FOR_WIDTH(nbytes, function, ...) \
    switch (nbytes) { \
    case 1: function<uint8_t>(__VA_ARGS__); break; \
    case 2: function<uint16_t>(__VA_ARGS__); break; \
    case 4: function<uint32_t>(__VA_ARGS__); break; \
    default: function<uint64_t>(__VA_ARGS__); break; \
    }

/* Whether runs of 8 elements are aligned to words everywhere in the array. */
static bool is_wide(const void *data, size_t elem_nbytes, const struct fzm_tiling *t)
{
    const size_t word = FZM_RUN * elem_nbytes < 16 ? FZM_RUN * elem_nbytes : 16;
    const bool one_row = t->n_batch * t->dims[0] * t->dims[1] == 1;
    return (uintptr_t)data % word == 0 && (one_row || t->dims[2] * elem_nbytes % word == 0);
}

/* All but the outputs. */
static struct tile_args args_of(const struct fzm_call *c, const struct fzm_tiling *t)
{
    const struct fzm_shape *const shape = &c->in[ARRAY].shape;
    struct tile_args a;
    memset(&a, 0, sizeof a);
    a.tiling = *t;
    a.array = c->in[ARRAY].data;
    a.mask = c->in[MASK].nbytes ? (const uint8_t *)c->in[MASK].data : NULL;
    a.is_float = fzm_dtype_is_float(shape->dtype);
    a.is_wide = is_wide(a.array, fzm_dtype_nbytes(shape->dtype), t);
    a.cost = fzm_adaptive_lorenzo_cost((const struct fzm_adaptive_lorenzo_params *)c->params);
    a.corrupt = c->gpu->corrupt;
    return a;
}

/* A bit per tile, of the geometry with the most tiles. */
static size_t scratch(const void *params, const struct fzm_shape *in)
{
    const uint32_t n_tile_elems =
        fzm_adaptive_lorenzo_n_tile_elems((const struct fzm_adaptive_lorenzo_params *)params);
    struct fzm_tiling t;
    uint64_t most = 0;
    for (int geometry = FZM_GEOMETRY_1D; geometry < FZM_N_GEOMETRIES; geometry++)
        if (fzm_tiling_init(&t, &in[ARRAY], n_tile_elems, geometry) && t.n_tiles > most)
            most = t.n_tiles;
    return (size_t)(MIN_SCRATCH_NBYTES + fzm_div_up(most, 32) * 4);
}

template <typename W> static void measure(const struct fzm_call *c, const struct tile_args *a)
{
    const bool big = a->tiling.n_tile_elems == BIG_N_ELEMS;
    if (big)
        forward_kernel<W, true, true><<<(uint32_t)a->n_samples, 512, 0, c->gpu->stream>>>(*a);
    else
        forward_kernel<W, false, true><<<(uint32_t)fzm_div_up(a->n_samples, 8), 256, 0, c->gpu->stream>>>(*a);
}

/* The geometry of least estimated cost, as fzm_tile_choose_geometry(). */
static int resolve(void *params, const struct fzm_call *c)
{
    struct fzm_adaptive_lorenzo_params *const p = (struct fzm_adaptive_lorenzo_params *)params;
    const struct fzm_shape *const shape = &c->in[ARRAY].shape;
    const uint32_t n_tile_elems = fzm_adaptive_lorenzo_n_tile_elems(p);
    unsigned long long nbits[FZM_N_GEOMETRIES];
    struct fzm_tiling t;
    if (p->geometry != FZM_GEOMETRY_AUTO)
        return 0;
    p->geometry = FZM_GEOMETRY_1D;
    if (shape->n_elems == 0 || shape->rank == 1)
        return 0;
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(c->scratch, 0, sizeof nbits, c->gpu->stream),
                          "AdaptiveLorenzo: clearing", c->err));
    for (int g = FZM_GEOMETRY_1D; g < FZM_N_GEOMETRIES; g++) {
        if (!fzm_tile_is_candidate(&t, shape, n_tile_elems, g))
            continue;
        struct tile_args a = args_of(c, &t);
        a.n_samples = fzm_tile_n_samples(t.n_tiles);
        a.nbits = (unsigned long long *)c->scratch + g;
        FOR_WIDTH(fzm_dtype_nbytes(shape->dtype), measure, c, &a)
    }
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "AdaptiveLorenzo: sampling", c->err));
    FZM_TRY(fzm_gpu_read(c->gpu, nbits, c->scratch, sizeof nbits, c->err));
    uint64_t least = UINT64_MAX;
    for (int g = FZM_GEOMETRY_1D; g < FZM_N_GEOMETRIES; g++) {
        if (!fzm_tile_is_candidate(&t, shape, n_tile_elems, g))
            continue;
        const uint64_t cost = fzm_tile_cost_of_all(nbits[g], fzm_tile_n_samples(t.n_tiles), t.n_tiles);
        if (cost < least) {
            p->geometry = (uint32_t)g;
            least = cost;
        }
    }
    return 0;
}

template <typename W> static void encode(const struct fzm_call *c, const struct tile_args *a)
{
    const uint64_t n_tiles = a->tiling.n_tiles;
    if (a->tiling.n_tile_elems == BIG_N_ELEMS)
        forward_kernel<W, true, false><<<(uint32_t)n_tiles, 512, 0, c->gpu->stream>>>(*a);
    else
        forward_kernel<W, false, false><<<(uint32_t)fzm_div_up(n_tiles, 8), 256, 0, c->gpu->stream>>>(*a);
    if (a->mask)
        empty_origins_kernel<W><<<(uint32_t)fzm_div_up(n_tiles, 256), 256, 0, c->gpu->stream>>>(
            a->empty, (W *)a->origins, n_tiles);
}

static int forward(struct fzm_call *c)
{
    const struct fzm_adaptive_lorenzo_params *const p = (const struct fzm_adaptive_lorenzo_params *)c->params;
    const struct fzm_shape *const shape = &c->in[ARRAY].shape;
    const size_t elem_nbytes = fzm_dtype_nbytes(shape->dtype);
    struct fzm_tiling t;
    const bool any =
        fzm_tiling_init(&t, shape, fzm_adaptive_lorenzo_n_tile_elems(p), (int)p->geometry) && t.n_tiles;
    for (unsigned j = 0; j < 3; j++) {
        c->out[j].pending = NULL;
        c->out[j].nbytes = 0;
    }
    if (!any)
        return 0;
    c->out[OUT_RESIDUALS].nbytes = (size_t)(t.n_tiles * t.n_tile_elems * elem_nbytes);
    c->out[OUT_MODES].nbytes = (size_t)fzm_div_up(t.n_tiles, 4);
    c->out[OUT_ORIGINS].nbytes = (size_t)(t.n_tiles * elem_nbytes);
    struct tile_args a = args_of(c, &t);
    a.residuals = c->out[OUT_RESIDUALS].data;
    a.modes = (uint8_t *)c->out[OUT_MODES].data;
    a.origins = c->out[OUT_ORIGINS].data;
    a.empty = (uint32_t *)c->scratch;
    cudaError_t code = cudaMemsetAsync(a.modes, 0, c->out[OUT_MODES].nbytes, c->gpu->stream);
    if (code == cudaSuccess && a.mask)
        code = cudaMemsetAsync(a.empty, 0, (size_t)fzm_div_up(t.n_tiles, 32) * 4, c->gpu->stream);
    FZM_TRY(fzm_gpu_check(code, "AdaptiveLorenzo: clearing", c->err));
    FOR_WIDTH(elem_nbytes, encode, c, &a)
    return fzm_gpu_check(cudaGetLastError(), "AdaptiveLorenzo", c->err);
}

template <typename W> static void decode(const struct fzm_call *c, const struct tile_args *a)
{
    const struct fzm_section residuals = fzm_section_init(c->out[OUT_RESIDUALS].data, sizeof(W));
    const struct fzm_section origins = fzm_section_init(c->out[OUT_ORIGINS].data, sizeof(W));
    const bool is_packed = (uintptr_t)residuals.bytes % 16 == 0;
    if (a->tiling.n_tile_elems == BIG_N_ELEMS)
        inverse_kernel<W, true>
            <<<(uint32_t)a->tiling.n_tiles, 512, 0, c->gpu->stream>>>(*a, residuals, origins, is_packed);
    else
        inverse_kernel<W, false><<<(uint32_t)fzm_div_up(a->tiling.n_tiles, 8), 256, 0, c->gpu->stream>>>(
            *a, residuals, origins, is_packed);
}

static int inverse(struct fzm_call *c)
{
    const struct fzm_adaptive_lorenzo_params *const p = (const struct fzm_adaptive_lorenzo_params *)c->params;
    const struct fzm_shape *const shape = &c->in[ARRAY].shape;
    const size_t elem_nbytes = fzm_dtype_nbytes(shape->dtype);
    struct fzm_tiling t;
    if (shape->n_elems == 0)
        return 0;
    if (!fzm_tiling_init(&t, shape, fzm_adaptive_lorenzo_n_tile_elems(p), (int)p->geometry))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: geometry does not fit the array");
    if (c->out[OUT_RESIDUALS].nbytes != t.n_tiles * t.n_tile_elems * elem_nbytes ||
        c->out[OUT_MODES].nbytes != fzm_div_up(t.n_tiles, 4) ||
        c->out[OUT_ORIGINS].nbytes != t.n_tiles * elem_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT,
                           "AdaptiveLorenzo: %zu bytes of residuals, %zu of modes, %zu of origins "
                           "do not belong to %llu tiles",
                           c->out[OUT_RESIDUALS].nbytes, c->out[OUT_MODES].nbytes, c->out[OUT_ORIGINS].nbytes,
                           (unsigned long long)t.n_tiles);
    struct tile_args a = args_of(c, &t);
    a.modes = (uint8_t *)c->out[OUT_MODES].data;
    FOR_WIDTH(elem_nbytes, decode, c, &a)
    return fzm_gpu_check(cudaGetLastError(), "AdaptiveLorenzo: inverse", c->err);
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_adaptive_lorenzo;
const struct fzm_gpu_ops fzm_gpu_ops_adaptive_lorenzo = {
    &fzm_stage_adaptive_lorenzo, scratch, resolve, NULL, forward, inverse,
};
}
