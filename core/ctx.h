/* SPDX-License-Identifier: BSD-3-Clause */
/* The context: engine, threads, scratch memory, last error. */
#ifndef FZM_CTX_H
#define FZM_CTX_H

#include "arena.h"
#include "cpu/pool.h"
#include "backend.h"

/* What engine auto has measured, per direction and power of two of the size. [0]: CPU, [1]: GPU. */
enum fzm_direction { FZM_COMPRESS, FZM_DECOMPRESS };
enum { FZM_N_SIZE_CLASSES = 33 };

struct fzm_choice_class {
    unsigned n[2];
    double least_s[2]; /* seconds per byte */
};

struct fzm_choice {
    bool gpu_is_off;
    unsigned n_gpu_failures;
    struct fzm_choice_class classes[2][FZM_N_SIZE_CLASSES];
};

struct fzm_ctx {
    int engine;
    unsigned n_threads;
    int device; /* index, or -1: by local MPI rank */
    bool fusion, poison;
    struct fzm_pool *pool;
    struct fzm_arena arena;
    struct fzm_err err;
    const char *engine_used;
    struct fzm_gpu *gpu; /* gpu/engine.h; NULL until the first chunk that goes there */
    struct fzm_choice choice;
    void (*log)(void *arg, const char *text); /* warnings; may be NULL */
    void *log_arg;
    struct fzm_pipeline lossless; /* for bounds of 0 and chunks that a lossy pipeline does not shrink */
    struct fzm_stream stream;     /* working copies, too large for small stacks */
    struct fzm_stream candidate;
};

/* Tests compare fused with staged runs: same bytes. On by default. */
void fzm_ctx_set_fusion(fzm_ctx *ctx, int on);

/* Tests fill the GPU engine's scratch memory with junk before each use. Off by default. */
void fzm_ctx_set_poison(fzm_ctx *ctx, int on);

/* ---- compress.c ---- */

/* Compresses a chunk that lies in the engine's memory, as is its output. Returns 1, with junk in out, if the stored
 * form would not be longer. */
int fzm_compress_on(fzm_ctx *ctx, const struct fzm_backend *backend, const struct fzm_chunk *chunk, const void *in,
                    void *out, size_t out_cap, size_t *out_nbytes);

/* Writes a stream with the elements as they are, in the byte order that chunk->big_endian says. */
int fzm_write_stored(fzm_ctx *ctx, const struct fzm_backend *backend, const struct fzm_chunk *chunk, const void *in,
                     void *out, size_t out_cap, size_t *out_nbytes);

/* ---- device.c ---- */

/* Can the array of a stream be restored to this place in device memory? */
int fzm_device_check_out(fzm_ctx *ctx, const struct fzm_stream *s, const void *out, size_t out_cap);

/* ---- run_forward.c, run_inverse.c ---- */

/* Runs a graph forward over a chunk (host byte order). On success the sections of s have data in the
 * engine's memory and their sizes. s->shape, mode, bound, graph (with inherited bounds) are set by the
 * caller. Returns 1, with nothing run, if a stage says that the bound asks for exact values. */
int fzm_run_forward(fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s, const void *in,
                    const void *fill);

/* Runs the inverse of a stream that was read by fzm_stream_read(): fills out (host byte order). */
int fzm_run_inverse(fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s, void *out);

#endif
