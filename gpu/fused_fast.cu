/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast chain, forward: one block of 8 warps encodes a super-tile of 64 tiles, a warp 8 tiles one after
 * the other. The input is read once.
 *
 * No block waits for the place of its super-tile: payloads go to a ring of slots that stays in the L2 cache,
 * and each block ends by moving the payload of the super-tile LAG before its own, whose predecessors are
 * long done, to its place in the section. Warps do not wait for each other either: the first one to be done
 * with its tiles finds that place, the last one finishes the super-tile.
 *
 * Nearly all tiles take the path of packed halves: codes are small against the tile's origin, so that
 * differences are exact in half precision, two blocks per register. The others run on whole words. */
#include "fast_encode_super.cuh"
#include "fast_encode_tile.cuh"

template <int G, int KIND>
static __global__ void __launch_bounds__(32 * N_WARPS,
                                         4) encode_kernel(const __grid_constant__ struct encode_args a)
{
    __shared__ __align__(16) struct encode_shared shared;
    struct encode_shared *const sh = &shared;
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const uint32_t super = blockIdx.x;
    if (warp == 0)
        sh->transpose[lane] = fzm_transpose_init(lane);
    if (threadIdx.x == 0) {
        sh->n_moved = sh->n_encoded = 0;
        barrier_init(&sh->base_known);
    }
    __syncthreads();
    if (super >= a.n_super) {
        if (warp == 0)
            find_place(&a, sh, super - a.lag);
        move_part(&a, sh, super - a.lag);
        return;
    }
    uint64_t slot_user = super >= RING_SLOTS ? fzm_lookback_load(&a.lookback[super - RING_SLOTS])
        : FZM_LOOKBACK_DONE;
    const uint32_t my_tile = super * FZM_BITPACK_SUPER_TILES + warp * WARP_TILES + (lane & 7);
    struct fzm_warp_tile mine = fzm_warp_tile_at(a.tiling, min(my_tile, a.n_tiles - 1));
    if (my_tile >= a.n_tiles)
        mine.extents = 0; /* all of it is padding */
    const unsigned whole = __ballot_sync(FZM_FULL_WARP, mine.extents == fzm_geo<G>::whole);
    const uint32_t ring = (uint32_t)__cvta_generic_to_shared(sh->ring[warp]);
#pragma unroll
    for (unsigned i = 0; i < STAGES - 1; i++) {
        if (whole >> i & 1)
            fetch_tile<G>(&a, __shfl_sync(FZM_FULL_WARP, mine.first, i), ring + 1024 * i);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    if (!fzm_lookback_is_done(slot_user))
        fzm_lookback_wait_done(a.lookback, super - RING_SLOTS);

    const struct tile_state s = {sh->exchange[warp], lane, &sh->transpose[lane]};
    uint32_t *const planes = a.slots + (size_t)(super % RING_SLOTS) * SLOT_WORDS + SLOT_HEAD +
                             warp * WARP_WORDS;
    uint32_t n_words = 0, modes = 0, masked = 0, stage = 0;
#pragma unroll 1
    for (unsigned i = 0; i < WARP_TILES; i++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp();
        const unsigned ahead = i + STAGES - 1;
        if (ahead < WARP_TILES && (whole >> ahead & 1))
            fetch_tile<G>(&a, __shfl_sync(FZM_FULL_WARP, mine.first, ahead), ring + 1024 * (stage
                ? stage - 1 : STAGES - 1));
        asm volatile("cp.async.commit_group;" ::: "memory");
        struct tile_result r = {0, 0};
        float q[8], q0 = 0;
        uint32_t h[4], n_any = 0;
        bool fits = false;
        if (whole >> i & 1) {
            const bool good = quantize<KIND>(&a, &s, sh->ring[warp][stage], q);
            fits = subtract_origin<G, true>(q, 0, &q0, h, &n_any) && good;
        }
        if (__all_sync(FZM_FULL_WARP, fits)) {
            r.origin = (int32_t)q0;
            if (__any_sync(FZM_FULL_WARP, n_any))
                encode_small_tile<G, true>(&s, 0, h, planes + n_words, &r.what);
        } else {
            r = encode_any<G, KIND>(&a, sh->ring[warp][stage], s.exchange, s.transpose,
                                    __shfl_sync(FZM_FULL_WARP, mine.first, i), __shfl_sync(FZM_FULL_WARP,
                                        mine.extents, i),
                                    planes + n_words);
        }
        if (lane < 8)
            ((uint8_t *)(void *)sh->widths)[(warp * WARP_TILES + i) * 8 + lane] = (uint8_t)(r.what >> 16);
        if (lane == 0)
            sh->origins[warp * WARP_TILES + i] = r.origin;
        n_words += r.what & 0xffff;
        modes |= (r.what >> 24 & 3) << (2 * i);
        masked |= r.what >> 31 << i;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    uint32_t n_before = 0;
    if (lane == 0) {
        sh->warp_words[warp] = n_words;
        sh->modes[warp] = modes;
        sh->masked[warp] = masked;
    }
    __syncwarp();
    if (lane == 0) {
        __threadfence_block();
        n_before = atomicAdd(&sh->n_encoded, 1);
    }
    n_before = __shfl_sync(FZM_FULL_WARP, n_before, 0);
    if (n_before == N_WARPS - 1) {
        __threadfence_block();
        finish_super(&a, sh, super);
    }
    if (super < a.lag)
        return;
    if (n_before == 0)
        find_place(&a, sh, super - a.lag);
    move_part(&a, sh, super - a.lag);
}

/* Origins of tiles without a good element: that of the last tile before that has one, else 0. One warp
 * per 32 tiles, looking back over 1024 tiles at a time. */
static __global__ void masked_origins_kernel(const uint8_t *masked, int32_t *origins, uint32_t n_tiles,
                                             const struct fzm_gpu_fast_result *result)
{
    if (result->n_masked_tiles == 0)
        return;
    const unsigned lane = threadIdx.x & 31;
    const uint32_t *const words = (const uint32_t *)(const void *)masked; /* padded with ones */
    const uint32_t n_words = (n_tiles + 31) / 32;
    const uint32_t n_warps = gridDim.x * (blockDim.x / 32);
    for (uint32_t i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < n_words; i += n_warps) {
        const uint32_t word = words[i], tile = 32 * i + lane;
        if (word == 0)
            continue;
        int64_t source = -1;
        for (int64_t j = (int64_t)i - 1; j >= 0 && source < 0; j -= 32) {
            const uint32_t good = j >= (int64_t)lane ? ~words[j - lane] : 0;
            const unsigned found = __ballot_sync(FZM_FULL_WARP, good != 0);
            if (found) {
                const int from = __ffs(found) - 1;
                source = (j - from) * 32 + 31 - __clz(__shfl_sync(FZM_FULL_WARP, good, from));
            }
        }
        const uint32_t before = ~word & ((1u << lane) - 1);
        if ((word >> lane & 1) && tile < n_tiles) {
            const int64_t from = before ? 32 * (int64_t)i + 31 - __clz(before) : source;
            origins[tile] = from < 0 ? 0 : origins[from];
        }
    }
}

static uint64_t padded(uint64_t nbytes) { return (nbytes + 255) / 256 * 256; }

extern "C" size_t fzm_gpu_fast_scratch_nbytes(const struct fzm_tiling *tiling)
{
    const uint64_t n_super = fzm_div_up(tiling->n_tiles, FZM_BITPACK_SUPER_TILES);
    const uint64_t n_slots = n_super < RING_SLOTS ? n_super : (uint64_t)RING_SLOTS;
    return (size_t)(2 * padded(8 * n_super) + n_slots * SLOT_WORDS * 4);
}

template <int G, int KIND> static cudaError_t launch_encode(const struct encode_args *a,
                                                            cudaStream_t stream)
{
    encode_kernel<G, KIND><<<a->n_super + a->lag, 32 * N_WARPS, 0, stream>>>(*a);
    return cudaGetLastError();
}

template <int G> static cudaError_t launch_encode_kind(const struct encode_args *a, cudaStream_t stream)
{
    if (a->has_fill || !a->in_range)
        return launch_encode<G, ALL_CHECKS>(a, stream);
    return a->k.offset == 0 ? launch_encode<G, NO_OFFSET>(a, stream) : launch_encode<G, OFFSET>(a, stream);
}

extern "C" cudaError_t fzm_gpu_fast_forward(const struct fzm_gpu_fast *f, cudaStream_t stream)
{
    const struct fzm_tiling *const t = f->tiling;
    const uint64_t n_elems = t->n_batch * t->dims[0] * t->dims[1] * t->dims[2];
    if (f->quantizer->kind != FZM_QUANTIZER_LINEAR || t->n_tile_elems != 256 || n_elems > 1u << 30)
        return cudaErrorInvalidValue;
    struct encode_args a;
    a.tiling = *t;
    a.k = fzm_linear_f32_init(f->quantizer);
    a.pitch_y = (uint32_t)t->dims[2];
    a.pitch_z = (uint32_t)(t->dims[1] * t->dims[2]);
    a.n_tiles = (uint32_t)t->n_tiles;
    a.n_super = (uint32_t)fzm_div_up(t->n_tiles, FZM_BITPACK_SUPER_TILES);
    a.wide_loads = (uintptr_t)f->elems % 16 == 0 && (f->geometry == FZM_GEOMETRY_1D || a.pitch_y % 4 == 0);
    a.lag = a.n_super < LAG ? a.n_super : (uint32_t)LAG;
    a.has_fill = f->quantizer->has_fill;
    a.fill = (uint32_t)f->quantizer->fill;
    a.in_range = f->in_range != 0;
    a.elems = f->elems;
    a.section = f->section;
    a.modes = f->modes;
    a.origins = f->origins;
    a.mask = f->mask;
    a.result = f->result;
    a.lookback = (uint64_t *)f->scratch;
    a.masked = (uint8_t *)f->scratch + padded(8 * (uint64_t)a.n_super);
    a.slots = (uint32_t *)(void *)((uint8_t *)f->scratch + 2 * padded(8 * (uint64_t)a.n_super));
    cudaError_t err = cudaMemsetAsync(f->result, 0, sizeof *f->result, stream);
    if (err == cudaSuccess && !f->mask_is_zero)
        err = cudaMemsetAsync(f->mask, 0, fzm_div_up(n_elems, 32) * 4, stream);
    if (err != cudaSuccess || a.n_super == 0)
        return err;
    err = cudaMemsetAsync(a.lookback, 0, 8 * (size_t)a.n_super, stream);
    /* tiles that do not exist count as masked */
    if (err == cudaSuccess)
        err = cudaMemsetAsync(a.masked + (size_t)(a.n_super - 1) * 8, 0xff, 8, stream);
    if (err == cudaSuccess)
        err = f->geometry == FZM_GEOMETRY_1D   ? launch_encode_kind<FZM_GEOMETRY_1D>(&a, stream)
              : f->geometry == FZM_GEOMETRY_2D ? launch_encode_kind<FZM_GEOMETRY_2D>(&a, stream)
                                               : launch_encode_kind<FZM_GEOMETRY_3D>(&a, stream);
    if (err != cudaSuccess)
        return err;
    const uint32_t n_blocks = (a.n_tiles + 255) / 256;
    masked_origins_kernel<<<n_blocks < 1056 ? n_blocks : 1056, 256, 0, stream>>>(a.masked, a.origins,
        a.n_tiles, f->result);
    return cudaGetLastError();
}
