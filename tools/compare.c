/* SPDX-License-Identifier: BSD-3-Clause */
/* Differences of two arrays against a bound. Every decision on a violation is exact for abs and rel:
 * a rounded difference decides unless it equals the bound, then the rounding error does. */
#include "cmd.h"

#include <math.h>
#include <string.h>

size_t cmd_dtype_nbytes(int dtype)
{
    static const uint8_t nbytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 1};
    return nbytes[dtype];
}

#define LOAD(type) \
    do { \
        type v; \
        memcpy(&v, (const uint8_t *)data + i * sizeof(type), sizeof(type)); \
        return (long double)v; \
    } while (0)

long double cmd_element(const void *data, int dtype, size_t i)
{
    switch (dtype) {
    case FZM_U8: LOAD(uint8_t);
    case FZM_U16: LOAD(uint16_t);
    case FZM_U32: LOAD(uint32_t);
    case FZM_U64: LOAD(uint64_t);
    case FZM_I8: LOAD(int8_t);
    case FZM_I16: LOAD(int16_t);
    case FZM_I32: LOAD(int32_t);
    case FZM_I64: LOAD(int64_t);
    case FZM_F32: LOAD(float);
    default: LOAD(double);
    }
}

/* Error of the rounded difference d = fl(x - y): x - y == d + result (two-sum). */
static long double difference_error(long double x, long double y, long double d)
{
    const long double t = x - d;
    return (x - (d + t)) + (t - y);
}

/* Whether |x - y| > bound + bound_error, all terms exact. */
static bool exceeds(long double x, long double y, long double bound, long double bound_error)
{
    const long double d = x - y, magnitude = fabsl(d);
    if (magnitude != bound)
        return magnitude > bound;
    const long double error = difference_error(x, y, d);
    return (d < 0 ? -error : error) > bound_error;
}

struct scan {
    const uint8_t *original, *restored, *fill;
    int dtype;
    size_t elem_nbytes;
};

static bool is_counted(const struct scan *s, size_t i, long double x)
{
    return isfinite(x) &&
           !(s->fill && memcmp(s->original + i * s->elem_nbytes, s->fill, s->elem_nbytes) == 0);
}

/* Extent, maximum and counts of the original. */
static void scan_original(const struct scan *s, struct cmd_difference *d, long double *max_abs)
{
    bool first = true;
    long double lo = 0, hi = 0;
    for (size_t i = 0; i < d->n_elems; i++) {
        const long double x = cmd_element(s->original, s->dtype, i);
        if (!is_counted(s, i, x)) {
            *(isfinite(x) ? &d->n_fill : &d->n_nonfinite) += 1;
            continue;
        }
        if (first || x < lo)
            lo = x;
        if (first || x > hi)
            hi = x;
        first = false;
    }
    *max_abs = fmaxl(fabsl(lo), fabsl(hi));
    d->min = (double)lo;
    d->max = (double)hi;
}

/* The bound of element x: value and its rounding error. */
static long double bound_of(const struct cmd_bound *bound, long double absolute, long double x,
                            long double *error)
{
    *error = 0;
    if (bound->mode != FZM_REL)
        return absolute;
    const long double magnitude = fabsl(x), b = (long double)bound->value * magnitude;
    *error = fmal((long double)bound->value, magnitude, -b);
    return b;
}

static void scan_pair(const struct scan *s, const struct cmd_bound *bound, long double absolute,
                      struct cmd_difference *d)
{
    const bool pointwise = bound->mode == FZM_ABS || bound->mode == FZM_REL || bound->mode == FZM_RANGE ||
                           bound->mode == FZM_MAXABS;
    long double sum = 0;
    uint64_t n = 0;
    for (size_t i = 0; i < d->n_elems; i++) {
        const size_t at = i * s->elem_nbytes;
        const bool same = memcmp(s->original + at, s->restored + at, s->elem_nbytes) == 0;
        const long double x = cmd_element(s->original, s->dtype, i),
                          y = cmd_element(s->restored, s->dtype, i);
        d->n_bits_differ += !same;
        if (!isfinite(x) || !isfinite(y)) {
            d->n_nonfinite_differ += !same;
            d->n_violations += !same;
            continue;
        }
        const long double error = fabsl(x - y);
        if (is_counted(s, i, x)) {
            sum += error * error;
            n++;
        }
        if (error > d->max_abs_error) {
            d->max_abs_error = (double)error;
            d->worst_index = i;
        }
        if (x != 0 && error > d->max_rel_error * fabsl(x))
            d->max_rel_error = (double)(error / fabsl(x));
        if (!pointwise)
            continue;
        long double rest = 0;
        const long double allowed = bound_of(bound, absolute, x, &rest);
        d->n_violations += exceeds(x, y, allowed, rest);
        if (error > 0) {
            const double over = allowed > 0 ? (double)(error / allowed) : HUGE_VAL;
            if (over > d->error_over_bound)
                d->error_over_bound = over;
        }
    }
    d->rmse = n ? (double)sqrtl(sum / (long double)n) : 0;
}

void cmd_compare_arrays(const void *original, const void *restored, int dtype, size_t n_elems,
                        const void *fill, const struct cmd_bound *bound, struct cmd_difference *d)
{
    const struct scan s = {original, restored, fill, dtype, cmd_dtype_nbytes(dtype)};
    memset(d, 0, sizeof *d);
    d->n_elems = n_elems;
    long double max_abs = 0, absolute = 0;
    scan_original(&s, d, &max_abs);
    const long double range = (long double)d->max - (long double)d->min;
    switch (bound->mode) {
    case FZM_ABS: absolute = bound->value; break;
    case FZM_RANGE: absolute = bound->value * range; break;
    case FZM_MAXABS: absolute = bound->value * max_abs; break;
    default: break;
    }
    d->allowed = (double)absolute;
    scan_pair(&s, bound, absolute, d);
    if (bound->mode == FZM_LOSSLESS)
        d->n_violations = d->n_bits_differ;
    d->nrmse = range > 0 ? d->rmse / (double)range : d->rmse > 0 ? HUGE_VAL : 0;
    d->psnr = d->nrmse > 0 ? -20 * log10(d->nrmse) : HUGE_VAL;
    if (bound->mode == FZM_PSNR) {
        d->n_violations += d->psnr < bound->value;
        d->error_over_bound = d->psnr > 0 ? bound->value / d->psnr : HUGE_VAL;
    }
}
