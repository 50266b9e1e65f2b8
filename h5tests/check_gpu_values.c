/* SPDX-License-Identifier: BSD-3-Clause */
/* Every bit pattern of float32 through the GPU engine: each restored element is within the bound of its original.
 *     check_gpu_values [--seed=N] [--parts=N]     parts of each case's 64 to run; exit status 77 without a GPU */
#include "../tools/cmd.h"
#include "check.h"
#include "ctx.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum { N_PARTS = 64, N_ELEMS = 1 << 26, MAX_THREADS = 64 };

/* How the patterns come in parts. Blocks: neighbours, few exponents in a part. Mixed: all exponents in each part, out of
 * order, which keeps the lossless pipeline from winning. */
enum order { BLOCKS, MIXED };

static const struct test_case {
    const char *preset;
    int mode, order;
    double bound; /* abs, blocks: of the part's greatest magnitude */
    bool is_staged;
} cases[] = {
    {"fast", FZM_ABS, BLOCKS, 1e-5, false},
    {"fast", FZM_ABS, MIXED, 1e35, true},
    {"fast", FZM_REL, BLOCKS, 1e-3, false},
    {"balanced", FZM_REL, MIXED, 1e-2, false},
};

struct buffers {
    uint32_t *in, *out;
    uint8_t *stream;
    size_t cap;
    unsigned n_threads;
};

static uint32_t bits_at(int order, unsigned part, uint32_t i)
{
    return order == BLOCKS ? (uint32_t)part * N_ELEMS + i : i * UINT32_C(40503621) % N_ELEMS * N_PARTS + part;
}

/* ---- work on slices of a part ---- */

struct slice {
    pthread_t thread;
    const struct buffers *b;
    const struct cmd_bound *bound;
    int order;
    unsigned part;
    uint32_t begin, end;
    bool is_check;
    uint64_t n_violations;
    double worst; /* error over bound */
};

/* Doubles decide what is not close to the bound, the exact rule the rest. */
static void check_elem(struct slice *s, uint32_t i)
{
    struct cmd_difference d;
    float x, y;
    memcpy(&x, &s->b->in[i], sizeof x);
    memcpy(&y, &s->b->out[i], sizeof y);
    const double allowed = s->bound->mode == FZM_REL ? s->bound->value * fabs((double)x) : s->bound->value;
    const double error = fabs((double)x - (double)y);
    if (error > s->worst * allowed && allowed > 0 && isfinite(error))
        s->worst = error / allowed;
    if (error < allowed * (1 - 1e-9))
        return;
    cmd_compare_arrays(&x, &y, FZM_F32, 1, NULL, s->bound, &d);
    s->n_violations += d.n_violations;
}

static void *run_slice(void *arg)
{
    struct slice *const s = arg;
    for (uint32_t i = s->begin; i < s->end; i++)
        if (!s->is_check)
            s->b->in[i] = bits_at(s->order, s->part, i);
        else if (s->b->in[i] != s->b->out[i])
            check_elem(s, i);
    return NULL;
}

/* Fills b->in, or (with a bound) checks b->out. Returns the number of violations. */
static uint64_t on_threads(const struct buffers *b, int order, unsigned part, const struct cmd_bound *bound,
                           double *worst)
{
    struct slice slices[MAX_THREADS];
    uint64_t n_violations = 0;
    for (unsigned i = 0; i < b->n_threads; i++) {
        slices[i] = (struct slice){.b = b,
                                   .bound = bound,
                                   .order = order,
                                   .part = part,
                                   .is_check = bound != NULL,
                                   .begin = (uint32_t)((uint64_t)N_ELEMS * i / b->n_threads),
                                   .end = (uint32_t)((uint64_t)N_ELEMS * (i + 1) / b->n_threads)};
        if (pthread_create(&slices[i].thread, NULL, run_slice, &slices[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < b->n_threads; i++) {
        pthread_join(slices[i].thread, NULL);
        n_violations += slices[i].n_violations;
        if (bound && slices[i].worst > *worst)
            *worst = slices[i].worst;
    }
    return n_violations;
}

/* ---- */

/* Greatest finite magnitude of a part in blocks. */
static double magnitude_of(unsigned part)
{
    uint32_t bits = ((part + 1) * (uint32_t)N_ELEMS - 1) & UINT32_C(0x7fffffff);
    float v;
    if (bits > UINT32_C(0x7f7fffff))
        bits = UINT32_C(0x7f7fffff);
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Whether the stream's elements went through the Quantizer. */
static bool is_quantized(const struct buffers *b, size_t nbytes)
{
    static char json[8192];
    fzm_stream_info info;
    return fzm_stream_read_info(b->stream, nbytes, &info, json, sizeof json, NULL) == 0 && !info.stored &&
           strstr(json, "\"Quantizer\"");
}

/* Returns whether the part was quantised. */
static bool check_part(fzm_ctx *ctx, const struct test_case *t, unsigned part, const struct buffers *b,
                       double *worst)
{
    const fzm_array array = {.dtype = FZM_F32, .rank = 1, .dims = {N_ELEMS}};
    const bool is_scaled = t->mode == FZM_ABS && t->order == BLOCKS;
    const struct cmd_bound bound = {
        .given = true, .mode = t->mode, .value = is_scaled ? t->bound * magnitude_of(part) : t->bound};
    const size_t nbytes = (size_t)N_ELEMS * sizeof *b->in;
    char text[FZM_ERROR_TEXT_NBYTES] = "", name[120];
    fzm_pipeline *p = NULL;
    size_t stream_nbytes = 0, n = 0;
    snprintf(name, sizeof name, "%s %s %g, %s, part %u", t->preset, fzm_mode_name(t->mode), bound.value,
             t->order == BLOCKS ? "blocks" : "mixed", part);
    if (!CHECK(fzm_pipeline_from_preset(&p, fzm_preset_by_name(t->preset)->number, t->mode, bound.value,
                                        text) == 0,
               "%s: %s", name, text))
        return false;
    on_threads(b, t->order, part, NULL, NULL);
    memset(b->out, 0x55, nbytes);
    const int code = fzm_compress(ctx, p, &array, b->in, nbytes, b->stream, b->cap, &stream_nbytes);
    fzm_pipeline_free(&p);
    if (!CHECK(code == 0, "%s: %s", name, fzm_error_text(ctx)) ||
        !CHECK(fzm_decompress(ctx, b->stream, stream_nbytes, b->out, nbytes, &n, 1) == 0 && n == nbytes,
               "%s: %s", name, fzm_error_text(ctx)))
        return false;
    const uint64_t n_violations = on_threads(b, t->order, part, &bound, worst);
    CHECK(n_violations == 0, "%s: %" PRIu64 " violations", name, n_violations);
    CHECK(memcmp(b->in, b->out, nbytes) == 0 || is_quantized(b, stream_nbytes),
          "%s: a lossless stream changes bits", name);
    return is_quantized(b, stream_nbytes);
}

static fzm_ctx *gpu_ctx(const char **why)
{
    static char text[FZM_ERROR_TEXT_NBYTES];
    const fzm_options options = {.size = sizeof options, .engine = FZM_ENGINE_GPU};
    const fzm_array array = {.dtype = FZM_F32, .rank = 1, .dims = {64}};
    uint8_t in[256] = {0}, out[256 + FZM_MAX_OVERHEAD_NBYTES];
    fzm_pipeline *p = NULL;
    fzm_ctx *ctx = NULL;
    size_t n;
    if (fzm_ctx_new(&ctx, &options, text) < 0 || fzm_pipeline_from_preset(&p, 1, FZM_ABS, 1, text) < 0) {
        *why = text;
        return NULL;
    }
    if (fzm_compress(ctx, p, &array, in, sizeof in, out, sizeof out, &n) == FZM_ERR_ENGINE) {
        snprintf(text, sizeof text, "%s", fzm_error_text(ctx));
        *why = text;
        fzm_ctx_free(&ctx);
    }
    fzm_pipeline_free(&p);
    return ctx;
}

int main(int argc, char **argv)
{
    const char *const option = check_option(argc, argv, "parts"), *why = "";
    const unsigned n_parts = option ? (unsigned)strtoul(option, NULL, 10) : N_PARTS;
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct buffers b = {.n_threads = n_cpus < 1 ? 1 : n_cpus > MAX_THREADS ? MAX_THREADS : (unsigned)n_cpus};
    check_seed(argc, argv);
    fzm_ctx *ctx = gpu_ctx(&why);
    if (!ctx) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    b.cap = (size_t)N_ELEMS * sizeof *b.in + FZM_MAX_OVERHEAD_NBYTES;
    b.in = malloc(b.cap);
    b.out = malloc(b.cap);
    b.stream = malloc(b.cap);
    if (!b.in || !b.out || !b.stream)
        abort();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct test_case *const t = &cases[i];
        unsigned n_quantized = 0;
        double worst = 0;
        fzm_ctx_set_fusion(ctx, !t->is_staged);
        for (unsigned part = 0; part < N_PARTS && part < n_parts; part++) /* some: spread */
            n_quantized +=
                check_part(ctx, t, n_parts < N_PARTS ? (part * 13 + 30) % N_PARTS : part, &b, &worst);
        printf("%s %s %g %s%s: %u parts quantised, worst error %.9g of the bound\n", t->preset,
               fzm_mode_name(t->mode), t->bound, t->order == BLOCKS ? "blocks" : "mixed",
               t->is_staged ? ", staged" : "", n_quantized, worst);
        fflush(stdout);
        CHECK(n_quantized > 0, "no part of case %u was quantised", i);
    }
    fzm_ctx_free(&ctx);
    free(b.in);
    free(b.out);
    free(b.stream);
    return check_done();
}
