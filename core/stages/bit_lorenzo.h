/* SPDX-License-Identifier: BSD-3-Clause */
/* Lorenzo prediction of one-bit fields (outlier masks) by exclusive or, in cells of 8 x 8 bits. */
#ifndef FZM_BIT_LORENZO_H
#define FZM_BIT_LORENZO_H

#include "../types.h"

/* Axes along which a bit is predicted by its predecessor; the values are on disk. */
enum { FZM_BIT_LORENZO_X = 1, FZM_BIT_LORENZO_Y = 2, FZM_BIT_LORENZO_Z = 4 };

/* The field as rows: n_planes * n_rows_per_plane rows of n_x bits; a row takes row_nbytes bytes. Cells
 * are 8 rows high (over the planes' borders) and one byte wide, and follow each other row-major. */
struct fzm_bit_field {
    uint64_t n_x, n_rows_per_plane, n_rows, row_nbytes, n_bits;
};

FZM_HD struct fzm_bit_field fzm_bit_field_of(const struct fzm_shape *extents)
{
    struct fzm_bit_field f;
    f.n_x = extents->dims[3];
    f.n_rows_per_plane = extents->dims[2];
    f.n_rows = extents->n_elems == 0 ? 0 : extents->n_elems / f.n_x;
    f.row_nbytes = fzm_div_up(f.n_x, 8);
    f.n_bits = extents->n_elems;
    return f;
}

FZM_HD uint64_t fzm_bit_field_nbytes(const struct fzm_bit_field *f)
{
    return f->n_rows == 1 ? f->row_nbytes : fzm_div_up(f->n_rows, 8) * 8 * f->row_nbytes;
}

/* Place of byte `column` of a row in the cells. A single row stays as it is. */
FZM_HD uint64_t fzm_bit_field_place(const struct fzm_bit_field *f, uint64_t row, uint64_t column)
{
    return f->n_rows == 1 ? column : (row / 8 * f->row_nbytes + column) * 8 + row % 8;
}

#endif
