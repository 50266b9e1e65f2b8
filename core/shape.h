/* SPDX-License-Identifier: BSD-3-Clause */
/* From the caller's arrays to the folded shapes that stages work on. */
#ifndef FZM_SHAPE_H
#define FZM_SHAPE_H

#include "error.h"
#include "types.h"

/* Most elements of a chunk. */
#define FZM_MAX_N_ELEMS (UINT64_C(1) << 40)

/* Drops axes of length 1; of more than three axes left, the leading ones become the batch dims[0]. Rank 0
 * and axes of length 1 only give one element; a zero extent gives an empty 1-D shape. Checks element
 * type, rank and that there are at most FZM_MAX_N_ELEMS elements. */
int fzm_shape_from_array(struct fzm_shape *shape, const fzm_array *array, struct fzm_err *err);

#endif
