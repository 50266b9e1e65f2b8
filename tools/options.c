/* SPDX-License-Identifier: BSD-3-Clause */
/* Options that several commands of the fzm tool share. */
#include "cmd.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cmd_next_option(int argc, char **argv, const struct option *options, const struct cmd *cmd, bool *done)
{
    const int option = getopt_long(argc, argv, "h", options, NULL);
    *done = option == 'h';
    if (option == 'h')
        fputs(cmd->help, stdout);
    else if (option == '?')
        fprintf(stderr, "try: fzm %s --help\n", cmd->name);
    return option;
}

int cmd_parse_double(const char *name, const char *text, double *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value))
        return cmd_usage_error("--%s takes a finite number, not '%s'", name, text);
    return CMD_OK;
}

int cmd_parse_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (end == text || *end || errno || text[0] == '-' || *value < min || *value > max)
        return cmd_usage_error("--%s takes a whole number from %llu to %llu, not '%s'", name,
                               (unsigned long long)min, (unsigned long long)max, text);
    return CMD_OK;
}

int cmd_take_bound(struct cmd_bound *bound, int option, const char *text)
{
    if (bound->given)
        return cmd_usage_error(
            "two bounds are given; one of --abs, --rel, --range, --maxabs, --psnr, --lossless");
    bound->given = true;
    bound->mode = option - OPT_BOUND;
    bound->value = 0;
    bound->text = text ? text : "0";
    if (bound->mode == FZM_LOSSLESS)
        return CMD_OK;
    const char *const name = fzm_mode_name(bound->mode);
    const int code = cmd_parse_double(name, text, &bound->value);
    if (code)
        return code;
    if (bound->value < 0 || (bound->mode == FZM_PSNR && bound->value == 0))
        return cmd_usage_error("--%s takes a number %s 0, not '%s'", name,
                               bound->mode == FZM_PSNR ? ">" : ">=", text);
    return CMD_OK;
}

int cmd_parse_shape(const char *text, fzm_array *array)
{
    static const char accepted[] = "takes extents such as 100x500x500, slowest axis first";
    array->rank = 0;
    const char *at = text;
    uint64_t n_elems = 1;
    for (;;) {
        char *end = NULL;
        errno = 0;
        const uint64_t extent = strtoull(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || errno)
            return cmd_usage_error("--shape %s, not '%s'", accepted, text);
        if (array->rank == FZM_MAX_RANK)
            return cmd_usage_error("--shape takes at most %d axes", FZM_MAX_RANK);
        if (extent && n_elems > (UINT64_MAX >> 4) / extent)
            return cmd_usage_error("--shape %s has too many elements", text);
        n_elems *= extent;
        array->dims[array->rank++] = extent;
        if (!*end)
            return CMD_OK;
        if (*end != 'x' && *end != ',')
            return cmd_usage_error("--shape %s, not '%s'", accepted, text);
        at = end + 1;
    }
}

int cmd_parse_type(const char *text, fzm_array *array)
{
    const int dtype = fzm_dtype_from_name(text);
    if (dtype < 0 || dtype > FZM_F64)
        return cmd_usage_error("--type takes u8 u16 u32 u64 i8 i16 i32 i64 f32 f64, not '%s'", text);
    array->dtype = dtype;
    return CMD_OK;
}

int cmd_parse_engine(const char *text, fzm_options *options)
{
    static const char *const names[] = {"auto", "cpu", "gpu"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            options->engine = i;
            return CMD_OK;
        }
    return cmd_usage_error("--engine takes auto, cpu or gpu, not '%s'", text);
}

int cmd_parse_fill(const char *text, fzm_array *array)
{
    char *end = NULL;
    errno = 0;
    uint64_t bits = 0;
    bool fits = true;
    const size_t nbytes = cmd_dtype_nbytes(array->dtype);
    if (array->dtype == FZM_F32) {
        const float v = strtof(text, &end);
        memcpy(&bits, &v, sizeof v);
    } else if (array->dtype == FZM_F64) {
        const double v = strtod(text, &end);
        memcpy(&bits, &v, sizeof v);
    } else if (array->dtype <= FZM_U64) {
        bits = strtoull(text, &end, 10);
        fits = !errno && text[0] != '-' && (nbytes == 8 || bits >> (8 * nbytes) == 0);
    } else {
        const int64_t v = strtoll(text, &end, 10);
        const int64_t half = nbytes == 8 ? INT64_MAX : (INT64_C(1) << (8 * nbytes - 1)) - 1;
        fits = !errno && v <= half && v >= -half - 1;
        bits = (uint64_t)v;
    }
    if (end == text || *end || !fits)
        return cmd_usage_error("--fill takes a value of type %s, not '%s'", fzm_dtype_name(array->dtype),
                               text);
    for (size_t i = 0; i < nbytes && i < sizeof array->fill; i++)
        array->fill[array->big_endian ? nbytes - 1 - i : i] = (uint8_t)(bits >> (8 * i));
    array->has_fill = FZM_FILL_VALUE;
    return CMD_OK;
}

int cmd_parse_preset(const char *text, int *number)
{
    const fzm_preset_info *preset = NULL;
    if (!text) {
        preset = fzm_preset_by_name("auto");
        if (!preset)
            preset = fzm_preset(0);
    } else {
        preset = fzm_preset_by_name(text);
        char *end = NULL;
        const long n = strtol(text, &end, 10);
        if (!preset && end != text && !*end && n >= 0 && n <= INT32_MAX)
            preset = fzm_preset_by_number((int)n);
    }
    if (preset) {
        *number = preset->number;
        return CMD_OK;
    }
    char known[512] = "";
    for (size_t i = 0, at = 0; fzm_preset(i) && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, " %d %s", fzm_preset(i)->number,
                               fzm_preset(i)->name);
    return cmd_usage_error("there is no preset '%s'; known:%s", text ? text : "auto", known);
}

int cmd_make_pipeline(fzm_pipeline **pipeline, const char *json_path, const char *preset,
                      const struct cmd_bound *bound)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    *pipeline = NULL;
    if (json_path) {
        if (preset || bound->given)
            return cmd_usage_error("a JSON pipeline carries its own stages and bound; leave out --%s",
                                   preset ? "preset" : fzm_mode_name(bound->mode));
        uint8_t *json = NULL;
        size_t json_nbytes = 0;
        const int code = cmd_read_file(json_path, &json, &json_nbytes);
        if (code)
            return code;
        const int result = fzm_pipeline_from_json(pipeline, (const char *)json, json_nbytes, text);
        free(json);
        return result < 0 ? cmd_fail("%s: %s", json_path, text) : CMD_OK;
    }
    int number = 0;
    const int code = cmd_parse_preset(preset, &number);
    if (code)
        return code;
    if (fzm_pipeline_from_preset(pipeline, number, bound->mode, bound->value, text) < 0)
        return cmd_fail("%s", text);
    return CMD_OK;
}
