/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of the Quantizer on the CPU: blocks of elements to codes and back, outliers to a list and back.
 * Used by the stage and by the fused chains alike, so that both give the same bytes. */
#ifndef FZM_CPU_QUANTIZER_H
#define FZM_CPU_QUANTIZER_H

#include "../stages/quantizer.h"

struct fzm_err;
struct fzm_pool;

enum {
    FZM_QUANTIZER_MAX_BLOCK = 4096,       /* most elements of one kernel call */
    FZM_QUANTIZER_MAX_BAD_WORDS = 4096 / 64
};

/* Codes n <= FZM_QUANTIZER_MAX_BLOCK elements at x (any alignment) with resolved params into codes (i32
 * or i64, any alignment). Returns the number of outliers. Bit i of bad[] (64 per word, LSB first,
 * ceil(n/64) words, bits from n on are 0) tells whether element i is one; bad[] is junk when the
 * result is 0. Codes of outliers are junk: see fzm_quantizer_repeat_codes(). */
typedef size_t fzm_quantize_fn(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes,
                               uint64_t *bad);

/* Rebuilds n <= FZM_QUANTIZER_MAX_BLOCK elements from any codes whatever; never fails. */
typedef void fzm_dequantize_fn(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y);

/* Lowers min_max[0] and raises min_max[1] to the keys (core/stages/quantizer_scan.h) of n floats at x
 * whose key is in [window[0], window[1]] and whose bits are not *fill (NULL: none). */
typedef void fzm_extremes_fn(const void *x, size_t n, const int64_t window[2], const uint64_t *fill,
                             int64_t min_max[2]);

/* NULL: there is no kernel, plain code does it. */
fzm_extremes_fn *fzm_quantizer_extremes_fn(int dtype);

struct fzm_quantizer_fns {
    fzm_quantize_fn *quantize;
    fzm_dequantize_fn *dequantize;
    int code_dtype; /* FZM_I32 or FZM_I64 */
};

/* The kernels for elements of a type with resolved params, by the instruction sets of this machine. */
struct fzm_quantizer_fns fzm_quantizer_fns_get(const struct fzm_quantizer_params *p, int dtype);

/* Checks untrusted resolved params before dequantize(): FZM_ERR_CORRUPT. */
int fzm_quantizer_check_params(const struct fzm_quantizer_params *p, int dtype, struct fzm_err *err);

/* Overwrites the code of each outlier by the last good code before it in its block of 256 elements, 0 if
 * there is none. codes[0] must be the first of a block; n <= FZM_QUANTIZER_MAX_BLOCK. */
void fzm_quantizer_repeat_codes(void *codes, int code_dtype, size_t n, const uint64_t *bad);

/* Bytes of an outlier mask: 1 bit per element, LSB first. */
static inline size_t fzm_quantizer_mask_nbytes(size_t n_elems) { return n_elems / 8 + (n_elems % 8 != 0); }

/* Bytes of scratch (8-byte aligned) for the two functions below. */
size_t fzm_quantizer_outlier_scratch_nbytes(size_t n_elems);

/* Copies the elements of x whose bit is set in mask (pad bits 0) to vals in order of index.
 * Returns how many there are; vals must have room for them. */
size_t fzm_quantizer_gather_outliers(struct fzm_pool *pool, const uint8_t *mask, const void *x, size_t n_elems,
                                     size_t elem_nbytes, void *vals, void *scratch);

/* The inverse: checks an untrusted mask (mask_nbytes 0: no outliers) against vals_nbytes, then writes the
 * values over the elements of y. FZM_ERR_CORRUPT if they do not fit; y is then unchanged. */
int fzm_quantizer_scatter_outliers(struct fzm_pool *pool, const uint8_t *mask, size_t mask_nbytes, const void *vals,
                                   size_t vals_nbytes, void *y, size_t n_elems, size_t elem_nbytes, void *scratch,
                                   struct fzm_err *err);

/* The plain C kernels (the reference) and those of one instruction set each; see quantizer.c. NULL entry:
 * none, the plain one is used. */
struct fzm_quantizer_kernels {
    fzm_quantize_fn *quantize_f32_i32, *quantize_f64_i32, *quantize_f64_i64;
    fzm_dequantize_fn *dequantize_f32_i32, *dequantize_f64_i32, *dequantize_f64_i64;
    fzm_quantize_fn *quantize_log_f32_i32, *quantize_log_f64_i32, *quantize_log_f64_i64;
    fzm_dequantize_fn *dequantize_log_f32_i32, *dequantize_log_f64_i32, *dequantize_log_f64_i64;
    fzm_extremes_fn *extremes_f32, *extremes_f64;
};
extern const struct fzm_quantizer_kernels fzm_quantizer_kernels_c;
#if defined(__x86_64__)
extern const struct fzm_quantizer_kernels fzm_quantizer_kernels_avx2;
extern const struct fzm_quantizer_kernels fzm_quantizer_kernels_avx512;
#endif

#endif
