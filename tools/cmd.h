/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the commands of the fzm tool: the command table, option parsing, files, messages. */
#ifndef FZM_CMD_H
#define FZM_CMD_H

#include "fzm.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 2 };

struct cmd {
    const char *name;
    const char *help; /* usage line and options, printed by --help */
    int (*run)(int argc, char **argv);
};

extern const struct cmd cmd_presets, cmd_stages, cmd_filter_args, cmd_compress, cmd_decompress, cmd_info,
    cmd_compare, cmd_bench;

/* ---- messages: "fzm COMMAND: text" on stderr ---- */

/* Return CMD_FAILED and CMD_USAGE. */
int cmd_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cmd_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints text as a JSON string with its quotes. */
void cmd_print_json_string(const char *text);

/* Prints a number as JSON: null if it is not finite. */
void cmd_print_json_number(double value);

/* ---- options ---- */

/* Values of the bound options in a struct option list: OPT_BOUND + enum fzm_mode. */
enum { OPT_BOUND = 1000, OPT_OTHER = 2000 };

/* clang-format off */
#define CMD_BOUND_OPTIONS \
    {"lossless", no_argument, NULL, OPT_BOUND + FZM_LOSSLESS}, \
    {"abs", required_argument, NULL, OPT_BOUND + FZM_ABS}, \
    {"rel", required_argument, NULL, OPT_BOUND + FZM_REL}, \
    {"range", required_argument, NULL, OPT_BOUND + FZM_RANGE}, \
    {"maxabs", required_argument, NULL, OPT_BOUND + FZM_MAXABS}, \
    {"psnr", required_argument, NULL, OPT_BOUND + FZM_PSNR}
/* clang-format on */

#define CMD_BOUND_HELP \
    "  --abs E       |x - y| <= E for every element\n" \
    "  --rel E       |x - y| <= E |x|\n" \
    "  --range E     |x - y| <= E (max - min)\n" \
    "  --maxabs E    |x - y| <= E max|x|\n" \
    "  --psnr D      peak signal-to-noise ratio of at least D dB\n" \
    "  --lossless    every bit is kept\n"

struct cmd_bound {
    bool given;
    int mode; /* enum fzm_mode; FZM_LOSSLESS when none is given */
    double value;
    const char *text; /* as typed */
};

/* Next option, or -1 at the end; a "--help" prints help and sets *done. '?' has been reported. */
int cmd_next_option(int argc, char **argv, const struct option *options, const struct cmd *cmd, bool *done);

/* Takes a bound option (OPT_BOUND + mode). A second bound is an error. */
int cmd_take_bound(struct cmd_bound *bound, int option, const char *text);

int cmd_parse_double(const char *name, const char *text, double *value);
int cmd_parse_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *value);
int cmd_parse_shape(const char *text, fzm_array *array);
int cmd_parse_type(const char *text, fzm_array *array);
int cmd_parse_engine(const char *text, fzm_options *options);

/* An element from its decimal text, in the array's type and byte order, as array->fill. */
int cmd_parse_fill(const char *text, fzm_array *array);

/* Preset by name or number; text NULL: the default preset. */
int cmd_parse_preset(const char *text, int *number);

/* A pipeline from a JSON file (NULL: none), else from a preset and a bound. */
int cmd_make_pipeline(fzm_pipeline **pipeline, const char *json_path, const char *preset,
                      const struct cmd_bound *bound);

/* ---- files ---- */

/* Whole file in memory (free() it; never NULL on success). */
int cmd_read_file(const char *path, uint8_t **data, size_t *nbytes);
int cmd_write_file(const char *path, const void *data, size_t nbytes);

/* Says both sizes if the file's does not match type and shape. */
int cmd_check_nbytes(const char *path, size_t nbytes, const fzm_array *array);

/* "100x500x500" into text. */
void cmd_shape_text(const fzm_array *array, char *text, size_t cap);

/* ---- elements, clocks ---- */

/* Element i as a long double (exact for every type on x86-64). Native byte order. */
long double cmd_element(const void *data, int dtype, size_t i);
size_t cmd_dtype_nbytes(int dtype);

double cmd_now_s(void);

/* ---- comparison of two arrays, shared by compare and bench ---- */

struct cmd_difference {
    uint64_t n_elems, n_nonfinite, n_fill;
    uint64_t n_bits_differ;      /* elements that are not equal bit for bit */
    uint64_t n_nonfinite_differ; /* NaN or Inf in one of the two, not equal bit for bit */
    uint64_t n_violations;       /* of the bound; for lossless: n_bits_differ */
    uint64_t worst_index;        /* element of the largest absolute error */
    double min, max;             /* of the finite elements of the original, without the fill value */
    double max_abs_error, max_rel_error, rmse, nrmse, psnr;
    double allowed;          /* the absolute bound; 0 for rel, psnr and lossless */
    double error_over_bound; /* largest error over its bound; 0 for lossless */
};

/* fill may be NULL. psnr counts one violation if the chunk misses it. */
void cmd_compare_arrays(const void *original, const void *restored, int dtype, size_t n_elems,
                        const void *fill, const struct cmd_bound *bound, struct cmd_difference *d);

/* ---- fzm info on an HDF5 file (info_h5.c) ---- */

/* Whether the file has an HDF5 signature. */
bool cmd_is_hdf5(const char *path);
int cmd_info_h5(const char *path, bool json);

#endif
