/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveBitpack on the CPU in pieces, for the stage itself and for fused chains: blocks of 32, a tile of
 * 256 elements at a time, and whole sections. The bytes are described in stages/adaptive_bitpack.c. */
#ifndef FZM_CPU_BITPACK_H
#define FZM_CPU_BITPACK_H

#include "../error.h"
#include "../stages/adaptive_bitpack.h"

enum {
    FZM_BITPACK_TILE_ELEMS = 256, /* with blocks of 32 */
    FZM_BITPACK_SLACK_NBYTES = 64,
};

/* Tiles of 256 elements of 32 or 64 bits in blocks of 32; widths[b] is the width of block b. */
struct fzm_bitpack_kernels {
    /* Finds the widths. Returns them as one word (block b in byte b). */
    uint64_t (*widths32)(const int32_t *v);
    uint64_t (*widths64)(const int64_t *v);
    /* Writes the planes, 4 * sum(widths) bytes, and up to FZM_BITPACK_SLACK_NBYTES of junk behind them;
     * returns their end. */
    uint8_t *(*encode32)(const int32_t *v, const uint8_t widths[8], uint8_t *planes);
    uint8_t *(*encode64)(const int64_t *v, const uint8_t widths[8], uint8_t *planes);
    /* Reads 4 * sum(widths) bytes of planes at any alignment and fills v; returns their end. widths at
     * most 32 or 64 (fzm_bitpack_super_parse() has checked them). */
    const uint8_t *(*decode32)(const uint8_t *planes, const uint8_t widths[8], int32_t *v);
    const uint8_t *(*decode64)(const uint8_t *planes, const uint8_t widths[8], int64_t *v);
};

extern const struct fzm_bitpack_kernels fzm_bitpack_kernels_c;
#if defined(__x86_64__)
extern const struct fzm_bitpack_kernels fzm_bitpack_kernels_avx2;
extern const struct fzm_bitpack_kernels fzm_bitpack_kernels_avx512;
#endif

/* The kernels for fzm_isa_get(). */
const struct fzm_bitpack_kernels *fzm_bitpack_kernels_get(void);

/* 8 elements of a block of any size: the byte of each plane goes to planes[plane * stride] (first plane:
 * the sign). v is sign-extended. width at most 64. */
void fzm_bitpack_group_encode(const uint64_t v[8], unsigned width, uint8_t *planes, size_t stride);
void fzm_bitpack_group_decode(const uint8_t *planes, size_t stride, unsigned width, uint64_t v[8]);

/* Super-tile of 512 blocks: writes map, classes and rates (at most FZM_BITPACK_HEAD_NBYTES) to head and
 * returns their bytes: 0 if all widths are 0, and then the payload is empty. Planes follow the head,
 * padded by fzm_bitpack_pad4(). */
size_t fzm_bitpack_super_head(const uint8_t widths[FZM_BITPACK_SUPER_BLOCKS], uint8_t *head);

/* Zero-fills planes to a multiple of 4 bytes from their start; returns their end. Blocks of 32 need none. */
uint8_t *fzm_bitpack_pad4(uint8_t *planes, uint8_t *end);

/* The reverse on an untrusted payload: widths of all 512 blocks and the place of the first plane. False if
 * the payload is damaged; if true, exactly the planes that the widths ask for (padded to 4) are there. */
bool fzm_bitpack_super_parse(const uint8_t *payload, size_t payload_nbytes, uint32_t block_size,
                             uint32_t elem_nbits, uint8_t widths[FZM_BITPACK_SUPER_BLOCKS],
                             const uint8_t **planes);

/* Writing a section: the table is at its front; super-tile i's payload goes to the bytes that
 * fzm_sequence_take() gives (payload_offset), counted from fzm_bitpack_table_nbytes(n_super). */
void fzm_bitpack_section_begin(uint8_t *section, uint64_t n_elems, uint32_t elem_nbytes);
static inline void fzm_bitpack_section_end_at(uint8_t *section, uint64_t i, uint64_t payload_end)
{
    const uint32_t v = (uint32_t)(payload_end / 4);
    uint8_t *const p = section + 8 + 4 * i;
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

/* Reading a section. */
struct fzm_bitpack_section {
    const uint8_t *table, *payloads;
    uint64_t n_elems, n_super, payloads_nbytes;
};

/* Checks the front of an untrusted section that should hold n_elems elements. */
int fzm_bitpack_section_open(struct fzm_bitpack_section *s, const void *data, size_t nbytes, uint64_t n_elems,
                             uint32_t elem_nbytes, uint32_t block_size, struct fzm_err *err);

/* Payload of super-tile i < n_super; false if the table is damaged there. */
bool fzm_bitpack_section_payload(const struct fzm_bitpack_section *s, uint64_t i, const uint8_t **payload,
                                 size_t *payload_nbytes);

#endif
