/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of zero_kernels.h: the bitmap of a segment, 64 bytes with 0 beyond the segment's end, and its levels. */

struct levels {
    uint64_t level2; /* bit i: byte i of the bitmap is not 0 */
    unsigned level3; /* bit i: byte i of level2 is not 0 */
    uint32_t nbytes; /* of mode TREE */
};

/* Bit i: byte i of v is not 0. */
static inline unsigned nonzero_bytes(uint64_t v)
{
    v |= v >> 4;
    v |= v >> 2;
    v |= v >> 1;
    v &= 0x0101010101010101u;
    return (unsigned)((v * 0x0102040810204080u) >> 56);
}

static inline void levels_init(struct levels *l, const uint8_t *bitmap)
{
#if defined(__AVX2__)
    uint64_t single;
    mark(bitmap, &l->level2, &single);
#else
    l->level2 = 0;
    for (unsigned i = 0; i < 8; i++)
        l->level2 |= (uint64_t)nonzero_bytes(fzm_get_le64(bitmap + 8 * i)) << (8 * i);
#endif
    l->level3 = nonzero_bytes(l->level2);
    l->nbytes = 1 + count_bits(l->level3) + count_bits(l->level2);
}

/* Writes the bitmap of n words in mode FLAT or TREE, and slack; returns the end. bitmap has slack, too. */
static inline uint8_t *levels_write(const struct levels *l, const uint8_t *bitmap, uint32_t n, unsigned mode, uint8_t *p)
{
    if (mode == FZM_ZERO_FLAT) {
        memcpy(p, bitmap, 64);
        return p + (n + 7) / 8;
    }
    *p++ = (uint8_t)l->level3;
    for (unsigned i = 0; i < 8; i++) {
        *p = (uint8_t)(l->level2 >> (8 * i));
        p += l->level3 >> i & 1;
    }
    return gather(bitmap, l->level2, p);
}

/* Reads the bitmap of n words; NULL if it is damaged. Reads up to end and slack. */
static inline const uint8_t *levels_read(const uint8_t *p, const uint8_t *end, uint32_t n, unsigned mode, uint8_t *bitmap)
{
    if (mode == FZM_ZERO_FLAT) {
        const size_t nbytes = (n + 7) / 8;
        if ((size_t)(end - p) < nbytes)
            return NULL;
        memcpy(bitmap, p, 64);
        memset(bitmap + nbytes, 0, 64 - nbytes);
        p += nbytes;
    } else {
        uint64_t level2 = 0;
        if (p == end || (size_t)(end - p) < 1 + count_bits(*p))
            return NULL;
        const unsigned level3 = *p++;
        for (unsigned i = 0; i < 8; i++)
            if (level3 >> i & 1)
                level2 |= (uint64_t)*p++ << (8 * i);
        const uint8_t *none = p;
        if ((size_t)(end - p) < count_bits(level2))
            return NULL;
        spread2(&p, level2, &none, 0, bitmap);
    }
    /* words beyond the segment's end */
    for (uint32_t i = n; i < FZM_ZERO_SEGMENT_WORDS; i += 8 - i % 8)
        if (bitmap[i / 8] >> (i % 8))
            return NULL;
    return p;
}
