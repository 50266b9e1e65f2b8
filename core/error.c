/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

int fzm_err_set(struct fzm_err *err, int code, const char *format, ...)
{
    if (err && err->code == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

#define FZM_ERROR_NAME(name, value, text) \
    case value: return #name;
#define FZM_ERROR_MEANING(name, value, text) \
    case value: return text;

const char *fzm_error_name(int code)
{
    switch (code) {
        FZM_ERRORS(FZM_ERROR_NAME)
    default: return "FZM_ERR_UNKNOWN";
    }
}

const char *fzm_error_meaning(int code)
{
    switch (code) {
        FZM_ERRORS(FZM_ERROR_MEANING)
    default: return "unknown error";
    }
}
