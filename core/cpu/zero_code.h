/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of RZE and RRE on the CPU, shared by the stages and the fused chains. */
#ifndef FZM_CPU_ZERO_CODE_H
#define FZM_CPU_ZERO_CODE_H

#include "../stages/zero_code.h"

/* Parts of the coder on bytes; n is any number unless stated. Bitmaps are LSB first, ceil(n / 8) bytes, pad
 * bits 0. Buffers that are written need 64 spare bytes. */
struct fzm_zero_kernels {
    /* bitmap of the bytes that are not 0; returns how many there are */
    size_t (*mark_nonzero)(const uint8_t *src, size_t n, uint8_t *bitmap);
    /* bitmap of the bytes that differ from the byte before (first: from 0) */
    size_t (*mark_changed)(const uint8_t *src, size_t n, uint8_t *bitmap);
    /* copies the marked bytes together; returns their number */
    size_t (*compress)(const uint8_t *src, size_t n, const uint8_t *bitmap, uint8_t *dst);
    /* the reverse, other bytes become 0; src has exactly n_src = popcount(bitmap) readable bytes */
    void (*expand)(const uint8_t *src, size_t n_src, size_t n, const uint8_t *bitmap, uint8_t *dst);
};

extern const struct fzm_zero_kernels fzm_zero_kernels_c;
#if defined(__x86_64__)
extern const struct fzm_zero_kernels fzm_zero_kernels_avx2, fzm_zero_kernels_avx512;
#endif
const struct fzm_zero_kernels *fzm_zero_kernels_get(void);

/* Scratch of one chunk. */
struct fzm_zero_slot {
    uint8_t bitmap[FZM_ZERO_MAX_CHUNK / 8 + 64];
    uint8_t level[2][FZM_ZERO_MAX_CHUNK / 64 + 64];
    uint8_t head[FZM_ZERO_MAX_CHUNK / 4 + 64]; /* levels, last first */
    uint8_t words[FZM_ZERO_MAX_CHUNK + 64];
};

/* Codes a chunk of n bytes (1 .. FZM_ZERO_MAX_CHUNK) into dst (n bytes and 64 spare). Returns the coded
 * size, 0 .. n; n: stored as it is. word: 1, 2, 4 or 8; repeats: RRE. */
size_t fzm_zero_chunk_encode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t n, unsigned word, bool repeats,
                             uint8_t *dst, struct fzm_zero_slot *slot);

/* Decodes untrusted bytes into dst (n bytes and 64 spare). False if they are damaged. */
bool fzm_zero_chunk_decode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t nbytes, size_t n, unsigned word,
                           bool repeats, uint8_t *dst, struct fzm_zero_slot *slot);

/* A section that is read: checked tables. */
struct fzm_zero_section {
    const uint8_t *group_ends, *sizes, *payloads;
    uint64_t in_nbytes, n_chunks, payloads_nbytes;
    uint32_t chunk_nbytes;
};
bool fzm_zero_section_open(struct fzm_zero_section *s, const void *data, size_t nbytes, uint64_t in_nbytes,
                           uint32_t chunk_nbytes);

/* Where the payloads of a group begin; false if the table is damaged there. */
bool fzm_zero_section_group(const struct fzm_zero_section *s, uint64_t group, const uint8_t **payload,
                            const uint8_t **end);

#endif
