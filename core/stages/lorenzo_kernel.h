/* SPDX-License-Identifier: BSD-3-Clause */
/* Template of Lorenzo for unsigned elements U with name suffix NAME(x): rows of one field. Fields may have
 * any alignment, so elements are read and written by memcpy, which costs nothing. */

static inline U NAME(get)(const uint8_t *p, size_t i)
{
    U v;
    memcpy(&v, p + i * sizeof v, sizeof v);
    return v;
}

static inline void NAME(put)(uint8_t *p, size_t i, U v) { memcpy(p + i * sizeof v, &v, sizeof v); }

/* to = row - before. The three do not overlap, or to is row. */
static void NAME(sub)(uint8_t *to, const uint8_t *row, const uint8_t *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        NAME(put)(to, i, (U)(NAME(get)(row, i) - NAME(get)(before, i)));
}

/* to = (row - before) - (back - back_before), rows that do not overlap. */
static void NAME(sub4)(uint8_t *to, const uint8_t *row, const uint8_t *before, const uint8_t *back,
                       const uint8_t *back_before, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const U d = (U)(NAME(get)(row, i) - NAME(get)(before, i));
        const U e = (U)(NAME(get)(back, i) - NAME(get)(back_before, i));
        NAME(put)(to, i, (U)(d - e));
    }
}

static void NAME(add)(uint8_t *to, const uint8_t *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        NAME(put)(to, i, (U)(NAME(get)(to, i) + NAME(get)(before, i)));
}

/* Difference along x from a row to another that does not overlap it. */
static void NAME(diff_x)(uint8_t *to, const uint8_t *row, size_t n, size_t block)
{
    for (size_t first = 0; first < n; first += block) {
        const size_t end = n - first < block ? n : first + block;
        NAME(put)(to, first, NAME(get)(row, first));
        NAME(sub)(to + (first + 1) * sizeof(U), row + (first + 1) * sizeof(U), row + first * sizeof(U),
                  end - first - 1);
    }
}

static void NAME(sum_x)(uint8_t *row, size_t n, size_t block)
{
    for (size_t first = 0; first < n; first += block) {
        const size_t end = n - first < block ? n : first + block;
        U sum = 0;
        for (size_t i = first; i < end; i++) {
            sum = (U)(sum + NAME(get)(row, i));
            NAME(put)(row, i, sum);
        }
    }
}

/* One pass of differences along all axes over rows [first, end) of the flattened rows. A row is differenced
 * along z and y piece by piece into a buffer, so that the difference along x finds it in the L1 cache. */
static void NAME(diff_rows)(const struct pass *p, uint64_t first, uint64_t end)
{
    enum { PIECE = PIECE_NBYTES / sizeof(U) };
    uint8_t piece[PIECE_NBYTES + 8]; /* one element before the piece, then the piece */
    const size_t nx = (size_t)p->f.dims[2], row_nbytes = nx * sizeof(U);
    const uint64_t ny = p->f.dims[1], plane_nbytes = ny * row_nbytes;
    for (uint64_t row = first; row < end; row++) {
        const uint64_t y = row % ny, z = row / ny % p->f.dims[0];
        const uint8_t *const r = (const uint8_t *)p->from + row * row_nbytes;
        uint8_t *const out = (uint8_t *)p->to + row * row_nbytes;
        const bool has_y = y % p->block_y != 0, has_z = z % p->block_z != 0;
        if (!has_y && !has_z) {
            NAME(diff_x)(out, r, nx, p->block_x);
            continue;
        }
        U last = 0;
        size_t n = 0;
        for (size_t i = 0; i < nx; i += n) {
            const size_t at = i * sizeof(U), phase = i % p->block_x;
            uint8_t *const q = piece + sizeof(U);
            n = nx - i < PIECE ? nx - i : PIECE;
            n = p->block_x - phase < n ? p->block_x - phase : n;
            if (has_y && has_z)
                NAME(sub4)(q, r + at, r + at - row_nbytes, r + at - plane_nbytes,
                           r + at - plane_nbytes - row_nbytes, n);
            else
                NAME(sub)(q, r + at, r + at - (has_y ? row_nbytes : plane_nbytes), n);
            NAME(put)(piece, 0, phase ? last : 0);
            NAME(sub)(out + at, q, piece, n);
            last = NAME(get)(q, n - 1);
        }
    }
}

/* The inverse of a pass on the rows of whole fields, in place, a row at a time while it is in cache. The rows
 * before it have their values already: row = sum_x(row) + before + back - back_before. */
static void NAME(sum_rows)(const struct pass *p, uint64_t first, uint64_t end)
{
    const size_t nx = (size_t)p->f.dims[2], row_nbytes = nx * sizeof(U);
    const uint64_t ny = p->f.dims[1], plane_nbytes = ny * row_nbytes;
    for (uint64_t row = first; row < end; row++) {
        uint8_t *const r = (uint8_t *)p->to + row * row_nbytes;
        const bool has_y = row % ny % p->block_y != 0, has_z = row / ny % p->f.dims[0] % p->block_z != 0;
        NAME(sum_x)(r, nx, p->block_x);
        if (has_y && has_z) {
            const uint8_t *const before = r - row_nbytes, *const back = r - plane_nbytes;
            const uint8_t *const back_before = back - row_nbytes;
            for (size_t i = 0; i < nx; i++) {
                const U d = (U)(NAME(get)(before, i) - NAME(get)(back_before, i));
                NAME(put)(r, i, (U)(NAME(get)(r, i) + (U)(d + NAME(get)(back, i))));
            }
        } else if (has_y) {
            NAME(add)(r, r - row_nbytes, nx);
        } else if (has_z) {
            NAME(add)(r, r - plane_nbytes, nx);
        }
    }
}

/* Sum of the bit lengths of zigzagged residuals of one row at every geometry, order 1. */
static void NAME(row_cost)(const struct pass *p, uint64_t row, uint64_t cost[4])
{
    const size_t nx = (size_t)p->f.dims[2], row_nbytes = nx * sizeof(U);
    const uint64_t ny = p->f.dims[1];
    const uint8_t *const r = (const uint8_t *)p->from + row * row_nbytes;
    const bool has_y = row % ny != 0, has_z = row / ny % p->f.dims[0] != 0;
    const uint8_t *const b = has_z ? r - ny * row_nbytes : r;
    for (size_t i = 1; i < nx; i++) {
        const U d1 = (U)(NAME(get)(r, i) - NAME(get)(r, i - 1));
        U d2 = d1, d3;
        if (has_y)
            d2 = (U)(d1 - (U)(NAME(get)(r - row_nbytes, i) - NAME(get)(r - row_nbytes, i - 1)));
        d3 = d2;
        if (has_z) {
            U e = (U)(NAME(get)(b, i) - NAME(get)(b, i - 1));
            if (has_y)
                e = (U)(e - (U)(NAME(get)(b - row_nbytes, i) - NAME(get)(b - row_nbytes, i - 1)));
            d3 = (U)(d2 - e);
        }
        cost[1] += fzm_lorenzo_cost((uint64_t)d1, 8 * sizeof(U));
        cost[2] += fzm_lorenzo_cost((uint64_t)d2, 8 * sizeof(U));
        cost[3] += fzm_lorenzo_cost((uint64_t)d3, 8 * sizeof(U));
    }
}

#undef U
#undef NAME
