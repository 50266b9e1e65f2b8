/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of the adaptive predictor: how an array is cut into them.
 *
 * A tile holds 256 or 4096 elements. Tiles of one field follow each other row-major over the grid of
 * tiles, fields of a batch one after the other; inside a tile elements are row-major. Tiles at the
 * high end of an axis are padded: residuals of padding are 0 and decoders ignore them. */
#ifndef FZM_TILE_H
#define FZM_TILE_H

#include "../types.h"

enum fzm_geometry {
    FZM_GEOMETRY_AUTO = 0,
    FZM_GEOMETRY_1D = 1,      /* 256 or 4096 neighbours along the flattened field */
    FZM_GEOMETRY_2D = 2,      /* 16x16 or 64x64 */
    FZM_GEOMETRY_3D = 3,      /* 4x8x8 or 16x16x16 */
    FZM_GEOMETRY_2D_WIDE = 4, /* 16x256, tiles of 4096 only */
    FZM_GEOMETRY_3D_FLAT = 5, /* 4x16x64, tiles of 4096 only */
    FZM_N_GEOMETRIES = 6
};

/* The grid of tiles of one array. Axis order z, y, x everywhere. */
struct fzm_tiling {
    uint32_t tile[3];   /* elements of a tile along each axis; product is n_tile_elems */
    uint32_t n_tile_elems;
    uint64_t dims[3];   /* extents of one field as the tiling sees it (1-D: {1, 1, n}) */
    uint64_t grid[3];   /* tiles of one field along each axis */
    uint64_t n_batch;   /* fields */
    uint64_t n_tiles;   /* n_batch * grid product */
};

/* Cuts an array. Returns false if the geometry does not exist for this tile size or rank (2-D needs
 * rank >= 2, 3-D rank 3; in rank 3 the 2-D tiles are 1 plane thick). Shapes of up to 2^40 elements are
 * safe. geometry must not be AUTO. An empty array has no tiles. */
FZM_HD bool fzm_tiling_init(struct fzm_tiling *t, const struct fzm_shape *shape, uint32_t n_tile_elems, int geometry)
{
    const bool big = n_tile_elems == 4096;
    uint32_t z = 1, y = 1, x = n_tile_elems;
    int rank = 1;
    switch (geometry) {
    case FZM_GEOMETRY_1D: break;
    case FZM_GEOMETRY_2D: y = x = big ? 64 : 16; rank = 2; break;
    case FZM_GEOMETRY_3D: z = big ? 16 : 4; y = x = big ? 16 : 8; rank = 3; break;
    case FZM_GEOMETRY_2D_WIDE: y = 16; x = 256; rank = big ? 2 : 9; break;
    case FZM_GEOMETRY_3D_FLAT: z = 4; y = 16; x = 64; rank = big ? 3 : 9; break;
    default: return false;
    }
    if ((n_tile_elems != 256 && !big) || rank > shape->rank)
        return false;
    t->tile[0] = z, t->tile[1] = y, t->tile[2] = x;
    t->n_tile_elems = n_tile_elems;
    t->n_batch = rank == 1 ? 1 : shape->dims[0];
    t->dims[0] = rank == 1 ? 1 : shape->dims[1];
    t->dims[1] = rank == 1 ? 1 : shape->dims[2];
    t->dims[2] = rank == 1 ? shape->n_elems : shape->dims[3];
    t->n_tiles = t->n_batch;
    for (int i = 0; i < 3; i++) {
        t->grid[i] = fzm_div_up(t->dims[i], t->tile[i]);
        t->n_tiles *= t->grid[i];
    }
    return true;
}

/* Where a tile lies: index of its first element in the array, and its valid extents (1..tile). */
struct fzm_tile_at {
    uint64_t first;
    uint32_t extent[3];
};

FZM_HD struct fzm_tile_at fzm_tiling_at(const struct fzm_tiling *t, uint64_t tile)
{
    const uint64_t tx = tile % t->grid[2], rest = tile / t->grid[2];
    const uint64_t ty = rest % t->grid[1], rest2 = rest / t->grid[1];
    const uint64_t tz = rest2 % t->grid[0], batch = rest2 / t->grid[0];
    const uint64_t z = tz * t->tile[0], y = ty * t->tile[1], x = tx * t->tile[2];
    struct fzm_tile_at at;
    at.first = ((batch * t->dims[0] + z) * t->dims[1] + y) * t->dims[2] + x;
    at.extent[0] = (uint32_t)(t->dims[0] - z < t->tile[0] ? t->dims[0] - z : t->tile[0]);
    at.extent[1] = (uint32_t)(t->dims[1] - y < t->tile[1] ? t->dims[1] - y : t->tile[1]);
    at.extent[2] = (uint32_t)(t->dims[2] - x < t->tile[2] ? t->dims[2] - x : t->tile[2]);
    return at;
}

#endif
