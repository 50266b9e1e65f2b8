/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitshuffle on the device: a thread takes 8 elements, 4 threads together a word of each plane. */
extern "C" {
#include "../core/stages.h"
#include "ops.h"
}

#include "bit_group.cuh"
#include "transpose.cuh"

enum { N_THREADS = 256, AUTO_BLOCK_ELEMS = 4096 };

struct shuffle_args {
    const uint8_t *from;
    uint8_t *to;
    uint64_t nbytes, n_groups; /* the array; groups of 8 elements in it */
    uint32_t block_groups;
    bool is_wide;  /* elements lie at a multiple of 16 bytes */
    bool by_words; /* planes lie at a multiple of 4 bytes */
};

/* Four lanes exchange bytes: byte j of the result on lane i of four is byte i of v on lane j. */
FZM_D uint32_t transpose_4x4(uint32_t v)
{
    const unsigned lane = threadIdx.x;
    v = __byte_perm(v, __shfl_xor_sync(FZM_FULL_WARP, v, 2), lane & 2 ? 0x3276 : 0x5410);
    return __byte_perm(v, __shfl_xor_sync(FZM_FULL_WARP, v, 1), lane & 1 ? 0x3715 : 0x6240);
}

/* Where a thread's group is. Threads behind the last group have the bytes that stay as they are. */
struct place {
    uint64_t block_at, group_at; /* bytes */
    uint64_t plane_nbytes;       /* groups of the block */
    uint32_t group;              /* in the block */
    bool here, by_words;
};

template <unsigned E> FZM_D struct place find_place(const struct shuffle_args *a, uint64_t t)
{
    struct place p;
    uint64_t group;
    const uint64_t first = fzm_divide(t, a->block_groups, &group) * a->block_groups;
    p.here = t < a->n_groups;
    p.group = (uint32_t)group;
    p.block_at = first * (8 * E);
    p.group_at = t * (8 * E);
    p.plane_nbytes = min((uint64_t)a->block_groups, a->n_groups - (p.here ? first : 0));
    p.by_words = p.here && a->by_words && p.plane_nbytes % 4 == 0;
    return p;
}

/* Bytes of a block's plane of bit 8 k + p. */
template <unsigned E> FZM_D uint64_t plane_at(const struct place *p, unsigned bit)
{
    return p->block_at + (8 * E - 1 - bit) * p->plane_nbytes;
}

template <unsigned E> FZM_D void copy_rest(const struct shuffle_args *a, uint64_t t)
{
    const uint64_t i = a->n_groups * (8 * E) + (t - a->n_groups);
    if (i < a->nbytes)
        a->to[i] = a->from[i];
}

template <unsigned E>
static __global__ void __launch_bounds__(N_THREADS)
    split_kernel(const __grid_constant__ struct shuffle_args a)
{
    const uint64_t t = (uint64_t)blockIdx.x * N_THREADS + threadIdx.x;
    const struct place p = find_place<E>(&a, t);
    const unsigned quarter = threadIdx.x % 4;
    uint32_t v[2 * E];
    fzm_group_load<E>(v, a.from + p.group_at, p.here ? 8 : 0, a.is_wide);
#pragma unroll
    for (unsigned k = 0; k < E; k++) {
        const uint64_t bytes = fzm_transpose8(fzm_group_bytes<E>(v, k));
        const uint32_t low = transpose_4x4((uint32_t)bytes), high = transpose_4x4((uint32_t)(bytes >> 32));
        if (p.by_words) {
            uint8_t *const to = a.to + p.group / 4 * 4;
            *(uint32_t *)(void *)(to + plane_at<E>(&p, 8 * k + quarter)) = low;
            *(uint32_t *)(void *)(to + plane_at<E>(&p, 8 * k + 4 + quarter)) = high;
        } else if (p.here) {
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                a.to[plane_at<E>(&p, 8 * k + i) + p.group] = (uint8_t)(bytes >> 8 * i);
        }
    }
    if (!p.here)
        copy_rest<E>(&a, t);
}

template <unsigned E>
static __global__ void __launch_bounds__(N_THREADS)
    join_kernel(const __grid_constant__ struct shuffle_args a)
{
    const uint64_t t = (uint64_t)blockIdx.x * N_THREADS + threadIdx.x;
    const struct place p = find_place<E>(&a, t);
    const unsigned quarter = threadIdx.x % 4;
    uint64_t bytes[E];
#pragma unroll
    for (unsigned k = 0; k < E; k++) {
        uint32_t low = 0, high = 0;
        bytes[k] = 0;
        if (p.by_words) {
            const uint8_t *const from = a.from + p.group / 4 * 4;
            low = *(const uint32_t *)(const void *)(from + plane_at<E>(&p, 8 * k + quarter));
            high = *(const uint32_t *)(const void *)(from + plane_at<E>(&p, 8 * k + 4 + quarter));
        } else if (p.here) {
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                bytes[k] |= (uint64_t)a.from[plane_at<E>(&p, 8 * k + i) + p.group] << 8 * i;
        }
        low = transpose_4x4(low);
        high = transpose_4x4(high);
        if (p.by_words)
            bytes[k] = low | (uint64_t)high << 32;
        bytes[k] = fzm_transpose8(bytes[k]);
    }
    uint32_t v[2 * E];
    fzm_group_join<E>(v, bytes);
    if (p.here)
        fzm_group_store<E>(a.to + p.group_at, v, 8, a.is_wide);
    else
        copy_rest<E>(&a, t);
}

template <unsigned E> static void launch(const struct shuffle_args *a, bool join, cudaStream_t stream)
{
    const uint64_t n_threads = a->n_groups + (a->nbytes - a->n_groups * (8 * E));
    const uint32_t n_blocks = (uint32_t)fzm_div_up(n_threads, N_THREADS);
    if (join)
        join_kernel<E><<<n_blocks, N_THREADS, 0, stream>>>(*a);
    else
        split_kernel<E><<<n_blocks, N_THREADS, 0, stream>>>(*a);
}

static int run(struct fzm_call *c, const void *from, void *to, uint64_t nbytes, bool join)
{
    const struct fzm_bitshuffle_params *const p = (const struct fzm_bitshuffle_params *)c->params;
    const uint32_t elem_nbytes = p->element_nbytes ? 1u << (p->element_nbytes - 1)
                                                   : (uint32_t)fzm_dtype_nbytes(c->in[0].shape.dtype);
    const uint32_t block_nbytes = p->block_size ? p->block_size : AUTO_BLOCK_ELEMS * elem_nbytes;
    struct shuffle_args a;
    a.from = (const uint8_t *)from;
    a.to = (uint8_t *)to;
    a.nbytes = nbytes;
    a.n_groups = nbytes / (8 * elem_nbytes);
    a.block_groups = block_nbytes / (8 * elem_nbytes);
    a.is_wide = (uintptr_t)(join ? to : from) % 16 == 0;
    a.by_words = (uintptr_t)(join ? from : to) % 4 == 0 && a.block_groups % 4 == 0;
    if (nbytes == 0)
        return 0;
    switch (elem_nbytes) {
    case 1: launch<1>(&a, join, c->gpu->stream); break;
    case 2: launch<2>(&a, join, c->gpu->stream); break;
    case 4: launch<4>(&a, join, c->gpu->stream); break;
    default: launch<8>(&a, join, c->gpu->stream); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "Bitshuffle", c->err);
}

static int forward(struct fzm_call *c)
{
    c->out[0].pending = NULL;
    c->out[0].nbytes = fzm_shape_nbytes(&c->in[0].shape);
    return run(c, c->in[0].data, c->out[0].data, c->out[0].nbytes, false);
}

static int inverse(struct fzm_call *c)
{
    const size_t nbytes = fzm_shape_nbytes(&c->in[0].shape);
    if (c->out[0].nbytes != nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitshuffle: %zu bytes for an array of %zu",
                           c->out[0].nbytes, nbytes);
    return run(c, c->out[0].data, c->in[0].data, nbytes, true);
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_bitshuffle;
const struct fzm_gpu_ops fzm_gpu_ops_bitshuffle = {
    &fzm_stage_bitshuffle, NULL, NULL, NULL, forward, inverse,
};
}
