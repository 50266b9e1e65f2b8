/* SPDX-License-Identifier: BSD-3-Clause */
/* Template of Lorenzo for unsigned elements U with name suffix NAME(x): rows of one field. */

/* to = row - (row before); before NULL: nothing is subtracted. */
static void NAME(sub)(U *to, const U *row, const U *before, size_t n)
{
    if (!before)
        memmove(to, row, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = (U)(row[i] - before[i]);
}

static void NAME(add)(U *to, const U *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (U)(to[i] + before[i]);
}

/* Difference along x in place, from the end so that a value is read before it changes. */
static void NAME(diff_x)(U *row, size_t n, size_t block)
{
    for (size_t first = 0; first < n; first += block) {
        const size_t end = n - first < block ? n : first + block;
        for (size_t i = end - 1; i > first; i--)
            row[i] = (U)(row[i] - row[i - 1]);
    }
}

static void NAME(sum_x)(U *row, size_t n, size_t block)
{
    for (size_t first = 0; first < n; first += block) {
        const size_t end = n - first < block ? n : first + block;
        U sum = 0;
        for (size_t i = first; i < end; i++)
            row[i] = sum = (U)(sum + row[i]);
    }
}

/* One pass of differences along all axes over rows [first, end) of the flattened rows. to and from may be
 * the same array only if rows are handled from the last to the first; here they differ. */
static void NAME(diff_rows)(const struct pass *p, uint64_t first, uint64_t end)
{
    const U *const from = p->from;
    U *const to = p->to;
    const size_t nx = (size_t)p->f.dims[2];
    const uint64_t ny = p->f.dims[1], plane = ny * nx;
    for (uint64_t row = first; row < end; row++) {
        const uint64_t y = row % ny, z = row / ny % p->f.dims[0];
        const U *const r = from + row * nx;
        U *const out = to + row * nx;
        const bool has_y = y % p->block_y != 0, has_z = z % p->block_z != 0;
        NAME(sub)(out, r, has_y ? r - nx : NULL, nx);
        if (has_z) {
            /* minus the plane before: (r - up) - (back - back_up) */
            const U *const back = r - plane;
            if (has_y)
                for (size_t i = 0; i < nx; i++)
                    out[i] = (U)(out[i] - (U)(back[i] - back[i - (ptrdiff_t)nx]));
            else
                NAME(sub)(out, out, back, nx);
        }
        NAME(diff_x)(out, nx, p->block_x);
    }
}

/* The inverse of a pass on rows of whole units: a unit is a run of rows that starts a restart block along
 * every axis but x, or a whole field. In place. */
static void NAME(sum_rows)(const struct pass *p, uint64_t first, uint64_t end)
{
    U *const v = p->to;
    const size_t nx = (size_t)p->f.dims[2];
    const uint64_t ny = p->f.dims[1], plane = ny * nx;
    for (uint64_t row = first; row < end; row++)
        NAME(sum_x)(v + row * nx, nx, p->block_x);
    for (uint64_t row = first; row < end; row++)
        if (row % ny % p->block_y != 0)
            NAME(add)(v + row * nx, v + (row - 1) * nx, nx);
    for (uint64_t row = first; row < end; row++)
        if (row / ny % p->f.dims[0] % p->block_z != 0)
            NAME(add)(v + row * nx, v + row * nx - plane, nx);
}

/* Sum of the bit lengths of zigzagged residuals of one row at every geometry, order 1. */
static void NAME(row_cost)(const struct pass *p, uint64_t row, uint64_t cost[4])
{
    const U *const r = (const U *)p->from + row * p->f.dims[2];
    const size_t nx = (size_t)p->f.dims[2];
    const uint64_t plane = p->f.dims[1] * nx;
    const bool has_y = row % p->f.dims[1] != 0, has_z = row / p->f.dims[1] % p->f.dims[0] != 0;
    for (size_t i = 1; i < nx; i++) {
        const U d1 = (U)(r[i] - r[i - 1]);
        U d2 = d1, d3;
        if (has_y)
            d2 = (U)(d1 - (U)(r[i - (ptrdiff_t)nx] - r[i - (ptrdiff_t)nx - 1]));
        d3 = d2;
        if (has_z) {
            const U *const b = r + i - (ptrdiff_t)plane;
            U e = (U)(b[0] - b[-1]);
            if (has_y)
                e = (U)(e - (U)(b[-(ptrdiff_t)nx] - b[-(ptrdiff_t)nx - 1]));
            d3 = (U)(d2 - e);
        }
        cost[1] += zigzag_bits((uint64_t)d1, 8 * sizeof(U));
        cost[2] += zigzag_bits((uint64_t)d2, 8 * sizeof(U));
        cost[3] += zigzag_bits((uint64_t)d3, 8 * sizeof(U));
    }
}

#undef U
#undef NAME
