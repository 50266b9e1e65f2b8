/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm info: what a stream, or an HDF5 file with filtered datasets, holds. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>

enum { JSON_CAP = 16384 };

static void print_text(const char *path, const fzm_stream_info *info, const char *pipeline)
{
    char shape[256];
    cmd_shape_text(&info->array, shape, sizeof shape);
    printf("stream              %s\n", path);
    printf("array               %s %s%s, %llu bytes\n", fzm_dtype_name(info->array.dtype), shape,
           info->array.big_endian ? " big-endian" : "", (unsigned long long)info->array_nbytes);
    printf("stream size         %llu bytes, header %llu\n", (unsigned long long)info->stream_nbytes,
           (unsigned long long)info->header_nbytes);
    printf("ratio               %.4g\n",
           info->stream_nbytes ? (double)info->array_nbytes / (double)info->stream_nbytes : 0);
    printf("bound               %s", fzm_mode_name(info->mode));
    if (info->mode != FZM_LOSSLESS)
        printf(" %.9g", info->bound);
    if (info->abs_bound > 0 && info->mode != FZM_ABS)
        printf(" (absolute %.9g)", info->abs_bound);
    putchar('\n');
    if (info->stored) {
        puts("payload             the elements as they are");
        return;
    }
    puts("sections");
    for (unsigned i = 0; i < info->n_sections; i++)
        printf("  %-17s %-12s %llu bytes\n", info->sections[i].stage, info->sections[i].port,
               (unsigned long long)info->sections[i].nbytes);
    printf("pipeline\n%s\n", pipeline);
}

static void print_json(const fzm_stream_info *info, const char *pipeline)
{
    printf("{\"type\": \"%s\", \"shape\": [", fzm_dtype_name(info->array.dtype));
    for (int i = 0; i < info->array.rank; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)info->array.dims[i]);
    printf("], \"big_endian\": %s, \"array_nbytes\": %llu, \"stream_nbytes\": %llu, \"header_nbytes\": %llu, "
           "\"stored\": %s, \"mode\": \"%s\", \"bound\": ",
           info->array.big_endian ? "true" : "false", (unsigned long long)info->array_nbytes,
           (unsigned long long)info->stream_nbytes, (unsigned long long)info->header_nbytes,
           info->stored ? "true" : "false", fzm_mode_name(info->mode));
    cmd_print_json_number(info->bound);
    fputs(", \"abs_bound\": ", stdout);
    cmd_print_json_number(info->abs_bound);
    fputs(", \"sections\": [", stdout);
    for (unsigned i = 0; i < info->n_sections; i++)
        printf("%s{\"stage\": \"%s\", \"port\": \"%s\", \"nbytes\": %llu}", i ? ", " : "",
               info->sections[i].stage, info->sections[i].port, (unsigned long long)info->sections[i].nbytes);
    printf("], \"pipeline\": %s}\n", *pipeline ? pipeline : "null");
}

static int info_stream(const char *path, const uint8_t *data, size_t nbytes, bool json)
{
    fzm_stream_info info;
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    static char pipeline[JSON_CAP];
    if (fzm_stream_read_info(data, nbytes, &info, pipeline, sizeof pipeline, text) < 0)
        return cmd_fail("%s: %s", path, text);
    if (json)
        print_json(&info, pipeline);
    else
        print_text(path, &info, pipeline);
    return CMD_OK;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false, done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_info, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        json = true;
    }
    if (argc - optind != 1)
        return cmd_usage_error("takes one FILE, got %d arguments", argc - optind);
    const char *const path = argv[optind];
    if (cmd_is_hdf5(path))
        return cmd_info_h5(path, json);
    uint8_t *data = NULL;
    size_t nbytes = 0;
    int code = cmd_read_file(path, &data, &nbytes);
    if (!code)
        code = info_stream(path, data, nbytes, json);
    free(data);
    return code;
}

const struct cmd cmd_info = {"info",
                             "usage: fzm info FILE [--json]\n\n"
                             "A stream: array, bound, pipeline, sections, ratio. An HDF5 file: the same per "
                             "dataset, with the number of chunks\n"
                             "and how many of them are stored as they are.\n",
                             run};
