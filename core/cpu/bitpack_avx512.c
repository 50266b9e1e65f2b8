/* SPDX-License-Identifier: BSD-3-Clause */
/* As bitpack_avx2.c (bytes of 32 elements in one vector), with mask registers for planes and VBMI for
 * splitting elements into bytes. */
#include "bitpack.h"

#include <immintrin.h>
#include <string.h>

/* The 8 bits of 32 bytes as planes, highest first, wanted or not. */
static inline void emit_planes(__m256i bytes, uint8_t *planes)
{
    for (unsigned p = 0; p < 8; p++) {
        const int word = _mm256_movemask_epi8(bytes);
        memcpy(planes + 4 * p, &word, 4);
        bytes = _mm256_add_epi8(bytes, bytes);
    }
}

/* Byte 3 - k of each of 32 elements of 4 bytes. */
static inline __m256i byte_of_32(__m512i a, __m512i b, unsigned k)
{
    const __m512i first = _mm512_set_epi32(
        0x7f7b7773, 0x6f6b6763, 0x5f5b5753, 0x4f4b4743, 0x3f3b3733, 0x2f2b2723, 0x1f1b1713, 0x0f0b0703,
        0x7f7b7773, 0x6f6b6763, 0x5f5b5753, 0x4f4b4743, 0x3f3b3733, 0x2f2b2723, 0x1f1b1713, 0x0f0b0703);
    const __m512i index = _mm512_sub_epi8(first, _mm512_set1_epi8((char)k));
    return _mm512_castsi512_si256(_mm512_permutex2var_epi8(a, index, b));
}

/* Planes of a block of width > 0; writes up to 28 bytes behind their end. */
static inline uint8_t *encode_block(__m512i a, __m512i b, unsigned width, uint8_t *planes)
{
    const __m128i up = _mm_cvtsi32_si128((int)(32 - width));
    a = _mm512_sll_epi32(a, up);
    b = _mm512_sll_epi32(b, up);
    emit_planes(byte_of_32(a, b, 0), planes);
    for (unsigned k = 1; 8 * k < width; k++)
        emit_planes(byte_of_32(a, b, k), planes + 32 * k);
    return planes + 4 * width;
}

static uint8_t *encode32(const int32_t *v, const uint8_t widths[8], uint8_t *planes)
{
    for (unsigned i = 0; i < 8; i++, v += 32)
        if (widths[i])
            planes = encode_block(_mm512_loadu_si512(v), _mm512_loadu_si512(v + 16), widths[i], planes);
    return planes;
}

/* The low (half = 0) or high (1) 32 bits of 16 elements of 8 bytes. */
static inline __m512i halves(const int64_t *v, int half)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_epi32(_mm512_loadu_si512(v), _mm512_add_epi32(even, _mm512_set1_epi32(half)),
                                     _mm512_loadu_si512(v + 8));
}

static uint8_t *encode64(const int64_t *v, const uint8_t widths[8], uint8_t *planes)
{
    for (unsigned i = 0; i < 8; i++, v += 32) {
        unsigned width = widths[i];
        if (width == 0)
            continue;
        if (width > 32) {
            planes = encode_block(halves(v, 1), halves(v + 16, 1), width - 32, planes);
            width = 32;
        }
        planes = encode_block(halves(v, 0), halves(v + 16, 0), width, planes);
    }
    return planes;
}

/* One step of the transposition: swaps the bits of mask with those `shift` above. */
static inline __m256i swap_bits(__m256i v, unsigned shift, uint64_t mask)
{
    const __m256i m = _mm256_set1_epi64x((long long)mask);
    /* (v ^ v >> shift) & m, then v ^ t ^ t << shift */
    const __m256i t = _mm256_ternarylogic_epi64(v, _mm256_srli_epi64(v, shift), m, 0x28);
    return _mm256_ternarylogic_epi64(v, t, _mm256_slli_epi64(t, shift), 0x96);
}

/* Up to 8 planes (n > 0) to the highest bits of 32 bytes, by transposing four 8 x 8 bit matrices. */
static inline __m256i read_planes(const uint8_t *planes, unsigned n)
{
    /* byte 7 - p of quarter k: byte k of plane p */
    const __m256i place = _mm256_setr_epi32(0x1014181c, 0x0004080c, 0x1115191d, 0x0105090d, 0x12161a1e,
                                            0x02060a0e, 0x13171b1f, 0x03070b0f);
    __m256i v = _mm256_maskz_loadu_epi32((__mmask8)_bzhi_u32(0xff, n), planes);
    v = _mm256_permutexvar_epi8(place, v);
    v = swap_bits(v, 7, 0x00aa00aa00aa00aau);
    v = swap_bits(v, 14, 0x0000cccc0000ccccu);
    return swap_bits(v, 28, 0x00000000f0f0f0f0u);
}

/* A block in 32-bit elements; width 0 gives zeros. */
static inline void decode_block(const uint8_t *planes, unsigned width, __m512i out[2])
{
    const __m256i top = read_planes(planes, width);
    __m512i a = _mm512_cvtepi8_epi32(_mm256_castsi256_si128(top));
    __m512i b = _mm512_cvtepi8_epi32(_mm256_extracti128_si256(top, 1));
    unsigned n_bits = 8;
    for (; n_bits < width; n_bits += 8) {
        planes += 32;
        const __m256i low = read_planes(planes, width - n_bits);
        const __m512i low_a = _mm512_cvtepu8_epi32(_mm256_castsi256_si128(low));
        const __m512i low_b = _mm512_cvtepu8_epi32(_mm256_extracti128_si256(low, 1));
        a = _mm512_or_si512(_mm512_slli_epi32(a, 8), low_a);
        b = _mm512_or_si512(_mm512_slli_epi32(b, 8), low_b);
    }
    const __m128i down = _mm_cvtsi32_si128((int)(n_bits - width));
    out[0] = _mm512_sra_epi32(a, down);
    out[1] = _mm512_sra_epi32(b, down);
}

static const uint8_t *decode32(const uint8_t *planes, const uint8_t widths[8], int32_t *v)
{
    for (unsigned i = 0; i < 8; i++, v += 32) {
        __m512i out[2];
        decode_block(planes, widths[i], out);
        _mm512_storeu_si512(v, out[0]);
        _mm512_storeu_si512(v + 16, out[1]);
        planes += 4 * (size_t)widths[i];
    }
    return planes;
}

static const uint8_t *decode64(const uint8_t *planes, const uint8_t widths[8], int64_t *v)
{
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    for (unsigned i = 0; i < 8; i++, v += 32) {
        const unsigned width = widths[i];
        __m512i high[2], low[2];
        if (width > 32) {
            decode_block(planes, width - 32, high);
            decode_block(planes + 4 * (size_t)(width - 32), 32, low);
        } else {
            decode_block(planes, width, low);
            high[0] = _mm512_srai_epi32(low[0], 31);
            high[1] = _mm512_srai_epi32(low[1], 31);
        }
        planes += 4 * (size_t)width;
        for (unsigned k = 0; k < 2; k++) {
            _mm512_storeu_si512(v + 16 * k, _mm512_permutex2var_epi32(low[k], first, high[k]));
            _mm512_storeu_si512(v + 16 * k + 8, _mm512_permutex2var_epi32(low[k], second, high[k]));
        }
    }
    return planes;
}

/* The width of block i in byte i, from the OR of its elements and of their folds. */
static inline __m512i or_step(__m512i *any, __m512i x, __m512i sign)
{
    *any = _mm512_or_si512(*any, x);
    return _mm512_xor_si512(x, sign);
}

static inline uint64_t or_across(__m512i v)
{
    __m256i h = _mm256_or_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i q = _mm_or_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    q = _mm_or_si128(q, _mm_unpackhi_epi64(q, q));
    return (uint64_t)_mm_cvtsi128_si64(q);
}

static uint64_t widths32(const int32_t *v)
{
    uint64_t w = 0;
    for (unsigned i = 0; i < 8; i++, v += 32) {
        __m512i any = _mm512_setzero_si512(), folded = any;
        for (unsigned k = 0; k < 2; k++) {
            const __m512i x = _mm512_loadu_si512(v + 16 * k);
            folded = _mm512_or_si512(folded, or_step(&any, x, _mm512_srai_epi32(x, 31)));
        }
        if (_mm512_test_epi32_mask(any, any) == 0)
            continue;
        const uint64_t f = or_across(folded);
        w |= (uint64_t)(33u - (unsigned)_lzcnt_u32((uint32_t)(f | f >> 32))) << (8 * i);
    }
    return w;
}

static uint64_t widths64(const int64_t *v)
{
    uint64_t w = 0;
    for (unsigned i = 0; i < 8; i++, v += 32) {
        __m512i any = _mm512_setzero_si512(), folded = any;
        for (unsigned k = 0; k < 4; k++) {
            const __m512i x = _mm512_loadu_si512(v + 8 * k);
            folded = _mm512_or_si512(folded, or_step(&any, x, _mm512_srai_epi64(x, 63)));
        }
        if (_mm512_test_epi64_mask(any, any) == 0)
            continue;
        w |= (uint64_t)(65u - (unsigned)_lzcnt_u64(or_across(folded))) << (8 * i);
    }
    return w;
}

const struct fzm_bitpack_kernels fzm_bitpack_kernels_avx512 = {
    widths32, widths64, encode32, encode64, decode32, decode64,
};
