/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines to JSON, one stage a line, with no more than it takes to read the same pipeline back. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text that is counted in full and written as far as it fits. */
struct out {
    char *text;
    size_t cap, n;
};

static void put(struct out *o, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

static void put(struct out *o, const char *format, ...)
{
    va_list args;
    const size_t left = o->n < o->cap ? o->cap - o->n : 0;
    va_start(args, format);
    const int n = vsnprintf(left ? o->text + o->n : NULL, left, format, args);
    va_end(args);
    o->n += n > 0 ? (size_t)n : 0;
}

static bool has_name(const struct fzm_graph *graph, const char *name)
{
    for (unsigned i = 0; i < graph->n_nodes; i++)
        if (strcmp(graph->nodes[i].name, name) == 0)
            return true;
    return false;
}

static bool is_default_input(const struct fzm_node *n, unsigned node, unsigned j)
{
    if (j > 0)
        return n->in[j].node == FZM_SOURCE_ABSENT;
    return n->in[0].node == (int)node - 1 && (node == 0 || n->in[0].port == 0);
}

static bool has_default_inputs(const struct fzm_node *n, unsigned node)
{
    bool all = true;
    for (unsigned j = 0; j < n->stage->n_in; j++)
        all &= is_default_input(n, node, j);
    return all;
}

/* Gives names to the stages that others refer to: those read from a stream or from words have none. */
static void invent_names(struct fzm_graph *graph)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_node *const n = &graph->nodes[i];
        if (has_default_inputs(n, i))
            continue;
        for (unsigned j = 0; j < n->stage->n_in; j++) {
            if (n->in[j].node < 0)
                continue;
            struct fzm_node *const from = &graph->nodes[n->in[j].node];
            char name[sizeof from->name];
            for (unsigned k = (unsigned)n->in[j].node; !from->name[0]; k += FZM_MAX_STAGES) {
                snprintf(name, sizeof name, "s%u", k);
                if (!has_name(graph, name))
                    memcpy(from->name, name, sizeof name);
            }
        }
    }
}

static void put_inputs(struct out *o, const struct fzm_graph *graph, const struct fzm_node *n)
{
    unsigned n_in = n->stage->n_in;
    while (n_in > 1 && n->in[n_in - 1].node == FZM_SOURCE_ABSENT)
        n_in--;
    put(o, ", \"inputs\": [");
    for (unsigned j = 0; j < n_in; j++) {
        const struct fzm_source s = n->in[j];
        put(o, "%s", j ? ", " : "");
        if (s.node == FZM_SOURCE_ABSENT)
            put(o, "null");
        else if (s.node < 0)
            put(o, "\"@input\"");
        else
            put(o, "\"%s.%s\"", graph->nodes[s.node].name, graph->nodes[s.node].stage->out[s.port].name);
    }
    put(o, "]");
}

static void put_param(struct out *o, const struct fzm_node *n, unsigned i)
{
    const struct fzm_param *const p = &n->stage->params[i];
    const double v = fzm_params_get(n->stage, n->params.bytes, i);
    char text[FZM_DOUBLE_TEXT_NBYTES];
    /* A stage's bound is the pipeline's, which stands at the top. */
    if ((p->flags & (FZM_PF_RUNTIME | FZM_PF_BOUND)) || v == p->def)
        return;
    put(o, ", \"%s\": ", p->key);
    switch (p->type) {
    case FZM_P_ENUM: {
        const char *const word = p->names[(unsigned)v];
        const bool is_number = word[strspn(word, "0123456789")] == 0;
        put(o, is_number ? "%s" : "\"%s\"", word);
        break;
    }
    case FZM_P_BOOL: put(o, "%s", v != 0 ? "true" : "false"); break;
    case FZM_P_U32: put(o, "%lu", (unsigned long)v); break;
    default: fzm_print_double(text, v); put(o, "%s", text);
    }
}

static void put_pipeline(struct out *o, const struct fzm_pipeline *pipeline, const struct fzm_graph *graph)
{
    char text[FZM_DOUBLE_TEXT_NBYTES];
    put(o, "{\n  \"fzm\": 1,\n");
    if (pipeline->mode != FZM_LOSSLESS) {
        fzm_print_double(text, pipeline->bound);
        put(o, "  \"bound\": {\"mode\": \"%s\", \"value\": %s},\n", fzm_mode_name(pipeline->mode), text);
    }
    if (pipeline->no_guarantee || fzm_graph_unguarded(graph) >= 0)
        put(o, "  \"guarantee\": \"none\",\n");
    put(o, "  \"stages\": [\n");
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_node *const n = &graph->nodes[i];
        put(o, "    {");
        if (n->name[0])
            put(o, "\"name\": \"%s\", ", n->name);
        put(o, "\"type\": \"%s\"", n->stage->name);
        if (!has_default_inputs(n, i))
            put_inputs(o, graph, n);
        for (unsigned j = 0; j < n->stage->n_params; j++)
            put_param(o, n, j);
        put(o, "}%s\n", i + 1 < graph->n_nodes ? "," : "");
    }
    put(o, "  ]\n}\n");
}

size_t fzm_config_print(const struct fzm_pipeline *pipeline, char *json, size_t cap)
{
    struct out o = {json, cap, 0};
    struct fzm_c_locale c_locale;
    struct fzm_graph graph = pipeline->graph;
    if (cap)
        json[0] = 0;
    invent_names(&graph);
    fzm_c_locale_enter(&c_locale);
    put_pipeline(&o, pipeline, &graph);
    fzm_c_locale_leave(&c_locale);
    return o.n;
}
