/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines without JSON text: compiled words, presets, names, folding of arrays, records of graphs.
 *     check_pipeline [--seed=N] [--source-dir=DIR] */
#include "check.h"
#include "config.h"
#include "shape.h"
#include "stages.h"

#include <math.h>

enum { MAX_WORDS = 512, PRESET_MAX_WORDS = 18 };

static const int modes[] = {FZM_LOSSLESS, FZM_ABS, FZM_REL, FZM_RANGE, FZM_MAXABS, FZM_PSNR};
enum { N_MODES = sizeof modes / sizeof *modes };

static void check_names(void)
{
    for (int i = -1; i <= FZM_BYTES + 1; i++) {
        const char *const name = fzm_dtype_name(i);
        CHECK((name != NULL) == (i >= 0 && i <= FZM_BYTES), "name of type %d", i);
        CHECK(!name || fzm_dtype_from_name(name) == i, "type of name %s", name ? name : "(none)");
    }
    for (int i = -1; i <= FZM_PSNR + 1; i++) {
        const char *const name = fzm_mode_name(i);
        CHECK((name != NULL) == (i >= 0 && i <= FZM_PSNR), "name of mode %d", i);
        CHECK(!name || fzm_mode_from_name(name) == i, "mode of name %s", name ? name : "(none)");
    }
    CHECK(strcmp(fzm_dtype_name(FZM_I16), "i16") == 0 && strcmp(fzm_mode_name(FZM_MAXABS), "maxabs") == 0,
          "names");
    CHECK(fzm_dtype_from_name("F32") == -1 && fzm_mode_from_name("") == -1 && fzm_mode_from_name(NULL) == -1,
          "unknown names");
}

/* Words of a pipeline, read back, are the same words; the JSON of both is the same but for names. */
static void check_words(const fzm_pipeline *p, const char *what)
{
    uint32_t words[MAX_WORDS], again[MAX_WORDS];
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    const size_t n = fzm_pipeline_to_words(p, words, MAX_WORDS);
    if (!CHECK(n >= 2 && n <= MAX_WORDS && words[0] >> 24 != 0, "%s: %zu words", what, n))
        return;
    memset(again, 0xa5, sizeof again);
    CHECK(fzm_pipeline_to_words(p, again, 1) == n && again[0] == words[0] && again[1] == UINT32_C(0xa5a5a5a5),
          "%s: words beyond the capacity", what);
    CHECK(fzm_pipeline_to_words(p, NULL, 0) == n, "%s: words without room", what);
    fzm_pipeline *q;
    if (!CHECK(fzm_pipeline_from_words(&q, words, n, text) == 0, "%s: own words are refused: %s", what, text))
        return;
    CHECK(fzm_pipeline_to_words(q, again, MAX_WORDS) == n && memcmp(words, again, 4 * n) == 0,
          "%s: other words", what);
    CHECK(fzm_pipeline_mode(p) == fzm_pipeline_mode(q) && fzm_pipeline_bound(p) == fzm_pipeline_bound(q) &&
              p->no_guarantee == q->no_guarantee,
          "%s: another bound or guarantee", what);
    fzm_pipeline_free(&q);
    for (size_t k = 0; k < n; k++)
        CHECK(fzm_pipeline_from_words(&q, words, k, text) < 0 && !q && text[0],
              "%s: %zu of %zu words are taken", what, k, n);
    words[n] = 0;
    CHECK(fzm_pipeline_from_words(&q, words, n + 1, text) < 0, "%s: one word more is taken", what);
}

/* Whatever is taken must be a pipeline with exactly these words. */
static void check_hostile_words(const uint32_t *words, size_t n_words)
{
    uint32_t again[MAX_WORDS];
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_pipeline *p;
    const int code = fzm_pipeline_from_words(&p, words, n_words, text);
    if (code < 0) {
        CHECK(!p && text[0] && (code == FZM_ERR_CORRUPT || code == FZM_ERR_VERSION || code == FZM_ERR_CONFIG),
              "refused words: %s: %s", fzm_error_name(code), text);
        return;
    }
    CHECK(fzm_pipeline_to_words(p, again, MAX_WORDS) == n_words && memcmp(words, again, 4 * n_words) == 0,
          "hostile words are taken for a pipeline with other words");
    char json[8192];
    const size_t n = fzm_pipeline_to_json(p, json, sizeof json);
    fzm_pipeline *q;
    CHECK(fzm_pipeline_from_json(&q, json, n, text) == 0, "JSON of hostile words: %s\n%s", text, json);
    fzm_pipeline_free(&q);
    fzm_array array = {.dtype = FZM_F32, .rank = 3, .dims = {10, 20, 30}};
    fzm_pipeline_check(p, &array, text);
    fzm_pipeline_free(&p);
}

static void check_fuzz(const fzm_pipeline *p)
{
    uint32_t words[MAX_WORDS], damaged[MAX_WORDS];
    const size_t n = fzm_pipeline_to_words(p, words, MAX_WORDS);
    for (size_t bit = 0; bit < 32 * n; bit++) {
        memcpy(damaged, words, 4 * n);
        damaged[bit / 32] ^= UINT32_C(1) << bit % 32;
        check_hostile_words(damaged, n);
    }
    for (unsigned round = 0; round < 4000; round++) {
        const size_t n_random = 2 + check_random_below(20);
        check_fill_random(damaged, 4 * n_random);
        damaged[0] = UINT32_C(0x465a0100) | (uint32_t)check_random_below(4);
        if (round % 2) /* small numbers look more like a record */
            for (size_t i = 1; i < n_random; i++)
                damaged[i] &= UINT32_C(0x0f0f0f0f);
        if (round % 4 == 3)
            damaged[1] = (damaged[1] & ~UINT32_C(0xff)) | FZM_LOSSLESS;
        check_hostile_words(damaged, n_random);
        memcpy(damaged, words, 4 * n);
        for (unsigned k = 0; k <= round % 3; k++) {
            const size_t i = 4 + check_random_below(4 * n - 4);
            damaged[i / 4] &= ~(UINT32_C(0xff) << 8 * (i % 4));
            damaged[i / 4] |= (uint32_t)check_random_below(round % 2 ? 256 : 16) << 8 * (i % 4);
        }
        check_hostile_words(damaged, n);
    }
}

/* The file in examples/presets must be the text of the preset. */
static void check_example(const char *source_dir, const fzm_preset_info *info)
{
    char path[4096], text[8192];
    snprintf(path, sizeof path, "%s/examples/presets/%s.json", source_dir, info->name);
    FILE *const f = fopen(path, "rb");
    if (!CHECK(f != NULL, "%s is missing", path))
        return;
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    CHECK(n == strlen(info->json) && memcmp(text, info->json, n) == 0, "%s differs from the preset", path);
}

static void check_preset(const fzm_preset_info *info)
{
    char text[FZM_ERROR_TEXT_NBYTES], what[80], json[8192];
    CHECK(fzm_preset_by_number(info->number) == info && fzm_preset_by_name(info->name) == info, "preset %s",
          info->name);
    for (int m = 0; m < N_MODES; m++) {
        fzm_pipeline *p;
        snprintf(what, sizeof what, "preset %s, mode %s", info->name, fzm_mode_name(modes[m]));
        text[0] = 0;
        if (!CHECK(fzm_pipeline_from_preset(&p, info->number, modes[m], 0.1234567890123, text) == 0, "%s: %s",
                   what, text))
            continue;
        CHECK(fzm_pipeline_mode(p) == modes[m] &&
                  fzm_pipeline_bound(p) == (modes[m] == FZM_LOSSLESS ? 0 : 0.1234567890123),
              "%s: another bound", what);
        CHECK(p->preset == info->number, "%s: number %d", what, p->preset);
        const size_t n_words = fzm_pipeline_to_words(p, NULL, 0);
        CHECK(n_words <= PRESET_MAX_WORDS, "%s: %zu words", what, n_words);
        check_words(p, what);
        if (modes[m] <= FZM_ABS)
            check_fuzz(p);
        fzm_pipeline_to_json(p, json, sizeof json);
        if (modes[m] == FZM_LOSSLESS)
            CHECK(strcmp(json, fzm_preset_by_name("lossless")->json) == 0, "%s: prints\n%s", what, json);
        fzm_pipeline_free(&p);
    }
}

static void check_presets(const char *source_dir)
{
    char text[FZM_ERROR_TEXT_NBYTES];
    const fzm_preset_info *info, *before = NULL;
    fzm_pipeline *p;
    for (size_t i = 0; (info = fzm_preset(i)) != NULL; before = info, i++) {
        CHECK(!before || before->number < info->number, "presets are not in order of number");
        check_preset(info);
        if (info->json && source_dir)
            check_example(source_dir, info);
    }
    CHECK(fzm_pipeline_from_preset(&p, 3000, FZM_ABS, 1, text) == FZM_ERR_ARGUMENT && !p &&
              strstr(text, "preset 3000 does not exist; presets: 0 auto, 1 fast, 2 balanced"),
          "unknown preset: %s", text);
    CHECK(fzm_pipeline_from_preset(&p, 1, 6, 1, text) < 0 && strstr(text, "bound mode 6 is unknown"), "%s",
          text);
    const struct {
        int mode;
        double bound;
    } bad[] = {{FZM_ABS, -1}, {FZM_ABS, NAN}, {FZM_REL, INFINITY}, {FZM_PSNR, 0}, {FZM_RANGE, -INFINITY}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(fzm_pipeline_from_preset(&p, 1, bad[i].mode, bad[i].bound, text) < 0 &&
                  strstr(text, "expected a finite"),
              "bound %g is taken: %s", bad[i].bound, text);
    CHECK(fzm_pipeline_from_preset(&p, 1, FZM_LOSSLESS, NAN, text) == 0 && fzm_pipeline_bound(p) == 0,
          "the bound of mode lossless is ignored");
    fzm_pipeline_free(&p);
    CHECK(!fzm_preset_by_name("Fast") && !fzm_preset_by_name(NULL) && !fzm_preset_by_number(-1),
          "unknown presets");
}

static void check_shape(int dtype, int rank, const uint64_t *dims, int code, unsigned want_rank,
                        const uint64_t want[4])
{
    fzm_array array = {.dtype = dtype, .rank = rank};
    struct fzm_shape s;
    struct fzm_err err = {0};
    for (int i = 0; i < rank && i < FZM_MAX_RANK; i++)
        array.dims[i] = dims[i];
    const int got = fzm_shape_from_array(&s, &array, &err);
    CHECK(got == code && (code == 0 || err.text[0]), "shape: %s %s", fzm_error_name(got), err.text);
    if (code == 0 && got == 0) {
        CHECK(s.rank == want_rank && memcmp(s.dims, want, sizeof s.dims) == 0 && s.dtype == dtype &&
                  s.n_elems == want[0] * want[1] * want[2] * want[3],
              "shape: rank %d, %llu %llu %llu %llu", s.rank, (unsigned long long)s.dims[0],
              (unsigned long long)s.dims[1], (unsigned long long)s.dims[2], (unsigned long long)s.dims[3]);
    } else {
        CHECK(s.n_elems == 0, "a refused shape has elements");
    }
}

#define DIMS(...) ((const uint64_t[]){__VA_ARGS__})

static void check_shapes(void)
{
    const uint64_t large = UINT64_C(1) << 40;
    uint64_t ones[33];
    for (int i = 0; i < 33; i++)
        ones[i] = 1;
    check_shape(FZM_F32, 0, NULL, 0, 1, DIMS(1, 1, 1, 1));
    check_shape(FZM_F32, 32, ones, 0, 1, DIMS(1, 1, 1, 1));
    check_shape(FZM_F32, 33, ones, FZM_ERR_ARGUMENT, 0, NULL);
    check_shape(FZM_F32, -1, ones, FZM_ERR_ARGUMENT, 0, NULL);
    check_shape(FZM_BYTES, 1, DIMS(5), FZM_ERR_ARGUMENT, 0, NULL);
    check_shape(-1, 1, DIMS(5), FZM_ERR_ARGUMENT, 0, NULL);
    check_shape(FZM_U8, 1, DIMS(5), 0, 1, DIMS(1, 1, 1, 5));
    check_shape(FZM_U8, 2, DIMS(3, 5), 0, 2, DIMS(1, 1, 3, 5));
    check_shape(FZM_I64, 3, DIMS(2, 3, 5), 0, 3, DIMS(1, 2, 3, 5));
    check_shape(FZM_I64, 4, DIMS(7, 2, 3, 5), 0, 3, DIMS(7, 2, 3, 5));
    check_shape(FZM_F64, 6, DIMS(2, 3, 4, 5, 6, 7), 0, 3, DIMS(24, 5, 6, 7));
    check_shape(FZM_F64, 6, DIMS(1, 3, 1, 1, 6, 1), 0, 2, DIMS(1, 1, 3, 6));
    check_shape(FZM_F64, 5, DIMS(3, 1, 4, 5, 6), 0, 3, DIMS(3, 4, 5, 6));
    check_shape(FZM_F64, 3, DIMS(5, 0, 6), 0, 1, DIMS(1, 1, 1, 0));
    check_shape(FZM_F64, 3, DIMS(UINT64_MAX, 0, UINT64_MAX), 0, 1, DIMS(1, 1, 1, 0));
    check_shape(FZM_F64, 1, &large, 0, 1, DIMS(1, 1, 1, large));
    check_shape(FZM_F64, 2, DIMS(2, large), FZM_ERR_UNSUPPORTED, 0, NULL);
    check_shape(FZM_F64, 1, DIMS(UINT64_MAX), FZM_ERR_UNSUPPORTED, 0, NULL);
    check_shape(FZM_F64, 4, DIMS(UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX), FZM_ERR_UNSUPPORTED, 0,
                NULL);
}

/* Shapes of presets: every type with every mode gets an answer, and those that must work do. */
static void check_arrays(void)
{
    char text[FZM_ERROR_TEXT_NBYTES];
    const fzm_preset_info *info;
    for (size_t i = 0; (info = fzm_preset(i)) != NULL; i++)
        for (int m = 0; m < N_MODES; m++)
            for (int dtype = 0; dtype <= FZM_BYTES; dtype++) {
                const fzm_array array = {.dtype = dtype, .rank = 3, .dims = {10, 20, 30}};
                fzm_pipeline *p;
                fzm_pipeline_from_preset(&p, info->number, modes[m], 2, NULL);
                text[0] = 0;
                const int code = fzm_pipeline_check(p, &array, text);
                CHECK(code == 0 || text[0], "%s: no reason given", info->name);
                const int must = dtype != FZM_BYTES && (dtype >= FZM_F32 || modes[m] <= FZM_ABS);
                CHECK(code == 0 || !must, "%s, %s, %s: %s", info->name, fzm_mode_name(modes[m]),
                      fzm_dtype_name(dtype), text);
                CHECK(code < 0 || dtype != FZM_BYTES, "untyped arrays are taken");
                fzm_pipeline_free(&p);
                /* A bound of 0 is exact, for all types. */
                if (modes[m] == FZM_PSNR || dtype == FZM_BYTES)
                    continue;
                fzm_pipeline_from_preset(&p, info->number, modes[m], 0, NULL);
                CHECK(fzm_pipeline_check(p, &array, text) == 0, "%s, %s 0, %s: %s", info->name,
                      fzm_mode_name(modes[m]), fzm_dtype_name(dtype), text);
                fzm_pipeline_free(&p);
            }
}

/* Lossy stages that check nothing, and structures that JSON cannot express. */
static void check_graphs(void)
{
    static struct fzm_stage unchecked, other;
    struct fzm_graph g;
    struct fzm_err err = {0};
    memset(&g, 0, sizeof g);
    unchecked = *fzm_stage_by_name("Zigzag");
    unchecked.flags |= FZM_STAGE_LOSSY;
    g.n_nodes = 1;
    g.nodes[0].stage = &unchecked;
    g.nodes[0].in[0].node = FZM_SOURCE_INPUT;
    CHECK(fzm_graph_check(&g, 0, &err) == FZM_ERR_CONFIG && strstr(err.text, "does not check the error") &&
              strstr(err.text, "\"guarantee\": \"none\""),
          "no guarantee: %s", err.text);
    CHECK(fzm_graph_check(&g, 1, NULL) == 0, "no guarantee is asked for");

    other = *fzm_stage_by_name("Zigzag");
    g.nodes[0].stage = &other;
    CHECK(fzm_graph_check(&g, 0, NULL) == 0, "one stage");
    for (int node = -3; node < 4; node++)
        for (unsigned port = 0; port < 6; port++) {
            g.nodes[0].in[0].node = (int8_t)node;
            g.nodes[0].in[0].port = (uint8_t)port;
            CHECK((fzm_graph_check(&g, 0, NULL) == 0) == (node == -1 && port == 0), "source %d.%u", node,
                  port);
        }
    g.n_nodes = 0;
    CHECK(fzm_graph_check(&g, 0, NULL) < 0, "no stages");
    g.n_nodes = FZM_MAX_STAGES + 1;
    CHECK(fzm_graph_check(&g, 0, NULL) < 0, "too many stages");
}

/* Runtime params travel in streams and not in words; every f64 keeps its bits. */
static void check_records(void)
{
    static const double values[] = {
        0, 1, 0.1, 1e-300, 1e300, 4.9406564584124654e-324, 1.7976931348623157e308, 0.5, 3};
    for (unsigned i = 0; i < fzm_n_stages; i++) {
        const struct fzm_stage *const s = fzm_stages[i];
        for (unsigned j = 0; j < s->n_params; j++)
            for (unsigned k = 0; k < sizeof values / sizeof *values; k++) {
                const struct fzm_param *const p = &s->params[j];
                struct fzm_graph g, h;
                uint8_t bytes[256];
                struct fzm_writer w = {bytes, bytes + sizeof bytes, false};
                struct fzm_err err = {0};
                memset(&g, 0, sizeof g);
                g.n_nodes = 1;
                g.nodes[0].stage = s;
                for (unsigned n = 0; n < s->n_in; n++)
                    g.nodes[0].in[n].node = FZM_SOURCE_INPUT;
                fzm_params_init(s, g.nodes[0].params.bytes);
                fzm_params_set(s, g.nodes[0].params.bytes, j, values[k]);
                if (fzm_params_check(s, g.nodes[0].params.bytes, NULL) < 0)
                    continue;
                fzm_graph_write(&g, 1, &w);
                struct fzm_reader r = {bytes, w.p, false};
                CHECK(fzm_graph_read(&h, &r, &err) == 0 && r.p == r.end, "%s.%s %g: %s", s->name, p->key,
                      values[k], err.text);
                CHECK(memcmp(g.nodes[0].params.bytes, h.nodes[0].params.bytes, s->params_nbytes) == 0,
                      "%s.%s %g is not read back", s->name, p->key, values[k]);
                for (const uint8_t *cut = bytes; cut < w.p; cut++) {
                    struct fzm_reader part = {bytes, cut, false};
                    CHECK(fzm_graph_read(&h, &part, NULL) < 0, "%s: a cut record is taken", s->name);
                }
                w.p = bytes;
                fzm_graph_write(&g, 0, &w);
                r.p = bytes, r.end = w.p;
                CHECK(fzm_graph_read(&h, &r, NULL) == 0, "%s: record without runtime params", s->name);
                CHECK(
                    fzm_params_get(s, h.nodes[0].params.bytes, j) ==
                        (p->flags & FZM_PF_RUNTIME ? p->def : fzm_params_get(s, g.nodes[0].params.bytes, j)),
                    "%s.%s: runtime param in words", s->name, p->key);
            }
    }
}

int main(int argc, char **argv)
{
    const char *const source_dir = check_option(argc, argv, "source-dir");
    check_seed(argc, argv);
    check_names();
    check_presets(source_dir);
    check_shapes();
    check_arrays();
    check_graphs();
    check_records();
    return check_done();
}
