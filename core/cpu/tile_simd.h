/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the tile kernels that compilers do not vectorise well. */
#ifdef __AVX2__
#include <immintrin.h>

/* Width of a block of 32 from four vectors. */
static inline uint8_t block_width_32(const int32_t *x)
{
    const __m256i *const p = (const __m256i *)(const void *)x;
    const __m256i a = _mm256_loadu_si256(p), b = _mm256_loadu_si256(p + 1);
    const __m256i c = _mm256_loadu_si256(p + 2), d = _mm256_loadu_si256(p + 3);
    const __m256i any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    if (_mm256_testz_si256(any, any))
        return 0;
    const __m256i fa = _mm256_xor_si256(a, _mm256_srai_epi32(a, 31));
    const __m256i fb = _mm256_xor_si256(b, _mm256_srai_epi32(b, 31));
    const __m256i fc = _mm256_xor_si256(c, _mm256_srai_epi32(c, 31));
    const __m256i fd = _mm256_xor_si256(d, _mm256_srai_epi32(d, 31));
    const __m256i f = _mm256_or_si256(_mm256_or_si256(fa, fb), _mm256_or_si256(fc, fd));
    const __m128i h = _mm_or_si128(_mm256_castsi256_si128(f), _mm256_extracti128_si256(f, 1));
    const uint64_t two = (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(h, _mm_unpackhi_epi64(h, h)));
    return (uint8_t)(fzm_bit_length((two | two >> 32) & 0xffffffffu) + 1);
}

static uint64_t cost_bitpack_32(const int32_t *r, uint32_t n, uint8_t *widths)
{
    uint64_t nbits = 0;
    for (uint32_t tile = 0; tile < n; tile += 256) {
        uint8_t *const w = widths + tile / 32;
        for (uint32_t b = 0; b < 8; b++)
            w[b] = block_width_32(r + tile + 32 * b);
        nbits += fzm_bitpack_tile_cost64(fzm_bitpack_widths_join(w), 32);
    }
    return nbits;
}

static uint64_t cost_planes_32(const int32_t *r, uint32_t n)
{
    const __m256i m = _mm256_set1_epi32((int)0xaaaaaaaau);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i += 32) {
        __m256i v[4];
        for (int k = 0; k < 4; k++) {
            const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(r + i + 8 * k));
            v[k] = _mm256_xor_si256(_mm256_add_epi32(x, m), m);
        }
        /* OR of the 8 lanes of each vector, four vectors at a time */
        const __m256i ab = _mm256_or_si256(_mm256_unpacklo_epi64(v[0], v[1]), _mm256_unpackhi_epi64(v[0], v[1]));
        const __m256i cd = _mm256_or_si256(_mm256_unpacklo_epi64(v[2], v[3]), _mm256_unpackhi_epi64(v[2], v[3]));
        const __m256 abf = _mm256_castsi256_ps(ab), cdf = _mm256_castsi256_ps(cd);
        const __m256i q = _mm256_or_si256(_mm256_castps_si256(_mm256_shuffle_ps(abf, cdf, 0x88)),
                                          _mm256_castps_si256(_mm256_shuffle_ps(abf, cdf, 0xdd)));
        const __m128i h = _mm_or_si128(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
        n_bytes += (uint64_t)__builtin_popcountll((uint64_t)_mm_cvtsi128_si64(h)) +
                   (uint64_t)__builtin_popcountll((uint64_t)_mm_extract_epi64(h, 1));
    }
    return 8 * n_bytes;
}

/* Prefix sums of rows whose length is a multiple of 8. */
static void scan_rows_32(int32_t *v, uint32_t n, uint32_t nx)
{
    const __m256i last = _mm256_set1_epi32(7);
    for (uint32_t row = 0; row < n; row += nx) {
        __m256i carry = _mm256_setzero_si256();
        for (uint32_t i = row; i < row + nx; i += 8) {
            __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(v + i));
            x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
            x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
            /* total of the low half to the high half */
            const __m256i low = _mm256_shuffle_epi32(_mm256_permute2x128_si256(x, x, 0x08), 0xff);
            x = _mm256_add_epi32(x, low);
            x = _mm256_add_epi32(x, carry);
            _mm256_storeu_si256((__m256i *)(void *)(v + i), x);
            carry = _mm256_permutevar8x32_epi32(x, last);
        }
    }
}

static inline __m256i load_256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

static inline void sub_8_32(int32_t *r, const int32_t *before)
{
    _mm256_storeu_si256((__m256i *)(void *)r, _mm256_sub_epi32(load_256(r), load_256(before)));
}

static inline void add_8_32(int32_t *r, const int32_t *before)
{
    _mm256_storeu_si256((__m256i *)(void *)r, _mm256_add_epi32(load_256(r), load_256(before)));
}

static inline uint64_t popcount_256(__m256i v)
{
    const __m128i a = _mm256_castsi256_si128(v), b = _mm256_extracti128_si256(v, 1);
    return (uint64_t)__builtin_popcountll((uint64_t)_mm_cvtsi128_si64(a)) +
           (uint64_t)__builtin_popcountll((uint64_t)_mm_extract_epi64(a, 1)) +
           (uint64_t)__builtin_popcountll((uint64_t)_mm_cvtsi128_si64(b)) +
           (uint64_t)__builtin_popcountll((uint64_t)_mm_extract_epi64(b, 1));
}

/* OR of the four lanes of each argument, in the lanes of the result. */
static inline __m256i or_lanes_64(__m256i a, __m256i b, __m256i c, __m256i d)
{
    const __m256i ab = _mm256_or_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    const __m256i cd = _mm256_or_si256(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    return _mm256_or_si256(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
}

/* The width of a block is the bit length of the OR of its zigzag codes: 2 v for v >= 0, -2 v - 1 below. */
static inline __m256i block_or_64(const int64_t *x)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i any = zero;
    for (int k = 0; k < 8; k++) {
        const __m256i v = load_256(x + 4 * k);
        any = _mm256_or_si256(any, _mm256_xor_si256(_mm256_add_epi64(v, v), _mm256_cmpgt_epi64(zero, v)));
    }
    return any;
}

static uint64_t cost_bitpack_64(const int64_t *r, uint32_t n, uint8_t *widths)
{
    uint64_t nbits = 0;
    for (uint32_t tile = 0; tile < n; tile += 256) {
        uint8_t *const w = widths + tile / 32;
        for (uint32_t b = 0; b < 8; b += 4) {
            const int64_t *const x = r + tile + 32 * b;
            uint64_t any[4];
            _mm256_storeu_si256((__m256i *)(void *)any,
                                or_lanes_64(block_or_64(x), block_or_64(x + 32), block_or_64(x + 64),
                                            block_or_64(x + 96)));
            for (uint32_t k = 0; k < 4; k++)
                w[b + k] = (uint8_t)fzm_bit_length(any[k]);
        }
        nbits += fzm_bitpack_tile_cost64(fzm_bitpack_widths_join(w), 32);
    }
    return nbits;
}

static uint64_t cost_planes_64(const int64_t *r, uint32_t n)
{
    const __m256i m = _mm256_set1_epi64x((long long)0xaaaaaaaaaaaaaaaau);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i += 32) {
        __m256i v[4];
        for (int k = 0; k < 4; k++) {
            const __m256i a = _mm256_add_epi64(load_256(r + i + 8 * k), m);
            const __m256i b = _mm256_add_epi64(load_256(r + i + 8 * k + 4), m);
            v[k] = _mm256_or_si256(_mm256_xor_si256(a, m), _mm256_xor_si256(b, m));
        }
        n_bytes += popcount_256(or_lanes_64(v[0], v[1], v[2], v[3]));
    }
    return 8 * n_bytes;
}

/* 16 bits: a group is a 128-bit half; four groups' ORs end up side by side in each of its 64-bit lanes. */
static uint64_t cost_planes_16(const int16_t *r, uint32_t n)
{
    const __m256i m = _mm256_set1_epi16((short)0xaaaau);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i += 64) {
        __m256i v[4];
        for (int k = 0; k < 4; k++)
            v[k] = _mm256_xor_si256(_mm256_add_epi16(load_256(r + i + 16 * k), m), m);
        const __m256i ab =
            _mm256_or_si256(_mm256_unpacklo_epi16(v[0], v[1]), _mm256_unpackhi_epi16(v[0], v[1]));
        const __m256i cd =
            _mm256_or_si256(_mm256_unpacklo_epi16(v[2], v[3]), _mm256_unpackhi_epi16(v[2], v[3]));
        const __m256i q = _mm256_or_si256(_mm256_unpacklo_epi32(ab, cd), _mm256_unpackhi_epi32(ab, cd));
        const __m256i h = _mm256_or_si256(q, _mm256_unpackhi_epi64(q, q));
        n_bytes += (uint64_t)__builtin_popcountll((uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(h))) +
                   (uint64_t)__builtin_popcountll(
                       (uint64_t)_mm_cvtsi128_si64(_mm256_extracti128_si256(h, 1)));
    }
    return 8 * n_bytes;
}

/* 8 bits: a group is a 64-bit lane; eight vectors' ORs end up in the bytes of the lanes. */
static uint64_t cost_planes_8(const int8_t *r, uint32_t n)
{
    const __m256i m = _mm256_set1_epi8((char)0xaau), low = _mm256_set1_epi64x(0xff);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i += 256) {
        __m256i all = _mm256_setzero_si256();
        for (int k = 0; k < 8; k++) {
            __m256i v = _mm256_xor_si256(_mm256_add_epi8(load_256(r + i + 32 * k), m), m);
            v = _mm256_or_si256(v, _mm256_srli_epi64(v, 32));
            v = _mm256_or_si256(v, _mm256_srli_epi64(v, 16));
            v = _mm256_or_si256(v, _mm256_srli_epi64(v, 8));
            all = _mm256_or_si256(_mm256_slli_epi64(all, 8), _mm256_and_si256(v, low));
        }
        n_bytes += popcount_256(all);
    }
    return 8 * n_bytes;
}

/* Prefix sums of rows whose length is a multiple of 4. */
static void scan_rows_64(int64_t *v, uint32_t n, uint32_t nx)
{
    const __m256i zero = _mm256_setzero_si256();
    for (uint32_t row = 0; row < n; row += nx) {
        __m256i carry = zero;
        for (uint32_t i = row; i < row + nx; i += 4) {
            __m256i x = load_256(v + i);
            x = _mm256_add_epi64(x, _mm256_slli_si256(x, 8));
            /* total of the low half to the high half */
            const __m256i low = _mm256_blend_epi32(zero, _mm256_permute4x64_epi64(x, 0x55), 0xf0);
            x = _mm256_add_epi64(_mm256_add_epi64(x, low), carry);
            _mm256_storeu_si256((__m256i *)(void *)(v + i), x);
            carry = _mm256_permute4x64_epi64(x, 0xff);
        }
    }
}
#endif
