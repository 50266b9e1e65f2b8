/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks in device memory. */
#include "ctx.h"

#include "choice.h"

#include "cpu/fpenv.h"
#include "shape.h"

#include <string.h>

static int open_gpu(fzm_ctx *ctx)
{
    memset(&ctx->err, 0, sizeof ctx->err);
    if (!fzm_gpu_class)
        return fzm_err_set(&ctx->err, FZM_ERR_ENGINE, "device memory: this build has no GPU engine");
    ctx->engine_used = "gpu";
    return ctx->gpu ? 0 : fzm_gpu_class->open(ctx);
}

/* What is true of the array in any of these calls. */
static int make_chunk(fzm_ctx *ctx, struct fzm_chunk *chunk, const fzm_pipeline *pipeline, const fzm_array *array,
                      const void *in, size_t in_nbytes)
{
    memset(chunk, 0, sizeof *chunk);
    FZM_TRY(open_gpu(ctx));
    FZM_TRY(fzm_shape_from_array(&chunk->shape, array, &ctx->err));
    FZM_TRY(fzm_choice_check_gpu(&pipeline->graph, &ctx->err));
    if (in_nbytes != fzm_shape_nbytes(&chunk->shape))
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "chunk has %zu bytes, its type and shape need %zu", in_nbytes,
                           fzm_shape_nbytes(&chunk->shape));
    if (array->big_endian && fzm_dtype_nbytes(array->dtype) > 1)
        return fzm_err_set(&ctx->err, FZM_ERR_UNSUPPORTED, "device memory: elements must be in the host's byte order");
    if ((uintptr_t)in % fzm_dtype_nbytes(array->dtype) != 0)
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "device memory: in must be aligned to its elements");
    chunk->pipeline = pipeline;
    chunk->fill = array->has_fill ? array->fill : NULL;
    chunk->fill_is_padding = array->has_fill == FZM_FILL_PADDING;
    return 0;
}

int fzm_compress_device(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in,
                        size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes, void *stream)
{
    struct fzm_chunk chunk;
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    int code = make_chunk(ctx, &chunk, pipeline, array, in, in_nbytes);
    if (code == 0 && (uintptr_t)out % 16 != 0)
        code = fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "device memory: out must be 16-byte aligned");
    if (code == 0)
        code = fzm_gpu_class->compress_device(ctx, &chunk, in, out, out_cap, out_nbytes, stream);
    fzm_fpenv_leave(fpenv);
    return code;
}

int fzm_compress_from_device(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in,
                             size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes)
{
    struct fzm_chunk chunk;
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    int code = make_chunk(ctx, &chunk, pipeline, array, in, in_nbytes);
    if (code == 0)
        code = fzm_gpu_class->compress_from_device(ctx, &chunk, in, out, out_cap, out_nbytes);
    fzm_fpenv_leave(fpenv);
    return code;
}

int fzm_decompress_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes,
                          int verify, void *stream)
{
    *out_nbytes = 0;
    FZM_TRY(open_gpu(ctx));
    return fzm_gpu_class->decompress_device(ctx, in, in_nbytes, out, out_cap, out_nbytes, verify != 0, stream);
}

int fzm_device_check_out(fzm_ctx *ctx, const struct fzm_stream *s, const void *out, size_t out_cap)
{
    const size_t nbytes = fzm_shape_nbytes(&s->shape);
    FZM_TRY(fzm_choice_check_gpu(&s->graph, &ctx->err));
    if (nbytes > out_cap)
        return fzm_err_set(&ctx->err, FZM_ERR_CAPACITY, "chunk of %zu bytes does not fit into %zu", nbytes, out_cap);
    if (s->big_endian && fzm_dtype_nbytes(s->shape.dtype) > 1)
        return fzm_err_set(&ctx->err, FZM_ERR_UNSUPPORTED, "device memory: elements must be in the host's byte order");
    if ((uintptr_t)out % fzm_dtype_nbytes(s->shape.dtype) != 0)
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "device memory: out must be aligned to its elements");
    return 0;
}

int fzm_decompress_to_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                             size_t *out_nbytes, int verify)
{
    struct fzm_stream *const s = &ctx->stream;
    *out_nbytes = 0;
    FZM_TRY(open_gpu(ctx));
    FZM_TRY(fzm_stream_read(s, in, in_nbytes, &ctx->err));
    FZM_TRY(fzm_device_check_out(ctx, s, out, out_cap));
    FZM_TRY(fzm_gpu_class->decompress_to_device(ctx, s, in, in_nbytes, out, verify != 0));
    *out_nbytes = fzm_shape_nbytes(&s->shape);
    return 0;
}

int fzm_copy_to_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out)
{
    FZM_TRY(open_gpu(ctx));
    return fzm_gpu_class->copy_to_device(ctx, in, in_nbytes, out);
}
