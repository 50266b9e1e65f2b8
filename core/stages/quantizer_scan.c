/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes over a chunk that settle the Quantizer's parameters, on the CPU. */
#include "quantizer_scan.h"

#include "../cpu/pool.h"
#include "../cpu/quantizer.h"

#include <stdatomic.h>

enum { PARTITION_N_ELEMS = FZM_SCAN_PARTITION_N_ELEMS, BLOCK_N_ELEMS = 1024 };

/* What a partition found. */
struct part {
    struct fzm_extremes e;
    double sum;
    uint64_t n_good;
};

struct pass {
    const struct fzm_scan *s;
    struct part *parts;
    int64_t min, max; /* cpu_rest() */
    struct fzm_quantizer_fns fns;
    const struct fzm_quantizer_params *params;
    _Atomic bool differs;
};

size_t fzm_scan_scratch_nbytes(size_t n_elems)
{
    return (n_elems / PARTITION_N_ELEMS + 1) * sizeof(struct part);
}

/* Inlined with a constant type where speed matters. */
static inline uint64_t load_bits(const void *x, size_t i, int dtype)
{
    uint8_t b1;
    uint16_t b2;
    uint32_t b4;
    uint64_t b8;
    switch (fzm_dtype_nbytes(dtype)) {
    case 1: memcpy(&b1, (const char *)x + i, 1); return b1;
    case 2: memcpy(&b2, (const char *)x + i * 2, 2); return b2;
    case 4: memcpy(&b4, (const char *)x + i * 4, 4); return b4;
    default: memcpy(&b8, (const char *)x + i * 8, 8); return b8;
    }
}

uint64_t fzm_scan_load_bits(const void *x, size_t i, int dtype) { return load_bits(x, i, dtype); }

static void take_sample(struct fzm_scan *s)
{
    s->n_sample = s->n_elems < FZM_SAMPLE_MAX_ELEMS ? s->n_elems : FZM_SAMPLE_MAX_ELEMS;
    for (size_t k = 0; k < s->n_sample; k++)
        s->sample[k] = load_bits(s->x, (size_t)fzm_scan_sample_at(k, s->n_sample, s->n_elems), s->dtype);
}

static size_t part_begin(size_t part) { return part * PARTITION_N_ELEMS; }

static size_t part_n_elems(const struct fzm_scan *s, size_t part)
{
    const size_t left = s->n_elems - part_begin(part);
    return left < PARTITION_N_ELEMS ? left : PARTITION_N_ELEMS;
}

static inline bool counts(const struct fzm_scan *s, uint64_t bits, int64_t key)
{
    return key >= s->key_lo && key <= s->key_hi && !(s->has_fill && bits == s->fill);
}

static inline struct fzm_extremes extremes_of(const struct fzm_scan *s, size_t part, int dtype)
{
    const size_t first = part_begin(part), end = first + part_n_elems(s, part);
    struct fzm_extremes e = {INT64_MAX, INT64_MIN, 0, 0};
    for (size_t i = first; i < end; i++) {
        const uint64_t bits = load_bits(s->x, i, dtype);
        const int64_t key = fzm_scan_key(dtype, bits);
        const bool good = counts(s, bits, key);
        e.min = good && key < e.min ? key : e.min;
        e.max = good && key > e.max ? key : e.max;
    }
    return e;
}

static struct fzm_extremes extremes_of_floats(const struct fzm_scan *s, size_t part, fzm_extremes_fn *kernel)
{
    const int64_t window[2] = {s->key_lo, s->key_hi};
    int64_t min_max[2] = {INT64_MAX, INT64_MIN};
    kernel((const char *)s->x + part_begin(part) * fzm_dtype_nbytes(s->dtype), part_n_elems(s, part), window,
           s->has_fill ? &s->fill : NULL, min_max);
    const struct fzm_extremes e = {min_max[0], min_max[1], 0, 0};
    return e;
}

static void extremes_task(void *arg, size_t part, unsigned worker)
{
    struct pass *const p = (struct pass *)arg;
    struct fzm_extremes *const e = &p->parts[part].e;
    fzm_extremes_fn *const kernel = fzm_quantizer_extremes_fn(p->s->dtype);
    (void)worker;
    if (kernel) {
        *e = extremes_of_floats(p->s, part, kernel);
        return;
    }
    switch (p->s->dtype) {
    case FZM_U8: *e = extremes_of(p->s, part, FZM_U8); break;
    case FZM_U16: *e = extremes_of(p->s, part, FZM_U16); break;
    case FZM_U32: *e = extremes_of(p->s, part, FZM_U32); break;
    case FZM_U64: *e = extremes_of(p->s, part, FZM_U64); break;
    case FZM_I8: *e = extremes_of(p->s, part, FZM_I8); break;
    case FZM_I16: *e = extremes_of(p->s, part, FZM_I16); break;
    case FZM_I32: *e = extremes_of(p->s, part, FZM_I32); break;
    case FZM_I64: *e = extremes_of(p->s, part, FZM_I64); break;
    case FZM_F32: *e = extremes_of(p->s, part, FZM_F32); break;
    default: *e = extremes_of(p->s, part, FZM_F64); break;
    }
}

static struct fzm_extremes run_extremes(struct pass *p, void (*task)(void *, size_t, unsigned))
{
    const size_t n = (size_t)fzm_div_up(p->s->n_elems, PARTITION_N_ELEMS);
    struct fzm_extremes all = {INT64_MAX, INT64_MIN, 0, 0};
    fzm_pool_run((struct fzm_pool *)p->s->engine, n, task, p);
    for (size_t i = 0; i < n; i++) {
        const struct fzm_extremes *const e = &p->parts[i].e;
        all.min = e->min < all.min ? e->min : all.min;
        all.max = e->max > all.max ? e->max : all.max;
        all.n_min += e->n_min;
        all.n_max += e->n_max;
    }
    return all;
}

static struct pass pass_init(const struct fzm_scan *s)
{
    struct pass p = {0};
    p.s = s;
    p.parts = (struct part *)s->scratch;
    return p;
}

static struct fzm_extremes cpu_extremes(struct fzm_scan *s)
{
    struct pass p = pass_init(s);
    take_sample(s);
    return run_extremes(&p, extremes_task);
}

static inline struct fzm_extremes rest_of(const struct pass *p, size_t part, int dtype)
{
    const size_t first = part_begin(part), end = first + part_n_elems(p->s, part);
    struct fzm_extremes e = {INT64_MAX, INT64_MIN, 0, 0};
    for (size_t i = first; i < end; i++) {
        const uint64_t bits = load_bits(p->s->x, i, dtype);
        const int64_t key = fzm_scan_key(dtype, bits);
        const bool good = counts(p->s, bits, key), inside = good && key > p->min && key < p->max;
        e.n_min += good && key == p->min;
        e.n_max += good && key == p->max;
        e.min = inside && key < e.min ? key : e.min;
        e.max = inside && key > e.max ? key : e.max;
    }
    return e;
}

/* Elements of f32 (f64) whose bits are those of a key. Plain loops that compilers vectorise. */
static uint64_t count_equal(const struct fzm_scan *s, size_t part, int64_t key)
{
    const size_t n = part_n_elems(s, part);
    const char *const x = (const char *)s->x + part_begin(part) * fzm_dtype_nbytes(s->dtype);
    const uint64_t bits8 = fzm_scan_bits(s->dtype, key);
    const uint32_t bits4 = (uint32_t)bits8;
    uint32_t count = 0; /* a partition has fewer than 2^32 elements */
    if (s->dtype == FZM_F32) {
        for (size_t i = 0; i < n; i++) {
            uint32_t v;
            memcpy(&v, x + 4 * i, 4);
            count += v == bits4;
        }
        return count;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t v;
        memcpy(&v, x + 8 * i, 8);
        count += v == bits8;
    }
    return count;
}

/* The same with a kernel: min and max count themselves, so only their bits need comparing. */
static struct fzm_extremes rest_of_floats(const struct pass *p, size_t part, fzm_extremes_fn *kernel)
{
    const struct fzm_scan *const s = p->s;
    const int64_t window[2] = {p->min + 1, p->max - 1};
    int64_t min_max[2] = {INT64_MAX, INT64_MIN};
    if (window[0] <= window[1])
        kernel((const char *)s->x + part_begin(part) * fzm_dtype_nbytes(s->dtype), part_n_elems(s, part), window,
               s->has_fill ? &s->fill : NULL, min_max);
    const struct fzm_extremes e = {min_max[0], min_max[1], count_equal(s, part, p->min), count_equal(s, part, p->max)};
    return e;
}

static void rest_task(void *arg, size_t part, unsigned worker)
{
    struct pass *const p = (struct pass *)arg;
    fzm_extremes_fn *const kernel = fzm_quantizer_extremes_fn(p->s->dtype);
    (void)worker;
    if (kernel) {
        p->parts[part].e = rest_of_floats(p, part, kernel);
        return;
    }
    p->parts[part].e = p->s->dtype == FZM_F32 ? rest_of(p, part, FZM_F32) : rest_of(p, part, FZM_F64);
}

static struct fzm_extremes cpu_rest(const struct fzm_scan *s, int64_t min, int64_t max)
{
    struct pass p = pass_init(s);
    p.min = min;
    p.max = max;
    return run_extremes(&p, rest_task);
}

static inline struct fzm_extremes magnitudes_of(const struct fzm_scan *s, size_t part, int dtype)
{
    const size_t first = part_begin(part), end = first + part_n_elems(s, part);
    const uint64_t sign = fzm_scan_sign(dtype), normal = fzm_scan_least_normal(dtype);
    struct fzm_extremes e = {INT64_MAX, INT64_MIN, 0, 0};
    for (size_t i = first; i < end; i++) {
        const uint64_t bits = load_bits(s->x, i, dtype), magnitude = bits & ~sign;
        const bool good = counts(s, bits, fzm_scan_key(dtype, bits)) && magnitude >= normal;
        e.min = good && (int64_t)magnitude < e.min ? (int64_t)magnitude : e.min;
    }
    return e;
}

static void magnitudes_task(void *arg, size_t part, unsigned worker)
{
    struct pass *const p = (struct pass *)arg;
    (void)worker;
    p->parts[part].e = p->s->dtype == FZM_F32 ? magnitudes_of(p->s, part, FZM_F32) : magnitudes_of(p->s, part, FZM_F64);
}

static int64_t cpu_min_magnitude(const struct fzm_scan *s)
{
    struct pass p = pass_init(s);
    return run_extremes(&p, magnitudes_task).min;
}

/* A block coded and decoded; only floats. */
struct trip {
    uint64_t codes[BLOCK_N_ELEMS], y[BLOCK_N_ELEMS], bad[BLOCK_N_ELEMS / 64];
};

static void trip_run(struct trip *t, const struct pass *p, const void *x, size_t n)
{
    if (p->fns.quantize(p->params, x, n, t->codes, t->bad) == 0)
        memset(t->bad, 0, sizeof t->bad);
    /* the fill value will come back in any case */
    const size_t nbytes = fzm_dtype_nbytes(p->s->dtype);
    const uint32_t fill4 = (uint32_t)p->s->fill;
    const void *const fill = nbytes == 4 ? (const void *)&fill4 : (const void *)&p->s->fill;
    for (size_t i = 0; p->s->has_fill && i < n; i++)
        if (memcmp((const char *)x + i * nbytes, fill, nbytes) == 0)
            t->bad[i / 64] |= (uint64_t)1 << i % 64;
    p->fns.dequantize(p->params, t->codes, n, t->y);
}

/* x - y of element i, 0 for an outlier (whose y is junk). */
static double trip_error(const struct trip *t, const void *x, size_t i, bool is_f32)
{
    float x4, y4;
    double x8, y8;
    if (t->bad[i / 64] >> i % 64 & 1)
        return 0;
    if (is_f32) {
        memcpy(&x4, (const char *)x + i * 4, 4);
        memcpy(&y4, (const char *)t->y + i * 4, 4);
        return (double)x4 - (double)y4;
    }
    memcpy(&x8, (const char *)x + i * 8, 8);
    memcpy(&y8, (const char *)t->y + i * 8, 8);
    return x8 - y8;
}

/* By bits: a -0 that is now an outlier must stay one. */
static bool block_is_fixed(const struct pass *p, const void *x, size_t n)
{
    const size_t nbytes = fzm_dtype_nbytes(p->s->dtype);
    struct trip t;
    trip_run(&t, p, x, n);
    for (size_t i = 0; i < n; i++) {
        const bool is_bad = t.bad[i / 64] >> i % 64 & 1;
        if (!is_bad && memcmp((const char *)x + i * nbytes, (const char *)t.y + i * nbytes, nbytes) != 0)
            return false;
    }
    return true;
}

static void fixed_task(void *arg, size_t part, unsigned worker)
{
    struct pass *const p = (struct pass *)arg;
    const size_t n = part_n_elems(p->s, part), nbytes = fzm_dtype_nbytes(p->s->dtype);
    const char *const x = (const char *)p->s->x + part_begin(part) * nbytes;
    (void)worker;
    for (size_t i = 0; i < n && !atomic_load_explicit(&p->differs, memory_order_relaxed); i += BLOCK_N_ELEMS)
        if (!block_is_fixed(p, x + i * nbytes, n - i < BLOCK_N_ELEMS ? n - i : BLOCK_N_ELEMS))
            atomic_store_explicit(&p->differs, true, memory_order_relaxed);
}

/* The sample as an array of its type. */
static void copy_sample(const struct fzm_scan *s, uint64_t sample[FZM_SAMPLE_MAX_ELEMS])
{
    const size_t nbytes = fzm_dtype_nbytes(s->dtype);
    for (size_t i = 0; i < s->n_sample; i++) {
        const uint32_t narrow = (uint32_t)s->sample[i];
        memcpy((char *)sample + i * nbytes, nbytes == 4 ? (const void *)&narrow : (const void *)&s->sample[i], nbytes);
    }
}

unsigned fzm_scan_sample_outliers(const struct fzm_scan *s, const struct fzm_quantizer_params *params)
{
    uint64_t sample[FZM_SAMPLE_MAX_ELEMS], codes[FZM_SAMPLE_MAX_ELEMS], bad[FZM_SAMPLE_MAX_ELEMS / 64];
    copy_sample(s, sample);
    return (unsigned)fzm_quantizer_fns_get(params, s->dtype).quantize(params, sample, s->n_sample, codes, bad);
}

bool fzm_scan_is_fixed_point(const struct fzm_scan *s, const struct fzm_quantizer_params *params)
{
    struct pass p = pass_init(s);
    uint64_t sample[FZM_SAMPLE_MAX_ELEMS];
    p.params = params;
    p.fns = fzm_quantizer_fns_get(params, s->dtype);
    copy_sample(s, sample);
    return block_is_fixed(&p, sample, s->n_sample) && s->passes->is_fixed_point(s, params);
}

static bool cpu_is_fixed_point(const struct fzm_scan *s, const struct fzm_quantizer_params *params)
{
    struct pass p = pass_init(s);
    p.params = params;
    p.fns = fzm_quantizer_fns_get(params, s->dtype);
    fzm_pool_run((struct fzm_pool *)s->engine, (size_t)fzm_div_up(s->n_elems, PARTITION_N_ELEMS), fixed_task,
                 &p);
    return !atomic_load(&p.differs);
}

static void error_task(void *arg, size_t part, unsigned worker)
{
    struct pass *const p = (struct pass *)arg;
    const size_t n = part_n_elems(p->s, part), nbytes = fzm_dtype_nbytes(p->s->dtype);
    const char *const x = (const char *)p->s->x + part_begin(part) * nbytes;
    double sum[FZM_SCAN_N_SUMS] = {0};
    uint64_t n_bad = 0;
    struct trip t;
    (void)worker;
    for (size_t first = 0; first < n; first += BLOCK_N_ELEMS) {
        const size_t n_block = n - first < BLOCK_N_ELEMS ? n - first : BLOCK_N_ELEMS;
        trip_run(&t, p, x + first * nbytes, n_block);
        for (size_t i = 0; i < n_block; i++) {
            const double d = trip_error(&t, x + first * nbytes, i, p->s->dtype == FZM_F32);
            sum[i % FZM_SCAN_N_SUMS] += d * d;
            n_bad += t.bad[i / 64] >> i % 64 & 1;
        }
    }
    p->parts[part].sum = fzm_scan_add_sums(sum);
    p->parts[part].n_good = n - n_bad;
}

static double cpu_squared_error(const struct fzm_scan *s, const struct fzm_quantizer_params *params,
                                uint64_t *n_good)
{
    struct pass p = pass_init(s);
    const size_t n = (size_t)fzm_div_up(s->n_elems, PARTITION_N_ELEMS);
    double sum = 0;
    p.params = params;
    p.fns = fzm_quantizer_fns_get(params, s->dtype);
    *n_good = 0;
    fzm_pool_run((struct fzm_pool *)s->engine, n, error_task, &p);
    for (size_t i = 0; i < n; i++) {
        sum += p.parts[i].sum;
        *n_good += p.parts[i].n_good;
    }
    return sum;
}

const struct fzm_scan_passes fzm_scan_passes_cpu = {
    cpu_extremes, cpu_rest, cpu_min_magnitude, cpu_is_fixed_point, cpu_squared_error,
};
