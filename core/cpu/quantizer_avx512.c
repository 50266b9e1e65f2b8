/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer kernels for AVX-512: 64 elements at a time; only elements that fail the first try leave the vectors. */
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
    const __m512 lo = _mm512_set1_ps(k->lo), hi = _mm512_set1_ps(k->hi);
    uint64_t inside = 0;
    for (unsigned j = 0; j < 64; j += 16) {
        const __m512 v = _mm512_loadu_ps(x + j);
        const __mmask16 above = _mm512_cmp_ps_mask(v, lo, _CMP_GE_OQ);
        inside |= (uint64_t)_mm512_mask_cmp_ps_mask(above, v, hi, _CMP_LE_OQ) << j;
    }
    return inside;
}

static size_t quantize_f32_i32(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out,
                               uint64_t *bad)
{
    const struct fzm_linear_f32 k = fzm_linear_f32_init(p);
    const __m512 step = _mm512_set1_ps(k.step), inv = _mm512_set1_ps(k.inv_step);
    const __m512 off = _mm512_set1_ps(k.offset), lo = _mm512_set1_ps(k.lo), hi = _mm512_set1_ps(k.hi);
    const __m512 max = _mm512_set1_ps(k.fast_max);
    const bool has_off = k.offset != 0;
    const float *x = (const float *)in;
    int32_t *codes = (int32_t *)out;
    size_t n_bad = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t good = 0;
        for (unsigned j = 0; j < 64; j += 16) {
            const __m512 v = _mm512_loadu_ps(x + i + j);
            const __m512 t = has_off ? _mm512_sub_ps(v, off) : v;
            const __m512 q = _mm512_roundscale_ps(_mm512_mul_ps(t, inv), ROUND_NEAREST);
            __m512 y = _mm512_mul_ps(q, step);
            if (has_off)
                y = _mm512_add_ps(y, off);
            const __m512 d = _mm512_abs_ps(_mm512_sub_ps(v, y));
            const __mmask16 in_lo = _mm512_cmp_ps_mask(v, lo, _CMP_GE_OQ);
            const __mmask16 in_hi = _mm512_mask_cmp_ps_mask(in_lo, v, hi, _CMP_LE_OQ);
            good |= (uint64_t)_mm512_mask_cmp_ps_mask(in_hi, d, max, _CMP_LE_OQ) << j;
            _mm512_storeu_si512(codes + i + j, _mm512_cvtps_epi32(q));
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
    const __m512 step = _mm512_set1_ps((float)p->step), off = _mm512_set1_ps((float)p->offset);
    const bool has_off = (float)p->offset != 0;
    const int32_t *codes = (const int32_t *)in;
    float *y = (float *)out;
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 m = n - i >= 16 ? (__mmask16)0xffff : (__mmask16)((1U << (n - i)) - 1);
        const __m512i c = _mm512_maskz_loadu_epi32(m, codes + i);
        const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(c), step);
        _mm512_mask_storeu_ps(y + i, m, has_off ? _mm512_add_ps(v, off) : v);
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
    const __m512d lo = _mm512_set1_pd(k->lo), hi = _mm512_set1_pd(k->hi);
    uint64_t inside = 0;
    for (unsigned j = 0; j < 64; j += 8) {
        const __m512d v = _mm512_loadu_pd(x + j);
        const __mmask8 above = _mm512_cmp_pd_mask(v, lo, _CMP_GE_OQ);
        inside |= (uint64_t)_mm512_mask_cmp_pd_mask(above, v, hi, _CMP_LE_OQ) << j;
    }
    return inside;
}

static inline size_t quantize_f64(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out,
                                  uint64_t *bad, bool wide)
{
    const struct fzm_linear_f64 k = fzm_linear_f64_init(p);
    const __m512d step = _mm512_set1_pd(k.step), inv = _mm512_set1_pd(k.inv_step);
    const __m512d off = _mm512_set1_pd(k.offset), lo = _mm512_set1_pd(k.lo), hi = _mm512_set1_pd(k.hi);
    const __m512d max = _mm512_set1_pd(k.fast_max);
    const bool has_off = k.offset != 0;
    const double *x = (const double *)in;
    const size_t code_nbytes = wide ? 8 : 4;
    char *codes = (char *)out;
    size_t n_bad = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t good = 0;
        for (unsigned j = 0; j < 64; j += 8) {
            const __m512d v = _mm512_loadu_pd(x + i + j);
            const __m512d t = has_off ? _mm512_sub_pd(v, off) : v;
            const __m512d q = _mm512_roundscale_pd(_mm512_mul_pd(t, inv), ROUND_NEAREST);
            __m512d y = _mm512_mul_pd(q, step);
            if (has_off)
                y = _mm512_add_pd(y, off);
            const __m512d d = _mm512_abs_pd(_mm512_sub_pd(v, y));
            const __mmask8 in_lo = _mm512_cmp_pd_mask(v, lo, _CMP_GE_OQ);
            const __mmask8 in_hi = _mm512_mask_cmp_pd_mask(in_lo, v, hi, _CMP_LE_OQ);
            good |= (uint64_t)_mm512_mask_cmp_pd_mask(in_hi, d, max, _CMP_LE_OQ) << j;
            if (wide)
                _mm512_storeu_si512(codes + (i + j) * 8, _mm512_cvtpd_epi64(q));
            else
                _mm256_storeu_si256((__m256i *)(codes + (i + j) * 4), _mm512_cvtpd_epi32(q));
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

static inline void dequantize_f64(const struct fzm_quantizer_params *p, const void *in, size_t n, void *out, bool wide)
{
    const __m512d step = _mm512_set1_pd(p->step), off = _mm512_set1_pd(p->offset);
    const bool has_off = p->offset != 0;
    const char *codes = (const char *)in;
    double *y = (double *)out;
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 m = n - i >= 8 ? (__mmask8)0xff : (__mmask8)((1U << (n - i)) - 1);
        const __m512d c = wide ? _mm512_cvtepi64_pd(_mm512_maskz_loadu_epi64(m, codes + i * 8))
                               : _mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(m, codes + i * 4));
        const __m512d v = _mm512_mul_pd(c, step);
        _mm512_mask_storeu_pd(y + i, m, has_off ? _mm512_add_pd(v, off) : v);
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

/* Elements that do not count change nothing. */
static void extremes_f32(const void *in, size_t n, const int64_t window[2], const uint64_t *fill, int64_t min_max[2])
{
    const __m512i lo = _mm512_set1_epi32((int32_t)window[0]), hi = _mm512_set1_epi32((int32_t)window[1]);
    const __m512i skip = _mm512_set1_epi32(fill ? (int32_t)(uint32_t)*fill : 0x7fffffff); /* a NaN if none */
    __m512i min = _mm512_set1_epi32(INT32_MAX), max = _mm512_set1_epi32(INT32_MIN);
    const char *const x = (const char *)in;
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 m = n - i >= 16 ? (__mmask16)0xffff : (__mmask16)((1U << (n - i)) - 1);
        const __m512i b = _mm512_maskz_loadu_epi32(m, x + i * 4);
        const __m512i key = _mm512_xor_si512(b, _mm512_srli_epi32(_mm512_srai_epi32(b, 31), 1));
        const __mmask16 above = _mm512_mask_cmp_epi32_mask(m, key, lo, _MM_CMPINT_NLT);
        const __mmask16 inside = _mm512_mask_cmp_epi32_mask(above, key, hi, _MM_CMPINT_LE);
        const __mmask16 good = _mm512_mask_cmp_epi32_mask(inside, b, skip, _MM_CMPINT_NE);
        min = _mm512_mask_min_epi32(min, good, min, key);
        max = _mm512_mask_max_epi32(max, good, max, key);
    }
    const int32_t least = _mm512_reduce_min_epi32(min), most = _mm512_reduce_max_epi32(max);
    if (least <= most) {
        min_max[0] = least < min_max[0] ? least : min_max[0];
        min_max[1] = most > min_max[1] ? most : min_max[1];
    }
}

static void extremes_f64(const void *in, size_t n, const int64_t window[2], const uint64_t *fill, int64_t min_max[2])
{
    const __m512i lo = _mm512_set1_epi64(window[0]), hi = _mm512_set1_epi64(window[1]);
    const __m512i skip = _mm512_set1_epi64(fill ? (int64_t)*fill : INT64_MAX); /* a NaN if none */
    __m512i min = _mm512_set1_epi64(INT64_MAX), max = _mm512_set1_epi64(INT64_MIN);
    const char *const x = (const char *)in;
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 m = n - i >= 8 ? (__mmask8)0xff : (__mmask8)((1U << (n - i)) - 1);
        const __m512i b = _mm512_maskz_loadu_epi64(m, x + i * 8);
        const __m512i key = _mm512_xor_si512(b, _mm512_srli_epi64(_mm512_srai_epi64(b, 63), 1));
        const __mmask8 above = _mm512_mask_cmp_epi64_mask(m, key, lo, _MM_CMPINT_NLT);
        const __mmask8 inside = _mm512_mask_cmp_epi64_mask(above, key, hi, _MM_CMPINT_LE);
        const __mmask8 good = _mm512_mask_cmp_epi64_mask(inside, b, skip, _MM_CMPINT_NE);
        min = _mm512_mask_min_epi64(min, good, min, key);
        max = _mm512_mask_max_epi64(max, good, max, key);
    }
    const int64_t least = _mm512_reduce_min_epi64(min), most = _mm512_reduce_max_epi64(max);
    min_max[0] = least < min_max[0] ? least : min_max[0];
    min_max[1] = most > min_max[1] ? most : min_max[1];
}

const struct fzm_quantizer_kernels fzm_quantizer_kernels_avx512 = {
    quantize_f32_i32, quantize_f64_i32, quantize_f64_i64,
    dequantize_f32_i32, dequantize_f64_i32, dequantize_f64_i64,
    quantize_log_f32_i32, quantize_log_f64_i32, quantize_log_f64_i64,
    dequantize_log_f32_i32, dequantize_log_f64_i32, dequantize_log_f64_i64,
    extremes_f32, extremes_f64,
};
