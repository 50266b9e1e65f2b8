/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the 32-bit tile kernels that compilers do not vectorise well. */
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
#endif
