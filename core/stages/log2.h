/* SPDX-License-Identifier: BSD-3-Clause */
/* log2 and exp2 from single IEEE operations in a fixed order: the same bits on every machine and engine. */
#ifndef FZM_LOG2_H
#define FZM_LOG2_H

#include "../types.h"

#include <string.h>

FZM_HD uint64_t fzm_f64_bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

FZM_HD double fzm_f64_from_bits(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* 2 atanh(s) / ln 2 for |s| < 0.172. */
FZM_HD double fzm_log2_atanh(double s)
{
    const double z = s * s;
    double p = 1.0 / 23.0;
    p = p * z + 1.0 / 21.0;
    p = p * z + 1.0 / 19.0;
    p = p * z + 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z;
    const double c = 2.8853900817779268; /* 2 / ln 2 */
    return s * c + s * c * p;
}

/* log2 of a positive normal double, error below 2 ulp of max(|result|, 0.5). m = x / 2^e in
 * [sqrt(1/2), sqrt(2)), then log2 m = 2 atanh((m - 1) / (m + 1)) / ln 2, a series. */
FZM_HD double fzm_log2(double x)
{
    uint64_t b = fzm_f64_bits(x);
    /* 0x3fe6a09e...: the bits of sqrt(1/2); the exponent field of the difference is that of m's shift */
    const int64_t e = (int64_t)((b - 0x3fe6a09e667f3bcdULL) >> 52);
    const int64_t exponent = (e & 0x800) ? e - 0x1000 : e;
    b -= (uint64_t)exponent << 52;
    const double m = fzm_f64_from_bits(b);
    return (double)exponent + fzm_log2_atanh((m - 1.0) / (m + 1.0));
}

/* log2(1 + v) for 0 <= v <= 0.4, also where 1 + v would round. */
FZM_HD double fzm_log2_1p(double v) { return fzm_log2_atanh(v / (2.0 + v)); }

/* 2^x, 0 below -1080, Inf from 1024 on (also for NaN); error below 2 ulp while the result is normal.
 * 2^n times the Taylor polynomial of e^(f ln 2), |f| <= 1/2. */
FZM_HD double fzm_exp2(double x)
{
    if (!(x < 1024.0))
        return fzm_f64_from_bits(0x7ff0000000000000ULL);
    if (x < -1080.0)
        return 0.0;
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    const double n = (x + magic) - magic;
    const double t = (x - n) * 0.69314718055994529;
    double p = 1.0 / 87178291200.0;
    p = p * t + 1.0 / 6227020800.0;
    p = p * t + 1.0 / 479001600.0;
    p = p * t + 1.0 / 39916800.0;
    p = p * t + 1.0 / 3628800.0;
    p = p * t + 1.0 / 362880.0;
    p = p * t + 1.0 / 40320.0;
    p = p * t + 1.0 / 5040.0;
    p = p * t + 1.0 / 720.0;
    p = p * t + 1.0 / 120.0;
    p = p * t + 1.0 / 24.0;
    p = p * t + 1.0 / 6.0;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    /* two factors, so that each is a normal number also for denormal results and for n = 1024 */
    const int64_t i = (int64_t)n, half = i >= 0 ? i / 2 : -(-i / 2);
    const double a = fzm_f64_from_bits((uint64_t)(half + 1023) << 52);
    const double b = fzm_f64_from_bits((uint64_t)(i - half + 1023) << 52);
    return p * a * b;
}

#endif
