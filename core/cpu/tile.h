/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of the adaptive predictor on the CPU: kernels on one tile in cache, shared by the AdaptiveLorenzo
 * stage and the fused chains. The rules are in stages/adaptive_lorenzo.h, the cutting in stages/tile.h. */
#ifndef FZM_CPU_TILE_H
#define FZM_CPU_TILE_H

#include "../stages/adaptive_lorenzo.h"
#include "../stages/tile.h"

enum {
    FZM_TILE_MAX_ELEMS = 4096,
    FZM_TILE_MAX_WIDTHS = FZM_TILE_MAX_ELEMS / 32,
    FZM_TILE_MAX_MASK_WORDS = FZM_TILE_MAX_ELEMS / 64
};

/* Result of the encoder's choice for one tile. */
struct fzm_tile_choice {
    unsigned mode;
    uint64_t cost_nbits; /* by the cost kind, without the share of modes and origins */
};

/* Kernels for signed elements of one width. v: the n_tile_elems values of a tile (padding holds anything);
 * extent: valid extents. All buffers are at least 8-byte aligned and do not overlap. */
struct fzm_tile_kernels {
    /* Residuals r of the cheapest mode (padding 0), relative to the origin v[0]. For cost bitpack,
     * widths[] gets the widths of the n_tile_elems / 32 blocks of r (may be NULL otherwise). */
    struct fzm_tile_choice (*forward)(const void *v, void *r, const struct fzm_tiling *t, const uint32_t extent[3],
                                      int cost, uint8_t *widths);
    /* Values from residuals; the mode must exist (fzm_tile_n_modes()). */
    void (*inverse)(const void *r, int64_t origin, unsigned mode, const struct fzm_tiling *t, void *v);
    /* Masked elements (bit i of bad[i / 64]) take the last good value before them, leading ones the first
     * good value; only valid positions count. Returns the number of good elements; 0: v is unchanged. */
    uint32_t (*fill_masked)(void *v, const uint64_t *bad, const struct fzm_tiling *t, const uint32_t extent[3]);
};

/* For elements of 1, 2, 4 or 8 bytes and fzm_isa_get(). */
const struct fzm_tile_kernels *fzm_tile_kernels_get(size_t elem_nbytes);

extern const struct fzm_tile_kernels fzm_tile_kernels_c[4];
#if defined(__x86_64__)
extern const struct fzm_tile_kernels fzm_tile_kernels_avx2[4], fzm_tile_kernels_avx512[4];
#endif

/* Walks over the valid elements of a tile in tile order, at most 64 of a row at a time: elements first ..
 * first + n - 1, whose bits lie in one word of a mask; valid has the n low bits set. */
struct fzm_mask_walk {
    const struct fzm_tiling *t;
    const uint32_t *extent;
    uint32_t x, y, z, first, n;
    uint64_t valid;
};

static inline struct fzm_mask_walk fzm_mask_walk_from(const struct fzm_tiling *t, const uint32_t extent[3])
{
    const struct fzm_mask_walk w = {t, extent, 0, 0, 0, 0, 0, 0};
    return w;
}

static inline bool fzm_mask_walk_next(struct fzm_mask_walk *w)
{
    if (w->x >= w->extent[2]) {
        w->x = 0;
        if (++w->y >= w->extent[1]) {
            w->y = 0;
            w->z++;
        }
    }
    if (w->z >= w->extent[0])
        return false;
    w->first = (w->z * w->t->tile[1] + w->y) * w->t->tile[2] + w->x;
    w->n = w->extent[2] - w->x < 64 ? w->extent[2] - w->x : 64;
    w->valid = ~(uint64_t)0 >> (64 - w->n);
    w->x += 64;
    return true;
}

/* Copies a tile between an array of elements and a tile buffer; padding gets copies of valid elements. */
void fzm_tile_gather(void *tile, const void *array, size_t elem_nbytes, const struct fzm_tiling *t,
                     const struct fzm_tile_at *at);
void fzm_tile_scatter(const void *tile, void *array, size_t elem_nbytes, const struct fzm_tiling *t,
                      const struct fzm_tile_at *at);

static inline bool fzm_tile_is_full(const struct fzm_tiling *t, const uint32_t extent[3])
{
    return extent[0] == t->tile[0] && extent[1] == t->tile[1] && extent[2] == t->tile[2];
}

/* The bits of a tile in a packed field mask, in tile order; padding 0. Returns whether any is set. */
bool fzm_tile_gather_mask(uint64_t *bad, const uint8_t *mask, const struct fzm_tiling *t, const struct fzm_tile_at *at);

/* Where the tiles of a sample come from. */
struct fzm_tile_sampler {
    /* Fetches the values of a tile (masked elements filled) on a worker. Returns 0 if the whole tile is
     * masked: then v need not be set. */
    int (*fetch)(void *arg, const struct fzm_tiling *t, uint64_t tile, unsigned worker, void *v);
    void *arg;
    void *buffers;        /* of worker 0: 2 * FZM_TILE_MAX_ELEMS elements */
    size_t buffer_stride; /* bytes from one worker's buffers to the next one's */
    struct fzm_pool *pool;
};

/* The geometry of least estimated cost for an array: the same sample and rule for staged and fused runs. */
int fzm_tile_choose_geometry(const struct fzm_shape *shape, uint32_t n_tile_elems, int cost, size_t elem_nbytes,
                             const struct fzm_tile_sampler *sampler);

/* Fully masked tiles (bit i of empty[i / 8]) take the origin of the tile before them, 0 for the first. */
void fzm_tile_fix_origins(void *origins, size_t elem_nbytes, uint64_t n_tiles, const uint8_t *empty);

/* Mode of a tile in the packed modes, and back. put() needs the byte zeroed before its first tile. */
static inline unsigned fzm_tile_mode_get(const uint8_t *modes, uint64_t tile)
{
    return modes[tile / 4] >> (2 * (tile % 4)) & 3u;
}
static inline void fzm_tile_mode_put(uint8_t *modes, uint64_t tile, unsigned mode)
{
    modes[tile / 4] = (uint8_t)(modes[tile / 4] | mode << (2 * (tile % 4)));
}

#endif
