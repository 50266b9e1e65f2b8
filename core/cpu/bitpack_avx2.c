/* SPDX-License-Identifier: BSD-3-Clause */
/* A block of 32 elements, shifted so that its first plane is the highest bit, is split into vectors of 32
 * bytes: then a plane is one movemask, and 8 planes become bytes by transposing bit matrices. */
#include "bitpack.h"

#include <immintrin.h>
#include <string.h>

static inline __m256i load(const void *p) { return _mm256_loadu_si256(p); }
static inline void store(void *p, __m256i v) { _mm256_storeu_si256(p, v); }

/* The 8 bits of 32 bytes as planes, highest first. All 8 are written whether wanted or not: a branch on their
 * number would be mispredicted too often. */
static inline void emit_planes(__m256i bytes, uint8_t *planes)
{
    for (unsigned p = 0; p < 8; p++) {
        const int word = _mm256_movemask_epi8(bytes);
        memcpy(planes + 4 * p, &word, 4);
        bytes = _mm256_add_epi8(bytes, bytes);
    }
}

/* packs* work per 128-bit half: this puts four packed quarters of 8 back in order. */
static inline __m256i unlace(__m256i v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The 16 planes of 16-bit numbers (laced as packs leaves them), or at least the first 8. */
static inline void emit_halves(__m256i ab, __m256i cd, uint8_t *planes)
{
    const __m256i low = _mm256_set1_epi16(0xff);
    emit_planes(unlace(_mm256_packus_epi16(_mm256_srli_epi16(ab, 8), _mm256_srli_epi16(cd, 8))), planes);
    emit_planes(unlace(_mm256_packus_epi16(_mm256_and_si256(ab, low), _mm256_and_si256(cd, low))),
                planes + 32);
}

/* Planes of a block of width > 0; writes up to 60 bytes behind their end. */
static inline uint8_t *encode_block(__m256i a, __m256i b, __m256i c, __m256i d, unsigned width,
                                    uint8_t *planes)
{
    if (width <= 8) { /* the usual case: elements fit in bytes, saturation never acts */
        const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        /* what crosses into a neighbour lies below its bits */
        emit_planes(_mm256_sll_epi16(unlace(bytes), _mm_cvtsi32_si128((int)(8 - width))), planes);
        return planes + 4 * width;
    }
    if (width <= 16) {
        const __m128i up = _mm_cvtsi32_si128((int)(16 - width));
        emit_halves(_mm256_sll_epi16(_mm256_packs_epi32(a, b), up),
                    _mm256_sll_epi16(_mm256_packs_epi32(c, d), up), planes);
        return planes + 4 * width;
    }
    const __m128i up = _mm_cvtsi32_si128((int)(32 - width));
    const __m256i low = _mm256_set1_epi32(0xffff);
    a = _mm256_sll_epi32(a, up), b = _mm256_sll_epi32(b, up);
    c = _mm256_sll_epi32(c, up), d = _mm256_sll_epi32(d, up);
    emit_halves(_mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)),
                _mm256_packus_epi32(_mm256_srli_epi32(c, 16), _mm256_srli_epi32(d, 16)), planes);
    emit_halves(_mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low)),
                _mm256_packus_epi32(_mm256_and_si256(c, low), _mm256_and_si256(d, low)), planes + 64);
    return planes + 4 * width;
}

static uint8_t *encode32(const int32_t *v, const uint8_t widths[8], uint8_t *planes)
{
    for (unsigned i = 0; i < 8; i++, v += 32)
        if (widths[i])
            planes = encode_block(load(v), load(v + 8), load(v + 16), load(v + 24), widths[i], planes);
    return planes;
}

/* The low (high) halves of 8 64-bit elements, in order. */
static inline __m256i low_halves(const int64_t *v)
{
    const __m256 h = _mm256_shuffle_ps(_mm256_castsi256_ps(load(v)), _mm256_castsi256_ps(load(v + 4)), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(h), 0xd8);
}

static inline __m256i high_halves(const int64_t *v)
{
    const __m256 h = _mm256_shuffle_ps(_mm256_castsi256_ps(load(v)), _mm256_castsi256_ps(load(v + 4)), 0xdd);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(h), 0xd8);
}

static uint8_t *encode64(const int64_t *v, const uint8_t widths[8], uint8_t *planes)
{
    for (unsigned i = 0; i < 8; i++, v += 32) {
        unsigned width = widths[i];
        if (width == 0)
            continue;
        if (width > 32) {
            planes = encode_block(high_halves(v), high_halves(v + 8), high_halves(v + 16),
                                  high_halves(v + 24), width - 32, planes);
            width = 32;
        }
        planes = encode_block(low_halves(v), low_halves(v + 8), low_halves(v + 16), low_halves(v + 24), width,
                              planes);
    }
    return planes;
}

/* Up to 8 planes (n; none if negative) to the highest bits of 32 bytes: four 8 x 8 bit transpositions. */
static inline __m256i read_planes(const uint8_t *planes, int n)
{
    const __m256i wanted =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i v = _mm256_maskload_epi32((const int *)(const void *)planes, wanted);
    /* byte 7 - p of quarter k: byte k of plane p */
    v = _mm256_shuffle_epi8(v, _mm256_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3, 12, 8,
                                                4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3));
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(4, 0, 5, 1, 6, 2, 7, 3));
    __m256i t = _mm256_xor_si256(v, _mm256_srli_epi64(v, 7));
    t = _mm256_and_si256(t, _mm256_set1_epi64x(0x00aa00aa00aa00aa));
    v = _mm256_xor_si256(v, _mm256_xor_si256(t, _mm256_slli_epi64(t, 7)));
    t = _mm256_xor_si256(v, _mm256_srli_epi64(v, 14));
    t = _mm256_and_si256(t, _mm256_set1_epi64x(0x0000cccc0000cccc));
    v = _mm256_xor_si256(v, _mm256_xor_si256(t, _mm256_slli_epi64(t, 14)));
    t = _mm256_xor_si256(v, _mm256_srli_epi64(v, 28));
    t = _mm256_and_si256(t, _mm256_set1_epi64x(0x00000000f0f0f0f0));
    return _mm256_xor_si256(v, _mm256_xor_si256(t, _mm256_slli_epi64(t, 28)));
}

/* A block in 32-bit elements; width 0 gives zeros. */
static inline void decode_block(const uint8_t *planes, unsigned width, __m256i out[4])
{
    const int n = (int)width;
    const __m256i top = read_planes(planes, n);
    if (n <= 8) {
        const __m128i down = _mm_cvtsi32_si128(8 - n);
        const __m128i lo = _mm256_castsi256_si128(top), hi = _mm256_extracti128_si256(top, 1);
        out[0] = _mm256_sra_epi32(_mm256_cvtepi8_epi32(lo), down);
        out[1] = _mm256_sra_epi32(_mm256_cvtepi8_epi32(_mm_srli_si128(lo, 8)), down);
        out[2] = _mm256_sra_epi32(_mm256_cvtepi8_epi32(hi), down);
        out[3] = _mm256_sra_epi32(_mm256_cvtepi8_epi32(_mm_srli_si128(hi, 8)), down);
        return;
    }
    /* 16-bit halves of elements 0-7 | 16-23 and 8-15 | 24-31 */
    const __m256i second = read_planes(planes + 32, n - 8);
    const __m256i h0 = _mm256_unpacklo_epi8(second, top), h1 = _mm256_unpackhi_epi8(second, top);
    if (n <= 16) {
        const __m128i down = _mm_cvtsi32_si128(16 - n);
        out[0] = _mm256_sra_epi32(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(h0)), down);
        out[1] = _mm256_sra_epi32(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(h1)), down);
        out[2] = _mm256_sra_epi32(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(h0, 1)), down);
        out[3] = _mm256_sra_epi32(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(h1, 1)), down);
        return;
    }
    const __m256i third = read_planes(planes + 64, n - 16);
    const __m256i fourth = n > 24 ? read_planes(planes + 96, n - 24) : _mm256_setzero_si256();
    const __m128i down = _mm_cvtsi32_si128(32 - n);
    const __m256i l0 = _mm256_unpacklo_epi8(fourth, third), l1 = _mm256_unpackhi_epi8(fourth, third);
    const __m256i a = _mm256_sra_epi32(_mm256_unpacklo_epi16(l0, h0), down);
    const __m256i b = _mm256_sra_epi32(_mm256_unpackhi_epi16(l0, h0), down);
    const __m256i c = _mm256_sra_epi32(_mm256_unpacklo_epi16(l1, h1), down);
    const __m256i d = _mm256_sra_epi32(_mm256_unpackhi_epi16(l1, h1), down);
    out[0] = _mm256_permute2x128_si256(a, b, 0x20);
    out[1] = _mm256_permute2x128_si256(c, d, 0x20);
    out[2] = _mm256_permute2x128_si256(a, b, 0x31);
    out[3] = _mm256_permute2x128_si256(c, d, 0x31);
}

static const uint8_t *decode32(const uint8_t *planes, const uint8_t widths[8], int32_t *v)
{
    for (unsigned i = 0; i < 8; i++, v += 32) {
        __m256i out[4];
        decode_block(planes, widths[i], out);
        for (unsigned k = 0; k < 4; k++)
            store(v + 8 * k, out[k]);
        planes += 4 * (size_t)widths[i];
    }
    return planes;
}

static const uint8_t *decode64(const uint8_t *planes, const uint8_t widths[8], int64_t *v)
{
    for (unsigned i = 0; i < 8; i++, v += 32) {
        const unsigned width = widths[i];
        __m256i high[4], low[4];
        if (width > 32) {
            decode_block(planes, width - 32, high);
            decode_block(planes + 4 * (size_t)(width - 32), 32, low);
        } else {
            decode_block(planes, width, low);
            for (unsigned k = 0; k < 4; k++)
                high[k] = _mm256_srai_epi32(low[k], 31);
        }
        planes += 4 * (size_t)width;
        for (unsigned k = 0; k < 4; k++) {
            const __m256i a = _mm256_unpacklo_epi32(low[k], high[k]),
                          b = _mm256_unpackhi_epi32(low[k], high[k]);
            store(v + 8 * k, _mm256_permute2x128_si256(a, b, 0x20));
            store(v + 8 * k + 4, _mm256_permute2x128_si256(a, b, 0x31));
        }
    }
    return planes;
}

/* Widths: v ^ (v >> 63) of 64-bit elements has no arithmetic shift in AVX2; a comparison with 0 serves. */
static uint64_t widths32(const int32_t *v)
{
    uint64_t w = 0;
    for (unsigned i = 0; i < 8; i++, v += 32) {
        __m256i any = _mm256_setzero_si256(), folded = any;
        for (unsigned k = 0; k < 4; k++) {
            const __m256i x = load(v + 8 * k);
            any = _mm256_or_si256(any, x);
            folded = _mm256_or_si256(folded, _mm256_xor_si256(x, _mm256_srai_epi32(x, 31)));
        }
        if (_mm256_testz_si256(any, any))
            continue;
        __m128i f = _mm_or_si128(_mm256_castsi256_si128(folded), _mm256_extracti128_si256(folded, 1));
        f = _mm_or_si128(f, _mm_unpackhi_epi64(f, f));
        const uint64_t f2 = (uint64_t)_mm_cvtsi128_si64(f);
        w |= (uint64_t)(33u - (unsigned)_lzcnt_u32((uint32_t)(f2 | f2 >> 32))) << (8 * i);
    }
    return w;
}

static uint64_t widths64(const int64_t *v)
{
    const __m256i zero = _mm256_setzero_si256();
    uint64_t w = 0;
    for (unsigned i = 0; i < 8; i++, v += 32) {
        __m256i any = zero, folded = zero;
        for (unsigned k = 0; k < 8; k++) {
            const __m256i x = load(v + 4 * k);
            any = _mm256_or_si256(any, x);
            folded = _mm256_or_si256(folded, _mm256_xor_si256(x, _mm256_cmpgt_epi64(zero, x)));
        }
        if (_mm256_testz_si256(any, any))
            continue;
        __m128i f = _mm_or_si128(_mm256_castsi256_si128(folded), _mm256_extracti128_si256(folded, 1));
        f = _mm_or_si128(f, _mm_unpackhi_epi64(f, f));
        w |= (uint64_t)(65u - (unsigned)_lzcnt_u64((uint64_t)_mm_cvtsi128_si64(f))) << (8 * i);
    }
    return w;
}

const struct fzm_bitpack_kernels fzm_bitpack_kernels_avx2 = {
    widths32, widths64, encode32, encode64, decode32, decode64,
};
