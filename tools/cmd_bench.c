/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm bench: ratio, speed and error of presets on one file of raw elements. */
#include "cmd.h"
#include "cpu/isa.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    fzm_array array;
    struct cmd_bound bound;
    fzm_options options;
    const char *path, *preset, *json_path, *fill;
    unsigned repeat;
    int isa; /* -1: no limit */
    bool typed, shaped, json;
    uint8_t *in, *stream, *out;
    size_t in_nbytes, stream_cap;
    double *seconds; /* repeat of them */
    double memcpy_gbps;
    unsigned n_rows, n_failed;
};

struct row {
    const char *preset, *engine;
    size_t stream_nbytes;
    double compress_gbps, decompress_gbps;
    size_t scratch_nbytes;
    fzm_stream_info info;
    struct cmd_difference difference;
};

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Uncompressed GB/s at the median time. */
static double median_gbps(struct bench *b)
{
    qsort(b->seconds, b->repeat, sizeof b->seconds[0], compare_doubles);
    const double s = b->seconds[b->repeat / 2];
    return s > 0 ? (double)b->in_nbytes / s * 1e-9 : 0;
}

static void measure_memcpy(struct bench *b)
{
    memset(b->out, 1, b->in_nbytes);
    for (unsigned i = 0; i < b->repeat; i++) {
        const double start = cmd_now_s();
        memcpy(b->out, b->in, b->in_nbytes);
        b->seconds[i] = cmd_now_s() - start;
    }
    b->memcpy_gbps = median_gbps(b);
}

/* One warm-up, then repeat times each way; all memory has been touched before. */
static int measure(struct bench *b, fzm_ctx *ctx, const fzm_pipeline *pipeline, struct row *row)
{
    size_t out_nbytes = 0;
    for (unsigned i = 0; i <= b->repeat; i++) {
        const double start = cmd_now_s();
        const int code = fzm_compress(ctx, pipeline, &b->array, b->in, b->in_nbytes, b->stream, b->stream_cap,
                                      &row->stream_nbytes);
        if (code < 0)
            return cmd_fail("%s: %s", row->preset, fzm_error_text(ctx));
        if (i)
            b->seconds[i - 1] = cmd_now_s() - start;
    }
    row->compress_gbps = median_gbps(b);
    row->engine = fzm_ctx_engine_used(ctx);
    for (unsigned i = 0; i <= b->repeat; i++) {
        const double start = cmd_now_s();
        const int code =
            fzm_decompress(ctx, b->stream, row->stream_nbytes, b->out, b->in_nbytes, &out_nbytes, 1);
        if (code < 0 || out_nbytes != b->in_nbytes)
            return cmd_fail("%s: %s", row->preset,
                            code < 0 ? fzm_error_text(ctx) : "wrong number of bytes restored");
        if (i)
            b->seconds[i - 1] = cmd_now_s() - start;
    }
    row->decompress_gbps = median_gbps(b);
    row->scratch_nbytes = fzm_ctx_memory_nbytes(ctx);
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    if (fzm_stream_read_info(b->stream, row->stream_nbytes, &row->info, NULL, 0, text) < 0)
        return cmd_fail("%s: %s", row->preset, text);
    return CMD_OK;
}

static void print_row_json(const struct bench *b, const struct row *r)
{
    const struct cmd_difference *const d = &r->difference;
    printf(
        "%s{\"preset\": \"%s\", \"engine\": \"%s\", \"threads\": %u, \"ratio\": %.9g, \"stream_nbytes\": "
        "%zu, "
        "\"header_nbytes\": %llu, \"compress_gbps\": %.6g, \"decompress_gbps\": %.6g, \"memcpy_gbps\": %.6g, "
        "\"scratch_nbytes\": %zu, \"stored\": %s, \"error_over_bound\": ",
        b->n_rows ? ",\n " : "", r->preset, r->engine, b->options.n_threads,
        (double)b->in_nbytes / (double)r->stream_nbytes, r->stream_nbytes,
        (unsigned long long)r->info.header_nbytes, r->compress_gbps, r->decompress_gbps, b->memcpy_gbps,
        r->scratch_nbytes, r->info.stored ? "true" : "false");
    cmd_print_json_number(d->error_over_bound);
    fputs(", \"psnr\": ", stdout);
    cmd_print_json_number(d->psnr);
    printf(", \"max_abs_error\": %.17g, \"n_violations\": %llu, \"sections\": [", d->max_abs_error,
           (unsigned long long)d->n_violations);
    for (unsigned i = 0; i < r->info.n_sections; i++)
        printf("%s{\"stage\": \"%s\", \"port\": \"%s\", \"nbytes\": %llu}", i ? ", " : "",
               r->info.sections[i].stage, r->info.sections[i].port,
               (unsigned long long)r->info.sections[i].nbytes);
    fputs("]}", stdout);
}

static void print_row_text(const struct bench *b, const struct row *r)
{
    if (b->n_rows == 0)
        puts("preset       engine      ratio  compress  decompress     PSNR  error/bound  violations   "
             "scratch");
    printf("%-12s %-6s %10.4f %7.3f GB/s %6.3f GB/s %8.2f %12.6f %11llu %8.2fx\n", r->preset, r->engine,
           (double)b->in_nbytes / (double)r->stream_nbytes, r->compress_gbps, r->decompress_gbps,
           r->difference.psnr, r->difference.error_over_bound, (unsigned long long)r->difference.n_violations,
           (double)r->scratch_nbytes / (double)b->in_nbytes);
    printf("             header %llu", (unsigned long long)r->info.header_nbytes);
    for (unsigned i = 0; i < r->info.n_sections; i++)
        printf(", %s.%s %llu", r->info.sections[i].stage, r->info.sections[i].port,
               (unsigned long long)r->info.sections[i].nbytes);
    puts(" bytes");
}

static void compare(const struct bench *b, const struct cmd_bound *bound, struct cmd_difference *difference)
{
    cmd_compare_arrays(b->in, b->out, b->array.dtype, b->in_nbytes / cmd_dtype_nbytes(b->array.dtype),
                       b->array.has_fill ? b->array.fill : NULL, bound, difference);
}

static int bench_pipeline(struct bench *b, fzm_ctx *ctx, const char *name, const fzm_pipeline *pipeline)
{
    struct row row = {.preset = name};
    const int code = measure(b, ctx, pipeline, &row);
    if (code)
        return code;
    const struct cmd_bound asked = {
        .given = true, .mode = fzm_pipeline_mode(pipeline), .value = fzm_pipeline_bound(pipeline)};
    compare(b, &asked, &row.difference);
    if (b->json)
        print_row_json(b, &row);
    else
        print_row_text(b, &row);
    b->n_rows++;
    b->n_failed += row.difference.n_violations != 0;
    return CMD_OK;
}

/* The presets asked for that take this array and bound; with "all" the others are left out. */
static int bench_presets(struct bench *b, fzm_ctx *ctx)
{
    fzm_pipeline *pipeline = NULL;
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    int code = CMD_OK;
    if (b->json_path || strcmp(b->preset, "all") != 0) {
        code = cmd_make_pipeline(&pipeline, b->json_path, b->json_path ? NULL : b->preset, &b->bound);
        if (!code)
            code = bench_pipeline(b, ctx, b->json_path ? b->json_path : b->preset, pipeline);
        fzm_pipeline_free(&pipeline);
        return code;
    }
    const fzm_preset_info *p;
    for (size_t i = 0; !code && (p = fzm_preset(i)) != NULL; i++) {
        if (fzm_pipeline_from_preset(&pipeline, p->number, b->bound.mode, b->bound.value, text) < 0 ||
            fzm_pipeline_check(pipeline, &b->array, text) < 0)
            fprintf(stderr, "%s left out: %s\n", p->name, text);
        else
            code = bench_pipeline(b, ctx, p->name, pipeline);
        fzm_pipeline_free(&pipeline);
    }
    return code;
}

/* The engine asked for; auto measures each that this machine has. */
static int bench_engines(struct bench *b)
{
    int code = CMD_OK;
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    for (int engine = FZM_ENGINE_CPU; !code && engine <= FZM_ENGINE_GPU; engine++) {
        if (b->options.engine != FZM_ENGINE_AUTO && b->options.engine != engine)
            continue;
        fzm_options options = b->options;
        fzm_ctx *ctx = NULL;
        options.engine = engine;
        if (fzm_ctx_new(&ctx, &options, text) >= 0)
            code = bench_presets(b, ctx);
        else if (b->options.engine == engine || engine == FZM_ENGINE_CPU)
            code = cmd_fail("%s", text);
        fzm_ctx_free(&ctx);
    }
    return code;
}

static int bench_file(struct bench *b)
{
    int code = cmd_read_file(b->path, &b->in, &b->in_nbytes);
    if (!code)
        code = cmd_check_nbytes(b->path, b->in_nbytes, &b->array);
    if (!code && b->in_nbytes == 0)
        code = cmd_fail("%s is empty: there is nothing to measure", b->path);
    if (code)
        return code;
    b->stream_cap = fzm_compress_bound(&b->array);
    b->stream = malloc(b->stream_cap);
    b->out = malloc(b->in_nbytes);
    b->seconds = calloc(b->repeat, sizeof b->seconds[0]);
    if (!b->stream || !b->out || !b->seconds)
        return cmd_fail("out of memory for %zu bytes", b->in_nbytes * 2);
    memset(b->stream, 1, b->stream_cap);
    if (b->isa >= 0)
        fzm_isa_set_limit((enum fzm_isa)b->isa);
    measure_memcpy(b);
    if (b->json)
        putchar('[');
    else
        printf("%s, %zu bytes, median of %u; memcpy %.3f GB/s\n", b->path, b->in_nbytes, b->repeat,
               b->memcpy_gbps);
    code = bench_engines(b);
    if (b->json)
        puts("]");
    return code ? code : b->n_failed ? CMD_FAILED : CMD_OK;
}

static int take_isa(struct bench *b, const char *text)
{
    static const char *const names[] = {"c", "avx2", "avx512"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            b->isa = i;
            return CMD_OK;
        }
    return cmd_usage_error("--isa takes c, avx2 or avx512, not '%s'", text);
}

static int take_option(struct bench *b, int option)
{
    uint64_t n = 0;
    int code;
    switch (option) {
    case 't': b->typed = true; return cmd_parse_type(optarg, &b->array);
    case 's': b->shaped = true; return cmd_parse_shape(optarg, &b->array);
    case 'p': b->preset = optarg; return CMD_OK;
    case 'P': b->json_path = optarg; return CMD_OK;
    case 'f': b->fill = optarg; return CMD_OK;
    case 'j': b->json = true; return CMD_OK;
    case 'i': return take_isa(b, optarg);
    case 'e': return cmd_parse_engine(optarg, &b->options);
    case 'n':
        code = cmd_parse_u64("threads", optarg, 1, 1024, &n);
        b->options.n_threads = (unsigned)n;
        return code;
    case 'r':
        code = cmd_parse_u64("repeat", optarg, 1, 100000, &n);
        b->repeat = (unsigned)n;
        return code;
    default: return cmd_take_bound(&b->bound, option, optarg);
    }
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {CMD_BOUND_OPTIONS,
                                            {"type", required_argument, NULL, 't'},
                                            {"shape", required_argument, NULL, 's'},
                                            {"preset", required_argument, NULL, 'p'},
                                            {"pipeline", required_argument, NULL, 'P'},
                                            {"engine", required_argument, NULL, 'e'},
                                            {"threads", required_argument, NULL, 'n'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"repeat", required_argument, NULL, 'r'},
                                            {"fill", required_argument, NULL, 'f'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct bench b = {
        .options = {.size = sizeof b.options, .n_threads = 1}, .preset = "all", .repeat = 9, .isa = -1};
    bool done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_bench, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        const int code = take_option(&b, o);
        if (code)
            return code;
    }
    if (argc - optind != 1)
        return cmd_usage_error("takes one file IN, got %d arguments", argc - optind);
    if (!b.typed || !b.shaped)
        return cmd_usage_error("--%s is missing", b.typed ? "shape" : "type");
    b.path = argv[optind];
    int code = b.fill ? cmd_parse_fill(b.fill, &b.array) : CMD_OK;
    if (!code)
        code = bench_file(&b);
    free(b.in);
    free(b.stream);
    free(b.out);
    free(b.seconds);
    return code;
}

const struct cmd cmd_bench = {
    "bench",
    "usage: fzm bench IN --type T --shape S [BOUND] [--preset P|all] [--threads N] [--repeat N] [--json]\n\n"
    "Per preset: ratio, GB/s of uncompressed bytes both ways (median, memory touched before), the speed of "
    "memcpy in\n"
    "the same run, largest error over the bound, bytes per section. Exit status 1 if a bound is broken.\n\n"
    "  --type T      u8 u16 u32 u64 i8 i16 i32 i64 f32 f64\n"
    "  --shape S     extents, slowest axis first: 100x500x500\n" CMD_BOUND_HELP
    "  --preset P    name or number; all (default): each that takes this array and bound\n"
    "  --pipeline F  a pipeline as JSON, in place of preset and bound\n"
    "  --engine E    auto (default): each that this machine has; cpu, gpu\n"
    "  --threads N   default 1\n"
    "  --isa I       use at most c, avx2, avx512\n"
    "  --repeat N    measurements each way, default 9\n"
    "  --fill V      elements equal to V are left out of range and maximum\n"
    "  --json        machine-readable output\n",
    run};
