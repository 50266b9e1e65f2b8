/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of RZE and RRE on the CPU, shared by the stages and the fused chains. */
#ifndef FZM_CPU_ZERO_CODE_H
#define FZM_CPU_ZERO_CODE_H

#include "../stages/zero_code.h"

enum {
    FZM_ZERO_SLACK_NBYTES = 64, /* that kernels may write or read beyond an end */
    FZM_ZERO_EXTRA_NBYTES = 96  /* that encoding a chunk may write beyond its length: head and slack */
};

/* Segments of RZE with words of 1 byte. */
struct fzm_zero_kernels {
    /* src: 512 bytes, 0 from n on. Writes the segment to dst (n bytes and slack), returns its size. */
    size_t (*encode)(const uint8_t *src, uint32_t n, uint8_t *dst, unsigned *mode);
    /* Modes FLAT and TREE, from untrusted bytes. Reads at most nbytes and slack, writes 512 bytes.
     * Returns the bytes used, 0 if they are damaged. */
    size_t (*decode)(const uint8_t *src, size_t nbytes, uint32_t n, unsigned mode, uint8_t *dst);
};

extern const struct fzm_zero_kernels fzm_zero_kernels_c;
#if defined(__x86_64__)
extern const struct fzm_zero_kernels fzm_zero_kernels_avx2, fzm_zero_kernels_avx512;
#endif
const struct fzm_zero_kernels *fzm_zero_kernels_get(void);

/* Codes a chunk of n bytes (1 .. FZM_ZERO_MAX_CHUNK) into dst (n bytes and FZM_ZERO_EXTRA_NBYTES). Returns the
 * coded size, 0 .. n; n: stored as it is. word: 1, 2, 4 or 8; repeats: RRE. The first n_lead segments are not read and
 * count as zero. */
size_t fzm_zero_chunk_encode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t n, unsigned word, bool repeats,
                             unsigned n_lead, uint8_t *dst);

/* Decodes nbytes (at most n) untrusted bytes into dst (n bytes). slack: whether that many bytes
 * behind src are readable. False if they are damaged. With n_lead not NULL, the first *n_lead segments are
 * empty and are not written. */
bool fzm_zero_chunk_decode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t nbytes, bool slack, size_t n,
                           unsigned word, bool repeats, uint8_t *dst, unsigned *n_lead);

/* A section that is read: checked tables. */
struct fzm_zero_section {
    const uint8_t *group_ends, *sizes, *payloads;
    uint64_t in_nbytes, n_chunks, payloads_nbytes;
    uint32_t chunk_nbytes;
};
bool fzm_zero_section_open(struct fzm_zero_section *s, const void *data, size_t nbytes, uint64_t in_nbytes,
                           uint32_t chunk_nbytes);

/* Where the payloads of a group begin and end; false if the table is damaged there. */
bool fzm_zero_section_group(const struct fzm_zero_section *s, uint64_t group, const uint8_t **payload,
                            const uint8_t **end);

/* Whether bytes of slack follow a place in the section. */
static inline bool fzm_zero_section_has_slack(const struct fzm_zero_section *s, const uint8_t *end)
{
    return (size_t)(s->payloads + s->payloads_nbytes - end) >= FZM_ZERO_SLACK_NBYTES;
}

#endif
