/* SPDX-License-Identifier: BSD-3-Clause */
/* Opt-in diagnostics: lines on stderr when FZM_LOG asks for them. HDF5 2.x drops what a filter puts on the
 * error stack while it works on a chunk, so this is the one way to see why a chunk failed. */
#ifndef FZM_LOG_H
#define FZM_LOG_H

enum log_level { LOG_ERROR = 1, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* 0, or FZM_ERR_ARGUMENT and a text if FZM_LOG has a value that does not exist. */
int log_check(char *text);

/* True if lines of this level are written. */
int log_wanted(enum log_level level);

void log_line(enum log_level level, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif
