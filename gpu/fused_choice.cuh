/* SPDX-License-Identifier: BSD-3-Clause */
/* The geometry of AdaptiveLorenzo behind a Quantizer (linear, f32 to i32) whose codes are in no memory. */
#ifndef FZM_GPU_FUSED_CHOICE_CUH
#define FZM_GPU_FUSED_CHOICE_CUH

#include "quantizer.cuh"

#include "../core/stages/adaptive_lorenzo.h"

enum { FZM_CHOICE_SCRATCH_NBYTES = 64 };

/* Settles lorenzo->geometry if it is auto, as fzm_tile_choose_geometry() does. Waits for the device unless the array
 * has one axis only. quantizer: call of the first stage, resolved. */
int fzm_gpu_choose_geometry(struct fzm_adaptive_lorenzo_params *lorenzo, const struct fzm_call *quantizer, void *scratch);

#endif
