/* SPDX-License-Identifier: BSD-3-Clause */
/* RZE and RRE: the layout that both share (zero_code.c describes the bytes).
 *
 * A chunk of len bytes: words that are kept (RZE: not zero; RRE: not equal to the word before, the first
 * one's being 0), and a bitmap of one bit per word saying which. The bitmap's bytes are reduced in the same
 * way, repeats eliminated, until a level is 8 bytes or less. */
#ifndef FZM_ZERO_CODE_H
#define FZM_ZERO_CODE_H

#include "../types.h"

struct fzm_zero_code_params {
    uint32_t word;       /* index: 0 auto, 1..4: 1, 2, 4, 8 bytes */
    uint32_t chunk_size; /* bytes; 0: 4096 elements */
};

enum {
    FZM_ZERO_MAX_CHUNK = 32768,
    FZM_ZERO_GROUP_CHUNKS = 64, /* chunks per entry of the offset table */
    FZM_ZERO_TOP_NBYTES = 8,    /* a level of at most this many bytes is not reduced further */
    FZM_ZERO_MAX_LEVELS = 5
};

/* Bytes of the bitmap levels of a chunk of n_words words: level[0] is the bitmap of the words.
 * Returns the number of levels. */
FZM_HD unsigned fzm_zero_levels(uint32_t n_words, uint32_t level[FZM_ZERO_MAX_LEVELS])
{
    unsigned n = 0;
    level[n++] = (n_words + 7) / 8;
    while (level[n - 1] > FZM_ZERO_TOP_NBYTES) {
        level[n] = (level[n - 1] + 7) / 8;
        n++;
    }
    return n;
}

/* Chunks of a section, bytes before the payloads, and the worst case. */
FZM_HD uint64_t fzm_zero_n_chunks(uint64_t in_nbytes, uint32_t chunk_nbytes)
{
    return fzm_div_up(in_nbytes, chunk_nbytes);
}
FZM_HD uint64_t fzm_zero_table_nbytes(uint64_t n_chunks)
{
    return n_chunks ? 8 + 4 * fzm_div_up(n_chunks, FZM_ZERO_GROUP_CHUNKS) + 2 * n_chunks : 0;
}

#endif
