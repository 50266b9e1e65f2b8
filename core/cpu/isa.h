/* SPDX-License-Identifier: BSD-3-Clause */
/* Instruction sets that the CPU engine has kernels for. All give the same bytes. */
#ifndef FZM_ISA_H
#define FZM_ISA_H

enum fzm_isa {
    FZM_ISA_C = 0,      /* plain C: any machine */
    FZM_ISA_AVX2 = 1,   /* x86-64-v3: AVX2, BMI1, BMI2, LZCNT, POPCNT */
    FZM_ISA_AVX512 = 2, /* x86-64-v4 (AVX-512 F BW CD DQ VL) and VBMI, VBMI2 */
};

/* The best set of this machine, or the limit if that is lower. */
enum fzm_isa fzm_isa_get(void);

/* For tests and benchmarks: use at most this set from now on. Not while work is in flight. */
void fzm_isa_set_limit(enum fzm_isa limit);

#endif
