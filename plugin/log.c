/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include "fzm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"off", "error", "warn", "info", "debug"};

/* The level of FZM_LOG; 0 if unset, -1 if unknown. Read each time: a program may set it at any moment. */
static int current_level(const char **value)
{
    *value = getenv("FZM_LOG");
    if (!*value || !**value)
        return 0;
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        if (strcmp(*value, names[i]) == 0)
            return i;
    return -1;
}

int log_check(char *text)
{
    const char *value;
    if (current_level(&value) >= 0)
        return 0;
    snprintf(text, FZM_ERROR_TEXT_NBYTES, "FZM_LOG=%.40s: expected error, warn, info or debug", value);
    return FZM_ERR_ARGUMENT;
}

int log_wanted(enum log_level level)
{
    const char *value;
    return current_level(&value) >= (int)level;
}

void log_line(enum log_level level, const char *format, ...)
{
    char line[512];
    if (!log_wanted(level))
        return;
    const int head = snprintf(line, sizeof line, "h5z-fzm: %s: ", names[level]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
    va_end(args);
    /* One write, so that lines of several threads and processes do not mix. */
    size_t n = strlen(line);
    line[n++] = '\n';
    const ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}
