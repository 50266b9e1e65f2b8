/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveLorenzo: the array is cut into tiles (tile.h); each tile is predicted by the variant whose
 * residuals cost the least under the coder behind. FSZ's idea, with multi-dimensional tiles, and with the
 * tile's first value instead of its mean as the centre: that needs no reduction, makes the first residual
 * zero, and the origins compress well by themselves.
 *
 * Ports: `output` residuals, tile after tile; `modes` 2 bits per tile, 4 per byte, LSB first, the rest of
 * the last byte 0; `origins` one value per tile. Floats are taken as their bits in an order-preserving map,
 * so the stage is lossless for every input. With a mask, masked elements come back as any value. */
#include "adaptive_lorenzo.h"

#include "../cpu/pool.h"
#include "../cpu/tile.h"
#include "../stage.h"

#include <stdatomic.h>
#include <string.h>

static const char *const tile_names[] = {"256", "4096", NULL};
static const char *const geometry_names[] = {"auto", "1d", "2d", "3d", "2d_wide", "3d_flat", NULL};
static const char *const cost_names[] = {"auto", "bitpack", "planes", NULL};

/* Tiles of one task: enough work to be worth a task, and whole bytes of modes. */
enum { GROUP_TILES = 64 };

static uint64_t most_tiles(const struct fzm_adaptive_lorenzo_params *p, const struct fzm_shape *in)
{
    struct fzm_tiling t;
    const uint32_t n_tile_elems = fzm_adaptive_lorenzo_n_tile_elems(p);
    uint64_t most = 0;
    for (int geometry = FZM_GEOMETRY_1D; geometry < FZM_N_GEOMETRIES; geometry++)
        if (fzm_tile_is_candidate(&t, in, n_tile_elems, geometry) && t.n_tiles > most)
            most = t.n_tiles;
    return most;
}

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_adaptive_lorenzo_params *const p = params;
    const uint32_t n_tile_elems = fzm_adaptive_lorenzo_n_tile_elems(p);
    if (in[0].dtype >= FZM_BYTES)
        return fzm_err_set(err, FZM_ERR_CONFIG, "AdaptiveLorenzo: input 0 must be integers or floats, not bytes");
    if (in[1].n_elems != 0 && in[1].n_elems != fzm_div_up(in[0].n_elems, 8))
        return fzm_err_set(err, FZM_ERR_CONFIG, "AdaptiveLorenzo: a mask of %llu bytes does not belong to %llu elements",
                           (unsigned long long)in[1].n_elems, (unsigned long long)in[0].n_elems);
    struct fzm_tiling t;
    uint64_t n_tiles = 0;
    if (p->geometry == FZM_GEOMETRY_AUTO) {
        n_tiles = most_tiles(p, &in[0]);
    } else if (fzm_tiling_init(&t, &in[0], n_tile_elems, (int)p->geometry)) {
        n_tiles = t.n_tiles;
    } else {
        return fzm_err_set(err, FZM_ERR_CONFIG,
                           "AdaptiveLorenzo: geometry %s does not exist for an array of %u axes and tiles of %u; use auto, "
                           "1d%s%s", geometry_names[p->geometry], in[0].rank, n_tile_elems,
                           in[0].rank >= 2 ? ", 2d" : "", in[0].rank >= 3 ? ", 3d" : "");
    }
    const int dtype = fzm_dtype_to_signed(in[0].dtype);
    out[0] = fzm_shape_1d(dtype, n_tiles * n_tile_elems);
    out[1] = fzm_shape_1d(FZM_BYTES, fzm_div_up(n_tiles, 4));
    out[2] = fzm_shape_1d(dtype, n_tiles);
    return 0;
}

/* A worker's buffers. */
struct slot {
    int64_t values[FZM_TILE_MAX_ELEMS], residuals[FZM_TILE_MAX_ELEMS];
};

static uint64_t empty_nbytes(uint64_t n_tiles) { return fzm_div_up(n_tiles, 512) * 64; }

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    const struct fzm_adaptive_lorenzo_params *const p = params;
    struct fzm_tiling t;
    uint64_t n_tiles = most_tiles(p, &in[0]);
    if (p->geometry != FZM_GEOMETRY_AUTO &&
        fzm_tiling_init(&t, &in[0], fzm_adaptive_lorenzo_n_tile_elems(p), (int)p->geometry))
        n_tiles = t.n_tiles;
    return n_threads * sizeof(struct slot) + (size_t)empty_nbytes(n_tiles);
}

struct job {
    struct fzm_tiling tiling;
    const struct fzm_tile_kernels *kernels;
    size_t elem_nbytes;
    bool is_float;
    int cost;
    uint8_t *array;
    const uint8_t *mask; /* NULL: none */
    uint8_t *output, *modes, *origins, *empty;
    struct slot *slots;
    atomic_bool bad_mode;
};

static struct job job_of(const struct fzm_call *c)
{
    const struct fzm_adaptive_lorenzo_params *const p = c->params;
    struct job j;
    memset(&j, 0, sizeof j);
    j.elem_nbytes = fzm_dtype_nbytes(c->in[0].shape.dtype);
    j.is_float = fzm_dtype_is_float(c->in[0].shape.dtype);
    j.kernels = fzm_tile_kernels_get(j.elem_nbytes);
    j.cost = fzm_adaptive_lorenzo_cost(p);
    j.array = c->in[0].data;
    j.mask = c->in[1].nbytes ? c->in[1].data : NULL;
    j.slots = c->scratch;
    return j;
}

/* Bits of floats to ordered integers or back. */
static void map_order(void *values, size_t elem_nbytes, uint32_t n)
{
    if (elem_nbytes == 4) {
        int32_t *const v = values;
        for (uint32_t i = 0; i < n; i++)
            v[i] = fzm_ordered_i32(v[i]);
    } else {
        int64_t *const v = values;
        for (uint32_t i = 0; i < n; i++)
            v[i] = fzm_ordered_i64(v[i]);
    }
}

static int fetch_tile(void *arg, const struct fzm_tiling *t, uint64_t tile, unsigned worker, void *v)
{
    (void)worker;
    const struct job *const j = arg;
    const struct fzm_tile_at at = fzm_tiling_at(t, tile);
    uint64_t bad[FZM_TILE_MAX_MASK_WORDS];
    fzm_tile_gather(v, j->array, j->elem_nbytes, t, &at);
    if (j->is_float)
        map_order(v, j->elem_nbytes, t->n_tile_elems);
    if (j->mask && fzm_tile_gather_mask(bad, j->mask, t, &at))
        return j->kernels->fill_masked(v, bad, t, at.extent) > 0;
    return 1;
}

static int resolve(void *params, const struct fzm_call *c)
{
    struct fzm_adaptive_lorenzo_params *const p = params;
    struct job j = job_of(c);
    const struct fzm_tile_sampler sampler = {fetch_tile, &j, c->scratch, sizeof(struct slot), c->pool};
    if (p->geometry == FZM_GEOMETRY_AUTO)
        p->geometry = (uint32_t)fzm_tile_choose_geometry(&c->in[0].shape, fzm_adaptive_lorenzo_n_tile_elems(p), j.cost,
                                                         j.elem_nbytes, &sampler);
    return 0;
}

static void forward_group(void *arg, size_t group, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = &j->slots[worker];
    const size_t tile_nbytes = j->tiling.n_tile_elems * j->elem_nbytes;
    uint64_t tile = (uint64_t)group * GROUP_TILES;
    const uint64_t end = tile + GROUP_TILES < j->tiling.n_tiles ? tile + GROUP_TILES : j->tiling.n_tiles;
    memset(j->modes + tile / 4, 0, (size_t)fzm_div_up(end - tile, 4));
    memset(j->empty + tile / 8, 0, GROUP_TILES / 8);
    for (; tile < end; tile++) {
        const struct fzm_tile_at at = fzm_tiling_at(&j->tiling, tile);
        uint8_t widths[FZM_TILE_MAX_WIDTHS];
        if (!fetch_tile(j, &j->tiling, tile, worker, s->values)) {
            memset(j->output + tile * tile_nbytes, 0, tile_nbytes);
            j->empty[tile / 8] = (uint8_t)(j->empty[tile / 8] | 1u << (tile % 8));
            continue;
        }
        const unsigned mode = j->kernels->forward(s->values, s->residuals, &j->tiling, at.extent, j->cost, widths).mode;
        memcpy(j->output + tile * tile_nbytes, s->residuals, tile_nbytes);
        memcpy(j->origins + tile * j->elem_nbytes, s->values, j->elem_nbytes);
        fzm_tile_mode_put(j->modes, tile, mode);
    }
}

static int forward(struct fzm_call *c)
{
    const struct fzm_adaptive_lorenzo_params *const p = c->params;
    struct job j = job_of(c);
    const bool any = fzm_tiling_init(&j.tiling, &c->in[0].shape, fzm_adaptive_lorenzo_n_tile_elems(p), (int)p->geometry);
    const uint64_t n_tiles = any ? j.tiling.n_tiles : 0;
    j.output = c->out[0].data;
    j.modes = c->out[1].data;
    j.origins = c->out[2].data;
    j.empty = (uint8_t *)c->scratch + fzm_pool_n_threads(c->pool) * sizeof(struct slot);
    fzm_pool_run(c->pool, (size_t)fzm_div_up(n_tiles, GROUP_TILES), forward_group, &j);
    if (j.mask && n_tiles)
        fzm_tile_fix_origins(j.origins, j.elem_nbytes, n_tiles, j.empty);
    c->out[0].nbytes = (size_t)(n_tiles * j.tiling.n_tile_elems * j.elem_nbytes);
    c->out[1].nbytes = (size_t)fzm_div_up(n_tiles, 4);
    c->out[2].nbytes = (size_t)(n_tiles * j.elem_nbytes);
    return 0;
}

static void inverse_group(void *arg, size_t group, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = &j->slots[worker];
    const size_t tile_nbytes = j->tiling.n_tile_elems * j->elem_nbytes;
    uint64_t tile = (uint64_t)group * GROUP_TILES;
    const uint64_t end = tile + GROUP_TILES < j->tiling.n_tiles ? tile + GROUP_TILES : j->tiling.n_tiles;
    for (; tile < end; tile++) {
        const struct fzm_tile_at at = fzm_tiling_at(&j->tiling, tile);
        const unsigned mode = fzm_tile_mode_get(j->modes, tile);
        int64_t origin = 0;
        if (mode >= fzm_tile_n_modes(&j->tiling)) {
            atomic_store(&j->bad_mode, true);
            return;
        }
        /* wrap-around: the low bits of the origin are all that counts */
        memcpy(&origin, j->origins + tile * j->elem_nbytes, j->elem_nbytes);
        memcpy(s->residuals, j->output + tile * tile_nbytes, tile_nbytes);
        j->kernels->inverse(s->residuals, origin, mode, &j->tiling, s->values);
        if (j->is_float)
            map_order(s->values, j->elem_nbytes, j->tiling.n_tile_elems);
        fzm_tile_scatter(s->values, j->array, j->elem_nbytes, &j->tiling, &at);
    }
}

static int inverse(struct fzm_call *c)
{
    const struct fzm_adaptive_lorenzo_params *const p = c->params;
    struct job j = job_of(c);
    if (c->in[0].shape.n_elems == 0)
        return 0;
    if (!fzm_tiling_init(&j.tiling, &c->in[0].shape, fzm_adaptive_lorenzo_n_tile_elems(p), (int)p->geometry))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: geometry does not fit the array");
    const uint64_t n = j.tiling.n_tiles;
    if (c->out[0].nbytes != n * j.tiling.n_tile_elems * j.elem_nbytes || c->out[1].nbytes != fzm_div_up(n, 4) ||
        c->out[2].nbytes != n * j.elem_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: %zu bytes of residuals, %zu of modes, %zu of origins "
                           "do not belong to %llu tiles", c->out[0].nbytes, c->out[1].nbytes, c->out[2].nbytes,
                           (unsigned long long)n);
    j.output = c->out[0].data;
    j.modes = c->out[1].data;
    j.origins = c->out[2].data;
    fzm_pool_run(c->pool, (size_t)fzm_div_up(n, GROUP_TILES), inverse_group, &j);
    if (atomic_load(&j.bad_mode))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: a tile has a mode that its geometry lacks");
    return 0;
}

static const struct fzm_port inputs[] = {
    {"input", "int f32 f64", 0},
    {"mask", "bytes", FZM_PORT_OPTIONAL | FZM_PORT_HINT},
};
static const struct fzm_port outputs[] = {
    {"output", "signed int", 0},
    {"modes", "bytes", 0},
    {"origins", "signed int", 0},
};
static const struct fzm_param params[] = {
    {"tile", "elements of a tile", FZM_P_ENUM, 0, offsetof(struct fzm_adaptive_lorenzo_params, tile), 0, 1, 0, tile_names},
    {"geometry", "shape of the tiles; auto: the cheapest on a sample", FZM_P_ENUM, 0,
     offsetof(struct fzm_adaptive_lorenzo_params, geometry), 0, 5, 0, geometry_names},
    {"cost", "coder whose cost chooses the predictor of a tile; auto: bitpack for tiles of 256, planes for 4096",
     FZM_P_ENUM, 0, offsetof(struct fzm_adaptive_lorenzo_params, cost), 0, 2, 0, cost_names},
};

const struct fzm_stage fzm_stage_adaptive_lorenzo = {
    .name = "AdaptiveLorenzo",
    .help = "predicts tiles by the Lorenzo variant that costs the least under the coder behind",
    .reference = "J. Huang, FSZ (SC'26, arXiv 2607.15413), for the choice per tile; Ibarria et al. (2003) for the "
                 "Lorenzo predictor",
    .id = 4,
    .version = 1,
    .n_in = 2,
    .n_out = 3,
    .n_params = 3,
    .params_nbytes = sizeof(struct fzm_adaptive_lorenzo_params),
    .in = inputs,
    .out = outputs,
    .params = params,
    .shape = shape,
    .scratch = scratch,
    .resolve = resolve,
    .forward = forward,
    .inverse = inverse,
};
