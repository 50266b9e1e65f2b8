/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of RZE and RRE: bitmap levels and words put together and taken apart. */
#define KERNELS fzm_zero_kernels_c
#include "zero_kernels.h"

#include "isa.h"

const struct fzm_zero_kernels *fzm_zero_kernels_get(void)
{
#if defined(__x86_64__)
    switch (fzm_isa_get()) {
    case FZM_ISA_AVX512: return &fzm_zero_kernels_avx512;
    case FZM_ISA_AVX2: return &fzm_zero_kernels_avx2;
    default: break;
    }
#endif
    return &fzm_zero_kernels_c;
}

/* Words of 2, 4 or 8 bytes, and RRE: the general, plain way. Returns the bytes of the kept words. */
static size_t keep_words(const uint8_t *src, size_t n_words, unsigned word, bool repeats, uint8_t *bitmap, uint8_t *dst)
{
    static const uint8_t zero[8];
    uint8_t *p = dst;
    memset(bitmap, 0, (n_words + 7) / 8);
    for (size_t i = 0; i < n_words; i++) {
        const uint8_t *const w = src + i * word;
        if (memcmp(w, repeats && i ? w - word : zero, word) == 0)
            continue;
        bitmap[i / 8] = (uint8_t)(bitmap[i / 8] | 1u << (i % 8));
        memcpy(p, w, word);
        p += word;
    }
    return (size_t)(p - dst);
}

/* Reduces the levels above the first: fills slot->head from its end backwards, last level first in the
 * stream. Returns where the head begins in slot->head. */
static size_t encode_levels(const struct fzm_zero_kernels *k, const uint32_t *level, unsigned n_levels,
                            struct fzm_zero_slot *slot)
{
    /* level i's kept bytes are known before those of level i + 1, which stand in front of them */
    size_t at = sizeof slot->head - 64;
    const uint8_t *bytes = slot->bitmap;
    for (unsigned i = 0; i + 1 < n_levels; i++) {
        uint8_t *const up = slot->level[i % 2];
        uint8_t *const kept = slot->words; /* not in use yet: words are written after the levels */
        k->mark_changed(bytes, level[i], up);
        const size_t n = k->compress(bytes, level[i], up, kept);
        at -= n;
        memcpy(slot->head + at, kept, n);
        bytes = up;
    }
    at -= level[n_levels - 1];
    memcpy(slot->head + at, bytes, level[n_levels - 1]);
    return at;
}

size_t fzm_zero_chunk_encode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t n, unsigned word, bool repeats,
                             uint8_t *dst, struct fzm_zero_slot *slot)
{
    const size_t n_words = n / word, n_left = n % word;
    uint32_t level[FZM_ZERO_MAX_LEVELS];
    const unsigned n_levels = fzm_zero_levels((uint32_t)n_words, level);
    const bool bytes = word == 1 && !repeats;
    size_t n_kept = 0;
    if (bytes)
        n_kept = k->mark_nonzero(src, n, slot->bitmap);
    else
        n_kept = keep_words(src, n_words, word, repeats, slot->bitmap, slot->words);
    if (n_kept == 0 && n_left == 0)
        return 0;
    if (n_kept + n_left >= n) {
        memcpy(dst, src, n);
        return n;
    }
    size_t head = sizeof slot->head - 64;
    if (n_words > 0) {
        struct fzm_zero_slot *const s = slot;
        head = encode_levels(k, level, n_levels, s);
    }
    const size_t head_nbytes = sizeof slot->head - 64 - head;
    if (head_nbytes + n_kept + n_left >= n) {
        memcpy(dst, src, n);
        return n;
    }
    memcpy(dst, slot->head + head, head_nbytes);
    if (bytes)
        k->compress(src, n, slot->bitmap, dst + head_nbytes);
    else
        keep_words(src, n_words, word, repeats, slot->bitmap, dst + head_nbytes);
    memcpy(dst + head_nbytes + n_kept, src + n_words * word, n_left);
    return head_nbytes + n_kept + n_left;
}

/* A level from the one above it: marked bytes are read, the others repeat the byte before. */
static bool decode_level(const uint8_t *up, uint32_t n, const uint8_t **src, const uint8_t *end, uint8_t *to)
{
    const uint8_t *p = *src;
    uint8_t last = 0;
    for (uint32_t i = 0; i < n; i += 8) {
        const unsigned bits = up[i / 8];
        const uint32_t m = n - i < 8 ? n - i : 8;
        if (bits == 0) {
            memset(to + i, last, m);
            continue;
        }
        if ((size_t)(end - p) < count_bits(bits))
            return false;
        for (uint32_t b = 0; b < m; b++)
            to[i + b] = last = bits >> b & 1 ? *p++ : last;
    }
    *src = p;
    return true;
}

static size_t popcount_bytes(const uint8_t *p, size_t n)
{
    size_t count = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        count += count_bits(fzm_get_le64(p + i));
    for (; i < n; i++)
        count += count_bits(p[i]);
    return count;
}

static void place_words(const uint8_t *src, size_t n_words, unsigned word, bool repeats, const uint8_t *bitmap, uint8_t *dst)
{
    for (size_t i = 0; i < n_words; i++) {
        if (bitmap[i / 8] >> (i % 8) & 1) {
            memcpy(dst + i * word, src, word);
            src += word;
        } else if (repeats && i) {
            memcpy(dst + i * word, dst + (i - 1) * word, word);
        } else {
            memset(dst + i * word, 0, word);
        }
    }
}

bool fzm_zero_chunk_decode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t nbytes, size_t n, unsigned word,
                           bool repeats, uint8_t *dst, struct fzm_zero_slot *slot)
{
    const size_t n_words = n / word, n_left = n % word;
    if (nbytes == 0) {
        memset(dst, 0, n);
        return true;
    }
    if (nbytes == n) {
        memcpy(dst, src, n);
        return true;
    }
    const uint8_t *const end = src + nbytes;
    uint32_t level[FZM_ZERO_MAX_LEVELS];
    unsigned i = fzm_zero_levels((uint32_t)n_words, level) - 1;
    if (nbytes > n || nbytes < n_left + level[i])
        return false;
    const uint8_t *bitmap = src;
    src += level[i];
    for (; i > 0; i--) {
        uint8_t *const to = i == 1 ? slot->bitmap : slot->level[i % 2];
        if (!decode_level(bitmap, level[i - 1], &src, end - n_left, to))
            return false;
        bitmap = to;
    }
    const size_t n_kept = popcount_bytes(bitmap, level[0]) * word;
    const unsigned pad_bits = (unsigned)(n_words % 8);
    if (n_kept + n_left != (size_t)(end - src) || (pad_bits && bitmap[level[0] - 1] >> pad_bits))
        return false;
    if (word == 1 && !repeats)
        k->expand(src, n_kept, n, bitmap, dst);
    else
        place_words(src, n_words, word, repeats, bitmap, dst);
    memcpy(dst + n_words * word, end - n_left, n_left);
    return true;
}

bool fzm_zero_section_open(struct fzm_zero_section *s, const void *data, size_t nbytes, uint64_t in_nbytes,
                           uint32_t chunk_nbytes)
{
    const uint8_t *const p = data;
    s->in_nbytes = in_nbytes;
    s->chunk_nbytes = chunk_nbytes;
    s->n_chunks = fzm_zero_n_chunks(in_nbytes, chunk_nbytes);
    const uint64_t table = fzm_zero_table_nbytes(s->n_chunks);
    if (nbytes < table || (in_nbytes ? fzm_get_le64(p) != in_nbytes : nbytes != 0))
        return false;
    s->group_ends = p + 8;
    s->sizes = s->group_ends + 4 * fzm_div_up(s->n_chunks, FZM_ZERO_GROUP_CHUNKS);
    s->payloads = p + table;
    s->payloads_nbytes = nbytes - table;
    return true;
}

bool fzm_zero_section_group(const struct fzm_zero_section *s, uint64_t group, const uint8_t **payload, const uint8_t **end)
{
    const uint64_t begin_at = group ? fzm_get_le32(s->group_ends + 4 * (group - 1)) : 0;
    const uint64_t end_at = fzm_get_le32(s->group_ends + 4 * group);
    const bool is_last = (group + 1) * FZM_ZERO_GROUP_CHUNKS >= s->n_chunks;
    if (begin_at > end_at || end_at > s->payloads_nbytes || (is_last && end_at != s->payloads_nbytes))
        return false;
    *payload = s->payloads + begin_at;
    *end = s->payloads + end_at;
    return true;
}
