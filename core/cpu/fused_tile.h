/* SPDX-License-Identifier: BSD-3-Clause */
/* What fused chains do with tiles around the kernels: walking over them and copying their rows. */
#ifndef FZM_CPU_FUSED_TILE_H
#define FZM_CPU_FUSED_TILE_H

#include <string.h>

#include "tile.h"

/* Rows of a tile are too far apart for the hardware to foresee the next tile. */
#if defined(__GNUC__)
#define FZM_PREFETCH_READ(p) __builtin_prefetch(p)
#define FZM_PREFETCH_WRITE(p) __builtin_prefetch(p, 1)
#else
#define FZM_PREFETCH_READ(p) ((void)(p))
#define FZM_PREFETCH_WRITE(p) ((void)(p))
#endif

/* Walks over the tiles of a tiling in order, without a division per tile. */
struct fzm_tile_walker {
    const struct fzm_tiling *t;
    uint64_t at[3], batch;
};

static inline struct fzm_tile_walker fzm_tile_walker_at(const struct fzm_tiling *t, uint64_t tile)
{
    struct fzm_tile_walker w;
    w.t = t;
    w.at[2] = tile % t->grid[2];
    tile /= t->grid[2];
    w.at[1] = tile % t->grid[1];
    tile /= t->grid[1];
    w.at[0] = tile % t->grid[0];
    w.batch = tile / t->grid[0];
    return w;
}

static inline struct fzm_tile_at fzm_tile_walker_get(const struct fzm_tile_walker *w)
{
    struct fzm_tile_at a;
    uint64_t first = w->batch;
    for (int i = 0; i < 3; i++) {
        const uint64_t begin = w->at[i] * w->t->tile[i], left = w->t->dims[i] - begin;
        first = first * w->t->dims[i] + begin;
        a.extent[i] = left < w->t->tile[i] ? (uint32_t)left : w->t->tile[i];
    }
    a.first = first;
    return a;
}

static inline void fzm_tile_walker_next(struct fzm_tile_walker *w)
{
    for (int i = 2; i >= 0; i--) {
        if (++w->at[i] < w->t->grid[i])
            return;
        w->at[i] = 0;
    }
    w->batch++;
}

/* ny rows of each of nz planes; called with a constant row_nbytes, which makes each copy a few moves. */
static inline void fzm_copy_rows(uint8_t *to, size_t to_y, size_t to_z, const uint8_t *from, size_t from_y,
                                 size_t from_z, uint32_t nz, uint32_t ny, size_t row_nbytes, bool is_gather)
{
    const size_t next = row_nbytes < 64 ? 64 : row_nbytes; /* behind a row: that of the next tile */
    for (uint32_t z = 0; z < nz; z++, to += to_z, from += from_z) {
        uint8_t *row = to;
        const uint8_t *source = from;
        for (uint32_t y = 0; y < ny; y++, row += to_y, source += from_y) {
            memcpy(row, source, row_nbytes);
            for (size_t i = 0; i < row_nbytes; i += 64)
                if (is_gather)
                    FZM_PREFETCH_READ(source + next + i);
                else
                    FZM_PREFETCH_WRITE(row + next + i);
        }
    }
}

static inline void fzm_copy_any_rows(uint8_t *to, size_t to_y, size_t to_z, const uint8_t *from,
                                     size_t from_y, size_t from_z, uint32_t nz, uint32_t ny,
                                     size_t row_nbytes, bool is_gather)
{
    switch (row_nbytes) {
    case 16: fzm_copy_rows(to, to_y, to_z, from, from_y, from_z, nz, ny, 16, is_gather); break;
    case 32: fzm_copy_rows(to, to_y, to_z, from, from_y, from_z, nz, ny, 32, is_gather); break;
    case 64: fzm_copy_rows(to, to_y, to_z, from, from_y, from_z, nz, ny, 64, is_gather); break;
    case 128: fzm_copy_rows(to, to_y, to_z, from, from_y, from_z, nz, ny, 128, is_gather); break;
    case 256: fzm_copy_rows(to, to_y, to_z, from, from_y, from_z, nz, ny, 256, is_gather); break;
    default: fzm_copy_rows(to, to_y, to_z, from, from_y, from_z, nz, ny, row_nbytes, is_gather);
    }
}

/* n copies of an element; called with a constant size. */
static inline void fzm_repeat(uint8_t *to, const uint8_t *element, size_t elem_nbytes, uint32_t n)
{
    uint64_t bits = 0; /* the compiler must not take `to` and `element` for the same memory */
    memcpy(&bits, element, elem_nbytes);
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * elem_nbytes, &bits, elem_nbytes);
}

static inline void fzm_repeat_any(void *to, const uint8_t *element, size_t elem_nbytes, uint32_t n)
{
    switch (elem_nbytes) {
    case 1: memset(to, *element, n); break;
    case 2: fzm_repeat((uint8_t *)to, element, 2, n); break;
    case 4: fzm_repeat((uint8_t *)to, element, 4, n); break;
    default: fzm_repeat((uint8_t *)to, element, 8, n);
    }
}

/* Elements of a tile in tile order; what lies beyond the array gets the tile's first element. */
static inline void fzm_fused_gather(void *tile, const void *array, size_t elem_nbytes,
                                    const struct fzm_tiling *t, const struct fzm_tile_at *at)
{
    uint8_t *const to = (uint8_t *)tile;
    const uint8_t *const from = (const uint8_t *)array + at->first * elem_nbytes;
    const size_t row = t->tile[2] * elem_nbytes, y_stride = (size_t)t->dims[2] * elem_nbytes;
    if (!fzm_tile_is_full(t, at->extent))
        fzm_repeat_any(to, from, elem_nbytes, t->n_tile_elems);
    fzm_copy_any_rows(to, row, row * t->tile[1], from, y_stride, y_stride * (size_t)t->dims[1], at->extent[0],
                      at->extent[1], at->extent[2] * elem_nbytes, true);
}

/* The reverse, without the padding; rows of the tile are tile_y bytes apart (0: all the same). */
static inline void fzm_fused_scatter(void *array, const void *tile, size_t tile_y, size_t elem_nbytes,
                                     const struct fzm_tiling *t, const struct fzm_tile_at *at)
{
    uint8_t *const to = (uint8_t *)array + at->first * elem_nbytes;
    const size_t y_stride = (size_t)t->dims[2] * elem_nbytes;
    fzm_copy_any_rows(to, y_stride, y_stride * (size_t)t->dims[1], (const uint8_t *)tile, tile_y,
                      tile_y * t->tile[1], at->extent[0], at->extent[1], at->extent[2] * elem_nbytes, false);
}

#endif
