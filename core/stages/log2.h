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

/* log2 of a positive normal double, error below 2 ulp of max(|result|, 0.5); junk for all others.
 * m = x / 2^e in [sqrt(1/2), sqrt(2)), then log2 m = 2 atanh((m - 1) / (m + 1)) / ln 2, a series. */
FZM_HD double fzm_log2(double x)
{
    /* e + 1 in the exponent field: how far x is above the bits of sqrt(1/2) / 2, in binades */
    const uint64_t b = fzm_f64_bits(x);
    const uint64_t biased = (b - 0x3fe6a09e667f3bcdULL + ((uint64_t)2048 << 52)) >> 52; /* (e + 2048) mod 4096 */
    const double m = fzm_f64_from_bits(b - ((biased - 2048) << 52));
    /* an integer below 2^52 to double without a conversion instruction, which AVX2 lacks */
    const double e = fzm_f64_from_bits(0x4330000000000000ULL | biased) - (4503599627370496.0 + 2048.0);
    return e + fzm_log2_atanh((m - 1.0) / (m + 1.0));
}

/* log2(1 + v) for 0 <= v <= 0.4, also where 1 + v would round. */
FZM_HD double fzm_log2_1p(double v) { return fzm_log2_atanh(v / (2.0 + v)); }

/* 2^x, 0 below -1080, Inf from 1024 on (also for NaN); error below 2 ulp while the result is normal.
 * 2^n times the Taylor polynomial of e^(f ln 2), |f| <= 1/2. No branches, so that loops become vectors. */
FZM_HD double fzm_exp2(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer, in the low bits */
    const double shifted = x + magic, n = shifted - magic;
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
    /* 2^n as two factors, so that each is a normal number also for denormal results and for n = 1024 */
    const uint64_t i = fzm_f64_bits(shifted) - 0x4338000000000000ULL + 2048; /* n + 2048 */
    const uint64_t half = i >> 1;
    const double a = fzm_f64_from_bits((half + (1023 - 1024)) << 52);
    const double b = fzm_f64_from_bits((i - half + (1023 - 1024)) << 52);
    const double y = p * a * b;
    const double low = x < -1080.0 ? 0.0 : y;
    return x < 1024.0 ? low : fzm_f64_from_bits(0x7ff0000000000000ULL);
}

#endif
