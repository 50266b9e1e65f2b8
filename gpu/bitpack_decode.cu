/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitpack on the device, backward: 4096 elements to a block of threads, out of shared memory. The section is
 * untrusted and may have any alignment. */
#include <string.h>

extern "C" {
#include "../core/le.h"
#include "../core/stages.h"
#include "ops.h"
}

#include "bitpack_block.cuh"
#include "quantizer_load.cuh"

struct decode_args {
    void *elems;
    uint64_t n_elems, n_blocks;
    uint32_t nbits;
    uint64_t flip; /* sign bit of fields of nbits, of a signed type */
    const uint8_t *section;
    uint64_t payloads_nbytes;
    uint32_t *corrupt;
};

/* What the fields of a block are. */
struct fields {
    const uint8_t *bytes;
    uint32_t nbytes, width, shift;
    uint64_t minimum;
};

/* nbits 0: false if the block is damaged. */
template <typename T> FZM_D bool find_fields(const struct decode_args *a, uint32_t n, struct fields *f)
{
    const struct fzm_section table = {a->section + 8, false};
    const uint64_t i = blockIdx.x, end = (uint64_t)fzm_section_load<uint32_t>(table, i) * 8;
    const uint64_t begin = i ? (uint64_t)fzm_section_load<uint32_t>(table, i - 1) * 8 : 0;
    if (begin > end || end > a->payloads_nbytes || (i == a->n_blocks - 1 && end != a->payloads_nbytes))
        return false;
    const uint8_t *const payload = a->section + 8 + 4 * a->n_blocks + begin;
    f->bytes = payload + FZM_BITPACK_BLOCK_HEAD_NBYTES;
    f->width = f->shift = f->nbytes = 0;
    f->minimum = 0;
    if (begin == end)
        return true;
    if (end - begin < FZM_BITPACK_BLOCK_HEAD_NBYTES)
        return false;
    f->width = payload[0];
    f->shift = payload[1];
    f->minimum = fzm_section_load<uint64_t>({payload, false}, 1);
    if (f->width > 8 * sizeof(T) || f->shift > 63 || end - begin != fzm_bitpack_block_nbytes(n, f->width))
        return false;
    f->nbytes = (uint32_t)fzm_bitpack_fields_nbytes(n, f->width);
    return true;
}

/* The fields' bytes to words in shared memory, with two words of 0 behind. */
FZM_D void stage_fields(const struct fields *f, uint32_t *words)
{
    const uint32_t n_whole = (uintptr_t)f->bytes % 4 ? 0 : f->nbytes / 4;
    for (uint32_t i = threadIdx.x; i < n_whole; i += FZM_PACK_N_THREADS)
        words[i] = ((const uint32_t *)(const void *)f->bytes)[i];
    for (uint32_t i = 4 * n_whole + threadIdx.x; i < f->nbytes / 4 * 4 + 12; i += FZM_PACK_N_THREADS)
        ((uint8_t *)(void *)words)[i] = i < f->nbytes ? f->bytes[i] : 0;
}

/* Field i of width bits, 1 to 64. */
FZM_D uint64_t field_at(const uint32_t *words, uint32_t i, uint32_t width)
{
    const uint32_t bit = i * width, *const p = words + bit / 32, shift = bit % 32;
    uint64_t v = __funnelshift_r(p[0], p[1], shift);
    if (width > 32)
        v |= (uint64_t)__funnelshift_r(p[1], p[2], shift) << 32;
    return v & fzm_bitpack_low_mask(width);
}

/* Grid: blocks of 4096 elements. */
template <typename T>
static __global__ void __launch_bounds__(FZM_PACK_N_THREADS)
    decode_kernel(const __grid_constant__ struct decode_args a)
{
    __shared__ uint32_t words[FZM_BITPACK_BLOCK_ELEMS * sizeof(T) / 4 + 3];
    const uint64_t first = (uint64_t)blockIdx.x * FZM_BITPACK_BLOCK_ELEMS;
    const uint32_t n = (uint32_t)min(a.n_elems - first, (uint64_t)FZM_BITPACK_BLOCK_ELEMS);
    struct fields f = {a.section + 8 + first / 8 * a.nbits, (uint32_t)fzm_bitpack_fields_nbytes(n, a.nbits),
                       a.nbits, 0, 0};
    bool good = blockIdx.x || fzm_section_load<uint64_t>({a.section, false}, 0) == a.n_elems * sizeof(T);
    if (a.nbits == 0)
        good = find_fields<T>(&a, n, &f) && good;
    if (!good) {
        if (threadIdx.x == 0)
            *a.corrupt = 1;
        return;
    }
    stage_fields(&f, words);
    __syncthreads();
    T *const p = (T *)a.elems + first;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < n; i += FZM_PACK_N_THREADS) {
        const uint64_t v = f.width ? field_at(words, i, f.width) << f.shift : 0;
        p[i] = (T)(a.nbits ? (v ^ a.flip) - a.flip : v + f.minimum);
    }
}

extern "C" int fzm_gpu_bitpack_inverse(struct fzm_call *c)
{
    const struct fzm_bitpack_params *const p = (const struct fzm_bitpack_params *)c->params;
    const size_t nbytes = c->out[0].nbytes;
    struct decode_args a;
    a.elems = c->in[0].data;
    a.n_elems = c->in[0].shape.n_elems;
    a.n_blocks = fzm_div_up(a.n_elems, FZM_BITPACK_BLOCK_ELEMS);
    a.nbits = p->nbits;
    a.flip = a.nbits && fzm_dtype_is_signed(c->in[0].shape.dtype) ? (uint64_t)1 << (a.nbits - 1) : 0;
    a.section = (const uint8_t *)c->out[0].data;
    a.corrupt = c->gpu->corrupt;
    const uint64_t front = a.n_elems ? 8 + (a.nbits ? 0 : 4 * a.n_blocks) : 0;
    if (nbytes < front || (a.n_elems == 0 && nbytes != 0))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitpack: section of %zu bytes", nbytes);
    if (a.n_elems == 0)
        return 0;
    a.payloads_nbytes = nbytes - front;
    if (a.nbits && a.payloads_nbytes != fzm_bitpack_fields_nbytes(a.n_elems, a.nbits))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitpack: section of %zu bytes does not match its sizes",
                           nbytes);
    const uint32_t n = (uint32_t)a.n_blocks;
    const cudaStream_t stream = c->gpu->stream;
    switch (fzm_dtype_nbytes(c->in[0].shape.dtype)) {
    case 1: decode_kernel<uint8_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(a); break;
    case 2: decode_kernel<uint16_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(a); break;
    case 4: decode_kernel<uint32_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(a); break;
    default: decode_kernel<uint64_t><<<n, FZM_PACK_N_THREADS, 0, stream>>>(a); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "Bitpack", c->err);
}
