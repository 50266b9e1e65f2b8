/* SPDX-License-Identifier: BSD-3-Clause */
/* Every stage with every kind of parameter value on the GPU, in pipelines made from the stages' tables. Included by
 * check_gpu.c only. */
#ifndef FZM_CHECK_GPU_STAGES_H
#define FZM_CHECK_GPU_STAGES_H

#include "check.h"
#include "check_gpu.h"
#include "graph.h"
#include "stages.h"

#include <math.h>

enum { MAX_VALUES = 32, N_RANDOM_SETS = 4, N_CHUNKS = 4, MAX_JSON_NBYTES = 4096 };

/* Where the stage under test stands. A coder follows it, as only streams shorter than the chunk keep their stages. */
enum place {
    ON_INPUT,
    ON_CODES,
    ON_CODES_AND_MASK,
    ON_MASK,
    ON_MASK_AND_INPUT,
    ON_PLANES,
    ON_DIFFERENCES,
    N_PLACES
};

static void set_source(struct fzm_graph *g, unsigned node, unsigned j, int from, unsigned port)
{
    g->nodes[node].in[j].node = (int8_t)from;
    g->nodes[node].in[j].port = (uint8_t)port;
}

/* Appends a stage on a port of an earlier node; its other inputs are absent. Returns its number. */
static unsigned append(struct fzm_graph *g, const char *name, int from, unsigned port)
{
    const unsigned node = g->n_nodes++;
    struct fzm_node *const n = &g->nodes[node];
    n->stage = fzm_stage_by_name(name);
    fzm_params_init(n->stage, n->params.bytes);
    for (unsigned j = 0; j < FZM_MAX_PORTS; j++)
        set_source(g, node, j, FZM_SOURCE_ABSENT, 0);
    set_source(g, node, 0, from, port);
    return node;
}

/* The stage at a place; returns its number, or -1 if it has too few inputs for it. */
static int put_stage(struct fzm_graph *g, const struct fzm_stage *stage, enum place place)
{
    unsigned node;
    if (stage->n_in < 2 && (place == ON_CODES_AND_MASK || place == ON_MASK_AND_INPUT))
        return -1;
    if (place == ON_INPUT) {
        node = append(g, stage->name, FZM_SOURCE_INPUT, 0);
    } else if (place == ON_PLANES || place == ON_DIFFERENCES) {
        append(g, place == ON_PLANES ? "Bitshuffle" : "Difference", FZM_SOURCE_INPUT, 0);
        node = append(g, stage->name, 0, 0);
    } else if (place == ON_CODES || place == ON_CODES_AND_MASK) {
        append(g, "Quantizer", FZM_SOURCE_INPUT, 0);
        node = append(g, stage->name, 0, 0);
        if (place == ON_CODES_AND_MASK)
            set_source(g, node, 1, 0, 1);
    } else {
        append(g, "Quantizer", FZM_SOURCE_INPUT, 0);
        append(g, "Difference", 0, 0);
        append(g, "AdaptiveBitpack", 1, 0);
        node = append(g, stage->name, 0, 1);
        if (place == ON_MASK_AND_INPUT)
            set_source(g, node, 1, FZM_SOURCE_INPUT, 0);
    }
    append(g, "RZE", (int)node, 0);
    return (int)node;
}

/* Values of a param that are worth a try; those that a stage refuses are left out later. */
static unsigned list_values(const struct fzm_param *p, double values[MAX_VALUES])
{
    static const double words[] = {1,  2,   7,   8,    16,   24,   31,   32,   40,
                                   64, 100, 512, 1000, 1024, 4096, 8192, 32768};
    static const double reals[] = {0, 1e-3, 1, 100, 1e30};
    unsigned n = 0;
    if (p->flags & (FZM_PF_RUNTIME | FZM_PF_BOUND))
        return 0;
    if (p->type == FZM_P_ENUM) {
        for (; p->names[n] && n < MAX_VALUES; n++)
            values[n] = n;
        return n;
    }
    if (p->type == FZM_P_BOOL) {
        values[0] = 0, values[1] = 1;
        return 2;
    }
    const bool is_real = p->type == FZM_P_F64;
    const unsigned n_listed = is_real ? sizeof reals / sizeof reals[0] : sizeof words / sizeof words[0];
    values[n++] = p->min;
    values[n++] = p->max;
    for (unsigned i = 0; i < n_listed; i++) {
        const double v = is_real ? reals[i] : words[i];
        if (v > p->min && v < p->max)
            values[n++] = v;
    }
    return n;
}

/* Sets number k of param values: the defaults, then each param alone, then random mixtures. False after the last. */
static bool set_params(struct fzm_node *n, unsigned k)
{
    const struct fzm_stage *const stage = n->stage;
    double values[MAX_VALUES];
    fzm_params_init(stage, n->params.bytes);
    if (k-- == 0)
        return true;
    for (unsigned i = 0; i < stage->n_params; i++) {
        const unsigned n_values = list_values(&stage->params[i], values);
        if (k < n_values) {
            fzm_params_set(stage, n->params.bytes, i, values[k]);
            return true;
        }
        k -= n_values;
    }
    check_reseed(k);
    for (unsigned i = 0; i < stage->n_params; i++) {
        const unsigned n_values = list_values(&stage->params[i], values);
        if (n_values)
            fzm_params_set(stage, n->params.bytes, i, values[check_random_below(n_values)]);
    }
    return stage->n_params > 1 && k < N_RANDOM_SETS;
}

/* Whether the stream is one of the pipeline, not of the lossless one and not stored. */
static bool is_coded(const struct gpu_chunk *c, const char *stage_name, bool is_lossy)
{
    static char json[2 * MAX_JSON_NBYTES];
    fzm_stream_info info;
    char want[64];
    snprintf(want, sizeof want, "\"%s\"", stage_name);
    return fzm_stream_read_info(c->stream, c->stream_nbytes, &info, json, sizeof json, NULL) == 0 &&
           !info.stored && strstr(json, want) && (!is_lossy || strstr(json, "\"Quantizer\""));
}

static const struct fzm_shape stage_shapes[] = {
    {FZM_F32, 1, {1, 1, 1, 1}, 1},         {FZM_F32, 1, {1, 1, 1, 33}, 33},
    {FZM_F32, 1, {1, 1, 1, 4097}, 4097},   {FZM_F32, 3, {1, 33, 20, 65}, 42900},
    {FZM_F32, 2, {1, 1, 65, 257}, 16705},  {FZM_F32, 1, {1, 1, 1, 70001}, 70001},
    {FZM_F32, 3, {2, 17, 18, 33}, 20196},  {FZM_F32, 2, {1, 1, 300, 3}, 900},
    {FZM_F32, 3, {1, 5, 9, 17}, 765},      {FZM_F32, 3, {7, 1, 3, 100}, 2100},
    {FZM_F32, 2, {1, 1, 128, 256}, 32768}, {FZM_F32, 3, {1, 32, 32, 64}, 65536},
};
enum { N_STAGE_SHAPES = sizeof stage_shapes / sizeof stage_shapes[0] };

/* Counts what a set of params of a stage has come to. */
struct stage_count {
    unsigned salt, n_compared, n_coded;
};

static void check_stage_dtype(struct gpu_check *g, const fzm_pipeline *p, const char *stage_name,
                              const char *json, int dtype, struct stage_count *count)
{
    char text[FZM_ERROR_TEXT_NBYTES];
    for (int i = 0; i < (g->is_quick ? 1 : N_CHUNKS); i++) {
        const unsigned salt = count->salt++;
        struct gpu_chunk c;
        struct fzm_shape shape = stage_shapes[salt % N_STAGE_SHAPES];
        shape.dtype = dtype;
        gpu_chunk_new(&c, &shape, (int)(salt / N_STAGE_SHAPES + 3 * salt) % N_PATTERNS, salt);
        if (fzm_pipeline_check(p, &c.array, text) == 0 &&
            gpu_compare(g, salt % 2 ? g->gpu : g->poisoned, p, &c, json)) {
            count->n_compared++;
            count->n_coded += is_coded(&c, stage_name, fzm_pipeline_mode(p) != FZM_LOSSLESS);
        }
        gpu_chunk_free(&c);
    }
}

/* One stage with one set of params at one place. */
static void check_stage_at(struct gpu_check *g, const struct fzm_pipeline *made, const char *stage_name,
                           struct stage_count *count)
{
    char json[MAX_JSON_NBYTES], text[FZM_ERROR_TEXT_NBYTES];
    fzm_pipeline *p = NULL;
    const size_t n = fzm_pipeline_to_json(made, json, sizeof json);
    if (n < sizeof json && fzm_pipeline_from_json(&p, json, n, text) == 0)
        for (int dtype = 0; dtype < FZM_BYTES; dtype++)
            if (!g->is_quick || dtype == FZM_F32 || dtype == FZM_I32)
                check_stage_dtype(g, p, stage_name, json, dtype, count);
    fzm_pipeline_free(&p);
}

static void check_stage(struct gpu_check *g, const struct fzm_stage *stage)
{
    static const struct {
        int mode;
        double bound;
    } bounds_of_places[] = {{FZM_ABS, 2}, {FZM_RANGE, 0.01}, {FZM_REL, 0.02}, {FZM_MAXABS, 0.02}};
    static struct fzm_pipeline p;
    for (unsigned k = 0;; k++) {
        struct stage_count count = {k, 0, 0};
        bool is_set = false;
        for (int place = 0; place < N_PLACES; place++) {
            memset(&p, 0, sizeof p);
            const int node = put_stage(&p.graph, stage, (enum place)place);
            if (node < 0)
                continue;
            is_set = set_params(&p.graph.nodes[node], k);
            const bool is_lossy = p.graph.nodes[0].stage->flags & FZM_STAGE_LOSSY;
            p.mode = is_lossy ? bounds_of_places[(k + (unsigned)place) % 4].mode : FZM_LOSSLESS;
            p.bound = is_lossy ? bounds_of_places[(k + (unsigned)place) % 4].bound : 0;
            p.preset = -1;
            if (is_set && fzm_params_check(stage, p.graph.nodes[node].params.bytes, NULL) == 0)
                check_stage_at(g, &p, stage->name, &count);
        }
        if (!is_set)
            break;
        if (count.n_compared && !g->is_quick)
            CHECK(count.n_coded > 0, "%s, params %u: not in any of %u streams", stage->name, k,
                  count.n_compared);
    }
}

#endif
