/* SPDX-License-Identifier: BSD-3-Clause */
/* Lorenzo: parameters of the whole-field predictor. */
#ifndef FZM_LORENZO_H
#define FZM_LORENZO_H

#include "adaptive_bitpack.h"

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

/* The geometry is chosen on a sample of rows, by the sum of the bit lengths of their zigzagged residuals: the
 * number of rows, and the k-th of them. */
FZM_HD uint64_t fzm_lorenzo_n_samples(uint64_t n_rows) { return n_rows < 256 ? n_rows : 256; }
FZM_HD uint64_t fzm_lorenzo_sample_at(uint64_t k, uint64_t n_samples, uint64_t n_rows)
{
    return (2 * k + 1) * n_rows / (2 * n_samples);
}

/* Bits of a residual d of n_bits bits. */
FZM_HD uint32_t fzm_lorenzo_cost(uint64_t d, unsigned n_bits)
{
    const uint64_t sign = d >> (n_bits - 1) & 1u;
    const uint64_t all = ~(uint64_t)0 >> (64 - n_bits);
    return fzm_bit_length(((d << 1) ^ (0 - sign)) & all);
}

/* From the cost of each geometry 1 .. rank. */
FZM_HD uint32_t fzm_lorenzo_choose(const uint64_t cost[4], unsigned rank)
{
    uint32_t best = 1;
    for (uint32_t g = 2; g <= rank; g++)
        best = cost[g] < cost[best] ? g : best;
    return best;
}

#endif
