/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, files, elements and clocks for the commands of the fzm tool. */
#include "cmd.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern const char *cmd_running; /* fzm.c */

static void say(const char *format, va_list args)
{
    fprintf(stderr, "fzm%s%s: ", cmd_running ? " " : "", cmd_running ? cmd_running : "");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int cmd_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return CMD_FAILED;
}

int cmd_usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    fprintf(stderr, "try: fzm %s --help\n", cmd_running ? cmd_running : "");
    return CMD_USAGE;
}

void cmd_print_json_string(const char *text)
{
    putchar('"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", stdout);
        else if ((unsigned char)*c < 0x20)
            printf("\\u%04x", (unsigned)(unsigned char)*c);
        else
            putchar(*c);
    }
    putchar('"');
}

void cmd_print_json_number(double value)
{
    if (isfinite(value))
        printf("%.17g", value);
    else
        fputs("null", stdout);
}

int cmd_read_file(const char *path, uint8_t **data, size_t *nbytes)
{
    *data = NULL;
    *nbytes = 0;
    FILE *const f = fopen(path, "rb");
    if (!f)
        return cmd_fail("cannot open %s: %s", path, strerror(errno));
    size_t cap = 1 << 16, n = 0;
    if (fseek(f, 0, SEEK_END) == 0) { /* a plain file: one allocation of the right size */
        const long end = ftell(f);
        if (end >= 0)
            cap = (size_t)end + 1;
        rewind(f);
    }
    uint8_t *buf = malloc(cap);
    while (buf) {
        n += fread(buf + n, 1, cap - n, f);
        if (n < cap)
            break;
        cap *= 2;
        uint8_t *const bigger = realloc(buf, cap);
        if (!bigger)
            free(buf);
        buf = bigger;
    }
    const bool failed = ferror(f) != 0;
    const int why = errno;
    fclose(f);
    if (!buf)
        return cmd_fail("out of memory reading %s", path);
    if (failed) {
        free(buf);
        return cmd_fail("cannot read %s: %s", path, strerror(why));
    }
    *data = buf;
    *nbytes = n;
    return CMD_OK;
}

int cmd_write_file(const char *path, const void *data, size_t nbytes)
{
    FILE *const f = fopen(path, "wb");
    if (!f)
        return cmd_fail("cannot create %s: %s", path, strerror(errno));
    const size_t written = nbytes ? fwrite(data, 1, nbytes, f) : 0;
    const int why = errno;
    if (fclose(f) != 0 || written != nbytes) {
        const int code = cmd_fail("cannot write %zu bytes to %s: %s", nbytes, path, strerror(why));
        remove(path);
        return code;
    }
    return CMD_OK;
}

void cmd_shape_text(const fzm_array *array, char *text, size_t cap)
{
    size_t at = 0;
    text[0] = 0;
    if (array->rank == 0)
        snprintf(text, cap, "1");
    for (int i = 0; i < array->rank && at < cap; i++)
        at +=
            (size_t)snprintf(text + at, cap - at, "%s%llu", i ? "x" : "", (unsigned long long)array->dims[i]);
}

int cmd_check_nbytes(const char *path, size_t nbytes, const fzm_array *array)
{
    const size_t need = fzm_array_nbytes(array);
    if (nbytes == need)
        return CMD_OK;
    char shape[256];
    cmd_shape_text(array, shape, sizeof shape);
    return cmd_fail("%s has %zu bytes, but shape %s of type %s needs %zu bytes", path, nbytes, shape,
                    fzm_dtype_name(array->dtype), need);
}

double cmd_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
