/* SPDX-License-Identifier: BSD-3-Clause */
/* Body of fused_fast_avx2.c and fused_fast_avx512.c; KERNELS is the name of the table.
 *
 * A tile is 32 vectors of 8 elements, a block 4 vectors. All modes' residuals are made and stored in one
 * pass, with the OR of r ^ 2r over each block: the bit length of that is the block's width, because the
 * highest bit of r that differs from its upper neighbour is where the sign begins. */
#include "fused_fast.h"

#include <immintrin.h>

static inline __m256i load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline void store(int32_t *p, __m256i v) { _mm256_store_si256((__m256i *)(void *)p, v); }

static inline __m256i or_fold(__m256i acc, __m256i r)
{
#ifdef __AVX512VL__
    return _mm256_ternarylogic_epi32(acc, r, _mm256_add_epi32(r, r), 0xf6); /* a | b ^ c */
#else
    return _mm256_or_si256(acc, _mm256_xor_si256(r, _mm256_add_epi32(r, r)));
#endif
}

/* Vector k: the OR over the lanes of the k-th of 8 vectors. */
static inline __m256i or_lanes(const __m256i a[8])
{
    __m256i b[4], c[2];
    for (int k = 0; k < 4; k++)
        b[k] = _mm256_or_si256(_mm256_unpacklo_epi32(a[2 * k], a[2 * k + 1]),
                               _mm256_unpackhi_epi32(a[2 * k], a[2 * k + 1]));
    for (int k = 0; k < 2; k++)
        c[k] = _mm256_or_si256(_mm256_unpacklo_epi64(b[2 * k], b[2 * k + 1]),
                               _mm256_unpackhi_epi64(b[2 * k], b[2 * k + 1]));
    return _mm256_or_si256(_mm256_permute2x128_si256(c[0], c[1], 0x20),
                           _mm256_permute2x128_si256(c[0], c[1], 0x31));
}

/* Bit lengths of 8 numbers. */
static inline __m256i bit_lengths(__m256i x)
{
#ifdef __AVX512CD__
    return _mm256_sub_epi32(_mm256_set1_epi32(32), _mm256_lzcnt_epi32(x));
#else
    /* exponent of x / 2 as a float, with a 0 below its highest bit so that it is not rounded up */
    __m256i half = _mm256_srli_epi32(x, 1);
    half = _mm256_andnot_si256(_mm256_srli_epi32(half, 1), half);
    const __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(half)), 23);
    const __m256i n =
        _mm256_sub_epi32(_mm256_max_epi32(exponent, _mm256_set1_epi32(126)), _mm256_set1_epi32(125));
    return _mm256_add_epi32(n, _mm256_cmpeq_epi32(x, _mm256_setzero_si256()));
#endif
}

/* Bits of four tiles by fzm_bitpack_tile_cost64(), one in each quarter of w (8 widths). */
static inline __m256i tile_costs(__m256i w)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i by4 = _mm256_shuffle_epi32(w, 0xb1);
    __m256i max = _mm256_max_epu8(w, by4), min = _mm256_min_epu8(w, by4);
    const __m256i by2 = _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3, 0, 1, 6,
                                         7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    max = _mm256_max_epu8(max, _mm256_shuffle_epi8(max, by2));
    min = _mm256_min_epu8(min, _mm256_shuffle_epi8(min, by2));
    /* now the lowest 16 bits of each quarter hold two candidates */
    max = _mm256_and_si256(_mm256_max_epu8(max, _mm256_srli_epi16(max, 8)), _mm256_set1_epi64x(0xff));
    min = _mm256_and_si256(_mm256_min_epu8(min, _mm256_srli_epi16(min, 8)), _mm256_set1_epi64x(0xff));
    const __m256i spread = _mm256_sub_epi32(max, min);
    /* 8, or 4 if no width is above 15, or 3 if the spread is at most 3, or 1 if it is 0 */
    __m256i rate = _mm256_sub_epi32(
        _mm256_set1_epi64x(8),
        _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi64x(16), max), _mm256_set1_epi64x(4)));
    rate = _mm256_blendv_epi8(rate, _mm256_set1_epi64x(3), _mm256_cmpgt_epi32(_mm256_set1_epi64x(4), spread));
    rate = _mm256_blendv_epi8(rate, _mm256_set1_epi64x(1), _mm256_cmpeq_epi32(spread, zero));
    const __m256i sum = _mm256_sad_epu8(w, zero);
    const __m256i cost = _mm256_add_epi32(
        _mm256_add_epi32(_mm256_slli_epi32(rate, 3), _mm256_slli_epi32(sum, 5)), _mm256_set1_epi64x(2));
    return _mm256_andnot_si256(_mm256_cmpeq_epi32(max, zero), cost);
}

/* The least cost of n_modes, the smallest mode on ties; its widths. */
static inline unsigned pick(const __m256i ors[FZM_FAST_MAX_MODES][8], int n_modes, uint8_t widths[8])
{
    __m256i w[FZM_FAST_MAX_MODES];
    for (int m = 0; m < FZM_FAST_MAX_MODES; m++)
        w[m] = m < n_modes ? bit_lengths(or_lanes(ors[m])) : _mm256_set1_epi32(64);
    const __m256i laced =
        _mm256_packus_epi16(_mm256_packus_epi32(w[0], w[1]), _mm256_packus_epi32(w[2], w[3]));
    const __m256i all = _mm256_permutevar8x32_epi32(laced, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m256i key =
        _mm256_or_si256(_mm256_slli_epi32(tile_costs(all), 2), _mm256_setr_epi64x(0, 1, 2, 3));
    __m128i least = _mm_min_epu32(_mm256_castsi256_si128(key), _mm256_extracti128_si256(key, 1));
    least = _mm_min_epu32(least, _mm_unpackhi_epi64(least, least));
    const unsigned mode = (unsigned)_mm_cvtsi128_si32(least) & 3u;
    uint64_t by_mode[FZM_FAST_MAX_MODES];
    _mm256_storeu_si256((__m256i *)(void *)by_mode, all);
    _mm_storel_epi64((__m128i *)(void *)widths, _mm_cvtsi64_si128((long long)by_mode[mode]));
    return mode;
}

/* Rows of row vectors (1 or 2), planes of 8 rows; n_modes 3 or 4. */
static inline __attribute__((always_inline)) unsigned choose_rows(int32_t *v, int32_t *residuals,
                                                                  uint8_t widths[8], int row, int n_modes)
{
    const __m256i origin = _mm256_set1_epi32(v[0]);
    __m256i ors[FZM_FAST_MAX_MODES][8];
    __m256i before[2] = {origin, origin}; /* first differences of the row before */
    for (int block = 0; block < 8; block++) {
        __m256i acc[FZM_FAST_MAX_MODES];
        for (int m = 0; m < n_modes; m++)
            acc[m] = _mm256_setzero_si256();
        for (int k = 4 * block; k < 4 * block + 4; k++) {
            int32_t *const r = residuals + 8 * k;
            const __m256i x = load(v + 8 * k);
            __m256i left = load(v + 8 * k - 1);
            if (k % row == 0)
                left = _mm256_blend_epi32(left, origin, 1);
            const __m256i w = _mm256_sub_epi32(x, origin), dx = _mm256_sub_epi32(x, left);
            const bool first_row = n_modes == 4 ? k % 8 == 0 : k < row;
            const __m256i dy = first_row ? dx : _mm256_sub_epi32(dx, before[k % row]);
            before[k % row] = dx;
            store(r, w);
            store(r + 256, dx);
            store(r + 512, dy);
            acc[0] = or_fold(acc[0], w);
            acc[1] = or_fold(acc[1], dx);
            acc[2] = or_fold(acc[2], dy);
            if (n_modes == 4) {
                const __m256i dz = k < 8 ? dy : _mm256_sub_epi32(dy, load(r + 512 - 64));
                store(r + 768, dz);
                acc[3] = or_fold(acc[3], dz);
            }
        }
        for (int m = 0; m < n_modes; m++)
            ors[m][block] = acc[m];
    }
    return pick(ors, n_modes, widths);
}

static unsigned choose_3d(int32_t *v, int32_t *residuals, uint8_t widths[8])
{
    return choose_rows(v, residuals, widths, 1, 4);
}

static unsigned choose_2d(int32_t *v, int32_t *residuals, uint8_t widths[8])
{
    return choose_rows(v, residuals, widths, 2, 3);
}

static unsigned choose_1d(int32_t *v, int32_t *residuals, uint8_t widths[8])
{
    const __m256i origin = _mm256_set1_epi32(v[0]);
    __m256i ors[FZM_FAST_MAX_MODES][8];
    store(v - 8, origin);
    for (int block = 0; block < 8; block++) {
        __m256i acc[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int k = 4 * block; k < 4 * block + 4; k++) {
            int32_t *const r = residuals + 8 * k;
            const __m256i x = load(v + 8 * k), left = load(v + 8 * k - 1), left2 = load(v + 8 * k - 2);
            const __m256i w = _mm256_sub_epi32(x, origin), dx = _mm256_sub_epi32(x, left);
            const __m256i dxx = _mm256_sub_epi32(dx, _mm256_sub_epi32(left, left2));
            store(r, w);
            store(r + 256, dx);
            store(r + 512, dxx);
            acc[0] = or_fold(acc[0], w);
            acc[1] = or_fold(acc[1], dx);
            acc[2] = or_fold(acc[2], dxx);
        }
        for (int m = 0; m < 3; m++)
            ors[m][block] = acc[m];
    }
    return pick(ors, 3, widths);
}

/* Prefix sums of 8 elements. */
static inline __m256i scan(__m256i x)
{
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    /* the last of the low half to all of the high half */
    const __m256i low = _mm256_permute2x128_si256(x, x, 0x08);
    return _mm256_add_epi32(x, _mm256_shuffle_epi32(low, 0xff));
}

static inline __m256i last_lane(__m256i x) { return _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(7)); }

/* As choose_rows(), mode is a constant. */
static inline __attribute__((always_inline)) void undo_rows(const int32_t *r, int32_t origin, int32_t *v,
                                                            int row, bool is_3d, int mode)
{
    const __m256i o = _mm256_set1_epi32(origin);
    __m256i above[2] = {o, o}, plane[8];
    for (int k = 0; k < 32; k += row)
        for (int i = 0; i < row; i++) {
            __m256i x = load(r + 8 * (k + i));
            if (mode == 3) {
                x = k < 8 ? x : _mm256_add_epi32(x, plane[k % 8]);
                plane[k % 8] = x;
            }
            if (mode >= 2) {
                x = (is_3d ? k % 8 == 0 : k == 0) ? x : _mm256_add_epi32(x, above[i]);
                above[i] = x;
            }
            if (mode >= 1)
                x = scan(x);
            /* the origin, or the end of the row's first vector, which has it */
            x = _mm256_add_epi32(x, i == 0 || mode == 0 ? o : last_lane(load(v + 8 * k)));
            store(v + 8 * (k + i), x);
        }
}

static void undo_3d(const int32_t *r, int32_t origin, unsigned mode, int32_t *v)
{
    switch (mode) {
    case 0: undo_rows(r, origin, v, 1, true, 0); break;
    case 1: undo_rows(r, origin, v, 1, true, 1); break;
    case 2: undo_rows(r, origin, v, 1, true, 2); break;
    default: undo_rows(r, origin, v, 1, true, 3);
    }
}

static void undo_2d(const int32_t *r, int32_t origin, unsigned mode, int32_t *v)
{
    switch (mode) {
    case 0: undo_rows(r, origin, v, 2, false, 0); break;
    case 1: undo_rows(r, origin, v, 2, false, 1); break;
    default: undo_rows(r, origin, v, 2, false, 2);
    }
}

static void undo_1d(const int32_t *r, int32_t origin, unsigned mode, int32_t *v)
{
    const __m256i o = _mm256_set1_epi32(origin);
    __m256i value = o, slope = _mm256_setzero_si256();
    for (int k = 0; k < 32; k++) {
        __m256i x = load(r + 8 * k);
        if (mode == 2) {
            x = _mm256_add_epi32(scan(x), slope);
            slope = last_lane(x);
        }
        if (mode >= 1) {
            x = _mm256_add_epi32(scan(x), value);
            value = last_lane(x);
        } else {
            x = _mm256_add_epi32(x, o);
        }
        store(v + 8 * k, x);
    }
}

const struct fzm_fast_kernels KERNELS[FZM_GEOMETRY_3D + 1] = {
    {NULL, NULL},
    {choose_1d, undo_1d},
    {choose_2d, undo_2d},
    {choose_3d, undo_3d},
};
