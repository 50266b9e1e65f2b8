/* SPDX-License-Identifier: BSD-3-Clause */
/* How the Quantizer settles its parameters from a chunk; parts of one resolve(). */
#ifndef FZM_QUANTIZER_RESOLVE_H
#define FZM_QUANTIZER_RESOLVE_H

#include "quantizer_scan.h"

#include "../stage.h"

/* A chunk of floats, and the least and the greatest value that are to be coded. */
struct fzm_field {
    const struct fzm_scan *scan;
    int64_t key_min, key_max;
    double min, max;
};

/* The same chunk with more and more sentinels left out. primary: the one to code; those after it leave
 * out more than is called for, but an earlier coding of this data may have seen it like that. */
struct fzm_windows {
    struct fzm_field field[9];
    unsigned n, primary;
};

struct fzm_field fzm_field_init(const struct fzm_scan *s, int64_t key_min, int64_t key_max);
void fzm_windows_init(struct fzm_windows *w, const struct fzm_field *all);

/* Each fills the runtime members of p (kind LINEAR, step 1, offset 0, abs_bound 0 on entry). */
void fzm_quantizer_resolve_abs(const struct fzm_windows *w, struct fzm_quantizer_params *p);
void fzm_quantizer_resolve_span(const struct fzm_windows *w, struct fzm_quantizer_params *p);
void fzm_quantizer_resolve_rel(const struct fzm_field *f, struct fzm_quantizer_params *p);
void fzm_quantizer_resolve_int(struct fzm_scan *s, struct fzm_quantizer_params *p);

/* 10^(-db / 20), rounded down. */
double fzm_quantizer_psnr_ratio(double db);

/* Unit in the last place of the binade of the type that holds magnitude m >= 0; and of binade E. */
int fzm_float_exponent(int dtype, double m);
double fzm_float_ulp(int dtype, int exponent);

/* Neighbour of a value of the type, by keys. */
double fzm_float_step(int dtype, double value, int n_ulps);

/* Largest value of the type not above x >= 0. */
double fzm_float_round_down(int dtype, double x);

int fzm_quantizer_resolve(void *params, const struct fzm_call *c);

#endif
