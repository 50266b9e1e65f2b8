/* SPDX-License-Identifier: BSD-3-Clause */
/* RZE on the device. */
#include "zero_ops.cuh"

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_rze;
const struct fzm_gpu_ops fzm_gpu_ops_rze = {
    &fzm_stage_rze,          fzm_zero_scratch,        NULL, fzm_zero_inverse_nbytes<false>,
    fzm_zero_forward<false>, fzm_zero_inverse<false>,
};
}
