/* SPDX-License-Identifier: BSD-3-Clause */
/* RZE and RRE: parameters and sizes that both engines share. zero_stage.h describes the bytes. */
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
    /* Words of a segment: one bit plane of 4096 elements. Its bitmap has 64 bytes, the map of the bitmap's
     * nonzero bytes 8, the map of that one's nonzero bytes 1: no level needs a loop. */
    FZM_ZERO_SEGMENT_WORDS = 512,
    FZM_ZERO_MAX_SEGMENTS = FZM_ZERO_MAX_CHUNK / FZM_ZERO_SEGMENT_WORDS
};

/* How a segment is stored: nothing, its words, its bitmap in full or in levels and the kept words. */
enum fzm_zero_mode { FZM_ZERO_NONE = 0, FZM_ZERO_WORDS = 1, FZM_ZERO_FLAT = 2, FZM_ZERO_TREE = 3 };

/* Chunks of a section, and bytes before the payloads. */
FZM_HD uint64_t fzm_zero_n_chunks(uint64_t in_nbytes, uint32_t chunk_nbytes)
{
    return fzm_div_up(in_nbytes, chunk_nbytes);
}
FZM_HD uint64_t fzm_zero_table_nbytes(uint64_t n_chunks)
{
    return n_chunks ? 8 + 4 * fzm_div_up(n_chunks, FZM_ZERO_GROUP_CHUNKS) + 2 * n_chunks : 0;
}

/* Bytes in front of the segments of a coded chunk of which the first n_lead segments are empty. */
FZM_HD uint32_t fzm_zero_head_nbytes(uint32_t n_segments, uint32_t n_lead) { return 1 + (n_segments - n_lead + 3) / 4; }

/* Kept bytes of RZE with words of 1 byte, n_single of which have one bit set. */
FZM_HD uint32_t fzm_zero_bytes_nbytes(uint32_t n_kept, uint32_t n_single)
{
    return (n_kept + 7) / 8 + (3 * n_single + 7) / 8 + n_kept - n_single;
}

/* The mode of a segment of n_words words and nbytes bytes: the shortest, the lower one on ties. tree_nbytes
 * are those of the levels, kept_nbytes those of what follows the bitmap. */
FZM_HD unsigned fzm_zero_choose(uint32_t n_words, uint32_t nbytes, uint32_t n_kept, uint32_t tree_nbytes,
                                uint32_t kept_nbytes)
{
    const uint32_t flat_nbytes = (n_words + 7) / 8, map_nbytes = tree_nbytes < flat_nbytes ? tree_nbytes : flat_nbytes;
    if (n_kept == 0)
        return FZM_ZERO_NONE;
    if (map_nbytes + kept_nbytes >= nbytes)
        return FZM_ZERO_WORDS;
    return tree_nbytes < flat_nbytes ? FZM_ZERO_TREE : FZM_ZERO_FLAT;
}

#endif
