/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer -> AdaptiveLorenzo (tiles of 4096, cost planes) -> Zigzag -> Bitshuffle -> RZE in one pass, and the same
 * without a Quantizer and with Negabinary.
 *
 * One tile is one block of Bitshuffle and one chunk of RZE, so a tile goes from elements to payload in cache.
 * The bytes are those of the stages one after the other. */
#include "fused.h"

#include "../le.h"
#include "../stages.h"
#include "../stages/adaptive_bitpack.h"
#include "../stages/zigzag.h"
#include "outlier_mask.h"
#include "pool.h"
#include "quantizer.h"
#include "shuffle.h"
#include "zero_code.h"

#include <string.h>

/* Tiles of a task: divides RZE's groups, and is whole bytes of modes and of the empty map. */
enum { TILE = 4096, TASK_TILES = 16 };

struct slot {
    int64_t elems[TILE], codes[TILE], residuals[TILE];
    uint8_t planes[8 * TILE];
    uint8_t payloads[TASK_TILES * 8 * TILE + 128];
};

struct job {
    bool quantized;
    const struct fzm_quantizer_params *params;
    struct fzm_quantizer_fns quantizer;
    const struct fzm_tile_kernels *lorenzo;
    const struct fzm_shuffle_kernels *shuffle;
    const struct fzm_zero_kernels *zero;
    struct fzm_tiling tiling;
    uint8_t *elems;
    size_t elem_nbytes, code_nbytes;
    bool map_order; /* floats without a Quantizer */
    uint8_t *modes, *origins, *empty;
    struct fzm_outlier_mask mask;
    uint8_t *group_ends, *sizes, *payloads;
    struct fzm_sequence sequence;
    struct fzm_zero_section section;
    atomic_bool damaged, any_empty;
    struct slot *slots;
};

static void map_order(void *values, size_t elem_nbytes)
{
    if (elem_nbytes == 4) {
        int32_t *const v = values;
        for (uint32_t i = 0; i < TILE; i++)
            v[i] = fzm_ordered_i32(v[i]);
    } else {
        int64_t *const v = values;
        for (uint32_t i = 0; i < TILE; i++)
            v[i] = fzm_ordered_i64(v[i]);
    }
}

/* Values of a tile for the predictor, outliers filled in. bad[] is set and *any_bad is true if there are
 * some; returns false if all are. */
static bool fetch(const struct job *j, const struct fzm_tiling *t, const struct fzm_tile_at *at, void *elems, void *codes,
                  uint64_t *bad, bool *any_bad)
{
    *any_bad = false;
    if (!j->quantized) {
        fzm_tile_gather(codes, j->elems, j->elem_nbytes, t, at);
        if (j->map_order)
            map_order(codes, j->elem_nbytes);
        return true;
    }
    fzm_tile_gather(elems, j->elems, j->elem_nbytes, t, at);
    *any_bad = j->quantizer.quantize(j->params, elems, TILE, codes, bad) > 0 && fzm_outlier_mask_clip(bad, t, at->extent);
    return !*any_bad || j->lorenzo->fill_masked(codes, bad, t, at->extent) > 0;
}

static int fetch_for_choice(void *arg, const struct fzm_tiling *t, uint64_t tile, unsigned worker, void *v)
{
    struct job *const j = arg;
    const struct fzm_tile_at at = fzm_tiling_at(t, tile);
    uint64_t bad[TILE / 64];
    bool any_bad;
    return fetch(j, t, &at, j->slots[worker].elems, v, bad, &any_bad);
}

/* Sign maps, in place; they return the OR of all results. */
#define MAP_LOOP(map, W)                                            \
    {                                                               \
        uint##W##_t *const r = residuals;                           \
        uint##W##_t any = 0;                                        \
        for (uint32_t i = 0; i < TILE; i++)                         \
            any |= (uint##W##_t)(r[i] = fzm_##map##W(r[i]));     \
        return any;                                                 \
    }

#define SIGN_MAP(map)                                               \
    static uint64_t map(void *residuals, size_t code_nbytes)        \
    {                                                               \
        switch (code_nbytes) {                                      \
        case 1: MAP_LOOP(map, 8)                                    \
        case 2: MAP_LOOP(map, 16)                                   \
        case 4: MAP_LOOP(map, 32)                                   \
        default: MAP_LOOP(map, 64)                                  \
        }                                                           \
    }

SIGN_MAP(zigzag_encode)
SIGN_MAP(zigzag_decode)
SIGN_MAP(negabinary_encode)
SIGN_MAP(negabinary_decode)

/* Encodes a tile; returns the size of its payload at p. */
static size_t encode_tile(struct job *j, struct slot *s, uint64_t tile, uint8_t *p)
{
    const struct fzm_tile_at at = fzm_tiling_at(&j->tiling, tile);
    uint64_t bad[TILE / 64];
    bool any_bad;
    const bool any_good = fetch(j, &j->tiling, &at, s->elems, s->codes, bad, &any_bad);
    if (any_bad)
        fzm_outlier_mask_add(&j->mask, bad, &j->tiling, &at);
    if (!any_good) {
        j->empty[tile / 8] = (uint8_t)(j->empty[tile / 8] | 1u << (tile % 8));
        atomic_store_explicit(&j->any_empty, true, memory_order_relaxed);
        return 0;
    }
    const struct fzm_tile_choice choice =
        j->lorenzo->forward(s->codes, s->residuals, &j->tiling, at.extent, FZM_TILE_COST_PLANES, NULL);
    fzm_tile_mode_put(j->modes, tile, choice.mode);
    memcpy(j->origins + tile * j->code_nbytes, s->codes, j->code_nbytes);
    const uint64_t any = j->quantized ? zigzag_encode(s->residuals, j->code_nbytes)
                                      : negabinary_encode(s->residuals, j->code_nbytes);
    if (any == 0)
        return 0;
    const unsigned first = (unsigned)(8 * j->code_nbytes) - fzm_bit_length(any);
    j->shuffle->split[fzm_shuffle_index(j->code_nbytes)](s->residuals, TILE, first, s->planes);
    return fzm_zero_chunk_encode(j->zero, s->planes, TILE * j->code_nbytes, 1, false, first, p);
}

static void encode_task(void *arg, size_t task, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = j->slots + worker;
    const uint64_t first = (uint64_t)task * TASK_TILES, left = j->tiling.n_tiles - first;
    const uint64_t end = left < TASK_TILES ? j->tiling.n_tiles : first + TASK_TILES;
    memset(j->modes + first / 4, 0, (size_t)fzm_div_up(end - first, 4));
    if (j->quantized)
        memset(j->empty + first / 8, 0, TASK_TILES / 8);
    uint8_t *p = s->payloads;
    for (uint64_t tile = first; tile < end; tile++) {
        const size_t nbytes = encode_tile(j, s, tile, p);
        fzm_put_le16(j->sizes + 2 * tile, (uint16_t)nbytes);
        p += nbytes;
    }
    const size_t nbytes = (size_t)(p - s->payloads);
    const uint64_t offset = fzm_sequence_take(&j->sequence, task, nbytes);
    if (end % FZM_ZERO_GROUP_CHUNKS == 0 || end == j->tiling.n_tiles)
        fzm_put_le32(j->group_ends + 4 * ((end - 1) / FZM_ZERO_GROUP_CHUNKS), (uint32_t)(offset + nbytes));
    memcpy(j->payloads + offset, s->payloads, nbytes);
}

/* Elements from the values of a tile. */
static void store_tile(const struct job *j, struct slot *s, const struct fzm_tile_at *at)
{
    if (j->quantized) {
        j->quantizer.dequantize(j->params, s->codes, TILE, s->elems);
        fzm_tile_scatter(s->elems, j->elems, j->elem_nbytes, &j->tiling, at);
        return;
    }
    if (j->map_order)
        map_order(s->codes, j->elem_nbytes);
    fzm_tile_scatter(s->codes, j->elems, j->elem_nbytes, &j->tiling, at);
}

static bool decode_tile(const struct job *j, struct slot *s, uint64_t tile, const uint8_t *p, size_t nbytes)
{
    const struct fzm_tile_at at = fzm_tiling_at(&j->tiling, tile);
    const unsigned mode = fzm_tile_mode_get(j->modes, tile);
    unsigned first;
    int64_t origin = 0;
    memcpy(&origin, j->origins + tile * j->code_nbytes, j->code_nbytes);
    if (mode >= fzm_tile_n_modes(&j->tiling) ||
        !fzm_zero_chunk_decode(j->zero, p, nbytes, fzm_zero_section_has_slack(&j->section, p + nbytes),
                               TILE * j->code_nbytes, 1, false, s->planes, &first))
        return false;
    if (nbytes == 0) {
        memset(s->residuals, 0, TILE * j->code_nbytes);
        j->lorenzo->inverse(s->residuals, origin, 0, &j->tiling, s->codes);
    } else {
        j->shuffle->join[fzm_shuffle_index(j->code_nbytes)](s->planes, TILE, first, s->residuals);
        if (j->quantized)
            zigzag_decode(s->residuals, j->code_nbytes);
        else
            negabinary_decode(s->residuals, j->code_nbytes);
        j->lorenzo->inverse(s->residuals, origin, mode, &j->tiling, s->codes);
    }
    store_tile(j, s, &at);
    return true;
}

static void decode_group(void *arg, size_t group, unsigned worker)
{
    struct job *const j = arg;
    const uint64_t first = (uint64_t)group * FZM_ZERO_GROUP_CHUNKS;
    const uint8_t *p, *end;
    bool good = fzm_zero_section_group(&j->section, group, &p, &end);
    for (uint64_t i = first; good && i < j->tiling.n_tiles && i < first + FZM_ZERO_GROUP_CHUNKS; i++) {
        const size_t nbytes = fzm_get_le16(j->section.sizes + 2 * i);
        good = nbytes <= (size_t)(end - p) && decode_tile(j, j->slots + worker, i, p, nbytes);
        p += nbytes;
    }
    if (!good || p != end)
        atomic_store_explicit(&j->damaged, true, memory_order_relaxed);
}

/* ---- the op ---- */

/* calls of the chain without the Quantizer in front. */
static bool accepts_tail(const struct fzm_call *calls)
{
    const struct fzm_adaptive_lorenzo_params *const lorenzo = calls[0].params;
    const struct fzm_bitshuffle_params *const shuffle = calls[2].params;
    const struct fzm_zero_code_params *const zero = calls[3].params;
    struct fzm_tiling t;
    return lorenzo->tile == 1 && fzm_adaptive_lorenzo_cost(lorenzo) == FZM_TILE_COST_PLANES && shuffle->block_size == 0 &&
           shuffle->element_nbytes == 0 && zero->word <= 1 && zero->chunk_size == 0 &&
           (lorenzo->geometry == FZM_GEOMETRY_AUTO ||
            fzm_tiling_init(&t, &calls[0].in[0].shape, TILE, (int)lorenzo->geometry));
}

static int accepts_lossless(const struct fzm_call *calls)
{
    const struct fzm_adaptive_lorenzo_params *const lorenzo = calls[0].params;
    return accepts_tail(calls) && calls[0].in[0].shape.dtype <= FZM_F64 &&
           lorenzo->geometry != FZM_GEOMETRY_AUTO;
}

static int accepts_quantized(const struct fzm_call *calls)
{
    return accepts_tail(calls + 1) && calls[0].in[0].shape.dtype <= FZM_F64;
}

static uint64_t most_tiles(const struct fzm_shape *shape)
{
    uint64_t most = 0;
    struct fzm_tiling t;
    for (int g = FZM_GEOMETRY_1D; g < FZM_N_GEOMETRIES; g++)
        if (fzm_tiling_init(&t, shape, TILE, g) && t.n_tiles > most)
            most = t.n_tiles;
    return most;
}

static size_t pad64(size_t n) { return (n + 63) / 64 * 64; }
static size_t empty_nbytes(const struct fzm_shape *shape) { return pad64((size_t)(most_tiles(shape) / 8 + TASK_TILES)); }

static size_t scratch(const struct fzm_call *calls, unsigned n_threads)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    return n_threads * pad64(sizeof(struct slot)) + empty_nbytes(shape) +
           fzm_quantizer_outlier_scratch_nbytes((size_t)shape->n_elems);
}

static void init_job(struct job *j, const struct fzm_call *calls, bool quantized, void *memory)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    const struct fzm_call *const lorenzo = &calls[quantized];
    memset(j, 0, sizeof *j);
    j->quantized = quantized;
    j->elem_nbytes = j->code_nbytes = fzm_dtype_nbytes(shape->dtype);
    if (quantized) {
        j->params = calls[0].params;
        j->quantizer = fzm_quantizer_fns_get(j->params, shape->dtype);
        j->code_nbytes = fzm_dtype_nbytes(j->quantizer.code_dtype);
        fzm_outlier_mask_init(&j->mask, calls[0].out[1].data, fzm_quantizer_mask_nbytes((size_t)shape->n_elems));
    }
    j->map_order = !quantized && fzm_dtype_is_float(shape->dtype);
    j->lorenzo = fzm_tile_kernels_get(j->code_nbytes);
    j->shuffle = fzm_shuffle_kernels_get();
    j->zero = fzm_zero_kernels_get();
    j->elems = calls[0].in[0].data;
    j->modes = lorenzo->out[1].data;
    j->origins = lorenzo->out[2].data;
    j->slots = memory;
    j->empty = (uint8_t *)j->slots + fzm_pool_n_threads(calls[0].pool) * sizeof(struct slot);
}

static void set_outliers(struct job *j, struct fzm_call *quantizer, const struct fzm_shape *shape)
{
    const bool any = fzm_outlier_mask_any(&j->mask);
    quantizer->out[1].nbytes = any ? j->mask.nbytes : 0;
    quantizer->out[2].nbytes = 0;
    if (any)
        quantizer->out[2].nbytes =
            j->elem_nbytes * fzm_quantizer_gather_outliers(quantizer->pool, j->mask.bits, j->elems, (size_t)shape->n_elems,
                                                           j->elem_nbytes, quantizer->out[2].data,
                                                           j->empty + empty_nbytes(shape));
}

static int forward(struct fzm_call *calls, bool quantized, void *memory)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    struct fzm_call *const lorenzo_call = &calls[quantized], *const rze = &calls[quantized + 3];
    /* FZM_PF_RUNTIME: settled here */
    struct fzm_adaptive_lorenzo_params *const lorenzo = (void *)(uintptr_t)lorenzo_call->params;
    struct job j;
    init_job(&j, calls, quantized, memory);
    const struct fzm_tile_sampler sampler = {fetch_for_choice, &j, j.slots[0].payloads, sizeof(struct slot), calls[0].pool};
    if (lorenzo->geometry == FZM_GEOMETRY_AUTO)
        lorenzo->geometry = (uint32_t)fzm_tile_choose_geometry(shape, TILE, FZM_TILE_COST_PLANES, j.code_nbytes, &sampler);
    if (!fzm_tiling_init(&j.tiling, shape, TILE, (int)lorenzo->geometry))
        return fzm_err_set(lorenzo_call->err, FZM_ERR_INTERNAL, "AdaptiveLorenzo: no tiling");
    const uint64_t n_tiles = j.tiling.n_tiles;
    uint8_t *const section = rze->out[0].data;
    rze->out[0].nbytes = 0;
    if (n_tiles > 0) {
        fzm_put_le64(section, n_tiles * TILE * j.code_nbytes);
        j.group_ends = section + 8;
        j.sizes = j.group_ends + 4 * fzm_div_up(n_tiles, FZM_ZERO_GROUP_CHUNKS);
        j.payloads = section + fzm_zero_table_nbytes(n_tiles);
        fzm_pool_run(calls[0].pool, (size_t)fzm_div_up(n_tiles, TASK_TILES), encode_task, &j);
        rze->out[0].nbytes = (size_t)(fzm_zero_table_nbytes(n_tiles) + j.sequence.total);
    }
    if (atomic_load_explicit(&j.any_empty, memory_order_relaxed))
        fzm_tile_fix_origins(j.origins, j.code_nbytes, n_tiles, j.empty);
    lorenzo_call->out[1].nbytes = (size_t)fzm_div_up(n_tiles, 4);
    lorenzo_call->out[2].nbytes = (size_t)n_tiles * j.code_nbytes;
    if (quantized)
        set_outliers(&j, &calls[0], shape);
    return 0;
}

static int inverse(struct fzm_call *calls, bool quantized, void *memory)
{
    const struct fzm_shape *const shape = &calls[0].in[0].shape;
    const struct fzm_call *const lorenzo_call = &calls[quantized];
    const struct fzm_buf *const section = &calls[quantized + 3].out[0];
    const struct fzm_adaptive_lorenzo_params *const lorenzo = lorenzo_call->params;
    struct job j;
    if (quantized)
        FZM_TRY(fzm_quantizer_check_params(calls[0].params, shape->dtype, calls[0].err));
    init_job(&j, calls, quantized, memory);
    if (!fzm_tiling_init(&j.tiling, shape, TILE, (int)lorenzo->geometry))
        return fzm_err_set(lorenzo_call->err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: geometry does not fit the array");
    const uint64_t n_tiles = j.tiling.n_tiles;
    if (lorenzo_call->out[1].nbytes != fzm_div_up(n_tiles, 4) || lorenzo_call->out[2].nbytes != n_tiles * j.code_nbytes)
        return fzm_err_set(lorenzo_call->err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: modes or origins of the wrong size");
    if (!fzm_zero_section_open(&j.section, section->data, section->nbytes, n_tiles * TILE * j.code_nbytes,
                               (uint32_t)(TILE * j.code_nbytes)))
        return fzm_err_set(lorenzo_call->err, FZM_ERR_CORRUPT, "RZE: section of %zu bytes does not hold %llu tiles",
                           section->nbytes, (unsigned long long)n_tiles);
    fzm_pool_run(calls[0].pool, (size_t)fzm_div_up(n_tiles, FZM_ZERO_GROUP_CHUNKS), decode_group, &j);
    if (atomic_load_explicit(&j.damaged, memory_order_relaxed))
        return fzm_err_set(lorenzo_call->err, FZM_ERR_CORRUPT, "RZE or AdaptiveLorenzo: a tile is damaged");
    if (!quantized)
        return 0;
    const struct fzm_buf *const mask = &calls[0].out[1], *const vals = &calls[0].out[2];
    return fzm_quantizer_scatter_outliers(calls[0].pool, mask->data, mask->nbytes, vals->data, vals->nbytes, j.elems,
                                          (size_t)shape->n_elems, j.elem_nbytes, j.empty + empty_nbytes(shape),
                                          calls[0].err);
}

static int forward_quantized(struct fzm_call *calls, void *memory) { return forward(calls, true, memory); }
static int inverse_quantized(struct fzm_call *calls, void *memory) { return inverse(calls, true, memory); }
static int forward_lossless(struct fzm_call *calls, void *memory) { return forward(calls, false, memory); }
static int inverse_lossless(struct fzm_call *calls, void *memory) { return inverse(calls, false, memory); }

static const struct fzm_stage *const quantized_chain[] = {&fzm_stage_quantizer, &fzm_stage_adaptive_lorenzo,
                                                          &fzm_stage_zigzag, &fzm_stage_bitshuffle, &fzm_stage_rze};
static const struct fzm_stage *const lossless_chain[] = {&fzm_stage_adaptive_lorenzo, &fzm_stage_negabinary,
                                                         &fzm_stage_bitshuffle, &fzm_stage_rze};

const struct fzm_fused fzm_fused_planes = {.name = "planes", .chain = quantized_chain, .n_stages = 5, .mask_at = 1,
                                           .accepts = accepts_quantized, .scratch = scratch,
                                           .forward = forward_quantized, .inverse = inverse_quantized};
const struct fzm_fused fzm_fused_lossless = {.name = "lossless planes", .chain = lossless_chain, .n_stages = 4,
                                             .accepts = accepts_lossless, .scratch = scratch,
                                             .forward = forward_lossless, .inverse = inverse_lossless};
