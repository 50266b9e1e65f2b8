/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of RZE and RRE: segments put together and taken apart. Words of 1 byte of RZE, which carry the bit
 * planes, go through the kernels; other words and RRE through plain loops. */
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

static inline uint64_t load_word(const uint8_t *p, unsigned word)
{
    uint64_t v = 0;
    memcpy(&v, p, word);
    return v;
}

/* Marks and moves n words of a segment; called with a constant word. before: the word before the segment. */
static inline uint32_t mark_words(const uint8_t *src, uint32_t n, unsigned word, bool repeats, uint64_t before,
                                  uint8_t *bitmap)
{
    uint32_t n_kept = 0;
    memset(bitmap, 0, FZM_ZERO_SEGMENT_WORDS / 8);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t v = load_word(src + (size_t)i * word, word);
        const unsigned is_kept = v != before;
        bitmap[i / 8] = (uint8_t)(bitmap[i / 8] | is_kept << (i % 8));
        n_kept += is_kept;
        before = repeats ? v : 0;
    }
    return n_kept;
}

static inline uint8_t *keep_words(const uint8_t *src, const uint8_t *bitmap, uint32_t n, unsigned word, uint8_t *p)
{
    for (uint32_t i = 0; i < n; i++)
        if (bitmap[i / 8] >> (i % 8) & 1) {
            memcpy(p, src + (size_t)i * word, word);
            p += word;
        }
    return p;
}

static inline const uint8_t *place_words(const uint8_t *p, const uint8_t *bitmap, uint32_t n, unsigned word, bool repeats,
                                         uint64_t before, uint8_t *dst)
{
    for (uint32_t i = 0; i < n; i++) {
        const bool is_kept = bitmap[i / 8] >> (i % 8) & 1;
        const uint64_t v = is_kept ? load_word(p, word) : before;
        p += is_kept ? word : 0;
        memcpy(dst + (size_t)i * word, &v, word);
        before = repeats ? v : 0;
    }
    return p;
}

#define FOR_WORD(word, call)     \
    switch (word) {              \
    case 1: call(1) break;       \
    case 2: call(2) break;       \
    case 4: call(4) break;       \
    default: call(8)             \
    }

static size_t encode_words(const uint8_t *src, uint32_t n, unsigned word, bool repeats, uint64_t before, uint8_t *dst,
                           unsigned *mode)
{
    uint8_t bitmap[FZM_ZERO_SEGMENT_WORDS / 8 + FZM_ZERO_SLACK_NBYTES];
    struct levels l;
    uint32_t n_kept = 0;
#define MARK(w) n_kept = mark_words(src, n, w, repeats, before, bitmap);
    FOR_WORD(word, MARK)
    levels_init(&l, bitmap);
    *mode = fzm_zero_choose(n, n * word, n_kept, l.nbytes, n_kept * word);
    if (*mode == FZM_ZERO_NONE)
        return 0;
    if (*mode == FZM_ZERO_WORDS) {
        memcpy(dst, src, (size_t)n * word);
        return (size_t)n * word;
    }
    uint8_t *p = levels_write(&l, bitmap, n, *mode, dst);
#define KEEP(w) p = keep_words(src, bitmap, n, w, p);
    FOR_WORD(word, KEEP)
    return (size_t)(p - dst);
}

/* Returns the bytes used, 0 if they are damaged. */
static size_t decode_words(const uint8_t *src, size_t nbytes, uint32_t n, unsigned mode, unsigned word, bool repeats,
                           uint64_t before, uint8_t *dst)
{
    uint8_t bitmap[FZM_ZERO_SEGMENT_WORDS / 8];
    const uint8_t *const end = src + nbytes;
    const uint8_t *p = levels_read(src, end, n, mode, bitmap);
    uint32_t n_kept = 0;
    for (unsigned i = 0; p && i < sizeof bitmap; i += 8)
        n_kept += count_bits(fzm_get_le64(bitmap + i));
    if (!p || (size_t)(end - p) < (size_t)n_kept * word)
        return 0;
#define PLACE_WORDS(w) p = place_words(p, bitmap, n, w, repeats, before, dst);
    FOR_WORD(word, PLACE_WORDS)
    return (size_t)(p - src);
}

/* Segments of a chunk. */
struct frame {
    uint32_t n_words, n_segments, segment_nbytes, n_left;
};

static struct frame frame_of(size_t n, unsigned word)
{
    struct frame f;
    f.n_words = (uint32_t)(n / word);
    f.n_left = (uint32_t)(n % word);
    f.segment_nbytes = FZM_ZERO_SEGMENT_WORDS * word;
    f.n_segments = (f.n_words + FZM_ZERO_SEGMENT_WORDS - 1) / FZM_ZERO_SEGMENT_WORDS;
    return f;
}

static uint32_t words_of(const struct frame *f, uint32_t segment)
{
    const uint32_t left = f->n_words - segment * FZM_ZERO_SEGMENT_WORDS;
    return left < FZM_ZERO_SEGMENT_WORDS ? left : FZM_ZERO_SEGMENT_WORDS;
}

static size_t store_chunk(const uint8_t *src, size_t n, size_t n_zero, uint8_t *dst)
{
    memset(dst, 0, n_zero);
    memcpy(dst + n_zero, src + n_zero, n - n_zero);
    return n;
}

size_t fzm_zero_chunk_encode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t n, unsigned word, bool repeats,
                             unsigned n_lead, uint8_t *dst)
{
    const struct frame f = frame_of(n, word);
    const size_t n_zero = (size_t)n_lead * f.segment_nbytes;
    unsigned modes[FZM_ZERO_MAX_SEGMENTS];
    uint8_t tail[FZM_ZERO_SEGMENT_WORDS], *p = NULL;
    for (uint32_t i = n_lead; i < f.n_segments; i++) {
        const uint32_t n_words = words_of(&f, i);
        const uint8_t *from = src + (size_t)i * f.segment_nbytes;
        uint8_t *to = p;
        if (!p) { /* the head's size is known at the first segment that is not empty */
            n_lead = i;
            to = dst + fzm_zero_head_nbytes(f.n_segments, n_lead);
        }
        size_t nbytes;
        if (word == 1 && !repeats) {
            if (n_words < FZM_ZERO_SEGMENT_WORDS) {
                memset(tail, 0, sizeof tail);
                from = memcpy(tail, from, n_words);
            }
            nbytes = k->encode(from, n_words, to, &modes[i]);
        } else {
            nbytes = encode_words(from, n_words, word, repeats, repeats && i ? load_word(from - word, word) : 0, to,
                                  &modes[i]);
        }
        if (modes[i] != FZM_ZERO_NONE || p)
            p = to + nbytes;
    }
    uint8_t left = 0;
    for (uint32_t i = 0; i < f.n_left; i++)
        left = (uint8_t)(left | src[n - f.n_left + i]);
    if (!p) {
        if (!left)
            return 0;
        n_lead = f.n_segments;
        p = dst + fzm_zero_head_nbytes(f.n_segments, n_lead);
    }
    if ((size_t)(p - dst) + f.n_left >= n)
        return store_chunk(src, n, n_zero, dst);
    memcpy(p, src + n - f.n_left, f.n_left);
    dst[0] = (uint8_t)n_lead;
    memset(dst + 1, 0, fzm_zero_head_nbytes(f.n_segments, n_lead) - 1);
    for (uint32_t i = n_lead, at = 0; i < f.n_segments; i++, at += 2)
        dst[1 + at / 8] = (uint8_t)(dst[1 + at / 8] | modes[i] << (at % 8));
    return (size_t)(p - dst) + f.n_left;
}

static void repeat_word(uint64_t v, uint32_t n, unsigned word, uint8_t *dst)
{
    if (v == 0)
        memset(dst, 0, (size_t)n * word);
    for (uint32_t i = 0; v && i < n; i++)
        memcpy(dst + (size_t)i * word, &v, word);
}

/* One segment. Returns the bytes used in *used; false if they are damaged. */
static bool decode_segment(const struct fzm_zero_kernels *k, const uint8_t *src, size_t nbytes, uint32_t n_words,
                           unsigned mode, unsigned word, bool repeats, uint64_t before, uint8_t *dst, size_t *used)
{
    uint8_t tail[FZM_ZERO_SEGMENT_WORDS];
    *used = 0;
    switch (mode) {
    case FZM_ZERO_NONE: repeat_word(before, n_words, word, dst); return true;
    case FZM_ZERO_WORDS:
        *used = (size_t)n_words * word;
        if (nbytes < *used)
            return false;
        memcpy(dst, src, *used);
        return true;
    default: break;
    }
    if (word != 1 || repeats)
        *used = decode_words(src, nbytes, n_words, mode, word, repeats, before, dst);
    else if (n_words == FZM_ZERO_SEGMENT_WORDS)
        *used = k->decode(src, nbytes, n_words, mode, dst);
    else if ((*used = k->decode(src, nbytes, n_words, mode, tail)) != 0)
        memcpy(dst, tail, n_words);
    return *used != 0;
}

bool fzm_zero_chunk_decode(const struct fzm_zero_kernels *k, const uint8_t *src, size_t nbytes, bool slack, size_t n,
                           unsigned word, bool repeats, uint8_t *dst, unsigned *n_lead)
{
    const struct frame f = frame_of(n, word);
    uint8_t copy[FZM_ZERO_MAX_CHUNK + FZM_ZERO_SLACK_NBYTES];
    if (n_lead)
        *n_lead = nbytes ? 0 : f.n_segments;
    if (nbytes == 0) {
        memset(n_lead ? dst + n - f.n_left : dst, 0, n_lead ? f.n_left : n);
        return true;
    }
    if (nbytes == n) {
        memcpy(dst, src, n);
        return true;
    }
    const uint32_t lead = src[0];
    if (nbytes > n || n > FZM_ZERO_MAX_CHUNK || lead > f.n_segments ||
        nbytes < fzm_zero_head_nbytes(f.n_segments, lead) + f.n_left)
        return false;
    if (!slack)
        src = memcpy(copy, src, nbytes);
    const uint8_t *const end = src + nbytes;
    const uint8_t *const modes = src + 1, *p = src + fzm_zero_head_nbytes(f.n_segments, lead);
    if (n_lead)
        *n_lead = lead;
    else
        memset(dst, 0, lead < f.n_segments ? (size_t)lead * f.segment_nbytes : n - f.n_left);
    for (uint32_t i = lead, at = 0; i < f.n_segments; i++, at += 2) {
        uint8_t *const to = dst + (size_t)i * f.segment_nbytes;
        size_t used;
        if (!decode_segment(k, p, (size_t)(end - p) - f.n_left, words_of(&f, i), modes[at / 8] >> (at % 8) & 3u, word, repeats,
                            repeats && i > lead ? load_word(to - word, word) : 0, to, &used))
            return false;
        p += used;
    }
    memcpy(dst + n - f.n_left, p, f.n_left);
    return p + f.n_left == end;
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
