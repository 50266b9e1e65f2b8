/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer, mode abs: the step for a bound, with an eye on the resolution of the type.
 *
 * Coding what has been decoded must change nothing, or repeated rewriting of a file would drift. The step
 * depends a little on the data, so resolve() first tries all that an earlier coding of this data can have
 * used, on a sample, and takes one that leaves the data as it is. */
#include "quantizer_resolve.h"

/* From here on steps that are a whole number of ulps cost nothing. */
#define CHEAP_N_ULPS 32.0

/* Ways to choose the step. */
enum variant {
    FAR_PLAIN, /* twice the bound: values that are its multiples come back as they are */
    FAR_SHORT, /* a little less, so that no rounding of y breaks the bound */
    NEAR_ANY,  /* a whole number of ulps of the largest binade: y is exact in it and below */
    NEAR_ODD,  /* all values share that binade, so that errors are whole ulps: half a step may exceed the
                * bound by half an ulp */
    N_VARIANTS
};

/* The step for values whose largest binade is exponent. */
static void set_grid(const struct fzm_field *f, int exponent, enum variant variant, struct fzm_quantizer_params *p)
{
    const int dtype = f->scan->dtype;
    const double bound = p->bound, u = fzm_float_ulp(dtype, exponent);
    const double widest = dtype == FZM_F32 ? FZM_POW2(126) : FZM_POW2(1022);
    p->kind = FZM_QUANTIZER_LINEAR;
    p->abs_bound = bound;
    p->lo = f->min;
    p->hi = f->max;
    p->fast_max = fzm_float_round_down(dtype, bound);
    if (variant == FAR_PLAIN || variant == FAR_SHORT) {
        const double share = variant == FAR_SHORT ? 2 * (1 - FZM_POW2(-13)) : 2;
        p->step = fzm_float_round_down(dtype, fzm_smaller(share * bound, widest));
    } else {
        const uint64_t n_half = (uint64_t)(2 * (bound / u));
        const double reach = fzm_binade_max(dtype, exponent); /* values above it are outliers */
        p->step = (double)(variant == NEAR_ODD ? n_half | 1 : n_half) * u;
        p->hi = fzm_smaller(p->hi, reach);
        p->lo = fzm_larger(p->lo, -reach);
        p->fast_max = fzm_float_round_down(dtype, fzm_smaller(bound, p->step * (1 - FZM_POW2(-10))));
    }
    if (!(p->step >= fzm_least_step(dtype)))
        p->kind = FZM_QUANTIZER_EXACT;
    fzm_settle_code_type(dtype, fzm_larger(p->hi, -p->lo) / p->step, p);
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
static bool choose_exponent(const struct fzm_field *f, double bound, int top, int *exponent)
{
    const int dtype = f->scan->dtype, bottom = fzm_float_exponent(dtype, 0);
    unsigned n_all;
    int e = top;
    while (bound / fzm_float_ulp(dtype, e) < CHEAP_N_ULPS && e > bottom &&
           sample_above(f, fzm_binade_max(dtype, e - 1), &n_all) <= n_all / FEW)
        e--;
    while (bound / fzm_float_ulp(dtype, e) < fzm_least_n_ulps(dtype) && e > bottom)
        e--;
    *exponent = e;
    return bound / fzm_float_ulp(dtype, e) >= fzm_least_n_ulps(dtype) &&
           sample_above(f, fzm_binade_max(dtype, e), &n_all) <= n_all / MANY;
}

/* Whether choose_exponent() may have chosen this binade for what f was decoded from. */
static bool exponent_fits(const struct fzm_field *f, double bound, int exponent)
{
    const int dtype = f->scan->dtype;
    unsigned n_all;
    const unsigned above = sample_above(f, fzm_binade_max(dtype, exponent) + bound, &n_all);
    const bool is_coarse = bound / fzm_float_ulp(dtype, exponent) < 2 * fzm_least_n_ulps(dtype);
    return above <= n_all / (FEW / 2) || (is_coarse && above <= n_all / (MANY - 1));
}

/* Data on a decimal grid can lie half-way between codes everywhere, where the rounding of y decides. */
static bool has_many_ties(const struct fzm_field *f, const struct fzm_quantizer_params *p)
{
    unsigned n_all;
    const unsigned n_bad = fzm_scan_sample_outliers(f->scan, p);
    const unsigned outside = (unsigned)f->scan->n_sample - (sample_above(f, -1, &n_all));
    return n_bad > outside + f->scan->n_sample / FEW;
}

static void choose(const struct fzm_field *f, struct fzm_quantizer_params *p)
{
    const struct fzm_quantizer_params asked = *p;
    const int dtype = f->scan->dtype, top = fzm_float_exponent(dtype, fzm_field_magnitude(f));
    int e = top;
    if (p->bound / fzm_float_ulp(dtype, top) >= FZM_FAR_N_ULPS) {
        set_grid(f, top, FAR_PLAIN, p);
        if (p->kind == FZM_QUANTIZER_LINEAR && has_many_ties(f, p)) {
            *p = asked;
            set_grid(f, top, FAR_SHORT, p);
        }
    } else if (choose_exponent(f, p->bound, top, &e)) {
        set_grid(f, e, e == top && fzm_field_is_one_binade(f) ? NEAR_ODD : NEAR_ANY, p);
    } else {
        p->kind = FZM_QUANTIZER_EXACT;
        fzm_settle_code_type(dtype, 0, p);
    }
}

/* Whether f is a fixed point of any parameters that choose() may have taken for what f was decoded from,
 * whose max|x| was at most one binade away; they are then in p. */
static bool was_coded(const struct fzm_field *f, struct fzm_quantizer_params *p)
{
    const struct fzm_quantizer_params asked = *p;
    const int dtype = f->scan->dtype, bottom = fzm_float_exponent(dtype, 0);
    const int top = fzm_float_exponent(dtype, fzm_field_magnitude(f)) + 1;
    const int lowest = top - 2 > bottom ? top - 2 : bottom;
    const bool may_be_far = p->bound / fzm_float_ulp(dtype, lowest) >= FZM_FAR_N_ULPS;
    for (int e = top; e >= bottom; e--) {
        const double n_ulps = p->bound / fzm_float_ulp(dtype, e);
        const bool fits = n_ulps >= fzm_least_n_ulps(dtype) && n_ulps < FZM_FAR_N_ULPS && exponent_fits(f, p->bound, e);
        for (int v = FAR_PLAIN; v < N_VARIANTS; v++) {
            if (v < NEAR_ANY ? e != top || !may_be_far : !fits)
                continue;
            *p = asked;
            set_grid(f, e, (enum variant)v, p);
            if (p->kind == FZM_QUANTIZER_LINEAR && fzm_scan_is_fixed_point(f->scan, p))
                return true;
        }
        if (n_ulps >= FZM_FAR_N_ULPS)
            break;
    }
    *p = asked;
    return false;
}

void fzm_quantizer_resolve_abs(const struct fzm_windows *w, struct fzm_quantizer_params *p)
{
    const int dtype = w->field[0].scan->dtype;
    if (!(p->bound >= fzm_least_step(dtype))) {
        p->kind = FZM_QUANTIZER_EXACT;
        fzm_settle_code_type(dtype, 0, p);
        return;
    }
    for (unsigned i = 0; i < w->n; i++)
        if (was_coded(&w->field[i], p))
            return;
    choose(&w->field[w->primary], p);
}
