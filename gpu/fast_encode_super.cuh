/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast chain, forward: heads of super-tiles, and the way of their payloads to the section. */
#ifndef FZM_GPU_FAST_ENCODE_SUPER_CUH
#define FZM_GPU_FAST_ENCODE_SUPER_CUH

#include "fast_encode.cuh"

/* Map, classes and rates of a super-tile from the widths; one warp. Returns the
 * words written to dst, 0 for no live tile. */
static __device__ uint32_t build_head(struct encode_shared *sh, uint32_t *dst)
{
    const unsigned lane = threadIdx.x & 31;
    const uint64_t w[2] = {sh->widths[lane], sh->widths[lane + 32]};
    const unsigned live[2] = {__ballot_sync(FZM_FULL_WARP, w[0] != 0),
                              __ballot_sync(FZM_FULL_WARP, w[1] != 0)};
    uint32_t rate_class[2], n_bytes[2];
    for (int j = 0; j < 2; j++) {
        rate_class[j] = fzm_bitpack_class_of(w[j]);
        n_bytes[j] = w[j] ? fzm_bitpack_class_nbytes(rate_class[j]) : 0;
    }
    uint32_t end = n_bytes[0] | n_bytes[1] << 16;
    for (unsigned d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, end, d);
        end += lane >= d ? other : 0;
    }
    const uint32_t total = __shfl_sync(FZM_FULL_WARP, end, 31);
    const uint32_t n_live_0 = __popc(live[0]), n_live = n_live_0 + __popc(live[1]);
    if (n_live == 0)
        return 0;
    const uint32_t class_words = (n_live + 15) / 16;
    const uint32_t rate_words = ((total & 0xffff) + (total >> 16) + 3) / 4;
    for (uint32_t i = lane; i < 2 + class_words + rate_words; i += 32)
        sh->head[i] = i == 0 ? live[0] : i == 1 ? live[1] : 0;
    __syncwarp();
    uint8_t *const rates = (uint8_t *)(void *)&sh->head[2 + class_words];
    for (int j = 0; j < 2; j++) {
        if (w[j] == 0)
            continue;
        const uint32_t rank = __popc(live[j] & ((1u << lane) - 1)) + (j ? n_live_0 : 0);
        atomicOr(&sh->head[2 + rank / 16], rate_class[j] << rank % 16 * 2);
        const uint32_t at = (j ? (end >> 16) + (total & 0xffff) : end & 0xffff) - n_bytes[j];
        const uint64_t bytes = fzm_bitpack_rates_encode(w[j], rate_class[j]);
        for (uint32_t i = 0; i < n_bytes[j]; i++)
            rates[at + i] = (uint8_t)(bytes >> 8 * i);
    }
    __syncwarp();
    for (uint32_t i = lane; i < 2 + class_words + rate_words; i += 32)
        dst[i] = sh->head[i];
    return 2 + class_words + rate_words;
}

FZM_D uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

FZM_D void barrier_init(uint64_t *barrier)
{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}

FZM_D void barrier_arrive(uint64_t *barrier)
{
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(shared_address(barrier))
                 : "memory");
}

/* Waits for barrier_arrive(); sleeps in hardware where that can. */
FZM_D void barrier_wait(uint64_t *barrier)
{
    uint32_t done;
    for (;;) {
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0, 20000; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(barrier)) : "memory");
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(barrier)) : "memory");
#endif
        if (done)
            return;
#if __CUDA_ARCH__ < 900
        __nanosleep(40);
#endif
    }
}

FZM_D void fence_gpu(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/* Moving the payload of a super-tile from its slot to its place. One warp finds the place. */
static __device__ __noinline__ void find_place(const struct encode_args *a, struct encode_shared *sh,
                                               uint32_t super)
{
    uint64_t sum;
    const uint64_t base = fzm_lookback_wait(a->lookback, super, &sum);
    if ((threadIdx.x & 31) != 0)
        return;
    ((uint32_t *)(void *)(a->section + 8))[super] = (uint32_t)(base + sum);
    if (super == a->n_super - 1) {
        const uint64_t nbytes = (uint64_t)a->n_tiles * 1024;
        ((uint32_t *)(void *)a->section)[0] = (uint32_t)nbytes;
        ((uint32_t *)(void *)a->section)[1] = (uint32_t)(nbytes >> 32);
        a->result->section_nbytes = fzm_bitpack_table_nbytes(a->n_super) + 4 * (base + sum);
    }
    sh->base = base;
    barrier_arrive(&sh->base_known);
}

/* Each warp moves the planes of one warp, the last one the head too. */
static __device__ __noinline__ void move_part(const struct encode_args *a, struct encode_shared *sh,
                                              uint32_t super)
{
    enum { UNROLL = 16 };
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const uint32_t *const slot = a->slots + (size_t)(super % RING_SLOTS) * SLOT_WORDS;
    barrier_wait(&sh->base_known);
    __syncwarp();
    uint32_t *dst = (uint32_t *)(void *)(a->section + fzm_bitpack_table_nbytes(a->n_super)) +
                    *(volatile uint64_t *)&sh->base;
    const uint32_t n_mine = lane <= N_WARPS ? __ldcg(slot + lane) : 0; /* warps, head */
    const uint32_t n_head = __shfl_sync(FZM_FULL_WARP, n_mine, N_WARPS);
    if (warp == N_WARPS - 1)
        for (uint32_t i = lane; i < n_head; i += 32)
            dst[i] = __ldcg(slot + 16 + i);
    dst += n_head + __reduce_add_sync(FZM_FULL_WARP, lane < warp ? n_mine : 0);
    const uint32_t n = __shfl_sync(FZM_FULL_WARP, n_mine, warp);
    const uint32_t *const src = slot + SLOT_HEAD + warp * WARP_WORDS;
    for (uint32_t first = lane; first < n; first += 32 * UNROLL) {
        uint32_t v[UNROLL];
#pragma unroll
        for (uint32_t j = 0; j < UNROLL; j++)
            v[j] = first + 32 * j < n ? __ldcg(src + first + 32 * j) : 0;
#pragma unroll
        for (uint32_t j = 0; j < UNROLL; j++)
            if (first + 32 * j < n)
                dst[first + 32 * j] = v[j];
    }
    __syncwarp();
    if (lane == 0 && atomicAdd(&sh->n_moved, 1) == N_WARPS - 1) {
        fence_gpu();
        fzm_lookback_done(a->lookback, super);
    }
}

/* One warp, after all: side outputs, head and sizes of a super-tile; makes it public. */
static __device__ __noinline__ void finish_super(const struct encode_args *a, struct encode_shared *sh,
                                                 uint32_t super)
{
    const unsigned lane = threadIdx.x & 31;
    uint32_t *const slot = a->slots + (size_t)(super % RING_SLOTS) * SLOT_WORDS;
    const uint32_t head_words = build_head(sh, slot + 16);
    const uint32_t n = lane < N_WARPS ? sh->warp_words[lane] : lane == N_WARPS ? head_words : 0;
    if (lane <= N_WARPS)
        slot[lane] = n;
    const uint32_t words = __reduce_add_sync(FZM_FULL_WARP, n);
    __syncwarp();
    if (lane == 0)
        fence_gpu();
    if (lane == 0)
        fzm_lookback_publish(a->lookback, super, words);
    const uint32_t first_tile = super * FZM_BITPACK_SUPER_TILES, n_here = min(a->n_tiles - first_tile,
        (uint32_t)FZM_BITPACK_SUPER_TILES);
    for (unsigned t = lane; t < n_here; t += 32)
        a->origins[first_tile + t] = sh->origins[t];
    if (lane < (n_here + 3) / 4 && lane < 16)
        a->modes[first_tile / 4 + lane] = (uint8_t)(sh->modes[lane / 2] >> lane % 2 * 8);
    if (lane < (n_here + 7) / 8) {
        const uint32_t n_last = n_here - 8 * lane, masked = sh->masked[lane] & (n_last < 8
            ? (1u << n_last) - 1 : 0xff);
        a->masked[first_tile / 8 + lane] = (uint8_t)masked;
        if (masked)
            atomicAdd(&a->result->n_masked_tiles, __popc(masked));
    }
}

#endif
