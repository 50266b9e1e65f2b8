/* SPDX-License-Identifier: BSD-3-Clause */
/* The floating-point state that the arithmetic of the stages assumes: round to nearest even, denormals
 * kept, exceptions masked. A host program may have set anything else. */
#ifndef FZM_FPENV_H
#define FZM_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
/* Sets our state; returns the state to restore. */
static inline uint64_t fzm_fpenv_enter(void)
{
    const unsigned old = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return old;
}
static inline void fzm_fpenv_leave(uint64_t old) { _mm_setcsr((unsigned)old); }
#elif defined(__aarch64__)
static inline uint64_t fzm_fpenv_enter(void)
{
    uint64_t old;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(old));
    __asm__ __volatile__("msr fpcr, %0" : : "r"((uint64_t)0));
    return old;
}
static inline void fzm_fpenv_leave(uint64_t old) { __asm__ __volatile__("msr fpcr, %0" : : "r"(old)); }
#else
static inline uint64_t fzm_fpenv_enter(void) { return 0; }
static inline void fzm_fpenv_leave(uint64_t old) { (void)old; }
#endif

#endif
