/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS fzm_zero_kernels_avx512
#include "zero_kernels.h"
