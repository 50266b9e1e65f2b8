/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes over a chunk that settle the Quantizer's parameters. Results are exact and do not depend on
 * threads: elements are ordered by integer keys, partitions are fixed. */
#ifndef FZM_QUANTIZER_SCAN_H
#define FZM_QUANTIZER_SCAN_H

#include "quantizer.h"

struct fzm_pool;

/* Elements of a sample, at fixed places spread over the chunk. */
enum { FZM_SAMPLE_MAX_ELEMS = 1024 };

/* A chunk. Elements count if their key is in [key_lo, key_hi] and their bits are not those of fill. */
struct fzm_scan {
    const void *x;
    size_t n_elems;
    int dtype;
    bool has_fill;
    uint64_t fill;           /* bits, zero-extended */
    int64_t key_lo, key_hi;
    struct fzm_pool *pool;
    void *scratch;           /* fzm_scan_scratch_nbytes() */
    uint64_t sample[FZM_SAMPLE_MAX_ELEMS]; /* bits, zero-extended */
    size_t n_sample;
};

/* Keys of the smallest and the largest element that count, and how often these two occur (fzm_scan_rest()
 * only). min > max: there is none. */
struct fzm_extremes {
    int64_t min, max;
    uint64_t n_min, n_max;
};

/* An integer that orders like the value; -0 comes just before +0. */
int64_t fzm_scan_key(int dtype, uint64_t bits);
uint64_t fzm_scan_bits(int dtype, int64_t key);
double fzm_scan_value(int dtype, int64_t key);
int64_t fzm_scan_key_of_value(int dtype, double value); /* floats; value is one of the type */

size_t fzm_scan_scratch_nbytes(size_t n_elems);
void fzm_scan_take_sample(struct fzm_scan *s);

struct fzm_extremes fzm_scan_extremes(const struct fzm_scan *s);

/* The extremes strictly between two keys, and how often those two keys occur. */
struct fzm_extremes fzm_scan_rest(const struct fzm_scan *s, int64_t min, int64_t max);

/* Floats: the least |x| among the normal numbers that count; 0 if there is none. */
double fzm_scan_min_magnitude(const struct fzm_scan *s);

/* Whether coding with these params and decoding gives back every element. */
bool fzm_scan_is_fixed_point(const struct fzm_scan *s, const struct fzm_quantizer_params *p);

/* Sampled elements that are outliers with these params. */
unsigned fzm_scan_sample_outliers(const struct fzm_scan *s, const struct fzm_quantizer_params *p);

/* Sum of squared errors of coding with these params, in a fixed order, and the number of elements that
 * are no outliers. */
double fzm_scan_squared_error(const struct fzm_scan *s, const struct fzm_quantizer_params *p, uint64_t *n_good);

#endif
