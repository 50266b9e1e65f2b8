/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitshuffle: parameters and places. bitshuffle.c describes the bytes. */
#ifndef FZM_BITSHUFFLE_H
#define FZM_BITSHUFFLE_H

#include "../types.h"

struct fzm_bitshuffle_params {
    uint32_t element_nbytes; /* index: 0 auto (the input's type), 1..4: 1, 2, 4, 8 bytes */
    uint32_t block_size;     /* bytes; 0: 4096 elements */
};

/* Bits of an 8x8 matrix, byte r bit c -> byte c bit r. Warren, Hacker's Delight, section 7-3. */
FZM_HD uint64_t fzm_transpose8(uint64_t x)
{
    uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aau;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000cccc0000ccccu;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0u;
    return x ^ t ^ (t << 28);
}

#endif
