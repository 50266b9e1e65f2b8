/* SPDX-License-Identifier: BSD-3-Clause */
#include "fused.h"

const struct fzm_fused *const fzm_cpu_fused[] = {&fzm_fused_planes, &fzm_fused_lossless, &fzm_fused_fast, NULL};
