/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors inside core: a code up the stack, a message in the caller's struct fzm_err. */
#ifndef FZM_ERROR_H
#define FZM_ERROR_H

#include "fzm.h"

struct fzm_err {
    int code; /* 0 or negative FZM_ERR_* */
    char text[FZM_ERROR_TEXT_NBYTES];
};

/* Records code and a formatted message (the first failure wins) and returns code. err may be NULL. */
int fzm_err_set(struct fzm_err *err, int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#define FZM_TRY(expression)                    \
    do {                                       \
        const int fzm_try_code = (expression); \
        if (fzm_try_code < 0)                  \
            return fzm_try_code;               \
    } while (0)

#endif
