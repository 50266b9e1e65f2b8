/* SPDX-License-Identifier: BSD-3-Clause */
/* How the Quantizer settles its parameters from a chunk; parts of one resolve(). */
#ifndef FZM_QUANTIZER_RESOLVE_H
#define FZM_QUANTIZER_RESOLVE_H

#include "quantizer_scan.h"

#include "../stage.h"

/* A chunk of floats, and the least and the greatest value that are to be coded. */
struct fzm_field {
    const struct fzm_scan *scan;
    int64_t key_min, key_max;
    double min, max;
};

/* The same chunk with more and more sentinels left out. primary: the one to code; those after it leave
 * out more than is called for, but an earlier coding of this data may have seen it like that. */
struct fzm_windows {
    struct fzm_field field[9];
    unsigned n, primary;
};

struct fzm_field fzm_field_init(const struct fzm_scan *s, int64_t key_min, int64_t key_max);
void fzm_windows_init(struct fzm_windows *w, const struct fzm_field *all);

/* Each fills the runtime members of p (kind LINEAR, step 1, offset 0, abs_bound 0 on entry). */
void fzm_quantizer_resolve_abs(const struct fzm_windows *w, struct fzm_quantizer_params *p);
void fzm_quantizer_resolve_span(const struct fzm_windows *w, struct fzm_quantizer_params *p);
void fzm_quantizer_resolve_rel(const struct fzm_field *f, struct fzm_quantizer_params *p);
void fzm_quantizer_resolve_int(struct fzm_scan *s, struct fzm_quantizer_params *p);

#define FZM_POW2(n) fzm_f64_from_bits((uint64_t)((n) + 1023) << 52) /* a normal double */

#define FZM_F32_MAX 3.4028234663852886e38
#define FZM_F64_MAX 1.7976931348623157e308

static inline double fzm_float_max(int dtype) { return dtype == FZM_F32 ? FZM_F32_MAX : FZM_F64_MAX; }
static inline double fzm_larger(double a, double b) { return a > b ? a : b; }
static inline double fzm_smaller(double a, double b) { return a < b ? a : b; }

/* Bounds of at least this many ulps are far from the resolution of the type: the rounding of y matters in
 * less than 1 of 10^4 elements. Below, steps are chosen so that it cannot break the bound. */
#define FZM_FAR_N_ULPS 4096.0

/* Least bound that codes can serve, in ulps: below, they would run into their limit. */
static inline double fzm_least_n_ulps(int dtype) { return dtype == FZM_F32 ? 0.5 : 4.0; }

/* Steps whose reciprocal is finite and has full precision. */
static inline double fzm_least_step(int dtype) { return dtype == FZM_F32 ? FZM_POW2(-125) : FZM_POW2(-1020); }

/* The binade of the type that holds magnitude m >= 0 (denormals: the lowest), its ulp, its largest value. */
static inline int fzm_float_exponent(int dtype, double m)
{
    const int e = (int)(fzm_f64_bits(m) >> 52 & 0x7ff) - 1023, least = dtype == FZM_F32 ? -126 : -1022;
    return e < least ? least : e;
}

static inline double fzm_float_ulp(int dtype, int exponent)
{
    const int n = exponent - (dtype == FZM_F32 ? 23 : 52);
    return n < -1022 ? FZM_POW2(n + 200) * FZM_POW2(-200) : FZM_POW2(n);
}

static inline double fzm_binade_max(int dtype, int exponent)
{
    if (exponent >= (dtype == FZM_F32 ? 127 : 1023))
        return fzm_float_max(dtype);
    return 2 * FZM_POW2(exponent) - fzm_float_ulp(dtype, exponent);
}

/* The n-th neighbour of a value of the type. */
static inline double fzm_float_step(int dtype, double value, int n)
{
    return fzm_scan_value(dtype, fzm_scan_key_of_value(dtype, value) + n);
}

/* Largest value of the type not above x >= 0. */
static inline double fzm_float_round_down(int dtype, double x)
{
    return dtype == FZM_F32 ? (double)fzm_f32_round_down(x) : x;
}

static inline double fzm_field_magnitude(const struct fzm_field *f) { return fzm_larger(-f->min, f->max); }

/* All values are of one binade and one sign: multiples of its ulp. */
static inline bool fzm_field_is_one_binade(const struct fzm_field *f)
{
    const int dtype = f->scan->dtype;
    return (f->min > 0 || f->max < 0) && fzm_float_exponent(dtype, f->min < 0 ? -f->min : f->min) ==
                                             fzm_float_exponent(dtype, f->max < 0 ? -f->max : f->max);
}

/* Codes of float64 are 32-bit if all fit. */
static inline void fzm_settle_code_type(int dtype, double max_code, struct fzm_quantizer_params *p)
{
    if (dtype == FZM_F64 && p->code_type == FZM_QUANTIZER_CODE_AUTO)
        p->code_type = max_code < FZM_QUANTIZER_MAX_CODE_F64_I32 - 32 ? FZM_QUANTIZER_CODE_I32 : FZM_QUANTIZER_CODE_I64;
}

/* 10^(-db / 20), rounded down. */
static inline double fzm_quantizer_psnr_ratio(double db)
{
    return fzm_exp2(-(db / 20) * 3.3219280948873622) * (1 - FZM_POW2(-40)); /* log2(10) */
}

/* resolve() with the passes of an engine. */
void fzm_quantizer_resolve(struct fzm_quantizer_params *p, const struct fzm_call *c,
                           const struct fzm_scan_passes *passes, void *engine);

#endif
