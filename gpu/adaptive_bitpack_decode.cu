/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveBitpack on the device, backward. Each block of threads reads the head of a super-tile and decodes
 * a part of it, 8 elements in a thread. The section is untrusted and may have any alignment. */
#include "adaptive_bitpack.cuh"

enum {
    HEAD_WORDS = FZM_BITPACK_HEAD_NBYTES / 4,
    FEW_SUPERS = 128, /* below, super-tiles are cut into small parts to use the whole device */
};

struct decode_args {
    uint8_t *elems;
    uint64_t n_elems;
    bool is_wide; /* elems is a multiple of 16 bytes */
    uint32_t block_size, n_super;
    uint32_t n_parts, part_groups; /* of a super-tile */
    const uint8_t *section;
    uint64_t payloads_nbytes;
    uint32_t *corrupt;
};

struct decode_shared {
    struct fzm_bitpack_tiles tiles;
    uint32_t head[HEAD_WORDS + 2]; /* rates are read 3 words at a time */
    uint32_t head_nbytes; /* 0: damaged */
};

/* Checks what the table says of a super-tile's payload; the section's sizes with the last one. */
FZM_D bool find_payload(const struct decode_args *a, uint32_t super, uint64_t *begin, uint64_t *end)
{
    const uint8_t *const table = a->section + 8;
    *begin = super ? (uint64_t)fzm_section_load<uint32_t>({table, false}, super - 1) * 4 : 0;
    *end = (uint64_t)fzm_section_load<uint32_t>({table, false}, super) * 4;
    return *begin <= *end && *end <= a->payloads_nbytes &&
           (super != a->n_super - 1 || *end == a->payloads_nbytes);
}

/* The rate bytes of a tile at byte `at` of the rates, with junk behind them. */
FZM_D uint64_t load_rates(const uint32_t *rates, uint32_t at)
{
    const uint32_t *const p = rates + at / 4;
    const uint32_t shift = at % 4 * 8;
    return __funnelshift_r(p[0], p[1], shift) | (uint64_t)__funnelshift_r(p[1], p[2], shift) << 32;
}

/* One warp: widths from the head of a payload. Returns the bytes of the head, 0 if it is damaged. */
static __device__ uint32_t parse_head(struct decode_shared *sh, uint64_t payload_nbytes, uint32_t stride,
                                      uint32_t elem_nbits)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t *const head = sh->head;
    const uint32_t live[2] = {head[0], head[1]};
    const uint32_t n_live_0 = __popc(live[0]), n_live = n_live_0 + __popc(live[1]);
    const uint32_t class_words = (n_live + 15) / 16;
    uint32_t rate_class[2], n_bytes[2], at[2], n_rate_bytes;
    for (int j = 0; j < 2; j++) {
        const uint32_t rank = __popc(live[j] & ((1u << lane) - 1)) + (j ? n_live_0 : 0);
        const bool here = live[j] >> lane & 1;
        rate_class[j] = here ? head[2 + rank / 16] >> rank % 16 * 2 & 3 : 0;
        n_bytes[j] = here ? fzm_bitpack_class_nbytes(rate_class[j]) : 0;
    }
    fzm_bitpack_tile_sums(n_bytes, at, &n_rate_bytes);
    const uint32_t head_nbytes = 4 * (2 + class_words + (n_rate_bytes + 3) / 4);
    if (payload_nbytes < head_nbytes)
        return 0;
    uint64_t w[2];
    bool valid = true;
    for (int j = 0; j < 2; j++) {
        w[j] = n_bytes[j] ? fzm_bitpack_rates_decode(load_rates(head + 2 + class_words, at[j]), rate_class[j])
                          : 0;
        valid = valid && fzm_bitpack_widths_valid(w[j], elem_nbits);
    }
    if (!__all_sync(FZM_FULL_WARP, valid))
        return 0;
    const uint64_t n_planes = fzm_bitpack_tiles_set(&sh->tiles, w);
    return payload_nbytes == head_nbytes + (n_planes * stride + 3) / 4 * 4 ? head_nbytes : 0;
}

/* All threads: fills sh->tiles. Returns the first plane, NULL if the super-tile is damaged. */
template <unsigned E>
FZM_D const uint8_t *open_super(const struct decode_args *a, struct decode_shared *sh, uint32_t super,
                                uint32_t stride)
{
    uint64_t begin, end;
    bool good = find_payload(a, super, &begin, &end);
    if (super == 0)
        good = good && fzm_section_load<uint64_t>({a->section, false}, 0) == a->n_elems * E;
    if (!good)
        return NULL;
    const uint64_t nbytes = end - begin;
    const uint8_t *const payload = a->section + fzm_bitpack_table_nbytes(a->n_super) + begin;
    for (uint32_t i = threadIdx.x; i < sizeof sh->head; i += FZM_BITPACK_N_THREADS)
        ((uint8_t *)(void *)sh->head)[i] = i < nbytes ? payload[i] : 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        const uint64_t zeros[2] = {0, 0};
        uint32_t head_nbytes = 0;
        if (nbytes)
            head_nbytes = parse_head(sh, nbytes, stride, 8 * E);
        else
            fzm_bitpack_tiles_set(&sh->tiles, zeros);
        if (threadIdx.x == 0)
            sh->head_nbytes = head_nbytes;
    }
    __syncthreads();
    return sh->head_nbytes || nbytes == 0 ? payload + sh->head_nbytes : NULL;
}

/* A group from its bytes of w > 0 planes, stride bytes apart. The sign's plane stands in for all above. */
template <unsigned E>
FZM_D void get_planes(uint32_t (&v)[2 * E], const uint8_t *planes, uint32_t stride, uint32_t w)
{
    const uint64_t sign = planes[0] * FZM_BITPACK_ONES;
    uint64_t bytes[E];
#pragma unroll
    for (unsigned k = 0; k < E; k++) {
        uint64_t rows = sign;
        if (8 * k < w) {
            uint32_t half[2] = {0, 0};
            const uint8_t *at = planes + (size_t)(w - 1 - 8 * k) * stride;
#pragma unroll
            for (unsigned p = 0; p < 8; p++) {
                half[p / 4] |= (uint32_t)*at << p % 4 * 8;
                at -= 8 * k + p + 1 < w ? stride : 0; /* stays at the sign's */
            }
            rows = half[0] | (uint64_t)half[1] << 32;
        }
        bytes[k] = fzm_transpose8(rows);
    }
    fzm_group_join<E>(v, bytes);
}

/* Grid: super-tiles times parts. */
template <unsigned E, unsigned STRIDE>
static __global__ void __launch_bounds__(FZM_BITPACK_N_THREADS, E == 8 ? 2 : 3)
    decode_kernel(const __grid_constant__ struct decode_args a)
{
    __shared__ struct decode_shared sh;
    const uint32_t super = blockIdx.x / a.n_parts, part = blockIdx.x % a.n_parts;
    const uint32_t stride = STRIDE ? STRIDE : a.block_size / 8;
    const uint8_t *const planes = open_super<E>(&a, &sh, super, stride);
    if (!planes) {
        if (threadIdx.x == 0)
            *a.corrupt = 1;
        return;
    }
    const uint64_t per_super = fzm_bitpack_super_n_elems(a.block_size), first = super * per_super;
    const uint32_t n = (uint32_t)min(a.n_elems - first, per_super);
    const uint32_t end = min((part + 1) * a.part_groups, (n + 7) / 8);
#pragma unroll 1
    for (uint32_t g = part * a.part_groups + threadIdx.x; g < end; g += FZM_BITPACK_N_THREADS) {
        uint32_t start, v[2 * E];
        const uint32_t w = fzm_bitpack_tiles_get(&sh.tiles, g / stride, &start);
#pragma unroll
        for (unsigned i = 0; i < 2 * E; i++)
            v[i] = 0;
        if (w)
            get_planes<E>(v, planes + (size_t)start * stride + g % stride, stride, w);
        fzm_group_store<E>(a.elems + first * E + (size_t)g * (8 * E), v, n - 8 * g, a.is_wide);
    }
}

template <unsigned E> static void decode(const struct decode_args *a, cudaStream_t stream)
{
    const uint32_t n = a->n_super * a->n_parts;
    if (a->block_size == 32)
        decode_kernel<E, 4><<<n, FZM_BITPACK_N_THREADS, 0, stream>>>(*a);
    else
        decode_kernel<E, 0><<<n, FZM_BITPACK_N_THREADS, 0, stream>>>(*a);
}

extern "C" int fzm_gpu_adaptive_bitpack_inverse(struct fzm_call *c)
{
    const struct fzm_adaptive_bitpack_params *const p =
        (const struct fzm_adaptive_bitpack_params *)c->params;
    const size_t nbytes = c->out[0].nbytes;
    struct decode_args a;
    a.elems = (uint8_t *)c->in[0].data;
    a.n_elems = c->in[0].shape.n_elems;
    a.is_wide = (uintptr_t)a.elems % 16 == 0;
    a.block_size = p->block_size;
    a.n_super = (uint32_t)fzm_bitpack_n_super(a.n_elems, a.block_size);
    a.section = (const uint8_t *)c->out[0].data;
    a.corrupt = c->gpu->corrupt;
    const uint64_t table_nbytes = fzm_bitpack_table_nbytes(a.n_super);
    if (nbytes < table_nbytes || (a.n_super == 0 && nbytes != 0))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveBitpack: section of %zu bytes", nbytes);
    if (a.n_super == 0)
        return 0;
    a.payloads_nbytes = nbytes - table_nbytes;
    const uint32_t super_groups = FZM_BITPACK_SUPER_BLOCKS * (a.block_size / 8);
    a.part_groups = FZM_BITPACK_N_THREADS * (a.n_super < FEW_SUPERS ? 1 : 4);
    a.n_parts = (super_groups + a.part_groups - 1) / a.part_groups;
    switch (fzm_dtype_nbytes(c->in[0].shape.dtype)) {
    case 1: decode<1>(&a, c->gpu->stream); break;
    case 2: decode<2>(&a, c->gpu->stream); break;
    case 4: decode<4>(&a, c->gpu->stream); break;
    default: decode<8>(&a, c->gpu->stream); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "AdaptiveBitpack", c->err);
}
