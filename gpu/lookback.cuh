/* SPDX-License-Identifier: BSD-3-Clause */
/* Exclusive prefix sums over the blocks of a running grid by decoupled look-back (Merrill and Garland).
 *
 * Status and sum of a block share one 64-bit word, so that neither fences nor torn reads matter. Blocks
 * start in the order of their index, as all implementations of this scheme on CUDA assume. */
#ifndef FZM_GPU_LOOKBACK_CUH
#define FZM_GPU_LOOKBACK_CUH

#include <stdint.h>

#ifndef FZM_D
#define FZM_D static __device__ __forceinline__
#endif

#define FZM_LOOKBACK_SUM (1ull << 62)    /* the word holds the block's own sum */
#define FZM_LOOKBACK_PREFIX (2ull << 62) /* the word holds the sum of the block and all before it */
#define FZM_LOOKBACK_DONE (3ull << 62)   /* as PREFIX, and fzm_lookback_done() was called */
#define FZM_LOOKBACK_MASK ((1ull << 62) - 1)

FZM_D void fzm_lookback_store(uint64_t *word, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

FZM_D uint64_t fzm_lookback_load(const uint64_t *word)
{
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
    return v;
}

/* What was written before the word was published is visible after this. */
FZM_D uint64_t fzm_lookback_load_acquire(const uint64_t *word)
{
    uint64_t v;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
    return v;
}

/* Called by one lane as early as the sum is known. words[] must be zero before the launch. */
FZM_D void fzm_lookback_publish(uint64_t *words, uint32_t block, uint64_t sum)
{
    fzm_lookback_store(&words[block], sum | (block == 0 ? FZM_LOOKBACK_PREFIX : FZM_LOOKBACK_SUM));
}

/* Called by a whole warp: the sum of all blocks before this one, and of it alone; makes both public. */
FZM_D uint64_t fzm_lookback_wait(uint64_t *words, uint32_t block, uint64_t *sum)
{
    enum { PER_LANE = 2 }; /* words of a lane read at a time */
    const unsigned lane = threadIdx.x & 31;
    uint64_t before = 0, own;
    for (int64_t last = (int64_t)block - 1; last >= 0; last -= 32 * PER_LANE) {
        uint64_t word[PER_LANE];
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const int64_t i = last - 32 * j - lane;
            word[j] = i < 0 ? FZM_LOOKBACK_PREFIX : fzm_lookback_load(&words[i]);
        }
        bool found = false;
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            unsigned prefixes, wanted;
            for (;;) {
                prefixes = __ballot_sync(0xffffffffu, word[j] >> 63);
                wanted = found ? 0 : prefixes ? (2u << (__ffs(prefixes) - 1)) - 1
                    : 0xffffffffu; /* to the nearest */
                if ((__ballot_sync(0xffffffffu, word[j] == 0) & wanted) == 0)
                    break;
                __nanosleep(40);
                if (word[j] == 0)
                    word[j] = fzm_lookback_load(&words[last - 32 * j - lane]);
            }
            before += wanted >> lane & 1 ? word[j] & FZM_LOOKBACK_MASK : 0;
            found = found || prefixes;
        }
        if (found)
            break;
    }
    for (int d = 16; d; d >>= 1)
        before += __shfl_xor_sync(0xffffffffu, before, d);
    while ((own = fzm_lookback_load_acquire(&words[block])) == 0)
        __nanosleep(40);
    *sum = own & FZM_LOOKBACK_MASK;
    if (lane == 0 && block)
        fzm_lookback_store(&words[block], (before + *sum) | FZM_LOOKBACK_PREFIX);
    __syncwarp();
    return before;
}

/* What belongs to the block has been used, after fzm_lookback_wait(); by one thread of the user. */
FZM_D void fzm_lookback_done(uint64_t *words, uint32_t block)
{
    fzm_lookback_store(&words[block], fzm_lookback_load(&words[block]) | FZM_LOOKBACK_DONE);
}

FZM_D bool fzm_lookback_is_done(uint64_t word)
{
    return (word & FZM_LOOKBACK_DONE) == FZM_LOOKBACK_DONE;
}

FZM_D void fzm_lookback_wait_done(const uint64_t *words, uint32_t block)
{
    while (!fzm_lookback_is_done(fzm_lookback_load(&words[block])))
        __nanosleep(40);
}

#endif
