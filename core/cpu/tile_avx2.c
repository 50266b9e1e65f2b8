/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS fzm_tile_kernels_avx2
#include "tile_kernels.h"
