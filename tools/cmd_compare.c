/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm compare: how far a restored array is from its original; exit status 1 if a bound is broken. */
#include "cmd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void print_text(const struct cmd_difference *d, const struct cmd_bound *bound)
{
    printf("elements            %llu\n", (unsigned long long)d->n_elems);
    if (d->n_nonfinite)
        printf("NaN or Inf          %llu\n", (unsigned long long)d->n_nonfinite);
    if (d->n_fill)
        printf("fill value          %llu\n", (unsigned long long)d->n_fill);
    printf("range               %.9g .. %.9g\n", d->min, d->max);
    printf("max absolute error  %.9g (element %llu)\n", d->max_abs_error, (unsigned long long)d->worst_index);
    printf("max relative error  %.9g\n", d->max_rel_error);
    printf("RMSE, NRMSE         %.6g, %.6g\n", d->rmse, d->nrmse);
    if (isfinite(d->psnr))
        printf("PSNR                %.3f dB\n", d->psnr);
    else
        puts("PSNR                infinite");
    printf("bits differ         %llu elements, NaN or Inf %llu\n", (unsigned long long)d->n_bits_differ,
           (unsigned long long)d->n_nonfinite_differ);
    if (!bound->given)
        return;
    printf("bound               %s", fzm_mode_name(bound->mode));
    if (bound->mode != FZM_LOSSLESS)
        printf(" %.9g", bound->value);
    if (bound->mode == FZM_RANGE || bound->mode == FZM_MAXABS)
        printf(" = %.9g absolute", d->allowed);
    if (bound->mode != FZM_LOSSLESS && bound->mode != FZM_PSNR)
        printf(", largest error %.5g of it", d->error_over_bound);
    printf("\nviolations          %llu\n", (unsigned long long)d->n_violations);
}

static void json_count(const char *key, uint64_t value)
{
    printf("\"%s\": %llu, ", key, (unsigned long long)value);
}

static void json_number(const char *key, double value)
{
    printf("\"%s\": ", key);
    cmd_print_json_number(value);
    fputs(", ", stdout);
}

static void print_json(const struct cmd_difference *d, const struct cmd_bound *bound)
{
    putchar('{');
    json_count("n_elems", d->n_elems);
    json_count("n_nonfinite", d->n_nonfinite);
    json_count("n_fill", d->n_fill);
    json_number("min", d->min);
    json_number("max", d->max);
    json_number("max_abs_error", d->max_abs_error);
    json_count("worst_index", d->worst_index);
    json_number("max_rel_error", d->max_rel_error);
    json_number("rmse", d->rmse);
    json_number("nrmse", d->nrmse);
    json_number("psnr", d->psnr);
    json_count("n_bits_differ", d->n_bits_differ);
    json_count("n_nonfinite_differ", d->n_nonfinite_differ);
    printf("\"mode\": %s%s%s, ", bound->given ? "\"" : "", bound->given ? fzm_mode_name(bound->mode) : "null",
           bound->given ? "\"" : "");
    json_number("bound", bound->value);
    json_number("abs_bound", d->allowed);
    json_number("error_over_bound", d->error_over_bound);
    printf("\"n_violations\": %llu}\n", (unsigned long long)d->n_violations);
}

static int compare_files(const char *original_path, const char *restored_path, const fzm_array *array,
                         const struct cmd_bound *bound, bool json)
{
    uint8_t *original = NULL, *restored = NULL;
    size_t original_nbytes = 0, restored_nbytes = 0;
    int code = cmd_read_file(original_path, &original, &original_nbytes);
    if (!code)
        code = cmd_read_file(restored_path, &restored, &restored_nbytes);
    const size_t elem_nbytes = cmd_dtype_nbytes(array->dtype);
    if (!code && original_nbytes != restored_nbytes)
        code = cmd_fail("%s has %zu bytes, %s has %zu", original_path, original_nbytes, restored_path,
                        restored_nbytes);
    if (!code && original_nbytes % elem_nbytes)
        code = cmd_fail("%s has %zu bytes, not a multiple of %zu (type %s)", original_path, original_nbytes,
                        elem_nbytes, fzm_dtype_name(array->dtype));
    if (!code) {
        struct cmd_difference d;
        cmd_compare_arrays(original, restored, array->dtype, original_nbytes / elem_nbytes,
                           array->has_fill ? array->fill : NULL, bound, &d);
        if (!bound->given)
            d.n_violations = d.n_nonfinite_differ;
        if (json)
            print_json(&d, bound);
        else
            print_text(&d, bound);
        code = d.n_violations ? CMD_FAILED : CMD_OK;
    }
    free(original);
    free(restored);
    return code;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {CMD_BOUND_OPTIONS,
                                            {"type", required_argument, NULL, 't'},
                                            {"fill", required_argument, NULL, 'f'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    fzm_array array = {.dtype = -1};
    struct cmd_bound bound = {0};
    const char *fill = NULL;
    bool json = false, done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_compare, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        if (o == 'f')
            fill = optarg;
        else if (o == 'j')
            json = true;
        else if (o == 't' ? cmd_parse_type(optarg, &array) : cmd_take_bound(&bound, o, optarg))
            return CMD_USAGE;
    }
    if (argc - optind != 2)
        return cmd_usage_error("takes ORIG and RESTORED, got %d argument%s", argc - optind,
                               argc - optind == 1 ? "" : "s");
    if (array.dtype < 0)
        return cmd_usage_error("--type is missing");
    const int code = fill ? cmd_parse_fill(fill, &array) : CMD_OK;
    return code ? code : compare_files(argv[optind], argv[optind + 1], &array, &bound, json);
}

const struct cmd cmd_compare = {
    "compare",
    "usage: fzm compare ORIG RESTORED --type T [BOUND] [--fill V] [--json]\n\n"
    "Prints largest absolute and relative error, RMSE, PSNR and, with a bound, its violations. NaN and Inf "
    "must\n"
    "come back bit for bit. Exit status 1 if anything is violated.\n\n"
    "  --type T      u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 (native byte order)\n"
    "  --fill V      elements equal to V are left out of range, maximum, RMSE and PSNR\n" CMD_BOUND_HELP
    "  --json        machine-readable output\n",
    run};
