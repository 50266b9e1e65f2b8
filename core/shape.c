/* SPDX-License-Identifier: BSD-3-Clause */
#include "shape.h"

int fzm_shape_from_array(struct fzm_shape *shape, const fzm_array *array, struct fzm_err *err)
{
    *shape = fzm_shape_1d(FZM_BYTES, 0);
    if (array->dtype < 0 || array->dtype >= FZM_BYTES)
        return fzm_err_set(
            err, FZM_ERR_ARGUMENT,
            "array: element type %d is unknown; expected one of 0..9 (u8 u16 u32 u64 i8 i16 i32 i64 f32 f64)",
            array->dtype);
    if (array->rank < 0 || array->rank > FZM_MAX_RANK)
        return fzm_err_set(err, FZM_ERR_ARGUMENT, "array: %d axes, expected 0 to %d", array->rank,
                           FZM_MAX_RANK);
    *shape = fzm_shape_1d(array->dtype, 0);
    for (int i = 0; i < array->rank; i++)
        if (array->dims[i] == 0)
            return 0;

    /* From the fastest axis on: x, y, z, and all that is left into the batch. */
    unsigned rank = 0;
    uint64_t n = 1;
    shape->dims[3] = 1;
    for (int i = array->rank - 1; i >= 0; i--) {
        const uint64_t extent = array->dims[i];
        if (extent == 1)
            continue;
        if (n > FZM_MAX_N_ELEMS / extent) {
            *shape = fzm_shape_1d(array->dtype, 0);
            return fzm_err_set(err, FZM_ERR_UNSUPPORTED, "array: more than 2^40 elements");
        }
        n *= extent;
        if (rank < 3)
            shape->dims[3 - rank++] = extent;
        else
            shape->dims[0] *= extent;
    }
    shape->rank = (uint8_t)(rank ? rank : 1);
    shape->n_elems = n;
    return 0;
}
