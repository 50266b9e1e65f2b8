/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks in device memory. */
#include "ctx.h"

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

static int compress(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in, size_t in_nbytes,
                    void *out, size_t out_cap, size_t *out_nbytes, void *stream)
{
    struct fzm_chunk chunk = {.pipeline = pipeline};
    FZM_TRY(open_gpu(ctx));
    FZM_TRY(fzm_shape_from_array(&chunk.shape, array, &ctx->err));
    if (in_nbytes != fzm_shape_nbytes(&chunk.shape))
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "chunk has %zu bytes, its type and shape need %zu", in_nbytes,
                           fzm_shape_nbytes(&chunk.shape));
    if (array->big_endian && fzm_dtype_nbytes(array->dtype) > 1)
        return fzm_err_set(&ctx->err, FZM_ERR_UNSUPPORTED, "device memory: elements must be in the host's byte order");
    if ((uintptr_t)out % 16 != 0)
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "device memory: out must be 16-byte aligned");
    if ((uintptr_t)in % fzm_dtype_nbytes(array->dtype) != 0)
        return fzm_err_set(&ctx->err, FZM_ERR_ARGUMENT, "device memory: in must be aligned to its elements");
    chunk.fill = array->has_fill == FZM_FILL_VALUE ? array->fill : NULL;
    return fzm_gpu_class->compress_device(ctx, &chunk, in, out, out_cap, out_nbytes, stream);
}

int fzm_compress_device(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in,
                        size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes, void *stream)
{
    *out_nbytes = 0;
    const uint64_t fpenv = fzm_fpenv_enter();
    const int code = compress(ctx, pipeline, array, in, in_nbytes, out, out_cap, out_nbytes, stream);
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
