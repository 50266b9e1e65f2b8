/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm filter-args: the same request as h5repack, h5py, nccopy and C want to have it. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 512, H5REPACK_MAX_WORDS = 20, MAX_EXPONENT = 400 };

/* mantissa * 10^-exponent from decimal text, exactly; false if it does not fit two cd_values. */
static bool parse_decimal(const char *text, uint32_t *mantissa, uint32_t *exponent)
{
    uint64_t m = 0;
    long e = 0;
    bool point = false;
    const char *c = text + (*text == '+');
    for (; (*c >= '0' && *c <= '9') || (*c == '.' && !point); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        if (m > UINT64_MAX / 16)
            return false;
        m = m * 10 + (uint64_t)(*c - '0');
        e += point;
    }
    if (*c == 'e' || *c == 'E') {
        char *end = NULL;
        const long power = strtol(c + 1, &end, 10);
        if (end == c + 1 || power > 1000 || power < -1000)
            return false;
        e -= power;
        c = end;
    }
    if (*c)
        return false;
    for (; m && e > 0 && m % 10 == 0; e--)
        m /= 10;
    for (; m && e < 0 && m <= UINT32_MAX; e++)
        m *= 10;
    if (m == 0)
        e = 0;
    if (m > UINT32_MAX || e < 0 || e > MAX_EXPONENT)
        return false;
    *mantissa = (uint32_t)m;
    *exponent = (uint32_t)e;
    return true;
}

/* The user form of cd_values; 0 if the bound has none. */
static size_t user_form(int preset, const struct cmd_bound *bound, uint32_t *words)
{
    words[0] = (uint32_t)preset;
    words[1] = (uint32_t)bound->mode;
    if (bound->mode == FZM_LOSSLESS)
        return 2;
    if (parse_decimal(bound->text, &words[2], &words[3])) {
        char text[32];
        snprintf(text, sizeof text, "%lue-%lu", (unsigned long)words[2], (unsigned long)words[3]);
        if (strtod(text, NULL) == bound->value)
            return 4;
    }
    uint64_t bits;
    memcpy(&bits, &bound->value, sizeof bits);
    words[2] = (uint32_t)bits;
    words[3] = (uint32_t)(bits >> 32);
    return words[3] > MAX_EXPONENT ? 4 : 0;
}

static void print_words(const uint32_t *words, size_t n, const char *separator, const char *suffix)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%lu%s", i ? separator : "", (unsigned long)words[i], suffix);
}

static void print_forms(const uint32_t *words, size_t n)
{
    if (n <= H5REPACK_MAX_WORDS) {
        printf("h5repack  h5repack -f UD=%d,0,%zu%s", FZM_FILTER_ID, n, n ? "," : "");
        print_words(words, n, ",", "");
        fputs(" in.h5 out.h5\n", stdout);
    } else
        printf("h5repack  takes at most %d values, these are %zu: use the C, h5py or nccopy form\n",
               H5REPACK_MAX_WORDS, n);
    printf("h5py      file.create_dataset(name, data=data, chunks=True, compression=%d, compression_opts=(",
           FZM_FILTER_ID);
    print_words(words, n, ", ", "");
    printf("%s))\n", n == 1 ? "," : "");
    printf("nccopy    nccopy -F \"variable,%d%s", FZM_FILTER_ID, n ? "," : "");
    print_words(words, n, ",", "");
    fputs("\" in.nc out.nc\n", stdout);
    printf("C         const unsigned cd_values[] = {");
    print_words(words, n, ", ", "u");
    printf("};\n          H5Pset_filter(dcpl, %d, H5Z_FLAG_MANDATORY, %zu, cd_values);\n", FZM_FILTER_ID, n);
}

static int print_args(const uint32_t *words, size_t n, bool json)
{
    if (!json) {
        print_forms(words, n);
        return CMD_OK;
    }
    printf("{\"filter_id\": %d, \"cd_values\": [", FZM_FILTER_ID);
    print_words(words, n, ", ", "");
    printf("], \"fits_h5repack\": %s}\n", n <= H5REPACK_MAX_WORDS ? "true" : "false");
    return CMD_OK;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {CMD_BOUND_OPTIONS,
                                            {"preset", required_argument, NULL, 'p'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"output-json", no_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct cmd_bound bound = {0};
    const char *preset = NULL, *json_path = NULL;
    bool output_json = false, done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_filter_args, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        if (o == 'p')
            preset = optarg;
        else if (o == 'j')
            json_path = optarg;
        else if (o == 'o')
            output_json = true;
        else if (cmd_take_bound(&bound, o, optarg))
            return CMD_USAGE;
    }
    if (optind < argc)
        return cmd_usage_error("takes no argument, not '%s'", argv[optind]);
    fzm_pipeline *pipeline = NULL;
    int code = cmd_make_pipeline(&pipeline, json_path, preset, &bound);
    if (code)
        return code;
    uint32_t words[MAX_WORDS];
    size_t n = 0;
    if (json_path) {
        n = fzm_pipeline_to_words(pipeline, words, MAX_WORDS);
        if (n > MAX_WORDS)
            code = cmd_fail("%s compiles to %zu values, more than %d", json_path, n, MAX_WORDS);
    } else {
        int number = 0;
        cmd_parse_preset(preset, &number);
        n = user_form(number, &bound, words);
        if (n == 0)
            code = cmd_fail(
                "the bound %s cannot be passed as two filter values; take at least 1e-300 or a decimal "
                "of at most 9 digits",
                bound.text);
    }
    fzm_pipeline_free(&pipeline);
    return code ? code : print_args(words, n, output_json);
}

const struct cmd cmd_filter_args = {
    "filter-args",
    "usage: fzm filter-args [--preset P] [BOUND] [--json FILE] [--output-json]\n\n"
    "Prints what h5repack, h5py, nccopy and C programs need to apply the HDF5 filter.\n\n"
    "  --preset P    name or number, see fzm presets; default auto\n" CMD_BOUND_HELP
    "  --json FILE   a pipeline as JSON, which carries its own bound, in place of preset and bound\n"
    "  --output-json print filter id and values as JSON\n",
    run};
