/* SPDX-License-Identifier: BSD-3-Clause */
#include "bitpack.h"

#include <string.h>

#include "../le.h"
#include "isa.h"

/* Transposes an 8 x 8 bit matrix: bit c of byte r goes to bit r of byte c. */
static uint64_t transpose8(uint64_t x)
{
    uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aau;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000cccc0000ccccu;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0u;
    return x ^ t ^ (t << 28);
}

/* Planes of one group of 8 elements: plane p of the group is byte p of the result of a transposition of
 * byte p / 8 of the elements. */
void fzm_bitpack_group_encode(const uint64_t v[8], unsigned width, uint8_t *planes, size_t stride)
{
    for (unsigned low = 0; low < width; low += 8) {
        uint64_t bytes = 0;
        for (unsigned j = 0; j < 8; j++)
            bytes |= ((v[j] >> low) & 0xff) << (8 * j);
        bytes = transpose8(bytes);
        const unsigned n = width - low < 8 ? width - low : 8;
        for (unsigned p = 0; p < n; p++)
            planes[(size_t)(width - 1 - low - p) * stride] = (uint8_t)(bytes >> (8 * p));
    }
}

void fzm_bitpack_group_decode(const uint8_t *planes, size_t stride, unsigned width, uint64_t v[8])
{
    memset(v, 0, 8 * sizeof *v);
    if (width == 0)
        return;
    for (unsigned low = 0; low < width; low += 8) {
        uint64_t bytes = 0;
        const unsigned n = width - low < 8 ? width - low : 8;
        for (unsigned p = 0; p < n; p++)
            bytes |= (uint64_t)planes[(size_t)(width - 1 - low - p) * stride] << (8 * p);
        bytes = transpose8(bytes);
        for (unsigned j = 0; j < 8; j++)
            v[j] |= ((bytes >> (8 * j)) & 0xff) << low;
    }
    const uint64_t sign = (uint64_t)1 << (width - 1);
    for (unsigned j = 0; j < 8; j++)
        v[j] = (v[j] ^ sign) - sign;
}

#define DEFINE_C_KERNELS(bits)                                                                            \
    static uint64_t widths##bits##_c(const int##bits##_t *v)                                              \
    {                                                                                                     \
        uint64_t w = 0;                                                                                   \
        for (unsigned b = 0; b < 8; b++, v += 32) {                                                       \
            uint##bits##_t any = 0, folded = 0;                                                           \
            for (unsigned j = 0; j < 32; j++) {                                                           \
                any |= (uint##bits##_t)v[j];                                                              \
                folded |= (uint##bits##_t)(v[j] ^ (v[j] < 0 ? -1 : 0));                                   \
            }                                                                                             \
            w |= (uint64_t)fzm_bitpack_width(any, folded) << (8 * b);                                     \
        }                                                                                                 \
        return w;                                                                                         \
    }                                                                                                     \
                                                                                                          \
    static uint8_t *encode##bits##_c(const int##bits##_t *v, const uint8_t widths[8], uint8_t *planes)    \
    {                                                                                                     \
        for (unsigned b = 0; b < 8; b++, v += 32) {                                                       \
            for (unsigned g = 0; g < 4 && widths[b]; g++) {                                               \
                uint64_t group[8];                                                                        \
                for (unsigned j = 0; j < 8; j++)                                                          \
                    group[j] = (uint64_t)v[8 * g + j];                                                    \
                fzm_bitpack_group_encode(group, widths[b], planes + g, 4);                                \
            }                                                                                             \
            planes += 4 * (size_t)widths[b];                                                              \
        }                                                                                                 \
        return planes;                                                                                    \
    }                                                                                                     \
                                                                                                          \
    static const uint8_t *decode##bits##_c(const uint8_t *planes, const uint8_t widths[8],                \
                                           int##bits##_t *v)                                              \
    {                                                                                                     \
        for (unsigned b = 0; b < 8; b++, v += 32) {                                                       \
            for (unsigned g = 0; g < 4; g++) {                                                            \
                uint64_t group[8];                                                                        \
                fzm_bitpack_group_decode(planes + g, 4, widths[b], group);                                \
                for (unsigned j = 0; j < 8; j++)                                                          \
                    v[8 * g + j] = (int##bits##_t)(uint##bits##_t)group[j];                               \
            }                                                                                             \
            planes += 4 * (size_t)widths[b];                                                              \
        }                                                                                                 \
        return planes;                                                                                    \
    }

DEFINE_C_KERNELS(32)
DEFINE_C_KERNELS(64)

const struct fzm_bitpack_kernels fzm_bitpack_kernels_c = {
    widths32_c, widths64_c, encode32_c, encode64_c, decode32_c, decode64_c,
};

const struct fzm_bitpack_kernels *fzm_bitpack_kernels_get(void)
{
#if defined(__x86_64__)
    switch (fzm_isa_get()) {
    case FZM_ISA_AVX512: return &fzm_bitpack_kernels_avx512;
    case FZM_ISA_AVX2: return &fzm_bitpack_kernels_avx2;
    default: break;
    }
#endif
    return &fzm_bitpack_kernels_c;
}

/* Super-tiles. */

size_t fzm_bitpack_super_head(const uint8_t widths[FZM_BITPACK_SUPER_BLOCKS], uint8_t *head)
{
    uint64_t map = 0;
    uint8_t live[FZM_BITPACK_SUPER_TILES];
    size_t n_live = 0;
    for (unsigned t = 0; t < FZM_BITPACK_SUPER_TILES; t++) {
        const bool any = fzm_get_le64(widths + 8 * t) != 0;
        map |= (uint64_t)any << t;
        live[n_live] = (uint8_t)t;
        n_live += any;
    }
    if (n_live == 0)
        return 0;
    fzm_put_le64(head, map);
    uint8_t *const classes = head + 8;
    const size_t classes_nbytes = (n_live + 15) / 16 * 4;
    memset(classes, 0, classes_nbytes);
    uint8_t *const rates = classes + classes_nbytes;
    size_t rates_nbytes = 0;
    for (size_t k = 0; k < n_live; k++) {
        const uint64_t w = fzm_get_le64(widths + 8 * (size_t)live[k]);
        const uint32_t rate_class = fzm_bitpack_class_of(w);
        classes[k / 4] = (uint8_t)(classes[k / 4] | rate_class << (2 * (k % 4)));
        fzm_put_le64(rates + rates_nbytes, fzm_bitpack_rates_encode(w, rate_class));
        rates_nbytes += fzm_bitpack_class_nbytes(rate_class);
    }
    return 8 + classes_nbytes + (size_t)(fzm_bitpack_pad4(rates, rates + rates_nbytes) - rates);
}

uint8_t *fzm_bitpack_pad4(uint8_t *planes, uint8_t *end)
{
    while ((size_t)(end - planes) % 4 != 0)
        *end++ = 0;
    return end;
}

/* Reads the rate bytes that are there; at the end of the payload that may be fewer than 8. */
static uint64_t load_rates(const uint8_t *p, const uint8_t *end)
{
    if ((size_t)(end - p) >= 8)
        return fzm_get_le64(p);
    uint64_t v = 0;
    for (unsigned i = 0; p + i < end; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

bool fzm_bitpack_super_parse(const uint8_t *payload, size_t payload_nbytes, uint32_t block_size,
                             uint32_t elem_nbits, uint8_t widths[FZM_BITPACK_SUPER_BLOCKS],
                             const uint8_t **planes)
{
    memset(widths, 0, FZM_BITPACK_SUPER_BLOCKS);
    *planes = payload;
    if (payload_nbytes == 0)
        return true;
    if (payload_nbytes < 8)
        return false;
    uint64_t map = fzm_get_le64(payload);
    const uint8_t *const end = payload + payload_nbytes, *const classes = payload + 8;
    size_t n_live = 0;
    for (uint64_t m = map; m; m &= m - 1)
        n_live++;
    const size_t classes_nbytes = (n_live + 15) / 16 * 4;
    if (payload_nbytes - 8 < classes_nbytes)
        return false;
    const uint8_t *const rates = classes + classes_nbytes, *rate = rates;
    uint64_t width_sum = 0;
    size_t k = 0;
    for (unsigned t = 0; map; t++, map >>= 1) {
        if (!(map & 1))
            continue;
        const uint32_t rate_class = (classes[k / 4] >> (2 * (k % 4))) & 3u;
        const size_t rate_nbytes = fzm_bitpack_class_nbytes(rate_class);
        if ((size_t)(end - rate) < rate_nbytes)
            return false;
        const uint64_t w = fzm_bitpack_rates_decode(load_rates(rate, end), rate_class);
        if (!fzm_bitpack_widths_valid(w, elem_nbits))
            return false;
        fzm_put_le64(widths + 8 * (size_t)t, w);
        width_sum += fzm_bitpack_widths_sum(w);
        rate += rate_nbytes;
        k++;
    }
    const size_t rates_nbytes = ((size_t)(rate - rates) + 3) / 4 * 4;
    const uint64_t planes_nbytes = (width_sum * (block_size / 8) + 3) / 4 * 4;
    if (payload_nbytes - 8 - classes_nbytes != rates_nbytes + planes_nbytes)
        return false;
    *planes = rates + rates_nbytes;
    return true;
}

/* Sections. */

void fzm_bitpack_section_begin(uint8_t *section, uint64_t n_elems, uint32_t elem_nbytes)
{
    fzm_put_le64(section, n_elems * elem_nbytes);
}

int fzm_bitpack_section_open(struct fzm_bitpack_section *s, const void *data, size_t nbytes, uint64_t n_elems,
                             uint32_t elem_nbytes, uint32_t block_size, struct fzm_err *err)
{
    memset(s, 0, sizeof *s);
    if (n_elems == 0) {
        if (nbytes != 0)
            return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack: %zu bytes for no elements", nbytes);
        return FZM_OK;
    }
    s->n_elems = n_elems;
    s->n_super = fzm_bitpack_n_super(n_elems, block_size);
    const uint64_t table_nbytes = fzm_bitpack_table_nbytes(s->n_super);
    if (nbytes < table_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack: section of %zu bytes, needs %llu", nbytes,
                           (unsigned long long)table_nbytes);
    if (fzm_get_le64(data) != n_elems * elem_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack: section for %llu bytes, expected %llu",
                           (unsigned long long)fzm_get_le64(data), (unsigned long long)n_elems * elem_nbytes);
    s->table = (const uint8_t *)data + 8;
    s->payloads = (const uint8_t *)data + table_nbytes;
    s->payloads_nbytes = nbytes - table_nbytes;
    if ((uint64_t)fzm_get_le32(s->table + 4 * (s->n_super - 1)) * 4 != s->payloads_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack: %llu bytes of payload, table has other",
                           (unsigned long long)s->payloads_nbytes);
    return FZM_OK;
}

bool fzm_bitpack_section_payload(const struct fzm_bitpack_section *s, uint64_t i, const uint8_t **payload,
                                 size_t *payload_nbytes)
{
    const uint64_t begin = i ? (uint64_t)fzm_get_le32(s->table + 4 * (i - 1)) * 4 : 0;
    const uint64_t end = (uint64_t)fzm_get_le32(s->table + 4 * i) * 4;
    if (begin > end || end > s->payloads_nbytes)
        return false;
    *payload = s->payloads + begin;
    *payload_nbytes = (size_t)(end - begin);
    return true;
}
