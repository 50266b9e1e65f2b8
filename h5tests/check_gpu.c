/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU engine against the CPU engine: streams and restored arrays are equal byte for byte.
 *     check_gpu [--seed=N] [--quick=1] [--part=NAME]     parts: see the table before main()
 * Quick is for runs under compute-sanitizer. Exit status 77 without a GPU. */
#include "check_gpu.h"

#include "check.h"
#include "check_gpu_stages.h"

static const double bounds[] = {[FZM_LOSSLESS] = 0, [FZM_ABS] = 1e-3,    [FZM_REL] = 1e-3,
                                [FZM_RANGE] = 1e-4, [FZM_MAXABS] = 1e-3, [FZM_PSNR] = 70};
enum { N_MODES = 6, N_FILLS = 3, N_PART_ELEMS = 10000019 };

/* The pattern; huge arrays are copies of a part. */
static void fill(uint8_t *data, const struct fzm_shape *shape, int pattern, uint64_t seed)
{
    const size_t nbytes = fzm_shape_nbytes(shape),
                 part_nbytes = N_PART_ELEMS * fzm_dtype_nbytes(shape->dtype);
    pattern_fill(data, shape->dtype, nbytes < part_nbytes ? (size_t)shape->n_elems : N_PART_ELEMS, pattern,
                 seed);
    for (size_t at = part_nbytes; at < nbytes; at += part_nbytes)
        memcpy(data + at, data, nbytes - at < part_nbytes ? nbytes - at : part_nbytes);
}

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
    fill(c->in, shape, pattern, seed);
    snprintf(c->name, sizeof c->name, "%s %llux%llux%llux%llu %s", fzm_dtype_name(shape->dtype),
             (unsigned long long)shape->dims[0], (unsigned long long)shape->dims[1],
             (unsigned long long)shape->dims[2], (unsigned long long)shape->dims[3], pattern_name(pattern));
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
    if (memcmp(a, b, n) == 0)
        return n;
    while (a[i] == b[i])
        i++;
    return i;
}

bool gpu_compare(struct gpu_check *g, fzm_ctx *ctx, const fzm_pipeline *pipeline, struct gpu_chunk *c,
                 const char *what)
{
    size_t other_nbytes = 0, n = 0, m = 0;
    const int code =
        fzm_compress(g->cpu, pipeline, &c->array, c->in, c->nbytes, c->stream, c->cap, &c->stream_nbytes);
    const int other =
        fzm_compress(ctx, pipeline, &c->array, c->in, c->nbytes, c->other, c->cap, &other_nbytes);
    if (!CHECK(code == other, "%s, %s: codes %d and %d (%s)", c->name, what, code, other,
               fzm_error_text(ctx)) ||
        code < 0)
        return false;
    CHECK(strcmp(fzm_ctx_engine_used(ctx), "gpu") == 0, "%s, %s: made by engine %s", c->name, what,
          fzm_ctx_engine_used(ctx));
    const size_t common = c->stream_nbytes < other_nbytes ? c->stream_nbytes : other_nbytes;
    const size_t at = first_difference(c->stream, c->other, common);
    CHECK(c->stream_nbytes == other_nbytes && at == common,
          "%s, %s: streams of %zu and %zu bytes differ at %zu", c->name, what, c->stream_nbytes, other_nbytes,
          at);
    memset(c->out, 0x3c, c->nbytes + 1);
    const int undone = fzm_decompress(ctx, c->stream, c->stream_nbytes, c->out, c->nbytes, &n, 1);
    if (!CHECK(fzm_decompress(g->cpu, c->stream, c->stream_nbytes, c->expected, c->nbytes, &m, 1) == 0 &&
                   undone == 0 && n == c->nbytes,
               "%s, %s: restoring gives %d (%s)", c->name, what, undone, fzm_error_text(ctx)))
        return true;
    const size_t differs = first_difference(c->out, c->expected, n);
    CHECK(differs == n, "%s, %s: restored arrays differ at byte %zu", c->name, what, differs);
    CHECK(c->out[c->nbytes] == 0x3c, "%s, %s: written behind the output", c->name, what);
    return true;
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

static void swap_bytes(uint8_t *data, size_t nbytes, size_t elem_nbytes)
{
    for (size_t i = 0; i < nbytes; i += elem_nbytes)
        for (size_t k = 0; k < elem_nbytes / 2; k++) {
            const uint8_t b = data[i + k];
            data[i + k] = data[i + elem_nbytes - 1 - k];
            data[i + elem_nbytes - 1 - k] = b;
        }
}

/* Fill values and the other byte order, now and then. */
static void vary(struct gpu_chunk *c, int pattern, unsigned salt)
{
    const size_t elem_nbytes = fzm_dtype_nbytes(c->array.dtype);
    if (pattern == PATTERN_MASKED) {
        c->array.has_fill = (int)(salt % N_FILLS);
        pattern_masked_value(c->array.fill, c->array.dtype);
    } else if (pattern == PATTERN_SPECIAL && salt % 2 && c->nbytes) {
        c->array.has_fill = FZM_FILL_VALUE; /* may be a NaN */
        memcpy(c->array.fill, c->in + c->nbytes / elem_nbytes / 2 * elem_nbytes, elem_nbytes);
    }
    if (salt % 5 == 4) {
        c->array.big_endian = 1;
        swap_bytes(c->in, c->nbytes, elem_nbytes);
        swap_bytes(c->array.fill, elem_nbytes, elem_nbytes);
    }
}

static void check_presets(struct gpu_check *g)
{
    struct fzm_shape shape;
    unsigned salt = 0;
    for (int dtype = 0; dtype < FZM_BYTES; dtype++)
        for (unsigned s = 0; pattern_shape(s, dtype, &shape); s++)
            for (int pattern = 0; pattern < N_PATTERNS; pattern++, salt++) {
                struct gpu_chunk c;
                if (g->is_quick &&
                    (dtype != FZM_F32 || (pattern != PATTERN_SPECIAL && pattern != PATTERN_MASKED)))
                    continue;
                gpu_chunk_new(&c, &shape, pattern, salt);
                vary(&c, pattern, salt);
                check_chunk(g, &c, salt);
                gpu_chunk_free(&c);
            }
}

/* ---- shapes at the edges of tiles, blocks and groups of them ---- */

static void check_edge(struct gpu_check *g, const struct fzm_shape *at, unsigned salt)
{
    static const int patterns[] = {PATTERN_SMOOTH, PATTERN_SPECIAL, PATTERN_MASKED, PATTERN_RANDOM,
                                   PATTERN_TINY};
    for (unsigned k = 0; k < (g->is_quick ? 1 : 3); k++) {
        struct gpu_chunk c;
        struct fzm_shape shape = *at;
        const int pattern = patterns[(salt + k) % (sizeof patterns / sizeof patterns[0])];
        shape.dtype = k == 0 ? FZM_F32 : (int)((salt + 4 * k) % FZM_BYTES);
        gpu_chunk_new(&c, &shape, pattern, salt);
        vary(&c, pattern, salt);
        check_chunk(g, &c, salt + k);
        gpu_chunk_free(&c);
    }
}

/* Every extent is taken as it is, one less and one more; axes of extent 1 stay. */
static void check_edges(struct gpu_check *g)
{
    static const uint32_t edges[][4] = {
        {1, 1, 1, 512},     {1, 1, 1, 1024},  {1, 1, 1, 2048},   {1, 1, 1, 8192},   {1, 1, 1, 16384},
        {1, 1, 1, 32768},   {1, 1, 1, 65536}, {1, 1, 1, 131072}, {1, 1, 1, 262144}, {1, 1, 1, 524288},
        {1, 1, 1, 1048576}, {1, 1, 16, 16},   {1, 1, 32, 64},    {1, 1, 64, 64},    {1, 1, 16, 256},
        {1, 1, 2, 4096},    {1, 1, 256, 512}, {1, 4, 8, 8},      {1, 16, 16, 16},   {1, 4, 16, 64},
        {1, 8, 32, 64},     {1, 32, 64, 64},  {2, 4, 8, 8},      {3, 16, 16, 32},
    };
    unsigned salt = 0;
    for (unsigned e = 0; e < sizeof edges / sizeof edges[0]; e += g->is_quick ? 5 : 1)
        for (unsigned offsets = 0; offsets < 27; offsets++) {
            const unsigned offset[] = {1, offsets / 9, offsets / 3 % 3, offsets % 3};
            struct fzm_shape shape = {FZM_F32, 1, {1, 1, 1, 1}, 1};
            bool is_new = true;
            for (int i = 0; i < 4; i++) {
                is_new &= offset[i] == 1 || edges[e][i] > 1;
                shape.dims[i] = edges[e][i] + offset[i] - 1;
            }
            if (!is_new)
                continue;
            for (int i = 0; i < 4; i++)
                shape.n_elems *= shape.dims[i];
            shape.rank = edges[e][1] > 1 ? 3 : edges[e][2] > 1 ? 2 : 1;
            check_edge(g, &shape, salt++);
        }
}

/* ---- pipelines ---- */

#define QUANTIZED(stages) \
    "{\"fzm\": 1, \"bound\": {\"mode\": \"abs\", \"value\": 0.001}, \"stages\": [" \
    "{\"name\": \"q\", \"type\": \"Quantizer\"}, " stages "]}"
#define EXACT(stages) "{\"fzm\": 1, \"bound\": {\"mode\": \"lossless\"}, \"stages\": [" stages "]}"

static const char *const pipelines[] = {
    QUANTIZED(
        "{\"type\": \"Lorenzo\"}, {\"type\": \"Zigzag\"}, {\"type\": \"Bitshuffle\"}, {\"type\": \"RZE\"}"),
    QUANTIZED("{\"type\": \"Lorenzo\", \"order\": 2, \"block\": 100}, {\"type\": \"Negabinary\"}, "
              "{\"type\": \"Bitshuffle\", \"block_size\": 512}, {\"type\": \"RRE\", \"word\": 4}"),
    QUANTIZED(
        "{\"name\": \"p\", \"type\": \"AdaptiveLorenzo\", \"inputs\": [\"q.codes\", \"q.outlier_mask\"]}, "
        "{\"type\": \"AdaptiveBitpack\"}, {\"type\": \"RZE\", \"inputs\": [\"q.outlier_mask\"]}"),
    QUANTIZED("{\"type\": \"AdaptiveLorenzo\"}, {\"type\": \"AdaptiveBitpack\"}"),
    QUANTIZED(
        "{\"type\": \"AdaptiveLorenzo\", \"tile\": 4096, \"geometry\": \"3d\"}, {\"type\": \"Bitpack\"}"),
    QUANTIZED("{\"type\": \"Difference\"}, {\"type\": \"AdaptiveBitpack\", \"block_size\": 64}, "
              "{\"type\": \"BitLorenzo\", \"inputs\": [\"q.outlier_mask\", \"@input\"]}"),
    EXACT("{\"type\": \"Difference\", \"chunk\": 1000}, {\"type\": \"Zigzag\"}, {\"type\": \"Bitpack\"}"),
    EXACT("{\"type\": \"AdaptiveLorenzo\"}, {\"type\": \"Negabinary\"}, {\"type\": \"RZE\", \"word\": 4}"),
    EXACT("{\"type\": \"Bitshuffle\"}, {\"type\": \"RRE\"}, {\"type\": \"RZE\", \"word\": 8}"),
    EXACT("{\"type\": \"AdaptiveLorenzo\", \"tile\": 4096}, {\"type\": \"Negabinary\"}, {\"type\": "
          "\"Bitshuffle\"}, "
          "{\"type\": \"RZE\"}"),
};

enum { N_PIPELINES = sizeof pipelines / sizeof pipelines[0] };

const char *gpu_pipeline_json(unsigned i) { return i < N_PIPELINES ? pipelines[i] : NULL; }

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
        {FZM_F32, 1, {1, 1, 1, 5000001}, 5000001}, {FZM_F32, 3, {1, 100, 130, 170}, 2210000},
        {FZM_F32, 2, {1, 1, 1030, 2050}, 2111500}, {FZM_F32, 3, {26, 3, 180, 200}, 2808000},
        {FZM_I32, 3, {1, 64, 128, 128}, 1048576},  {FZM_F64, 3, {1, 100, 100, 100}, 1000000},
        {FZM_U16, 1, {1, 1, 1, 3000000}, 3000000},
    };
    static const int patterns[] = {PATTERN_SMOOTH, PATTERN_SPECIAL, PATTERN_MASKED, PATTERN_RANDOM,
                                   PATTERN_ZEROS};
    char text[FZM_ERROR_TEXT_NBYTES];
    for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned k = 0; k < sizeof patterns / sizeof patterns[0]; k++) {
            struct gpu_chunk c;
            struct fzm_shape shape = shapes[s];
            shape.n_elems = shape.dims[0] * shape.dims[1] * shape.dims[2] * shape.dims[3];
            gpu_chunk_new(&c, &shape, patterns[k], s);
            check_chunk(g, &c, s + k);
            for (unsigned i = 0; i < N_PIPELINES; i++) {
                fzm_pipeline *p = NULL;
                if (fzm_pipeline_from_json(&p, pipelines[i], strlen(pipelines[i]), text) == 0 &&
                    fzm_pipeline_check(p, &c.array, text) == 0)
                    gpu_compare(g, g->gpu, p, &c, pipelines[i]);
                fzm_pipeline_free(&p);
            }
            gpu_chunk_free(&c);
        }
}

/* Up to the largest chunk of HDF5, 4 GiB - 1 bytes. */
static void check_huge(struct gpu_check *g)
{
    static const struct {
        struct fzm_shape shape;
        int pattern, preset;
    } cases[] = {
        {{FZM_F32, 1, {1, 1, 1, 16777217}, 0}, PATTERN_SPECIAL, 1},
        {{FZM_F32, 3, {1, 255, 256, 257}, 0}, PATTERN_MASKED, 2},
        {{FZM_F32, 3, {1, 512, 512, 512}, 0}, PATTERN_SMOOTH, 1},
        {{FZM_F32, 3, {1, 512, 512, 512}, 0}, PATTERN_SPECIAL, 2},
        {{FZM_F64, 2, {1, 1, 8191, 8193}, 0}, PATTERN_SMOOTH, 1},
        {{FZM_I16, 3, {7, 100, 600, 639}, 0}, PATTERN_SMOOTH, 5},
        {{FZM_F32, 1, {1, 1, 1, 1073741823}, 0}, PATTERN_SMOOTH, 1},
        {{FZM_F32, 1, {1, 1, 1, 1073741823}, 0}, PATTERN_SPECIAL, 2},
        {{FZM_U8, 1, {1, 1, 1, 4294967295}, 0}, PATTERN_SMOOTH, 5},
        {{FZM_U8, 1, {1, 1, 1, 4294967295}, 0}, PATTERN_RANDOM, 1},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gpu_chunk c;
        struct fzm_shape shape = cases[i].shape;
        shape.n_elems = shape.dims[0] * shape.dims[1] * shape.dims[2] * shape.dims[3];
        gpu_chunk_new(&c, &shape, cases[i].pattern, i);
        const int mode = cases[i].preset == 5 ? FZM_LOSSLESS : FZM_ABS;
        check_preset(g, &c, fzm_preset_by_number(cases[i].preset), mode);
        printf("%s: %zu bytes of stream\n", c.name, c.stream_nbytes);
        fflush(stdout);
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
    return code == FZM_ERR_ENGINE ? fzm_error_text(g->gpu) : NULL;
}

static void check_pipelines(struct gpu_check *g)
{
    for (unsigned i = 0; i < N_PIPELINES; i++)
        check_json(g, pipelines[i]);
}

static void check_stages(struct gpu_check *g)
{
    for (unsigned i = 0; i < fzm_n_stages; i++)
        check_stage(g, fzm_stages[i]);
}

static const struct {
    const char *name;
    void (*run)(struct gpu_check *g);
    bool is_asked_for; /* runs only when named: it takes minutes and tens of GiB of memory */
} parts[] = {
    {"presets", check_presets, false},   {"edges", check_edges, false},
    {"json", check_pipelines, false},    {"stages", check_stages, false},
    {"large", check_large, false},       {"device", gpu_check_device_memory, false},
    {"damage", gpu_check_damage, false}, {"engine", gpu_check_engine, false},
    {"huge", check_huge, true},
};

int main(int argc, char **argv)
{
    check_seed(argc, argv);
    const char *const part = check_option(argc, argv, "part");
    struct gpu_check g = {ctx_new(FZM_ENGINE_CPU), ctx_new(FZM_ENGINE_GPU), ctx_new(FZM_ENGINE_GPU),
                          ctx_new(FZM_ENGINE_GPU), check_option(argc, argv, "quick") != NULL};
    if (!g.cpu || !g.gpu || !g.staged || !g.poisoned)
        return 1;
    const char *const why = why_no_gpu(&g);
    if (why) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    fzm_ctx_set_fusion(g.staged, 0);
    fzm_ctx_set_poison(g.poisoned, 1);
    bool is_known = !part;
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (part ? strcmp(part, parts[i].name) == 0 : !parts[i].is_asked_for) {
            is_known = true;
            parts[i].run(&g);
        }
    CHECK(is_known, "there is no part %s", part ? part : "");
    fzm_ctx_free(&g.cpu);
    fzm_ctx_free(&g.gpu);
    fzm_ctx_free(&g.staged);
    fzm_ctx_free(&g.poisoned);
    return check_done();
}
