/* SPDX-License-Identifier: BSD-3-Clause */
/* The Quantizer's coders as device types: T elements, CODE codes. encode() tells whether an element is coded;
 * outliers get code 0. All arithmetic is that of core/stages/quantizer.h. */
#ifndef FZM_GPU_QUANTIZER_CODE_CUH
#define FZM_GPU_QUANTIZER_CODE_CUH

#include "../core/stages/quantizer.h"

#ifndef FZM_D
#define FZM_D static __device__ __forceinline__
#endif

template <size_t NBYTES> struct fzm_uint {
    typedef uint64_t type;
};
template <> struct fzm_uint<1> {
    typedef uint8_t type;
};
template <> struct fzm_uint<2> {
    typedef uint16_t type;
};
template <> struct fzm_uint<4> {
    typedef uint32_t type;
};

template <typename T> FZM_D typename fzm_uint<sizeof(T)>::type fzm_bits_of(T x)
{
    typename fzm_uint<sizeof(T)>::type b;
    memcpy(&b, &x, sizeof b);
    return b;
}

template <typename T> FZM_D T fzm_value_of(typename fzm_uint<sizeof(T)>::type b)
{
    T x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* Parameters of a coder, prepared on the host. */
template <int KIND, typename T> struct fzm_coder;
template <> struct fzm_coder<FZM_QUANTIZER_LINEAR, float> {
    struct fzm_linear_f32 k;
};
template <> struct fzm_coder<FZM_QUANTIZER_LINEAR, double> {
    struct fzm_linear_f64 k;
};
template <typename T> struct fzm_coder<FZM_QUANTIZER_LOG, T> {
    struct fzm_log_quantizer k;
};
template <typename T> struct fzm_coder<FZM_QUANTIZER_INTEGER, T> {
    struct fzm_int_quantizer k;
};

static inline void fzm_coder_init(struct fzm_coder<FZM_QUANTIZER_LINEAR, float> *c,
                                  const struct fzm_quantizer_params *p, int dtype)
{
    (void)dtype;
    c->k = fzm_linear_f32_init(p);
}

static inline void fzm_coder_init(struct fzm_coder<FZM_QUANTIZER_LINEAR, double> *c,
                                  const struct fzm_quantizer_params *p, int dtype)
{
    (void)dtype;
    c->k = fzm_linear_f64_init(p);
}

template <typename T>
static inline void fzm_coder_init(struct fzm_coder<FZM_QUANTIZER_LOG, T> *c,
                                  const struct fzm_quantizer_params *p, int dtype)
{
    c->k = fzm_log_quantizer_init(p, dtype);
}

template <typename T>
static inline void fzm_coder_init(struct fzm_coder<FZM_QUANTIZER_INTEGER, T> *c,
                                  const struct fzm_quantizer_params *p, int dtype)
{
    c->k = fzm_int_quantizer_init(p, dtype);
}

FZM_D bool fzm_encode(const struct fzm_coder<FZM_QUANTIZER_LINEAR, float> &c, float x, int32_t *code)
{
    *code = 0;
    return fzm_linear_f32_encode(&c.k, x, code);
}

template <typename CODE>
FZM_D bool fzm_encode(const struct fzm_coder<FZM_QUANTIZER_LINEAR, double> &c, double x, CODE *code)
{
    int64_t wide = 0;
    const bool good = fzm_linear_f64_encode(&c.k, x, &wide);
    *code = (CODE)wide;
    return good;
}

template <typename T, typename CODE>
FZM_D bool fzm_encode(const struct fzm_coder<FZM_QUANTIZER_LOG, T> &c, T x, CODE *code)
{
    double wide;
    const bool good = fzm_log_quantizer_encode(&c.k, (double)x, sizeof(T) == 4, &wide);
    *code = (CODE)wide;
    return good;
}

template <typename T, typename CODE>
FZM_D bool fzm_encode(const struct fzm_coder<FZM_QUANTIZER_INTEGER, T> &c, T x, CODE *code)
{
    const bool is_signed = (T)-1 < (T)0;
    const uint64_t wide = is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
    *code = (CODE)(c.k.step == 1 ? wide : fzm_int_encode(&c.k, wide, is_signed, sizeof(T) < 8));
    return true;
}

template <typename CODE>
FZM_D float fzm_decode(const struct fzm_coder<FZM_QUANTIZER_LINEAR, float> &c, CODE code)
{
    return fzm_linear_f32_decode(&c.k, (float)code);
}

template <typename CODE>
FZM_D double fzm_decode(const struct fzm_coder<FZM_QUANTIZER_LINEAR, double> &c, CODE code)
{
    return fzm_linear_f64_decode(&c.k, (double)code);
}

template <typename T, typename CODE>
FZM_D T fzm_decode(const struct fzm_coder<FZM_QUANTIZER_LOG, T> &c, CODE code)
{
    return (T)fzm_log_quantizer_decode_signed(&c.k, (double)code);
}

template <typename T, typename CODE>
FZM_D T fzm_decode(const struct fzm_coder<FZM_QUANTIZER_INTEGER, T> &c, CODE code)
{
    const uint64_t wide = (uint64_t)(int64_t)code;
    return (T)(c.k.step == 1 ? wide : fzm_int_decode(&c.k, wide, (T)-1 < (T)0));
}

/* Calls function template f<KIND, T, CODE>(...) for floats with resolved params of kind linear or log. */
#define FZM_CALL_FLOAT_CODER(f, dtype, p, ...) \
    do { \
        const bool fzm_is_log = (p)->kind == FZM_QUANTIZER_LOG; \
        const bool fzm_is_wide = (p)->code_type == FZM_QUANTIZER_CODE_I64; \
        if ((dtype) == FZM_F32 && fzm_is_log) \
            f<FZM_QUANTIZER_LOG, float, int32_t>(__VA_ARGS__); \
        else if ((dtype) == FZM_F32) \
            f<FZM_QUANTIZER_LINEAR, float, int32_t>(__VA_ARGS__); \
        else if (fzm_is_log && fzm_is_wide) \
            f<FZM_QUANTIZER_LOG, double, int64_t>(__VA_ARGS__); \
        else if (fzm_is_log) \
            f<FZM_QUANTIZER_LOG, double, int32_t>(__VA_ARGS__); \
        else if (fzm_is_wide) \
            f<FZM_QUANTIZER_LINEAR, double, int64_t>(__VA_ARGS__); \
        else \
            f<FZM_QUANTIZER_LINEAR, double, int32_t>(__VA_ARGS__); \
    } while (0)

/* The same for integers. */
#define FZM_CALL_INT_CODER(f, dtype, ...) \
    do { \
        switch (dtype) { \
        case FZM_U8: f<FZM_QUANTIZER_INTEGER, uint8_t, int32_t>(__VA_ARGS__); break; \
        case FZM_U16: f<FZM_QUANTIZER_INTEGER, uint16_t, int32_t>(__VA_ARGS__); break; \
        case FZM_U32: f<FZM_QUANTIZER_INTEGER, uint32_t, int32_t>(__VA_ARGS__); break; \
        case FZM_U64: f<FZM_QUANTIZER_INTEGER, uint64_t, int64_t>(__VA_ARGS__); break; \
        case FZM_I8: f<FZM_QUANTIZER_INTEGER, int8_t, int32_t>(__VA_ARGS__); break; \
        case FZM_I16: f<FZM_QUANTIZER_INTEGER, int16_t, int32_t>(__VA_ARGS__); break; \
        case FZM_I32: f<FZM_QUANTIZER_INTEGER, int32_t, int32_t>(__VA_ARGS__); break; \
        default: f<FZM_QUANTIZER_INTEGER, int64_t, int64_t>(__VA_ARGS__); break; \
        } \
    } while (0)

#endif
