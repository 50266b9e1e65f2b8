/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveLorenzo: parameters and scalar rules of the predictor, for both engines.
 *
 * A tile's elements are taken relative to its first one (the origin), then differenced along as many
 * axes as its mode says, starting with the fastest; outside the tile everything is 0. */
#ifndef FZM_ADAPTIVE_LORENZO_H
#define FZM_ADAPTIVE_LORENZO_H

#include "tile.h"

enum fzm_tile_cost { FZM_TILE_COST_BITPACK = 0, FZM_TILE_COST_PLANES = 1 };

struct fzm_adaptive_lorenzo_params {
    uint32_t tile;     /* index: 0 is 256 elements, 1 is 4096 */
    uint32_t geometry; /* enum fzm_geometry */
    uint32_t cost;     /* 0: by the tile, else enum fzm_tile_cost + 1 */
};

FZM_HD uint32_t fzm_adaptive_lorenzo_n_tile_elems(const struct fzm_adaptive_lorenzo_params *p)
{
    return p->tile ? 4096 : 256;
}

/* The coder whose cost counts: small tiles are for bit packing, large ones for planes. */
FZM_HD int fzm_adaptive_lorenzo_cost(const struct fzm_adaptive_lorenzo_params *p)
{
    return p->cost ? (int)p->cost - 1 : p->tile ? FZM_TILE_COST_PLANES : FZM_TILE_COST_BITPACK;
}

/* Modes of a geometry are 0 .. this - 1. */
FZM_HD unsigned fzm_tile_n_modes(const struct fzm_tiling *t) { return t->tile[0] > 1 ? 4 : 3; }

/* Bits that a tile costs besides its residuals: its mode and its share of the origins. */
enum { FZM_TILE_OVERHEAD_NBITS = 12 };

/* Float bits as integers that order like the values, and back (the same map both ways): -0 and -NaN
 * included, so a bijection. */
FZM_HD int32_t fzm_ordered_i32(int32_t b) { return b < 0 ? b ^ 0x7fffffff : b; }
FZM_HD int64_t fzm_ordered_i64(int64_t b) { return b < 0 ? b ^ 0x7fffffffffffffff : b; }

/* Tiles looked at to choose the geometry, and the k-th of them. */
FZM_HD uint64_t fzm_tile_n_samples(uint64_t n_tiles)
{
    const uint64_t s = n_tiles / 64 > 64 ? n_tiles / 64 : 64;
    return s < n_tiles ? s : n_tiles;
}
FZM_HD uint64_t fzm_tile_sample_at(uint64_t k, uint64_t n_samples, uint64_t n_tiles)
{
    return (2 * k + 1) * n_tiles / (2 * n_samples);
}

/* Estimated cost of an array in bits, from that of the sample: nbits * n_tiles / n_samples without overflow
 * (a tile has at most 2^18 bits, arrays 2^40 elements). */
FZM_HD uint64_t fzm_tile_cost_of_all(uint64_t nbits, uint64_t n_samples, uint64_t n_tiles)
{
    return nbits / n_samples * n_tiles + nbits % n_samples * n_tiles / n_samples;
}

/* Whether a geometry is worth considering: it exists, and padding adds at most a quarter and one tile. */
FZM_HD bool fzm_tile_is_candidate(struct fzm_tiling *t, const struct fzm_shape *shape, uint32_t n_tile_elems,
                                  int geometry)
{
    return fzm_tiling_init(t, shape, n_tile_elems, geometry) &&
           (geometry == FZM_GEOMETRY_1D ||
            t->n_tiles * n_tile_elems <= shape->n_elems + shape->n_elems / 4 + n_tile_elems);
}

#endif
