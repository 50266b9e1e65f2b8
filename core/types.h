/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types, array shapes and small helpers shared by everything in core/ and gpu/. */
#ifndef FZM_TYPES_H
#define FZM_TYPES_H

#include "fzm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stage arithmetic (core/stages/X.h) is compiled by the C compiler and by nvcc. */
#ifdef __CUDACC__
#define FZM_HD static __host__ __device__ __forceinline__
#else
#define FZM_HD static inline
#endif

/* Size of one element in bytes; FZM_BYTES counts as 1. */
FZM_HD size_t fzm_dtype_nbytes(int dtype)
{
    switch (dtype) {
    case FZM_U16: case FZM_I16: return 2;
    case FZM_U32: case FZM_I32: case FZM_F32: return 4;
    case FZM_U64: case FZM_I64: case FZM_F64: return 8;
    default: return 1;
    }
}

FZM_HD bool fzm_dtype_is_float(int dtype) { return dtype == FZM_F32 || dtype == FZM_F64; }
FZM_HD bool fzm_dtype_is_signed(int dtype) { return dtype >= FZM_I8 && dtype <= FZM_I64; }
FZM_HD bool fzm_dtype_is_int(int dtype) { return dtype <= FZM_I64; }

/* The signed integer type of the same width (f32 -> i32, u8 -> i8, ...). */
FZM_HD int fzm_dtype_to_signed(int dtype)
{
    switch (fzm_dtype_nbytes(dtype)) {
    case 1: return FZM_I8;
    case 2: return FZM_I16;
    case 4: return FZM_I32;
    default: return FZM_I64;
    }
}

/* The unsigned integer type of the same width. */
FZM_HD int fzm_dtype_to_unsigned(int dtype)
{
    return fzm_dtype_to_signed(dtype) - FZM_I8 + FZM_U8;
}

/* A dense row-major array, last axis fastest. Axes are folded to at most four:
 * dims[0] is a batch of independent fields, dims[1..3] are z, y, x; unused leading axes are 1.
 * rank (1..3) counts the axes of one field. n_elems = product of dims.
 * A one-dimensional array of n elements: {1, 1, 1, n}. An empty array has n_elems 0. */
struct fzm_shape {
    uint8_t dtype;
    uint8_t rank;
    uint64_t dims[4];
    uint64_t n_elems;
};

FZM_HD struct fzm_shape fzm_shape_1d(int dtype, uint64_t n_elems)
{
    struct fzm_shape s;
    s.dtype = (uint8_t)dtype;
    s.rank = 1;
    s.dims[0] = s.dims[1] = s.dims[2] = 1;
    s.dims[3] = n_elems;
    s.n_elems = n_elems;
    return s;
}

FZM_HD size_t fzm_shape_nbytes(const struct fzm_shape *s)
{
    return (size_t)(s->n_elems * fzm_dtype_nbytes(s->dtype));
}

FZM_HD uint64_t fzm_div_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

#endif
