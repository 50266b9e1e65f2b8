/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: sentinels, the relative mode, integers, and resolve() itself. */
#include "../cpu/quantizer.h"
#include "quantizer_resolve.h"

#define POW2(n) fzm_f64_from_bits((uint64_t)((n) + 1023) << 52)

/* How far outside the rest a sentinel lies, in ranges of the rest: 9999 in 0..30, -999 in 0..100. Loose:
 * what may have been that before the rest was coded. */
enum { FAR_RANGES = 8, LOOSE_RANGES = 4 };

/* An extreme that lies so far from a rest of one single value is taken for a sentinel as well. */
#define SURE_SENTINEL 1e15

static bool is_outside(double extreme, double rest_min, double rest_max, bool loose)
{
    const double range = rest_max - rest_min;
    const double distance = extreme > rest_max ? extreme - rest_max : rest_min - extreme;
    if (range == 0)
        return loose || distance >= SURE_SENTINEL;
    return distance > (loose ? LOOSE_RANGES : FAR_RANGES) * range;
}

/* One side or both at once (-9999 and 9999). */
struct outside {
    bool min, max;
};

/* rest: what lies strictly between the extremes of f, empty if there are but two values. */
static struct outside find_outside(const struct fzm_field *f, const struct fzm_extremes *rest, bool min_repeats,
                                   bool max_repeats, bool loose)
{
    const int dtype = f->scan->dtype;
    struct outside o = {false, false};
    if (rest->min > rest->max) {
        const bool is = is_outside(f->max, f->min, f->min, loose), max_is_larger = f->max > -f->min;
        o.max = is && max_is_larger && max_repeats;
        o.min = is && !max_is_larger && min_repeats;
        return o;
    }
    const double rest_min = fzm_scan_value(dtype, rest->min), rest_max = fzm_scan_value(dtype, rest->max);
    o.max = max_repeats && is_outside(f->max, f->min, rest_max, loose);
    o.min = min_repeats && is_outside(f->min, rest_min, f->max, loose);
    if (!o.max && !o.min && max_repeats && min_repeats)
        o.max = o.min = is_outside(f->max, rest_min, rest_max, loose) && is_outside(f->min, rest_min, rest_max, loose);
    return o;
}

/* Whether the sample leaves it open that there is a sentinel: its rest is a part of the whole rest. */
static bool may_have_sentinels(const struct fzm_field *f)
{
    const struct fzm_scan *const s = f->scan;
    struct fzm_extremes rest = {INT64_MAX, INT64_MIN, 0, 0};
    for (size_t i = 0; i < s->n_sample; i++) {
        const int64_t key = fzm_scan_key(s->dtype, s->sample[i]);
        if (key <= f->key_min || key >= f->key_max || (s->has_fill && s->sample[i] == s->fill))
            continue;
        rest.min = key < rest.min ? key : rest.min;
        rest.max = key > rest.max ? key : rest.max;
    }
    if (rest.min > rest.max)
        return true;
    const struct outside o = find_outside(f, &rest, true, true, true);
    return o.min || o.max;
}

struct fzm_field fzm_field_init(const struct fzm_scan *s, int64_t key_min, int64_t key_max)
{
    const struct fzm_field f = {s, key_min, key_max, fzm_scan_value(s->dtype, key_min),
                                fzm_scan_value(s->dtype, key_max)};
    return f;
}

void fzm_windows_init(struct fzm_windows *w, const struct fzm_field *all)
{
    const uint64_t often = all->scan->n_elems / 16384 > 2 ? all->scan->n_elems / 16384 : 2;
    bool loose = false;
    w->field[0] = *all;
    w->n = 1;
    w->primary = 0;
    while (w->n < sizeof w->field / sizeof w->field[0]) {
        const struct fzm_field *const f = &w->field[w->n - 1];
        if (f->min == f->max || !may_have_sentinels(f))
            return;
        const struct fzm_extremes rest = fzm_scan_rest(f->scan, f->key_min, f->key_max);
        struct outside o = find_outside(f, &rest, rest.n_min >= often, rest.n_max >= often, loose);
        if (!o.min && !o.max && !loose) {
            loose = true;
            o = find_outside(f, &rest, rest.n_min >= often, rest.n_max >= often, true);
        }
        if (!o.min && !o.max)
            return;
        const bool pair = rest.min > rest.max;
        const int64_t low = pair ? f->key_max : rest.min, high = pair ? f->key_min : rest.max;
        w->field[w->n] = fzm_field_init(f->scan, o.min ? low : f->key_min, o.max ? high : f->key_max);
        w->primary = loose ? w->primary : w->n;
        w->n++;
        if (pair && loose && w->n < sizeof w->field / sizeof w->field[0]) { /* or the other one */
            w->field[w->n] = fzm_field_init(f->scan, o.min ? f->key_min : low, o.max ? f->key_max : high);
            w->n++;
        }
    }
}

/* Bins of log2|x|. Half a bin up is a factor of 1 + bound less the rounding of y to its type and of log2. */
void fzm_quantizer_resolve_rel(const struct fzm_field *f, struct fzm_quantizer_params *p)
{
    const bool is_f32 = f->scan->dtype == FZM_F32;
    const double bound = p->bound < 0.375 ? p->bound : 0.375;
    p->lo = f->min;
    p->hi = f->max;
    if (!(bound >= (is_f32 ? POW2(-21) : POW2(-38)))) {
        p->kind = FZM_QUANTIZER_EXACT;
        return;
    }
    p->kind = FZM_QUANTIZER_LOG;
    p->abs_bound = bound;
    const double step = 2 * fzm_log2_1p(bound - (is_f32 ? POW2(-23) : POW2(-42)));
    /* 24 bits, so that the products of codes with it are exact, and short to store */
    p->step = fzm_f64_from_bits(fzm_f64_bits(step) & ~(((uint64_t)1 << 29) - 1));
    const double least = fzm_scan_min_magnitude(f->scan);
    if (least == 0)
        return;
    const double m = f->max > -f->min ? f->max : -f->min;
    p->offset = fzm_log_quantizer_bin(1.0 / p->step, least);
    if (p->offset == 0)
        p->offset = 0; /* not -0 */
    if (!is_f32 && p->code_type == FZM_QUANTIZER_CODE_AUTO &&
        fzm_log_quantizer_bin(1.0 / p->step, m) - p->offset + 2 >= FZM_QUANTIZER_MAX_CODE_F64_I32)
        p->code_type = FZM_QUANTIZER_CODE_I64;
}

/* floor(v * n) exactly, at most 2^52 - 1; v >= 0. */
static uint64_t floor_product(double v, uint64_t n)
{
    const uint64_t max = ((uint64_t)1 << 52) - 1, bits = fzm_f64_bits(v);
    const int e = (int)(bits >> 52 & 0x7ff) - 1075; /* v = m * 2^e for normal v; else v is nothing */
    const uint64_t m = (bits & max) | (uint64_t)1 << 52;
    if (n == 0 || e < -1074)
        return 0;
    if (e >= 0)
        return max;
    /* 53 by 64 bits */
    const uint64_t low = (m & 0xffffffff) * (n & 0xffffffff);
    const uint64_t mid1 = (m >> 32) * (n & 0xffffffff), mid2 = (m & 0xffffffff) * (n >> 32);
    const uint64_t carry = (low >> 32) + (mid1 & 0xffffffff) + (mid2 & 0xffffffff);
    const uint64_t hi = (m >> 32) * (n >> 32) + (mid1 >> 32) + (mid2 >> 32) + (carry >> 32);
    const uint64_t lo = (low & 0xffffffff) | carry << 32;
    const unsigned shift = (unsigned)-e;
    uint64_t r;
    if (shift >= 128)
        return 0;
    if (shift >= 64)
        r = hi >> (shift - 64);
    else
        r = hi >> shift ? max : lo >> shift | hi << (64 - shift);
    return r < max ? r : max;
}

static uint64_t abs_of_key(int dtype, int64_t key)
{
    const uint64_t x = fzm_scan_bits(dtype, key);
    return fzm_dtype_is_signed(dtype) && key < 0 ? 0 - x : x;
}

void fzm_quantizer_resolve_int(struct fzm_scan *s, struct fzm_quantizer_params *p)
{
    const unsigned n_bits = 8 * (unsigned)fzm_dtype_nbytes(s->dtype);
    const uint64_t type_max = ~(uint64_t)0 >> (65 - n_bits), top = type_max < ((uint64_t)1 << 52) - 1 ? type_max
                                                                               : ((uint64_t)1 << 52) - 1;
    uint64_t bound = floor_product(p->bound, 1);
    struct fzm_extremes e = {0, 0, 0, 0};
    p->kind = FZM_QUANTIZER_INTEGER;
    if (p->mode == FZM_LOSSLESS)
        return;
    if (p->mode != FZM_ABS) {
        e = fzm_scan_extremes(s);
        if (e.min > e.max)
            return;
        const uint64_t lo = abs_of_key(s->dtype, e.min), hi = abs_of_key(s->dtype, e.max);
        const uint64_t range = p->mode != FZM_MAXABS ? (uint64_t)e.max - (uint64_t)e.min : lo > hi ? lo : hi;
        bound = floor_product(p->mode == FZM_PSNR ? fzm_quantizer_psnr_ratio(p->bound) : p->bound, range);
    }
    bound = bound < top ? bound : top;
    p->abs_bound = (double)bound;
    p->step = (double)(2 * bound + 1);
    if (bound == 0 || p->mode == FZM_ABS)
        return;
    /* for unsigned types the bits of the value, for signed ones sign-extended */
    const uint64_t lo = fzm_scan_bits(s->dtype, e.min), hi = fzm_scan_bits(s->dtype, e.max);
    p->int_lo[0] = (uint32_t)lo;
    p->int_lo[1] = (uint32_t)(lo >> 32);
    p->int_hi[0] = (uint32_t)hi;
    p->int_hi[1] = (uint32_t)(hi >> 32);
}

/* The fill value is an outlier unless its own code gives it back. */
static void settle_fill(const struct fzm_scan *s, struct fzm_quantizer_params *p)
{
    if (!s->has_fill || p->kind == FZM_QUANTIZER_EXACT)
        return;
    const size_t nbytes = fzm_dtype_nbytes(s->dtype);
    const struct fzm_quantizer_fns fns = fzm_quantizer_fns_get(p, s->dtype);
    const uint8_t b1 = (uint8_t)s->fill;
    const uint16_t b2 = (uint16_t)s->fill;
    const uint32_t b4 = (uint32_t)s->fill;
    const void *const x = nbytes == 8 ? (const void *)&s->fill : nbytes == 4 ? (const void *)&b4
                          : nbytes == 2 ? (const void *)&b2 : (const void *)&b1;
    uint64_t code, y = 0, bad;
    if (fns.quantize(p, x, 1, &code, &bad) == 1)
        return;
    fns.dequantize(p, &code, 1, &y);
    if (memcmp(&y, x, nbytes) != 0) {
        p->has_fill = 1;
        p->fill = s->fill;
    }
}

static void resolve_float(struct fzm_scan *s, struct fzm_quantizer_params *p)
{
    const double top = s->dtype == FZM_F32 ? 3.4028234663852886e38 : 1.7976931348623157e308;
    double limit = top;
    if (p->threshold > 0 && p->threshold <= top) {
        limit = fzm_float_round_down(s->dtype, p->threshold);
        limit = limit < p->threshold ? limit : fzm_float_step(s->dtype, limit, -1);
    }
    s->key_lo = fzm_scan_key_of_value(s->dtype, -limit);
    s->key_hi = fzm_scan_key_of_value(s->dtype, limit);
    const struct fzm_extremes e = fzm_scan_extremes(s);
    if (e.min > e.max || p->mode == FZM_LOSSLESS) {
        p->kind = FZM_QUANTIZER_EXACT;
        return;
    }
    const struct fzm_field all = fzm_field_init(s, e.min, e.max);
    if (p->mode == FZM_REL) {
        fzm_quantizer_resolve_rel(&all, p);
        return;
    }
    struct fzm_windows w;
    fzm_windows_init(&w, &all);
    if (p->mode == FZM_ABS)
        fzm_quantizer_resolve_abs(&w, p);
    else
        fzm_quantizer_resolve_span(&w, p);
}

int fzm_quantizer_resolve(void *params, const struct fzm_call *c)
{
    struct fzm_quantizer_params *const p = (struct fzm_quantizer_params *)params;
    struct fzm_scan s;
    s.x = c->in[0].data;
    s.n_elems = (size_t)c->in[0].shape.n_elems;
    s.dtype = c->in[0].shape.dtype;
    s.has_fill = c->fill != NULL;
    s.fill = 0;
    s.key_lo = INT64_MIN;
    s.key_hi = INT64_MAX;
    s.pool = c->pool;
    s.scratch = c->scratch;
    p->kind = FZM_QUANTIZER_LINEAR;
    p->has_fill = 0;
    p->step = 1;
    p->offset = 0;
    p->int_lo[0] = p->int_lo[1] = p->int_hi[0] = p->int_hi[1] = 0;
    p->abs_bound = p->lo = p->hi = p->fast_max = 0;
    p->fill = 0;
    const bool is_float = fzm_dtype_is_float(s.dtype);
    if (c->fill) {
        struct fzm_scan one = s;
        one.x = c->fill;
        one.n_elems = 1;
        fzm_scan_take_sample(&one);
        s.fill = one.sample[0];
    }
    fzm_scan_take_sample(&s);
    if (!is_float)
        fzm_quantizer_resolve_int(&s, p);
    else if (s.n_elems > 0)
        resolve_float(&s, p);
    settle_fill(&s, p);
    if (s.dtype == FZM_F64 && p->code_type == FZM_QUANTIZER_CODE_AUTO)
        p->code_type = FZM_QUANTIZER_CODE_I32;
    return 0;
}
