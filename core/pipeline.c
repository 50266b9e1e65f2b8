/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines as the public API has them, and their compiled words:
 *
 *   w[0]  0x465A0000 | version 1 << 8 | bytes unused at the end of the last word, 0..3
 *   w[1]  ... payload, four bytes a word, the first in the lowest bits; unused bytes are 0:
 *         u8 mode | 0x80 if "guarantee" is "none"; f64 bound, little-endian, unless the mode is lossless;
 *         pipeline record (graph.c) without runtime params */
#include "config.h"
#include "shape.h"
#include "stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_VERSION = 1, NO_GUARANTEE = 0x80, MAX_PAYLOAD_NBYTES = 8192, LOSSLESS_PRESET = 5 };
#define WORDS_TAG UINT32_C(0x465A0000)

static int copy_text(char *text, const struct fzm_err *err, int code)
{
    if (code < 0 && text)
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", err->code ? err->text : fzm_error_meaning(code));
    return code;
}

/* Hands out a new pipeline, or frees it after a failure. */
static int finish_new(fzm_pipeline **pipeline, fzm_pipeline *p, const struct fzm_err *err, int code,
                      char *text)
{
    if (code == 0)
        *pipeline = p;
    else
        free(p);
    return copy_text(text, err, code);
}

int fzm_pipeline_from_preset(fzm_pipeline **pipeline, int preset, int mode, double bound, char *text)
{
    struct fzm_err err = {0};
    fzm_pipeline *const p = calloc(1, sizeof *p);
    *pipeline = NULL;
    return finish_new(pipeline, p, &err, p ? fzm_preset_build(p, preset, mode, bound, &err) : FZM_ERR_MEMORY,
                      text);
}

int fzm_pipeline_from_json(fzm_pipeline **pipeline, const char *json, size_t json_nbytes, char *text)
{
    struct fzm_err err = {0};
    fzm_pipeline *const p = calloc(1, sizeof *p);
    *pipeline = NULL;
    return finish_new(pipeline, p, &err, p ? fzm_config_parse(p, json, json_nbytes, &err) : FZM_ERR_MEMORY,
                      text);
}

size_t fzm_pipeline_to_words(const fzm_pipeline *pipeline, uint32_t *words, size_t cap_words)
{
    uint8_t payload[MAX_PAYLOAD_NBYTES] = {0};
    struct fzm_writer w = {payload, payload + sizeof payload, false};
    uint64_t bound;
    memcpy(&bound, &pipeline->bound, sizeof bound);
    fzm_write_u8(&w, (uint8_t)(pipeline->mode | (pipeline->no_guarantee ? NO_GUARANTEE : 0)));
    if (pipeline->mode != FZM_LOSSLESS)
        fzm_write_le64(&w, bound);
    fzm_graph_write(&pipeline->graph, 0, &w);
    if (w.bad) /* no pipeline of FZM_MAX_STAGES stages is that long */
        return 0;
    const size_t nbytes = (size_t)(w.p - payload), n_words = 1 + (nbytes + 3) / 4;
    for (size_t i = 0; i < n_words && i < cap_words; i++)
        words[i] = i == 0 ? WORDS_TAG | WORDS_VERSION << 8 | (uint32_t)(4 * (n_words - 1) - nbytes)
                          : fzm_get_le32(payload + 4 * (i - 1));
    return n_words;
}

/* Compiled pipelines leave the bound to the pipeline and runtime params to the run. */
static int check_params_left_out(const struct fzm_graph *graph, struct fzm_err *err)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_node *const n = &graph->nodes[i];
        for (unsigned j = 0; j < n->stage->n_params; j++)
            if ((n->stage->params[j].flags & (FZM_PF_RUNTIME | FZM_PF_BOUND)) &&
                fzm_params_get(n->stage, n->params.bytes, j) != n->stage->params[j].def)
                return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline: %s has a value of %s",
                                   n->stage->name, n->stage->params[j].key);
    }
    return 0;
}

static int read_payload(fzm_pipeline *p, const uint8_t *payload, size_t nbytes, struct fzm_err *err)
{
    struct fzm_reader r = {payload, payload + nbytes, false};
    const unsigned head = fzm_read_u8(&r);
    p->preset = -1;
    p->mode = (int)(head & ~(unsigned)NO_GUARANTEE);
    p->no_guarantee = (head & NO_GUARANTEE) != 0;
    if (!fzm_mode_name(p->mode))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline: unknown bound mode %d", p->mode);
    if (p->mode != FZM_LOSSLESS) {
        const uint64_t bits = fzm_read_le64(&r);
        memcpy(&p->bound, &bits, sizeof p->bound);
    }
    if (r.bad)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline is cut");
    FZM_TRY(fzm_bound_check(p->mode, p->bound, err));
    if (signbit(p->bound))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline: bound of -0");
    FZM_TRY(fzm_graph_read(&p->graph, &r, err));
    if (r.p != r.end)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline has %zu bytes left over",
                           (size_t)(r.end - r.p));
    FZM_TRY(check_params_left_out(&p->graph, err));
    if (p->mode == FZM_LOSSLESS && fzm_graph_is_lossy(&p->graph))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline is lossy but has no bound");
    return fzm_graph_check(&p->graph, p->no_guarantee, err);
}

static int read_words(fzm_pipeline *p, const uint32_t *words, size_t n_words, struct fzm_err *err)
{
    uint8_t payload[MAX_PAYLOAD_NBYTES];
    if (n_words < 2 || (words[0] & UINT32_C(0xffff0000)) != WORDS_TAG)
        return fzm_err_set(err, FZM_ERR_CORRUPT,
                           "not a compiled pipeline: %zu words, expected 2 or more, the first "
                           "0x465A....",
                           n_words);
    const unsigned version = words[0] >> 8 & 0xff, unused = words[0] & 0xff;
    if (version > WORDS_VERSION)
        return fzm_err_set(err, FZM_ERR_VERSION,
                           "compiled pipeline of version %u; this version reads up to %d", version,
                           WORDS_VERSION);
    if (version != WORDS_VERSION || unused > 3 || n_words - 1 > sizeof payload / 4)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "compiled pipeline with first word 0x%08lX and %zu words",
                           (unsigned long)words[0], n_words);
    for (size_t i = 1; i < n_words; i++)
        fzm_put_le32(payload + 4 * (i - 1), words[i]);
    const size_t nbytes = 4 * (n_words - 1) - unused;
    for (unsigned i = 0; i < unused; i++)
        if (payload[nbytes + i] != 0)
            return fzm_err_set(err, FZM_ERR_CORRUPT,
                               "compiled pipeline: unused bytes of the last word are not 0");
    return read_payload(p, payload, nbytes, err);
}

int fzm_pipeline_from_words(fzm_pipeline **pipeline, const uint32_t *words, size_t n_words, char *text)
{
    struct fzm_err err = {0};
    fzm_pipeline *const p = calloc(1, sizeof *p);
    *pipeline = NULL;
    return finish_new(pipeline, p, &err, p ? read_words(p, words, n_words, &err) : FZM_ERR_MEMORY, text);
}

size_t fzm_pipeline_to_json(const fzm_pipeline *pipeline, char *json, size_t cap)
{
    return fzm_config_print(pipeline, json, cap);
}

int fzm_pipeline_mode(const fzm_pipeline *pipeline) { return pipeline->mode; }
double fzm_pipeline_bound(const fzm_pipeline *pipeline) { return pipeline->bound; }

void fzm_pipeline_free(fzm_pipeline **pipeline)
{
    free(*pipeline);
    *pipeline = NULL;
}

static int check_array(const fzm_pipeline *pipeline, const fzm_array *array, struct fzm_err *err)
{
    struct fzm_shape shape, shapes[FZM_MAX_STAGES][FZM_MAX_PORTS];
    struct fzm_pipeline p = *pipeline;
    FZM_TRY(fzm_shape_from_array(&shape, array, err));
    /* A bound of 0 asks for exact values: the run takes the lossless pipeline for that. */
    if (p.bound == 0 && fzm_graph_is_lossy(&p.graph))
        FZM_TRY(fzm_preset_build(&p, LOSSLESS_PRESET, FZM_LOSSLESS, 0, err));
    fzm_graph_inherit_bound(&p.graph, p.mode, p.bound);
    return fzm_graph_shapes(&p.graph, &shape, shapes, err);
}

int fzm_pipeline_check(const fzm_pipeline *pipeline, const fzm_array *array, char *text)
{
    struct fzm_err err = {0};
    return copy_text(text, &err, check_array(pipeline, array, &err));
}
