/* SPDX-License-Identifier: BSD-3-Clause */
/* RRE on the device. */
#include "zero_ops.cuh"

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_rre;
const struct fzm_gpu_ops fzm_gpu_ops_rre = {
    &fzm_stage_rre,         fzm_zero_scratch,       NULL, fzm_zero_inverse_nbytes<true>,
    fzm_zero_forward<true>, fzm_zero_inverse<true>,
};
}
