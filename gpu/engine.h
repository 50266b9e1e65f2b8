/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine of a context: device, stream, memory. */
#ifndef FZM_GPU_ENGINE_H
#define FZM_GPU_ENGINE_H

#include <sys/types.h>

#include "ops.h"

#include "../core/ctx.h"

/* A piece of device memory, kept from chunk to chunk. */
struct fzm_gpu_block {
    char *data;
    size_t nbytes;
    int in_use; /* BLOCK_* of arena.c */
};

/* Pinned memory of a copying thread: while one half is transferred, the other one is filled. */
struct fzm_gpu_lane {
    cudaStream_t stream;
    cudaEvent_t done[2];
    char *half[2];
    unsigned next;
};

/* Bytes of a stream that is decoded, which the host has too: fzm_gpu_read() need not wait for them. */
struct fzm_gpu_known {
    const uint8_t *device, *host;
    size_t nbytes;
};

struct fzm_gpu_engine {
    struct fzm_gpu ops; /* first: fzm_ctx.gpu */
    int device;
    pid_t pid;
    bool has_pool;             /* cudaMallocAsync() works */
    cudaStream_t own_stream;   /* for chunks in host memory */
    cudaEvent_t ready;
    uint64_t *words;           /* device: [0] damage, then the slots, then the payload's hash */
    uint64_t *host_words;      /* pinned copy; also for small reads */
    unsigned n_slots;
    char *out;                 /* the stream that is being made; NULL: memory for it is still to be taken */
    size_t out_cap;
    bool is_placed;            /* a section lies there already */
    size_t header_nbytes;      /* ... behind a header of this size, as foreseen */
    size_t header_growth;      /* by how much the last chunk's header was longer than foreseen */
    struct fzm_gpu_known known[FZM_MAX_SECTIONS];
    unsigned n_known;
    struct fzm_gpu_block *blocks;
    size_t n_blocks, cap_blocks, peak_nbytes;
    struct fzm_gpu_lane *lanes; /* one per thread of the pool */
    unsigned n_lanes;
};

enum { FZM_GPU_PIECE_NBYTES = 2 << 20, FZM_GPU_N_WORDS = FZM_GPU_N_SLOTS + 2, FZM_GPU_READ_NBYTES = 4096, FZM_GPU_HEADS_NBYTES = 64 * FZM_MAX_SECTIONS };

/* What ops.corrupt says. */
enum { FZM_GPU_DAMAGED_SECTION = 1, FZM_GPU_DAMAGED_PAYLOAD = 2 };

static inline struct fzm_gpu_engine *fzm_gpu_of(const fzm_ctx *ctx) { return (struct fzm_gpu_engine *)(void *)ctx->gpu; }

/* ---- open.c ---- */
int fzm_gpu_open(fzm_ctx *ctx);
void fzm_gpu_close(fzm_ctx *ctx);

/* Between these two the engine's device is the thread's current one. enter() fails where CUDA must not be used. */
int fzm_gpu_enter(fzm_ctx *ctx, cudaStream_t stream, int *callers_device);
void fzm_gpu_leave(fzm_ctx *ctx, int callers_device);

/* ---- arena.c: as core/arena.h, in device memory ---- */
void *fzm_gpu_get(fzm_ctx *ctx, size_t nbytes);
void fzm_gpu_put(fzm_ctx *ctx, void *data);
void fzm_gpu_reset(fzm_ctx *ctx);
void fzm_gpu_free_all(struct fzm_gpu_engine *e);
size_t fzm_gpu_memory_nbytes(const fzm_ctx *ctx);

/* ---- staging.c: between pageable and device memory, in pieces on all threads ---- */

/* upload: what comes after it on the engine's stream finds the bytes there. */
int fzm_gpu_upload(fzm_ctx *ctx, void *device, const void *host, size_t nbytes);
/* download: comes after what is on the engine's stream; the bytes are there on return. */
int fzm_gpu_download(fzm_ctx *ctx, void *host, const void *device, size_t nbytes);
void fzm_gpu_free_lanes(struct fzm_gpu_engine *e);

/* ---- backend.c ---- */
extern const struct fzm_backend fzm_gpu_backend;
int fzm_gpu_settle(fzm_ctx *ctx);

/* fzm_gpu_get(), or FZM_ERR_MEMORY. */
int fzm_gpu_take(fzm_ctx *ctx, void **data, size_t nbytes);

#endif
