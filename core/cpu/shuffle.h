/* SPDX-License-Identifier: BSD-3-Clause */
/* Bit planes of blocks on the CPU, shared by Bitshuffle and the fused chains. */
#ifndef FZM_CPU_SHUFFLE_H
#define FZM_CPU_SHUFFLE_H

#include "../stages/bitshuffle.h"

/* Blocks of n elements, n a multiple of 8, of W = 8, 16, 32 or 64 bits, any alignment. Plane p (most
 * significant first) is the n / 8 bytes at planes + p * n / 8. */
struct fzm_shuffle_kernels {
    /* Writes planes [first, W) and only those; elements must have zeros in the planes before first. */
    void (*split[4])(const void *elems, size_t n, unsigned first, uint8_t *planes);
    /* Reads planes [first, W); the planes before are taken as zero. */
    void (*join[4])(const uint8_t *planes, size_t n, unsigned first, void *elems);
};

extern const struct fzm_shuffle_kernels fzm_shuffle_kernels_c;
#if defined(__x86_64__)
extern const struct fzm_shuffle_kernels fzm_shuffle_kernels_avx2, fzm_shuffle_kernels_avx512;
#endif
const struct fzm_shuffle_kernels *fzm_shuffle_kernels_get(void);

/* Index of an element width in split[] and join[]. */
static inline unsigned fzm_shuffle_index(size_t elem_nbytes)
{
    return elem_nbytes == 1 ? 0 : elem_nbytes == 2 ? 1 : elem_nbytes == 4 ? 2 : 3;
}

#endif
