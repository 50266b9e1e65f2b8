/* SPDX-License-Identifier: BSD-3-Clause */
/* BitLorenzo: masks of connected areas have long runs along every axis. Each bit is replaced by its
 * exclusive or with its predecessors along the axes of `axes` (Lorenzo prediction over GF(2)), which
 * leaves bits on the outline only; rows are then regrouped so that 8 bytes hold a cell of 8 x 8 bits, and
 * an outline touches few bytes for the zero elimination behind.
 *
 * Layout: empty for an empty mask. Else the bits of each row (LSB first, padded with zeros to a byte);
 * byte c of row r lies at (r / 8 * row_nbytes + c) * 8 + r % 8, rows of a batch and of planes counted
 * through, rows beyond the last are 0. A field of one row is stored row-major. */
#include "bit_lorenzo.h"

#include "../cpu/pool.h"
#include "../stage.h"

#include <string.h>

struct bit_lorenzo_params {
    uint32_t axes; /* index into axes_names: 0 is auto, else the set FZM_BIT_LORENZO_* + 1 */
};

static const char *const axes_names[] = {"auto", "none", "x", "y", "xy", "z", "xz", "yz", "xyz", NULL};

static unsigned axes_of(const struct bit_lorenzo_params *p) { return p->axes - 1; }

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    (void)params;
    if (in[0].dtype != FZM_BYTES && in[0].dtype != FZM_U8)
        return fzm_err_set(err, FZM_ERR_CONFIG, "BitLorenzo: input 0 must be a bit mask (bytes)");
    if (in[0].n_elems != 0 && in[0].n_elems != fzm_div_up(in[1].n_elems, 8))
        return fzm_err_set(err, FZM_ERR_CONFIG,
                           "BitLorenzo: a mask of %llu bytes does not belong to an array of %llu elements",
                           (unsigned long long)in[0].n_elems, (unsigned long long)in[1].n_elems);
    const struct fzm_bit_field f = fzm_bit_field_of(&in[1]);
    out[0] = fzm_shape_1d(FZM_BYTES, fzm_bit_field_nbytes(&f));
    return 0;
}

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    (void)params, (void)n_threads;
    const struct fzm_bit_field f = fzm_bit_field_of(&in[1]);
    return (size_t)(f.n_rows * f.row_nbytes);
}

struct job {
    struct fzm_bit_field f;
    unsigned axes;
    uint8_t *rows;          /* n_rows * row_nbytes */
    const uint8_t *mask_in; /* packed bits of the whole field */
    uint8_t *mask_out, *cells;
    const uint8_t *cells_in;
    uint64_t n_groups, n_sample_groups;
    _Atomic uint64_t n_nonzero[8];
};

/* Rows are handled in groups, multiples of 8 so that groups own their bytes of the packed mask and their
 * cells. */
enum { GROUP_ROWS = 64 };

static uint64_t group_end(const struct job *j, uint64_t first)
{
    return first + GROUP_ROWS < j->f.n_rows ? first + GROUP_ROWS : j->f.n_rows;
}

/* Bits [first, first + n_bits) of a packed string, to whole bytes with zero padding. */
static void extract_bits(uint8_t *to, const uint8_t *from, uint64_t first, uint64_t n_bits)
{
    const unsigned shift = (unsigned)(first % 8);
    const uint8_t *const p = from + first / 8;
    const uint64_t n_bytes = fzm_div_up(n_bits, 8);
    const uint64_t n_source = fzm_div_up(shift + n_bits, 8);
    for (uint64_t i = 0; i < n_bytes; i++)
        to[i] = (uint8_t)(p[i] >> shift | (shift && i + 1 < n_source ? p[i + 1] << (8 - shift) : 0));
    if (n_bits % 8)
        to[n_bytes - 1] &= (uint8_t)((1u << n_bits % 8) - 1);
}

static void unpack_group(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    struct job *const j = arg;
    for (uint64_t row = (uint64_t)i * GROUP_ROWS, end = group_end(j, row); row < end; row++)
        extract_bits(j->rows + row * j->f.row_nbytes, j->mask_in, row * j->f.n_x, j->f.n_x);
}

enum { STRIP_NBYTES = 256 };

static void xor_strip(uint8_t *to, const uint8_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] ^= from[i];
}

/* Residuals of n bytes of a row from column c on. Rows outside the plane or the field count as 0. */
static void residual_strip(const struct job *j, unsigned axes, uint64_t row, uint64_t c, unsigned n, uint8_t *to)
{
    const uint64_t w = j->f.row_nbytes, per_plane = j->f.n_rows_per_plane;
    const bool has_y = (axes & FZM_BIT_LORENZO_Y) && row % per_plane != 0;
    const bool has_z = (axes & FZM_BIT_LORENZO_Z) && row >= per_plane;
    uint8_t sum[STRIP_NBYTES + 1]; /* one byte before the strip, for the x axis */
    const unsigned before = c > 0;
    const uint8_t *const r = j->rows + row * w + c - before;
    sum[0] = 0;
    memcpy(sum + 1 - before, r, n + before);
    if (has_y)
        xor_strip(sum + 1 - before, r - w, n + before);
    if (has_z)
        xor_strip(sum + 1 - before, r - per_plane * w, n + before);
    if (has_y && has_z)
        xor_strip(sum + 1 - before, r - (per_plane + 1) * w, n + before);
    if (!(axes & FZM_BIT_LORENZO_X)) {
        memcpy(to, sum + 1, n);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        to[i] = (uint8_t)(sum[i + 1] ^ sum[i + 1] << 1 ^ sum[i] >> 7);
    if (c + n == w && j->f.n_x % 8)
        to[n - 1] &= (uint8_t)((1u << j->f.n_x % 8) - 1);
}

static unsigned strip_nbytes(const struct job *j, uint64_t c)
{
    return j->f.row_nbytes - c < STRIP_NBYTES ? (unsigned)(j->f.row_nbytes - c) : STRIP_NBYTES;
}

static void encode_group(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    struct job *const j = arg;
    uint8_t strip[STRIP_NBYTES];
    for (uint64_t row = (uint64_t)i * GROUP_ROWS, end = group_end(j, row); row < end; row++)
        for (uint64_t c = 0; c < j->f.row_nbytes; c += STRIP_NBYTES) {
            const unsigned n = strip_nbytes(j, c);
            residual_strip(j, j->axes, row, c, n, strip);
            for (unsigned k = 0; k < n; k++)
                j->cells[fzm_bit_field_place(&j->f, row, c + k)] = strip[k];
        }
}

/* At most this many groups are counted to choose the axes. */
enum { MAX_SAMPLE_GROUPS = 32 };

static void count_group(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    struct job *const j = arg;
    uint64_t n_nonzero[8] = {0};
    uint8_t strip[STRIP_NBYTES];
    const uint64_t group = i * j->n_groups / j->n_sample_groups;
    for (uint64_t row = group * GROUP_ROWS, end = group_end(j, row); row < end; row++)
        for (uint64_t c = 0; c < j->f.row_nbytes; c += STRIP_NBYTES)
            for (unsigned axes = 0; axes < 8; axes++) {
                const unsigned n = strip_nbytes(j, c);
                residual_strip(j, axes, row, c, n, strip);
                for (unsigned k = 0; k < n; k++)
                    n_nonzero[axes] += strip[k] != 0;
            }
    for (unsigned axes = 0; axes < 8; axes++)
        j->n_nonzero[axes] += n_nonzero[axes];
}

static struct job job_of(const struct fzm_call *c)
{
    struct job j = {.f = fzm_bit_field_of(&c->in[1].shape), .rows = c->scratch};
    j.n_groups = fzm_div_up(j.f.n_rows, GROUP_ROWS);
    j.n_sample_groups = j.n_groups < MAX_SAMPLE_GROUPS ? j.n_groups : MAX_SAMPLE_GROUPS;
    return j;
}

static int resolve(void *params, const struct fzm_call *c)
{
    struct bit_lorenzo_params *const p = params;
    struct job j = job_of(c);
    j.mask_in = c->in[0].data;
    if (c->in[0].nbytes == 0 || p->axes != 0)
        return 0;
    fzm_pool_run(c->pool, j.n_groups, unpack_group, &j);
    fzm_pool_run(c->pool, j.n_sample_groups, count_group, &j);
    unsigned best = 0;
    for (unsigned axes = 1; axes < 8; axes++)
        if (j.n_nonzero[axes] < j.n_nonzero[best])
            best = axes;
    p->axes = best + 1;
    return 0;
}

static int forward(struct fzm_call *c)
{
    const struct bit_lorenzo_params *const p = c->params;
    struct job j = job_of(c);
    j.mask_in = c->in[0].data;
    j.cells = c->out[0].data;
    c->out[0].nbytes = 0;
    if (c->in[0].nbytes == 0)
        return 0;
    j.axes = axes_of(p);
    c->out[0].nbytes = (size_t)fzm_bit_field_nbytes(&j.f);
    if (j.f.n_rows > 1)
        memset(j.cells + (j.f.n_rows - 1) / 8 * 8 * j.f.row_nbytes, 0, (size_t)(8 * j.f.row_nbytes));
    fzm_pool_run(c->pool, j.n_groups, unpack_group, &j);
    fzm_pool_run(c->pool, j.n_groups, encode_group, &j);
    return 0;
}

static int inverse_nbytes(const void *params, const struct fzm_buf *out, size_t *in_nbytes, struct fzm_err *err)
{
    (void)params, (void)err;
    /* An empty section is an empty mask; else the mask has the full extent, which the caller knows. */
    if (out[0].nbytes == 0)
        *in_nbytes = 0;
    return 0;
}

/* Cells back to rows, with the prediction along x undone. */
static void decode_group(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    struct job *const j = arg;
    for (uint64_t row = (uint64_t)i * GROUP_ROWS, end = group_end(j, row); row < end; row++) {
        uint8_t carry = 0;
        for (uint64_t c = 0; c < j->f.row_nbytes; c++) {
            uint8_t b = j->cells_in[fzm_bit_field_place(&j->f, row, c)];
            if (j->axes & FZM_BIT_LORENZO_X) {
                b = (uint8_t)(b ^ b << 1);
                b = (uint8_t)(b ^ b << 2);
                b = (uint8_t)(b ^ b << 4 ^ carry);
                carry = b & 0x80 ? 0xff : 0;
            }
            j->rows[row * j->f.row_nbytes + c] = b;
        }
    }
}

/* Undoes y and z: rows become sums of the rows before them. */
static void accumulate_rows(struct job *j)
{
    const uint64_t w = j->f.row_nbytes, per_plane = j->f.n_rows_per_plane;
    if (j->axes & FZM_BIT_LORENZO_Y)
        for (uint64_t row = 0; row < j->f.n_rows; row++)
            for (uint64_t c = 0; row % per_plane != 0 && c < w; c++)
                j->rows[row * w + c] ^= j->rows[(row - 1) * w + c];
    if (j->axes & FZM_BIT_LORENZO_Z)
        for (uint64_t i = per_plane * w; i < j->f.n_rows * w; i++)
            j->rows[i] ^= j->rows[i - per_plane * w];
}

/* Packs rows; a group of rows begins at a whole byte of the mask because GROUP_ROWS is a multiple of 8. */
static void pack_group(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    struct job *const j = arg;
    const uint64_t first = (uint64_t)i * GROUP_ROWS, end = group_end(j, first);
    uint8_t *const to = j->mask_out;
    const uint64_t first_bit = first * j->f.n_x, end_bit = end * j->f.n_x;
    memset(to + first_bit / 8, 0, (size_t)(fzm_div_up(end_bit, 8) - first_bit / 8));
    for (uint64_t row = first; row < end; row++) {
        const uint8_t *const r = j->rows + row * j->f.row_nbytes;
        const uint64_t at = row * j->f.n_x;
        const unsigned shift = (unsigned)(at % 8);
        for (uint64_t c = 0; c < j->f.row_nbytes; c++) {
            const unsigned n_left = j->f.n_x - 8 * c < 8 ? (unsigned)(j->f.n_x - 8 * c) : 8;
            const unsigned bits = (r[c] & ((1u << n_left) - 1)) << shift;
            to[at / 8 + c] |= (uint8_t)bits;
            if (bits >> 8)
                to[at / 8 + c + 1] |= (uint8_t)(bits >> 8);
        }
    }
}

static int inverse(struct fzm_call *c)
{
    const struct bit_lorenzo_params *const p = c->params;
    struct job j = job_of(c);
    j.cells_in = c->out[0].data;
    j.mask_out = c->in[0].data;
    if (c->in[0].nbytes == 0 && c->out[0].nbytes == 0)
        return 0;
    if (p->axes == 0 || c->out[0].nbytes != fzm_bit_field_nbytes(&j.f) || c->in[0].nbytes != fzm_div_up(j.f.n_bits, 8))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "BitLorenzo: section has %zu bytes, its array needs %llu",
                           c->out[0].nbytes, (unsigned long long)fzm_bit_field_nbytes(&j.f));
    j.axes = axes_of(p);
    fzm_pool_run(c->pool, j.n_groups, decode_group, &j);
    accumulate_rows(&j);
    fzm_pool_run(c->pool, j.n_groups, pack_group, &j);
    return 0;
}

static const struct fzm_port inputs[] = {
    {"mask", "bytes", 0},
    {"extents", "any", FZM_PORT_HINT},
};
static const struct fzm_port outputs[] = {{"output", "bytes", FZM_PORT_VARIABLE}};
static const struct fzm_param params[] = {
    {"axes", "axes along which bits are predicted", FZM_P_ENUM, 0, offsetof(struct bit_lorenzo_params, axes), 0, 8, 0,
     axes_names},
};

const struct fzm_stage fzm_stage_bit_lorenzo = {
    .name = "BitLorenzo",
    .help = "predicts the bits of a mask by exclusive or along the axes of its array, in cells of 8 x 8",
    .reference = "Lorenzo predictor (Ibarria et al., Out-of-core compression and decompression of large "
                 "n-dimensional scalar fields, 2003) over GF(2)",
    .id = 12,
    .version = 1,
    .n_in = 2,
    .n_out = 1,
    .n_params = 1,
    .params_nbytes = sizeof(struct bit_lorenzo_params),
    .in = inputs,
    .out = outputs,
    .params = params,
    .shape = shape,
    .scratch = scratch,
    .resolve = resolve,
    .inverse_nbytes = inverse_nbytes,
    .forward = forward,
    .inverse = inverse,
};
