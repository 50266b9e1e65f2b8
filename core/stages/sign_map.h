/* SPDX-License-Identifier: BSD-3-Clause */
/* The stage around a pair of scalar maps iN <-> uN: included by zigzag.c and negabinary.c, which define
 *   ENCODE(W), DECODE(W) the functions, ROW the row's symbol, and NAME, HELP, REFERENCE, ID. */
#include "../cpu/pool.h"
#include "../stage.h"
#include "zigzag.h"

#include <string.h>

enum { PIECE_NBYTES = 1 << 16 };

struct job {
    const uint8_t *from;
    uint8_t *to;
    size_t nbytes, elem_nbytes;
    bool decode;
};

/* Elements may have any alignment, so they are moved by memcpy; compilers vectorise these loops. */
#define MAP_LOOP(W, function)                         \
    for (size_t i = 0; i < n; i += sizeof(uint##W##_t)) { \
        uint##W##_t v;                                \
        memcpy(&v, from + i, sizeof v);               \
        v = function(v);                              \
        memcpy(to + i, &v, sizeof v);                 \
    }

static void map_piece(void *arg, size_t piece, unsigned worker)
{
    (void)worker;
    const struct job *const j = arg;
    const size_t at = piece * PIECE_NBYTES, left = j->nbytes - at, n = left < PIECE_NBYTES ? left : PIECE_NBYTES;
    const uint8_t *const from = j->from + at;
    uint8_t *const to = j->to + at;
    switch (j->elem_nbytes) {
    case 1:
        if (j->decode)
            MAP_LOOP(8, DECODE(8))
        else
            MAP_LOOP(8, ENCODE(8))
        break;
    case 2:
        if (j->decode)
            MAP_LOOP(16, DECODE(16))
        else
            MAP_LOOP(16, ENCODE(16))
        break;
    case 4:
        if (j->decode)
            MAP_LOOP(32, DECODE(32))
        else
            MAP_LOOP(32, ENCODE(32))
        break;
    default:
        if (j->decode)
            MAP_LOOP(64, DECODE(64))
        else
            MAP_LOOP(64, ENCODE(64))
    }
}

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    (void)params;
    if (!fzm_dtype_is_signed(in[0].dtype))
        return fzm_err_set(err, FZM_ERR_CONFIG, NAME ": input 0 must be signed integers");
    out[0] = in[0];
    out[0].dtype = (uint8_t)fzm_dtype_to_unsigned(in[0].dtype);
    return 0;
}

static void run(struct fzm_call *c, const struct fzm_buf *from, struct fzm_buf *to, bool decode)
{
    struct job j = {from->data, to->data, from->nbytes, fzm_dtype_nbytes(c->in[0].shape.dtype), decode};
    to->nbytes = from->nbytes;
    fzm_pool_run(c->pool, (from->nbytes + PIECE_NBYTES - 1) / PIECE_NBYTES, map_piece, &j);
}

static int forward(struct fzm_call *c)
{
    run(c, &c->in[0], &c->out[0], false);
    return 0;
}

static int inverse(struct fzm_call *c)
{
    if (c->out[0].nbytes != c->in[0].nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, NAME ": %zu bytes for an array of %zu", c->out[0].nbytes,
                           c->in[0].nbytes);
    run(c, &c->out[0], &c->in[0], true);
    return 0;
}

static const struct fzm_port inputs[] = {{"input", "signed int", 0}};
static const struct fzm_port outputs[] = {{"output", "unsigned int", 0}};

const struct fzm_stage ROW = {
    .name = NAME,
    .help = HELP,
    .reference = REFERENCE,
    .id = ID,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .flags = FZM_STAGE_SIZE_PRESERVING,
    .in = inputs,
    .out = outputs,
    .shape = shape,
    .forward = forward,
    .inverse = inverse,
};
