/* SPDX-License-Identifier: BSD-3-Clause */
/* The plain C kernels, and what the stage and the fused chains share around them. */
#define KERNELS fzm_tile_kernels_c
#include "tile_kernels.h"

#include "fused_tile.h"
#include "isa.h"
#include "pool.h"

const struct fzm_tile_kernels *fzm_tile_kernels_get(size_t elem_nbytes)
{
    const unsigned i = elem_nbytes == 1 ? 0 : elem_nbytes == 2 ? 1 : elem_nbytes == 4 ? 2 : 3;
#if defined(__x86_64__)
    switch (fzm_isa_get()) {
    case FZM_ISA_AVX512: return &fzm_tile_kernels_avx512[i];
    case FZM_ISA_AVX2: return &fzm_tile_kernels_avx2[i];
    default: break;
    }
#endif
    return &fzm_tile_kernels_c[i];
}

void fzm_tile_gather(void *tile, const void *array, size_t elem_nbytes, const struct fzm_tiling *t,
                     const struct fzm_tile_at *at)
{
    fzm_fused_gather(tile, array, elem_nbytes, t, at);
}

void fzm_tile_scatter(const void *tile, void *array, size_t elem_nbytes, const struct fzm_tiling *t,
                      const struct fzm_tile_at *at)
{
    fzm_fused_scatter(array, tile, t->tile[2] * elem_nbytes, elem_nbytes, t, at);
}

/* n (1..64) bits of a mask from bit `index` on; reads no byte that holds none of them. */
static uint64_t mask_bits(const uint8_t *mask, uint64_t index, uint32_t n)
{
    const uint8_t *const p = mask + index / 8;
    const unsigned shift = (unsigned)(index % 8);
    const uint32_t n_bytes = (shift + n + 7) / 8;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < n_bytes && i < 8; i++)
        bits |= (uint64_t)p[i] << (8 * i);
    bits >>= shift;
    if (n_bytes > 8)
        bits |= (uint64_t)p[8] << (64 - shift);
    return bits & ~(uint64_t)0 >> (64 - n);
}

bool fzm_tile_gather_mask(uint64_t *bad, const uint8_t *mask, const struct fzm_tiling *t, const struct fzm_tile_at *at)
{
    struct fzm_mask_walk w = fzm_mask_walk_from(t, at->extent);
    uint64_t any = 0;
    memset(bad, 0, t->n_tile_elems / 8);
    while (fzm_mask_walk_next(&w)) {
        const uint64_t row = at->first + (w.z * t->dims[1] + w.y) * t->dims[2];
        const uint64_t bits = mask_bits(mask, row + w.first % t->tile[2], w.n);
        bad[w.first / 64] |= bits << (w.first % 64);
        any |= bits;
    }
    return any != 0;
}

/* One geometry's share of the sample. */
struct sample {
    const struct fzm_tile_sampler *sampler;
    const struct fzm_tile_kernels *kernels;
    struct fzm_tiling tiling;
    uint64_t n_samples;
    size_t elem_nbytes;
    int cost;
    _Atomic uint64_t nbits;
};

/* Tiles of the sample that one task looks at. */
enum { TASK_SAMPLES = 32 };

static void sample_task(void *arg, size_t task, unsigned worker)
{
    struct sample *const s = arg;
    uint8_t *const v = (uint8_t *)s->sampler->buffers + worker * s->sampler->buffer_stride;
    uint8_t *const r = v + FZM_TILE_MAX_ELEMS * s->elem_nbytes;
    uint8_t widths[FZM_TILE_MAX_WIDTHS];
    uint64_t nbits = 0;
    for (uint64_t k = (uint64_t)task * TASK_SAMPLES; k < s->n_samples && k < (task + 1) * TASK_SAMPLES; k++) {
        const uint64_t tile = fzm_tile_sample_at(k, s->n_samples, s->tiling.n_tiles);
        const struct fzm_tile_at at = fzm_tiling_at(&s->tiling, tile);
        nbits += FZM_TILE_OVERHEAD_NBITS;
        if (s->sampler->fetch(s->sampler->arg, &s->tiling, tile, worker, v))
            nbits += s->kernels->forward(v, r, &s->tiling, at.extent, s->cost, widths).cost_nbits;
    }
    s->nbits += nbits;
}

static uint64_t geometry_cost(struct sample *s)
{
    s->n_samples = fzm_tile_n_samples(s->tiling.n_tiles);
    s->nbits = 0;
    fzm_pool_run(s->sampler->pool, (size_t)fzm_div_up(s->n_samples, TASK_SAMPLES), sample_task, s);
    return fzm_tile_cost_of_all(s->nbits, s->n_samples, s->tiling.n_tiles);
}

int fzm_tile_choose_geometry(const struct fzm_shape *shape, uint32_t n_tile_elems, int cost, size_t elem_nbytes,
                             const struct fzm_tile_sampler *sampler)
{
    int best = FZM_GEOMETRY_1D;
    uint64_t best_cost = UINT64_MAX;
    struct sample s = {.sampler = sampler, .kernels = fzm_tile_kernels_get(elem_nbytes), .elem_nbytes = elem_nbytes,
                       .cost = cost};
    if (shape->n_elems == 0 || shape->rank == 1)
        return best;
    for (int geometry = FZM_GEOMETRY_1D; geometry < FZM_N_GEOMETRIES; geometry++) {
        if (!fzm_tile_is_candidate(&s.tiling, shape, n_tile_elems, geometry))
            continue;
        const uint64_t nbits = geometry_cost(&s);
        if (nbits < best_cost) {
            best = geometry;
            best_cost = nbits;
        }
    }
    return best;
}

void fzm_tile_fix_origins(void *origins, size_t elem_nbytes, uint64_t n_tiles, const uint8_t *empty)
{
    uint8_t *const o = origins;
    for (uint64_t i = 0; i < n_tiles; i++) {
        if (i % 8 == 0 && i + 8 <= n_tiles && empty[i / 8] == 0) {
            i += 7;
            continue;
        }
        if (!(empty[i / 8] >> (i % 8) & 1))
            continue;
        if (i == 0)
            memset(o, 0, elem_nbytes);
        else
            memcpy(o + i * elem_nbytes, o + (i - 1) * elem_nbytes, elem_nbytes);
    }
}
