/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitshuffle. The input is cut into blocks; a block of n elements of W bits is stored as its W bit planes, the
 * most significant first, n / 8 bytes each: bit j % 8 (LSB first) of byte j / 8 is that bit of element j. The
 * last block may be shorter: its elements beyond a multiple of 8 follow the planes as they are, and so do, at
 * the very end, bytes of the input beyond a whole element. */
#include "bitshuffle.h"

#include "../cpu/pool.h"
#include "../cpu/shuffle.h"
#include "../stage.h"

#include <string.h>

enum { AUTO_BLOCK_ELEMS = 4096 };

static const char *const width_names[] = {"auto", "1", "2", "4", "8", NULL};

static size_t elem_nbytes_of(const struct fzm_bitshuffle_params *p, int dtype)
{
    return p->element_nbytes ? (size_t)1 << (p->element_nbytes - 1) : fzm_dtype_nbytes(dtype);
}

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_bitshuffle_params *const p = params;
    const size_t elem_nbytes = elem_nbytes_of(p, in[0].dtype);
    if (p->block_size % (8 * elem_nbytes) != 0)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Bitshuffle: block_size %u is not a multiple of 8 elements of %zu bytes",
                           p->block_size, elem_nbytes);
    const uint64_t nbytes = fzm_shape_nbytes(&in[0]);
    static const int dtypes[] = {FZM_U8, FZM_U16, FZM_U32, FZM_U64};
    /* bytes beyond a whole element: only bytes can describe the output */
    out[0] = nbytes % elem_nbytes ? fzm_shape_1d(FZM_BYTES, nbytes)
                                  : fzm_shape_1d(dtypes[fzm_shuffle_index(elem_nbytes)], nbytes / elem_nbytes);
    return 0;
}

struct job {
    const struct fzm_shuffle_kernels *kernels;
    const uint8_t *from;
    uint8_t *to;
    size_t nbytes, block_nbytes, elem_nbytes;
    bool join;
};

static void run_block(void *arg, size_t i, unsigned worker)
{
    (void)worker;
    const struct job *const j = arg;
    const size_t at = i * j->block_nbytes, left = j->nbytes - at;
    const size_t nbytes = left < j->block_nbytes ? left : j->block_nbytes;
    const size_t n = nbytes / j->elem_nbytes / 8 * 8, done = n * j->elem_nbytes;
    const unsigned k = fzm_shuffle_index(j->elem_nbytes);
    if (n && j->join)
        j->kernels->join[k](j->from + at, n, 0, j->to + at);
    else if (n)
        j->kernels->split[k](j->from + at, n, 0, j->to + at);
    memcpy(j->to + at + done, j->from + at + done, nbytes - done);
}

static void run(struct fzm_call *c, const struct fzm_buf *from, struct fzm_buf *to, bool join)
{
    const struct fzm_bitshuffle_params *const p = c->params;
    struct job j = {fzm_shuffle_kernels_get(), from->data, to->data, from->nbytes, p->block_size,
                    elem_nbytes_of(p, c->in[0].shape.dtype), join};
    if (j.block_nbytes == 0)
        j.block_nbytes = AUTO_BLOCK_ELEMS * j.elem_nbytes;
    to->nbytes = from->nbytes;
    fzm_pool_run(c->pool, (j.nbytes + j.block_nbytes - 1) / j.block_nbytes, run_block, &j);
}

static int forward(struct fzm_call *c)
{
    run(c, &c->in[0], &c->out[0], false);
    return 0;
}

static int inverse(struct fzm_call *c)
{
    if (c->out[0].nbytes != c->in[0].nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitshuffle: %zu bytes for an array of %zu", c->out[0].nbytes,
                           c->in[0].nbytes);
    run(c, &c->out[0], &c->in[0], true);
    return 0;
}

static const struct fzm_port inputs[] = {{"input", "any", 0}};
static const struct fzm_port outputs[] = {{"output", "unsigned int", 0}};
static const struct fzm_param params[] = {
    {"element_nbytes", "bytes of an element; auto: of the input's type", FZM_P_ENUM, 0,
     offsetof(struct fzm_bitshuffle_params, element_nbytes), 0, 4, 0, width_names},
    {"block_size", "bytes of a block, a multiple of 8 elements; 0: 4096 elements", FZM_P_U32, 0,
     offsetof(struct fzm_bitshuffle_params, block_size), 0, 1 << 20, 0, NULL},
};

const struct fzm_stage fzm_stage_bitshuffle = {
    .name = "Bitshuffle",
    .help = "bit planes of blocks of elements, most significant first",
    .reference = "K. Masui et al., A compression scheme for radio data in high performance computing, 2015",
    .id = 7,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .n_params = 2,
    .params_nbytes = sizeof(struct fzm_bitshuffle_params),
    .flags = FZM_STAGE_SIZE_PRESERVING,
    .in = inputs,
    .out = outputs,
    .params = params,
    .shape = shape,
    .forward = forward,
    .inverse = inverse,
};
