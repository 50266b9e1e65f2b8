/* SPDX-License-Identifier: BSD-3-Clause */
/* Difference: each element minus the one before it, wrapping; the first of each restart chunk stays. Output:
 * signed integers of the input's width (floats are taken as their bits), at their elements' places. */
#include "difference.h"

#include "../cpu/pool.h"
#include "../stage.h"

#include <string.h>

struct job {
    const uint8_t *from;
    uint8_t *to;
    uint64_t n_elems, chunk; /* chunk: n_elems if there are no restarts */
    size_t elem_nbytes;
    uint64_t *sums; /* inverse without restarts: sum of each piece, then the carry into it */
};

static uint64_t piece_end(const struct job *j, uint64_t first)
{
    return j->n_elems - first < FZM_DIFFERENCE_PIECE ? j->n_elems : first + FZM_DIFFERENCE_PIECE;
}

/* End of the restart chunk that an element is in. */
static uint64_t chunk_end(const struct job *j, uint64_t i)
{
    const uint64_t left = j->chunk - i % j->chunk;
    return j->n_elems - i < left ? j->n_elems : i + left;
}

#define DEFINE_WIDTH(W)                                                                              \
    static uint##W##_t load##W(const uint8_t *p, uint64_t i)                                         \
    {                                                                                                \
        uint##W##_t v;                                                                               \
        memcpy(&v, p + i * sizeof v, sizeof v);                                                      \
        return v;                                                                                    \
    }                                                                                                \
    /* [first, end) lies inside one restart chunk */                                                 \
    static void diff##W(const struct job *j, uint64_t first, uint64_t end)                           \
    {                                                                                                \
        uint##W##_t before = first % j->chunk ? load##W(j->from, first - 1) : 0;                     \
        for (uint64_t i = first; i < end; i++) {                                                     \
            const uint##W##_t x = load##W(j->from, i), v = (uint##W##_t)(x - before);                \
            before = x;                                                                              \
            memcpy(j->to + i * sizeof v, &v, sizeof v);                                              \
        }                                                                                            \
    }                                                                                                \
    static uint64_t total##W(const struct job *j, uint64_t first, uint64_t end)                      \
    {                                                                                                \
        uint##W##_t sum = 0;                                                                         \
        for (uint64_t i = first; i < end; i++)                                                       \
            sum = (uint##W##_t)(sum + load##W(j->from, i));                                          \
        return sum;                                                                                  \
    }                                                                                                \
    static void sum##W(const struct job *j, uint64_t first, uint64_t end, uint64_t carry)            \
    {                                                                                                \
        uint##W##_t sum = (uint##W##_t)carry;                                                        \
        for (uint64_t i = first; i < end; i++) {                                                     \
            sum = (uint##W##_t)(sum + load##W(j->from, i));                                          \
            memcpy(j->to + i * sizeof sum, &sum, sizeof sum);                                        \
        }                                                                                            \
    }

DEFINE_WIDTH(8)
DEFINE_WIDTH(16)
DEFINE_WIDTH(32)
DEFINE_WIDTH(64)

static void diff_piece(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct job *const j = arg;
    uint64_t first = (uint64_t)i * FZM_DIFFERENCE_PIECE;
    const uint64_t end = piece_end(j, first);
    while (first < end) {
        const uint64_t restart = chunk_end(j, first), stop = restart < end ? restart : end;
        switch (j->elem_nbytes) {
        case 1: diff8(j, first, stop); break;
        case 2: diff16(j, first, stop); break;
        case 4: diff32(j, first, stop); break;
        default: diff64(j, first, stop);
        }
        first = stop;
    }
}

static void total_piece(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct job *const j = arg;
    const uint64_t first = (uint64_t)i * FZM_DIFFERENCE_PIECE, end = piece_end(j, first);
    switch (j->elem_nbytes) {
    case 1: j->sums[i] = total8(j, first, end); break;
    case 2: j->sums[i] = total16(j, first, end); break;
    case 4: j->sums[i] = total32(j, first, end); break;
    default: j->sums[i] = total64(j, first, end);
    }
}

static void sum_range(const struct job *j, uint64_t first, uint64_t end, uint64_t carry)
{
    switch (j->elem_nbytes) {
    case 1: sum8(j, first, end, carry); break;
    case 2: sum16(j, first, end, carry); break;
    case 4: sum32(j, first, end, carry); break;
    default: sum64(j, first, end, carry);
    }
}

static void sum_piece(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct job *const j = arg;
    const uint64_t first = (uint64_t)i * FZM_DIFFERENCE_PIECE;
    sum_range(j, first, piece_end(j, first), j->sums[i]);
}

/* Whole restart chunks, at least a piece's worth. */
static void sum_chunks(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct job *const j = arg;
    const uint64_t per_task = fzm_div_up(FZM_DIFFERENCE_PIECE, j->chunk) * j->chunk;
    uint64_t first = (uint64_t)i * per_task;
    const uint64_t end = j->n_elems - first < per_task ? j->n_elems : first + per_task;
    for (; first < end; first = chunk_end(j, first))
        sum_range(j, first, chunk_end(j, first), 0);
}

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    (void)params;
    if (in[0].dtype >= FZM_BYTES)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Difference: input 0 must be integers or floats, not bytes");
    out[0] = in[0];
    out[0].dtype = (uint8_t)fzm_dtype_to_signed(in[0].dtype);
    return 0;
}

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    (void)params, (void)n_threads;
    return (size_t)(8 * fzm_div_up(in[0].n_elems, FZM_DIFFERENCE_PIECE));
}

static struct job job_of(const struct fzm_call *c, const struct fzm_buf *from, const struct fzm_buf *to)
{
    const struct fzm_difference_params *const p = c->params;
    const struct job j = {from->data, to->data, c->in[0].shape.n_elems,
                          p->chunk && p->chunk < c->in[0].shape.n_elems ? p->chunk : c->in[0].shape.n_elems,
                          fzm_dtype_nbytes(c->in[0].shape.dtype), c->scratch};
    return j;
}

static int forward(struct fzm_call *c)
{
    struct job j = job_of(c, &c->in[0], &c->out[0]);
    c->out[0].nbytes = c->in[0].nbytes;
    fzm_pool_run(c->pool, (size_t)fzm_div_up(j.n_elems, FZM_DIFFERENCE_PIECE), diff_piece, &j);
    return 0;
}

static int inverse(struct fzm_call *c)
{
    struct job j = job_of(c, &c->out[0], &c->in[0]);
    const size_t n_pieces = (size_t)fzm_div_up(j.n_elems, FZM_DIFFERENCE_PIECE);
    if (c->out[0].nbytes != c->in[0].nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Difference: %zu bytes for an array of %zu", c->out[0].nbytes,
                           c->in[0].nbytes);
    if (j.n_elems == 0)
        return 0;
    if (j.chunk < j.n_elems) {
        const uint64_t per_task = fzm_div_up(FZM_DIFFERENCE_PIECE, j.chunk) * j.chunk;
        fzm_pool_run(c->pool, (size_t)fzm_div_up(j.n_elems, per_task), sum_chunks, &j);
        return 0;
    }
    fzm_pool_run(c->pool, n_pieces, total_piece, &j);
    uint64_t carry = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        const uint64_t total = j.sums[i];
        j.sums[i] = carry;
        carry += total;
    }
    fzm_pool_run(c->pool, n_pieces, sum_piece, &j);
    return 0;
}

static const struct fzm_port inputs[] = {{"input", "int f32 f64", 0}};
static const struct fzm_port outputs[] = {{"output", "signed int", 0}};
static const struct fzm_param params[] = {
    {"chunk", "elements between restarts; 0: no restart", FZM_P_U32, 0, offsetof(struct fzm_difference_params, chunk), 0,
     4294967295.0, 0, NULL},
};

const struct fzm_stage fzm_stage_difference = {
    .name = "Difference",
    .help = "each element minus the one before it",
    .reference = "delta coding; LC framework, component DIFF (Texas State University)",
    .id = 2,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .n_params = 1,
    .params_nbytes = sizeof(struct fzm_difference_params),
    .flags = FZM_STAGE_SIZE_PRESERVING,
    .in = inputs,
    .out = outputs,
    .params = params,
    .shape = shape,
    .scratch = scratch,
    .forward = forward,
    .inverse = inverse,
};
