/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: 8 neighbouring elements of E bytes in one thread, and the bytes that they make of each bit plane.
 * A group is its 8 E bytes as 2 E words, as they lie in memory. */
#ifndef FZM_GPU_BIT_GROUP_CUH
#define FZM_GPU_BIT_GROUP_CUH

#include <string.h>

#include "../core/stages/bitshuffle.h"
#include "quantizer_load.cuh"

/* n elements (8 or fewer; the others are 0) from any address; is_wide: it is a multiple of 16 bytes,
 * of 8 for E = 1. */
template <unsigned E>
FZM_D void fzm_group_load(uint32_t (&v)[2 * E], const uint8_t *p, uint64_t n, bool is_wide)
{
    if (is_wide && n >= 8) {
        fzm_run_load<uint32_t, 2 * E>(v, (const uint32_t *)(const void *)p);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 2 * E; i++) {
        v[i] = 0;
#pragma unroll
        for (unsigned b = 0; b < 4; b++)
            v[i] |= 4 * i + b < n * E ? (uint32_t)p[4 * i + b] << 8 * b : 0;
    }
}

template <unsigned E>
FZM_D void fzm_group_store(uint8_t *p, const uint32_t (&v)[2 * E], uint64_t n, bool is_wide)
{
    if (is_wide && n >= 8) {
        fzm_run_store<uint32_t, 2 * E>((uint32_t *)(void *)p, v);
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 8 * E; i++)
        if (i < n * E)
            p[i] = (uint8_t)(v[i / 4] >> i % 4 * 8);
}

/* Byte k of each element, element j in byte j. */
template <unsigned E> FZM_D uint64_t fzm_group_bytes(const uint32_t (&v)[2 * E], unsigned k)
{
    uint32_t r[2];
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        if (E == 1) {
            r[h] = v[h];
        } else if (E == 2) {
            r[h] = __byte_perm(v[2 * h % (2 * E)], v[(2 * h + 1) % (2 * E)], k ? 0x7531 : 0x6420);
        } else {
            const unsigned step = E / 4, at = 4 * step * h + k / 4, pick = k % 4 | (4 + k % 4) << 4;
            const uint32_t a = __byte_perm(v[at % (2 * E)], v[(at + step) % (2 * E)], pick);
            const uint32_t b = __byte_perm(v[(at + 2 * step) % (2 * E)], v[(at + 3 * step) % (2 * E)], pick);
            r[h] = __byte_perm(a, b, 0x5410);
        }
    }
    return r[0] | (uint64_t)r[1] << 32;
}

/* The elements of which bytes[k] are the bytes k. */
template <unsigned E> FZM_D void fzm_group_join(uint32_t (&v)[2 * E], const uint64_t (&bytes)[E])
{
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        uint32_t s[E];
#pragma unroll
        for (unsigned k = 0; k < E; k++)
            s[k] = (uint32_t)(bytes[k] >> 32 * h);
        if (E == 1) {
            v[h] = s[0];
        } else if (E == 2) {
            v[2 * h % (2 * E)] = __byte_perm(s[0], s[1 % E], 0x5140);
            v[(2 * h + 1) % (2 * E)] = __byte_perm(s[0], s[1 % E], 0x7362);
        } else {
            const unsigned step = (E + 3) / 4;
#pragma unroll
            for (unsigned q = 0; q < step; q++) {
                const unsigned k = 4 * q, at = 4 * step * h + q;
                const uint32_t a0 = __byte_perm(s[k % E], s[(k + 1) % E], 0x5140);
                const uint32_t a1 = __byte_perm(s[k % E], s[(k + 1) % E], 0x7362);
                const uint32_t b0 = __byte_perm(s[(k + 2) % E], s[(k + 3) % E], 0x5140);
                const uint32_t b1 = __byte_perm(s[(k + 2) % E], s[(k + 3) % E], 0x7362);
                v[at % (2 * E)] = __byte_perm(a0, b0, 0x5410);
                v[(at + step) % (2 * E)] = __byte_perm(a0, b0, 0x7632);
                v[(at + 2 * step) % (2 * E)] = __byte_perm(a1, b1, 0x5410);
                v[(at + 3 * step) % (2 * E)] = __byte_perm(a1, b1, 0x7632);
            }
        }
    }
}

#endif
