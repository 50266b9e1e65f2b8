/* SPDX-License-Identifier: BSD-3-Clause */
#include "patterns.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* splitmix64 */
static uint64_t pattern_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* [0, 1) */
static double pattern_uniform(uint64_t *state) { return (double)(pattern_random(state) >> 11) * 0x1p-53; }

const char *pattern_name(int pattern)
{
    static const char *const names[] = {"zeros", "constant", "ramp",   "smooth", "alternating", "huge",
                                        "tiny",  "special",  "random", "sparse", "masked"};
    return names[pattern];
}

/* Greatest magnitude that a pattern may use, so that integers of any width get sensible values. */
static double scale_of(int dtype)
{
    switch (dtype) {
    case FZM_F32:
    case FZM_F64: return 300;
    case FZM_U8:
    case FZM_I8: return 60;
    case FZM_U16:
    case FZM_I16: return 9000;
    default: return 100000;
    }
}

static int64_t int_max(int dtype)
{
    const unsigned bits = 8 * (unsigned)fzm_dtype_nbytes(dtype);
    return fzm_dtype_is_signed(dtype) || bits == 64 ? (int64_t)(UINT64_MAX >> 1 >> (64 - bits))
                                                    : (int64_t)((UINT64_C(1) << bits) - 1);
}

static void store_bits(void *data, int dtype, size_t i, uint64_t bits)
{
    const size_t nbytes = fzm_dtype_nbytes(dtype);
    memcpy((uint8_t *)data + i * nbytes, &bits,
           nbytes); /* low bytes first: tests run on little-endian hosts */
}

static void store(void *data, int dtype, size_t i, double v)
{
    uint64_t bits = 0;
    if (dtype == FZM_F32) {
        const float f = (float)v;
        memcpy(&bits, &f, sizeof f);
    } else if (dtype == FZM_F64)
        memcpy(&bits, &v, sizeof v);
    else
        bits = (uint64_t)(int64_t)(fzm_dtype_is_signed(dtype) || v >= 0 ? v : -v);
    store_bits(data, dtype, i, bits);
}

static double wave(size_t i, double scale, uint64_t *state)
{
    const double x = (double)i;
    const double w = sin(x * 0.013) * 0.6 + sin(x * 0.00071 + 1) * 0.3 + sin(x * 0.21) * 0.05;
    return scale * (w + 0.0005 * (pattern_uniform(state) - 0.5));
}

static void store_special(void *data, int dtype, size_t i, uint64_t *state)
{
    static const uint32_t f32[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x80000000,
                                   0xffc12345, 0x7f800001, 1,          0x7f7fffff};
    const unsigned pick = (unsigned)(pattern_random(state) % 8);
    if (dtype == FZM_F32) {
        store_bits(data, dtype, i, f32[pick]);
    } else if (dtype == FZM_F64) {
        static const uint64_t f64[] = {0x7ff8000000000000,
                                       0x7ff0000000000000,
                                       0xfff0000000000000,
                                       0x8000000000000000,
                                       0xfff8000000012345,
                                       0x7ff0000000000001,
                                       1,
                                       0x7fefffffffffffff};
        store_bits(data, dtype, i, f64[pick]);
    } else {
        const uint64_t max = (uint64_t)int_max(dtype);
        const uint64_t values[] = {max, max + 1, UINT64_MAX, 0, 1, max - 1, max + 2, max};
        store_bits(data, dtype, i, values[pick]);
    }
}

static double huge_value(int dtype, uint64_t *state)
{
    const double part = 0.9 + 0.1 * pattern_uniform(state);
    const double sign = pattern_random(state) & 1 ? -1 : 1;
    if (dtype == FZM_F32)
        return sign * part * (double)FLT_MAX;
    if (dtype == FZM_F64)
        return sign * part * DBL_MAX;
    return sign * part * 0.999 * (double)int_max(dtype);
}

static double tiny_value(int dtype, uint64_t *state)
{
    const double u = pattern_uniform(state) - 0.5;
    if (dtype == FZM_F32)
        return u * (double)FLT_MIN * 4;
    if (dtype == FZM_F64)
        return u * DBL_MIN * 4;
    return (double)(pattern_random(state) % 3) - 1;
}

void pattern_masked_value(void *elem, int dtype)
{
    if (fzm_dtype_is_float(dtype))
        store(elem, dtype, 0, 1e20);
    else
        store_bits(elem, dtype, 0, (uint64_t)int_max(dtype));
}

static void fill_one(void *data, int dtype, size_t i, int pattern, double scale, uint64_t *state)
{
    switch (pattern) {
    case PATTERN_ZEROS: store_bits(data, dtype, i, 0); break;
    case PATTERN_CONSTANT: store(data, dtype, i, scale * 0.7); break;
    case PATTERN_RAMP: store(data, dtype, i, fmod((double)i * scale / 5000, scale)); break;
    case PATTERN_SMOOTH: store(data, dtype, i, wave(i, scale, state)); break;
    case PATTERN_ALTERNATING: store(data, dtype, i, i & 1 ? -scale : scale); break;
    case PATTERN_HUGE: store(data, dtype, i, huge_value(dtype, state)); break;
    case PATTERN_TINY: store(data, dtype, i, tiny_value(dtype, state)); break;
    case PATTERN_SPECIAL:
        if (pattern_random(state) % 13 == 0)
            store_special(data, dtype, i, state);
        else
            store(data, dtype, i, wave(i, scale, state));
        break;
    case PATTERN_RANDOM: store_bits(data, dtype, i, pattern_random(state)); break;
    case PATTERN_SPARSE:
        store_bits(data, dtype, i, 0);
        if (pattern_random(state) % 50 == 0)
            store(data, dtype, i, wave(i, scale, state));
        break;
    default:
        if (sin((double)(i % 97) * 0.06) * sin((double)i * 0.0007) > 0.2)
            pattern_masked_value((uint8_t *)data + i * fzm_dtype_nbytes(dtype), dtype);
        else
            store(data, dtype, i, wave(i, scale, state));
    }
}

void pattern_fill(void *data, int dtype, size_t n_elems, int pattern, uint64_t seed)
{
    const double scale = scale_of(dtype);
    for (size_t i = 0; i < n_elems; i++)
        fill_one(data, dtype, i, pattern, scale, &seed);
}

bool pattern_shape(unsigned i, int dtype, struct fzm_shape *shape)
{
    static const uint32_t sizes[] = {0, 1, 2, 7, 8, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097, 200003};
    static const uint16_t dims[][4] = {{1, 1, 1, 33},   {1, 1, 17, 31},  {1, 1, 65, 257}, {1, 1, 300, 3},
                                       {1, 5, 9, 17},   {1, 33, 20, 65}, {1, 2, 3, 1},    {3, 4, 5, 9},
                                       {2, 17, 18, 33}, {7, 1, 3, 100}};
    enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_DIMS = sizeof dims / sizeof dims[0] };
    if (i < N_SIZES) {
        *shape = fzm_shape_1d(dtype, sizes[i]);
        return true;
    }
    i -= N_SIZES;
    if (i >= N_DIMS)
        return false;
    *shape = fzm_shape_1d(dtype, 1);
    for (int k = 0; k < 4; k++) {
        shape->dims[k] = dims[i][k];
        if (k)
            shape->n_elems *= dims[i][k];
    }
    shape->n_elems *= dims[i][0];
    shape->rank = dims[i][0] > 1 || dims[i][1] > 1 ? 3 : dims[i][2] > 1 ? 2 : 1;
    return true;
}
