/* SPDX-License-Identifier: BSD-3-Clause */
#include "outlier_mask.h"

#include <sched.h>
#include <string.h>

enum { MASK_UNTOUCHED, MASK_BEING_ZEROED, MASK_READY };

void fzm_outlier_mask_init(struct fzm_outlier_mask *m, void *bits, size_t nbytes)
{
    m->bits = bits;
    m->nbytes = nbytes;
    atomic_init(&m->state, MASK_UNTOUCHED);
}

bool fzm_outlier_mask_any(struct fzm_outlier_mask *m)
{
    return atomic_load_explicit(&m->state, memory_order_relaxed) == MASK_READY;
}

static void make_ready(struct fzm_outlier_mask *m)
{
    int state = atomic_load_explicit(&m->state, memory_order_acquire);
    if (state == MASK_UNTOUCHED && atomic_compare_exchange_strong(&m->state, &state, MASK_BEING_ZEROED)) {
        memset(m->bits, 0, m->nbytes);
        atomic_store_explicit(&m->state, MASK_READY, memory_order_release);
    }
    while (atomic_load_explicit(&m->state, memory_order_acquire) != MASK_READY)
        sched_yield();
}

/* The n bits from bit i on (n <= 64, tile rows are multiples of 8). */
static uint64_t row_bits(const uint64_t *bad, uint32_t i, uint32_t n)
{
    const uint64_t bits = bad[i / 64] >> (i % 64);
    return n >= 64 ? bits : bits & (((uint64_t)1 << n) - 1);
}

bool fzm_outlier_mask_clip(uint64_t *bad, const struct fzm_tiling *t, const uint32_t extent[3])
{
    uint64_t any = 0, clipped[FZM_TILE_MAX_MASK_WORDS] = {0};
    if (!fzm_tile_is_full(t, extent)) {
        struct fzm_mask_walk w = fzm_mask_walk_from(t, extent);
        while (fzm_mask_walk_next(&w))
            clipped[w.first / 64] |= bad[w.first / 64] & w.valid << (w.first % 64);
        memcpy(bad, clipped, t->n_tile_elems / 8);
    }
    for (uint32_t i = 0; i < t->n_tile_elems / 64; i++)
        any |= bad[i];
    return any != 0;
}

static void or_byte(struct fzm_outlier_mask *m, uint64_t at, unsigned bits)
{
    if (bits)
        atomic_fetch_or_explicit((_Atomic uint8_t *)(void *)(m->bits + at), (uint8_t)bits, memory_order_relaxed);
}

void fzm_outlier_mask_add(struct fzm_outlier_mask *m, const uint64_t *bad, const struct fzm_tiling *t,
                          const struct fzm_tile_at *at)
{
    make_ready(m);
    for (uint32_t z = 0; z < at->extent[0]; z++)
        for (uint32_t y = 0; y < at->extent[1]; y++)
            for (uint32_t x = 0; x < at->extent[2]; x += 8) {
                const unsigned bits = (unsigned)row_bits(bad, (z * t->tile[1] + y) * t->tile[2] + x, 8);
                const uint64_t index = at->first + (z * t->dims[1] + y) * t->dims[2] + x;
                or_byte(m, index / 8, bits << (index % 8) & 0xff);
                or_byte(m, index / 8 + 1, bits << (index % 8) >> 8);
            }
}
