/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveBitpack on the device. One block of threads per super-tile: it finds the widths, builds the head,
 * learns its place by look-back, reads the elements once more (out of a cache) and writes their planes. A
 * thread takes 8 elements at a time. */
#include "adaptive_bitpack.cuh"

#include "lookback.cuh"

struct encode_args {
    const uint8_t *elems;
    uint64_t n_elems;
    bool is_wide; /* elems is a multiple of 16 bytes */
    uint32_t block_size, n_super;
    uint8_t *section;
    uint64_t *lookback; /* of each super-tile, if there are several */
    uint64_t *section_nbytes;
};

struct encode_shared {
    uint32_t widths[FZM_BITPACK_SUPER_BLOCKS];
    struct fzm_bitpack_tiles tiles;
    uint32_t head[FZM_BITPACK_HEAD_NBYTES / 4];
    uint32_t head_words, n_words;
    uint64_t base; /* words before this super-tile's payload */
};

/* Width that the elements of a group need. */
template <unsigned E> FZM_D uint32_t group_width(const uint32_t (&v)[2 * E])
{
    uint32_t any = 0, folded = 0, high = 0;
#pragma unroll
    for (unsigned i = 0; i < 2 * E; i++) {
        any |= v[i];
        if (E == 8)
            (i % 2 ? high : folded) |= v[i] ^ (uint32_t)((int32_t)v[i | 1] >> 31);
        else
            folded |= v[i] ^ (E == 1   ? (v[i] >> 7 & 0x01010101u) * 0xffu
                              : E == 2 ? (v[i] >> 15 & 0x00010001u) * 0xffffu
                                       : (uint32_t)((int32_t)v[i] >> 31));
    }
    if (E <= 2)
        folded = (folded | folded >> 16) & 0xffffu;
    if (E == 1)
        folded = (folded | folded >> 8) & 0xffu;
    return fzm_bitpack_width(any, folded | (uint64_t)high << 32);
}

template <unsigned E, unsigned STRIDE>
FZM_D void find_widths(const struct encode_args *a, struct encode_shared *sh, const uint8_t *p, uint32_t n,
                       uint32_t n_groups)
{
    const uint32_t stride = STRIDE ? STRIDE : a->block_size / 8;
#pragma unroll 2
    for (uint32_t g = threadIdx.x; g < (n_groups + 31) / 32 * 32; g += FZM_BITPACK_N_THREADS) {
        uint32_t v[2 * E], w = 0;
        if (8 * g < n) {
            fzm_group_load<E>(v, p + (size_t)g * (8 * E), n - 8 * g, a->is_wide);
            w = group_width<E>(v);
        }
        if (STRIDE == 4) {
            w = max(w, __shfl_xor_sync(FZM_FULL_WARP, w, 1));
            w = max(w, __shfl_xor_sync(FZM_FULL_WARP, w, 2));
            if (g % 4 == 0)
                sh->widths[g / 4] = w;
        } else if (stride % 32 == 0) { /* the warp is in one block */
            w = __reduce_max_sync(FZM_FULL_WARP, w);
            if (threadIdx.x % 32 == 0)
                atomicMax(&sh->widths[g / stride], w);
        } else if (w) {
            atomicMax(&sh->widths[g / stride], w);
        }
    }
}

/* One warp: map, classes and rates from the widths, and the words of the whole payload. */
static __device__ void build_head(struct encode_shared *sh, uint32_t stride)
{
    const unsigned lane = threadIdx.x & 31;
    uint64_t w[2];
    uint32_t rate_class[2], n_bytes[2], live[2];
    for (int j = 0; j < 2; j++) {
        const uint32_t *const p = &sh->widths[(lane + 32 * j) * FZM_BITPACK_TILE_BLOCKS];
        w[j] = 0;
        for (int b = 0; b < FZM_BITPACK_TILE_BLOCKS; b++)
            w[j] |= (uint64_t)p[b] << 8 * b;
        live[j] = __ballot_sync(FZM_FULL_WARP, w[j] != 0);
        rate_class[j] = fzm_bitpack_class_of(w[j]);
        n_bytes[j] = w[j] ? fzm_bitpack_class_nbytes(rate_class[j]) : 0;
    }
    uint32_t n_rate_bytes, at[2];
    fzm_bitpack_tile_sums(n_bytes, at, &n_rate_bytes);
    const uint32_t n_planes = fzm_bitpack_tiles_set(&sh->tiles, w);
    const uint32_t n_live_0 = __popc(live[0]), n_live = n_live_0 + __popc(live[1]);
    const uint32_t class_words = (n_live + 15) / 16;
    const uint32_t head_words = n_live ? 2 + class_words + (n_rate_bytes + 3) / 4 : 0;
    for (uint32_t i = lane; i < head_words; i += 32)
        sh->head[i] = i == 0 ? live[0] : i == 1 ? live[1] : 0;
    if (lane == 0) {
        sh->head_words = head_words;
        sh->n_words = head_words + (n_planes * stride + 3) / 4;
    }
    __syncwarp();
    uint8_t *const rates = (uint8_t *)(void *)&sh->head[2 + class_words];
    for (int j = 0; j < 2; j++) {
        if (w[j] == 0)
            continue;
        const uint32_t rank = __popc(live[j] & ((1u << lane) - 1)) + (j ? n_live_0 : 0);
        atomicOr(&sh->head[2 + rank / 16], rate_class[j] << rank % 16 * 2);
        const uint64_t bytes = fzm_bitpack_rates_encode(w[j], rate_class[j]);
        for (uint32_t i = 0; i < n_bytes[j]; i++)
            rates[at[j] + i] = (uint8_t)(bytes >> 8 * i);
    }
    __syncwarp();
}

/* One warp: where the payload goes; the table's entry, and for the last super-tile the section's size. */
static __device__ void find_place(const struct encode_args *a, struct encode_shared *sh, uint32_t super)
{
    uint64_t sum = sh->n_words, base = 0;
    if (a->n_super > 1) {
        if (threadIdx.x == 0)
            fzm_lookback_publish(a->lookback, super, sum);
        __syncwarp();
        base = fzm_lookback_wait(a->lookback, super, &sum);
    }
    if (threadIdx.x != 0)
        return;
    sh->base = base;
    ((uint32_t *)(void *)(a->section + 8))[super] = (uint32_t)(base + sum);
    if (super == a->n_super - 1)
        *a->section_nbytes = fzm_bitpack_table_nbytes(a->n_super) + 4 * (base + sum);
}

/* Bytes of a group's planes: the first plane's goes to dst, each further one stride bytes behind. */
template <unsigned E>
FZM_D void put_planes(uint8_t *dst, uint32_t stride, const uint32_t (&v)[2 * E], uint32_t w)
{
#pragma unroll
    for (unsigned k = 0; k < E; k++) {
        if (8 * k >= w)
            break;
        const uint64_t bytes = fzm_transpose8(fzm_group_bytes<E>(v, k));
        uint8_t *at = dst + (size_t)(w - 1 - 8 * k) * stride;
#pragma unroll
        for (unsigned p = 0; p < 8; p++) {
            if (8 * k + p < w)
                *at = (uint8_t)(bytes >> 8 * p);
            at -= stride;
        }
    }
}

/* The warp's n bytes from shared memory to dst. */
FZM_D void copy_staged(uint8_t *dst, const uint8_t *staged, uint32_t n, bool by_words)
{
    const unsigned lane = threadIdx.x & 31;
    __syncwarp();
    if (by_words)
        for (uint32_t i = lane; i < n / 4; i += 32)
            ((uint32_t *)(void *)dst)[i] = ((const uint32_t *)(const void *)staged)[i];
    else
        for (uint32_t i = lane; i < n; i += 32)
            dst[i] = staged[i];
    __syncwarp();
}

/* If a warp has whole blocks, their planes lie together: they are put in order in shared memory first. */
template <unsigned E, unsigned STRIDE>
FZM_D void write_planes(const struct encode_args *a, const struct encode_shared *sh, uint8_t *staged,
                        const uint8_t *p, uint32_t n, uint32_t n_groups, uint8_t *dst)
{
    const uint32_t stride = STRIDE ? STRIDE : a->block_size / 8;
    const bool is_staged = 32 % stride == 0;
    for (uint32_t g = threadIdx.x; g < (n_groups + 31) / 32 * 32; g += FZM_BITPACK_N_THREADS) {
        const uint32_t block = min(g / stride, (uint32_t)FZM_BITPACK_SUPER_BLOCKS - 1);
        uint32_t start;
        uint32_t w = fzm_bitpack_tiles_get(&sh->tiles, block, &start), v[2 * E];
        if (g >= n_groups)
            w = 0; /* behind the last block, hence at the end of the planes */
        const uint32_t offset = start * stride, begin = __shfl_sync(FZM_FULL_WARP, offset, 0);
        const uint32_t end = __reduce_max_sync(FZM_FULL_WARP, w ? offset + w * stride : 0);
        uint8_t *const to = is_staged ? staged + (offset - begin) : dst + offset;
        if (w) {
            fzm_group_load<E>(v, p + (size_t)g * (8 * E), 8 * g < n ? n - 8 * g : 0, a->is_wide);
            put_planes<E>(to + g % stride, stride, v, w);
        }
        if (is_staged && end)
            copy_staged(dst + begin, staged, end - begin, stride % 4 == 0);
    }
}

/* Grid: super-tiles. */
template <unsigned E, unsigned STRIDE>
static __global__ void __launch_bounds__(FZM_BITPACK_N_THREADS, E == 8 ? 2 : 3)
    encode_kernel(const __grid_constant__ struct encode_args a)
{
    __shared__ struct encode_shared sh;
    __shared__ __align__(16) uint8_t staged[FZM_BITPACK_N_THREADS * 8 * E];
    const uint32_t super = blockIdx.x, stride = STRIDE ? STRIDE : a.block_size / 8;
    const uint64_t per_super = fzm_bitpack_super_n_elems(a.block_size), first = super * per_super;
    const uint32_t n = (uint32_t)min(a.n_elems - first, per_super);
    const uint32_t n_groups = (n + a.block_size - 1) / a.block_size * stride;
    const uint8_t *const p = a.elems + first * E;
    for (uint32_t b = threadIdx.x; b < FZM_BITPACK_SUPER_BLOCKS; b += FZM_BITPACK_N_THREADS)
        sh.widths[b] = 0;
    __syncthreads();
    find_widths<E, STRIDE>(&a, &sh, p, n, n_groups);
    __syncthreads();
    if (threadIdx.x < 32) {
        build_head(&sh, stride);
        find_place(&a, &sh, super);
    }
    if (super == 0 && threadIdx.x == 32)
        *(uint64_t *)(void *)a.section = a.n_elems * E;
    __syncthreads();
    uint8_t *const payload = a.section + fzm_bitpack_table_nbytes(a.n_super) + 4 * sh.base;
    for (uint32_t i = threadIdx.x; i < sh.head_words; i += FZM_BITPACK_N_THREADS)
        ((uint32_t *)(void *)payload)[i] = sh.head[i];
    uint8_t *const planes = payload + 4 * sh.head_words;
    const uint32_t n_bytes = sh.tiles.n_planes * stride;
    if (threadIdx.x < (4 - n_bytes % 4) % 4)
        planes[n_bytes + threadIdx.x] = 0;
    write_planes<E, STRIDE>(&a, &sh, staged + threadIdx.x / 32 * (32 * 8 * E), p, n, n_groups, planes);
}

static size_t scratch(const void *params, const struct fzm_shape *in)
{
    const struct fzm_adaptive_bitpack_params *const p = (const struct fzm_adaptive_bitpack_params *)params;
    return (size_t)fzm_bitpack_n_super(in->n_elems, p->block_size) * sizeof(uint64_t);
}

template <unsigned E> static void encode(const struct encode_args *a, cudaStream_t stream)
{
    if (a->block_size == 32)
        encode_kernel<E, 4><<<a->n_super, FZM_BITPACK_N_THREADS, 0, stream>>>(*a);
    else
        encode_kernel<E, 0><<<a->n_super, FZM_BITPACK_N_THREADS, 0, stream>>>(*a);
}

static int forward(struct fzm_call *c)
{
    const struct fzm_adaptive_bitpack_params *const p =
        (const struct fzm_adaptive_bitpack_params *)c->params;
    const cudaStream_t stream = c->gpu->stream;
    struct encode_args a;
    c->out[0].pending = NULL;
    c->out[0].nbytes = 0;
    a.elems = (const uint8_t *)c->in[0].data;
    a.n_elems = c->in[0].shape.n_elems;
    a.is_wide = (uintptr_t)a.elems % 16 == 0;
    a.block_size = p->block_size;
    a.n_super = (uint32_t)fzm_bitpack_n_super(a.n_elems, a.block_size);
    a.section = (uint8_t *)c->out[0].data;
    a.lookback = (uint64_t *)c->scratch;
    if (a.n_super == 0)
        return 0;
    a.section_nbytes = c->out[0].pending = fzm_gpu_slot(c->gpu);
    if (!a.section_nbytes)
        return fzm_err_set(c->err, FZM_ERR_ENGINE, "AdaptiveBitpack: no slot left");
    if (a.n_super > 1)
        FZM_TRY(fzm_gpu_check(cudaMemsetAsync(a.lookback, 0, a.n_super * sizeof *a.lookback, stream),
                              "AdaptiveBitpack: look-back", c->err));
    switch (fzm_dtype_nbytes(c->in[0].shape.dtype)) {
    case 1: encode<1>(&a, stream); break;
    case 2: encode<2>(&a, stream); break;
    case 4: encode<4>(&a, stream); break;
    default: encode<8>(&a, stream); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "AdaptiveBitpack", c->err);
}

static int inverse_nbytes(const struct fzm_call *c, size_t *in_nbytes)
{
    uint8_t bytes[8] = {0};
    if (c->out[0].nbytes > 0 && c->out[0].nbytes < sizeof bytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveBitpack: section of %zu bytes",
                           c->out[0].nbytes);
    if (c->out[0].nbytes)
        FZM_TRY(fzm_gpu_read(c->gpu, bytes, c->out[0].data, sizeof bytes, c->err));
    *in_nbytes = (size_t)fzm_get_le64(bytes);
    return 0;
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_adaptive_bitpack;
const struct fzm_gpu_ops fzm_gpu_ops_adaptive_bitpack = {
    &fzm_stage_adaptive_bitpack, scratch, NULL, inverse_nbytes, forward, fzm_gpu_adaptive_bitpack_inverse,
};
}
