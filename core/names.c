/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of element types and bound modes. */
#include "fzm.h"

#include <string.h>

static const char *const dtype_names[] = {"u8",  "u16", "u32", "u64", "i8",   "i16",
                                          "i32", "i64", "f32", "f64", "bytes"};
static const char *const mode_names[] = {"lossless", "abs", "rel", "range", "maxabs", "psnr"};

enum {
    N_DTYPES = sizeof dtype_names / sizeof *dtype_names,
    N_MODES = sizeof mode_names / sizeof *mode_names
};

static int find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; name && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

const char *fzm_dtype_name(int dtype) { return dtype >= 0 && dtype < N_DTYPES ? dtype_names[dtype] : NULL; }
int fzm_dtype_from_name(const char *name) { return find_name(dtype_names, N_DTYPES, name); }
const char *fzm_mode_name(int mode) { return mode >= 0 && mode < N_MODES ? mode_names[mode] : NULL; }
int fzm_mode_from_name(const char *name) { return find_name(mode_names, N_MODES, name); }
