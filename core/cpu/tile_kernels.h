/* SPDX-License-Identifier: BSD-3-Clause */
/* All widths of the tile kernels for the instruction set that this translation unit is compiled for;
 * KERNELS is the name of the table. */
#include "../stages/adaptive_bitpack.h"
#include "tile.h"

#include <string.h>

static inline unsigned fzm_popcount64(uint64_t v)
{
#if defined(__GNUC__)
    return (unsigned)__builtin_popcountll(v);
#else
    unsigned n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
#endif
}

/* Position of the lowest bit set; v is not 0. */
static inline unsigned fzm_ctz64(uint64_t v)
{
#if defined(__GNUC__)
    return (unsigned)__builtin_ctzll(v);
#else
    unsigned n = 0;
    for (; !(v & 1); v >>= 1)
        n++;
    return n;
#endif
}

#include "tile_simd.h"

#define T int8_t
#define U uint8_t
#define W 8
#define NAME(x) x##_8
#ifdef __AVX2__
#define HAVE_PLANES
#endif
#include "tile_kernel.h"

#define T int16_t
#define U uint16_t
#define W 16
#define NAME(x) x##_16
#ifdef __AVX2__
#define HAVE_PLANES
#endif
#include "tile_kernel.h"

#define T int32_t
#define U uint32_t
#define W 32
#define NAME(x) x##_32
#ifdef __AVX2__
#define HAVE_BITPACK
#define HAVE_PLANES
#define HAVE_SCAN
#define HAVE_ROW_8
#endif
#include "tile_kernel.h"

#define T int64_t
#define U uint64_t
#define W 64
#define NAME(x) x##_64
#ifdef __AVX2__
#define HAVE_BITPACK
#define HAVE_PLANES
#define HAVE_SCAN
#endif
#include "tile_kernel.h"

const struct fzm_tile_kernels KERNELS[4] = {
    {forward_8, inverse_8, fill_masked_8},
    {forward_16, inverse_16, fill_masked_16},
    {forward_32, inverse_32, fill_masked_32},
    {forward_64, inverse_64, fill_masked_64},
};
