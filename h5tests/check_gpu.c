/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine against the CPU engine: streams and restored arrays are equal byte for byte.
 *     check_gpu [--seed=N] [--quick=1] [--part=presets|json|large|device|damage]
 * Quick is for runs under compute-sanitizer. Exit status 77 without a GPU. */
#include "check_gpu.h"

#include "check.h"

static const double bounds[] = {[FZM_LOSSLESS] = 0, [FZM_ABS] = 1e-3, [FZM_REL] = 1e-3, [FZM_RANGE] = 1e-4,
                                [FZM_MAXABS] = 1e-3, [FZM_PSNR] = 70};
enum { N_MODES = 6, N_FILLS = 3 };

void gpu_chunk_new(struct gpu_chunk *c, const struct fzm_shape *shape, int pattern, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->array.dtype = shape->dtype;
    c->array.rank = shape->dims[0] > 1 ? 4 : shape->rank;
    for (int i = 0; i < c->array.rank; i++)
        c->array.dims[i] = shape->dims[4 - c->array.rank + i];
    c->nbytes = fzm_shape_nbytes(shape);
    c->cap = c->nbytes + FZM_MAX_OVERHEAD_NBYTES;
    c->in = malloc(c->nbytes + 1);
    c->out = malloc(c->nbytes + 1);
    c->expected = malloc(c->nbytes + 1);
    c->stream = malloc(c->cap);
    c->other = malloc(c->cap);
    if (!c->in || !c->out || !c->expected || !c->stream || !c->other)
        abort();
    pattern_fill(c->in, shape->dtype, (size_t)shape->n_elems, pattern, seed);
    snprintf(c->name, sizeof c->name, "%s %llux%llux%llux%llu %s", fzm_dtype_name(shape->dtype),
             (unsigned long long)shape->dims[0], (unsigned long long)shape->dims[1], (unsigned long long)shape->dims[2],
             (unsigned long long)shape->dims[3], pattern_name(pattern));
}

void gpu_chunk_free(struct gpu_chunk *c)
{
    free(c->in);
    free(c->out);
    free(c->expected);
    free(c->stream);
    free(c->other);
}

/* Where two byte arrays differ; n if they do not. */
static size_t first_difference(const uint8_t *a, const uint8_t *b, size_t n)
{
    size_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

void gpu_compare(struct gpu_check *g, fzm_ctx *ctx, const fzm_pipeline *pipeline, struct gpu_chunk *c, const char *what)
{
    size_t other_nbytes = 0, n = 0, m = 0;
    const int code = fzm_compress(g->cpu, pipeline, &c->array, c->in, c->nbytes, c->stream, c->cap, &c->stream_nbytes);
    const int other = fzm_compress(ctx, pipeline, &c->array, c->in, c->nbytes, c->other, c->cap, &other_nbytes);
    if (other == FZM_ERR_ENGINE && strstr(fzm_error_text(ctx), "does not run there")) {
        g->n_declined++;
        return;
    }
    if (!CHECK(code == other, "%s, %s: codes %d and %d (%s)", c->name, what, code, other, fzm_error_text(ctx)) || code < 0)
        return;
    const size_t common = c->stream_nbytes < other_nbytes ? c->stream_nbytes : other_nbytes;
    const size_t at = first_difference(c->stream, c->other, common);
    CHECK(c->stream_nbytes == other_nbytes && at == common, "%s, %s: streams of %zu and %zu bytes differ at %zu", c->name,
          what, c->stream_nbytes, other_nbytes, at);
    memset(c->out, 0x3c, c->nbytes);
    const int undone = fzm_decompress(ctx, c->stream, c->stream_nbytes, c->out, c->nbytes, &n, 1);
    if (!CHECK(fzm_decompress(g->cpu, c->stream, c->stream_nbytes, c->expected, c->nbytes, &m, 1) == 0 && undone == 0 &&
                   n == c->nbytes,
               "%s, %s: restoring gives %d (%s)", c->name, what, undone, fzm_error_text(ctx)))
        return;
    const size_t differs = first_difference(c->out, c->expected, n);
    CHECK(differs == n, "%s, %s: restored arrays differ at byte %zu", c->name, what, differs);
}

bool gpu_check_that(bool ok, const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return check_that(ok, file, line, "%s", text);
}

/* ---- presets ---- */

static void check_preset(struct gpu_check *g, struct gpu_chunk *c, const fzm_preset_info *preset, int mode)
{
    char text[FZM_ERROR_TEXT_NBYTES], what[80];
    fzm_pipeline *p;
    const double bound = bounds[mode] * (fzm_dtype_is_float(c->array.dtype) || mode >= FZM_RANGE ? 1 : 3000);
    if (fzm_pipeline_from_preset(&p, preset->number, mode, bound, text) < 0)
        return;
    if (fzm_pipeline_check(p, &c->array, text) == 0) {
        snprintf(what, sizeof what, "preset %s %s %g", preset->name, fzm_mode_name(mode), bound);
        gpu_compare(g, g->gpu, p, c, what);
        snprintf(what, sizeof what, "preset %s %s %g staged", preset->name, fzm_mode_name(mode), bound);
        gpu_compare(g, g->staged, p, c, what);
    }
    fzm_pipeline_free(&p);
}

static void check_chunk(struct gpu_check *g, struct gpu_chunk *c, unsigned salt)
{
    for (size_t i = 0; fzm_preset(i); i++)
        for (int mode = 0; mode < N_MODES; mode++)
            if (c->nbytes < 4096 || (mode + salt + i) % 3 == 0 || mode == FZM_LOSSLESS)
                check_preset(g, c, fzm_preset(i), mode);
}

static void check_presets(struct gpu_check *g)
{
    struct fzm_shape shape;
    unsigned salt = 0;
    for (int dtype = 0; dtype < FZM_BYTES; dtype++)
        for (unsigned s = 0; pattern_shape(s, dtype, &shape); s++)
            for (int pattern = 0; pattern < N_PATTERNS; pattern++, salt++) {
                struct gpu_chunk c;
                if (g->is_quick && (dtype != FZM_F32 || (pattern != PATTERN_SPECIAL && pattern != PATTERN_MASKED)))
                    continue;
                gpu_chunk_new(&c, &shape, pattern, salt);
                if (pattern == PATTERN_MASKED && salt % 2) {
                    c.array.has_fill = FZM_FILL_VALUE;
                    pattern_masked_value(c.array.fill, dtype);
                }
                check_chunk(g, &c, salt);
                gpu_chunk_free(&c);
            }
}

/* ---- pipelines ---- */

#define QUANTIZED(stages) "{\"fzm\": 1, \"bound\": {\"mode\": \"abs\", \"value\": 0.001}, \"stages\": [" \
                          "{\"name\": \"q\", \"type\": \"Quantizer\"}, " stages "]}"
#define EXACT(stages) "{\"fzm\": 1, \"bound\": {\"mode\": \"lossless\"}, \"stages\": [" stages "]}"

static const char *const pipelines[] = {
    QUANTIZED("{\"type\": \"Lorenzo\"}, {\"type\": \"Zigzag\"}, {\"type\": \"Bitshuffle\"}, {\"type\": \"RZE\"}"),
    QUANTIZED("{\"type\": \"Lorenzo\", \"order\": 2, \"block\": 100}, {\"type\": \"Negabinary\"}, "
              "{\"type\": \"Bitshuffle\", \"block_size\": 512}, {\"type\": \"RRE\", \"word\": 4}"),
    QUANTIZED("{\"name\": \"p\", \"type\": \"AdaptiveLorenzo\", \"inputs\": [\"q.codes\", \"q.outlier_mask\"]}, "
              "{\"type\": \"AdaptiveBitpack\"}, {\"type\": \"RZE\", \"inputs\": [\"q.outlier_mask\"]}"),
    QUANTIZED("{\"type\": \"AdaptiveLorenzo\"}, {\"type\": \"AdaptiveBitpack\"}"),
    QUANTIZED("{\"type\": \"AdaptiveLorenzo\", \"tile\": 4096, \"geometry\": \"3d\"}, {\"type\": \"Bitpack\"}"),
    QUANTIZED("{\"type\": \"Difference\"}, {\"type\": \"AdaptiveBitpack\", \"block_size\": 64}, "
              "{\"type\": \"BitLorenzo\", \"inputs\": [\"q.outlier_mask\", \"@input\"]}"),
    EXACT("{\"type\": \"Difference\", \"chunk\": 1000}, {\"type\": \"Zigzag\"}, {\"type\": \"Bitpack\"}"),
    EXACT("{\"type\": \"AdaptiveLorenzo\"}, {\"type\": \"Negabinary\"}, {\"type\": \"RZE\", \"word\": 4}"),
    EXACT("{\"type\": \"Bitshuffle\"}, {\"type\": \"RRE\"}, {\"type\": \"RZE\", \"word\": 8}"),
    EXACT("{\"type\": \"AdaptiveLorenzo\", \"tile\": 4096}, {\"type\": \"Negabinary\"}, {\"type\": \"Bitshuffle\"}, "
          "{\"type\": \"RZE\"}"),
};

static void check_json(struct gpu_check *g, const char *json)
{
    static const int dtypes[] = {FZM_F32, FZM_F64, FZM_I16, FZM_U8, FZM_I32, FZM_U64};
    char text[FZM_ERROR_TEXT_NBYTES];
    struct fzm_shape shape;
    fzm_pipeline *p;
    if (!CHECK(fzm_pipeline_from_json(&p, json, strlen(json), text) == 0, "%s: %s", json, text))
        return;
    for (unsigned d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (unsigned s = 0; pattern_shape(s, dtypes[d], &shape); s++)
            for (int pattern = PATTERN_SMOOTH; pattern <= PATTERN_MASKED; pattern++) {
                struct gpu_chunk c;
                if (g->is_quick && (d > 0 || s % 3 || pattern != PATTERN_SPECIAL))
                    continue;
                gpu_chunk_new(&c, &shape, pattern, s);
                if (fzm_pipeline_check(p, &c.array, text) == 0) {
                    gpu_compare(g, g->gpu, p, &c, json);
                    gpu_compare(g, g->poisoned, p, &c, json);
                    gpu_compare(g, g->staged, p, &c, json);
                }
                gpu_chunk_free(&c);
            }
    fzm_pipeline_free(&p);
}

/* ---- larger chunks ---- */

static void check_large(struct gpu_check *g)
{
    static const struct fzm_shape shapes[] = {
        {FZM_F32, 1, {1, 1, 1, 5000001}, 5000001},     {FZM_F32, 3, {1, 100, 130, 170}, 2210000},
        {FZM_F32, 2, {1, 1, 1030, 2050}, 2111500},     {FZM_F32, 3, {26, 3, 180, 200}, 2808000},
        {FZM_I32, 3, {1, 64, 128, 128}, 1048576},      {FZM_F64, 3, {1, 100, 100, 100}, 1000000},
        {FZM_U16, 1, {1, 1, 1, 3000000}, 3000000},
    };
    static const int patterns[] = {PATTERN_SMOOTH, PATTERN_SPECIAL, PATTERN_MASKED, PATTERN_RANDOM, PATTERN_ZEROS};
    char text[FZM_ERROR_TEXT_NBYTES];
    for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned k = 0; k < sizeof patterns / sizeof patterns[0]; k++) {
            struct gpu_chunk c;
            struct fzm_shape shape = shapes[s];
            shape.n_elems = shape.dims[0] * shape.dims[1] * shape.dims[2] * shape.dims[3];
            gpu_chunk_new(&c, &shape, patterns[k], s);
            check_chunk(g, &c, s + k);
            for (unsigned i = 0; i < sizeof pipelines / sizeof pipelines[0]; i++) {
                fzm_pipeline *p = NULL;
                if (fzm_pipeline_from_json(&p, pipelines[i], strlen(pipelines[i]), text) == 0 &&
                    fzm_pipeline_check(p, &c.array, text) == 0)
                    gpu_compare(g, g->gpu, p, &c, pipelines[i]);
                fzm_pipeline_free(&p);
            }
            gpu_chunk_free(&c);
        }
}

/* ---- */

static fzm_ctx *ctx_new(int engine)
{
    const fzm_options options = {.size = sizeof options, .engine = engine};
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_ctx *ctx = NULL;
    if (fzm_ctx_new(&ctx, &options, text) < 0)
        printf("no context: %s\n", text);
    return ctx;
}

/* NULL if there is a usable GPU, else why not. */
static const char *why_no_gpu(struct gpu_check *g)
{
    struct gpu_chunk c;
    const struct fzm_shape shape = {FZM_F32, 1, {1, 1, 1, 1}, 1};
    char text[FZM_ERROR_TEXT_NBYTES];
    fzm_pipeline *p = NULL;
    size_t n;
    gpu_chunk_new(&c, &shape, PATTERN_CONSTANT, 1);
    if (fzm_pipeline_from_preset(&p, 1, FZM_ABS, 1, text) < 0)
        abort();
    const int code = fzm_compress(g->gpu, p, &c.array, c.in, c.nbytes, c.other, c.cap, &n);
    fzm_pipeline_free(&p);
    gpu_chunk_free(&c);
    return code == FZM_ERR_ENGINE && !strstr(fzm_error_text(g->gpu), "does not run") ? fzm_error_text(g->gpu) : NULL;
}

int main(int argc, char **argv)
{
    check_seed(argc, argv);
    const char *const part = check_option(argc, argv, "part");
    struct gpu_check g = {ctx_new(FZM_ENGINE_CPU), ctx_new(FZM_ENGINE_GPU), ctx_new(FZM_ENGINE_GPU),
                          ctx_new(FZM_ENGINE_GPU), check_option(argc, argv, "quick") != NULL, 0};
    if (!g.cpu || !g.gpu || !g.staged || !g.poisoned)
        return 1;
    const char *const why = why_no_gpu(&g);
    if (why) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    fzm_ctx_set_fusion(g.staged, 0);
    fzm_ctx_set_poison(g.poisoned, 1);
    if (!part || strcmp(part, "presets") == 0)
        check_presets(&g);
    for (unsigned i = 0; (!part || strcmp(part, "json") == 0) && i < sizeof pipelines / sizeof pipelines[0]; i++)
        check_json(&g, pipelines[i]);
    if (!part || strcmp(part, "large") == 0)
        check_large(&g);
    if (!part || strcmp(part, "device") == 0)
        gpu_check_device_memory(&g);
    if (!part || strcmp(part, "damage") == 0)
        gpu_check_damage(&g);
    if (g.n_declined)
        printf("%lu runs of pipelines that the GPU does not take\n", g.n_declined);
    fzm_ctx_free(&g.cpu);
    fzm_ctx_free(&g.gpu);
    fzm_ctx_free(&g.staged);
    fzm_ctx_free(&g.poisoned);
    return check_done();
}
