/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS fzm_shuffle_kernels_c
#include "shuffle_kernels.h"

#include "isa.h"

const struct fzm_shuffle_kernels *fzm_shuffle_kernels_get(void)
{
#if defined(__x86_64__)
    switch (fzm_isa_get()) {
    case FZM_ISA_AVX512: return &fzm_shuffle_kernels_avx512;
    case FZM_ISA_AVX2: return &fzm_shuffle_kernels_avx2;
    default: break;
    }
#endif
    return &fzm_shuffle_kernels_c;
}
