/* SPDX-License-Identifier: BSD-3-Clause */
/* One trial of one stage: forward and inverse of one input in every variant (instruction set, threads),
 * compared, then damaged. Included by check_stages.c only. */
#ifndef FZM_STAGE_TRIAL_H
#define FZM_STAGE_TRIAL_H

#include "../tools/cmd.h"
#include "check.h"
#include "cpu/isa.h"
#include "cpu/pool.h"
#include "graph.h"
#include "patterns.h"
#include "stages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY_NBYTES = 64, CANARY = 0xa5, JUNK = 0x5c, N_HOSTILE = 6 };

/* One way to run a stage; the first is the reference. */
static const struct variant {
    const char *name;
    enum fzm_isa isa;
    unsigned n_threads;
} variants[] = {
    {"c, 1 thread", FZM_ISA_C, 1},
    {"c, 2 threads", FZM_ISA_C, 2},
    {"avx2, 2 threads", FZM_ISA_AVX2, 2},
    {"avx512, 1 thread", FZM_ISA_AVX512, 1},
    {"avx512, 2 threads", FZM_ISA_AVX512, 2},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static struct fzm_pool *pools[3]; /* by number of threads */
/* What a stage is given. */
struct trial {
    const struct fzm_stage *stage;
    uint64_t params[FZM_MAX_PARAMS_NBYTES / 8]; /* as configured */
    struct fzm_buf in[FZM_MAX_PORTS];           /* data: exact blocks of memory */
    struct fzm_shape shapes[FZM_MAX_PORTS];
    int pattern;
    unsigned scheme;
    bool hinted; /* a hint input is there */
    const void *fill;
};

/* What came out of forward(). */
struct encoded {
    uint64_t params[FZM_MAX_PARAMS_NBYTES / 8]; /* resolved */
    uint8_t *data[FZM_MAX_PORTS];
    struct fzm_buf out[FZM_MAX_PORTS]; /* shape and nbytes; data as above */
};

static const char *trial_name(const struct trial *t, const char *variant)
{
    static char text[256];
    snprintf(text, sizeof text, "%s %s %" PRIu64 "x%" PRIu64 "x%" PRIu64 "x%" PRIu64 "%s %s, params %u, %s",
             t->stage->name,
             fzm_dtype_name(t->shapes[0].dtype) ? fzm_dtype_name(t->shapes[0].dtype) : "bytes",
             t->shapes[0].dims[0], t->shapes[0].dims[1], t->shapes[0].dims[2], t->shapes[0].dims[3],
             t->hinted ? " hinted" : "", pattern_name(t->pattern), t->scheme, variant);
    return text;
}

/* A block with a canary behind it. */
static uint8_t *block_new(size_t nbytes, int junk)
{
    uint8_t *const block = aligned_alloc(64, (nbytes + CANARY_NBYTES + 63) / 64 * 64);
    if (!block)
        abort();
    memset(block, junk, nbytes);
    memset(block + nbytes, CANARY, CANARY_NBYTES);
    return block;
}

/* Scratch with a canary behind it; one block serves all calls: what one leaves is junk for the next. */
static uint8_t *scratch_get(size_t nbytes)
{
    static uint8_t *block;
    static size_t cap;
    if (!block || nbytes > cap) {
        free(block);
        cap = nbytes + nbytes / 2;
        block = block_new(cap, JUNK);
    }
    memset(block + nbytes, CANARY, CANARY_NBYTES);
    return block;
}

static bool block_intact(const uint8_t *block, size_t nbytes)
{
    for (size_t i = 0; i < CANARY_NBYTES; i++)
        if (block[nbytes + i] != CANARY)
            return false;
    return true;
}

static size_t scratch_nbytes(const struct trial *t, const void *params, unsigned n_threads)
{
    return t->stage->scratch ? t->stage->scratch(params, t->shapes, n_threads) : 0;
}

static void encoded_free(struct encoded *e)
{
    for (unsigned i = 0; i < FZM_MAX_PORTS; i++)
        free(e->data[i]);
    memset(e, 0, sizeof *e);
}

/* Runs resolve() and forward(). Returns 0; 1 if the stage asks for exact coding instead; negative: failed. */
static int encode(const struct trial *t, const struct variant *v, struct encoded *e)
{
    const struct fzm_stage *const s = t->stage;
    struct fzm_err err = {0};
    struct fzm_shape shapes[FZM_MAX_PORTS];
    size_t bound[FZM_MAX_PORTS] = {0};
    memset(e, 0, sizeof *e);
    memset(shapes, 0, sizeof shapes);
    memcpy(e->params, t->params, sizeof e->params);
    fzm_isa_set_limit(v->isa);

    struct fzm_buf in[FZM_MAX_PORTS];
    memcpy(in, t->in, sizeof in);
    struct fzm_call call = {.params = e->params, .in = in, .out = e->out, .pool = pools[v->n_threads], .err = &err,
                            .fill = t->fill};
    size_t scratch_size = scratch_nbytes(t, e->params, v->n_threads);
    uint8_t *scratch = scratch_get(scratch_size);
    call.scratch = scratch;
    int code = s->resolve ? s->resolve(e->params, &call) : 0;
    if (code == 0)
        code = s->shape(e->params, t->shapes, shapes, &err);
    CHECK(block_intact(scratch, scratch_size), "%s: resolve writes behind its scratch",
          trial_name(t, v->name));
    if (code != 0)
        return code;
    for (unsigned i = 0; i < s->n_out; i++)
        bound[i] = fzm_shape_nbytes(&shapes[i]);
    if (s->bound)
        s->bound(e->params, t->shapes, bound);
    for (unsigned i = 0; i < s->n_out; i++) {
        e->data[i] = block_new(bound[i], JUNK);
        e->out[i].data = e->data[i];
        e->out[i].cap = bound[i];
        e->out[i].shape = shapes[i];
    }
    scratch_size = scratch_nbytes(t, e->params, v->n_threads);
    scratch = scratch_get(scratch_size);
    call.scratch = scratch;
    code = s->forward(&call);
    CHECK(block_intact(scratch, scratch_size), "%s: forward writes behind its scratch",
          trial_name(t, v->name));
    /* a param may promise what the data does not keep (Bitpack's nbits): an error that says so */
    CHECK(code == 0 || (code == FZM_ERR_CONFIG && t->scheme > 0 && err.text[0]), "%s: forward fails: %s",
          trial_name(t, v->name), err.text);
    for (unsigned i = 0; i < s->n_out && code == 0; i++) {
        const bool variable = s->out[i].flags & FZM_PORT_VARIABLE;
        const char *const port = s->out[i].name;
        CHECK(block_intact(e->data[i], bound[i]), "%s: port %s is written behind its bound of %zu",
              trial_name(t, v->name), port, bound[i]);
        CHECK(variable ? e->out[i].nbytes <= bound[i] : e->out[i].nbytes == fzm_shape_nbytes(&shapes[i]),
              "%s: port %s has %zu bytes, bound %zu, shape %zu", trial_name(t, v->name), port,
              e->out[i].nbytes, bound[i], fzm_shape_nbytes(&shapes[i]));
        e->out[i].shape =
            variable ? fzm_shape_1d(shapes[i].dtype, e->out[i].nbytes / fzm_dtype_nbytes(shapes[i].dtype))
                     : shapes[i];
    }
    return code;
}

/* Runs inverse() on sections (exact blocks, so that a sanitizer sees any read outside). Returns its code;
 * restored[i] are new blocks for the inputs that it rebuilds. */
static int decode(const struct trial *t, const struct variant *v, const struct encoded *e,
                  struct fzm_buf *sections, bool hostile, uint8_t **restored)
{
    const struct fzm_stage *const s = t->stage;
    struct fzm_err err = {0};
    struct fzm_buf in[FZM_MAX_PORTS];
    memset(in, 0, sizeof in);
    fzm_isa_set_limit(v->isa);
    for (unsigned i = 0; i < s->n_in; i++) {
        in[i].shape = t->shapes[i]; /* of hints too, though their data is not there */
        if ((s->in[i].flags & FZM_PORT_HINT) || !t->in[i].data)
            continue;
        size_t nbytes = fzm_shape_nbytes(&t->shapes[i]);
        if (i == 0 && s->inverse_nbytes) {
            size_t told = nbytes;
            const int code = s->inverse_nbytes(e->params, sections, &told, &err);
            if (hostile && (code < 0 || told > nbytes)) /* the runner refuses these */
                return FZM_ERR_CORRUPT;
            CHECK(hostile || (code == 0 && told == nbytes), "%s: inverse_nbytes says %zu instead of %zu",
                  trial_name(t, v->name), told, nbytes);
            if (hostile && told % fzm_dtype_nbytes(in[i].shape.dtype) == 0 && told < nbytes) {
                nbytes = told;
                in[i].shape = fzm_shape_1d(in[i].shape.dtype, told / fzm_dtype_nbytes(in[i].shape.dtype));
            }
        }
        restored[i] = block_new(nbytes, JUNK);
        in[i].data = restored[i];
        in[i].nbytes = in[i].cap = nbytes;
    }
    const size_t scratch_size = scratch_nbytes(t, e->params, v->n_threads);
    uint8_t *const scratch = scratch_get(scratch_size);
    struct fzm_call call = {.params = e->params, .in = in, .out = sections, .scratch = scratch,
                            .pool = pools[v->n_threads], .err = &err};
    const int code = s->inverse(&call);
    CHECK(block_intact(scratch, scratch_size), "%s: inverse writes behind its scratch",
          trial_name(t, v->name));
    for (unsigned i = 0; i < s->n_in; i++)
        if (restored[i])
            CHECK(block_intact(restored[i], in[i].nbytes), "%s: inverse writes behind input %u",
                  trial_name(t, v->name), i);
    CHECK(hostile || code == 0, "%s: inverse fails: %s", trial_name(t, v->name), err.text);
    return code;
}

/* Copies of the sections at an odd address, as they lie in a stream. */
static void copy_sections(const struct trial *t, const struct encoded *e, struct fzm_buf *sections,
                          uint8_t **blocks, size_t shift)
{
    for (unsigned i = 0; i < t->stage->n_out; i++) {
        blocks[i] = malloc(e->out[i].nbytes + shift + (e->out[i].nbytes + shift == 0));
        if (!blocks[i])
            abort();
        if (e->out[i].nbytes)
            memcpy(blocks[i] + shift, e->data[i], e->out[i].nbytes);
        sections[i] = e->out[i];
        sections[i].data = blocks[i] + shift;
        sections[i].cap = e->out[i].nbytes;
    }
}

static void free_blocks(uint8_t **blocks)
{
    for (unsigned i = 0; i < FZM_MAX_PORTS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* The stage's own bound as the pipeline would set it: the params flagged FZM_PF_BOUND. */
static struct cmd_bound bound_of(const struct trial *t)
{
    struct cmd_bound bound = {0};
    for (unsigned i = 0; i < t->stage->n_params; i++)
        if (t->stage->params[i].flags & FZM_PF_BOUND) {
            const double v = fzm_params_get(t->stage, t->params, i);
            if (t->stage->params[i].type == FZM_P_F64)
                bound.value = v;
            else
                bound.mode = (int)v;
        }
    return bound;
}

static bool is_masked(const struct trial *t, size_t i)
{
    for (unsigned k = 1; k < t->stage->n_in; k++)
        if (t->stage->in[k].flags & FZM_PORT_HINT && t->stage->in[k].flags & FZM_PORT_OPTIONAL &&
            t->in[k].data)
            return ((const uint8_t *)t->in[k].data)[i / 8] >> (i % 8) & 1;
    return false;
}

static void check_restored(const struct trial *t, const struct variant *v, uint8_t *const *restored)
{
    const struct fzm_stage *const s = t->stage;
    const size_t nbytes = t->in[0].nbytes, elem_nbytes = fzm_dtype_nbytes(t->shapes[0].dtype);
    const uint8_t *const original = t->in[0].data;
    if (s->flags & FZM_STAGE_LOSSY) {
        const struct cmd_bound bound = bound_of(t);
        struct cmd_difference d;
        cmd_compare_arrays(original, restored[0], t->shapes[0].dtype, nbytes / elem_nbytes, t->fill, &bound,
                           &d);
        CHECK(d.n_violations == 0, "%s: %s %g: %" PRIu64 " violations, worst error %.9g, %.9g of the bound",
              trial_name(t, v->name), fzm_mode_name(bound.mode), bound.value, d.n_violations, d.max_abs_error,
              d.error_over_bound);
        return;
    }
    size_t n_wrong = 0, first = 0;
    if (memcmp(original, restored[0], nbytes) != 0)
        for (size_t i = nbytes / elem_nbytes; i-- > 0;)
            if (memcmp(original + i * elem_nbytes, restored[0] + i * elem_nbytes, elem_nbytes) != 0 &&
                !is_masked(t, i)) {
                n_wrong++;
                first = i;
            }
    CHECK(n_wrong == 0, "%s: %zu elements are not restored, first %zu", trial_name(t, v->name), n_wrong,
          first);
    for (unsigned k = 1; k < s->n_in; k++)
        if (restored[k])
            CHECK(memcmp(t->in[k].data, restored[k], t->in[k].nbytes) == 0, "%s: input %u is not restored",
                  trial_name(t, v->name), k);
}

static void check_equal(const struct trial *t, const struct variant *v, const struct encoded *want,
                        const struct encoded *got)
{
    CHECK(memcmp(want->params, got->params, t->stage->params_nbytes) == 0, "%s: resolve settles other params",
          trial_name(t, v->name));
    for (unsigned i = 0; i < t->stage->n_out; i++)
        CHECK(want->out[i].nbytes == got->out[i].nbytes &&
                  memcmp(want->data[i], got->data[i], want->out[i].nbytes) == 0,
              "%s: other bytes at port %s than the plain C version (%zu, %zu)", trial_name(t, v->name),
              t->stage->out[i].name, got->out[i].nbytes, want->out[i].nbytes);
}

/* Damages copies of the sections in several ways; nothing may be read or written outside. */
static void check_hostile(const struct trial *t, const struct encoded *e)
{
    for (unsigned k = 0; k < N_HOSTILE; k++) {
        struct fzm_buf sections[FZM_MAX_PORTS];
        uint8_t *blocks[FZM_MAX_PORTS] = {0}, *restored[FZM_MAX_PORTS] = {0};
        memset(sections, 0, sizeof sections);
        copy_sections(t, e, sections, blocks, 0);
        const unsigned port = (unsigned)(check_random() % t->stage->n_out);
        struct fzm_buf *const b = &sections[port];
        uint8_t *const bytes = b->data;
        const size_t nbytes = b->nbytes;
        if (k % 3 == 0 && (t->stage->out[port].flags & FZM_PORT_VARIABLE)) { /* cut */
            const size_t elem = fzm_dtype_nbytes(b->shape.dtype);
            const size_t keep = nbytes ? (size_t)(check_random() % nbytes) / elem * elem : 0;
            uint8_t *const cut = malloc(keep + (keep == 0));
            if (!cut)
                abort();
            memcpy(cut, bytes, keep);
            free(blocks[port]);
            blocks[port] = cut;
            b->data = cut;
            b->nbytes = b->cap = keep;
            b->shape = fzm_shape_1d(b->shape.dtype, keep / elem);
        } else if (nbytes) {
            const unsigned n_flips = k % 3 == 1 ? 1 : 40;
            const size_t reach = k < 3 && nbytes > 64 ? 64 : nbytes; /* heads and tables matter most */
            for (unsigned i = 0; i < n_flips; i++)
                bytes[check_random() % reach] ^= (uint8_t)(1u << (check_random() % 8));
        }
        decode(t, &variants[k % N_VARIANTS], e, sections, true, restored);
        free_blocks(blocks);
        free_blocks(restored);
    }
}

static void run_trial(const struct trial *t)
{
    struct encoded reference, other;
    uint8_t *copies[FZM_MAX_PORTS] = {0};
    for (unsigned i = 0; i < t->stage->n_in; i++) {
        copies[i] = malloc(t->in[i].nbytes + 1);
        if (copies[i] && t->in[i].nbytes)
            memcpy(copies[i], t->in[i].data, t->in[i].nbytes);
    }
    const int code = encode(t, &variants[0], &reference);
    CHECK(code >= 0 || code == FZM_ERR_CONFIG, "%s: refused after shape() took it",
          trial_name(t, variants[0].name));
    for (unsigned k = 1; k < N_VARIANTS; k++) {
        const int other_code = encode(t, &variants[k], &other);
        CHECK(other_code == code, "%s: result %d instead of %d", trial_name(t, variants[k].name), other_code,
              code);
        if (code == 0 && other_code == 0)
            check_equal(t, &variants[k], &reference, &other);
        encoded_free(&other);
    }
    for (unsigned i = 0; i < t->stage->n_in; i++)
        CHECK(t->in[i].nbytes == 0 || memcmp(copies[i], t->in[i].data, t->in[i].nbytes) == 0,
              "%s: forward changes input %u", trial_name(t, ""), i);
    for (unsigned k = 0; k < N_VARIANTS && code == 0; k++) {
        struct fzm_buf sections[FZM_MAX_PORTS];
        uint8_t *blocks[FZM_MAX_PORTS] = {0}, *restored[FZM_MAX_PORTS] = {0};
        memset(sections, 0, sizeof sections);
        copy_sections(t, &reference, sections, blocks, k % 2);
        if (decode(t, &variants[k], &reference, sections, false, restored) == 0)
            check_restored(t, &variants[k], restored);
        free_blocks(blocks);
        free_blocks(restored);
    }
    if (code == 0)
        check_hostile(t, &reference);
    free_blocks(copies);
    encoded_free(&reference);
}

#endif
