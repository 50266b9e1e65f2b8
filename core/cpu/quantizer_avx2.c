/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer kernels for AVX2: 64 elements at a time; only elements that fail the first try leave the vectors. */
#include "quantizer_log.h"

#include <immintrin.h>

#define ROUND_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* The scalar rest of a word: elements that failed the first try (retry), set in *bad if they fail again. */
static uint64_t repair_f32(const struct fzm_linear_f32 *k, const float *x, int32_t *codes, uint64_t retry)
{
    uint64_t bad = 0;
    for (; retry; retry &= retry - 1) {
        const unsigned i = (unsigned)_tzcnt_u64(retry);
        float v;
        int32_t code = 0;
        memcpy(&v, (const char *)x + i * sizeof v, sizeof v);
        if (!fzm_linear_f32_encode(k, v, &code))
            bad |= (uint64_t)1 << i;
        memcpy((char *)codes + i * sizeof code, &code, sizeof code);
    }
    return bad;
}

/* The elements of a word that are not outliers from the start. */
static uint64_t in_window_f32(const struct fzm_linear_f32 *k, const float *x)
{
    const __m256 lo = _mm256_set1_ps(k->lo), hi = _mm256_set1_ps(k->hi);
    uint64_t inside = 0;
    for (unsigned j = 0; j < 64; j += 8) {
        const __m256 v = _mm256_loadu_ps(x + j);
        const __m256 in = _mm256_and_ps(_mm256_cmp_ps(v, lo, _CMP_GE_OQ), _mm256_cmp_ps(v, hi, _CMP_LE_OQ));
        inside |= (uint64_t)(uint32_t)_mm256_movemask_ps(in) << j;
    }
    return inside;
}

static size_t quantize_f32_i32(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out,
                               uint64_t *bad)
{
    const struct fzm_linear_f32 k = fzm_linear_f32_init(p);
    const __m256 step = _mm256_set1_ps(k.step), inv = _mm256_set1_ps(k.inv_step);
    const __m256 off = _mm256_set1_ps(k.offset), lo = _mm256_set1_ps(k.lo), hi = _mm256_set1_ps(k.hi);
    const __m256 max = _mm256_set1_ps(k.fast_max), sign = _mm256_set1_ps(-0.0f);
    const bool has_off = k.offset != 0;
    const float *x = (const float *)in;
    int32_t *codes = (int32_t *)out;
    size_t n_bad = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t good = 0;
        for (unsigned j = 0; j < 64; j += 8) {
            const __m256 v = _mm256_loadu_ps(x + i + j);
            const __m256 t = has_off ? _mm256_sub_ps(v, off) : v;
            const __m256 q = _mm256_round_ps(_mm256_mul_ps(t, inv), ROUND_NEAREST);
            __m256 y = _mm256_mul_ps(q, step);
            if (has_off)
                y = _mm256_add_ps(y, off);
            const __m256 d = _mm256_andnot_ps(sign, _mm256_sub_ps(v, y));
            const __m256 in_lo = _mm256_cmp_ps(v, lo, _CMP_GE_OQ), in_hi = _mm256_cmp_ps(v, hi, _CMP_LE_OQ);
            const __m256 ok = _mm256_and_ps(_mm256_cmp_ps(d, max, _CMP_LE_OQ), _mm256_and_ps(in_lo, in_hi));
            good |= (uint64_t)(uint32_t)_mm256_movemask_ps(ok) << j;
            _mm256_storeu_si256((__m256i *)(codes + i + j), _mm256_cvtps_epi32(q));
        }
        uint64_t word = 0;
        if (good != ~(uint64_t)0) {
            const uint64_t inside = in_window_f32(&k, x + i);
            word = ~inside | repair_f32(&k, x + i, codes + i, inside & ~good);
            n_bad += (unsigned)_mm_popcnt_u64(word);
        }
        bad[i / 64] = word;
    }
    if (i < n) {
        bad[i / 64] = repair_f32(&k, x + i, codes + i, ((uint64_t)1 << (n - i)) - 1);
        n_bad += (unsigned)_mm_popcnt_u64(bad[i / 64]);
    }
    return n_bad;
}

static void dequantize_f32_i32(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out)
{
    const struct fzm_linear_f32 k = fzm_linear_f32_init(p);
    const __m256 step = _mm256_set1_ps(k.step), off = _mm256_set1_ps(k.offset);
    const bool has_off = k.offset != 0;
    const int32_t *codes = (const int32_t *)in;
    float *y = (float *)out;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i c = _mm256_loadu_si256((const __m256i *)(codes + i));
        const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(c), step);
        _mm256_storeu_ps(y + i, has_off ? _mm256_add_ps(v, off) : v);
    }
    for (; i < n; i++) {
        int32_t c;
        memcpy(&c, (const char *)codes + i * sizeof c, sizeof c);
        const float v = fzm_linear_f32_decode(&k, (float)c);
        memcpy((char *)y + i * sizeof v, &v, sizeof v);
    }
}

/* Float64: one body for both code types, wide is a constant where it is inlined. */
static inline uint64_t repair_f64(const struct fzm_linear_f64 *k, const double *x, void *codes, uint64_t retry,
                                  bool wide)
{
    uint64_t bad = 0;
    for (; retry; retry &= retry - 1) {
        const unsigned i = (unsigned)_tzcnt_u64(retry);
        double v;
        int64_t code = 0;
        memcpy(&v, (const char *)x + i * sizeof v, sizeof v);
        if (!fzm_linear_f64_encode(k, v, &code))
            bad |= (uint64_t)1 << i;
        const int32_t narrow = (int32_t)code;
        if (wide)
            memcpy((char *)codes + i * 8, &code, 8);
        else
            memcpy((char *)codes + i * 4, &narrow, 4);
    }
    return bad;
}

static uint64_t in_window_f64(const struct fzm_linear_f64 *k, const double *x)
{
    const __m256d lo = _mm256_set1_pd(k->lo), hi = _mm256_set1_pd(k->hi);
    uint64_t inside = 0;
    for (unsigned j = 0; j < 64; j += 4) {
        const __m256d v = _mm256_loadu_pd(x + j);
        const __m256d in = _mm256_and_pd(_mm256_cmp_pd(v, lo, _CMP_GE_OQ), _mm256_cmp_pd(v, hi, _CMP_LE_OQ));
        inside |= (uint64_t)(uint32_t)_mm256_movemask_pd(in) << j;
    }
    return inside;
}

static inline size_t quantize_f64(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out,
                                  uint64_t *bad, bool wide)
{
    const struct fzm_linear_f64 k = fzm_linear_f64_init(p);
    const __m256d step = _mm256_set1_pd(k.step), inv = _mm256_set1_pd(k.inv_step);
    const __m256d off = _mm256_set1_pd(k.offset), lo = _mm256_set1_pd(k.lo), hi = _mm256_set1_pd(k.hi);
    const __m256d max = _mm256_set1_pd(k.fast_max), sign = _mm256_set1_pd(-0.0);
    const __m256d magic = _mm256_set1_pd(6755399441055744.0); /* 1.5 * 2^52: low bits are the integer */
    const bool has_off = k.offset != 0;
    const double *x = (const double *)in;
    const size_t code_nbytes = wide ? 8 : 4;
    char *codes = (char *)out;
    size_t n_bad = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t good = 0;
        for (unsigned j = 0; j < 64; j += 4) {
            const __m256d v = _mm256_loadu_pd(x + i + j);
            const __m256d t = has_off ? _mm256_sub_pd(v, off) : v;
            const __m256d q = _mm256_round_pd(_mm256_mul_pd(t, inv), ROUND_NEAREST);
            __m256d y = _mm256_mul_pd(q, step);
            if (has_off)
                y = _mm256_add_pd(y, off);
            const __m256d d = _mm256_andnot_pd(sign, _mm256_sub_pd(v, y));
            const __m256d in_lo = _mm256_cmp_pd(v, lo, _CMP_GE_OQ), in_hi = _mm256_cmp_pd(v, hi, _CMP_LE_OQ);
            const __m256d ok = _mm256_and_pd(_mm256_cmp_pd(d, max, _CMP_LE_OQ), _mm256_and_pd(in_lo, in_hi));
            good |= (uint64_t)(uint32_t)_mm256_movemask_pd(ok) << j;
            if (wide) {
                const __m256i m = _mm256_castpd_si256(_mm256_add_pd(q, magic));
                _mm256_storeu_si256((__m256i *)(codes + (i + j) * 8),
                                    _mm256_sub_epi64(m, _mm256_castpd_si256(magic)));
            } else {
                _mm_storeu_si128((__m128i *)(codes + (i + j) * 4), _mm256_cvtpd_epi32(q));
            }
        }
        uint64_t word = 0;
        if (good != ~(uint64_t)0) {
            const uint64_t inside = in_window_f64(&k, x + i);
            word = ~inside | repair_f64(&k, x + i, codes + i * code_nbytes, inside & ~good, wide);
            n_bad += (unsigned)_mm_popcnt_u64(word);
        }
        bad[i / 64] = word;
    }
    if (i < n) {
        bad[i / 64] = repair_f64(&k, x + i, codes + i * code_nbytes, ((uint64_t)1 << (n - i)) - 1, wide);
        n_bad += (unsigned)_mm_popcnt_u64(bad[i / 64]);
    }
    return n_bad;
}

static size_t quantize_f64_i32(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes,
                               uint64_t *bad)
{
    return quantize_f64(p, x, n, codes, bad, false);
}

static size_t quantize_f64_i64(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes,
                               uint64_t *bad)
{
    return quantize_f64(p, x, n, codes, bad, true);
}

/* Any int64 to double, rounded once: the high 32 bits and the low 32 bits as exact doubles. */
static __m256d cvt_i64_pd(__m256i c)
{
    const __m256i low_magic = _mm256_set1_epi64x(0x4330000000000000);  /* 2^52 */
    const __m256i high_magic = _mm256_set1_epi64x(0x4530000080000000); /* 2^84 + 2^63 */
    const __m256d both = _mm256_castsi256_pd(_mm256_set1_epi64x(0x4530000080100000)); /* 2^84 + 2^63 + 2^52 */
    const __m256i low = _mm256_blend_epi32(low_magic, c, 0x55);
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(c, 32), high_magic);
    return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low));
}

static inline void dequantize_f64(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out, bool wide)
{
    const struct fzm_linear_f64 k = fzm_linear_f64_init(p);
    const __m256d step = _mm256_set1_pd(k.step), off = _mm256_set1_pd(k.offset);
    const bool has_off = k.offset != 0;
    const char *codes = (const char *)in;
    double *y = (double *)out;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d c = wide ? cvt_i64_pd(_mm256_loadu_si256((const __m256i *)(codes + i * 8)))
                               : _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)(codes + i * 4)));
        const __m256d v = _mm256_mul_pd(c, step);
        _mm256_storeu_pd(y + i, has_off ? _mm256_add_pd(v, off) : v);
    }
    for (; i < n; i++) {
        int64_t c = 0;
        int32_t narrow = 0;
        memcpy(wide ? (void *)&c : (void *)&narrow, codes + i * (wide ? 8 : 4), wide ? 8 : 4);
        const double v = fzm_linear_f64_decode(&k, wide ? (double)c : (double)narrow);
        memcpy((char *)y + i * sizeof v, &v, sizeof v);
    }
}

static void dequantize_f64_i32(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y)
{
    dequantize_f64(p, codes, n, y, false);
}

static void dequantize_f64_i64(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y)
{
    dequantize_f64(p, codes, n, y, true);
}

/* Elements that do not count become keys that change nothing. */
static void extremes_f32(const void *in, size_t n, const int64_t window[2], const uint64_t *fill, int64_t min_max[2])
{
    const __m256i lo = _mm256_set1_epi32((int32_t)window[0]), hi = _mm256_set1_epi32((int32_t)window[1]);
    const __m256i skip = _mm256_set1_epi32(fill ? (int32_t)(uint32_t)*fill : 0x7fffffff); /* a NaN if none */
    const __m256i top = _mm256_set1_epi32(INT32_MAX), bottom = _mm256_set1_epi32(INT32_MIN);
    __m256i min = top, max = bottom;
    const char *const x = (const char *)in;
    int32_t padded[8], mins[8], maxs[8];
    for (size_t i = 0; i < n; i += 8) {
        __m256i b;
        if (n - i >= 8) {
            b = _mm256_loadu_si256((const __m256i *)(x + i * 4));
        } else {
            memset(padded, 0xff, sizeof padded); /* NaN */
            memcpy(padded, x + i * 4, (n - i) * 4);
            b = _mm256_loadu_si256((const __m256i *)padded);
        }
        const __m256i key = _mm256_xor_si256(b, _mm256_srli_epi32(_mm256_srai_epi32(b, 31), 1));
        const __m256i out = _mm256_or_si256(_mm256_cmpgt_epi32(lo, key), _mm256_cmpgt_epi32(key, hi));
        const __m256i no = _mm256_or_si256(out, _mm256_cmpeq_epi32(b, skip));
        min = _mm256_min_epi32(min, _mm256_blendv_epi8(key, top, no));
        max = _mm256_max_epi32(max, _mm256_blendv_epi8(key, bottom, no));
    }
    _mm256_storeu_si256((__m256i *)mins, min);
    _mm256_storeu_si256((__m256i *)maxs, max);
    for (unsigned i = 0; i < 8; i++) {
        if (mins[i] != INT32_MAX && mins[i] < min_max[0])
            min_max[0] = mins[i];
        if (maxs[i] != INT32_MIN && maxs[i] > min_max[1])
            min_max[1] = maxs[i];
    }
}

static void extremes_f64(const void *in, size_t n, const int64_t window[2], const uint64_t *fill, int64_t min_max[2])
{
    const __m256i lo = _mm256_set1_epi64x(window[0]), hi = _mm256_set1_epi64x(window[1]);
    const __m256i skip = _mm256_set1_epi64x(fill ? (int64_t)*fill : INT64_MAX); /* a NaN if none */
    const __m256i top = _mm256_set1_epi64x(INT64_MAX), bottom = _mm256_set1_epi64x(INT64_MIN);
    const __m256i zero = _mm256_setzero_si256();
    __m256i min = top, max = bottom;
    const char *const x = (const char *)in;
    int64_t padded[4], mins[4], maxs[4];
    for (size_t i = 0; i < n; i += 4) {
        __m256i b;
        if (n - i >= 4) {
            b = _mm256_loadu_si256((const __m256i *)(x + i * 8));
        } else {
            memset(padded, 0xff, sizeof padded); /* NaN */
            memcpy(padded, x + i * 8, (n - i) * 8);
            b = _mm256_loadu_si256((const __m256i *)padded);
        }
        const __m256i key = _mm256_xor_si256(b, _mm256_srli_epi64(_mm256_cmpgt_epi64(zero, b), 1));
        const __m256i out = _mm256_or_si256(_mm256_cmpgt_epi64(lo, key), _mm256_cmpgt_epi64(key, hi));
        const __m256i no = _mm256_or_si256(out, _mm256_cmpeq_epi64(b, skip));
        const __m256i a = _mm256_blendv_epi8(key, top, no), c = _mm256_blendv_epi8(key, bottom, no);
        min = _mm256_blendv_epi8(min, a, _mm256_cmpgt_epi64(min, a));
        max = _mm256_blendv_epi8(max, c, _mm256_cmpgt_epi64(c, max));
    }
    _mm256_storeu_si256((__m256i *)mins, min);
    _mm256_storeu_si256((__m256i *)maxs, max);
    for (unsigned i = 0; i < 4; i++) {
        min_max[0] = mins[i] < min_max[0] ? mins[i] : min_max[0];
        min_max[1] = maxs[i] > min_max[1] ? maxs[i] : min_max[1];
    }
}

const struct fzm_quantizer_kernels fzm_quantizer_kernels_avx2 = {
    quantize_f32_i32, quantize_f64_i32, quantize_f64_i64,
    dequantize_f32_i32, dequantize_f64_i32, dequantize_f64_i64,
    quantize_log_f32_i32, quantize_log_f64_i32, quantize_log_f64_i64,
    dequantize_log_f32_i32, dequantize_log_f64_i32, dequantize_log_f64_i64,
    extremes_f32, extremes_f64,
};
