/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of a context. Blocks are handed out in stream order: one that has been given back may be used again
 * at once by what is enqueued later. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_IDLE = 0, BLOCK_USED = 1, BLOCK_RELEASED = 2 };

/* Ops read and write whole vectors at the end of a buffer. */
enum { SLACK_NBYTES = 256 };

static size_t round_up(size_t nbytes)
{
    size_t step = 4096;
    while (step < nbytes / 16)
        step *= 2;
    return (nbytes + step - 1) / step * step;
}

static char *block_alloc(struct fzm_gpu_engine *e, size_t nbytes)
{
    void *data = NULL;
    const cudaError_t code =
        e->has_pool ? cudaMallocAsync(&data, nbytes, e->ops.stream) : cudaMalloc(&data, nbytes);
    if (code == cudaSuccess)
        return data;
    cudaGetLastError(); /* not sticky */
    return NULL;
}

static void block_free(struct fzm_gpu_engine *e, struct fzm_gpu_block *b)
{
    if (e->has_pool)
        cudaFreeAsync(b->data, e->ops.stream);
    else
        cudaFree(b->data);
}

/* Frees blocks that are not in use. */
static void trim(struct fzm_gpu_engine *e, bool idle_only)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < e->n_blocks; i++) {
        struct fzm_gpu_block *const b = &e->blocks[i];
        if (b->in_use == BLOCK_IDLE || (!idle_only && b->in_use == BLOCK_RELEASED))
            block_free(e, b);
        else
            e->blocks[n_kept++] = *b;
    }
    e->n_blocks = n_kept;
}

size_t fzm_gpu_memory_nbytes(const fzm_ctx *ctx)
{
    const struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    size_t nbytes = 0;
    for (size_t i = 0; i < e->n_blocks; i++)
        nbytes += e->blocks[i].nbytes;
    return nbytes;
}

void *fzm_gpu_get(fzm_ctx *ctx, size_t nbytes)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    struct fzm_gpu_block *best = NULL;
    if (nbytes > SIZE_MAX / 2)
        return NULL;
    const size_t want = round_up(nbytes + SLACK_NBYTES);
    for (size_t i = 0; i < e->n_blocks; i++) {
        struct fzm_gpu_block *const b = &e->blocks[i];
        if (b->in_use != BLOCK_USED && b->nbytes >= want && b->nbytes / 2 <= want && (!best || b->nbytes < best->nbytes))
            best = b;
    }
    if (!best) {
        if (e->n_blocks == e->cap_blocks) {
            const size_t cap = e->cap_blocks ? 2 * e->cap_blocks : 64;
            struct fzm_gpu_block *const more = realloc(e->blocks, cap * sizeof *more);
            if (!more)
                return NULL;
            e->blocks = more;
            e->cap_blocks = cap;
        }
        char *data = block_alloc(e, want);
        if (!data) {
            trim(e, false);
            data = block_alloc(e, want);
        }
        if (!data)
            return NULL;
        best = &e->blocks[e->n_blocks++];
        best->data = data;
        best->nbytes = want;
        const size_t now = fzm_gpu_memory_nbytes(ctx);
        e->peak_nbytes = now > e->peak_nbytes ? now : e->peak_nbytes;
    }
    best->in_use = BLOCK_USED;
    if (ctx->poison)
        cudaMemsetAsync(best->data, 0xa5, best->nbytes, e->ops.stream);
    return best->data;
}

void fzm_gpu_put(fzm_ctx *ctx, void *data)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    for (size_t i = 0; i < e->n_blocks; i++)
        if (e->blocks[i].data == data)
            e->blocks[i].in_use = BLOCK_RELEASED;
}

void fzm_gpu_reset(fzm_ctx *ctx)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    trim(e, true);
    for (size_t i = 0; i < e->n_blocks; i++)
        e->blocks[i].in_use = BLOCK_IDLE;
}

void fzm_gpu_free_all(struct fzm_gpu_engine *e)
{
    for (size_t i = 0; i < e->n_blocks; i++)
        block_free(e, &e->blocks[i]);
    free(e->blocks);
    e->blocks = NULL;
    e->n_blocks = e->cap_blocks = 0;
}
