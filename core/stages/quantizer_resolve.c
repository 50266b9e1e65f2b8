/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: from mode and bound to the parameters of the decoder; the relative mode and integers. */
#include "quantizer_resolve.h"

#include "../cpu/quantizer.h"

/* Bins of log2|x|. Half a bin up is a factor of 1 + bound less the rounding of y to its type and of log2. */
void fzm_quantizer_resolve_rel(const struct fzm_field *f, struct fzm_quantizer_params *p)
{
    const bool is_f32 = f->scan->dtype == FZM_F32;
    const double bound = p->bound < 0.375 ? p->bound : 0.375;
    p->lo = f->min;
    p->hi = f->max;
    if (!(bound >= (is_f32 ? FZM_POW2(-21) : FZM_POW2(-38)))) {
        p->kind = FZM_QUANTIZER_EXACT;
        return;
    }
    p->kind = FZM_QUANTIZER_LOG;
    p->abs_bound = bound;
    const double step = 2 * fzm_log2_1p(bound - (is_f32 ? FZM_POW2(-23) : FZM_POW2(-42)));
    /* 24 bits, so that the products of codes with it are exact, and short to store */
    p->step = fzm_f64_from_bits(fzm_f64_bits(step) & ~(((uint64_t)1 << 29) - 1));
    const int64_t least_bits = f->scan->passes->min_magnitude(f->scan);
    if (least_bits == INT64_MAX)
        return;
    const double least = fzm_scan_value(f->scan->dtype, least_bits);
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
        e = s->passes->extremes(s);
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
    const double top = fzm_float_max(s->dtype);
    double limit = top;
    if (p->threshold > 0 && p->threshold <= top) {
        limit = fzm_float_round_down(s->dtype, p->threshold);
        limit = limit < p->threshold ? limit : fzm_float_step(s->dtype, limit, -1);
    }
    s->key_lo = fzm_scan_key_of_value(s->dtype, -limit);
    s->key_hi = fzm_scan_key_of_value(s->dtype, limit);
    const struct fzm_extremes e = s->passes->extremes(s);
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
    p->is_in_range = limit == top && !s->has_fill && all.min >= p->lo && all.max <= p->hi;
}

void fzm_quantizer_resolve(struct fzm_quantizer_params *p, const struct fzm_call *c,
                           const struct fzm_scan_passes *passes, void *engine)
{
    struct fzm_scan s;
    s.passes = passes;
    s.engine = engine;
    s.x = c->in[0].data;
    s.n_elems = (size_t)c->in[0].shape.n_elems;
    s.dtype = c->in[0].shape.dtype;
    s.has_fill = c->fill != NULL;
    s.key_lo = INT64_MIN;
    s.key_hi = INT64_MAX;
    s.scratch = c->scratch;
    s.n_sample = 0;
    p->kind = FZM_QUANTIZER_LINEAR;
    p->has_fill = 0;
    p->step = 1;
    p->offset = 0;
    p->int_lo[0] = p->int_lo[1] = p->int_hi[0] = p->int_hi[1] = 0;
    p->abs_bound = p->lo = p->hi = p->fast_max = 0;
    p->fill = 0;
    p->is_in_range = 0;
    const bool is_float = fzm_dtype_is_float(s.dtype);
    s.fill = c->fill ? fzm_scan_load_bits(c->fill, 0, s.dtype) : 0;
    if (!is_float)
        fzm_quantizer_resolve_int(&s, p);
    else if (s.n_elems > 0)
        resolve_float(&s, p);
    settle_fill(&s, p);
    if (s.dtype == FZM_F64 && p->code_type == FZM_QUANTIZER_CODE_AUTO)
        p->code_type = FZM_QUANTIZER_CODE_I32;
}
