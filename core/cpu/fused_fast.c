/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer -> AdaptiveLorenzo (tiles of 256, cost bitpack) -> AdaptiveBitpack (blocks of 32) in one pass.
 *
 * The unit of work is AdaptiveBitpack's super-tile: 64 tiles, whose codes and residuals never leave the L1
 * cache. The bytes are those of the three stages one after the other. */
#include "fused.h"

#include <stdatomic.h>
#include <string.h>

#include "../stages.h"
#include "bitpack.h"
#include "fused_fast.h"
#include "fused_tile.h"
#include "isa.h"
#include "outlier_mask.h"
#include "pool.h"
#include "quantizer.h"

enum {
    TILE = FZM_BITPACK_TILE_ELEMS,
    SUPER_TILES = FZM_BITPACK_SUPER_TILES,
    BAD_WORDS = TILE / 64,
};

/* A worker's scratch, a multiple of 64 bytes. */
struct slot {
    uint64_t lead[8], codes[TILE]; /* lead: for struct fzm_fast_kernels */
    uint64_t elems[TILE];
    uint64_t residuals[2 * TILE]; /* 4-byte ones of four modes, or 8-byte ones of one */
    uint8_t widths[FZM_BITPACK_SUPER_BLOCKS];
    uint8_t head[FZM_BITPACK_HEAD_NBYTES + 40];
    uint8_t planes[SUPER_TILES * TILE * 8 + FZM_BITPACK_SLACK_NBYTES];
};

struct job {
    const struct fzm_quantizer_params *params;
    struct fzm_quantizer_fns quantizer;
    const struct fzm_tile_kernels *lorenzo;
    struct fzm_fast_kernels fast; /* NULL members: none */
    const struct fzm_bitpack_kernels *pack;
    struct fzm_tiling tiling;
    size_t elem_nbytes, code_nbytes; /* codes: 4 or 8 */
    uint8_t *elems;                  /* @input */
    uint8_t *modes, *origins, *section, *payloads;
    struct slot *slots;
    /* forward() */
    struct fzm_outlier_mask mask;
    uint8_t *empty; /* bit t: all elements of tile t are outliers */
    atomic_bool any_empty;
    struct fzm_sequence sequence;
    /* inverse() */
    struct fzm_bitpack_section in;
    atomic_bool damaged;
};

/* Codes of a tile, outliers filled in. Sets *any_bad if there are some, and returns false if all are. */
static bool quantize_tile(const struct job *j, const struct fzm_tiling *t, const struct fzm_tile_at *at,
                          uint64_t *elems, void *codes, uint64_t bad[BAD_WORDS], bool *any_bad)
{
    const void *x = elems;
    if (t->tile[2] == TILE && at->extent[2] == TILE)
        x = j->elems + at->first * j->elem_nbytes;
    else
        fzm_fused_gather(elems, j->elems, j->elem_nbytes, t, at);
    const size_t n_bad = j->quantizer.quantize(j->params, x, TILE, codes, bad);
    *any_bad = n_bad > 0 && fzm_outlier_mask_clip(bad, t, at->extent);
    return !*any_bad || (n_bad < TILE && j->lorenzo->fill_masked(codes, bad, t, at->extent) > 0);
}

/* Encodes a tile; returns the end of its planes. */
static uint8_t *encode_tile(struct job *j, struct slot *s, uint64_t tile, const struct fzm_tile_at *at,
                            uint8_t *widths, uint8_t *planes)
{
    uint64_t bad[BAD_WORDS];
    bool any_bad;
    const bool any_good = quantize_tile(j, &j->tiling, at, s->elems, s->codes, bad, &any_bad);
    if (any_bad)
        fzm_outlier_mask_add(&j->mask, bad, &j->tiling, at);
    if (!any_good) {
        memset(widths, 0, FZM_BITPACK_TILE_BLOCKS);
        j->empty[tile / 8] = (uint8_t)(j->empty[tile / 8] | 1u << (tile % 8));
        atomic_store_explicit(&j->any_empty, true, memory_order_relaxed);
        return planes;
    }
    memcpy(j->origins + tile * j->code_nbytes, s->codes, j->code_nbytes);
    int32_t *residuals = (int32_t *)(void *)s->residuals;
    unsigned mode;
    if (j->fast.choose && fzm_tile_is_full(&j->tiling, at->extent)) {
        mode = j->fast.choose((int32_t *)(void *)s->codes, residuals, widths);
        residuals += mode * TILE;
    } else {
        mode = j->lorenzo->forward(s->codes, residuals, &j->tiling, at->extent, FZM_TILE_COST_BITPACK, widths)
                   .mode;
    }
    fzm_tile_mode_put(j->modes, tile, mode);
    return j->code_nbytes == 4 ? j->pack->encode32(residuals, widths, planes)
                               : j->pack->encode64((const int64_t *)(const void *)residuals, widths, planes);
}

static size_t n_tiles_of(const struct job *j, size_t super)
{
    const uint64_t left = j->tiling.n_tiles - (uint64_t)super * SUPER_TILES;
    return left < SUPER_TILES ? (size_t)left : SUPER_TILES;
}

static void encode_super(void *arg, size_t super, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = j->slots + worker;
    const uint64_t first = (uint64_t)super * SUPER_TILES;
    const size_t n_tiles = n_tiles_of(j, super);
    memset(j->modes + first / 4, 0, (n_tiles + 3) / 4);
    memset(j->empty + first / 8, 0, (n_tiles + 7) / 8);
    memset(s->widths, 0, sizeof s->widths);
    uint8_t *end = s->planes;
    struct fzm_tile_walker w = fzm_tile_walker_at(&j->tiling, first);
    for (size_t k = 0; k < n_tiles; k++, fzm_tile_walker_next(&w)) {
        const struct fzm_tile_at at = fzm_tile_walker_get(&w);
        end = encode_tile(j, s, first + k, &at, s->widths + k * FZM_BITPACK_TILE_BLOCKS, end);
    }
    const size_t head_nbytes = fzm_bitpack_super_head(s->widths, s->head);
    const size_t planes_nbytes = (size_t)(end - s->planes), nbytes = head_nbytes + planes_nbytes;
    const uint64_t offset = fzm_sequence_take(&j->sequence, super, nbytes);
    memcpy(j->payloads + offset, s->head, head_nbytes);
    memcpy(j->payloads + offset + head_nbytes, s->planes, planes_nbytes);
    fzm_bitpack_section_end_at(j->section, super, offset + nbytes);
}

static void decode_tile(const struct job *j, struct slot *s, uint64_t tile, const struct fzm_tile_at *at,
                        unsigned mode, const uint8_t *widths, const uint8_t **planes)
{
    const size_t row_nbytes = j->tiling.tile[2] * j->elem_nbytes;
    const uint8_t *const origin_at = j->origins + tile * j->code_nbytes;
    int32_t origin32;
    int64_t origin;
    uint64_t live;
    memcpy(&origin32, origin_at, 4);
    origin = origin32;
    if (j->code_nbytes == 8)
        memcpy(&origin, origin_at, 8);
    memcpy(&live, widths, sizeof live);
    if (live == 0) { /* constant: one row serves all */
        for (uint32_t i = 0; i < j->tiling.tile[2]; i++)
            memcpy((uint8_t *)s->codes + i * j->code_nbytes, origin_at, j->code_nbytes);
        j->quantizer.dequantize(j->params, s->codes, j->tiling.tile[2], s->elems);
        fzm_fused_scatter(j->elems, s->elems, 0, j->elem_nbytes, &j->tiling, at);
        return;
    }
    int32_t *const residuals = (int32_t *)(void *)s->residuals;
    *planes = j->code_nbytes == 4 ? j->pack->decode32(*planes, widths, residuals)
                                  : j->pack->decode64(*planes, widths, (int64_t *)(void *)residuals);
    if (j->fast.undo)
        j->fast.undo(residuals, origin32, mode, (int32_t *)(void *)s->codes);
    else
        j->lorenzo->inverse(residuals, origin, mode, &j->tiling, s->codes);
    j->quantizer.dequantize(j->params, s->codes, TILE, s->elems);
    fzm_fused_scatter(j->elems, s->elems, row_nbytes, j->elem_nbytes, &j->tiling, at);
}

static void decode_super(void *arg, size_t super, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = j->slots + worker;
    const uint64_t first = (uint64_t)super * SUPER_TILES;
    const size_t n_tiles = n_tiles_of(j, super);
    const unsigned n_modes = fzm_tile_n_modes(&j->tiling);
    const uint8_t *payload = NULL, *planes = NULL;
    size_t payload_nbytes = 0;
    bool ok = fzm_bitpack_section_payload(&j->in, super, &payload, &payload_nbytes) &&
              fzm_bitpack_super_parse(payload, payload_nbytes, 32, (uint32_t)(8 * j->code_nbytes), s->widths,
                                      &planes);
    struct fzm_tile_walker w = fzm_tile_walker_at(&j->tiling, first);
    for (size_t k = 0; ok && k < n_tiles; k++, fzm_tile_walker_next(&w)) {
        const unsigned mode = fzm_tile_mode_get(j->modes, first + k);
        const struct fzm_tile_at at = fzm_tile_walker_get(&w);
        ok = mode < n_modes;
        if (ok)
            decode_tile(j, s, first + k, &at, mode, s->widths + k * FZM_BITPACK_TILE_BLOCKS, &planes);
    }
    if (!ok)
        atomic_store_explicit(&j->damaged, true, memory_order_relaxed);
}

/* The op. */

static bool geometry_works(const struct fzm_call *calls, uint32_t geometry)
{
    struct fzm_tiling t;
    return geometry == FZM_GEOMETRY_AUTO || fzm_tiling_init(&t, &calls[0].in[0].shape, TILE, (int)geometry);
}

static int accepts(const struct fzm_call *calls)
{
    const struct fzm_adaptive_lorenzo_params *const lorenzo = calls[1].params;
    const struct fzm_adaptive_bitpack_params *const pack = calls[2].params;
    return lorenzo->tile == 0 && fzm_adaptive_lorenzo_cost(lorenzo) == FZM_TILE_COST_BITPACK && pack->block_size == 32 &&
           calls[0].in[0].shape.dtype <= FZM_F64 && geometry_works(calls, lorenzo->geometry);
}

/* Most tiles over all geometries that may be chosen: rounding up to tiles can make 8-fold of every axis. */
static uint64_t max_n_tiles(const struct fzm_shape *shape)
{
    uint64_t most = 0;
    struct fzm_tiling t;
    for (int g = FZM_GEOMETRY_1D; g < FZM_N_GEOMETRIES; g++)
        if (fzm_tiling_init(&t, shape, TILE, g) && t.n_tiles > most)
            most = t.n_tiles;
    return most;
}

static size_t pad64(size_t n) { return (n + 63) / 64 * 64; }

static size_t scratch(const struct fzm_call *calls, unsigned n_threads)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    return pad64((size_t)(max_n_tiles(shape) / 8 + 8)) +
           pad64(fzm_quantizer_outlier_scratch_nbytes((size_t)shape->n_elems)) +
           n_threads * sizeof(struct slot);
}

static void init_job(struct job *j, const struct fzm_call *calls, void *scratch_)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    memset(j, 0, sizeof *j);
    j->params = calls[0].params;
    j->quantizer = fzm_quantizer_fns_get(j->params, shape->dtype);
    j->elem_nbytes = fzm_dtype_nbytes(shape->dtype);
    j->code_nbytes = fzm_dtype_nbytes(j->quantizer.code_dtype);
    j->lorenzo = fzm_tile_kernels_get(j->code_nbytes);
    j->pack = fzm_bitpack_kernels_get();
    j->elems = calls[0].in[0].data;
    fzm_outlier_mask_init(&j->mask, calls[0].out[1].data, fzm_quantizer_mask_nbytes((size_t)shape->n_elems));
    j->modes = calls[1].out[1].data;
    j->origins = calls[1].out[2].data;
    j->section = calls[2].out[0].data;
    j->slots = scratch_;
}

/* Cuts the array and picks the kernels for that. */
static bool set_geometry(struct job *j, const struct fzm_shape *shape, int geometry)
{
    if (!fzm_tiling_init(&j->tiling, shape, TILE, geometry))
        return false;
#if defined(__x86_64__)
    if (j->code_nbytes == 4 && fzm_isa_get() == FZM_ISA_AVX512)
        j->fast = fzm_fast_kernels_avx512[geometry];
    else if (j->code_nbytes == 4 && fzm_isa_get() == FZM_ISA_AVX2)
        j->fast = fzm_fast_kernels_avx2[geometry];
#endif
    return true;
}

static int fetch_codes(void *arg, const struct fzm_tiling *t, uint64_t tile, unsigned worker, void *v)
{
    struct job *const j = arg;
    const struct fzm_tile_at at = fzm_tiling_at(t, tile);
    uint64_t bad[BAD_WORDS];
    bool any_bad;
    return quantize_tile(j, t, &at, j->slots[worker].elems, v, bad, &any_bad);
}

static void set_output(struct fzm_buf *out, size_t nbytes)
{
    out->nbytes = nbytes;
    out->shape = fzm_shape_1d(out->shape.dtype, nbytes / fzm_dtype_nbytes(out->shape.dtype));
}

static int forward(struct fzm_call *calls, void *scratch_)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    /* FZM_PF_RUNTIME: settled here */
    struct fzm_adaptive_lorenzo_params *const lorenzo = (void *)(uintptr_t)calls[1].params;
    struct job j;
    const unsigned n_threads = fzm_pool_n_threads(calls[0].pool);
    init_job(&j, calls, scratch_);
    j.empty = (uint8_t *)(j.slots + n_threads);
    void *const outlier_scratch = j.empty + pad64((size_t)(max_n_tiles(shape) / 8 + 8));
    const struct fzm_tile_sampler sampler = {fetch_codes, &j, j.slots[0].planes, sizeof(struct slot), calls[0].pool};
    if (lorenzo->geometry == FZM_GEOMETRY_AUTO)
        lorenzo->geometry = (uint32_t)fzm_tile_choose_geometry(shape, TILE, FZM_TILE_COST_BITPACK, j.code_nbytes, &sampler);
    if (!set_geometry(&j, shape, (int)lorenzo->geometry))
        return fzm_err_set(calls[1].err, FZM_ERR_INTERNAL, "AdaptiveLorenzo: no tiling");
    const uint64_t n_super = fzm_div_up(j.tiling.n_tiles, SUPER_TILES),
                   table = fzm_bitpack_table_nbytes(n_super);
    j.payloads = j.section + table;
    if (n_super)
        fzm_bitpack_section_begin(j.section, j.tiling.n_tiles * TILE, (uint32_t)j.code_nbytes);
    fzm_pool_run(calls[0].pool, (size_t)n_super, encode_super, &j);
    if (atomic_load_explicit(&j.any_empty, memory_order_relaxed))
        fzm_tile_fix_origins(j.origins, j.code_nbytes, j.tiling.n_tiles, j.empty);
    const bool any_bad = fzm_outlier_mask_any(&j.mask);
    set_output(&calls[0].out[1], any_bad ? j.mask.nbytes : 0);
    set_output(&calls[0].out[2],
               any_bad ? j.elem_nbytes * fzm_quantizer_gather_outliers(calls[0].pool, j.mask.bits, j.elems,
                                                                       (size_t)shape->n_elems, j.elem_nbytes,
                                                                       calls[0].out[2].data, outlier_scratch)
                       : 0);
    set_output(&calls[1].out[1], (size_t)fzm_div_up(j.tiling.n_tiles, 4));
    set_output(&calls[1].out[2], (size_t)j.tiling.n_tiles * j.code_nbytes);
    set_output(&calls[2].out[0], (size_t)(table + j.sequence.total));
    return FZM_OK;
}

static int inverse(struct fzm_call *calls, void *scratch_)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    const struct fzm_adaptive_lorenzo_params *const lorenzo = calls[1].params;
    const struct fzm_buf *const mask = &calls[0].out[1], *const vals = &calls[0].out[2];
    const struct fzm_buf *const section = &calls[2].out[0];
    struct fzm_err *const err = calls[0].err;
    struct job j;
    FZM_TRY(fzm_quantizer_check_params(calls[0].params, shape->dtype, err));
    init_job(&j, calls, scratch_);
    if (!set_geometry(&j, shape, (int)lorenzo->geometry))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: geometry %u", (unsigned)lorenzo->geometry);
    if (calls[1].out[1].nbytes != fzm_div_up(j.tiling.n_tiles, 4) ||
        calls[1].out[2].nbytes != j.tiling.n_tiles * j.code_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: modes or origins of the wrong size");
    FZM_TRY(fzm_bitpack_section_open(&j.in, section->data, section->nbytes, j.tiling.n_tiles * TILE,
                                     (uint32_t)j.code_nbytes, 32, err));
    fzm_pool_run(calls[0].pool, (size_t)j.in.n_super, decode_super, &j);
    if (atomic_load_explicit(&j.damaged, memory_order_relaxed))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack or AdaptiveLorenzo: damaged super-tile");
    void *const outlier_scratch = j.slots + fzm_pool_n_threads(calls[0].pool);
    return fzm_quantizer_scatter_outliers(calls[0].pool, mask->data, mask->nbytes, vals->data, vals->nbytes,
                                          j.elems, (size_t)shape->n_elems, j.elem_nbytes, outlier_scratch,
                                          err);
}

static const struct fzm_stage *const chain[] = {&fzm_stage_quantizer, &fzm_stage_adaptive_lorenzo,
                                                &fzm_stage_adaptive_bitpack};

const struct fzm_fused fzm_fused_fast = {.name = "fast", .chain = chain, .n_stages = 3, .mask_at = 1, .accepts = accepts,
                                         .scratch = scratch, .forward = forward, .inverse = inverse};
