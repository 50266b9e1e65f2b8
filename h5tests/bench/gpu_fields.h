/* SPDX-License-Identifier: BSD-3-Clause */
/* What gpu_bench.c and gpu_direct.c share: fields, read from files or made, and time. */
#ifndef FZM_GPU_FIELDS_H
#define FZM_GPU_FIELDS_H

#include "../../core/fzm.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct field {
    char name[256];
    fzm_array array;
    size_t nbytes;
    uint8_t *data;
    double range; /* of the finite elements; 0 for integers */
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void *checked(void *p)
{
    if (!p)
        fail("host memory", "out of memory");
    return p;
}

static void check_cuda(cudaError_t code)
{
    if (code != cudaSuccess)
        fail("CUDA", cudaGetErrorString(code));
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return v[n / 2];
}

static void field_set_range(struct field *f)
{
    double lo = HUGE_VAL, hi = -HUGE_VAL;
    f->range = 0;
    for (size_t i = 0; f->array.dtype == FZM_F32 && i < f->nbytes / 4; i++) {
        const float v = ((const float *)(const void *)f->data)[i];
        lo = v < lo && isfinite(v) ? v : lo;
        hi = v > hi && isfinite(v) ? v : hi;
    }
    for (size_t i = 0; f->array.dtype == FZM_F64 && i < f->nbytes / 8; i++) {
        const double v = ((const double *)(const void *)f->data)[i];
        lo = v < lo && isfinite(v) ? v : lo;
        hi = v > hi && isfinite(v) ? v : hi;
    }
    if (hi > lo)
        f->range = hi - lo;
}

static void field_set_shape(struct field *f, const char *type, const char *shape)
{
    memset(&f->array, 0, sizeof f->array);
    f->array.dtype = fzm_dtype_from_name(type);
    for (const char *p = shape; *p && f->array.rank < FZM_MAX_RANK; p += *p == 'x') {
        char *end;
        f->array.dims[f->array.rank++] = strtoull(p, &end, 10);
        if (end == p)
            fail(shape, "expected extents, slowest axis first: 100x500x500");
        p = end;
    }
    f->nbytes = f->array.dtype < 0 ? 0 : fzm_array_nbytes(&f->array);
    if (f->nbytes == 0)
        fail(shape, "no such array");
}

static void field_read(struct field *f, const char *path, const char *name)
{
    FILE *const file = fopen(path, "rb");
    f->data = checked(malloc(f->nbytes));
    if (!file || fread(f->data, 1, f->nbytes, file) != f->nbytes)
        fail(path, "cannot be read, or is too short");
    fclose(file);
    snprintf(f->name, sizeof f->name, "%s", name);
}

/* Waves with noise of a thousandth. */
static void field_make(struct field *f, const char *name)
{
    const uint64_t nx = f->array.dims[f->array.rank - 1],
                   ny = f->array.rank > 1 ? f->array.dims[f->array.rank - 2] : 1;
    const size_t n = f->nbytes / 4;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->data = checked(malloc(f->nbytes));
    float *const v = (float *)(void *)f->data;
    float *const wave = checked(malloc(65536 * sizeof *wave));
    for (int i = 0; i < 65536; i++)
        wave[i] = (float)sin(i * (2 * 3.141592653589793 / 65536));
    uint32_t noise = 1;
    for (size_t i = 0; i < n; i++) {
        const uint64_t x = i % nx, y = i / nx % ny, z = i / nx / ny;
        noise = noise * 1664525u + 1013904223u;
        v[i] = wave[(431 * x + 97 * z) & 65535] * wave[(277 * y + 57 * z) & 65535] +
               1e-3f * (float)(noise >> 8) / 16777216.0f;
    }
    free(wave);
}

#endif
