/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes over a chunk that settle the Quantizer's parameters, on the CPU or on the device. Results are exact
 * and do not depend on threads: elements are ordered by integer keys, partitions are fixed. */
#ifndef FZM_QUANTIZER_SCAN_H
#define FZM_QUANTIZER_SCAN_H

#include "quantizer.h"

struct fzm_scan_passes;

/* Elements of a sample, at fixed places spread over the chunk. */
enum { FZM_SAMPLE_MAX_ELEMS = 1024 };

/* Sums of floating-point numbers: those of a partition are spread over a few running sums by index, which are
 * added pairwise at its end; partitions are added in order. */
enum { FZM_SCAN_PARTITION_N_ELEMS = 65536, FZM_SCAN_N_SUMS = 8 };

/* A chunk. Elements count if their key is in [key_lo, key_hi] and their bits are not those of fill. */
struct fzm_scan {
    const struct fzm_scan_passes *passes;
    void *engine;            /* what the passes need: the CPU's a struct fzm_pool */
    const void *x;           /* in the engine's memory */
    size_t n_elems;
    int dtype;
    bool has_fill;
    uint64_t fill;           /* bits, zero-extended */
    int64_t key_lo, key_hi;
    void *scratch;           /* CPU: fzm_scan_scratch_nbytes() */
    uint64_t sample[FZM_SAMPLE_MAX_ELEMS]; /* bits, zero-extended; set by the first pass, extremes() */
    size_t n_sample;
};

/* Keys of the smallest and the largest element that count, and how often these two occur (rest()
 * only). min > max: there is none. */
struct fzm_extremes {
    int64_t min, max;
    uint64_t n_min, n_max;
};

/* An integer that orders like the value; -0 comes just before +0. */
FZM_HD int64_t fzm_scan_key(int dtype, uint64_t bits)
{
    switch (dtype) {
    case FZM_I8: return (int8_t)bits;
    case FZM_I16: return (int16_t)bits;
    case FZM_I32: return (int32_t)bits;
    case FZM_U64: return (int64_t)(bits ^ (uint64_t)1 << 63);
    case FZM_F32: return (int32_t)(bits >> 31 ? (uint32_t)bits ^ 0x7fffffffU : (uint32_t)bits);
    case FZM_F64: return (int64_t)(bits >> 63 ? bits ^ ~(uint64_t)0 >> 1 : bits);
    default: return (int64_t)bits;
    }
}

FZM_HD uint64_t fzm_scan_bits(int dtype, int64_t key)
{
    switch (dtype) {
    case FZM_U64: return (uint64_t)key ^ (uint64_t)1 << 63;
    case FZM_F32: return key < 0 ? (uint32_t)key ^ 0x7fffffffU : (uint32_t)key;
    case FZM_F64: return key < 0 ? (uint64_t)key ^ ~(uint64_t)0 >> 1 : (uint64_t)key;
    default: return (uint64_t)key;
    }
}

FZM_HD double fzm_scan_value(int dtype, int64_t key)
{
    const uint64_t bits = fzm_scan_bits(dtype, key);
    return dtype == FZM_F32 ? (double)fzm_f32_from_bits((uint32_t)bits) : fzm_f64_from_bits(bits);
}

/* Floats; value is one of the type. */
FZM_HD int64_t fzm_scan_key_of_value(int dtype, double value)
{
    return fzm_scan_key(dtype, dtype == FZM_F32 ? fzm_f32_bits((float)value) : fzm_f64_bits(value));
}

/* Floats: the bits of |x| of the least normal number, and of the sign. Magnitudes order like their bits. */
FZM_HD uint64_t fzm_scan_least_normal(int dtype) { return (uint64_t)1 << (dtype == FZM_F32 ? 23 : 52); }
FZM_HD uint64_t fzm_scan_sign(int dtype) { return (uint64_t)1 << (dtype == FZM_F32 ? 31 : 63); }

/* Index of the k-th element of a sample. */
FZM_HD uint64_t fzm_scan_sample_at(uint64_t k, uint64_t n_sample, uint64_t n_elems)
{
    return (2 * k + 1) * n_elems / (2 * n_sample);
}

FZM_HD double fzm_scan_add_sums(const double sum[FZM_SCAN_N_SUMS])
{
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* An engine's passes over the whole chunk. What fails on the way is up to the engine to tell afterwards. */
struct fzm_scan_passes {
    /* Also takes the sample. */
    struct fzm_extremes (*extremes)(struct fzm_scan *s);
    /* The extremes strictly between two keys, and how often those two keys occur. Floats. */
    struct fzm_extremes (*rest)(const struct fzm_scan *s, int64_t min, int64_t max);
    /* The least |x| among the normal numbers that count, as bits; INT64_MAX if there is none. Floats. */
    int64_t (*min_magnitude)(const struct fzm_scan *s);
    /* Whether coding with these params and decoding gives back every element. Floats. */
    bool (*is_fixed_point)(const struct fzm_scan *s, const struct fzm_quantizer_params *p);
    /* Sum of squared errors of coding with these params, and the number of elements that are no outliers. */
    double (*squared_error)(const struct fzm_scan *s, const struct fzm_quantizer_params *p, uint64_t *n_good);
};

extern const struct fzm_scan_passes fzm_scan_passes_cpu;
size_t fzm_scan_scratch_nbytes(size_t n_elems);

/* Bits of element i of an array in host memory, zero-extended. */
uint64_t fzm_scan_load_bits(const void *x, size_t i, int dtype);

/* Whether coding with these params and decoding gives back every element: first of the sample. */
bool fzm_scan_is_fixed_point(const struct fzm_scan *s, const struct fzm_quantizer_params *p);

/* Sampled elements that are outliers with these params. */
unsigned fzm_scan_sample_outliers(const struct fzm_scan *s, const struct fzm_quantizer_params *p);

#endif
