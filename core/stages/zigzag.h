/* SPDX-License-Identifier: BSD-3-Clause */
/* Zigzag and negabinary: signed integers as unsigned ones that are small when the magnitude is. */
#ifndef FZM_ZIGZAG_H
#define FZM_ZIGZAG_H

#include "../types.h"

#define FZM_DEFINE_SIGN_CODES(W)                                                                        \
    FZM_HD uint##W##_t fzm_zigzag_encode##W(uint##W##_t x)                                              \
    {                                                                                                   \
        return (uint##W##_t)((uint##W##_t)(x << 1) ^ (uint##W##_t)(0 - (x >> (W - 1))));                \
    }                                                                                                   \
    FZM_HD uint##W##_t fzm_zigzag_decode##W(uint##W##_t z)                                              \
    {                                                                                                   \
        return (uint##W##_t)((z >> 1) ^ (uint##W##_t)(0 - (z & 1)));                                    \
    }                                                                                                   \
    FZM_HD uint##W##_t fzm_negabinary_encode##W(uint##W##_t x)                                          \
    {                                                                                                   \
        const uint##W##_t m = (uint##W##_t)0xaaaaaaaaaaaaaaaau;                                         \
        return (uint##W##_t)((uint##W##_t)(x + m) ^ m);                                                 \
    }                                                                                                   \
    FZM_HD uint##W##_t fzm_negabinary_decode##W(uint##W##_t z)                                          \
    {                                                                                                   \
        const uint##W##_t m = (uint##W##_t)0xaaaaaaaaaaaaaaaau;                                         \
        return (uint##W##_t)((uint##W##_t)(z ^ m) - m);                                                 \
    }

FZM_DEFINE_SIGN_CODES(8)
FZM_DEFINE_SIGN_CODES(16)
FZM_DEFINE_SIGN_CODES(32)
FZM_DEFINE_SIGN_CODES(64)

#endif
