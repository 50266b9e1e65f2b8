/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: kernels of the logarithmic kind, plain loops that each file of one instruction set compiles
 * for itself. */
#ifndef FZM_CPU_QUANTIZER_LOG_H
#define FZM_CPU_QUANTIZER_LOG_H

#include "quantizer.h"

/* Codes and verdicts of up to 64 elements, as doubles so that all lanes have one width. */
static inline void encode_log_word(const struct fzm_log_quantizer *k, const double *x, bool is_f32, double *codes,
                                   double *good)
{
    for (size_t i = 0; i < 64; i++) {
        double code;
        const bool ok = fzm_log_quantizer_encode(k, x[i], is_f32, &code);
        codes[i] = code;
        good[i] = ok ? 1.0 : 0.0;
    }
}

static inline size_t quantize_log(const struct fzm_quantizer_params *p, const char *in, size_t n, char *out,
                                  uint64_t *bad, bool is_f32, bool wide)
{
    const struct fzm_log_quantizer k = fzm_log_quantizer_init(p, is_f32 ? FZM_F32 : FZM_F64);
    const size_t elem_nbytes = is_f32 ? 4 : 8, code_nbytes = wide ? 8 : 4;
    size_t n_bad = 0;
    for (size_t first = 0; first < n; first += 64) {
        const size_t n_word = n - first < 64 ? n - first : 64;
        float x4[64] = {0};
        double x[64] = {0}, codes[64], good[64];
        int32_t narrow[64];
        int64_t full[64];
        memcpy(is_f32 ? (void *)x4 : (void *)x, in + first * elem_nbytes, n_word * elem_nbytes);
        for (size_t i = 0; is_f32 && i < 64; i++)
            x[i] = (double)x4[i];
        encode_log_word(&k, x, is_f32, codes, good);
        uint64_t word = 0;
        for (size_t i = 0; i < n_word; i++)
            word |= (uint64_t)(good[i] == 0) << i;
        for (uint64_t left = word; left; left &= left - 1)
            n_bad++;
        bad[first / 64] = word;
        for (size_t i = 0; !wide && i < 64; i++)
            narrow[i] = (int32_t)codes[i];
        for (size_t i = 0; wide && i < 64; i++)
            full[i] = (int64_t)codes[i];
        memcpy(out + first * code_nbytes, wide ? (const void *)full : (const void *)narrow, n_word * code_nbytes);
    }
    return n_bad;
}

static inline void dequantize_log(const struct fzm_quantizer_params *p, const char *in, size_t n, char *out,
                                  bool is_f32, bool wide)
{
    const struct fzm_log_quantizer k = fzm_log_quantizer_init(p, is_f32 ? FZM_F32 : FZM_F64);
    const size_t elem_nbytes = is_f32 ? 4 : 8, code_nbytes = wide ? 8 : 4;
    for (size_t first = 0; first < n; first += 64) {
        const size_t n_word = n - first < 64 ? n - first : 64;
        int32_t narrow[64] = {0};
        int64_t full[64] = {0};
        double codes[64], y[64];
        float y4[64];
        memcpy(wide ? (void *)full : (void *)narrow, in + first * code_nbytes, n_word * code_nbytes);
        for (size_t i = 0; i < 64; i++)
            codes[i] = wide ? (double)full[i] : (double)narrow[i];
        for (size_t i = 0; i < 64; i++)
            y[i] = fzm_log_quantizer_decode_signed(&k, codes[i]);
        for (size_t i = 0; is_f32 && i < 64; i++)
            y4[i] = (float)y[i];
        memcpy(out + first * elem_nbytes, is_f32 ? (const void *)y4 : (const void *)y, n_word * elem_nbytes);
    }
}

#define FZM_LOG_KERNELS(name, is_f32, wide)                                                                       \
    static size_t quantize_log_##name(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes, \
                                      uint64_t *bad)                                                              \
    {                                                                                                             \
        return quantize_log(p, (const char *)x, n, (char *)codes, bad, is_f32, wide);                             \
    }                                                                                                             \
    static void dequantize_log_##name(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y) \
    {                                                                                                             \
        dequantize_log(p, (const char *)codes, n, (char *)y, is_f32, wide);                                       \
    }

FZM_LOG_KERNELS(f32_i32, true, false)
FZM_LOG_KERNELS(f64_i32, false, false)
FZM_LOG_KERNELS(f64_i64, false, true)

#endif
