/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitpack: the arithmetic of its layout (bitpack.c describes the bytes). */
#ifndef FZM_BITPACK_H
#define FZM_BITPACK_H

#include "../types.h"
#include "adaptive_bitpack.h"

struct fzm_bitpack_params {
    uint32_t nbits; /* 1..64: every element has that many bits; 0: found per block */
};

enum {
    FZM_BITPACK_BLOCK_ELEMS = 4096,
    FZM_BITPACK_GROUP_ELEMS = 64, /* w bits of 64 elements are w 64-bit words */
    FZM_BITPACK_BLOCK_HEAD_NBYTES = 16,
};

/* How the elements of a block become fields: (x - minimum) >> shift, width bits each. Elements are taken
 * modulo 2^elem_nbits; signed ones with their sign bit flipped, so that order is unsigned everywhere. */
struct fzm_bitpack_block {
    uint64_t minimum;
    uint32_t shift, width;
};

/* From the smallest and largest element (flipped) and the OR of x ^ (any one element) over all x. */
FZM_HD struct fzm_bitpack_block fzm_bitpack_block_from(uint64_t min, uint64_t max, uint64_t differing)
{
    struct fzm_bitpack_block b;
    b.minimum = min;
    b.shift = differing ? fzm_bit_length(differing & (0 - differing)) - 1 : 0;
    b.width = fzm_bit_length((max - min) >> b.shift);
    return b;
}

FZM_HD uint64_t fzm_bitpack_sign_flip(int dtype)
{
    return fzm_dtype_is_signed(dtype) ? (uint64_t)1 << (8 * fzm_dtype_nbytes(dtype) - 1) : 0;
}

/* Whether an element (sign-extended if signed) can be given back from its lowest nbits (1..64). */
FZM_HD bool fzm_bitpack_fits(uint64_t x, uint32_t nbits, bool is_signed)
{
    const uint64_t rest = is_signed ? (x ^ (0 - (x >> 63))) >> (nbits - 1) : x >> (nbits - 1) >> 1;
    return rest == 0;
}

FZM_HD uint64_t fzm_bitpack_low_mask(uint32_t nbits)
{
    return nbits < 64 ? ((uint64_t)1 << nbits) - 1 : ~(uint64_t)0;
}

/* 64 fields of w bits (1..64) to w words; fields have no bits above. */
FZM_HD void fzm_bitpack_pack_group(const uint64_t v[FZM_BITPACK_GROUP_ELEMS], uint32_t w, uint64_t *words)
{
    uint64_t word = 0;
    uint32_t n_filled = 0;
    for (uint32_t i = 0; i < FZM_BITPACK_GROUP_ELEMS; i++) {
        word |= v[i] << n_filled;
        n_filled += w;
        if (n_filled >= 64) {
            *words++ = word;
            n_filled -= 64;
            word = n_filled ? v[i] >> (w - n_filled) : 0;
        }
    }
}

FZM_HD void fzm_bitpack_unpack_group(const uint64_t *words, uint32_t w, uint64_t v[FZM_BITPACK_GROUP_ELEMS])
{
    const uint64_t mask = fzm_bitpack_low_mask(w);
    uint32_t bit = 0;
    for (uint32_t i = 0; i < FZM_BITPACK_GROUP_ELEMS; i++, bit += w) {
        const uint32_t at = bit / 64, shift = bit % 64;
        uint64_t field = words[at] >> shift;
        if (shift + w > 64)
            field |= words[at + 1] << (64 - shift);
        v[i] = field & mask;
    }
}

/* Bytes of n fields. */
FZM_HD uint64_t fzm_bitpack_fields_nbytes(uint64_t n, uint32_t width)
{
    return n / 8 * width + (n % 8 * width + 7) / 8;
}

/* Bytes of a block's payload in auto mode, a multiple of 8. */
FZM_HD uint64_t fzm_bitpack_block_nbytes(uint64_t n, uint32_t width)
{
    return FZM_BITPACK_BLOCK_HEAD_NBYTES + (fzm_bitpack_fields_nbytes(n, width) + 7) / 8 * 8;
}

FZM_HD uint64_t fzm_bitpack_bound(uint64_t n, uint32_t nbits, uint32_t elem_nbits)
{
    if (n == 0)
        return 0;
    if (nbits)
        return 8 + fzm_bitpack_fields_nbytes(n, nbits);
    const uint64_t n_full = n / FZM_BITPACK_BLOCK_ELEMS, rest = n % FZM_BITPACK_BLOCK_ELEMS;
    return 8 + 4 * (n_full + (rest != 0)) +
           n_full * fzm_bitpack_block_nbytes(FZM_BITPACK_BLOCK_ELEMS, elem_nbits) +
           (rest ? fzm_bitpack_block_nbytes(rest, elem_nbits) : 0);
}

#endif
