/* SPDX-License-Identifier: BSD-3-Clause */
/* The ops of RZE and RRE: included by rze.cu and rre.cu. */
#ifndef FZM_GPU_ZERO_OPS_CUH
#define FZM_GPU_ZERO_OPS_CUH

#include "zero_stage_decode.cuh"

typedef void (*fzm_zero_kernel)(struct fzm_zero_args);

/* As in core/stages/zero_stage.h. */
static unsigned fzm_zero_word_of(const struct fzm_zero_code_params *p, int dtype, bool repeats)
{
    return p->word ? 1u << (p->word - 1) : repeats ? (unsigned)fzm_dtype_nbytes(dtype) : 1u;
}

static uint32_t fzm_zero_chunk_nbytes_of(const struct fzm_zero_code_params *p, int dtype)
{
    return p->chunk_size ? p->chunk_size : 4096u * (uint32_t)fzm_dtype_nbytes(dtype);
}

static size_t fzm_zero_scratch(const void *params, const struct fzm_shape *in)
{
    const uint32_t chunk_nbytes =
        fzm_zero_chunk_nbytes_of((const struct fzm_zero_code_params *)params, in->dtype);
    return (size_t)fzm_zero_n_chunks(fzm_shape_nbytes(in), chunk_nbytes) * sizeof(uint64_t);
}

static struct fzm_zero_args fzm_zero_args_of(const struct fzm_call *c)
{
    struct fzm_zero_args a;
    memset(&a, 0, sizeof a);
    a.array = (uint8_t *)c->in[0].data;
    a.section = (uint8_t *)c->out[0].data;
    a.in_nbytes = c->in[0].nbytes;
    a.section_nbytes = c->out[0].nbytes;
    a.chunk_nbytes =
        fzm_zero_chunk_nbytes_of((const struct fzm_zero_code_params *)c->params, c->in[0].shape.dtype);
    a.n_chunks = (uint32_t)fzm_zero_n_chunks(a.in_nbytes, a.chunk_nbytes);
    a.lookback = (uint64_t *)c->scratch;
    a.corrupt = c->gpu->corrupt;
    return a;
}

/* Shared memory of the encoder: words and payload; of the decoder: payload, and a segment for each warp but
 * one. More decoders do not help since segments are found one after the other. */
static int fzm_zero_launch(fzm_zero_kernel kernel, const struct fzm_zero_args *a, unsigned word, bool decodes,
                           const struct fzm_call *c)
{
    enum { MAX_DECODERS = 8, WITHOUT_ASKING = 40 << 10 };
    const uint32_t segment_nbytes = FZM_ZERO_SEGMENT_WORDS * word, room = fzm_zero_room(a->chunk_nbytes);
    const uint32_t n_segments = (a->chunk_nbytes + segment_nbytes - 1) / segment_nbytes;
    const uint32_t most = decodes ? (uint32_t)MAX_DECODERS : (uint32_t)FZM_ZERO_MAX_WARPS;
    const uint32_t wanted = decodes ? (n_segments + 1) / 2 : n_segments > 1 ? n_segments : 2;
    const uint32_t n_warps = wanted < most ? wanted : most;
    const uint32_t shared_nbytes = decodes ? room + n_warps * segment_nbytes : 2 * room;
    if (shared_nbytes > WITHOUT_ASKING)
        FZM_TRY(fzm_gpu_check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_nbytes),
            "shared memory of a chunk", c->err));
    kernel<<<a->n_chunks, 32 * (n_warps + decodes), shared_nbytes, c->gpu->stream>>>(*a);
    return fzm_gpu_check(cudaGetLastError(), "coding of zero words", c->err);
}

template <bool REPEATS> static int fzm_zero_forward(struct fzm_call *c)
{
    const unsigned word =
        fzm_zero_word_of((const struct fzm_zero_code_params *)c->params, c->in[0].shape.dtype, REPEATS);
    struct fzm_zero_args a = fzm_zero_args_of(c);
    c->out[0].pending = NULL;
    c->out[0].nbytes = 0;
    if (a.in_nbytes == 0)
        return 0;
    a.section_nbytes_slot = c->out[0].pending = fzm_gpu_slot(c->gpu);
    if (!a.section_nbytes_slot)
        return fzm_err_set(c->err, FZM_ERR_ENGINE, "%s: no slot left", REPEATS ? "RRE" : "RZE");
    if (a.n_chunks > 1)
        FZM_TRY(fzm_gpu_check(cudaMemsetAsync(a.lookback, 0, a.n_chunks * sizeof *a.lookback, c->gpu->stream),
                              "look-back", c->err));
    switch (word) {
    case 1: return fzm_zero_launch(fzm_zero_encode_kernel<1, REPEATS>, &a, word, false, c);
    case 2: return fzm_zero_launch(fzm_zero_encode_kernel<2, REPEATS>, &a, word, false, c);
    case 4: return fzm_zero_launch(fzm_zero_encode_kernel<4, REPEATS>, &a, word, false, c);
    default: return fzm_zero_launch(fzm_zero_encode_kernel<8, REPEATS>, &a, word, false, c);
    }
}

template <bool REPEATS> static int fzm_zero_inverse_nbytes(const struct fzm_call *c, size_t *in_nbytes)
{
    uint8_t bytes[8];
    *in_nbytes = 0;
    if (c->out[0].nbytes == 0)
        return 0;
    if (c->out[0].nbytes < sizeof bytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "%s: section of %zu bytes is cut",
                           REPEATS ? "RRE" : "RZE", c->out[0].nbytes);
    FZM_TRY(fzm_gpu_read(c->gpu, bytes, c->out[0].data, sizeof bytes, c->err));
    const uint64_t n = fzm_get_le64(bytes);
    if (n == 0 || n > SIZE_MAX / 2)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "%s: section with an impossible size of its input",
                           REPEATS ? "RRE" : "RZE");
    *in_nbytes = (size_t)n;
    return 0;
}

template <bool REPEATS> static int fzm_zero_inverse(struct fzm_call *c)
{
    const unsigned word =
        fzm_zero_word_of((const struct fzm_zero_code_params *)c->params, c->in[0].shape.dtype, REPEATS);
    const struct fzm_zero_args a = fzm_zero_args_of(c);
    if (a.section_nbytes < fzm_zero_table_nbytes(a.n_chunks) || (a.in_nbytes == 0 && a.section_nbytes != 0))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "section of %zu bytes does not hold %zu",
                           c->out[0].nbytes, c->in[0].nbytes);
    if (a.in_nbytes == 0)
        return 0;
    switch (word) {
    case 1: return fzm_zero_launch(fzm_zero_decode_kernel<1, REPEATS>, &a, word, true, c);
    case 2: return fzm_zero_launch(fzm_zero_decode_kernel<2, REPEATS>, &a, word, true, c);
    case 4: return fzm_zero_launch(fzm_zero_decode_kernel<4, REPEATS>, &a, word, true, c);
    default: return fzm_zero_launch(fzm_zero_decode_kernel<8, REPEATS>, &a, word, true, c);
    }
}

#endif
