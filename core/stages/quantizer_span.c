/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer, modes range, maxabs and psnr: a grid between the extremes of the chunk.
 *
 * Coding what has been decoded must change nothing: the parameters depend on the extremes only, and these
 * come back exactly. */
#include "quantizer_resolve.h"

static double grid_value(int dtype, const struct fzm_quantizer_params *p, double code)
{
    if (dtype == FZM_F32) {
        const struct fzm_linear_f32 k = fzm_linear_f32_init(p);
        return (double)fzm_linear_f32_decode(&k, (float)code);
    }
    const struct fzm_linear_f64 k = fzm_linear_f64_init(p);
    return fzm_linear_f64_decode(&k, code);
}

/* The step that cuts a span into the fewest equal parts of at most step_max, tuned so that the last point
 * of the grid is exactly top. Without such a step, top is left out of the window. */
static bool span_grid(int dtype, double offset, double top, double step_max, struct fzm_quantizer_params *p)
{
    static const int nudges[] = {0, -1, 1, -2, 2, -3, 3, -4};
    /* from min up to max, or from max down to min: codes are then negative */
    const double span = top > offset ? top - offset : offset - top, sign = top > offset ? 1 : -1;
    const double n_max = dtype == FZM_F32 ? FZM_QUANTIZER_MAX_CODE_F32
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
            if (!(p->step >= fzm_least_step(dtype)) || p->step > step_max)
                continue;
            if (grid_value(dtype, p, sign * (n + extra)) == top)
                return true;
        }
    }
    p->step = fzm_float_round_down(dtype, span / n);
    if (top > offset)
        p->hi = fzm_smaller(p->hi, fzm_float_step(dtype, top, -1));
    if (top < offset || offset == 0)
        p->lo = fzm_larger(p->lo, -fzm_float_step(dtype, top < 0 ? -top : top, -1));
    for (unsigned i = 0; i < 64 && p->step >= fzm_least_step(dtype); i++) {
        if (sign * grid_value(dtype, p, sign * n) < sign * top)
            return true;
        p->step = fzm_float_step(dtype, p->step, -1);
    }
    return false;
}

/* An absolute bound on a field whose extremes must survive: a grid from min to max, or from 0 to max|x|. */
static void span_resolve(const struct fzm_field *f, double bound, bool from_zero, struct fzm_quantizer_params *p)
{
    const int dtype = f->scan->dtype;
    /* offset is the extreme that is nearer to 0: it has the finer ulps, so that the far one can be hit */
    const double m = fzm_field_magnitude(f), near_zero = -f->min > f->max ? f->max : f->min;
    const double offset = from_zero || near_zero == 0 ? 0 : near_zero;
    const double top = from_zero ? m : -f->min > f->max ? f->min : f->max;
    const double span = top > offset ? top - offset : offset - top;
    const double u = fzm_float_ulp(dtype, fzm_float_exponent(dtype, m)), n_ulps = bound / u;
    /* twice the largest rounding error of y: of the product, and of the sum */
    const double product = fzm_float_ulp(dtype, fzm_float_exponent(dtype, span));
    double step_max = 2 * bound, gap = (from_zero ? u : u + product) * (1 + FZM_POW2(-10));
    p->kind = FZM_QUANTIZER_LINEAR;
    p->abs_bound = bound;
    p->lo = f->min;
    p->hi = f->max;
    if (top == offset) { /* constant */
        p->offset = offset;
        fzm_settle_code_type(dtype, 0, p);
        return;
    }
    bool ok = bound > 0;
    if (n_ulps < FZM_FAR_N_ULPS && !from_zero && fzm_field_is_one_binade(f)) {
        /* all errors are whole ulps */
        const double odd = ((double)((uint64_t)n_ulps * 2 + 1) * u - product) * (1 - FZM_POW2(-20));
        step_max = n_ulps < 1 ? u : odd;
        ok = n_ulps >= fzm_least_n_ulps(dtype);
        gap = n_ulps < 1 ? u * FZM_POW2(-10) : gap;
    } else if (bound < FZM_FAR_N_ULPS * gap) {
        step_max -= gap; /* leaves room for the rounding of y */
        ok = bound >= fzm_larger(1.25, fzm_least_n_ulps(dtype)) * gap;
    }
    if (!ok || !span_grid(dtype, offset, top, step_max, p)) {
        p->kind = FZM_QUANTIZER_EXACT;
        p->step = 1;
        p->offset = 0;
        fzm_settle_code_type(dtype, 0, p);
        return;
    }
    p->fast_max = fzm_float_round_down(dtype, bound);
    if (!from_zero && p->fast_max > 0) /* the difference x - y may round */
        p->fast_max = fzm_float_step(dtype, p->fast_max, -1);
    p->fast_max = fzm_float_round_down(dtype, fzm_larger(0, fzm_smaller(p->fast_max, p->step - gap)));
    fzm_settle_code_type(dtype, span / p->step, p);
}


/* The bound that the mode asks for in a window. spread: for psnr, of errors that are evenly spread over a
 * step, so that their root mean square is bound / sqrt(3); else the bound that always holds. */
static void span_choose(const struct fzm_field *f, bool spread, struct fzm_quantizer_params *p)
{
    const double top = fzm_float_max(f->scan->dtype);
    const double range = p->mode == FZM_MAXABS ? fzm_field_magnitude(f) : f->max - f->min;
    if (!(range <= top)) {
        p->kind = FZM_QUANTIZER_EXACT;
        fzm_settle_code_type(f->scan->dtype, 0, p);
        return;
    }
    /* rounded down, so that the bound is not above that of the true range */
    const double low = range * (1 - FZM_POW2(-52));
    double bound = p->bound;
    if (p->mode == FZM_PSNR)
        bound = fzm_quantizer_psnr_ratio(p->bound) * (spread ? 1.7320508075688772 : 1.0);
    span_resolve(f, fzm_smaller(low * bound * (1 - FZM_POW2(-52)), top / 4), p->mode == FZM_MAXABS, p);
}

static bool psnr_is_reached(const struct fzm_field *f, const struct fzm_quantizer_params *p)
{
    const double sure = (f->max - f->min) * fzm_quantizer_psnr_ratio(p->bound);
    if (!(sure > 1e-140 && sure < 1e140)) /* squares would leave the range of double */
        return false;
    uint64_t n_good;
    const double sum = f->scan->passes->squared_error(f->scan, p, &n_good);
    return sum <= (double)n_good * (sure * sure) * (1 - FZM_POW2(-30));
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
