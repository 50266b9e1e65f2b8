/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of Bitshuffle for the instruction set of this translation unit; KERNELS names the table. */
#include "../le.h"
#include "shuffle.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* 8 elements at a time: byte k of each, as an 8x8 bit matrix. */
static inline void split_groups(const uint8_t *elems, size_t from, size_t n, unsigned first, uint8_t *planes, unsigned width)
{
    const unsigned n_planes = 8 * width;
    for (size_t i = from; i < n; i += 8)
        for (unsigned byte = 0; byte < width; byte++) {
            const unsigned top = 8 * (width - 1 - byte); /* plane of the byte's highest bit */
            if (top + 8 <= first)
                continue;
            uint64_t m = 0;
            for (unsigned j = 0; j < 8; j++)
                m |= (uint64_t)elems[(i + j) * width + byte] << (8 * j);
            m = fzm_transpose8(m);
            for (unsigned bit = 0; bit < 8; bit++) {
                const unsigned plane = top + 7 - bit;
                if (plane >= first && plane < n_planes)
                    planes[plane * (n / 8) + i / 8] = (uint8_t)(m >> (8 * bit));
            }
        }
}

static inline void join_groups(const uint8_t *planes, size_t from, size_t n, unsigned first, uint8_t *elems, unsigned width)
{
    for (size_t i = from; i < n; i += 8)
        for (unsigned byte = 0; byte < width; byte++) {
            const unsigned top = 8 * (width - 1 - byte);
            uint64_t m = 0;
            for (unsigned bit = 0; bit < 8; bit++)
                if (top + 7 - bit >= first)
                    m |= (uint64_t)planes[(top + 7 - bit) * (n / 8) + i / 8] << (8 * bit);
            m = fzm_transpose8(m);
            for (unsigned j = 0; j < 8; j++)
                elems[(i + j) * width + byte] = (uint8_t)(m >> (8 * j));
        }
}

#define DEFINE_PLAIN(name, width)                                                               \
    static void split_##name(const void *elems, size_t n, unsigned first, uint8_t *planes)      \
    {                                                                                           \
        split_groups(elems, 0, n, first, planes, width);                                        \
    }                                                                                           \
    static void join_##name(const uint8_t *planes, size_t n, unsigned first, void *elems)       \
    {                                                                                           \
        join_groups(planes, 0, n, first, elems, width);                                         \
    }

DEFINE_PLAIN(8, 1)
DEFINE_PLAIN(16, 2)

#if defined(__AVX2__)

/* One plane after the other from a vector of bytes, highest bit first. */
static inline void put_byte_planes(__m256i bytes, unsigned top, unsigned first, size_t stride, uint8_t *at)
{
    for (unsigned bit = 0; bit < 8; bit++) {
        const uint32_t word = (uint32_t)_mm256_movemask_epi8(bytes);
        if (top + bit >= first)
            memcpy(at + (top + bit) * stride, &word, 4);
        bytes = _mm256_add_epi8(bytes, bytes);
    }
}

/* The bytes of 32 elements whose 8 planes begin at plane top. */
static inline __m256i get_byte_planes(const uint8_t *at, unsigned top, unsigned first, size_t stride)
{
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                            3, 3, 3, 3, 3, 3);
    const __m256i select = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i bytes = _mm256_setzero_si256();
    for (unsigned bit = 0; bit < 8; bit++) {
        bytes = _mm256_add_epi8(bytes, bytes);
        if (top + bit < first)
            continue;
        uint32_t word;
        memcpy(&word, at + (top + bit) * stride, 4);
        const __m256i w = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)word), spread), select);
        bytes = _mm256_sub_epi8(bytes, _mm256_cmpeq_epi8(w, select));
    }
    return bytes;
}

static inline __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

static void split_32(const void *elems, size_t n, unsigned first, uint8_t *planes)
{
    const uint8_t *const e = elems;
    const size_t stride = n / 8;
    const __m256i by_byte = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13,
                                             2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i a = _mm256_shuffle_epi8(load(e + 4 * i), by_byte), b = _mm256_shuffle_epi8(load(e + 4 * i + 32), by_byte);
        const __m256i c = _mm256_shuffle_epi8(load(e + 4 * i + 64), by_byte), d = _mm256_shuffle_epi8(load(e + 4 * i + 96), by_byte);
        const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab2 = _mm256_unpackhi_epi32(a, b);
        const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd2 = _mm256_unpackhi_epi32(c, d);
        uint8_t *const at = planes + i / 8;
        put_byte_planes(_mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab0, cd0), lanes), 24, first, stride, at);
        if (first < 24)
            put_byte_planes(_mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab0, cd0), lanes), 16, first, stride, at);
        if (first < 16)
            put_byte_planes(_mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab2, cd2), lanes), 8, first, stride, at);
        if (first < 8)
            put_byte_planes(_mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab2, cd2), lanes), 0, first, stride, at);
    }
    split_groups(e, i, n, first, planes, 4);
}

static void join_32(const uint8_t *planes, size_t n, unsigned first, void *elems)
{
    uint8_t *const e = elems;
    const size_t stride = n / 8;
    const __m256i lanes = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i by_elem = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13,
                                             2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i zero = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const uint8_t *const at = planes + i / 8;
        const __m256i b0 = _mm256_permutevar8x32_epi32(get_byte_planes(at, 24, first, stride), lanes);
        const __m256i b1 = first < 24 ? _mm256_permutevar8x32_epi32(get_byte_planes(at, 16, first, stride), lanes) : zero;
        const __m256i b2 = first < 16 ? _mm256_permutevar8x32_epi32(get_byte_planes(at, 8, first, stride), lanes) : zero;
        const __m256i b3 = first < 8 ? _mm256_permutevar8x32_epi32(get_byte_planes(at, 0, first, stride), lanes) : zero;
        /* 4x4 transposes of 32-bit pieces undo the unpacking */
        const __m256i b01l = _mm256_unpacklo_epi32(b0, b1), b01h = _mm256_unpackhi_epi32(b0, b1);
        const __m256i b23l = _mm256_unpacklo_epi32(b2, b3), b23h = _mm256_unpackhi_epi32(b2, b3);
        store(e + 4 * i, _mm256_shuffle_epi8(_mm256_unpacklo_epi64(b01l, b23l), by_elem));
        store(e + 4 * i + 32, _mm256_shuffle_epi8(_mm256_unpackhi_epi64(b01l, b23l), by_elem));
        store(e + 4 * i + 64, _mm256_shuffle_epi8(_mm256_unpacklo_epi64(b01h, b23h), by_elem));
        store(e + 4 * i + 96, _mm256_shuffle_epi8(_mm256_unpackhi_epi64(b01h, b23h), by_elem));
    }
    join_groups(planes, i, n, first, e, 4);
}

/* 64-bit elements as their low and high halves. */
static void split_64(const void *elems, size_t n, unsigned first, uint8_t *planes)
{
    const uint8_t *const e = elems;
    uint32_t half[256];
    const size_t stride = n / 8;
    /* The planes of a piece are n / 8 bytes apart, so pieces go through a small block of their own. */
    uint8_t piece[32 * 32];
    size_t i = 0;
    for (; i + 256 <= n; i += 256)
        for (unsigned high = 0; high < 2; high++) {
            const unsigned offset = high ? 0 : 32, low_first = first > offset ? first - offset : 0;
            if (low_first >= 32)
                continue;
            for (unsigned k = 0; k < 256; k++)
                memcpy(&half[k], e + 8 * (i + k) + 4 * high, 4);
            split_32(half, 256, low_first, piece);
            for (unsigned p = low_first; p < 32; p++)
                memcpy(planes + (p + offset) * stride + i / 8, piece + 32 * p, 32);
        }
    split_groups(e, i, n, first, planes, 8);
}

static void join_64(const uint8_t *planes, size_t n, unsigned first, void *elems)
{
    uint8_t *const e = elems;
    const size_t stride = n / 8;
    uint32_t half[2][256];
    uint8_t piece[32 * 32];
    size_t i = 0;
    for (; i + 256 <= n; i += 256) {
        for (unsigned high = 0; high < 2; high++) {
            const unsigned offset = high ? 0 : 32, low_first = first > offset ? first - offset : 0;
            if (low_first >= 32) {
                memset(half[high], 0, sizeof half[high]);
                continue;
            }
            for (unsigned p = low_first; p < 32; p++)
                memcpy(piece + 32 * p, planes + (p + offset) * stride + i / 8, 32);
            join_32(piece, 256, low_first, half[high]);
        }
        for (unsigned k = 0; k < 256; k++) {
            const uint64_t v = (uint64_t)half[1][k] << 32 | half[0][k];
            memcpy(e + 8 * (i + k), &v, 8);
        }
    }
    join_groups(planes, i, n, first, e, 8);
}

#else

DEFINE_PLAIN(32, 4)
DEFINE_PLAIN(64, 8)

#endif

const struct fzm_shuffle_kernels KERNELS = {
    {split_8, split_16, split_32, split_64},
    {join_8, join_16, join_32, join_64},
};
