/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS fzm_shuffle_kernels_avx512
#include "shuffle_kernels.h"
