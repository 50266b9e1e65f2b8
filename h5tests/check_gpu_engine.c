/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine around chunks: choice of engine and device, processes, threads, memory. */
#include "check_gpu.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_ELEMS = 1 << 20, N_ROUNDS = 20 };

static const struct fzm_shape shape = {FZM_F32, 3, {1, 64, 128, 128}, N_ELEMS};

static void log_text(void *arg, const char *text) { snprintf(arg, FZM_ERROR_TEXT_NBYTES, "%s", text); }

static fzm_ctx *new_ctx(int engine, int device, char *log)
{
    const fzm_options options = {.size = sizeof options,
                                 .engine = engine,
                                 .device = device,
                                 .log = log ? log_text : NULL,
                                 .log_arg = log};
    fzm_ctx *ctx = NULL;
    return fzm_ctx_new(&ctx, &options, NULL) == 0 ? ctx : NULL;
}

static fzm_pipeline *new_pipeline(void)
{
    fzm_pipeline *p = NULL;
    if (fzm_pipeline_from_preset(&p, 1, FZM_ABS, 1e-3, NULL) < 0)
        abort();
    return p;
}

static int compress(fzm_ctx *ctx, const fzm_pipeline *p, struct gpu_chunk *c)
{
    return fzm_compress(ctx, p, &c->array, c->in, c->nbytes, c->stream, c->cap, &c->stream_nbytes);
}

/* Run in a child process: bit 0: gpu works or does not say why not; bit 1: auto fails; bit 2: an inherited context fails. */
static int in_child(fzm_ctx *inherited, const fzm_pipeline *p, struct gpu_chunk *c)
{
    fzm_ctx *gpu = new_ctx(FZM_ENGINE_GPU, 0, NULL), *automatic = new_ctx(FZM_ENGINE_AUTO, 0, NULL);
    const bool is_refused = compress(gpu, p, c) == FZM_ERR_ENGINE && strstr(fzm_error_text(gpu), "forked");
    const bool works = compress(automatic, p, c) == 0 && strcmp(fzm_ctx_engine_used(automatic), "cpu") == 0;
    const bool inherits = compress(inherited, p, c) == 0;
    fzm_ctx_free(&gpu);
    fzm_ctx_free(&automatic);
    return (is_refused ? 0 : 1) | (works ? 0 : 2) | (inherits ? 0 : 4);
}

static void check_fork(const fzm_pipeline *p, struct gpu_chunk *c)
{
    fzm_ctx *automatic = new_ctx(FZM_ENGINE_AUTO, 0, NULL);
    for (int i = 0; i < 4; i++)
        GPU_CHECK(compress(automatic, p, c) == 0, "auto: %s", fzm_error_text(automatic));
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(in_child(automatic, p, c));
    int status = -1;
    waitpid(child, &status, 0);
    GPU_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child process ends with %d", status);
    fzm_ctx_free(&automatic);
}

static void check_devices(const fzm_pipeline *p, struct gpu_chunk *c)
{
    char log[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_ctx *gpu = new_ctx(FZM_ENGINE_GPU, 100, NULL), *automatic = new_ctx(FZM_ENGINE_AUTO, 100, log);
    GPU_CHECK(compress(gpu, p, c) == FZM_ERR_ENGINE && strstr(fzm_error_text(gpu), "device 99"),
              "device 99: %s", fzm_error_text(gpu));
    GPU_CHECK(compress(automatic, p, c) == 0 && strcmp(fzm_ctx_engine_used(automatic), "cpu") == 0,
              "auto with device 99: %s", fzm_error_text(automatic));
    fzm_ctx_free(&gpu);
    fzm_ctx_free(&automatic);
}

/* The same of the environment, which is read when a context is made. */
static void check_environment(const fzm_pipeline *p, struct gpu_chunk *c)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    const fzm_options options = {.size = sizeof options};
    fzm_ctx *ctx = NULL;
    setenv("FZM_ENGINE", "gpu", 1);
    setenv("FZM_DEVICE", "99", 1);
    GPU_CHECK(fzm_ctx_new(&ctx, &options, text) == 0 && compress(ctx, p, c) == FZM_ERR_ENGINE &&
                  strstr(fzm_error_text(ctx), "device 99 was asked for (FZM_DEVICE"),
              "FZM_DEVICE=99: %s%s", text, ctx ? fzm_error_text(ctx) : "");
    fzm_ctx_free(&ctx);
    setenv("FZM_DEVICE", "0", 1);
    GPU_CHECK(fzm_ctx_new(&ctx, &options, text) == 0 && compress(ctx, p, c) == 0 &&
                  strcmp(fzm_ctx_engine_used(ctx), "gpu") == 0,
              "FZM_ENGINE=gpu: %s%s", text, ctx ? fzm_error_text(ctx) : "");
    fzm_ctx_free(&ctx);
    setenv("FZM_DEVICE", "first", 1);
    GPU_CHECK(fzm_ctx_new(&ctx, &options, text) < 0 && !ctx && strstr(text, "FZM_DEVICE=first"),
              "FZM_DEVICE=first: %s", text);
    unsetenv("FZM_ENGINE");
    unsetenv("FZM_DEVICE");
}

/* Takes device memory until less than twice `left` is free. Returns the number of blocks. */
static unsigned take_memory(void **blocks, unsigned n_max, size_t left)
{
    unsigned n = 0;
    size_t step = (size_t)1 << 36, available, total;
    while (n < n_max && step >= left && cudaMemGetInfo(&available, &total) == cudaSuccess) {
        if (available >= step + left && cudaMalloc(&blocks[n], step) == cudaSuccess) {
            n++;
        } else {
            cudaGetLastError();
            step /= 2;
        }
    }
    return n;
}

/* A chunk that the device has no room for: auto turns to the CPU and says so, gpu fails and works later. */
static void check_full_device(const fzm_pipeline *p)
{
    enum { N_BLOCKS = 64 };
    static const struct fzm_shape large = {FZM_F32, 1, {1, 1, 1, 1 << 26}, 1 << 26};
    void *blocks[N_BLOCKS];
    char log[FZM_ERROR_TEXT_NBYTES] = "";
    struct gpu_chunk c;
    gpu_chunk_new(&c, &large, PATTERN_RAMP, 1);
    fzm_ctx *gpu = new_ctx(FZM_ENGINE_GPU, 0, NULL), *automatic = new_ctx(FZM_ENGINE_AUTO, 0, log);
    const struct fzm_shape one = {FZM_F32, 1, {1, 1, 1, 1}, 1};
    struct gpu_chunk small;
    gpu_chunk_new(&small, &one, PATTERN_RAMP, 1);
    GPU_CHECK(compress(gpu, p, &small) == 0, "the device is opened: %s", fzm_error_text(gpu));
    const unsigned n = take_memory(blocks, N_BLOCKS, (size_t)32 << 20);
    GPU_CHECK(compress(gpu, p, &c) == FZM_ERR_MEMORY && strstr(fzm_error_text(gpu), "out of device memory"),
              "gpu on a full device: %s", fzm_error_text(gpu));
    GPU_CHECK(compress(automatic, p, &c) == 0 && strcmp(fzm_ctx_engine_used(automatic), "cpu") == 0,
              "auto on a full device: %s", fzm_error_text(automatic));
    GPU_CHECK(strstr(log, "out of device memory"), "auto on a full device logs: %s", log);
    for (unsigned i = 0; i < n; i++)
        cudaFree(blocks[i]);
    memcpy(c.other, c.stream, c.stream_nbytes);
    const size_t nbytes = c.stream_nbytes;
    GPU_CHECK(compress(gpu, p, &c) == 0 && c.stream_nbytes == nbytes &&
                  memcmp(c.stream, c.other, nbytes) == 0,
              "gpu after memory has come free: %s", fzm_error_text(gpu));
    fzm_ctx_free(&gpu);
    fzm_ctx_free(&automatic);
    gpu_chunk_free(&small);
    gpu_chunk_free(&c);
}

/* Chunks in pinned host memory are copied without a detour. */
static void check_pinned(fzm_ctx *gpu, const fzm_pipeline *p, const struct gpu_chunk *c)
{
    uint8_t *in = NULL, *stream = NULL, *out = NULL;
    size_t n = 0, m = 0;
    if (!GPU_CHECK(cudaMallocHost((void **)&in, c->nbytes) == cudaSuccess &&
                       cudaMallocHost((void **)&stream, c->cap) == cudaSuccess &&
                       cudaMallocHost((void **)&out, c->nbytes) == cudaSuccess,
                   "pinned memory"))
        return;
    memcpy(in, c->in, c->nbytes);
    GPU_CHECK(fzm_compress(gpu, p, &c->array, in, c->nbytes, stream, c->cap, &n) == 0 &&
                  n == c->stream_nbytes && memcmp(stream, c->stream, n) == 0,
              "compressing in pinned memory: %s", fzm_error_text(gpu));
    GPU_CHECK(fzm_decompress(gpu, stream, n, out, c->nbytes, &m, 1) == 0 && m == c->nbytes &&
                  memcmp(out, c->out, m) == 0,
              "restoring in pinned memory: %s", fzm_error_text(gpu));
    cudaFreeHost(in);
    cudaFreeHost(stream);
    cudaFreeHost(out);
}

/* Threads with a context each; all streams are equal. */
struct worker {
    pthread_t thread;
    const fzm_pipeline *pipeline;
    const struct gpu_chunk *expected;
    int n_wrong;
};

static void *work(void *arg)
{
    struct worker *const w = arg;
    const size_t cap = w->expected->cap, nbytes = w->expected->nbytes;
    uint8_t *const stream = malloc(cap), *const out = malloc(nbytes);
    fzm_ctx *gpu = new_ctx(FZM_ENGINE_GPU, 0, NULL);
    for (int i = 0; i < N_ROUNDS && gpu && stream && out; i++) {
        size_t n = 0, m = 0;
        if (fzm_compress(gpu, w->pipeline, &w->expected->array, w->expected->in, nbytes, stream, cap, &n) !=
                0 ||
            n != w->expected->stream_nbytes || memcmp(stream, w->expected->stream, n) != 0 ||
            fzm_decompress(gpu, stream, n, out, nbytes, &m, 1) != 0 ||
            memcmp(out, w->expected->out, nbytes) != 0)
            w->n_wrong++;
    }
    fzm_ctx_free(&gpu);
    free(stream);
    free(out);
    return NULL;
}

static void check_threads(const fzm_pipeline *p, const struct gpu_chunk *c)
{
    struct worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (struct worker){.pipeline = p, .expected = c};
        GPU_CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread");
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        GPU_CHECK(workers[i].n_wrong == 0, "%d of %d chunks are wrong on a thread of its own",
                  workers[i].n_wrong, N_ROUNDS);
    }
}

/* Equal chunks take no more memory after the first. */
static void check_memory(fzm_ctx *gpu, const fzm_pipeline *p, struct gpu_chunk *c)
{
    size_t before, after, total, m;
    compress(gpu, p, c);
    fzm_decompress(gpu, c->stream, c->stream_nbytes, c->out, c->nbytes, &m, 1);
    compress(gpu, p, c);
    cudaMemGetInfo(&before, &total);
    for (int i = 0; i < N_ROUNDS; i++)
        compress(gpu, p, c);
    cudaMemGetInfo(&after, &total);
    GPU_CHECK(after >= before, "%d chunks took %zu bytes of device memory", N_ROUNDS, before - after);
    GPU_CHECK(fzm_ctx_memory_nbytes(gpu) <= 3 * c->nbytes, "%zu bytes of scratch memory for a chunk of %zu",
              fzm_ctx_memory_nbytes(gpu), c->nbytes);
}

void gpu_check_engine(struct gpu_check *g)
{
    fzm_pipeline *p = new_pipeline();
    struct gpu_chunk c;
    size_t m;
    gpu_chunk_new(&c, &shape, PATTERN_SPECIAL, 5);
    if (GPU_CHECK(compress(g->gpu, p, &c) == 0 &&
                      fzm_decompress(g->cpu, c.stream, c.stream_nbytes, c.out, c.nbytes, &m, 1) == 0,
                  "a chunk: %s", fzm_error_text(g->gpu))) {
        check_threads(p, &c);
        check_memory(g->gpu, p, &c);
        check_pinned(g->gpu, p, &c);
        check_devices(p, &c);
        check_environment(p, &c);
        check_fork(p, &c);
        GPU_CHECK(compress(g->gpu, p, &c) == 0, "the parent after a fork: %s", fzm_error_text(g->gpu));
        check_full_device(p);
    }
    gpu_chunk_free(&c);
    fzm_pipeline_free(&p);
}
