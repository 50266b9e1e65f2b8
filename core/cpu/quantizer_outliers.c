/* SPDX-License-Identifier: BSD-3-Clause */
/* Outliers of the Quantizer: codes that repeat over them, their values to a list and back. */
#include "quantizer.h"

#include "../error.h"
#include "../le.h"
#include "pool.h"

/* Elements of a partition: a multiple of 64, large against the cost of a task. */
enum { PARTITION_N_ELEMS = 65536 };

static unsigned popcount(uint64_t w)
{
    w -= (w >> 1) & 0x5555555555555555U;
    w = (w & 0x3333333333333333U) + ((w >> 2) & 0x3333333333333333U);
    return (unsigned)((((w + (w >> 4)) & 0x0f0f0f0f0f0f0f0fU) * 0x0101010101010101U) >> 56);
}

/* One code type; the size is a constant where this is inlined. */
static inline void repeat_codes(char *codes, size_t code_nbytes, size_t n, const uint64_t *bad)
{
    uint64_t last = 0;
    for (size_t w = 0; w * 64 < n; w++) {
        const uint64_t word = bad[w];
        const size_t n_word = n - w * 64 < 64 ? n - w * 64 : 64;
        char *const c = codes + w * 64 * code_nbytes;
        if (w * 64 % FZM_QUANTIZER_REPEAT_BLOCK == 0)
            last = 0;
        for (size_t i = 0; word && i < n_word; i++) {
            if (word >> i & 1)
                memcpy(c + i * code_nbytes, &last, code_nbytes);
            else
                memcpy(&last, c + i * code_nbytes, code_nbytes);
        }
        if (!word)
            memcpy(&last, c + (n_word - 1) * code_nbytes, code_nbytes);
    }
}

void fzm_quantizer_repeat_codes(void *codes, int code_dtype, size_t n, const uint64_t *bad)
{
    if (code_dtype == FZM_I64)
        repeat_codes((char *)codes, 8, n, bad);
    else
        repeat_codes((char *)codes, 4, n, bad);
}

size_t fzm_quantizer_outlier_scratch_nbytes(size_t n_elems)
{
    return (n_elems / PARTITION_N_ELEMS + 1) * sizeof(uint64_t);
}

/* One pass over the mask by partitions. */
struct outliers {
    const uint8_t *mask;
    const char *src;
    char *dst;
    size_t n_elems, mask_nbytes, elem_nbytes;
    uint64_t *counts; /* per partition; then the index of its first value */
};

/* 64 bits of the mask from element i on, i a multiple of 64; 0 past its end. */
static uint64_t mask_word(const struct outliers *o, size_t i)
{
    const size_t at = i / 8, left = o->mask_nbytes - at;
    uint8_t b[8] = {0};
    if (left >= 8)
        return fzm_get_le64(o->mask + at);
    memcpy(b, o->mask + at, left);
    return fzm_get_le64(b);
}

static size_t partition_end(const struct outliers *o, size_t part)
{
    const size_t end = (part + 1) * PARTITION_N_ELEMS;
    return end < o->n_elems ? end : o->n_elems;
}

static void count_task(void *arg, size_t part, unsigned worker)
{
    const struct outliers *const o = (const struct outliers *)arg;
    const size_t end = partition_end(o, part);
    uint64_t count = 0;
    (void)worker;
    for (size_t i = part * PARTITION_N_ELEMS; i < end; i += 64) {
        const uint64_t word = mask_word(o, i);
        if (word)
            count += popcount(word);
    }
    o->counts[part] = count;
}

static size_t n_partitions(const struct outliers *o) { return (size_t)fzm_div_up(o->n_elems, PARTITION_N_ELEMS); }

/* Counts become starts; returns the sum. */
static uint64_t count_outliers(struct fzm_pool *pool, struct outliers *o)
{
    const size_t n = n_partitions(o);
    uint64_t sum = 0;
    fzm_pool_run(pool, n, count_task, o);
    for (size_t i = 0; i < n; i++) {
        const uint64_t count = o->counts[i];
        o->counts[i] = sum;
        sum += count;
    }
    return sum;
}

/* Constant sizes, so that the copies become moves. */
static inline void copy_elem(char *dst, const char *src, size_t nbytes)
{
    switch (nbytes) {
    case 8: memcpy(dst, src, 8); break;
    case 4: memcpy(dst, src, 4); break;
    case 2: memcpy(dst, src, 2); break;
    default: *dst = *src; break;
    }
}

/* Runs of outliers are copied as runs. gather: array to list, else list to array. */
static inline void move_partition(const struct outliers *o, size_t part, bool gather)
{
    const size_t end = partition_end(o, part), size = o->elem_nbytes;
    size_t at = (size_t)o->counts[part] * size;
    for (size_t i = part * PARTITION_N_ELEMS; i < end; i += 64) {
        uint64_t word = mask_word(o, i);
        if (word == ~(uint64_t)0) {
            memcpy(o->dst + (gather ? at : i * size), o->src + (gather ? i * size : at), 64 * size);
            at += 64 * size;
            continue;
        }
        for (size_t j = i; word; word >>= 1, j++) {
            if (!(word & 1))
                continue;
            copy_elem(o->dst + (gather ? at : j * size), o->src + (gather ? j * size : at), size);
            at += size;
        }
    }
}

static void gather_task(void *arg, size_t part, unsigned worker)
{
    (void)worker;
    move_partition((const struct outliers *)arg, part, true);
}

static void scatter_task(void *arg, size_t part, unsigned worker)
{
    (void)worker;
    move_partition((const struct outliers *)arg, part, false);
}

size_t fzm_quantizer_gather_outliers(struct fzm_pool *pool, const uint8_t *mask, const void *x, size_t n_elems,
                                     size_t elem_nbytes, void *vals, void *scratch)
{
    struct outliers o = {mask, (const char *)x, (char *)vals, n_elems, fzm_quantizer_mask_nbytes(n_elems),
                         elem_nbytes, (uint64_t *)scratch};
    const uint64_t count = count_outliers(pool, &o);
    if (count)
        fzm_pool_run(pool, n_partitions(&o), gather_task, &o);
    return (size_t)count;
}

int fzm_quantizer_scatter_outliers(struct fzm_pool *pool, const uint8_t *mask, size_t mask_nbytes, const void *vals,
                                   size_t vals_nbytes, void *y, size_t n_elems, size_t elem_nbytes, void *scratch,
                                   struct fzm_err *err)
{
    struct outliers o = {mask, (const char *)vals, (char *)y, n_elems, mask_nbytes, elem_nbytes, (uint64_t *)scratch};
    if (mask_nbytes == 0) {
        if (vals_nbytes != 0)
            return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: %zu bytes of outliers without a mask", vals_nbytes);
        return 0;
    }
    if (mask_nbytes != fzm_quantizer_mask_nbytes(n_elems))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: outlier mask has %zu bytes, %zu elements need %zu",
                           mask_nbytes, n_elems, fzm_quantizer_mask_nbytes(n_elems));
    if (n_elems % 8 && mask[mask_nbytes - 1] >> n_elems % 8)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: outlier mask goes past the last element");
    const uint64_t count = count_outliers(pool, &o);
    if (vals_nbytes % elem_nbytes || count != vals_nbytes / elem_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: %zu bytes of outliers, the mask has %llu", vals_nbytes,
                           (unsigned long long)count);
    if (count)
        fzm_pool_run(pool, n_partitions(&o), scatter_task, &o);
    return 0;
}
