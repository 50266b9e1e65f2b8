/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the Quantizer on the device: coding (quantizer.cu), outliers (quantizer_outliers.cu), the
 * passes that settle its parameters (quantizer_scan.cu). Core's headers are C. */
#ifndef FZM_GPU_QUANTIZER_CUH
#define FZM_GPU_QUANTIZER_CUH

#include <string.h>

extern "C" {
#include "../core/cpu/quantizer.h"
#include "../core/stages.h"
#include "../core/stages/quantizer_resolve.h"
#include "ops.h"
}

/* The mask and the values of outliers. mask: bits from n_elems on are 0 or, if untrusted, checked. */
struct fzm_outlier_list {
    const void *mask;
    uint64_t mask_nbytes;
    void *values;
    uint64_t n_elems, n_values; /* n_values: scatter only */
    size_t elem_nbytes;
    void *scratch; /* fzm_gpu_outlier_list_scratch_nbytes() */
};

size_t fzm_gpu_outlier_list_scratch_nbytes(uint64_t n_elems);

/* Copies the outliers of x to values. any (NULL: sure, and their number is known): a device word; if it is not 0, sets
 * what mask and values have, else does nothing.
 * The mask is 4-byte aligned and readable in whole words. */
int fzm_gpu_outliers_gather(const struct fzm_gpu *gpu, const struct fzm_outlier_list *o, const void *x,
                            const uint32_t *any, uint64_t *mask_nbytes, uint64_t *values_nbytes,
                            struct fzm_err *err);

/* Writes the values over the outliers of y; writes none and sets gpu->corrupt if there are not n_values. Mask
 * (of the right size) and values may have any alignment. */
int fzm_gpu_outliers_scatter(const struct fzm_gpu *gpu, const struct fzm_outlier_list *o, void *y,
                             struct fzm_err *err);

size_t fzm_gpu_quantizer_scan_scratch_nbytes(uint64_t n_elems);
int fzm_gpu_quantizer_resolve(void *params, const struct fzm_call *c);

#endif
