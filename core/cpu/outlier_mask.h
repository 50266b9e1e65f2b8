/* SPDX-License-Identifier: BSD-3-Clause */
/* The outlier mask of a chunk that several workers fill tile by tile. */
#ifndef FZM_OUTLIER_MASK_H
#define FZM_OUTLIER_MASK_H

#include "tile.h"

#include <stdatomic.h>

/* One bit per element of the array, LSB first. It is zeroed when the first outlier turns up, since most
 * chunks have none. */
struct fzm_outlier_mask {
    uint8_t *bits;
    size_t nbytes;
    atomic_int state;
};

void fzm_outlier_mask_init(struct fzm_outlier_mask *m, void *bits, size_t nbytes);

/* Whether any outlier was added. Only between runs of the pool. */
bool fzm_outlier_mask_any(struct fzm_outlier_mask *m);

/* Clears the bits of padding in a tile's mask (bit i of bad[i / 64], tile order). Returns whether any bit
 * is left. */
bool fzm_outlier_mask_clip(uint64_t *bad, const struct fzm_tiling *t, const uint32_t extent[3]);

/* Adds a tile's outliers (clipped). Any worker, any time. */
void fzm_outlier_mask_add(struct fzm_outlier_mask *m, const uint64_t *bad, const struct fzm_tiling *t,
                          const struct fzm_tile_at *at);

#endif
