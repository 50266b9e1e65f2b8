/* SPDX-License-Identifier: BSD-3-Clause */
/* Template of the tile kernels for one element width; included by tile_kernels.h with
 *   T signed element, U unsigned element, W bits, NAME(x) name with suffix.
 * Compiled once for each instruction set: plain loops that the compiler vectorises, and intrinsics
 * (tile_simd.h) where it does not. */

/* r = v - v shifted by one along x, inside each row of nx; the row's first is relative to the origin. */
static void NAME(diff_x)(const T *v, T *r, uint32_t n, uint32_t nx)
{
    const U o = (U)v[0];
    /* Whole vectors from a multiple of 64 bytes on: the next pass loads what this one stores, and that is
     * slow if a load needs two stores. */
    r[0] = 0;
    for (uint32_t i = 1; i < 64 / sizeof(T); i++)
        r[i] = (T)((U)v[i] - (U)v[i - 1]);
    for (uint32_t i = 64 / sizeof(T); i < n; i++)
        r[i] = (T)((U)v[i] - (U)v[i - 1]);
    for (uint32_t i = nx; i < n; i += nx)
        r[i] = (T)((U)v[i] - o);
}

/* Second difference of a one-dimensional tile. */
static void NAME(diff_xx)(const T *v, T *r, uint32_t n)
{
    r[0] = 0;
    r[1] = (T)((U)v[1] - (U)v[0]);
    for (uint32_t i = 2; i < n; i++)
        r[i] = (T)((U)((U)v[i] - (U)v[i - 1]) - (U)((U)v[i - 1] - (U)v[i - 2]));
    r[1] = (T)((U)v[1] - (U)v[0]);
}

/* Rows of 8, which are too short for the head and tail of a loop of any length. */
#ifndef HAVE_ROW_8
static inline void NAME(sub_8)(T *restrict r, const T *restrict before)
{
    for (size_t i = 0; i < 8; i++)
        r[i] = (T)((U)r[i] - (U)before[i]);
}

static inline void NAME(add_8)(T *restrict r, const T *restrict before)
{
    for (size_t i = 0; i < 8; i++)
        r[i] = (T)((U)r[i] + (U)before[i]);
}
#endif

static void NAME(sub_row)(T *restrict r, const T *restrict before, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        r[i] = (T)((U)r[i] - (U)before[i]);
}

static void NAME(add_row)(T *restrict r, const T *restrict before, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        r[i] = (T)((U)r[i] + (U)before[i]);
}

/* In place: rows of ny minus the row before, last first; planes likewise. */
static void NAME(diff_y)(T *r, const struct fzm_tiling *t)
{
    const uint32_t nx = t->tile[2], n = t->n_tile_elems, plane = nx * t->tile[1];
    if (nx == 8) {
        for (uint32_t z = 0; z < n; z += plane)
            for (uint32_t y = plane - 8; y > 0; y -= 8)
                NAME(sub_8)(r + z + y, r + z + y - 8);
        return;
    }
    for (uint32_t z = 0; z < n; z += plane)
        for (uint32_t y = plane - nx; y > 0; y -= nx)
            NAME(sub_row)(r + z + y, r + z + y - nx, nx);
}

static void NAME(diff_z)(T *r, const struct fzm_tiling *t)
{
    const uint32_t plane = t->tile[2] * t->tile[1];
    for (uint32_t z = t->n_tile_elems - plane; z > 0; z -= plane)
        NAME(sub_row)(r + z, r + z - plane, plane);
}

static void NAME(residuals)(const T *v, T *r, const struct fzm_tiling *t, unsigned mode)
{
    const uint32_t n = t->n_tile_elems;
    const U o = (U)v[0];
    if (mode == 0)
        for (uint32_t i = 0; i < n; i++)
            r[i] = (T)((U)v[i] - o);
    else if (mode == 2 && t->tile[1] == 1)
        NAME(diff_xx)(v, r, n);
    else
        NAME(diff_x)(v, r, n, t->tile[2]);
    if (mode >= 2 && t->tile[1] > 1)
        NAME(diff_y)(r, t);
    if (mode >= 3)
        NAME(diff_z)(r, t);
}

/* keep[x] for one row, repeated: all ones where a row is valid. nx is a power of 2, at most 256. */
static void NAME(make_keep)(U keep[256], uint32_t nx, uint32_t n_valid)
{
    for (uint32_t i = 0; i < 256; i++)
        keep[i] = (U)((i & (nx - 1)) < n_valid ? ~(U)0 : 0);
}

/* keep belongs to extent[2]; long rows (1-D) do without. */
static void NAME(clear_padding)(T *r, const struct fzm_tiling *t, const uint32_t extent[3], const U keep[256])
{
    const uint32_t nx = t->tile[2], plane = nx * t->tile[1], n = t->n_tile_elems;
    if (nx >= n) {
        memset(r + extent[2], 0, (n - extent[2]) * sizeof *r);
        return;
    }
    if (extent[2] < nx)
        for (T *part = r; part < r + n; part += 256)
            for (size_t i = 0; i < 256; i++)
                part[i] = (T)((U)part[i] & keep[i]);
    if (extent[1] < t->tile[1])
        for (uint32_t z = 0; z < extent[0] * plane; z += plane)
            memset(r + z + extent[1] * nx, 0, (plane - extent[1] * nx) * sizeof *r);
    if (extent[0] < t->tile[0])
        memset(r + extent[0] * plane, 0, (n - extent[0] * plane) * sizeof *r);
}

#ifndef HAVE_BITPACK
static uint64_t NAME(cost_bitpack)(const T *r, uint32_t n, uint8_t *widths)
{
    uint64_t nbits = 0;
    for (uint32_t tile = 0; tile < n; tile += 256) {
        uint8_t *const w = widths + tile / 32;
        for (uint32_t b = 0; b < 8; b++) {
            const T *const x = r + tile + 32 * b;
            U any = 0, folded = 0;
            for (uint32_t i = 0; i < 32; i++) {
                any |= (U)x[i];
                folded |= (U)(x[i] ^ (x[i] >> (W - 1)));
            }
            w[b] = (uint8_t)fzm_bitpack_width(any, folded);
        }
        nbits += fzm_bitpack_tile_cost64(fzm_bitpack_widths_join(w), 32);
    }
    return nbits;
}
#endif

#ifndef HAVE_PLANES
static uint64_t NAME(cost_planes)(const T *r, uint32_t n)
{
    const U m = (U)0xaaaaaaaaaaaaaaaau;
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i += 8) {
        U any = 0;
        for (uint32_t j = 0; j < 8; j++)
            any |= (U)((U)((U)r[i + j] + m) ^ m);
        n_bytes += fzm_popcount64(any);
    }
    return 8 * n_bytes;
}
#endif

static struct fzm_tile_choice NAME(forward)(const void *values, void *residuals, const struct fzm_tiling *t,
                                            const uint32_t extent[3], int cost, uint8_t *widths)
{
    const T *const v = values;
    T *const r = residuals;
    const uint32_t n = t->n_tile_elems;
    const unsigned n_modes = fzm_tile_n_modes(t);
    const bool full = fzm_tile_is_full(t, extent);
    struct fzm_tile_choice best = {0, UINT64_MAX};
    uint8_t mode_widths[FZM_TILE_MAX_WIDTHS];
    U keep[256];
    unsigned last = 0;
    if (extent[2] < t->tile[2] && t->tile[2] < n)
        NAME(make_keep)(keep, t->tile[2], extent[2]);
    for (unsigned mode = 0; mode < n_modes; mode++) {
        /* modes 2 and 3 go on from the residuals of the mode before */
        if (mode >= 2 && t->tile[1] > 1)
            mode == 2 ? NAME(diff_y)(r, t) : NAME(diff_z)(r, t);
        else
            NAME(residuals)(v, r, t, mode);
        /* Padding holds values: differences of valid elements never look at it, so it may be cleared
         * between modes. */
        if (!full)
            NAME(clear_padding)(r, t, extent, keep);
        const uint64_t nbits = cost == FZM_TILE_COST_BITPACK ? NAME(cost_bitpack)(r, n, mode_widths)
                                                             : NAME(cost_planes)(r, n);
        last = mode;
        if (nbits < best.cost_nbits) {
            best.mode = mode;
            best.cost_nbits = nbits;
            if (widths && cost == FZM_TILE_COST_BITPACK)
                memcpy(widths, mode_widths, n / 32);
        }
    }
    if (last != best.mode) {
        NAME(residuals)(v, r, t, best.mode);
        if (!full)
            NAME(clear_padding)(r, t, extent, keep);
    }
    return best;
}

#ifndef HAVE_SCAN
static void NAME(scan_rows)(T *v, uint32_t n, uint32_t nx)
{
    for (uint32_t row = 0; row < n; row += nx) {
        U sum = 0;
        for (uint32_t i = 0; i < nx; i++)
            v[row + i] = (T)(sum = (U)(sum + (U)v[row + i]));
    }
}
#endif

static void NAME(inverse)(const void *residuals, int64_t origin, unsigned mode, const struct fzm_tiling *t, void *values)
{
    T *const v = values;
    const uint32_t nx = t->tile[2], n = t->n_tile_elems, plane = nx * t->tile[1];
    memcpy(v, residuals, n * sizeof *v);
    if (mode >= 3)
        for (uint32_t z = plane; z < n; z += plane)
            NAME(add_row)(v + z, v + z - plane, plane);
    if (mode >= 2 && t->tile[1] > 1)
        for (uint32_t z = 0; z < n; z += plane)
            for (uint32_t y = nx; y < plane; y += nx) {
                if (nx == 8)
                    NAME(add_8)(v + z + y, v + z + y - 8);
                else
                    NAME(add_row)(v + z + y, v + z + y - nx, nx);
            }
    if (mode >= 1)
        NAME(scan_rows)(v, n, nx);
    if (mode == 2 && t->tile[1] == 1)
        NAME(scan_rows)(v, n, nx);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (T)((U)v[i] + (U)origin);
}

static uint32_t NAME(fill_masked)(void *values, const uint64_t *bad, const struct fzm_tiling *t,
                                  const uint32_t extent[3])
{
    T *const v = values;
    struct fzm_mask_walk w = fzm_mask_walk_from(t, extent);
    uint32_t n_good = 0;
    T last = 0;
    while (fzm_mask_walk_next(&w)) {
        const uint64_t good = ~bad[w.first / 64] >> (w.first % 64) & w.valid;
        if (good && n_good == 0)
            last = v[w.first + fzm_ctz64(good)];
        n_good += fzm_popcount64(good);
    }
    if (n_good == 0)
        return 0;
    w = fzm_mask_walk_from(t, extent);
    while (fzm_mask_walk_next(&w)) {
        T *const row = v + w.first;
        uint64_t bits = bad[w.first / 64] >> (w.first % 64) & w.valid;
        for (uint32_t i = 0; bits == w.valid && i < w.n; i++) /* most masked rows are masked as a whole */
            row[i] = last;
        for (bits = bits == w.valid ? 0 : bits; bits; bits &= bits - 1) {
            const unsigned i = fzm_ctz64(bits);
            row[i] = i ? row[i - 1] : last;
        }
        last = row[w.n - 1];
    }
    return n_good;
}

#undef T
#undef U
#undef W
#undef NAME
#undef HAVE_BITPACK
#undef HAVE_PLANES
#undef HAVE_SCAN
#undef HAVE_ROW_8
