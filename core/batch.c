/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of slots, each a thread with a context. Chunk i goes to slot i mod n; before a slot is used again its result
 * is taken, so that callbacks come in order. */
#include "fzm_batch.h"

#include "ctx.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 16, MIN_SLOTS = 2 };
#define MAX_IN_FLIGHT_NBYTES ((size_t)1 << 30)

enum state { SLOT_IDLE, SLOT_SUBMITTED, SLOT_DONE, SLOT_QUIT };
enum kind { JOB_COMPRESS, JOB_DECOMPRESS, JOB_COPY };

struct job {
    enum kind kind;
    const fzm_pipeline *pipeline; /* JOB_COMPRESS */
    const fzm_array *array;
    bool on_device; /* the array is in device memory */
    bool verify;
    const void *in;
    size_t in_nbytes;
    void *out;
    size_t out_cap;
};

struct slot {
    fzm_batch *batch;
    pthread_t thread;
    bool has_thread;
    fzm_ctx *ctx;
    uint8_t *buf; /* a stream */
    size_t buf_nbytes;
    pthread_cond_t changed;
    enum state state; /* guarded by batch->mutex; what follows belongs to whose turn it is */
    struct job job;
    int code;
    size_t out_nbytes;
};

struct fzm_batch {
    fzm_options options;
    unsigned n_threads, n_slots;
    pthread_mutex_t mutex;
    struct slot slots[MAX_SLOTS];
    char text[FZM_ERROR_TEXT_NBYTES];
};

int fzm_batch_fail(fzm_batch *batch, int code, const char *text)
{
    snprintf(batch->text, sizeof batch->text, "%s", text);
    return code;
}

/* A callback that has not said why. */
static int callback_failed(fzm_batch *batch, int code, const char *text)
{
    return batch->text[0] ? code : fzm_batch_fail(batch, code, text);
}

/* ---- slots ---- */

static int run(fzm_ctx *ctx, const struct job *j, size_t *out_nbytes)
{
    switch (j->kind) {
    case JOB_COMPRESS:
        return (j->on_device ? fzm_compress_from_device : fzm_compress)(ctx, j->pipeline, j->array, j->in, j->in_nbytes,
                                                                        j->out, j->out_cap, out_nbytes);
    case JOB_DECOMPRESS:
        return (j->on_device ? fzm_decompress_to_device : fzm_decompress)(ctx, j->in, j->in_nbytes, j->out, j->out_cap,
                                                                          out_nbytes, j->verify);
    default:
        *out_nbytes = j->in_nbytes;
        if (j->on_device)
            return fzm_copy_to_device(ctx, j->in, j->in_nbytes, j->out);
        memcpy(j->out, j->in, j->in_nbytes);
        return 0;
    }
}

static void *slot_main(void *arg)
{
    struct slot *const s = arg;
    pthread_mutex_t *const mutex = &s->batch->mutex;
    pthread_mutex_lock(mutex);
    for (;;) {
        while (s->state != SLOT_SUBMITTED && s->state != SLOT_QUIT)
            pthread_cond_wait(&s->changed, mutex);
        if (s->state == SLOT_QUIT)
            break;
        pthread_mutex_unlock(mutex);
        s->code = run(s->ctx, &s->job, &s->out_nbytes);
        pthread_mutex_lock(mutex);
        s->state = SLOT_DONE;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(mutex);
    return NULL;
}

static void set_state(struct slot *s, enum state state)
{
    pthread_mutex_lock(&s->batch->mutex);
    s->state = state;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->batch->mutex);
}

/* Waits for the job, and takes its error if it is the first. */
static int slot_wait(struct slot *s)
{
    pthread_mutex_lock(&s->batch->mutex);
    while (s->state == SLOT_SUBMITTED)
        pthread_cond_wait(&s->changed, &s->batch->mutex);
    s->state = SLOT_IDLE;
    pthread_mutex_unlock(&s->batch->mutex);
    return s->code < 0 ? fzm_batch_fail(s->batch, s->code, fzm_error_text(s->ctx)) : 0;
}

static int slot_prepare(struct slot *s, unsigned n_threads, size_t buf_nbytes)
{
    fzm_batch *const batch = s->batch;
    if (s->ctx && s->ctx->n_threads != n_threads)
        fzm_ctx_free(&s->ctx);
    if (!s->ctx) {
        fzm_options options = batch->options;
        options.n_threads = n_threads;
        FZM_TRY(fzm_ctx_new(&s->ctx, &options, batch->text));
    }
    if (s->buf_nbytes < buf_nbytes) {
        free(s->buf);
        s->buf = malloc(buf_nbytes);
        s->buf_nbytes = s->buf ? buf_nbytes : 0;
        if (!s->buf)
            return fzm_batch_fail(batch, FZM_ERR_MEMORY, "out of memory");
    }
    if (!s->has_thread && pthread_create(&s->thread, NULL, slot_main, s) != 0)
        return fzm_batch_fail(batch, FZM_ERR_MEMORY, "no thread can be started");
    s->has_thread = true;
    return 0;
}

/* ---- the object ---- */

int fzm_batch_new(fzm_batch **batch, const fzm_options *options, char *text)
{
    fzm_ctx *ctx;
    *batch = NULL;
    FZM_TRY(fzm_ctx_new(&ctx, options, text)); /* checks options and environment */
    fzm_batch *const b = calloc(1, sizeof *b);
    if (!b) {
        fzm_ctx_free(&ctx);
        if (text)
            snprintf(text, FZM_ERROR_TEXT_NBYTES, "out of memory");
        return FZM_ERR_MEMORY;
    }
    if (options)
        b->options = *options;
    b->options.size = sizeof b->options;
    b->n_threads = ctx->n_threads;
    b->n_slots = ctx->n_threads < MIN_SLOTS ? MIN_SLOTS : ctx->n_threads < MAX_SLOTS ? ctx->n_threads : MAX_SLOTS;
    pthread_mutex_init(&b->mutex, NULL);
    for (unsigned k = 0; k < b->n_slots; k++) {
        b->slots[k].batch = b;
        pthread_cond_init(&b->slots[k].changed, NULL);
    }
    fzm_ctx_free(&ctx);
    *batch = b;
    return 0;
}

void fzm_batch_free(fzm_batch **batch)
{
    fzm_batch *const b = *batch;
    if (!b)
        return;
    for (unsigned k = 0; k < b->n_slots; k++) {
        struct slot *const s = &b->slots[k];
        if (s->has_thread) {
            set_state(s, SLOT_QUIT);
            pthread_join(s->thread, NULL);
        }
        pthread_cond_destroy(&s->changed);
        fzm_ctx_free(&s->ctx);
        free(s->buf);
    }
    pthread_mutex_destroy(&b->mutex);
    free(b);
    *batch = NULL;
}

const char *fzm_batch_error_text(const fzm_batch *batch) { return batch->text; }

/* ---- calls ---- */

/* How many slots a call uses. */
static unsigned count_slots(const fzm_batch *batch, size_t n_chunks, size_t chunk_nbytes)
{
    size_t n = batch->n_slots;
    const size_t affordable = MAX_IN_FLIGHT_NBYTES / (chunk_nbytes ? chunk_nbytes : 1);
    if (n > affordable)
        n = affordable < MIN_SLOTS ? MIN_SLOTS : affordable;
    return (unsigned)(n < n_chunks ? n : n_chunks);
}

static unsigned threads_per_slot(const fzm_batch *batch, unsigned n_slots)
{
    const unsigned n = batch->n_threads / n_slots;
    return n > 0 ? n : 1;
}

/* After a failure: nothing is left running. The first error stays. */
static int drain(fzm_batch *batch, unsigned n_slots, int code)
{
    char text[sizeof batch->text];
    memcpy(text, batch->text, sizeof text);
    for (unsigned k = 0; k < n_slots; k++) {
        struct slot *const s = &batch->slots[k];
        pthread_mutex_lock(&batch->mutex);
        const bool is_busy = s->state == SLOT_SUBMITTED || s->state == SLOT_DONE;
        pthread_mutex_unlock(&batch->mutex);
        if (is_busy)
            slot_wait(s);
    }
    memcpy(batch->text, text, sizeof text);
    return code;
}

struct compression {
    fzm_batch *batch;
    const fzm_pipeline *pipeline;
    const fzm_array *array;
    enum fzm_memory memory;
    const void *const *chunks;
    fzm_batch_sink *sink;
    void *arg;
};

/* The result of chunk i, and then chunk i + n_slots into its slot. */
static int submit_compression(const struct compression *c, struct slot *s, size_t i, unsigned n_threads)
{
    const size_t chunk_nbytes = fzm_array_nbytes(c->array), cap = fzm_compress_bound(c->array);
    FZM_TRY(slot_prepare(s, n_threads, cap));
    s->job = (struct job){.kind = JOB_COMPRESS, .pipeline = c->pipeline, .array = c->array,
                          .on_device = c->memory == FZM_DEVICE_MEMORY, .in = c->chunks[i], .in_nbytes = chunk_nbytes,
                          .out = s->buf, .out_cap = cap};
    set_state(s, SLOT_SUBMITTED);
    return 0;
}

static int take_compression(const struct compression *c, struct slot *s, size_t i)
{
    FZM_TRY(slot_wait(s));
    const int code = c->sink(c->arg, i, s->buf, s->out_nbytes);
    return code < 0 ? callback_failed(c->batch, code, "the sink of a stream failed") : 0;
}

int fzm_batch_compress(fzm_batch *batch, const fzm_pipeline *pipeline, const fzm_array *array, enum fzm_memory memory,
                       size_t n_chunks, const void *const *chunks, fzm_batch_sink *sink, void *arg)
{
    const struct compression c = {batch, pipeline, array, memory, chunks, sink, arg};
    batch->text[0] = 0;
    if (n_chunks == 0)
        return 0;
    const unsigned n_slots = count_slots(batch, n_chunks, fzm_array_nbytes(array));
    const unsigned n_threads = threads_per_slot(batch, n_slots);
    for (size_t i = 0; i < n_chunks + n_slots; i++) {
        struct slot *const s = &batch->slots[i % n_slots];
        int code = i < n_slots ? 0 : take_compression(&c, s, i - n_slots);
        if (code == 0 && i < n_chunks)
            code = submit_compression(&c, s, i, n_threads);
        if (code < 0)
            return drain(batch, n_slots, code);
    }
    return 0;
}

struct decompression {
    fzm_batch *batch;
    enum fzm_memory memory;
    void *const *chunks;
    size_t chunk_nbytes;
    bool verify;
    fzm_batch_source *source;
    void *arg;
};

static int submit_decompression(const struct decompression *d, struct slot *s, size_t i, unsigned n_threads)
{
    size_t nbytes = 0;
    int is_plain = 0;
    int code = d->source(d->arg, i, NULL, &nbytes, &is_plain);
    if (code < 0)
        return callback_failed(d->batch, code, "the source of a stream failed");
    FZM_TRY(slot_prepare(s, n_threads, nbytes));
    is_plain = 0;
    code = d->source(d->arg, i, s->buf, &nbytes, &is_plain);
    if (code < 0)
        return callback_failed(d->batch, code, "the source of a stream failed");
    if (nbytes > s->buf_nbytes || (is_plain && nbytes != d->chunk_nbytes))
        return fzm_batch_fail(d->batch, FZM_ERR_CORRUPT, "a chunk that is not compressed has another size than its array");
    s->job = (struct job){.kind = is_plain ? JOB_COPY : JOB_DECOMPRESS, .on_device = d->memory == FZM_DEVICE_MEMORY,
                          .verify = d->verify, .in = s->buf, .in_nbytes = nbytes, .out = d->chunks[i],
                          .out_cap = d->chunk_nbytes};
    set_state(s, SLOT_SUBMITTED);
    return 0;
}

static int take_decompression(const struct decompression *d, struct slot *s)
{
    FZM_TRY(slot_wait(s));
    return s->out_nbytes == d->chunk_nbytes ? 0 : fzm_batch_fail(d->batch, FZM_ERR_CORRUPT, "a stream holds an array of another size");
}

int fzm_batch_decompress(fzm_batch *batch, enum fzm_memory memory, size_t n_chunks, void *const *chunks,
                         size_t chunk_nbytes, int verify, fzm_batch_source *source, void *arg)
{
    const struct decompression d = {batch, memory, chunks, chunk_nbytes, verify != 0, source, arg};
    batch->text[0] = 0;
    if (n_chunks == 0)
        return 0;
    const unsigned n_slots = count_slots(batch, n_chunks, chunk_nbytes), n_threads = threads_per_slot(batch, n_slots);
    for (size_t i = 0; i < n_chunks + n_slots; i++) {
        struct slot *const s = &batch->slots[i % n_slots];
        int code = i < n_slots ? 0 : take_decompression(&d, s);
        if (code == 0 && i < n_chunks)
            code = submit_decompression(&d, s, i, n_threads);
        if (code < 0)
            return drain(batch, n_slots, code);
    }
    return 0;
}
