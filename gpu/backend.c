/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine as the graph walker and fzm_compress() see it. */
#include "engine.h"
#include "payload.h"

#include "../core/stages.h"

#include <string.h>

#define FZM_DECLARE_OPS(name) extern const struct fzm_gpu_ops fzm_gpu_ops_##name;
FZM_GPU_STAGES(FZM_DECLARE_OPS)
#define FZM_LIST_OPS(name) &fzm_gpu_ops_##name,
static const struct fzm_gpu_ops *const all_ops[] = {FZM_GPU_STAGES(FZM_LIST_OPS)};

extern const struct fzm_fused *const fzm_gpu_fused[]; /* fused.cu */

static const struct fzm_gpu_ops *ops_of(const struct fzm_stage *stage)
{
    for (size_t i = 0; i < sizeof all_ops / sizeof all_ops[0]; i++)
        if (all_ops[i]->stage == stage)
            return all_ops[i];
    return NULL;
}

/* ---- for ops ---- */

static struct fzm_gpu_engine *engine_of(struct fzm_gpu *gpu) { return (struct fzm_gpu_engine *)(void *)gpu; }

uint64_t *fzm_gpu_slot(struct fzm_gpu *gpu)
{
    struct fzm_gpu_engine *const e = engine_of(gpu);
    return e->n_slots < FZM_GPU_N_SLOTS ? &e->words[1 + e->n_slots++] : NULL;
}

static const uint8_t *find_known(const struct fzm_gpu_engine *e, const void *device, size_t nbytes)
{
    for (unsigned i = 0; i < e->n_known; i++) {
        const struct fzm_gpu_known *const k = &e->known[i];
        const size_t at = (size_t)((uintptr_t)device - (uintptr_t)k->device);
        if ((uintptr_t)device >= (uintptr_t)k->device && at <= k->nbytes && nbytes <= k->nbytes - at)
            return k->host + at;
    }
    return NULL;
}

int fzm_gpu_read(struct fzm_gpu *gpu, void *host, const void *device, size_t nbytes, struct fzm_err *err)
{
    struct fzm_gpu_engine *const e = engine_of(gpu);
    char *const pinned = (char *)(e->host_words + FZM_GPU_N_WORDS);
    const bool fits = nbytes <= FZM_GPU_READ_NBYTES;
    const uint8_t *const known = find_known(e, device, nbytes);
    if (known) {
        memcpy(host, known, nbytes);
        return 0;
    }
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(fits ? pinned : host, device, nbytes, cudaMemcpyDeviceToHost, gpu->stream), "read",
                          err));
    FZM_TRY(fzm_gpu_check(cudaStreamSynchronize(gpu->stream), "read", err));
    if (fits)
        memcpy(host, pinned, nbytes);
    return 0;
}

/* ---- for the walker ---- */

static void touch(fzm_ctx *ctx, const void *data, size_t nbytes) { (void)ctx, (void)data, (void)nbytes; }

static size_t scratch(fzm_ctx *ctx, const struct fzm_stage *stage, const void *params, const struct fzm_shape *in)
{
    (void)ctx;
    const struct fzm_gpu_ops *const ops = ops_of(stage);
    return ops->scratch ? ops->scratch(params, in) : 0;
}

static int resolve(const struct fzm_stage *stage, void *params, const struct fzm_call *c)
{
    return ops_of(stage)->resolve(params, c);
}

static int inverse_nbytes(const struct fzm_stage *stage, const struct fzm_call *c, size_t *in_nbytes)
{
    return ops_of(stage)->inverse_nbytes(c, in_nbytes);
}

static int forward(const struct fzm_stage *stage, struct fzm_call *c) { return ops_of(stage)->forward(c); }
static int inverse(const struct fzm_stage *stage, struct fzm_call *c) { return ops_of(stage)->inverse(c); }

int fzm_gpu_settle(fzm_ctx *ctx)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    const size_t nbytes = (1 + e->n_slots) * sizeof *e->words;
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(e->host_words, e->words, nbytes, cudaMemcpyDeviceToHost, e->ops.stream), "run",
                          &ctx->err));
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(e->words, 0, nbytes, e->ops.stream), "run", &ctx->err));
    FZM_TRY(fzm_gpu_check(cudaStreamSynchronize(e->ops.stream), "run", &ctx->err));
    e->n_slots = 0;
    if (e->host_words[0] & FZM_GPU_DAMAGED_PAYLOAD)
        return fzm_err_set(&ctx->err, FZM_ERR_CORRUPT, "stream payload does not match its checksum");
    if (e->host_words[0])
        return fzm_err_set(&ctx->err, FZM_ERR_CORRUPT, "a section of the stream is damaged");
    return 0;
}

static uint64_t pending_nbytes(fzm_ctx *ctx, const uint64_t *pending)
{
    const struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    return e->host_words[pending - e->words];
}

int fzm_gpu_take(fzm_ctx *ctx, void **data, size_t nbytes)
{
    *data = fzm_gpu_get(ctx, nbytes);
    if (!*data)
        return fzm_err_set(&ctx->err, FZM_ERR_MEMORY, "GPU: out of device memory (%zu bytes)", nbytes);
    return 0;
}

/* The first section of the first run of a chunk. The header's length is that of the params as they are now, and what
 * params that later stages settle have added to the last one. Should that be wrong, move_misplaced() puts it right. */
static void *place(fzm_ctx *ctx, const struct fzm_stream *s, unsigned node, unsigned port, size_t nbytes)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    struct fzm_stream copy = *s;
    struct fzm_header header;
    struct fzm_err err = {0};
    if (e->is_placed || fzm_stream_list_sections(&copy, &err) < 0 || copy.sections[0].node != node ||
        copy.sections[0].port != port || fzm_stream_make_header(&copy, &header, SIZE_MAX, &err) < 0)
        return NULL;
    const size_t header_nbytes = copy.header_nbytes + e->header_growth;
    if (!e->out) {
        const size_t bound = fzm_shape_nbytes(&s->shape) + FZM_MAX_OVERHEAD_NBYTES, room = nbytes + FZM_MAX_HEADER_NBYTES + 16;
        e->out_cap = room > bound ? room : bound;
        e->out = fzm_gpu_get(ctx, e->out_cap);
    }
    /* ops may write whole words at the end */
    if (!e->out || e->out_cap < header_nbytes || e->out_cap - header_nbytes < nbytes + 16)
        return NULL;
    e->is_placed = true;
    e->header_nbytes = copy.header_nbytes;
    return e->out + header_nbytes;
}

/* Takes a section out of the way of a stream in which it would lie elsewhere. */
static int move_misplaced(fzm_ctx *ctx, struct fzm_stream *s)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    struct fzm_section *const first = &s->sections[0];
    const uintptr_t at = (uintptr_t)first->data, begin = (uintptr_t)e->out;
    void *data;
    if (first->nbytes == 0 || at < begin || at - begin >= e->out_cap || at - begin == s->header_nbytes)
        return 0;
    FZM_TRY(fzm_gpu_take(ctx, &data, (size_t)first->nbytes));
    FZM_TRY(fzm_gpu_check(cudaMemcpyAsync(data, first->data, (size_t)first->nbytes, cudaMemcpyDeviceToDevice, e->ops.stream),
                          "payload", &ctx->err));
    first->data = (const uint8_t *)data;
    return 0;
}

static int write_stream(fzm_ctx *ctx, struct fzm_stream *s, void *out, size_t out_cap, size_t *out_nbytes)
{
    struct fzm_gpu_engine *const e = fzm_gpu_of(ctx);
    uint64_t *const hash = e->words + FZM_GPU_N_WORDS - 1;
    struct fzm_header header;
    struct fzm_gpu_parts parts = {0};
    struct fzm_gpu_header head;
    uint64_t end = 0;
    void *data;
    if (!e->out) {
        e->out_cap = fzm_shape_nbytes(&s->shape) + FZM_MAX_OVERHEAD_NBYTES;
        FZM_TRY(fzm_gpu_take(ctx, &data, e->out_cap));
        e->out = data;
    }
    out = e->out;
    FZM_TRY(fzm_stream_make_header(s, &header, out_cap, &ctx->err));
    if (e->is_placed)
        e->header_growth = s->header_nbytes > e->header_nbytes ? s->header_nbytes - e->header_nbytes : 0;
    FZM_TRY(move_misplaced(ctx, s));
    for (unsigned i = 0; i < s->n_sections; i++) {
        if (s->sections[i].nbytes == 0)
            continue;
        end += s->sections[i].nbytes;
        parts.data[parts.n] = s->sections[i].data;
        parts.end[parts.n++] = end;
    }
    head.nbytes = (uint32_t)s->header_nbytes;
    head.hash_at = (uint32_t)header.hash_at;
    memcpy(head.bytes, header.bytes, s->header_nbytes);
    FZM_TRY(fzm_gpu_check(fzm_gpu_payload_gather(&parts, (uint8_t *)out + s->header_nbytes, hash, e->ops.stream), "payload",
                          &ctx->err));
    FZM_TRY(fzm_gpu_check(fzm_gpu_payload_head(&head, out, hash, e->ops.stream), "header", &ctx->err));
    *out_nbytes = s->header_nbytes + (size_t)s->payload_nbytes;
    return 0;
}

const struct fzm_backend fzm_gpu_backend = {
    .name = "gpu",
    .get = fzm_gpu_get,
    .touch = touch,
    .put = fzm_gpu_put,
    .place = place,
    .scratch = scratch,
    .resolve = resolve,
    .inverse_nbytes = inverse_nbytes,
    .forward = forward,
    .inverse = inverse,
    .fused = fzm_gpu_fused,
    .settle = fzm_gpu_settle,
    .pending_nbytes = pending_nbytes,
    .write = write_stream,
};
