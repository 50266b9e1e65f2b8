/* SPDX-License-Identifier: BSD-3-Clause */
/* Lorenzo: parameters of the whole-field predictor. */
#ifndef FZM_LORENZO_H
#define FZM_LORENZO_H

#include "../types.h"

struct fzm_lorenzo_params {
    uint32_t geometry; /* 0 auto, else axes to difference, fastest first: 1, 2, 3 */
    uint32_t order;    /* 1 or 2: how often each axis is differenced */
    uint32_t block;    /* restart period along every differenced axis; 0: the whole extent */
};

/* The field as the predictor sees it: n_fields fields of z, y, x; axes that are not differenced are
 * counted into the fields. */
struct fzm_lorenzo_field {
    uint64_t n_fields, dims[3];
};

FZM_HD struct fzm_lorenzo_field fzm_lorenzo_field_of(const struct fzm_shape *s, uint32_t geometry)
{
    struct fzm_lorenzo_field f;
    f.n_fields = 1;
    f.dims[0] = f.dims[1] = 1;
    f.dims[2] = s->n_elems;
    if (s->n_elems == 0 || geometry < 2)
        return f;
    f.dims[2] = s->dims[3];
    f.dims[1] = s->dims[2];
    f.dims[0] = geometry > 2 ? s->dims[1] : 1;
    f.n_fields = geometry > 2 ? s->dims[0] : s->dims[0] * s->dims[1];
    return f;
}

#endif
