/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitpack on the device: 4096 elements to a block of threads, through shared memory; a thread makes a word
 * of fields at a time, or takes the fields of an element. */
extern "C" {
#include "../core/le.h"
#include "../core/stages.h"
#include "../core/stages/bitpack.h"
#include "ops.h"
}

#include "bitpack_block.cuh"
#include "lookback.cuh"

struct encode_args {
    const void *elems;
    uint64_t n_elems, n_blocks;
    uint32_t nbits;
    uint64_t flip; /* sign bit of a signed type */
    uint8_t *section;
    uint64_t *lookback; /* nbits 0 */
    uint64_t *section_nbytes;
    uint64_t *first_misfit; /* nbits below the type's own: index of the first element that does not fit */
};

/* Thread 0 to 31: where the block's payload of n 8-byte units goes; its entry in the table. */
static __device__ void find_place(const struct encode_args *a, uint64_t n, uint64_t *base)
{
    const uint32_t block = blockIdx.x;
    uint64_t before = 0;
    if (a->n_blocks > 1) {
        if (threadIdx.x == 0)
            fzm_lookback_publish(a->lookback, block, n);
        __syncwarp();
        before = fzm_lookback_wait(a->lookback, block, &n);
    }
    if (threadIdx.x != 0)
        return;
    *base = before;
    ((uint32_t *)(void *)(a->section + 8))[block] = (uint32_t)(before + n);
    if (block == a->n_blocks - 1)
        *a->section_nbytes = 8 + 4 * a->n_blocks + 8 * (before + n);
}

template <typename W>
FZM_D void encode_auto(const struct encode_args *a, W *v, uint32_t n, struct fzm_pack_shared<W> *sh)
{
    const W flip = (W)a->flip;
    for (uint32_t i = threadIdx.x; i < n; i += FZM_PACK_N_THREADS)
        v[fzm_pack_slot(i)] ^= flip;
    const struct fzm_bitpack_block b = fzm_pack_measure(v, n, sh);
    const bool is_empty = b.width == 0 && b.minimum == a->flip;
    const uint64_t nbytes = is_empty ? 0 : fzm_bitpack_block_nbytes(n, b.width);
    if (threadIdx.x < 32)
        find_place(a, nbytes / 8, &sh->base);
    __syncthreads();
    uint32_t *const payload =
        (uint32_t *)(void *)(a->section + 8 + 4 * a->n_blocks + 8 * sh->base); /* the table may be odd */
    if (is_empty)
        return;
    const uint64_t minimum = b.minimum ^ a->flip;
    if (threadIdx.x < FZM_BITPACK_BLOCK_HEAD_NBYTES / 4)
        payload[threadIdx.x] = threadIdx.x == 0   ? b.width | b.shift << 8
                               : threadIdx.x == 1 ? 0
                                                  : (uint32_t)(minimum >> threadIdx.x % 2 * 32);
    if (b.width)
        fzm_pack_fields(v, n, b.width, (W)b.minimum, b.shift, payload + FZM_BITPACK_BLOCK_HEAD_NBYTES / 4,
                        (uint32_t)(nbytes - FZM_BITPACK_BLOCK_HEAD_NBYTES) / 4);
}

template <typename W>
FZM_D void encode_fixed(const struct encode_args *a, W *v, uint32_t n)
{
    const uint64_t first = (uint64_t)blockIdx.x * FZM_BITPACK_BLOCK_ELEMS;
    const W mask = (W)fzm_bitpack_low_mask(a->nbits);
    for (uint32_t i = threadIdx.x; i < n; i += FZM_PACK_N_THREADS) {
        const uint64_t x = v[fzm_pack_slot(i)];
        if (a->first_misfit && !fzm_bitpack_fits((x ^ a->flip) - a->flip, a->nbits, a->flip != 0))
            atomicMin((unsigned long long *)a->first_misfit, (unsigned long long)(first + i));
        v[fzm_pack_slot(i)] = (W)x & mask;
    }
    __syncthreads();
    uint32_t *const fields = (uint32_t *)(void *)(a->section + 8 + first / 8 * a->nbits);
    fzm_pack_fields(v, n, a->nbits, (W)0, 0, fields,
                    (uint32_t)(fzm_bitpack_fields_nbytes(n, a->nbits) + 3) / 4);
}

/* T: element, W: 32 bits or 64. Grid: blocks of 4096 elements. */
template <typename T, typename W>
static __global__ void __launch_bounds__(FZM_PACK_N_THREADS)
    encode_kernel(const __grid_constant__ struct encode_args a)
{
    __shared__ W v[FZM_PACK_SLOTS];
    __shared__ struct fzm_pack_shared<W> sh;
    const uint64_t first = (uint64_t)blockIdx.x * FZM_BITPACK_BLOCK_ELEMS;
    const uint32_t n = (uint32_t)min(a.n_elems - first, (uint64_t)FZM_BITPACK_BLOCK_ELEMS);
    const T *const p = (const T *)a.elems + first;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < n; i += FZM_PACK_N_THREADS)
        v[fzm_pack_slot(i)] = p[i];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *(uint64_t *)(void *)a.section = a.n_elems * sizeof(T);
    if (a.nbits)
        encode_fixed<W>(&a, v, n);
    else
        encode_auto<W>(&a, v, n, &sh);
}

static size_t scratch(const void *params, const struct fzm_shape *in)
{
    (void)params;
    return (size_t)(1 + fzm_div_up(in->n_elems, FZM_BITPACK_BLOCK_ELEMS)) * sizeof(uint64_t);
}

static int misfit_error(const struct fzm_call *c, const struct encode_args *a, uint64_t index)
{
    const size_t elem_nbytes = fzm_dtype_nbytes(c->in[0].shape.dtype);
    uint8_t bytes[8] = {0};
    FZM_TRY(fzm_gpu_read(c->gpu, bytes, (const uint8_t *)a->elems + index * elem_nbytes, elem_nbytes,
                         c->err));
    const uint64_t x = (fzm_get_le64(bytes) ^ a->flip) - a->flip;
    return fzm_err_set(c->err, FZM_ERR_CONFIG,
                       a->flip ? "Bitpack: element %llu is %lld, which does not fit into nbits %u"
                               : "Bitpack: element %llu is %llu, which does not fit into nbits %u",
                       (unsigned long long)index, (unsigned long long)x, (unsigned)a->nbits);
}

static int encode(struct fzm_call *c, const struct encode_args *a)
{
    const uint32_t n = (uint32_t)a->n_blocks;
    const cudaStream_t stream = c->gpu->stream;
    switch (fzm_dtype_nbytes(c->in[0].shape.dtype)) {
    case 1: encode_kernel<uint8_t, uint32_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(*a); break;
    case 2: encode_kernel<uint16_t, uint32_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(*a); break;
    case 4: encode_kernel<uint32_t, uint32_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(*a); break;
    default: encode_kernel<uint64_t, uint64_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(*a); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "Bitpack", c->err);
}

static int forward(struct fzm_call *c)
{
    const struct fzm_bitpack_params *const p = (const struct fzm_bitpack_params *)c->params;
    const uint32_t elem_nbits = 8 * (uint32_t)fzm_dtype_nbytes(c->in[0].shape.dtype);
    const cudaStream_t stream = c->gpu->stream;
    struct encode_args a;
    c->out[0].pending = NULL;
    c->out[0].nbytes = 0;
    a.elems = c->in[0].data;
    a.n_elems = c->in[0].shape.n_elems;
    a.n_blocks = fzm_div_up(a.n_elems, FZM_BITPACK_BLOCK_ELEMS);
    a.nbits = p->nbits;
    a.flip = fzm_bitpack_sign_flip(c->in[0].shape.dtype);
    a.section = (uint8_t *)c->out[0].data;
    a.lookback = (uint64_t *)c->scratch;
    a.section_nbytes = a.first_misfit = NULL;
    if (a.n_elems == 0)
        return 0;
    if (a.nbits == 0) {
        a.section_nbytes = c->out[0].pending = fzm_gpu_slot(c->gpu);
        if (!a.section_nbytes)
            return fzm_err_set(c->err, FZM_ERR_ENGINE, "Bitpack: no slot left");
        if (a.n_blocks > 1)
            FZM_TRY(fzm_gpu_check(cudaMemsetAsync(a.lookback, 0, a.n_blocks * sizeof(uint64_t), stream),
                                  "Bitpack: look-back", c->err));
        return encode(c, &a);
    }
    c->out[0].nbytes = (size_t)(8 + fzm_bitpack_fields_nbytes(a.n_elems, a.nbits));
    if (a.nbits == elem_nbits)
        return encode(c, &a);
    uint64_t first_misfit;
    a.first_misfit = (uint64_t *)c->scratch;
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(a.first_misfit, 0xff, sizeof first_misfit, stream),
                          "Bitpack: misfit", c->err));
    FZM_TRY(encode(c, &a));
    /* input that does not fit is refused, so this forward() has to wait */
    FZM_TRY(fzm_gpu_read(c->gpu, &first_misfit, a.first_misfit, sizeof first_misfit, c->err));
    return first_misfit == UINT64_MAX ? 0 : misfit_error(c, &a, first_misfit);
}

static int inverse_nbytes(const struct fzm_call *c, size_t *in_nbytes)
{
    uint8_t bytes[8] = {0};
    if (c->out[0].nbytes > 0 && c->out[0].nbytes < sizeof bytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitpack: section of %zu bytes", c->out[0].nbytes);
    if (c->out[0].nbytes)
        FZM_TRY(fzm_gpu_read(c->gpu, bytes, c->out[0].data, sizeof bytes, c->err));
    *in_nbytes = (size_t)fzm_get_le64(bytes);
    return 0;
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_bitpack;
const struct fzm_gpu_ops fzm_gpu_ops_bitpack = {
    &fzm_stage_bitpack, scratch, NULL, inverse_nbytes, forward, fzm_gpu_bitpack_inverse,
};
}
