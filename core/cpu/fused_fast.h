/* SPDX-License-Identifier: BSD-3-Clause */
/* The predictor on whole tiles of 256 32-bit elements, each in one pass over registers: the same results as
 * fzm_tile_kernels with cost bitpack, which remain the reference and serve all other tiles. */
#ifndef FZM_CPU_FUSED_FAST_H
#define FZM_CPU_FUSED_FAST_H

#include "../stages/tile.h"

enum {
    FZM_FAST_LEAD_ELEMS = 8, /* elements before v[0] that the kernel may overwrite */
    FZM_FAST_MAX_MODES = 4
};

struct fzm_fast_kernels {
    /* v: a full tile, 32-byte aligned, with FZM_FAST_LEAD_ELEMS more in front. residuals: of mode m at
     * residuals + 256 m (32-byte aligned). widths: of the blocks of the mode returned. */
    unsigned (*choose)(int32_t *v, int32_t *residuals, uint8_t widths[8]);
    /* The values of a tile; r and v are 32-byte aligned and do not overlap. The mode must exist. */
    void (*undo)(const int32_t *r, int32_t origin, unsigned mode, int32_t *v);
};

/* For geometries 1D, 2D, 3D, at their own index. */
#if defined(__x86_64__)
extern const struct fzm_fast_kernels fzm_fast_kernels_avx2[FZM_GEOMETRY_3D + 1];
extern const struct fzm_fast_kernels fzm_fast_kernels_avx512[FZM_GEOMETRY_3D + 1];
#endif

#endif
