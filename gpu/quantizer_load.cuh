/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of sections, which may have any alignment, runs of neighbouring elements, and places of
 * elements. */
#ifndef FZM_GPU_QUANTIZER_LOAD_CUH
#define FZM_GPU_QUANTIZER_LOAD_CUH

#include <stdint.h>

#ifndef FZM_D
#define FZM_D static __device__ __forceinline__
#endif

/* An array of W in memory of any alignment. */
struct fzm_section {
    const uint8_t *bytes;
    bool aligned; /* to its elements */
};

static inline struct fzm_section fzm_section_init(const void *data, size_t elem_nbytes)
{
    struct fzm_section s;
    s.bytes = (const uint8_t *)data;
    s.aligned = (uintptr_t)data % elem_nbytes == 0;
    return s;
}

template <typename W> FZM_D W fzm_section_load(const struct fzm_section &s, uint64_t i)
{
    if (s.aligned)
        return ((const W *)(const void *)s.bytes)[i];
    const uint8_t *const p = s.bytes + i * sizeof(W);
    W v = 0;
#pragma unroll
    for (unsigned b = 0; b < sizeof(W); b++)
        v = (W)(v | (W)((W)p[b] << (8 * b)));
    return v;
}

/* Words of at most 16 bytes that move a run of nbytes (a power of two). */
template <unsigned NBYTES> struct fzm_run_word {
    typedef uint4 type;
};
template <> struct fzm_run_word<8> {
    typedef uint2 type;
};

/* N elements at an address that is aligned to 16 bytes, or to the run if that is shorter. */
template <typename W, unsigned N> FZM_D void fzm_run_load(W (&v)[N], const W *p)
{
    typedef typename fzm_run_word<N * sizeof(W)>::type word;
    word w[N * sizeof(W) / sizeof(word)];
#pragma unroll
    for (unsigned i = 0; i < sizeof w / sizeof w[0]; i++)
        w[i] = ((const word *)(const void *)p)[i];
    memcpy(v, w, sizeof w);
}

template <typename W, unsigned N> FZM_D void fzm_run_store(W *p, const W (&v)[N])
{
    typedef typename fzm_run_word<N * sizeof(W)>::type word;
    word w[N * sizeof(W) / sizeof(word)];
    memcpy(w, v, sizeof w);
#pragma unroll
    for (unsigned i = 0; i < sizeof w / sizeof w[0]; i++)
        ((word *)(void *)p)[i] = w[i];
}

/* Quotient, and the remainder in *rest; 32-bit division is several times as fast. */
FZM_D uint64_t fzm_divide(uint64_t a, uint64_t b, uint64_t *rest)
{
    if ((a | b) >> 32 == 0) {
        const uint32_t q = (uint32_t)a / (uint32_t)b;
        *rest = (uint32_t)a - q * (uint32_t)b;
        return q;
    }
    *rest = a % b;
    return a / b;
}

#endif
