/* SPDX-License-Identifier: BSD-3-Clause */
/* BitLorenzo on the device: what encoder and decoder share. An octet is 8 rows whose cells lie together; a
 * row is cut into words of 32 bits. */
#ifndef FZM_GPU_BIT_LORENZO_CUH
#define FZM_GPU_BIT_LORENZO_CUH

#include <string.h>

extern "C" {
#include "../core/stages.h"
#include "../core/stages/bit_lorenzo.h"
#include "ops.h"
}

#include "quantizer_load.cuh"
#include "transpose.cuh"

/* As struct bit_lorenzo_params of the stage: 0 is auto, else the set FZM_BIT_LORENZO_* + 1. */
struct fzm_bit_lorenzo_params {
    uint32_t axes;
};

/* A packed string of bits, and the words that can be read whole. */
struct fzm_bit_string {
    const uint8_t *bytes;
    uint64_t nbytes;
    bool aligned; /* to 4 bytes */
};

FZM_D uint32_t fzm_bit_string_word(const struct fzm_bit_string *s, uint64_t i)
{
    if (s->aligned && 4 * i + 4 <= s->nbytes)
        return ((const uint32_t *)(const void *)s->bytes)[i];
    uint32_t v = 0;
    for (unsigned b = 0; b < 4; b++)
        v |= 4 * i + b < s->nbytes ? (uint32_t)s->bytes[4 * i + b] << 8 * b : 0;
    return v;
}

/* The word's bits that are in the row; word * 32 < n_x. */
FZM_D uint32_t fzm_bit_row_mask(const struct fzm_bit_field *f, uint64_t word)
{
    const uint64_t n = f->n_x - 32 * word;
    return n < 32 ? (1u << n) - 1 : 0xffffffffu;
}

/* Turns 8 words, one per row, to 4 cells of 8 bytes, one byte per row. */
FZM_D void fzm_bit_cells_of(uint64_t cells[4], const uint32_t w[8])
{
#pragma unroll
    for (unsigned c = 0; c < 4; c++) {
        const uint32_t pick = c | (4 + c) << 4;
        const uint32_t low =
            __byte_perm(__byte_perm(w[0], w[1], pick), __byte_perm(w[2], w[3], pick), 0x5410);
        const uint32_t high =
            __byte_perm(__byte_perm(w[4], w[5], pick), __byte_perm(w[6], w[7], pick), 0x5410);
        cells[c] = low | (uint64_t)high << 32;
    }
}

/* And back. */
FZM_D void fzm_bit_rows_of(uint32_t w[8], const uint64_t cells[4])
{
#pragma unroll
    for (unsigned r = 0; r < 8; r++) {
        const uint32_t pick = r % 4 | (4 + r % 4) << 4, shift = r / 4 * 32;
        w[r] = __byte_perm(__byte_perm((uint32_t)(cells[0] >> shift), (uint32_t)(cells[1] >> shift), pick),
                           __byte_perm((uint32_t)(cells[2] >> shift), (uint32_t)(cells[3] >> shift), pick),
                           0x5410);
    }
}

extern "C" size_t fzm_gpu_bit_lorenzo_decode_scratch(const struct fzm_bit_field *f);
extern "C" int fzm_gpu_bit_lorenzo_inverse(struct fzm_call *c);

#endif
