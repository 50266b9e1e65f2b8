/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: from mode and bound to step and offset.
 *
 * Coding what has been decoded must change nothing, or repeated rewriting of a file would drift. So either
 * the parameters depend only on what decoding preserves (range, maxabs, psnr: the extremes come back
 * exactly), or resolve() first tries all parameters that an earlier coding of this data can have used, and
 * takes those that leave it as it is. */
#include "quantizer_resolve.h"

#include "../cpu/quantizer.h"

#define POW2(n) fzm_f64_from_bits((uint64_t)((n) + 1023) << 52) /* of a normal double */

int fzm_float_exponent(int dtype, double m)
{
    const int e = (int)(fzm_f64_bits(m) >> 52 & 0x7ff) - 1023, least = dtype == FZM_F32 ? -126 : -1022;
    return e < least ? least : e;
}

double fzm_float_ulp(int dtype, int exponent)
{
    const int n = exponent - (dtype == FZM_F32 ? 23 : 52);
    return n < -1022 ? POW2(n + 200) * POW2(-200) : POW2(n);
}

double fzm_float_step(int dtype, double value, int n_ulps)
{
    return fzm_scan_value(dtype, fzm_scan_key_of_value(dtype, value) + n_ulps);
}

double fzm_float_round_down(int dtype, double x) { return dtype == FZM_F32 ? (double)fzm_f32_round_down(x) : x; }

/* The normal numbers that have a finite reciprocal of full precision. */
static double least_step(int dtype) { return dtype == FZM_F32 ? POW2(-125) : POW2(-1020); }

/* Multiples of ulps: errors are whole ulps once the bound comes near them. Above this many ulps per bound
 * the rounding of y makes less than 1 outlier in 10^4 elements. */
#define FAR_N_ULPS 4096.0

/* From here on steps that are a whole number of ulps cost nothing. */
#define CHEAP_N_ULPS 32.0

/* Least bound that codes can serve, in ulps: below, they would run into their limit. */
static double least_n_ulps(int dtype) { return dtype == FZM_F32 ? 0.5 : 4.0; }

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }
static double magnitude_max(const struct fzm_field *f) { return larger(-f->min, f->max); }

/* Codes of float64 are 32-bit if all fit. */
static void settle_code_type(int dtype, double max_code, struct fzm_quantizer_params *p)
{
    if (dtype == FZM_F64 && p->code_type == FZM_QUANTIZER_CODE_AUTO)
        p->code_type = max_code < FZM_QUANTIZER_MAX_CODE_F64_I32 - 32 ? FZM_QUANTIZER_CODE_I32 : FZM_QUANTIZER_CODE_I64;
}

/* The largest value of a binade. */
static double binade_max(int dtype, int exponent)
{
    if (exponent >= (dtype == FZM_F32 ? 127 : 1023))
        return dtype == FZM_F32 ? 3.4028234663852886e38 : 1.7976931348623157e308;
    return 2 * POW2(exponent) - fzm_float_ulp(dtype, exponent);
}

/* All values are of one binade and one sign: multiples of its ulp. */
static bool is_one_binade(const struct fzm_field *f)
{
    const int dtype = f->scan->dtype;
    return (f->min > 0 || f->max < 0) && fzm_float_exponent(dtype, f->min < 0 ? -f->min : f->min) ==
                                             fzm_float_exponent(dtype, f->max < 0 ? -f->max : f->max);
}

/* abs: the step for values whose largest binade is exponent. far: no account of ulps. odd: all values share
 * that binade, so that errors are whole ulps and half a step may exceed the bound by half an ulp. */
static void abs_grid(const struct fzm_field *f, int exponent, bool far, bool odd, struct fzm_quantizer_params *p)
{
    const int dtype = f->scan->dtype;
    const double bound = p->bound, u = fzm_float_ulp(dtype, exponent);
    p->kind = FZM_QUANTIZER_LINEAR;
    p->abs_bound = bound;
    p->lo = f->min;
    p->hi = f->max;
    p->fast_max = fzm_float_round_down(dtype, bound);
    if (far) {
        p->step = fzm_float_round_down(dtype, smaller(2 * bound, dtype == FZM_F32 ? POW2(126) : POW2(1022)));
    } else {
        const uint64_t n_half = (uint64_t)(2 * (bound / u));
        p->step = (double)(odd ? n_half | 1 : n_half) * u;
        /* y is exact in this binade and below it; values of higher ones are outliers */
        const double reach = binade_max(dtype, exponent);
        p->hi = smaller(p->hi, reach);
        p->lo = larger(p->lo, -reach);
        p->fast_max = fzm_float_round_down(dtype, smaller(bound, p->step * (1 - POW2(-10))));
    }
    if (!(p->step >= least_step(dtype)))
        p->kind = FZM_QUANTIZER_EXACT;
    settle_code_type(dtype, larger(p->hi, -p->lo) / p->step, p);
}

/* Sampled elements to be coded of magnitude above limit; *n_all: those that are not 0. */
static unsigned sample_above(const struct fzm_field *f, double limit, unsigned *n_all)
{
    const struct fzm_scan *const s = f->scan;
    unsigned above = 0;
    *n_all = 0;
    for (size_t i = 0; i < s->n_sample; i++) {
        const int64_t key = fzm_scan_key(s->dtype, s->sample[i]);
        if (key < f->key_min || key > f->key_max || (s->has_fill && s->sample[i] == s->fill))
            continue;
        const double x = fzm_scan_value(s->dtype, key), m = x < 0 ? -x : x;
        above += m > limit;
        *n_all += m > 0;
    }
    return above;
}

/* Shares of the elements that may be left above the largest binade served: to get finer steps, and to get
 * any steps at all. */
enum { FEW = 256, MANY = 4 };

/* The largest binade to serve: that of max|x|, unless its ulps are coarse against the bound; then a lower
 * one that but few elements exceed, or the highest that the bound allows for, if not too many exceed it. */
static bool abs_exponent(const struct fzm_field *f, double bound, int top, int *exponent)
{
    const int dtype = f->scan->dtype, bottom = fzm_float_exponent(dtype, 0);
    unsigned n_all;
    int e = top;
    while (bound / fzm_float_ulp(dtype, e) < CHEAP_N_ULPS && e > bottom &&
           sample_above(f, binade_max(dtype, e - 1), &n_all) <= n_all / FEW)
        e--;
    while (bound / fzm_float_ulp(dtype, e) < least_n_ulps(dtype) && e > bottom)
        e--;
    *exponent = e;
    return bound / fzm_float_ulp(dtype, e) >= least_n_ulps(dtype) &&
           sample_above(f, binade_max(dtype, e), &n_all) <= n_all / MANY;
}

/* Whether abs_exponent() may have chosen this binade for what f was decoded from. */
static bool abs_exponent_fits(const struct fzm_field *f, double bound, int exponent)
{
    const int dtype = f->scan->dtype;
    unsigned n_all;
    const unsigned above = sample_above(f, binade_max(dtype, exponent) + bound, &n_all);
    const bool is_coarse = bound / fzm_float_ulp(dtype, exponent) < 2 * least_n_ulps(dtype);
    return above <= n_all / (FEW / 2) || (is_coarse && above <= n_all / (MANY - 1));
}

static void abs_choose(const struct fzm_field *f, struct fzm_quantizer_params *p)
{
    const int dtype = f->scan->dtype, top = fzm_float_exponent(dtype, magnitude_max(f));
    const bool far = p->bound / fzm_float_ulp(dtype, top) >= FAR_N_ULPS;
    int e = top;
    if (!far && !abs_exponent(f, p->bound, top, &e)) {
        p->kind = FZM_QUANTIZER_EXACT;
        settle_code_type(dtype, 0, p);
        return;
    }
    abs_grid(f, e, far, e == top && is_one_binade(f), p);
}

/* Whether f is a fixed point of any parameters that abs_choose() may have taken for what f was decoded
 * from, whose max|x| was at most one binade higher; they are then in p. */
static bool abs_was_coded(const struct fzm_field *f, struct fzm_quantizer_params *p)
{
    const struct fzm_quantizer_params asked = *p;
    const int dtype = f->scan->dtype, top = fzm_float_exponent(dtype, magnitude_max(f)) + 1;
    for (int e = top; e >= fzm_float_exponent(dtype, 0); e--) {
        const double n_ulps = p->bound / fzm_float_ulp(dtype, e);
        const bool fits = n_ulps >= least_n_ulps(dtype) && n_ulps < FAR_N_ULPS && abs_exponent_fits(f, p->bound, e);
        for (int variant = 0; variant < 3; variant++) {
            const bool far = variant == 0;
            if (far ? e != top : !fits)
                continue;
            *p = asked;
            abs_grid(f, e, far, variant == 2, p);
            if (p->kind == FZM_QUANTIZER_LINEAR && fzm_scan_is_fixed_point(f->scan, p))
                return true;
        }
        if (n_ulps >= FAR_N_ULPS)
            break;
    }
    *p = asked;
    return false;
}

void fzm_quantizer_resolve_abs(const struct fzm_windows *w, struct fzm_quantizer_params *p)
{
    const struct fzm_field *const f = &w->field[w->primary];
    const int dtype = f->scan->dtype, next = fzm_float_exponent(dtype, magnitude_max(f)) + 1;
    if (!(p->bound >= least_step(dtype))) {
        p->kind = FZM_QUANTIZER_EXACT;
        settle_code_type(dtype, 0, p);
        return;
    }
    const bool is_near = p->bound / fzm_float_ulp(dtype, next) < FAR_N_ULPS;
    for (unsigned i = 0; i < w->n; i++)
        if ((w->n > 1 || is_near) && abs_was_coded(&w->field[i], p))
            return;
    abs_choose(f, p);
}

static double grid_value(int dtype, const struct fzm_quantizer_params *p, double code)
{
    const struct fzm_linear_f32 k4 = fzm_linear_f32_init(p);
    const struct fzm_linear_f64 k8 = fzm_linear_f64_init(p);
    return dtype == FZM_F32 ? (double)fzm_linear_f32_decode(&k4, (float)code) : fzm_linear_f64_decode(&k8, code);
}

/* The step that cuts a span into the fewest equal parts of at most step_max, tuned so that the last point
 * of the grid is exactly top. Without such a step, top is left out of the window. */
static bool span_grid(int dtype, double offset, double top, double step_max, struct fzm_quantizer_params *p)
{
    static const int nudges[] = {0, -1, 1, -2, 2, -3, 3, -4};
    const double span = top - offset, n_max = dtype == FZM_F32 ? FZM_QUANTIZER_MAX_CODE_F32
                                              : p->code_type == FZM_QUANTIZER_CODE_I32 ? FZM_QUANTIZER_MAX_CODE_F64_I32
                                                                                       : FZM_QUANTIZER_MAX_CODE_F64_I64;
    if (!(span / step_max < n_max - 64))
        return false;
    double n = fzm_rint_f64(span / step_max);
    n += n * step_max < span;
    n = n < 1 ? 1 : n;
    p->offset = offset;
    for (unsigned extra = 0; extra <= 15 && extra <= 1 + n / 32; extra++) {
        for (unsigned i = 0; i < sizeof nudges / sizeof nudges[0]; i++) {
            const double step = dtype == FZM_F32 ? (double)(float)(span / (n + extra)) : span / (n + extra);
            p->step = fzm_float_step(dtype, step, nudges[i]);
            if (!(p->step >= least_step(dtype)) || p->step > step_max)
                continue;
            if (grid_value(dtype, p, n + extra) == top) {
                p->hi = top;
                return true;
            }
        }
    }
    p->step = fzm_float_round_down(dtype, span / n);
    p->hi = fzm_float_step(dtype, top, -1);
    for (unsigned i = 0; i < 64 && p->step >= least_step(dtype); i++) {
        if (grid_value(dtype, p, n) < top)
            return true;
        p->step = fzm_float_step(dtype, p->step, -1);
    }
    return false;
}

/* An absolute bound on a field whose extremes must survive: a grid from min to max, or from 0 to max|x|. */
static void span_resolve(const struct fzm_field *f, double bound, bool from_zero, struct fzm_quantizer_params *p)
{
    const int dtype = f->scan->dtype;
    const double m = magnitude_max(f), offset = from_zero || f->min == 0 ? 0 : f->min, top = from_zero ? m : f->max;
    const double u = fzm_float_ulp(dtype, fzm_float_exponent(dtype, m)), n_ulps = bound / u;
    /* twice the largest rounding error of y: of the product, and of the sum */
    const double product = fzm_float_ulp(dtype, fzm_float_exponent(dtype, top - offset));
    double step_max = 2 * bound, gap = (from_zero ? u : u + product) * (1 + POW2(-10));
    p->kind = FZM_QUANTIZER_LINEAR;
    p->abs_bound = bound;
    p->lo = f->min;
    p->hi = f->max;
    if (top == offset) { /* constant */
        p->offset = offset;
        settle_code_type(dtype, 0, p);
        return;
    }
    bool ok = bound > 0;
    if (n_ulps < FAR_N_ULPS && !from_zero && is_one_binade(f)) {
        /* all errors are whole ulps */
        const double odd = ((double)((uint64_t)n_ulps * 2 + 1) * u - product) * (1 - POW2(-20));
        step_max = n_ulps < 1 ? u : odd;
        ok = n_ulps >= least_n_ulps(dtype);
        gap = n_ulps < 1 ? u * POW2(-10) : gap;
    } else if (bound < FAR_N_ULPS * gap) {
        step_max -= gap; /* leaves room for the rounding of y */
        ok = bound >= larger(1.25, least_n_ulps(dtype)) * gap;
    }
    if (!ok || !span_grid(dtype, offset, top, step_max, p)) {
        p->kind = FZM_QUANTIZER_EXACT;
        p->step = 1;
        p->offset = 0;
        settle_code_type(dtype, 0, p);
        return;
    }
    if (from_zero)
        p->lo = larger(f->min, -p->hi);
    p->fast_max = fzm_float_round_down(dtype, bound);
    if (!from_zero && p->fast_max > 0) /* the difference x - y may round */
        p->fast_max = fzm_float_step(dtype, p->fast_max, -1);
    p->fast_max = fzm_float_round_down(dtype, larger(0, smaller(p->fast_max, p->step - gap)));
    settle_code_type(dtype, (top - offset) / p->step, p);
}

double fzm_quantizer_psnr_ratio(double db)
{
    return fzm_exp2(-(db / 20) * 3.3219280948873622) * (1 - POW2(-40)); /* log2(10) */
}

/* The bound that the mode asks for in a window. spread: for psnr, of errors that are evenly spread over a
 * step, so that their root mean square is bound / sqrt(3); else the bound that always holds. */
static void span_choose(const struct fzm_field *f, bool spread, struct fzm_quantizer_params *p)
{
    const double top = f->scan->dtype == FZM_F32 ? 3.4028234663852886e38 : 1.7976931348623157e308;
    const double range = p->mode == FZM_MAXABS ? magnitude_max(f) : f->max - f->min;
    if (!(range <= top)) {
        p->kind = FZM_QUANTIZER_EXACT;
        settle_code_type(f->scan->dtype, 0, p);
        return;
    }
    /* rounded down, so that the bound is not above that of the true range */
    const double low = range * (1 - POW2(-52));
    double bound = p->bound;
    if (p->mode == FZM_PSNR)
        bound = fzm_quantizer_psnr_ratio(p->bound) * (spread ? 1.7320508075688772 : 1.0);
    span_resolve(f, smaller(low * bound * (1 - POW2(-52)), top / 4), p->mode == FZM_MAXABS, p);
}

static bool psnr_is_reached(const struct fzm_field *f, const struct fzm_quantizer_params *p)
{
    uint64_t n_good;
    const double sum = fzm_scan_squared_error(f->scan, p, &n_good);
    const double sure = (f->max - f->min) * fzm_quantizer_psnr_ratio(p->bound);
    return sum <= (double)n_good * (sure * sure) * (1 - POW2(-30));
}

/* Extremes come back exactly, so the same window gives the same parameters again; only if the values that
 * were coded look like there were other sentinels, or for psnr, another choice may have been made before. */
void fzm_quantizer_resolve_span(const struct fzm_windows *w, struct fzm_quantizer_params *p)
{
    const struct fzm_quantizer_params asked = *p;
    const struct fzm_field *const f = &w->field[w->primary];
    const int n_choices = p->mode == FZM_PSNR ? 2 : 1;
    for (unsigned i = 0; i < w->n; i++) {
        for (int choice = 0; choice < n_choices && w->n + (unsigned)n_choices > 2; choice++) {
            *p = asked;
            span_choose(&w->field[i], choice == 0, p);
            if (p->kind == FZM_QUANTIZER_LINEAR && fzm_scan_is_fixed_point(f->scan, p))
                return;
        }
    }
    *p = asked;
    span_choose(f, true, p);
    if (p->mode == FZM_PSNR && p->kind == FZM_QUANTIZER_LINEAR && !psnr_is_reached(f, p)) {
        *p = asked;
        span_choose(f, false, p);
    }
}
