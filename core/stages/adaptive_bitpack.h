/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveBitpack: the arithmetic of its layout (adaptive_bitpack.c describes the bytes). */
#ifndef FZM_ADAPTIVE_BITPACK_H
#define FZM_ADAPTIVE_BITPACK_H

#include "../types.h"

struct fzm_adaptive_bitpack_params {
    uint32_t block_size; /* elements of a block: 8..1024, a multiple of 8 */
};

enum {
    FZM_BITPACK_TILE_BLOCKS = 8,
    FZM_BITPACK_SUPER_TILES = 64,
    FZM_BITPACK_SUPER_BLOCKS = 512,
    FZM_BITPACK_HEAD_NBYTES = 8 + 16 + 512, /* most bytes of a super-tile's map, classes and rates */
};

/* How a tile's 8 widths are stored; the smallest class that applies is taken. */
enum fzm_bitpack_class {
    FZM_BITPACK_UNIFORM = 0, /* all equal: 1 byte */
    FZM_BITPACK_DELTA = 1, /* none below the largest by more than 3: the largest, then 8 2-bit differences */
    FZM_BITPACK_NIBBLES = 2, /* none above 15: 8 nibbles */
    FZM_BITPACK_PLAIN = 3    /* 8 bytes */
};

#define FZM_BITPACK_ONES 0x0101010101010101u

/* Number of bits up to the highest one set; 0 for 0. */
FZM_HD uint32_t fzm_bit_length(uint64_t v)
{
#if defined(__CUDA_ARCH__)
    return 64u - (uint32_t)__clzll((long long)v);
#elif defined(__GNUC__)
    return v ? 64u - (uint32_t)__builtin_clzll(v) : 0u;
#else
    uint32_t n = 0;
    for (; v; v >>= 1)
        n++;
    return n;
#endif
}

/* Width of a block from the OR of its elements and the OR of the elements with their sign folded into
 * the magnitude bits: x ^ (x >> (bits - 1)), the shift being arithmetic. */
FZM_HD uint32_t fzm_bitpack_width(uint64_t or_elems, uint64_t or_folded)
{
    return or_elems ? fzm_bit_length(or_folded) + 1 : 0;
}

/* The 8 widths of a tile as one word, block b in byte b. */
FZM_HD uint64_t fzm_bitpack_widths_join(const uint8_t w[8])
{
    return (uint64_t)w[0] | (uint64_t)w[1] << 8 | (uint64_t)w[2] << 16 | (uint64_t)w[3] << 24 |
           (uint64_t)w[4] << 32 | (uint64_t)w[5] << 40 | (uint64_t)w[6] << 48 | (uint64_t)w[7] << 56;
}

/* Largest of 8 bytes below 128. */
FZM_HD uint32_t fzm_bitpack_widths_max(uint64_t w)
{
    for (uint32_t shift = 32; shift >= 8; shift >>= 1) {
        const uint64_t other = w >> shift;
        const uint64_t take_w = (((w | 0x80u * FZM_BITPACK_ONES) - other) >> 7) & FZM_BITPACK_ONES;
        const uint64_t mask = take_w * 0xffu;
        w = (w & mask) | (other & ~mask);
    }
    return (uint32_t)(w & 0xffu);
}

/* Sum of 8 bytes below 128. */
FZM_HD uint32_t fzm_bitpack_widths_sum(uint64_t w)
{
    const uint64_t even = 0x00ff00ff00ff00ffu;
    return (uint32_t)((((w & even) + ((w >> 8) & even)) * 0x0001000100010001u) >> 48);
}

FZM_HD uint32_t fzm_bitpack_class_of(uint64_t w)
{
    if (w == (w & 0xffu) * FZM_BITPACK_ONES)
        return FZM_BITPACK_UNIFORM;
    const uint32_t max = fzm_bitpack_widths_max(w);
    const uint64_t least = (max > 3u ? max - 3u : 0u) * FZM_BITPACK_ONES;
    const uint64_t high = 0x80u * FZM_BITPACK_ONES;
    if ((((w | high) - least) & high) == high)
        return FZM_BITPACK_DELTA;
    return max <= 15u ? FZM_BITPACK_NIBBLES : FZM_BITPACK_PLAIN;
}

FZM_HD uint32_t fzm_bitpack_class_nbytes(uint32_t rate_class)
{
    return (0x08040301u >> (8u * rate_class)) & 0xffu;
}

/* Bits that a tile costs; what the adaptive predictor minimises. */
FZM_HD uint32_t fzm_bitpack_tile_cost64(uint64_t w, uint32_t block_size)
{
    return w ? 2u + 8u * fzm_bitpack_class_nbytes(fzm_bitpack_class_of(w)) +
                   block_size * fzm_bitpack_widths_sum(w)
             : 0u;
}

FZM_HD uint32_t fzm_bitpack_tile_cost(const uint8_t w[8], uint32_t block_size)
{
    return fzm_bitpack_tile_cost64(fzm_bitpack_widths_join(w), block_size);
}

/* 8 bytes below 4 (or below 16) to 8 neighbouring fields of 2 (4) bits and back. */
FZM_HD uint64_t fzm_bitpack_pack2(uint64_t v)
{
    v = (v | v >> 6) & 0x000f000f000f000fu;
    v = (v | v >> 12) & 0x000000ff000000ffu;
    return (v | v >> 24) & 0xffffu;
}

FZM_HD uint64_t fzm_bitpack_unpack2(uint64_t v)
{
    v = ((v & 0xffffu) | v << 24) & 0x000000ff000000ffu;
    v = (v | v << 12) & 0x000f000f000f000fu;
    return (v | v << 6) & 0x0303030303030303u;
}

FZM_HD uint64_t fzm_bitpack_pack4(uint64_t v)
{
    v = (v | v >> 4) & 0x00ff00ff00ff00ffu;
    v = (v | v >> 8) & 0x0000ffff0000ffffu;
    return (v | v >> 16) & 0xffffffffu;
}

FZM_HD uint64_t fzm_bitpack_unpack4(uint64_t v)
{
    v = ((v & 0xffffffffu) | v << 16) & 0x0000ffff0000ffffu;
    v = (v | v << 8) & 0x00ff00ff00ff00ffu;
    return (v | v << 4) & 0x0f0f0f0f0f0f0f0fu;
}

/* The rate bytes of a tile, first byte lowest. */
FZM_HD uint64_t fzm_bitpack_rates_encode(uint64_t w, uint32_t rate_class)
{
    switch (rate_class) {
    case FZM_BITPACK_UNIFORM: return w & 0xffu;
    case FZM_BITPACK_DELTA: {
        const uint64_t max = fzm_bitpack_widths_max(w);
        return max | fzm_bitpack_pack2(max * FZM_BITPACK_ONES - w) << 8;
    }
    case FZM_BITPACK_NIBBLES: return fzm_bitpack_pack4(w);
    default: return w;
    }
}

/* The widths from rate bytes (only the class's bytes of `rates` count). Damaged bytes can give any
 * widths; fzm_bitpack_widths_valid() finds the ones that no block can have. */
FZM_HD uint64_t fzm_bitpack_rates_decode(uint64_t rates, uint32_t rate_class)
{
    switch (rate_class) {
    case FZM_BITPACK_UNIFORM: return (rates & 0xffu) * FZM_BITPACK_ONES;
    case FZM_BITPACK_DELTA: { /* byte by byte: a difference above the largest width gives 128 or more */
        const uint64_t max = (rates & 0x7fu) * FZM_BITPACK_ONES, high = 0x80u * FZM_BITPACK_ONES;
        const uint64_t above = (rates & 0x80u) * FZM_BITPACK_ONES;
        return (((max | high) - fzm_bitpack_unpack2(rates >> 8)) ^ high) | above;
    }
    case FZM_BITPACK_NIBBLES: return fzm_bitpack_unpack4(rates);
    default: return rates;
    }
}

/* Whether all 8 widths are at most elem_nbits (<= 64). */
FZM_HD bool fzm_bitpack_widths_valid(uint64_t w, uint32_t elem_nbits)
{
    const uint64_t high = 0x80u * FZM_BITPACK_ONES;
    return ((w | ((w & ~high) + (127u - elem_nbits) * FZM_BITPACK_ONES)) & high) == 0;
}

/* Elements of a super-tile, and how many super-tiles n elements make. */
FZM_HD uint64_t fzm_bitpack_super_n_elems(uint32_t block_size)
{
    return (uint64_t)block_size * FZM_BITPACK_SUPER_BLOCKS;
}

FZM_HD uint64_t fzm_bitpack_n_super(uint64_t n_elems, uint32_t block_size)
{
    return fzm_div_up(n_elems, fzm_bitpack_super_n_elems(block_size));
}

/* Bytes before the payloads: the size of the input and the table of ends. */
FZM_HD uint64_t fzm_bitpack_table_nbytes(uint64_t n_super) { return n_super ? 8 + 4 * n_super : 0; }

/* Most bytes of the payload of a super-tile with n_elems elements (at most a full one). All widths at
 * the type's own is the worst case, except that planes of 1 to 3 bytes can be outweighed by a costlier
 * rate class and padding. */
FZM_HD uint64_t fzm_bitpack_super_bound(uint64_t n_elems, uint32_t block_size, uint32_t elem_nbits)
{
    const uint64_t n_blocks = fzm_div_up(n_elems, block_size);
    const uint64_t n_full = n_blocks / FZM_BITPACK_TILE_BLOCKS,
                   n_live = fzm_div_up(n_blocks, FZM_BITPACK_TILE_BLOCKS);
    const uint64_t full_rate = block_size == 8 ? 5 : 1, part_rate = elem_nbits == 8 ? 4 : 8;
    const uint64_t rates = n_full * full_rate + (n_live - n_full) * part_rate + (block_size < 32 ? 8 : 0);
    const uint64_t planes = n_blocks * (block_size / 8) * elem_nbits;
    return n_elems ? 8 + ((n_live + 15) / 16 + (rates + 3) / 4 + (planes + 3) / 4) * 4 : 0;
}

FZM_HD uint64_t fzm_bitpack_section_bound(uint64_t n_elems, uint32_t block_size, uint32_t elem_nbits)
{
    const uint64_t per_super = fzm_bitpack_super_n_elems(block_size), n_full = n_elems / per_super;
    return fzm_bitpack_table_nbytes(fzm_bitpack_n_super(n_elems, block_size)) +
           n_full * fzm_bitpack_super_bound(per_super, block_size, elem_nbits) +
           fzm_bitpack_super_bound(n_elems % per_super, block_size, elem_nbits);
}

#endif
