/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine: where the buffers of a run live and who runs the stages. run.c walks graphs for any engine. */
#ifndef FZM_BACKEND_H
#define FZM_BACKEND_H

#include "cpu/fused.h"
#include "stream.h"

/* A chunk to compress. */
struct fzm_chunk {
    const struct fzm_pipeline *pipeline;
    struct fzm_shape shape;
    bool big_endian; /* of the array in the file; the elements here are in host byte order */
    const void *fill; /* one element in host memory and byte order; NULL: none */
    bool fill_is_padding; /* fill counts only if the first or the last element has it: for arrays in device memory */
};

struct fzm_backend {
    const char *name;

    /* Scratch memory as in arena.h; get() returns NULL when there is none. */
    void *(*get)(fzm_ctx *ctx, size_t nbytes);
    void (*touch)(fzm_ctx *ctx, const void *data, size_t nbytes);
    void (*put)(fzm_ctx *ctx, void *data);

    /* Where a port of a stream's run lies in the stream that write() will make, or NULL: not known, no room, or taken.
     * NULL: outputs are never in place. */
    void *(*place)(fzm_ctx *ctx, const struct fzm_stream *s, unsigned node, unsigned port, size_t nbytes);

    /* The functions of a stage's row, as this engine has them. */
    size_t (*scratch)(fzm_ctx *ctx, const struct fzm_stage *stage, const void *params,
                      const struct fzm_shape *in);
    int (*resolve)(const struct fzm_stage *stage, void *params, const struct fzm_call *c);
    int (*inverse_nbytes)(const struct fzm_stage *stage, const struct fzm_call *c, size_t *in_nbytes);
    int (*forward)(const struct fzm_stage *stage, struct fzm_call *c);
    int (*inverse)(const struct fzm_stage *stage, struct fzm_call *c);

    /* NULL-ended, longest chains first. */
    const struct fzm_fused *const *fused;

    /* Waits for what has been enqueued, so that pending_nbytes() can be asked. NULL: nothing is ever pending. */
    int (*settle)(fzm_ctx *ctx);
    uint64_t (*pending_nbytes)(fzm_ctx *ctx, const uint64_t *pending);

    /* Puts header and sections together at out; *out_nbytes is the stream's size. As fzm_stream_write(). */
    int (*write)(fzm_ctx *ctx, struct fzm_stream *s, void *out, size_t out_cap, size_t *out_nbytes);
};

extern const struct fzm_backend fzm_cpu_backend;

/* What gpu/ adds. All functions set ctx->err when they fail. */
struct fzm_gpu_class {
    /* Opens the device of a context: makes ctx->gpu, once. FZM_ERR_ENGINE with the reason if it cannot be used. */
    int (*open)(fzm_ctx *ctx);
    void (*close)(fzm_ctx *ctx);
    size_t (*memory_nbytes)(const fzm_ctx *ctx);

    /* fzm_compress_on() and the inverse run for host memory: elements in host byte order. */
    int (*compress)(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                    size_t *out_nbytes);
    int (*decompress)(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out, bool verify);

    /* The same in device memory, enqueued on a stream. */
    int (*compress_device)(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                           size_t *out_nbytes, void *stream);
    int (*decompress_device)(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                             size_t *out_nbytes, bool verify, void *stream);

    /* The array in device memory, the stream in host memory; the result is there on return. */
    int (*compress_from_device)(fzm_ctx *ctx, const struct fzm_chunk *chunk, const void *in, void *out, size_t out_cap,
                                size_t *out_nbytes);
    int (*decompress_to_device)(fzm_ctx *ctx, struct fzm_stream *s, const void *in, size_t in_nbytes, void *out,
                                bool verify);
    int (*copy_to_device)(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out);
};

/* NULL in builds without CUDA. */
extern const struct fzm_gpu_class *const fzm_gpu_class;

#endif
