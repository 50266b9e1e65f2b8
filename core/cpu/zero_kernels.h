/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of RZE and RRE for the instruction set of this translation unit; KERNELS names the table. */
#include "../le.h"
#include "zero_code.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512VBMI2__)

static inline __mmask64 tail_mask(size_t n) { return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1; }

static inline void put_bits(uint8_t *bitmap, size_t i, uint64_t bits, size_t n)
{
    if (n >= 64)
        memcpy(bitmap + i / 8, &bits, 8);
    else
        for (size_t k = 0; k < (n + 7) / 8; k++)
            bitmap[i / 8 + k] = (uint8_t)(bits >> (8 * k));
}

static inline uint64_t get_bits(const uint8_t *bitmap, size_t i, size_t n)
{
    uint64_t bits = 0;
    memcpy(&bits, bitmap + i / 8, n >= 64 ? 8 : (n + 7) / 8);
    return bits;
}

static size_t mark_nonzero(const uint8_t *src, size_t n, uint8_t *bitmap)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64) {
        const __m512i v = _mm512_maskz_loadu_epi8(tail_mask(n - i), src + i);
        const uint64_t bits = _mm512_test_epi8_mask(v, v);
        put_bits(bitmap, i, bits, n - i);
        count += (size_t)__builtin_popcountll(bits);
    }
    return count;
}

static size_t mark_changed(const uint8_t *src, size_t n, uint8_t *bitmap)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 m = tail_mask(n - i);
        const __m512i v = _mm512_maskz_loadu_epi8(m, src + i);
        const __m512i before = i ? _mm512_maskz_loadu_epi8(m, src + i - 1)
                                 : _mm512_maskz_loadu_epi8(m & ~(__mmask64)1, src - 1);
        const uint64_t bits = _mm512_mask_cmpneq_epi8_mask(m, v, before);
        put_bits(bitmap, i, bits, n - i);
        count += (size_t)__builtin_popcountll(bits);
    }
    return count;
}

static size_t compress(const uint8_t *src, size_t n, const uint8_t *bitmap, uint8_t *dst)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i += 64) {
        const uint64_t bits = get_bits(bitmap, i, n - i);
        if (bits == 0)
            continue;
        const __m512i v = _mm512_maskz_loadu_epi8(tail_mask(n - i), src + i);
        _mm512_storeu_si512(p, _mm512_maskz_compress_epi8(bits, v));
        p += __builtin_popcountll(bits);
    }
    return (size_t)(p - dst);
}

static void expand(const uint8_t *src, size_t n_src, size_t n, const uint8_t *bitmap, uint8_t *dst)
{
    const uint8_t *const end = src + n_src;
    for (size_t i = 0; i < n; i += 64) {
        const uint64_t bits = get_bits(bitmap, i, n - i);
        const __m512i v = _mm512_maskz_loadu_epi8(tail_mask((size_t)(end - src)), src);
        _mm512_storeu_si512(dst + i, _mm512_maskz_expand_epi8(bits, v));
        src += __builtin_popcountll(bits);
    }
}

#else

/* 8 bits to the bytes they stand for. */
static inline uint64_t byte_mask(unsigned bits)
{
#if defined(__BMI2__)
    return _pdep_u64(bits, 0x0101010101010101u) * 0xff;
#else
    uint64_t m = 0;
    for (unsigned k = 0; k < 8; k++)
        m |= (uint64_t)(bits >> k & 1u) * 0xff << (8 * k);
    return m;
#endif
}

static inline unsigned count_bits(uint64_t v)
{
#if defined(__GNUC__)
    return (unsigned)__builtin_popcountll(v);
#else
    unsigned n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
#endif
}

static size_t mark_scalar(const uint8_t *src, size_t i, size_t n, uint8_t *bitmap, bool changed)
{
    size_t count = 0;
    for (; i < n; i += 8) {
        unsigned bits = 0;
        for (size_t k = i; k < n && k < i + 8; k++) {
            const uint8_t before = changed && k ? src[k - 1] : 0;
            bits |= (unsigned)(src[k] != before) << (k - i);
        }
        bitmap[i / 8] = (uint8_t)bits;
        count += count_bits(bits);
    }
    return count;
}

#if defined(__AVX2__)
static size_t mark_vector(const uint8_t *src, size_t n, uint8_t *bitmap, bool changed)
{
    size_t count = 0, i = changed ? 32 : 0;
    if (changed)
        count = mark_scalar(src, 0, n < 32 ? n : 32, bitmap, true);
    for (; i + 32 <= n; i += 32) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + i));
        const __m256i before = changed ? _mm256_loadu_si256((const __m256i *)(const void *)(src + i - 1))
                                       : _mm256_setzero_si256();
        const uint32_t bits = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, before));
        memcpy(bitmap + i / 8, &bits, 4);
        count += count_bits(bits);
    }
    return i < n ? count + mark_scalar(src, i, n, bitmap, changed) : count;
}
static size_t mark_nonzero(const uint8_t *src, size_t n, uint8_t *bitmap) { return mark_vector(src, n, bitmap, false); }
static size_t mark_changed(const uint8_t *src, size_t n, uint8_t *bitmap) { return mark_vector(src, n, bitmap, true); }
#else
static size_t mark_nonzero(const uint8_t *src, size_t n, uint8_t *bitmap) { return mark_scalar(src, 0, n, bitmap, false); }
static size_t mark_changed(const uint8_t *src, size_t n, uint8_t *bitmap) { return mark_scalar(src, 0, n, bitmap, true); }
#endif

static inline uint64_t gather_bytes(uint64_t v, unsigned bits)
{
#if defined(__BMI2__)
    return _pext_u64(v, byte_mask(bits));
#else
    uint64_t out = 0;
    unsigned to = 0;
    for (unsigned k = 0; k < 8; k++)
        if (bits >> k & 1u)
            out |= (v >> (8 * k) & 0xff) << (8 * to++);
    return out;
#endif
}

static inline uint64_t spread_bytes(uint64_t v, unsigned bits)
{
#if defined(__BMI2__)
    return _pdep_u64(v, byte_mask(bits));
#else
    uint64_t out = 0;
    unsigned from = 0;
    for (unsigned k = 0; k < 8; k++)
        if (bits >> k & 1u)
            out |= (v >> (8 * from++) & 0xff) << (8 * k);
    return out;
#endif
}

static size_t compress(const uint8_t *src, size_t n, const uint8_t *bitmap, uint8_t *dst)
{
    uint8_t *p = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const unsigned bits = bitmap[i / 8];
        if (bits == 0)
            continue;
        fzm_put_le64(p, bits == 0xff ? fzm_get_le64(src + i) : gather_bytes(fzm_get_le64(src + i), bits));
        p += count_bits(bits);
    }
    for (; i < n; i++)
        if (bitmap[i / 8] >> (i % 8) & 1)
            *p++ = src[i];
    return (size_t)(p - dst);
}

static void expand(const uint8_t *src, size_t n_src, size_t n, const uint8_t *bitmap, uint8_t *dst)
{
    const uint8_t *const end = src + n_src;
    size_t i = 0;
    for (; i < n && end - src >= 8; i += 8) {
        const unsigned bits = bitmap[i / 8];
        fzm_put_le64(dst + i, bits == 0 ? 0 : spread_bytes(fzm_get_le64(src), bits));
        src += count_bits(bits);
    }
    for (; i < n; i++)
        dst[i] = bitmap[i / 8] >> (i % 8) & 1 ? *src++ : 0;
}

#endif

const struct fzm_zero_kernels KERNELS = {mark_nonzero, mark_changed, compress, expand};
