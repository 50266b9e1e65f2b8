/* SPDX-License-Identifier: BSD-3-Clause */
#include "isa.h"

static enum fzm_isa isa_limit = FZM_ISA_AVX512;

static enum fzm_isa isa_detect(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
        !__builtin_cpu_supports("popcnt"))
        return FZM_ISA_C;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512vbmi") ||
        !__builtin_cpu_supports("avx512vbmi2"))
        return FZM_ISA_AVX2;
    return FZM_ISA_AVX512;
#else
    return FZM_ISA_C;
#endif
}

enum fzm_isa fzm_isa_get(void)
{
    static int detected = -1; /* a race writes the same value twice */
    int isa = __atomic_load_n(&detected, __ATOMIC_RELAXED);
    if (isa < 0) {
        isa = isa_detect();
        __atomic_store_n(&detected, isa, __ATOMIC_RELAXED);
    }
    return isa < (int)isa_limit ? (enum fzm_isa)isa : isa_limit;
}

void fzm_isa_set_limit(enum fzm_isa limit) { isa_limit = limit; }
