/* SPDX-License-Identifier: BSD-3-Clause */
/* Extremes of a chunk by integer keys: one wave of blocks reads the array once in words of 16 bytes. */
#ifndef FZM_GPU_QUANTIZER_REDUCE_CUH
#define FZM_GPU_QUANTIZER_REDUCE_CUH

#include "../core/stages/quantizer_scan.h"
#include "quantizer_code.cuh"

/* What is looked for: all extremes that count; those strictly between two keys, and the number of elements at
 * these two; the least magnitude of a normal number. */
enum fzm_reduce_what { FZM_REDUCE_EXTREMES, FZM_REDUCE_REST, FZM_REDUCE_MAGNITUDE };

/* Results of a pass. Cleared, they mean that nothing was found: limits are kept so that more is larger. */
struct fzm_reduce_result {
    uint64_t not_min, max; /* keys with the sign bit flipped; min inverted as well */
    uint64_t n_min, n_max;
    uint64_t sample[FZM_SAMPLE_MAX_ELEMS]; /* only FZM_REDUCE_EXTREMES; not cleared */
};
enum { FZM_REDUCE_HEAD_NBYTES = 32 };

static inline struct fzm_extremes fzm_reduce_extremes(const struct fzm_reduce_result *r)
{
    const uint64_t flip = (uint64_t)1 << 63;
    struct fzm_extremes e;
    e.min = (int64_t)(~r->not_min ^ flip);
    e.max = (int64_t)(r->max ^ flip);
    e.n_min = r->n_min;
    e.n_max = r->n_max;
    return e;
}

/* Keys of types of up to 4 bytes fit 32 bits, if those of u32 have their sign bit flipped. */
template <int DTYPE> struct fzm_key_type {
    static constexpr bool is_wide = DTYPE == FZM_U64 || DTYPE == FZM_I64 || DTYPE == FZM_F64;
};
template <bool WIDE> struct fzm_key_word {
    typedef int64_t type;
};
template <> struct fzm_key_word<false> {
    typedef int32_t type;
};
template <int DTYPE> struct fzm_key {
    typedef typename fzm_key_word<fzm_key_type<DTYPE>::is_wide>::type type;
    static constexpr type least = (type)((uint64_t)1 << (8 * sizeof(type) - 1));
    static constexpr type most = (type)(least ^ (type)-1);
};

template <int DTYPE> FZM_HD typename fzm_key<DTYPE>::type fzm_key_narrow(int64_t key)
{
    typedef typename fzm_key<DTYPE>::type K;
    return DTYPE == FZM_U32 ? (K)((uint32_t)key ^ 0x80000000u) : (K)key;
}

template <int DTYPE> FZM_HD int64_t fzm_key_widen(typename fzm_key<DTYPE>::type key)
{
    return DTYPE == FZM_U32 ? (int64_t)((uint32_t)key ^ 0x80000000u) : (int64_t)key;
}

template <int DTYPE, typename W> struct fzm_reduce_args {
    typedef typename fzm_key<DTYPE>::type K;
    const W *x;
    uint64_t n_elems, n_sample;
    K lo, hi; /* keys of elements that count; of the rest: strictly between min and max */
    W min_bits, max_bits, fill;
    bool has_fill;
    struct fzm_reduce_result *result;
};

/* What a thread has found. */
template <int DTYPE> struct fzm_reduce_state {
    typename fzm_key<DTYPE>::type min, max;
    uint32_t n_min, n_max; /* a thread sees fewer than 2^32 elements */
};

template <int DTYPE, typename W, int WHAT>
FZM_D void fzm_reduce_one(const struct fzm_reduce_args<DTYPE, W> &a, W bits,
                          struct fzm_reduce_state<DTYPE> *s)
{
    typedef typename fzm_key<DTYPE>::type K;
    const K key = fzm_key_narrow<DTYPE>(fzm_scan_key(DTYPE, bits));
    bool good = key >= a.lo && key <= a.hi && !(a.has_fill && bits == a.fill);
    if (WHAT == FZM_REDUCE_MAGNITUDE) {
        const K magnitude = (K)(bits & (W)~fzm_scan_sign(DTYPE));
        good = good && magnitude >= (K)fzm_scan_least_normal(DTYPE);
        s->min = good && magnitude < s->min ? magnitude : s->min;
    } else {
        s->min = good && key < s->min ? key : s->min;
        s->max = good && key > s->max ? key : s->max;
    }
    if (WHAT == FZM_REDUCE_REST) {
        s->n_min += bits == a.min_bits;
        s->n_max += bits == a.max_bits;
    }
}

/* Adds what a block has found to the result. */
template <int DTYPE, int WHAT>
FZM_D void fzm_reduce_finish(struct fzm_reduce_state<DTYPE> s, struct fzm_reduce_result *result)
{
    __shared__ struct fzm_reduce_state<DTYPE> warps[32];
    for (int step = 0; step < 2; step++) {
        for (int d = 16; d; d /= 2) {
            const auto min = __shfl_xor_sync(0xffffffffu, s.min, d),
                       max = __shfl_xor_sync(0xffffffffu, s.max, d);
            s.min = min < s.min ? min : s.min;
            s.max = max > s.max ? max : s.max;
            s.n_min += WHAT == FZM_REDUCE_REST ? __shfl_xor_sync(0xffffffffu, s.n_min, d) : 0;
            s.n_max += WHAT == FZM_REDUCE_REST ? __shfl_xor_sync(0xffffffffu, s.n_max, d) : 0;
        }
        if (step == 1)
            break;
        if ((threadIdx.x & 31) == 0)
            warps[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x >= 32)
            return;
        const struct fzm_reduce_state<DTYPE> none = {
            fzm_key<DTYPE>::most, fzm_key<DTYPE>::least, 0, 0
        };
        s = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : none;
    }
    if (threadIdx.x != 0)
        return;
    typedef unsigned long long word;
    const uint64_t flip = (uint64_t)1 << 63;
    if (WHAT == FZM_REDUCE_MAGNITUDE ? s.min != fzm_key<DTYPE>::most : s.min <= s.max) {
        atomicMax((word *)&result->not_min, (word) ~((uint64_t)fzm_key_widen<DTYPE>(s.min) ^ flip));
        atomicMax((word *)&result->max, (word)((uint64_t)fzm_key_widen<DTYPE>(s.max) ^ flip));
    }
    if (WHAT == FZM_REDUCE_REST) {
        atomicAdd((word *)&result->n_min, (word)s.n_min);
        atomicAdd((word *)&result->n_max, (word)s.n_max);
    }
}

/* Blocks of 256 threads, 4 words of 16 bytes per thread and turn. The head and the tail of the array, up to
 * words of 16 bytes, are left to the first threads. */
template <int DTYPE, typename W, int WHAT>
static __global__ void __launch_bounds__(256)
    fzm_reduce_kernel(const __grid_constant__ struct fzm_reduce_args<DTYPE, W> a)
{
    enum { UNROLL = 4, PER_WORD = 16 / sizeof(W) };
    struct fzm_reduce_state<DTYPE> s = {
        fzm_key<DTYPE>::most, fzm_key<DTYPE>::least, 0, 0
    };
    const uint64_t id = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x,
                   stride = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t to_word = (16 - (uintptr_t)a.x % 16) % 16 / sizeof(W);
    const uint64_t n_head = to_word < a.n_elems ? to_word : a.n_elems;
    const uint64_t n_words = (a.n_elems - n_head) / PER_WORD, n_tail = (a.n_elems - n_head) % PER_WORD;
    const uint4 *const words = (const uint4 *)(const void *)(a.x + n_head);
    uint64_t i = id;
    for (; i + (UNROLL - 1) * stride < n_words; i += UNROLL * stride) {
        uint4 word[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
            word[k] = words[i + k * stride];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            W v[PER_WORD];
            memcpy(v, &word[k], 16);
#pragma unroll
            for (int j = 0; j < PER_WORD; j++)
                fzm_reduce_one<DTYPE, W, WHAT>(a, v[j], &s);
        }
    }
    for (; i < n_words; i += stride) {
        W v[PER_WORD];
        memcpy(v, &words[i], 16);
#pragma unroll
        for (int j = 0; j < PER_WORD; j++)
            fzm_reduce_one<DTYPE, W, WHAT>(a, v[j], &s);
    }
    if (id < n_head)
        fzm_reduce_one<DTYPE, W, WHAT>(a, a.x[id], &s);
    if (id < n_tail)
        fzm_reduce_one<DTYPE, W, WHAT>(a, a.x[n_head + n_words * PER_WORD + id], &s);
    if (WHAT == FZM_REDUCE_EXTREMES)
        for (uint64_t k = id; k < a.n_sample; k += stride)
            a.result->sample[k] = a.x[fzm_scan_sample_at(k, a.n_sample, a.n_elems)];
    fzm_reduce_finish<DTYPE, WHAT>(s, a.result);
}

#endif
