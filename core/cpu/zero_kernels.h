/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of RZE with words of 1 byte, for the instruction set of this translation unit; KERNELS names the
 * table. The layout is in stages/zero_stage.h. All sets share the frame below and differ in how marks are
 * made and how bytes are moved together (gather) and apart (spread), 64 at a time. */
#include "../le.h"
#include "zero_code.h"

#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

static inline unsigned count_bits(uint64_t v)
{
#if defined(__POPCNT__)
    return (unsigned)__builtin_popcountll(v);
#else
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((v * 0x0101010101010101u) >> 56);
#endif
}

enum { WORDS_64 = FZM_ZERO_SEGMENT_WORDS / 64 };

#if defined(__AVX512VBMI2__)

static inline void mark(const uint8_t *src, uint64_t *kept, uint64_t *single)
{
    const __m512i v = _mm512_loadu_si512(src);
    const __m512i less = _mm512_add_epi8(v, _mm512_set1_epi8(-1));
    *kept = _mm512_test_epi8_mask(v, v);
    *single = _mm512_mask_testn_epi8_mask(*kept, v, less);
}

static inline uint8_t *gather(const uint8_t *src, uint64_t bits, uint8_t *dst)
{
    _mm512_storeu_si512(dst, _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(src)));
    return dst + count_bits(bits);
}

/* Two streams into 64 bytes; their masks do not overlap. */
static inline void spread2(const uint8_t **a, uint64_t a_bits, const uint8_t **b, uint64_t b_bits, uint8_t *dst)
{
    const __m512i va = _mm512_maskz_expand_epi8(a_bits, _mm512_loadu_si512(*a));
    const __m512i vb = _mm512_maskz_expand_epi8(b_bits, _mm512_loadu_si512(*b));
    _mm512_storeu_si512(dst, _mm512_or_si512(va, vb));
    *a += count_bits(a_bits);
    *b += count_bits(b_bits);
}

#elif defined(__AVX2__)

/* Entry of bits b: for gather, the places of its set bits one after the other; for spread, for each place how
 * many bits are set below it, or 0x80 if it is not set. 8 bytes each. */
#define BELOW(b, k) \
    (((b) & 1 & ((k) > 0)) + ((b) >> 1 & 1 & ((k) > 1)) + ((b) >> 2 & 1 & ((k) > 2)) + ((b) >> 3 & 1 & ((k) > 3)) + \
     ((b) >> 4 & 1 & ((k) > 4)) + ((b) >> 5 & 1 & ((k) > 5)) + ((b) >> 6 & 1 & ((k) > 6)))
#define AT(b, k) ((b) >> (k) & 1 ? (uint64_t)(k) << (8 * BELOW(b, k)) : 0)
#define PLACE(b, k) ((uint64_t)((b) >> (k) & 1 ? BELOW(b, k) : 0x80) << (8 * (k)))
#define EIGHT(f, b) (f(b, 0) | f(b, 1) | f(b, 2) | f(b, 3) | f(b, 4) | f(b, 5) | f(b, 6) | f(b, 7))
#define ROW4(f, b) EIGHT(f, b), EIGHT(f, (b) + 1), EIGHT(f, (b) + 2), EIGHT(f, (b) + 3)
#define ROW16(f, b) ROW4(f, b), ROW4(f, (b) + 4), ROW4(f, (b) + 8), ROW4(f, (b) + 12)
#define ROW64(f, b) ROW16(f, b), ROW16(f, (b) + 16), ROW16(f, (b) + 32), ROW16(f, (b) + 48)
static const uint64_t gather_table[256] = {ROW64(AT, 0), ROW64(AT, 64), ROW64(AT, 128), ROW64(AT, 192)};
static const uint64_t spread_table[256] = {ROW64(PLACE, 0), ROW64(PLACE, 64), ROW64(PLACE, 128), ROW64(PLACE, 192)};

static inline void mark(const uint8_t *src, uint64_t *kept, uint64_t *single)
{
    uint32_t zero[2], one[2];
    for (int i = 0; i < 2; i++) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32 * i));
        const __m256i rest = _mm256_and_si256(v, _mm256_add_epi8(v, _mm256_set1_epi8(-1)));
        zero[i] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256()));
        one[i] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(rest, _mm256_setzero_si256()));
    }
    *kept = ~((uint64_t)zero[1] << 32 | zero[0]);
    *single = ((uint64_t)one[1] << 32 | one[0]) & *kept;
}

static inline __m128i load8(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }

static inline uint8_t *gather(const uint8_t *src, uint64_t bits, uint8_t *dst)
{
    for (; bits; bits >>= 8, src += 8) {
        const unsigned b = bits & 0xff;
        _mm_storel_epi64((__m128i *)(void *)dst, _mm_shuffle_epi8(load8(src), load8(&gather_table[b])));
        dst += count_bits(b);
    }
    return dst;
}

static inline void spread2(const uint8_t **a, uint64_t a_bits, const uint8_t **b, uint64_t b_bits, uint8_t *dst)
{
    const uint8_t *pa = *a, *pb = *b;
    for (int i = 0; i < 8; i++, a_bits >>= 8, b_bits >>= 8) {
        const unsigned ba = a_bits & 0xff, bb = b_bits & 0xff;
        const __m128i va = _mm_shuffle_epi8(load8(pa), load8(&spread_table[ba]));
        const __m128i vb = _mm_shuffle_epi8(load8(pb), load8(&spread_table[bb]));
        _mm_storel_epi64((__m128i *)(void *)(dst + 8 * i), _mm_or_si128(va, vb));
        pa += count_bits(ba);
        pb += count_bits(bb);
    }
    *a = pa;
    *b = pb;
}

#else

static inline void mark(const uint8_t *src, uint64_t *kept, uint64_t *single)
{
    *kept = *single = 0;
    for (unsigned i = 0; i < 64; i++) {
        const unsigned v = src[i];
        *kept |= (uint64_t)(v != 0) << i;
        *single |= (uint64_t)(v != 0 && (v & (v - 1)) == 0) << i;
    }
}

static inline uint8_t *gather(const uint8_t *src, uint64_t bits, uint8_t *dst)
{
    for (; bits; bits >>= 1, src++)
        if (bits & 1)
            *dst++ = *src;
    return dst;
}

static inline void spread2(const uint8_t **a, uint64_t a_bits, const uint8_t **b, uint64_t b_bits, uint8_t *dst)
{
    for (unsigned i = 0; i < 64; i++)
        dst[i] = a_bits >> i & 1 ? *(*a)++ : b_bits >> i & 1 ? *(*b)++ : 0;
}

#endif

#include "zero_levels.h"

/* Which of the kept bytes are single: bits of `single` at the places of `kept`, and back. */
static inline uint64_t extract_bits(uint64_t single, uint64_t kept)
{
#if defined(__BMI2__)
    return _pext_u64(single, kept);
#else
    uint64_t out = 0;
    for (unsigned to = 0; kept; kept &= kept - 1, to++)
        out |= (uint64_t)((single & kept & (0 - kept)) != 0) << to;
    return out;
#endif
}

static inline uint64_t deposit_bits(uint64_t classes, uint64_t kept)
{
#if defined(__BMI2__)
    return _pdep_u64(classes, kept);
#else
    uint64_t out = 0;
    for (; kept; kept &= kept - 1, classes >>= 1)
        out |= classes & 1 ? kept & (0 - kept) : 0;
    return out;
#endif
}

/* 8 bytes with one bit set each to 8 times 3 bits, and back. Others give anything. */
static inline uint32_t pack_places(const uint8_t *bytes)
{
#if defined(__AVX2__)
    const __m128i low_table = _mm_setr_epi8(0, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0);
    const __m128i high_table = _mm_setr_epi8(0, 4, 5, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0);
    const __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)bytes), nibble = _mm_set1_epi8(15);
    const __m128i low = _mm_shuffle_epi8(low_table, _mm_and_si128(v, nibble));
    const __m128i high = _mm_shuffle_epi8(high_table, _mm_and_si128(_mm_srli_epi16(v, 4), nibble));
    return (uint32_t)_pext_u64((uint64_t)_mm_cvtsi128_si64(_mm_or_si128(low, high)), 0x0707070707070707u);
#else
    uint32_t out = 0;
    for (unsigned i = 0; i < 8; i++) {
        const unsigned v = bytes[i];
        const unsigned place = (v & 0xf0 ? 4u : 0u) + (v & 0xcc ? 2u : 0u) + (v & 0xaa ? 1u : 0u);
        out |= (uint32_t)place << (3 * i);
    }
    return out;
#endif
}

static inline void unpack_places(uint32_t places, uint8_t *bytes)
{
#if defined(__AVX2__)
    const __m128i table = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i v = _mm_cvtsi64_si128((long long)_pdep_u64(places, 0x0707070707070707u));
    _mm_storel_epi64((__m128i *)(void *)bytes, _mm_shuffle_epi8(table, v));
#else
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(1u << (places >> (3 * i) & 7));
#endif
}

static size_t encode(const uint8_t *src, uint32_t n, uint8_t *dst, unsigned *mode)
{
    uint64_t kept[WORDS_64], single[WORDS_64], any = 0;
    uint8_t bitmap[FZM_ZERO_SEGMENT_WORDS / 8 + FZM_ZERO_SLACK_NBYTES];
    uint32_t n_kept = 0, n_single = 0;
    for (unsigned i = 0; i < WORDS_64; i++) {
        mark(src + 64 * i, &kept[i], &single[i]);
        fzm_put_le64(bitmap + 8 * i, kept[i]);
        any |= kept[i];
        n_kept += count_bits(kept[i]);
        n_single += count_bits(single[i]);
    }
    *mode = FZM_ZERO_NONE;
    if (any == 0)
        return 0;
    struct levels l;
    levels_init(&l, bitmap);
    *mode = fzm_zero_choose(n, n, n_kept, l.nbytes, fzm_zero_bytes_nbytes(n_kept, n_single));
    if (*mode == FZM_ZERO_WORDS) {
        memcpy(dst, src, n);
        return n;
    }
    uint8_t *p = levels_write(&l, bitmap, n, *mode, dst);
    /* classes: a stream of bits */
    uint64_t pending = 0;
    unsigned n_pending = 0;
    for (unsigned i = 0; i < WORDS_64; i++) {
        const uint64_t classes = extract_bits(single[i], kept[i]);
        const unsigned nbits = count_bits(kept[i]);
        pending |= classes << n_pending;
        if (n_pending + nbits >= 64) {
            fzm_put_le64(p, pending);
            p += 8;
            pending = n_pending ? classes >> (64 - n_pending) : 0;
            n_pending -= 64;
        }
        n_pending += nbits;
    }
    fzm_put_le64(p, pending);
    p += (n_pending + 7) / 8;
    /* places of the single bits */
    uint8_t bytes[FZM_ZERO_SEGMENT_WORDS + 64];
    uint8_t *end = bytes;
    for (unsigned i = 0; i < WORDS_64; i++)
        end = gather(src + 64 * i, single[i], end);
    memset(end, 1, 8); /* place 0: the pad bits */
    for (uint32_t i = 0; i < n_single; i += 8, p += 3)
        fzm_put_le32(p, pack_places(bytes + i));
    p -= (n_single % 8 ? 3 - (3 * (n_single % 8) + 7) / 8 : 0);
    for (unsigned i = 0; i < WORDS_64; i++)
        p = gather(src + 64 * i, kept[i] & ~single[i], p);
    return (size_t)(p - dst);
}

static size_t decode(const uint8_t *src, size_t nbytes, uint32_t n, unsigned mode, uint8_t *dst)
{
    uint64_t kept[WORDS_64], single[WORDS_64];
    uint8_t bitmap[FZM_ZERO_SEGMENT_WORDS / 8];
    const uint8_t *const end = src + nbytes;
    const uint8_t *p = levels_read(src, end, n, mode, bitmap);
    uint32_t n_kept = 0, n_single = 0;
    if (!p)
        return 0;
    for (unsigned i = 0; i < WORDS_64; i++) {
        kept[i] = fzm_get_le64(bitmap + 8 * i);
        n_kept += count_bits(kept[i]);
    }
    if ((size_t)(end - p) < (n_kept + 7) / 8)
        return 0;
    for (unsigned i = 0, at = 0; i < WORDS_64; i++) {
        /* 64 bits from bit `at` of the stream; up to 9 bytes */
        const uint8_t *const q = p + at / 8;
        const uint64_t low = fzm_get_le64(q) >> (at % 8), high = at % 8 ? (uint64_t)q[8] << (64 - at % 8) : 0;
        single[i] = deposit_bits(low | high, kept[i]);
        at += count_bits(kept[i]);
        n_single += count_bits(single[i]);
    }
    if ((size_t)(end - p) < fzm_zero_bytes_nbytes(n_kept, n_single))
        return 0;
    p += (n_kept + 7) / 8;
    uint8_t bytes[FZM_ZERO_SEGMENT_WORDS + 64];
    for (uint32_t i = 0; i < n_single; i += 8)
        unpack_places(fzm_get_le32(p + 3 * (i / 8)), bytes + i);
    p += (3 * n_single + 7) / 8;
    const uint8_t *singles = bytes;
    for (unsigned i = 0; i < WORDS_64; i++)
        spread2(&p, kept[i] & ~single[i], &singles, single[i], dst + 64 * i);
    return (size_t)(p - src);
}

const struct fzm_zero_kernels KERNELS = {encode, decode};
