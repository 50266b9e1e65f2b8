/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefix sums along rows on the device, for Difference and Lorenzo. */
#ifndef FZM_GPU_LORENZO_SCAN_H
#define FZM_GPU_LORENZO_SCAN_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of nx elements, n_elems in all, whose sums restart at each multiple of block in a row. Elements
 * have 1, 2, 4 or 8 bytes and wrap. from may have any alignment, and may be the same as to. */
struct fzm_row_scan {
    const void *from;
    void *to;
    uint64_t n_elems, nx, block;
    size_t elem_nbytes;
};

/* scratch: fzm_gpu_row_scan_scratch_nbytes(), 256-byte aligned. */
size_t fzm_gpu_row_scan_scratch_nbytes(uint64_t n_elems, size_t elem_nbytes);
cudaError_t fzm_gpu_row_scan(const struct fzm_row_scan *s, void *scratch, size_t scratch_nbytes,
                             cudaStream_t stream);

#endif
