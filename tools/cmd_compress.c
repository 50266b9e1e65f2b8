/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm compress, fzm decompress: raw arrays to streams and back. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>

struct compress_args {
    fzm_array array;
    struct cmd_bound bound;
    fzm_options options;
    const char *preset, *json_path, *fill;
    bool typed, shaped;
};

static int new_ctx(fzm_ctx **ctx, const fzm_options *options)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    return fzm_ctx_new(ctx, options, text) < 0 ? cmd_fail("%s", text) : CMD_OK;
}

static int take_threads(fzm_options *options, const char *text)
{
    uint64_t n = 0;
    const int code = cmd_parse_u64("threads", text, 1, 1024, &n);
    options->n_threads = (unsigned)n;
    return code;
}

static int take_option(struct compress_args *a, int option)
{
    switch (option) {
    case 't': a->typed = true; return cmd_parse_type(optarg, &a->array);
    case 's': a->shaped = true; return cmd_parse_shape(optarg, &a->array);
    case 'p': a->preset = optarg; return CMD_OK;
    case 'j': a->json_path = optarg; return CMD_OK;
    case 'e': return cmd_parse_engine(optarg, &a->options);
    case 'n': return take_threads(&a->options, optarg);
    case 'f': a->fill = optarg; return CMD_OK;
    case 'B': a->array.big_endian = 1; return CMD_OK;
    default: return cmd_take_bound(&a->bound, option, optarg);
    }
}

/* Compresses in (already of the right size) and writes the stream. */
static int compress_to(const struct compress_args *a, const uint8_t *in, size_t in_nbytes,
                       const char *out_path)
{
    fzm_pipeline *pipeline = NULL;
    fzm_ctx *ctx = NULL;
    const size_t cap = fzm_compress_bound(&a->array);
    uint8_t *const out = malloc(cap);
    size_t out_nbytes = 0;
    int code = out ? CMD_OK : cmd_fail("out of memory for a stream of up to %zu bytes", cap);
    if (!code)
        code = cmd_make_pipeline(&pipeline, a->json_path, a->preset, &a->bound);
    if (!code)
        code = new_ctx(&ctx, &a->options);
    if (!code && fzm_compress(ctx, pipeline, &a->array, in, in_nbytes, out, cap, &out_nbytes) < 0)
        code = cmd_fail("%s", fzm_error_text(ctx));
    if (!code)
        code = cmd_write_file(out_path, out, out_nbytes);
    fzm_ctx_free(&ctx);
    fzm_pipeline_free(&pipeline);
    free(out);
    return code;
}

static int run_compress(int argc, char **argv)
{
    static const struct option options[] = {CMD_BOUND_OPTIONS,
                                            {"type", required_argument, NULL, 't'},
                                            {"shape", required_argument, NULL, 's'},
                                            {"preset", required_argument, NULL, 'p'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"engine", required_argument, NULL, 'e'},
                                            {"threads", required_argument, NULL, 'n'},
                                            {"fill", required_argument, NULL, 'f'},
                                            {"big-endian", no_argument, NULL, 'B'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct compress_args a = {.options = {.size = sizeof a.options}};
    bool done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_compress, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        const int code = take_option(&a, o);
        if (code)
            return code;
    }
    if (argc - optind != 2)
        return cmd_usage_error("takes IN and OUT, got %d argument%s", argc - optind,
                               argc - optind == 1 ? "" : "s");
    if (!a.typed || !a.shaped)
        return cmd_usage_error("--%s is missing", a.typed ? "shape" : "type");
    int code = a.fill ? cmd_parse_fill(a.fill, &a.array) : CMD_OK;
    if (code)
        return code;
    uint8_t *in = NULL;
    size_t in_nbytes = 0;
    code = cmd_read_file(argv[optind], &in, &in_nbytes);
    if (!code)
        code = cmd_check_nbytes(argv[optind], in_nbytes, &a.array);
    if (!code)
        code = compress_to(&a, in, in_nbytes, argv[optind + 1]);
    free(in);
    return code;
}

const struct cmd cmd_compress = {
    "compress",
    "usage: fzm compress IN OUT --type T --shape S [BOUND] [--preset P | --json FILE] [--engine E]\n\n"
    "Compresses a file of raw elements into one stream. Without a bound: lossless.\n\n"
    "  --type T      u8 u16 u32 u64 i8 i16 i32 i64 f32 f64\n"
    "  --shape S     extents, slowest axis first: 100x500x500\n" CMD_BOUND_HELP
    "  --preset P    name or number, see fzm presets; default auto\n"
    "  --json FILE   a pipeline as JSON, which carries its own bound, in place of preset and bound\n"
    "  --fill V      elements equal to V are left out of range and maximum\n"
    "  --big-endian  the elements of IN are big-endian\n"
    "  --engine E    auto, cpu or gpu\n"
    "  --threads N   default: FZM_NUM_THREADS, else every CPU\n",
    run_compress};

static int decompress_to(const uint8_t *in, size_t in_nbytes, const char *in_path, const char *out_path,
                         const fzm_options *options, int verify)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_stream_info info;
    if (fzm_stream_read_info(in, in_nbytes, &info, NULL, 0, text) < 0)
        return cmd_fail("%s: %s", in_path, text);
    const size_t cap = (size_t)info.array_nbytes;
    uint8_t *const out = malloc(cap ? cap : 1);
    fzm_ctx *ctx = NULL;
    size_t out_nbytes = 0;
    int code = out ? new_ctx(&ctx, options) : cmd_fail("out of memory for %zu bytes", cap);
    if (!code && fzm_decompress(ctx, in, in_nbytes, out, cap, &out_nbytes, verify) < 0)
        code = cmd_fail("%s: %s", in_path, fzm_error_text(ctx));
    if (!code)
        code = cmd_write_file(out_path, out, out_nbytes);
    fzm_ctx_free(&ctx);
    free(out);
    return code;
}

static int run_decompress(int argc, char **argv)
{
    static const struct option options[] = {{"engine", required_argument, NULL, 'e'},
                                            {"threads", required_argument, NULL, 'n'},
                                            {"no-verify", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    fzm_options ctx_options = {.size = sizeof ctx_options};
    int verify = 1;
    bool done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_decompress, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        if (o == 'V')
            verify = 0;
        else if (o == 'e' ? cmd_parse_engine(optarg, &ctx_options) : take_threads(&ctx_options, optarg))
            return CMD_USAGE;
    }
    if (argc - optind != 2)
        return cmd_usage_error("takes IN and OUT, got %d argument%s", argc - optind,
                               argc - optind == 1 ? "" : "s");
    uint8_t *in = NULL;
    size_t in_nbytes = 0;
    int code = cmd_read_file(argv[optind], &in, &in_nbytes);
    if (!code)
        code = decompress_to(in, in_nbytes, argv[optind], argv[optind + 1], &ctx_options, verify);
    free(in);
    return code;
}

const struct cmd cmd_decompress = {
    "decompress",
    "usage: fzm decompress IN OUT [--engine E] [--threads N] [--no-verify]\n\n"
    "Restores the raw elements of a stream, in the byte order that they had.\n\n"
    "  --engine E    auto, cpu or gpu\n"
    "  --threads N   default: FZM_NUM_THREADS, else every CPU\n"
    "  --no-verify   skip the payload checksum\n",
    run_decompress};
