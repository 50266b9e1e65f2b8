/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: floats to integers under an error bound that is proved element by element.
 *
 * linear  y = fl(fl((T)q * step) + offset) in T (no addition when offset is 0)
 * log     y = sign(c) * (T)exp2((|c| - 1 + k0) * step), 0 for c = 0; offset is k0
 * integer y = q * step, clamped to [int_lo, int_hi]
 * exact   everything is an outlier
 *
 * An element is accepted if the y that the decoder will compute from its code is within abs_bound in real
 * arithmetic; anything else is an outlier and comes back bit for bit. */
#ifndef FZM_QUANTIZER_H
#define FZM_QUANTIZER_H

#include "log2.h"

enum fzm_quantizer_kind {
    FZM_QUANTIZER_LINEAR = 0,
    FZM_QUANTIZER_LOG = 1,
    FZM_QUANTIZER_INTEGER = 2,
    FZM_QUANTIZER_EXACT = 3
};

enum fzm_quantizer_code_type {
    FZM_QUANTIZER_CODE_AUTO = 0, /* after resolve(): i32 */
    FZM_QUANTIZER_CODE_I32 = 1,
    FZM_QUANTIZER_CODE_I64 = 2
};

/* Codes of outliers repeat inside blocks of this many elements of the flattened array. */
enum { FZM_QUANTIZER_REPEAT_BLOCK = 256 };

struct fzm_quantizer_params {
    /* JSON keys */
    uint32_t mode;      /* enum fzm_mode; 0 is the word "pipeline": the caller puts the pipeline's mode here */
    uint32_t code_type; /* enum fzm_quantizer_code_type */
    double bound;       /* the value v of the mode */
    double threshold;   /* elements of |x| >= threshold are outliers; 0: none */
    /* set by resolve(), stored; all the decoder needs */
    uint32_t kind;      /* enum fzm_quantizer_kind */
    uint32_t has_fill;  /* (not stored) elements with the bits of fill are outliers */
    double step, offset;
    uint32_t int_lo[2], int_hi[2]; /* integers: clamp limits, low word first; all 0: those of the type */
    /* set by resolve(), in memory only, for the encoder */
    double abs_bound;   /* linear, integer: |x - y| of accepted elements; log: |x - y| / |x| */
    double lo, hi;      /* floats outside [lo, hi] are outliers */
    double fast_max;    /* linear: the first try is taken up to this error, see fzm_linear_f32_encode() */
    uint64_t fill;
    uint32_t is_in_range; /* floats: no finite element is outside [lo, hi], and there is no fill value */
};

/* Whether the resolved params make every element an outlier: a lossless pipeline does better. */
FZM_HD bool fzm_quantizer_is_exact(const struct fzm_quantizer_params *p) { return p->kind == FZM_QUANTIZER_EXACT; }

/* Codes stay below these in magnitude, less a margin of 16 for rounding. */
#define FZM_QUANTIZER_MAX_CODE_F32 16777216.0           /* 2^24 */
#define FZM_QUANTIZER_MAX_CODE_F64_I32 1073741824.0     /* 2^30 */
#define FZM_QUANTIZER_MAX_CODE_F64_I64 2251799813685248.0 /* 2^51 */

FZM_HD uint32_t fzm_f32_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

FZM_HD float fzm_f32_from_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* Largest value of the type not above x, for finite x >= 0. */
FZM_HD float fzm_f32_round_down(double x)
{
    if (x >= 3.4028234663852886e38)
        return 3.40282347e38f;
    const float f = (float)x;
    return (double)f <= x ? f : fzm_f32_from_bits(fzm_f32_bits(f) - 1);
}

/* Half to even, |x| <= 2^52. */
FZM_HD double fzm_rint_f64(double x)
{
    const double c = x < 0 ? -4503599627370496.0 : 4503599627370496.0;
    return (x + c) - c;
}

FZM_HD float fzm_rint_f32(float x) { return (float)fzm_rint_f64((double)x); }

/* |x - y| <= bound in real arithmetic: the rounding error of the difference is made explicit (TwoSum). */
FZM_HD bool fzm_within_bound(double x, double y, double bound)
{
    const double s = x - y;
    const double b = s - x;
    const double err = (x - (s - b)) - (y + b);
    return s < 0 ? -s < bound || (-s == bound && -err <= 0) : s < bound || (s == bound && err <= 0);
}

/* Linear quantiser of float32. */
struct fzm_linear_f32 {
    float step, inv_step, offset, lo, hi, fast_max;
    double abs_bound;
};

FZM_HD struct fzm_linear_f32 fzm_linear_f32_init(const struct fzm_quantizer_params *p)
{
    struct fzm_linear_f32 k;
    const double reach = (FZM_QUANTIZER_MAX_CODE_F32 - 16.0) * p->step;
    const double hi = p->offset + reach, lo = p->offset - reach;
    k.step = (float)p->step;
    k.inv_step = 1.0f / k.step;
    k.offset = (float)p->offset;
    k.lo = (float)(p->lo > lo ? p->lo : lo);
    k.hi = (float)(p->hi < hi ? p->hi : hi);
    k.fast_max = (float)p->fast_max;
    k.abs_bound = p->abs_bound;
    return k;
}

FZM_HD float fzm_linear_f32_decode(const struct fzm_linear_f32 *k, float q)
{
    const float y = q * k->step;
    return k->offset == 0 ? y : y + k->offset;
}

/* The second try: the nearest code in double arithmetic, then the one of the first try q1. */
FZM_HD bool fzm_linear_f32_retry(const struct fzm_linear_f32 *k, float x, float q1, int32_t *code)
{
    const float q2 = (float)fzm_rint_f64(((double)x - (double)k->offset) / (double)k->step);
    float q = q2;
    if (!fzm_within_bound(x, fzm_linear_f32_decode(k, q2), k->abs_bound)) {
        q = q1;
        if (!fzm_within_bound(x, fzm_linear_f32_decode(k, q1), k->abs_bound))
            return false;
    }
    *code = (int32_t)q;
    return true;
}

/* Sets the code and returns true, or returns false for an outlier. fast_max is below the distance of
 * neighbouring y, so a value that is on the grid already is never moved by a wrong first try. */
FZM_HD bool fzm_linear_f32_encode(const struct fzm_linear_f32 *k, float x, int32_t *code)
{
    if (!(x >= k->lo && x <= k->hi))
        return false;
    const float q = fzm_rint_f32((x - k->offset) * k->inv_step);
    const float d = x - fzm_linear_f32_decode(k, q);
    if ((d < 0 ? -d : d) <= k->fast_max) {
        *code = (int32_t)q;
        return true;
    }
    return fzm_linear_f32_retry(k, x, q, code);
}

/* Linear quantiser of float64; code_max is one of FZM_QUANTIZER_MAX_CODE_F64_*. */
struct fzm_linear_f64 {
    double step, inv_step, offset, lo, hi, fast_max, abs_bound;
};

FZM_HD struct fzm_linear_f64 fzm_linear_f64_init(const struct fzm_quantizer_params *p)
{
    struct fzm_linear_f64 k;
    const double max = p->code_type == FZM_QUANTIZER_CODE_I64 ? FZM_QUANTIZER_MAX_CODE_F64_I64
                                                              : FZM_QUANTIZER_MAX_CODE_F64_I32;
    const double reach = (max - 16.0) * p->step;
    const double hi = p->offset + reach, lo = p->offset - reach;
    k.step = p->step;
    k.inv_step = 1.0 / p->step;
    k.offset = p->offset;
    k.lo = p->lo > lo ? p->lo : lo;
    k.hi = p->hi < hi ? p->hi : hi;
    k.fast_max = p->fast_max;
    k.abs_bound = p->abs_bound;
    return k;
}

FZM_HD double fzm_linear_f64_decode(const struct fzm_linear_f64 *k, double q)
{
    const double y = q * k->step;
    return k->offset == 0 ? y : y + k->offset;
}

/* The second try: the neighbour of q1 towards x (the quotient is off by at most one), then q1. */
FZM_HD bool fzm_linear_f64_retry(const struct fzm_linear_f64 *k, double x, double q1, int64_t *code)
{
    const double y1 = fzm_linear_f64_decode(k, q1);
    const double q2 = x > y1 ? q1 + 1.0 : q1 - 1.0, y2 = fzm_linear_f64_decode(k, q2);
    const double d1 = x > y1 ? x - y1 : y1 - x, d2 = x > y2 ? x - y2 : y2 - x;
    const double q = d2 < d1 ? q2 : q1, y = d2 < d1 ? y2 : y1;
    if (!fzm_within_bound(x, y, k->abs_bound))
        return false;
    *code = (int64_t)q;
    return true;
}

FZM_HD bool fzm_linear_f64_encode(const struct fzm_linear_f64 *k, double x, int64_t *code)
{
    if (!(x >= k->lo && x <= k->hi))
        return false;
    const double q = fzm_rint_f64((x - k->offset) * k->inv_step);
    const double d = x - fzm_linear_f64_decode(k, q);
    if ((d < 0 ? -d : d) <= k->fast_max) {
        *code = (int64_t)q;
        return true;
    }
    return fzm_linear_f64_retry(k, x, q, code);
}

/* Logarithmic quantiser, in double for both types. Only normal values of T are coded. */
struct fzm_log_quantizer {
    double step, inv_step, k0, lo, hi, rel_bound, tiny, code_max;
};

FZM_HD struct fzm_log_quantizer fzm_log_quantizer_init(const struct fzm_quantizer_params *p, int dtype)
{
    struct fzm_log_quantizer k;
    k.step = p->step;
    k.inv_step = 1.0 / p->step;
    k.k0 = p->offset;
    k.lo = p->lo;
    k.hi = p->hi;
    k.rel_bound = p->abs_bound * (1.0 - 1e-15); /* slack for the rounding of rel_bound * |x| */
    k.tiny = dtype == FZM_F32 ? 1.1754943508222875e-38 : 2.2250738585072014e-308;
    k.code_max = dtype == FZM_F64 && p->code_type == FZM_QUANTIZER_CODE_I64 ? FZM_QUANTIZER_MAX_CODE_F64_I64
                                                                          : FZM_QUANTIZER_MAX_CODE_F64_I32;
    return k;
}

/* |y| of magnitude code c >= 1, before rounding to T. */
FZM_HD double fzm_log_quantizer_decode(const struct fzm_log_quantizer *k, double c)
{
    return fzm_exp2((c - 1.0 + k->k0) * k->step);
}

/* y of any code. */
FZM_HD double fzm_log_quantizer_decode_signed(const struct fzm_log_quantizer *k, double code)
{
    const double a = fzm_log_quantizer_decode(k, code < 0 ? -code : code);
    return code == 0 ? 0.0 : code < 0 ? -a : a;
}

FZM_HD double fzm_log_quantizer_bin(double inv_step, double magnitude)
{
    return fzm_rint_f64(fzm_log2(magnitude) * inv_step);
}

/* is_f32: y is rounded to float32, x came from one. *code is an integer; 0 for an outlier. No branches. */
FZM_HD bool fzm_log_quantizer_encode(const struct fzm_log_quantizer *k, double x, bool is_f32, double *code)
{
    const double a = x < 0 ? -x : x;
    const double c = fzm_log_quantizer_bin(k->inv_step, a) - k->k0 + 1.0;
    const double exact = fzm_log_quantizer_decode(k, c);
    const double y = is_f32 ? (double)(float)exact : exact;
    /* y is within a factor of 2 of a when it passes, so that the difference is exact */
    const double d = a < y ? y - a : a - y;
    const bool in_window = (x >= k->lo) & (x <= k->hi);
    const bool is_close = (a >= k->tiny) & (c >= 1.0) & (c < k->code_max) & (d <= k->rel_bound * a);
    const double magnitude = (in_window & is_close) ? c : 0.0;
    *code = x < 0 ? -magnitude : magnitude;
    return in_window & (is_close | (a == 0));
}

/* Quantiser of integers: x is a two's complement 64-bit word, of an unsigned type or sign-extended.
 * step 1 is the identity (codes are the same bits). Else the elements at lo and hi, the limits that
 * decoding clamps to, get codes that are clamped back to them: the extremes of a chunk survive. */
struct fzm_int_quantizer {
    uint64_t step, lo, hi;
    uint64_t lo_code, hi_code;   /* floor(lo / step), ceil(hi / step) */
    uint64_t pos_max, neg_max;   /* largest magnitudes of codes whose product with step does not overflow */
    bool is_signed;
};

/* a / step rounded to nearest; step is odd. narrow: both are below 2^32. */
FZM_HD uint64_t fzm_int_divide(uint64_t a, uint64_t step, bool narrow)
{
    if (narrow) {
        const uint32_t q = (uint32_t)a / (uint32_t)step;
        return q + ((uint32_t)a - q * (uint32_t)step > (uint32_t)step / 2);
    }
    const uint64_t q = a / step;
    return q + (a - q * step > step / 2);
}

FZM_HD struct fzm_int_quantizer fzm_int_quantizer_init(const struct fzm_quantizer_params *p, int dtype)
{
    struct fzm_int_quantizer k;
    const unsigned n_bits = 8 * (unsigned)fzm_dtype_nbytes(dtype);
    k.is_signed = fzm_dtype_is_signed(dtype);
    k.step = p->step >= 1 && p->step < 9007199254740992.0 ? (uint64_t)p->step : 1;
    k.lo = p->int_lo[0] | (uint64_t)p->int_lo[1] << 32;
    k.hi = p->int_hi[0] | (uint64_t)p->int_hi[1] << 32;
    if (k.lo == 0 && k.hi == 0) {
        k.hi = ~(uint64_t)0 >> (64 - n_bits + k.is_signed);
        k.lo = k.is_signed ? ~k.hi : 0;
    }
    const bool lo_neg = k.is_signed && k.lo >> 63, hi_neg = k.is_signed && k.hi >> 63;
    const uint64_t lo_abs = lo_neg ? 0 - k.lo : k.lo, hi_abs = hi_neg ? 0 - k.hi : k.hi;
    k.lo_code = lo_neg ? 0 - fzm_div_up(lo_abs, k.step) : lo_abs / k.step;
    k.hi_code = hi_neg ? 0 - hi_abs / k.step : fzm_div_up(hi_abs, k.step);
    k.pos_max = ~(uint64_t)0 >> k.is_signed;
    k.pos_max /= k.step;
    k.neg_max = ((uint64_t)1 << 63) / k.step;
    return k;
}

FZM_HD uint64_t fzm_int_encode(const struct fzm_int_quantizer *k, uint64_t x, bool is_signed, bool narrow)
{
    if (x == k->hi)
        return k->hi_code;
    if (x == k->lo)
        return k->lo_code;
    const bool neg = is_signed && x >> 63;
    const uint64_t q = fzm_int_divide(neg ? 0 - x : x, k->step, narrow);
    return neg ? 0 - q : q;
}

/* code: sign-extended, anything. */
FZM_HD uint64_t fzm_int_decode(const struct fzm_int_quantizer *k, uint64_t code, bool is_signed)
{
    const bool neg = code >> 63;
    const uint64_t a = neg ? 0 - code : code;
    if (neg) {
        if (!is_signed || a > k->neg_max)
            return k->lo;
    } else if (a > k->pos_max) {
        return k->hi;
    }
    const uint64_t y = code * k->step;
    const uint64_t flip = (uint64_t)is_signed << 63; /* orders signed numbers as unsigned ones */
    if ((y ^ flip) < (k->lo ^ flip))
        return k->lo;
    return (y ^ flip) > (k->hi ^ flip) ? k->hi : y;
}

#endif
