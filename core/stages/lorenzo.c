/* SPDX-License-Identifier: BSD-3-Clause */
/* Lorenzo over whole fields, or over restart blocks: wrap-around differences along the fastest one, two or
 * three axes, once or twice. Output: the residuals, of the input's width, at their elements' places. */
#include "lorenzo.h"

#include "../cpu/pool.h"
#include "../stage.h"

#include <stdatomic.h>
#include <string.h>

static const char *const geometry_names[] = {"auto", "1d", "2d", "3d", NULL};

/* Rows of one task are about this many bytes, so that they stay in cache between the axes. */
enum { TASK_NBYTES = 1 << 18 };

/* Rows are differenced in pieces of this many bytes: small against the L1 cache. */
enum { PIECE_NBYTES = 4096 };

struct pass {
    struct fzm_lorenzo_field f;
    size_t elem_nbytes;
    uint64_t block_x, block_y, block_z;
    const void *from;
    void *to;
    uint64_t n_rows, task_rows;
    unsigned axis; /* inverse by axes: 1 y, 2 z */
};

#define U uint8_t
#define NAME(x) x##_8
#include "lorenzo_kernel.h"
#define U uint16_t
#define NAME(x) x##_16
#include "lorenzo_kernel.h"
#define U uint32_t
#define NAME(x) x##_32
#include "lorenzo_kernel.h"
#define U uint64_t
#define NAME(x) x##_64
#include "lorenzo_kernel.h"

#define FOR_WIDTH(p, call_8, call_16, call_32, call_64) \
    switch ((p)->elem_nbytes) {                         \
    case 1: call_8; break;                              \
    case 2: call_16; break;                             \
    case 4: call_32; break;                             \
    default: call_64;                                   \
    }

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_lorenzo_params *const p = params;
    if (!fzm_dtype_is_int(in[0].dtype))
        return fzm_err_set(err, FZM_ERR_CONFIG, "Lorenzo: input 0 must be integers; quantise floats first, or use "
                           "AdaptiveLorenzo, which takes their bits");
    if (p->geometry > in[0].rank)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Lorenzo: geometry %s needs %u axes, the array has %u",
                           geometry_names[p->geometry], p->geometry, in[0].rank);
    out[0] = in[0];
    out[0].dtype = (uint8_t)fzm_dtype_to_signed(in[0].dtype);
    return 0;
}

static struct pass pass_of(const struct fzm_call *c, uint32_t geometry)
{
    const struct fzm_lorenzo_params *const p = c->params;
    struct pass s;
    memset(&s, 0, sizeof s);
    s.f = fzm_lorenzo_field_of(&c->in[0].shape, geometry);
    s.elem_nbytes = fzm_dtype_nbytes(c->in[0].shape.dtype);
    s.block_x = p->block ? p->block : s.f.dims[2] ? s.f.dims[2] : 1;
    s.block_y = p->block ? p->block : s.f.dims[1];
    s.block_z = p->block ? p->block : s.f.dims[0];
    s.n_rows = s.f.n_fields * s.f.dims[0] * s.f.dims[1];
    s.task_rows = TASK_NBYTES / (s.f.dims[2] * s.elem_nbytes + 1) + 1;
    return s;
}

/* 1-D: one row is cut at restart blocks, or into pieces, so that threads share it. */
static void cut_long_row(struct pass *s)
{
    const uint64_t n = s->f.dims[2], piece = 1 << 16;
    const uint64_t unit = s->block_x < n ? (piece / s->block_x + 1) * s->block_x : n;
    if (s->n_rows == 1 && unit < n && n % unit == 0) {
        s->n_rows = s->f.n_fields = n / unit;
        s->f.dims[2] = unit;
        s->task_rows = 1;
    }
}

static int resolve(void *params, const struct fzm_call *c)
{
    struct fzm_lorenzo_params *const p = params;
    const unsigned rank = c->in[0].shape.rank;
    if (p->geometry != 0)
        return 0;
    p->geometry = 1;
    if (c->in[0].shape.n_elems == 0 || rank < 2)
        return 0;
    struct pass s = pass_of(c, rank);
    uint64_t cost[4] = {0};
    const uint64_t n_samples = fzm_lorenzo_n_samples(s.n_rows);
    s.from = c->in[0].data;
    for (uint64_t k = 0; k < n_samples; k++) {
        const uint64_t row = fzm_lorenzo_sample_at(k, n_samples, s.n_rows);
        FOR_WIDTH(&s, row_cost_8(&s, row, cost), row_cost_16(&s, row, cost), row_cost_32(&s, row, cost),
                  row_cost_64(&s, row, cost))
    }
    p->geometry = fzm_lorenzo_choose(cost, rank);
    return 0;
}

static void diff_task(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct pass *const s = arg;
    const uint64_t first = (uint64_t)i * s->task_rows;
    const uint64_t end = first + s->task_rows < s->n_rows ? first + s->task_rows : s->n_rows;
    FOR_WIDTH(s, diff_rows_8(s, first, end), diff_rows_16(s, first, end), diff_rows_32(s, first, end),
              diff_rows_64(s, first, end))
}

static size_t in_nbytes_of(const struct fzm_call *c) { return fzm_shape_nbytes(&c->in[0].shape); }

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    const struct fzm_lorenzo_params *const p = params;
    (void)n_threads;
    return p->order == 2 ? fzm_shape_nbytes(&in[0]) : 0;
}

static int forward(struct fzm_call *c)
{
    const struct fzm_lorenzo_params *const p = c->params;
    struct pass s = pass_of(c, p->geometry);
    c->out[0].nbytes = in_nbytes_of(c);
    if (c->out[0].nbytes == 0)
        return 0;
    s.from = c->in[0].data;
    s.to = p->order == 2 ? c->scratch : c->out[0].data;
    const size_t n_tasks = (size_t)fzm_div_up(s.n_rows, s.task_rows);
    fzm_pool_run(c->pool, n_tasks, diff_task, &s);
    if (p->order == 2) {
        s.from = c->scratch;
        s.to = c->out[0].data;
        fzm_pool_run(c->pool, n_tasks, diff_task, &s);
    }
    return 0;
}

/* Rows of one field at a time, in place. */
static void sum_field_task(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct pass *const s = arg;
    const uint64_t rows = s->f.dims[0] * s->f.dims[1], first = (uint64_t)i * rows, end = first + rows;
    FOR_WIDTH(s, sum_rows_8(s, first, end), sum_rows_16(s, first, end), sum_rows_32(s, first, end),
              sum_rows_64(s, first, end))
}

/* One field, several threads: axis by axis. x: each row by itself. */
static void sum_x_task(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct pass *const s = arg;
    const uint64_t first = (uint64_t)i * s->task_rows;
    const uint64_t end = first + s->task_rows < s->n_rows ? first + s->task_rows : s->n_rows;
    const size_t nx = (size_t)s->f.dims[2];
    for (uint64_t row = first; row < end; row++) {
        uint8_t *const v = (uint8_t *)s->to + row * nx * s->elem_nbytes;
        FOR_WIDTH(s, sum_x_8(v, nx, s->block_x), sum_x_16(v, nx, s->block_x), sum_x_32(v, nx, s->block_x),
                  sum_x_64(v, nx, s->block_x))
    }
}

static void add_elems(const struct pass *s, uint64_t at, uint64_t before, size_t n)
{
    uint8_t *const v = s->to;
    uint8_t *const to = v + at * s->elem_nbytes;
    const uint8_t *const from = v + before * s->elem_nbytes;
    FOR_WIDTH(s, add_8(to, from, n), add_16(to, from, n), add_32(to, from, n), add_64(to, from, n))
}

/* y: a plane by itself. */
static void sum_y_task(void *arg, size_t plane, unsigned worker)
{
    (void)worker;
    const struct pass *const s = arg;
    const uint64_t nx = s->f.dims[2], ny = s->f.dims[1];
    for (uint64_t y = 1; y < ny; y++)
        if (y % s->block_y != 0) {
            const uint64_t row = (uint64_t)plane * ny + y;
            add_elems(s, row * nx, (row - 1) * nx, (size_t)nx);
        }
}

/* z: a strip of every plane of every field. */
static void sum_z_task(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct pass *const s = arg;
    const uint64_t plane = s->f.dims[1] * s->f.dims[2], strip = TASK_NBYTES / 64;
    const uint64_t first = (uint64_t)i * strip, n = plane - first < strip ? plane - first : strip;
    for (uint64_t z = 0; z < s->f.n_fields * s->f.dims[0]; z++)
        if (z % s->f.dims[0] % s->block_z != 0)
            add_elems(s, z * plane + first, (z - 1) * plane + first, (size_t)n);
}

static void inverse_pass(struct fzm_call *c, struct pass *s)
{
    const uint64_t plane = s->f.dims[1] * s->f.dims[2];
    if (s->f.n_fields >= 4 || fzm_pool_n_threads(c->pool) == 1) {
        fzm_pool_run(c->pool, (size_t)s->f.n_fields, sum_field_task, s);
        return;
    }
    fzm_pool_run(c->pool, (size_t)fzm_div_up(s->n_rows, s->task_rows), sum_x_task, s);
    if (s->f.dims[1] > 1)
        fzm_pool_run(c->pool, (size_t)(s->f.n_fields * s->f.dims[0]), sum_y_task, s);
    if (s->f.dims[0] > 1)
        fzm_pool_run(c->pool, (size_t)fzm_div_up(plane, TASK_NBYTES / 64), sum_z_task, s);
}

static int inverse(struct fzm_call *c)
{
    const struct fzm_lorenzo_params *const p = c->params;
    struct pass s;
    if (c->out[0].nbytes != in_nbytes_of(c) || p->geometry == 0)
        return c->out[0].nbytes == 0 && in_nbytes_of(c) == 0
                   ? 0
                   : fzm_err_set(c->err, FZM_ERR_CORRUPT, "Lorenzo: %zu bytes of residuals for an array of %zu",
                                 c->out[0].nbytes, in_nbytes_of(c));
    if (c->out[0].nbytes == 0)
        return 0;
    s = pass_of(c, p->geometry);
    memcpy(c->in[0].data, c->out[0].data, c->out[0].nbytes);
    s.to = c->in[0].data;
    cut_long_row(&s);
    for (uint32_t i = 0; i < p->order; i++)
        inverse_pass(c, &s);
    return 0;
}

static const struct fzm_port inputs[] = {{"input", "int", 0}};
static const struct fzm_port outputs[] = {{"output", "signed int", 0}};
static const struct fzm_param params[] = {
    {"geometry", "axes that are differenced; auto: the cheapest on a sample of rows", FZM_P_ENUM, 0,
     offsetof(struct fzm_lorenzo_params, geometry), 0, 3, 0, geometry_names},
    {"order", "how often each axis is differenced", FZM_P_U32, 0, offsetof(struct fzm_lorenzo_params, order), 1, 2, 1, NULL},
    {"block", "restart period along every differenced axis, in elements; 0: none", FZM_P_U32, 0,
     offsetof(struct fzm_lorenzo_params, block), 0, 1 << 20, 0, NULL},
};

const struct fzm_stage fzm_stage_lorenzo = {
    .name = "Lorenzo",
    .help = "differences of integers along one to three axes of the whole field",
    .reference = "Ibarria, Lindstrom, Rossignac, Szymczak: Out-of-core compression and decompression of large "
                 "n-dimensional scalar fields, 2003",
    .id = 3,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .n_params = 3,
    .params_nbytes = sizeof(struct fzm_lorenzo_params),
    .flags = FZM_STAGE_SIZE_PRESERVING,
    .in = inputs,
    .out = outputs,
    .params = params,
    .shape = shape,
    .scratch = scratch,
    .resolve = resolve,
    .forward = forward,
    .inverse = inverse,
};
