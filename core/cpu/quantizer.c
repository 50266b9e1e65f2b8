/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: choice of kernels, the plain C ones, and integers. */
#include "quantizer.h"

#include "isa.h"
#include "quantizer_log.h"

/* A plain kernel: ENCODE is an expression of element v that sets code and tells whether it is good. */
#define QUANTIZE_C(name, T, CODE, INIT, ENCODE)                                                                   \
    static size_t name(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes, uint64_t *bad) \
    {                                                                                                             \
        const INIT;                                                                                               \
        size_t n_bad = 0;                                                                                         \
        for (size_t i = 0; i < n; i++) {                                                                          \
            T v;                                                                                                  \
            CODE code = 0;                                                                                        \
            memcpy(&v, (const char *)x + i * sizeof v, sizeof v);                                                 \
            if (i % 64 == 0)                                                                                      \
                bad[i / 64] = 0;                                                                                  \
            if (!(ENCODE)) {                                                                                      \
                bad[i / 64] |= (uint64_t)1 << i % 64;                                                             \
                n_bad++;                                                                                          \
            }                                                                                                     \
            memcpy((char *)codes + i * sizeof code, &code, sizeof code);                                          \
        }                                                                                                         \
        return n_bad;                                                                                             \
    }

/* DECODE is an expression of code. */
#define DEQUANTIZE_C(name, T, CODE, INIT, DECODE)                                                  \
    static void name(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y)   \
    {                                                                                              \
        const INIT;                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            CODE code;                                                                             \
            memcpy(&code, (const char *)codes + i * sizeof code, sizeof code);                     \
            const T v = (T)(DECODE);                                                               \
            memcpy((char *)y + i * sizeof v, &v, sizeof v);                                        \
        }                                                                                          \
    }

static bool f64_to_i32(const struct fzm_linear_f64 *k, double x, int32_t *code)
{
    int64_t wide = 0;
    const bool ok = fzm_linear_f64_encode(k, x, &wide);
    *code = (int32_t)wide;
    return ok;
}

#define LINEAR_F32 struct fzm_linear_f32 k = fzm_linear_f32_init(p)
#define LINEAR_F64 struct fzm_linear_f64 k = fzm_linear_f64_init(p)

QUANTIZE_C(quantize_f32_i32, float, int32_t, LINEAR_F32, fzm_linear_f32_encode(&k, v, &code))
QUANTIZE_C(quantize_f64_i32, double, int32_t, LINEAR_F64, f64_to_i32(&k, v, &code))
QUANTIZE_C(quantize_f64_i64, double, int64_t, LINEAR_F64, fzm_linear_f64_encode(&k, v, &code))

DEQUANTIZE_C(dequantize_f32_i32, float, int32_t, LINEAR_F32, fzm_linear_f32_decode(&k, (float)code))
DEQUANTIZE_C(dequantize_f64_i32, double, int32_t, LINEAR_F64, fzm_linear_f64_decode(&k, (double)code))
DEQUANTIZE_C(dequantize_f64_i64, double, int64_t, LINEAR_F64, fzm_linear_f64_decode(&k, (double)code))

/* Integers have no outliers; only a fill value makes some, see quantize_filled(). Step 1 is a copy. */
#define INTEGERS(name, T, WIDE, CODE, DTYPE)                                                                      \
    static size_t quantize_##name(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes,     \
                                  uint64_t *bad)                                                                  \
    {                                                                                                             \
        const struct fzm_int_quantizer k = fzm_int_quantizer_init(p, DTYPE);                                      \
        const bool is_signed = DTYPE >= FZM_I8, narrow = sizeof(T) < 8;                                           \
        (void)bad;                                                                                                \
        for (size_t i = 0; i < n; i++) {                                                                          \
            T v;                                                                                                  \
            memcpy(&v, (const char *)x + i * sizeof v, sizeof v);                                                 \
            const uint64_t wide = (uint64_t)(WIDE)v;                                                              \
            const CODE code = (CODE)(k.step == 1 ? wide : fzm_int_encode(&k, wide, is_signed, narrow));           \
            memcpy((char *)codes + i * sizeof code, &code, sizeof code);                                          \
        }                                                                                                         \
        return 0;                                                                                                 \
    }                                                                                                             \
    static void dequantize_##name(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y)     \
    {                                                                                                             \
        const struct fzm_int_quantizer k = fzm_int_quantizer_init(p, DTYPE);                                      \
        const bool is_signed = DTYPE >= FZM_I8;                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                          \
            CODE code;                                                                                            \
            memcpy(&code, (const char *)codes + i * sizeof code, sizeof code);                                    \
            const uint64_t wide = (uint64_t)(int64_t)code;                                                        \
            const T v = (T)(k.step == 1 ? wide : fzm_int_decode(&k, wide, is_signed));                            \
            memcpy((char *)y + i * sizeof v, &v, sizeof v);                                                       \
        }                                                                                                         \
    }

INTEGERS(u8, uint8_t, uint64_t, int32_t, FZM_U8)
INTEGERS(u16, uint16_t, uint64_t, int32_t, FZM_U16)
INTEGERS(u32, uint32_t, uint64_t, int32_t, FZM_U32)
INTEGERS(u64, uint64_t, uint64_t, int64_t, FZM_U64)
INTEGERS(i8, int8_t, int64_t, int32_t, FZM_I8)
INTEGERS(i16, int16_t, int64_t, int32_t, FZM_I16)
INTEGERS(i32, int32_t, int64_t, int32_t, FZM_I32)
INTEGERS(i64, int64_t, int64_t, int64_t, FZM_I64)

/* Everything is an outlier. */
static size_t quantize_exact(size_t n, void *codes, size_t code_nbytes, uint64_t *bad)
{
    if (n == 0)
        return 0;
    memset(codes, 0, n * code_nbytes);
    memset(bad, 0xff, (n + 63) / 64 * 8);
    if (n % 64)
        bad[n / 64] = ((uint64_t)1 << n % 64) - 1;
    return n;
}

static size_t quantize_exact_i32(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes,
                                 uint64_t *bad)
{
    (void)p, (void)x;
    return quantize_exact(n, codes, 4, bad);
}

static size_t quantize_exact_i64(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes,
                                 uint64_t *bad)
{
    (void)p, (void)x;
    return quantize_exact(n, codes, 8, bad);
}

static void dequantize_exact_4(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y)
{
    (void)p, (void)codes;
    memset(y, 0, n * 4);
}

static void dequantize_exact_8(const struct fzm_quantizer_params *p, const void *codes, size_t n, void *y)
{
    (void)p, (void)codes;
    memset(y, 0, n * 8);
}

const struct fzm_quantizer_kernels fzm_quantizer_kernels_c = {
    quantize_f32_i32, quantize_f64_i32, quantize_f64_i64,
    dequantize_f32_i32, dequantize_f64_i32, dequantize_f64_i64,
    quantize_log_f32_i32, quantize_log_f64_i32, quantize_log_f64_i64,
    dequantize_log_f32_i32, dequantize_log_f64_i32, dequantize_log_f64_i64,
    NULL, NULL,
};

static const struct fzm_quantizer_kernels *kernels_get(void)
{
#if defined(__x86_64__)
    switch (fzm_isa_get()) {
    case FZM_ISA_AVX512: return &fzm_quantizer_kernels_avx512;
    case FZM_ISA_AVX2: return &fzm_quantizer_kernels_avx2;
    default: break;
    }
#endif
    return &fzm_quantizer_kernels_c;
}

fzm_extremes_fn *fzm_quantizer_extremes_fn(int dtype)
{
    return dtype == FZM_F32 ? kernels_get()->extremes_f32 : dtype == FZM_F64 ? kernels_get()->extremes_f64 : NULL;
}

#define PICK(member) (k->member ? k->member : fzm_quantizer_kernels_c.member)

static struct fzm_quantizer_fns float_fns(const struct fzm_quantizer_params *p, int dtype)
{
    const struct fzm_quantizer_kernels *const k = kernels_get();
    const bool wide = dtype == FZM_F64 && p->code_type == FZM_QUANTIZER_CODE_I64;
    struct fzm_quantizer_fns f = {0};
    f.code_dtype = wide ? FZM_I64 : FZM_I32;
    if (p->kind == FZM_QUANTIZER_EXACT) {
        f.quantize = wide ? quantize_exact_i64 : quantize_exact_i32;
        f.dequantize = dtype == FZM_F32 ? dequantize_exact_4 : dequantize_exact_8;
    } else if (p->kind == FZM_QUANTIZER_LOG) {
        f.quantize = dtype == FZM_F32 ? PICK(quantize_log_f32_i32)
                     : wide ? PICK(quantize_log_f64_i64) : PICK(quantize_log_f64_i32);
        f.dequantize = dtype == FZM_F32 ? PICK(dequantize_log_f32_i32)
                       : wide ? PICK(dequantize_log_f64_i64) : PICK(dequantize_log_f64_i32);
    } else {
        f.quantize = dtype == FZM_F32 ? PICK(quantize_f32_i32)
                     : wide ? PICK(quantize_f64_i64) : PICK(quantize_f64_i32);
        f.dequantize = dtype == FZM_F32 ? PICK(dequantize_f32_i32)
                       : wide ? PICK(dequantize_f64_i64) : PICK(dequantize_f64_i32);
    }
    return f;
}

static struct fzm_quantizer_fns plain_fns(const struct fzm_quantizer_params *p, int dtype)
{
    static const struct fzm_quantizer_fns ints[] = {
        {quantize_u8, dequantize_u8, FZM_I32}, {quantize_u16, dequantize_u16, FZM_I32},
        {quantize_u32, dequantize_u32, FZM_I32}, {quantize_u64, dequantize_u64, FZM_I64},
        {quantize_i8, dequantize_i8, FZM_I32}, {quantize_i16, dequantize_i16, FZM_I32},
        {quantize_i32, dequantize_i32, FZM_I32}, {quantize_i64, dequantize_i64, FZM_I64},
    };
    return fzm_dtype_is_float(dtype) ? float_fns(p, dtype) : ints[dtype];
}

/* A fill value that its own code does not give back: one more pass over the block, in cache. */
#define QUANTIZE_FILLED(name, U, DTYPE)                                                                           \
    static size_t name(const struct fzm_quantizer_params *p, const void *x, size_t n, void *codes, uint64_t *bad) \
    {                                                                                                             \
        const U fill = (U)p->fill;                                                                                \
        size_t n_bad = plain_fns(p, DTYPE).quantize(p, x, n, codes, bad);                                         \
        if (n_bad == 0)                                                                                           \
            memset(bad, 0, (n + 63) / 64 * 8);                                                                    \
        for (size_t i = 0; i < n; i += 64) {                                                                      \
            uint64_t hits = 0;                                                                                    \
            for (size_t j = 0; j < 64 && i + j < n; j++) {                                                        \
                U v;                                                                                              \
                memcpy(&v, (const char *)x + (i + j) * sizeof v, sizeof v);                                       \
                hits |= (uint64_t)(v == fill) << j;                                                               \
            }                                                                                                     \
            for (uint64_t fresh = hits & ~bad[i / 64]; fresh; fresh &= fresh - 1)                                 \
                n_bad++;                                                                                          \
            bad[i / 64] |= hits;                                                                                  \
        }                                                                                                         \
        return n_bad;                                                                                             \
    }

QUANTIZE_FILLED(quantize_filled_u8, uint8_t, FZM_U8)
QUANTIZE_FILLED(quantize_filled_u16, uint16_t, FZM_U16)
QUANTIZE_FILLED(quantize_filled_u32, uint32_t, FZM_U32)
QUANTIZE_FILLED(quantize_filled_u64, uint64_t, FZM_U64)
QUANTIZE_FILLED(quantize_filled_i8, uint8_t, FZM_I8)
QUANTIZE_FILLED(quantize_filled_i16, uint16_t, FZM_I16)
QUANTIZE_FILLED(quantize_filled_i32, uint32_t, FZM_I32)
QUANTIZE_FILLED(quantize_filled_i64, uint64_t, FZM_I64)
QUANTIZE_FILLED(quantize_filled_f32, uint32_t, FZM_F32)
QUANTIZE_FILLED(quantize_filled_f64, uint64_t, FZM_F64)

struct fzm_quantizer_fns fzm_quantizer_fns_get(const struct fzm_quantizer_params *p, int dtype)
{
    static fzm_quantize_fn *const filled[] = {
        quantize_filled_u8, quantize_filled_u16, quantize_filled_u32, quantize_filled_u64,
        quantize_filled_i8, quantize_filled_i16, quantize_filled_i32, quantize_filled_i64,
        quantize_filled_f32, quantize_filled_f64,
    };
    struct fzm_quantizer_fns f = plain_fns(p, dtype);
    if (p->has_fill)
        f.quantize = filled[dtype];
    return f;
}
