/* SPDX-License-Identifier: BSD-3-Clause */
/* Speeds of single stages on the GPU, on what they are given in pipelines: gpu_stages [--repeat=N] [SHAPE]
 * GB/s of input 0, medians by events around resolve(), forward() and inverse(); the first field is made here. */
#include "../../core/ctx.h"
#include "../../core/graph.h"
#include "../../core/stages.h"
#include "../../gpu/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE_OPS(name) extern const struct fzm_gpu_ops fzm_gpu_ops_##name;
FZM_STAGES(DECLARE_OPS)
#define LIST_OPS(name) &fzm_gpu_ops_##name,
static const struct fzm_gpu_ops *const all_ops[] = {FZM_STAGES(LIST_OPS)};

enum { INPUT = -1, ABSENT = -2, SLACK_NBYTES = 256, N_WARM_UPS = 2 };

/* Sources are earlier steps. A param may differ from its default. */
static const struct step {
    const char *stage, *key;
    double value;
    int from[2];
    unsigned port[2];
} steps[] = {
    {"Quantizer", NULL, 0, {INPUT, ABSENT}, {0, 0}},
    {"AdaptiveLorenzo", NULL, 0, {0, 0}, {0, 1}},
    {"AdaptiveBitpack", NULL, 0, {1, ABSENT}, {0, 0}},
    {"AdaptiveLorenzo", "tile", 1, {0, 0}, {0, 1}},
    {"Zigzag", NULL, 0, {3, ABSENT}, {0, 0}},
    {"Negabinary", NULL, 0, {3, ABSENT}, {0, 0}},
    {"Bitshuffle", NULL, 0, {4, ABSENT}, {0, 0}},
    {"RZE", NULL, 0, {6, ABSENT}, {0, 0}},
    {"RRE", NULL, 0, {6, ABSENT}, {0, 0}},
    {"RZE", "word", 3, {6, ABSENT}, {0, 0}},
    {"Bitpack", NULL, 0, {3, ABSENT}, {0, 0}},
    {"Difference", NULL, 0, {0, ABSENT}, {0, 0}},
    {"Difference", NULL, 0, {INPUT, ABSENT}, {0, 0}},
    {"Lorenzo", NULL, 0, {0, ABSENT}, {0, 0}},
    {"Lorenzo", "order", 2, {0, ABSENT}, {0, 0}},
    {"BitLorenzo", NULL, 0, {0, INPUT}, {1, 0}},
};
enum { N_STEPS = sizeof steps / sizeof steps[0] };

struct bench {
    fzm_ctx *ctx;
    struct fzm_buf input, out[N_STEPS][FZM_MAX_PORTS];
    int repeat;
    double *times;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "gpu_stages: %s: %s\n", what, why);
    exit(1);
}

static void check_cuda(cudaError_t code)
{
    if (code != cudaSuccess)
        fail("CUDA", cudaGetErrorString(code));
}

static void *device_get(size_t nbytes)
{
    void *data = NULL;
    check_cuda(cudaMalloc(&data, nbytes + SLACK_NBYTES));
    check_cuda(cudaMemset(data, 0, nbytes + SLACK_NBYTES));
    return data;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a call does, and what a repetition needs. */
struct task {
    const struct fzm_stage *stage;
    const struct fzm_gpu_ops *ops;
    struct fzm_call call;
    void *params, *fresh_params; /* resolve() starts from the fresh ones */
    enum { RESOLVE, FORWARD, INVERSE } what;
};

static int run_task(struct task *t)
{
    switch (t->what) {
    case RESOLVE:
        memcpy(t->params, t->fresh_params, FZM_MAX_PARAMS_NBYTES);
        return t->ops->resolve(t->params, &t->call);
    case FORWARD: return t->ops->forward(&t->call);
    default: return t->ops->inverse(&t->call);
    }
}

/* Reads the sizes that the device has decided and readies the engine for the next call. */
static int settle(struct bench *b, struct task *t)
{
    for (unsigned j = 0; t->what == FORWARD && j < t->stage->n_out; j++) {
        struct fzm_buf *const out = &t->call.out[j];
        uint64_t nbytes = out->nbytes;
        if (out->pending)
            FZM_TRY(fzm_gpu_read(b->ctx->gpu, &nbytes, out->pending, sizeof nbytes, &b->ctx->err));
        out->nbytes = (size_t)nbytes;
        out->pending = NULL;
    }
    return fzm_gpu_settle(b->ctx);
}

/* Median time in s; negative if the stage does not run. Sizes are settled after each call. */
static double measure(struct bench *b, struct task *t)
{
    const cudaStream_t stream = b->ctx->gpu->stream;
    cudaEvent_t start, end;
    int n = 0;
    check_cuda(cudaEventCreate(&start));
    check_cuda(cudaEventCreate(&end));
    for (int i = -N_WARM_UPS; i < b->repeat; i++) {
        float ms = 0;
        check_cuda(cudaEventRecord(start, stream));
        const int code = run_task(t);
        check_cuda(cudaEventRecord(end, stream));
        if (code < 0 || settle(b, t) < 0)
            break;
        check_cuda(cudaEventSynchronize(end));
        check_cuda(cudaEventElapsedTime(&ms, start, end));
        if (i >= 0)
            b->times[n++] = 1e-3 * ms;
    }
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    if (n < b->repeat)
        return -1;
    qsort(b->times, (size_t)n, sizeof *b->times, compare_doubles);
    return b->times[n / 2];
}

static const struct fzm_gpu_ops *ops_of(const struct fzm_stage *stage)
{
    unsigned i = 0;
    while (all_ops[i]->stage != stage)
        i++;
    return all_ops[i];
}

static size_t scratch_nbytes(const struct fzm_gpu_ops *ops, const void *params, const struct fzm_shape *in)
{
    return ops->scratch ? ops->scratch(params, in) : 0;
}

/* Inputs of a step from the outputs of earlier ones. */
static void set_inputs(const struct bench *b, const struct step *s, struct fzm_buf *in,
                       struct fzm_shape *shapes)
{
    memset(in, 0, FZM_MAX_PORTS * sizeof *in);
    for (int j = 0; j < FZM_MAX_PORTS; j++) {
        in[j].shape = fzm_shape_1d(FZM_BYTES, 0);
        if (j < 2 && s->from[j] != ABSENT)
            in[j] = s->from[j] == INPUT ? b->input : b->out[s->from[j]][s->port[j]];
        shapes[j] = in[j].shape;
    }
}

static void get_outputs(const struct fzm_stage *stage, const void *params, const struct fzm_shape *shapes,
                        struct fzm_buf *out)
{
    struct fzm_shape out_shapes[FZM_MAX_PORTS];
    size_t caps[FZM_MAX_PORTS];
    struct fzm_err err = {0};
    memset(out_shapes, 0, sizeof out_shapes);
    if (stage->shape(params, shapes, out_shapes, &err) < 0)
        fail(stage->name, err.text);
    for (unsigned j = 0; j < stage->n_out; j++)
        caps[j] = fzm_shape_nbytes(&out_shapes[j]);
    if (stage->bound)
        stage->bound(params, shapes, caps);
    for (unsigned j = 0; j < stage->n_out; j++) {
        out[j].shape = out_shapes[j];
        out[j].cap = caps[j];
        out[j].data = device_get(caps[j]);
    }
}

/* Restores the inputs that are no hints into memory of their own; returns the time, or -2 if input 0 differs. */
static double measure_inverse(struct bench *b, struct task *t, const struct fzm_buf *in)
{
    struct fzm_buf back[FZM_MAX_PORTS];
    memcpy(back, in, sizeof back);
    back[0].data = device_get(in[0].nbytes);
    t->call.in = back;
    t->what = INVERSE;
    const double seconds = measure(b, t);
    uint8_t *const x = malloc(in[0].nbytes + 1), *const y = malloc(in[0].nbytes + 1);
    if (!x || !y)
        fail("host memory", "out of memory");
    check_cuda(cudaMemcpy(x, in[0].data, in[0].nbytes, cudaMemcpyDeviceToHost));
    check_cuda(cudaMemcpy(y, back[0].data, in[0].nbytes, cudaMemcpyDeviceToHost));
    const bool is_same = (t->stage->flags & FZM_STAGE_LOSSY) || memcmp(x, y, in[0].nbytes) == 0;
    free(x);
    free(y);
    cudaFree(back[0].data);
    return is_same ? seconds : -2;
}

static void print_speed(double nbytes, double seconds)
{
    if (seconds > 0)
        printf(" %.0f |", 1e-9 * nbytes / seconds);
    else
        printf(" %s |", seconds == 0 ? "" : seconds == -2 ? "WRONG" : "-");
}

static void bench_step(struct bench *b, unsigned i)
{
    const struct step *const s = &steps[i];
    const struct fzm_stage *const stage = fzm_stage_by_name(s->stage);
    uint64_t params[FZM_MAX_PARAMS_NBYTES / 8] = {0}, fresh[FZM_MAX_PARAMS_NBYTES / 8] = {0};
    struct fzm_buf in[FZM_MAX_PORTS];
    struct fzm_shape shapes[FZM_MAX_PORTS];
    double resolve_s = 0, inverse_s = -1, out_nbytes = 0;
    fzm_params_init(stage, fresh);
    if (s->key)
        fzm_params_set(stage, fresh, (unsigned)fzm_params_find(stage, s->key), s->value);
    for (unsigned k = 0; k < stage->n_params; k++)
        if (stage->params[k].flags & FZM_PF_BOUND) /* the bound of the fields made here */
            fzm_params_set(stage, fresh, k, stage->params[k].type == FZM_P_F64 ? 1e-3 : FZM_ABS);
    memcpy(params, fresh, sizeof params);
    set_inputs(b, s, in, shapes);
    struct task t = {.stage = stage, .ops = ops_of(stage), .params = params, .fresh_params = fresh};
    t.call = (struct fzm_call){.params = params,
                               .in = in,
                               .out = b->out[i],
                               .pool = b->ctx->pool,
                               .err = &b->ctx->err,
                               .gpu = b->ctx->gpu};
    void *scratch = t.call.scratch = device_get(scratch_nbytes(t.ops, params, shapes));
    if (stage->resolve)
        resolve_s = measure(b, &t);
    cudaFree(scratch);
    get_outputs(stage, params, shapes, b->out[i]);
    scratch = t.call.scratch = device_get(scratch_nbytes(t.ops, params, shapes));
    t.what = FORWARD;
    const double forward_s = measure(b, &t);
    for (unsigned j = 0; j < stage->n_out; j++) {
        struct fzm_buf *const out = &b->out[i][j];
        out_nbytes += (double)out->nbytes;
        if (stage->out[j].flags & FZM_PORT_VARIABLE)
            out->shape = fzm_shape_1d(out->shape.dtype, out->nbytes / fzm_dtype_nbytes(out->shape.dtype));
    }
    if (forward_s >= 0)
        inverse_s = measure_inverse(b, &t, in);
    cudaFree(scratch);
    printf("| %s%s%s | %s | %.3f |", s->stage, s->key ? " " : "", s->key ? s->key : "",
           fzm_dtype_name(shapes[0].dtype), out_nbytes > 0 ? (double)in[0].nbytes / out_nbytes : 0);
    print_speed((double)in[0].nbytes, resolve_s);
    print_speed((double)in[0].nbytes, forward_s);
    print_speed((double)in[0].nbytes, inverse_s);
    printf("\n");
    fflush(stdout);
}

/* Waves with noise and a few huge values, which become outliers. */
static void make_input(struct bench *b, const uint64_t dims[3])
{
    const uint64_t n = dims[0] * dims[1] * dims[2];
    float *const v = malloc((size_t)n * sizeof *v);
    uint32_t noise = 1;
    if (!v)
        fail("host memory", "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        noise = noise * 1664525u + 1013904223u;
        v[i] = sinf(0.02f * (float)(i % dims[2])) * cosf(0.03f * (float)(i / dims[2] % dims[1])) +
               3e-3f * (float)(noise >> 8) / 16777216.0f;
        if (noise >> 8 < 16)
            v[i] = 1e30f;
    }
    b->input.shape = (struct fzm_shape){FZM_F32, 3, {1, dims[0], dims[1], dims[2]}, n};
    b->input.nbytes = b->input.cap = (size_t)n * sizeof *v;
    b->input.data = device_get(b->input.nbytes);
    check_cuda(cudaMemcpy(b->input.data, v, b->input.nbytes, cudaMemcpyHostToDevice));
    free(v);
}

int main(int argc, char **argv)
{
    const fzm_options options = {.size = sizeof options, .engine = FZM_ENGINE_GPU};
    char text[FZM_ERROR_TEXT_NBYTES];
    uint64_t dims[3] = {512, 512, 512};
    static struct bench b = {.repeat = 10};
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "--repeat=%d", &b.repeat) != 1 &&
            sscanf(argv[i], "%lux%lux%lu", &dims[0], &dims[1], &dims[2]) != 3)
            fail(argv[i], "expected --repeat=N or a shape such as 512x512x512");
    if (b.repeat < 1 || fzm_ctx_new(&b.ctx, &options, text) < 0)
        fail("context", b.repeat < 1 ? "--repeat is less than 1" : text);
    if (fzm_gpu_class->open(b.ctx) < 0) {
        printf("SKIP: %s\n", fzm_error_text(b.ctx));
        return 0;
    }
    b.times = calloc((size_t)b.repeat, sizeof *b.times);
    make_input(&b, dims);
    check_cuda(cudaDeviceSynchronize());
    printf(
        "| stage | type | ratio | resolve GB/s | forward GB/s | inverse GB/s |\n|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < N_STEPS && b.times; i++)
        bench_step(&b, i);
    fzm_ctx_free(&b.ctx);
    free(b.times);
    return 0;
}
