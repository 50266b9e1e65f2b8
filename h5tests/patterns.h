/* SPDX-License-Identifier: BSD-3-Clause */
/* Test data: arrays of every element type filled with patterns that matter, shapes. */
#ifndef FZM_PATTERNS_H
#define FZM_PATTERNS_H

#include "types.h"

enum pattern {
    PATTERN_ZEROS,
    PATTERN_CONSTANT,
    PATTERN_RAMP,
    PATTERN_SMOOTH,      /* waves with a little noise */
    PATTERN_ALTERNATING, /* equal magnitude, sign changes at every element */
    PATTERN_HUGE,        /* near the largest values of the type */
    PATTERN_TINY,        /* floats: denormals and small values; integers: -1, 0, 1 */
    PATTERN_SPECIAL,     /* smooth, with NaN, Inf, -0, least and greatest integers strewn in */
    PATTERN_RANDOM,      /* random bits */
    PATTERN_SPARSE,      /* one in 50 differs from 0 */
    PATTERN_MASKED,      /* smooth with areas of one far value: 1e20, or the greatest integer */
    N_PATTERNS
};

const char *pattern_name(int pattern);
void pattern_fill(void *data, int dtype, size_t n_elems, int pattern, uint64_t seed);

/* The far value of PATTERN_MASKED as one element. */
void pattern_masked_value(void *elem, int dtype);

/* Shapes to test: i from 0 until false. One axis of 0 to 200 000 or so, then up to four with odd extents. */
bool pattern_shape(unsigned i, int dtype, struct fzm_shape *shape);

#endif
