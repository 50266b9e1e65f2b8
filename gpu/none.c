/* SPDX-License-Identifier: BSD-3-Clause */
/* For builds without CUDA. */
#include "../core/backend.h"

const struct fzm_gpu_class *const fzm_gpu_class = NULL;
