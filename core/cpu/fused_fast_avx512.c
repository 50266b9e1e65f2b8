/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS fzm_fast_kernels_avx512
#include "fused_fast_kernel.h"
