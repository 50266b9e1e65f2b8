/* SPDX-License-Identifier: BSD-3-Clause */
/* Structure and shapes of graphs, and their bytes:
 *
 * Pipeline record (docs/format.md)
 *   varint n_nodes, 1..32; nodes in topological order, each:
 *     varint stage id << 3 | min(layout version - 1, 3) << 1 | (mask != 0) [| varint layout version - 4]
 *     [| varint mask | params | sources]
 *   mask bit 0: sources are listed, one byte for each input of the stage: 0 absent, 1 the chunk,
 *     else 2 + 4 * node + port with node before this one. Without it input 0 is port 0 of the node before
 *     (node 0: the chunk) and the other inputs are absent; a writer lists sources only if they differ.
 *   mask bit 1 + i: param i of the schema differs from its default and follows, in schema order:
 *     u32, bool, enum: varint; f64: u8 k, then the k most significant bytes of the IEEE double, low one
 *     first; the bytes below are 0 and k is the least that says so (0 for +0.0).
 * One graph has one record: a reader refuses every other spelling. */
#include "config.h"
#include "stages.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

/* No port of a chunk of 2^40 elements comes near this; hostile pipelines cannot overflow sizes. */
#define MAX_PORT_N_ELEMS (UINT64_C(1) << 48)

/* More than any header or cd_values form holds. */
enum { MAX_RECORD_NBYTES = 8192 };

void fzm_graph_label(const struct fzm_graph *graph, unsigned node, char label[FZM_LABEL_NBYTES])
{
    const struct fzm_node *const n = &graph->nodes[node];
    const char *const type = n->stage ? n->stage->name : "?";
    if (n->name[0])
        snprintf(label, FZM_LABEL_NBYTES, "stage %s (%s)", n->name, type);
    else
        snprintf(label, FZM_LABEL_NBYTES, "stages[%u] (%s)", node, type);
}

bool fzm_graph_is_lossy(const struct fzm_graph *graph)
{
    for (unsigned i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].stage->flags & FZM_STAGE_LOSSY)
            return true;
    return false;
}

int fzm_graph_unguarded(const struct fzm_graph *graph)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_stage *const stage = graph->nodes[i].stage;
        if (!(stage->flags & FZM_STAGE_LOSSY))
            continue;
        if (!(stage->flags & FZM_STAGE_BOUND_CHECKED) || graph->nodes[i].in[0].node != FZM_SOURCE_INPUT)
            return (int)i;
    }
    return -1;
}

/* Sources of one node: earlier ports, optional inputs may be absent, at least one is there. */
static int check_sources(const struct fzm_graph *graph, unsigned node, struct fzm_err *err)
{
    const struct fzm_node *const n = &graph->nodes[node];
    char label[FZM_LABEL_NBYTES];
    bool connected = false;
    fzm_graph_label(graph, node, label);
    for (unsigned j = 0; j < n->stage->n_in; j++) {
        const struct fzm_source s = n->in[j];
        const struct fzm_port *const port = &n->stage->in[j];
        if (s.node == FZM_SOURCE_ABSENT) {
            if (!(port->flags & FZM_PORT_OPTIONAL))
                return FZM_CONFIG_ERROR(err, "%s: input \"%s\" is not connected", label, port->name);
            continue;
        }
        if (s.node < FZM_SOURCE_INPUT || s.node >= (int)node)
            return FZM_CONFIG_ERROR(err, "%s: input \"%s\" comes from stage %d, which is not an earlier one",
                                    label, port->name, s.node);
        if (s.port >= (s.node < 0 ? 1 : graph->nodes[s.node].stage->n_out))
            return FZM_CONFIG_ERROR(err, "%s: input \"%s\" comes from port %u of %s, which has %u", label,
                                    port->name, s.port,
                                    s.node < 0 ? "@input" : graph->nodes[s.node].stage->name,
                                    s.node < 0 ? 1u : graph->nodes[s.node].stage->n_out);
        connected = true;
    }
    if (!connected)
        return FZM_CONFIG_ERROR(err, "%s: no input is connected", label);
    return 0;
}

/* A port that only hints read would never be rebuilt, and a stage that rebuilds nothing is dead weight. */
static int check_rebuilt(const struct fzm_graph *graph, unsigned node, struct fzm_err *err)
{
    const struct fzm_node *const n = &graph->nodes[node];
    char label[FZM_LABEL_NBYTES];
    bool rebuilds = false;
    fzm_graph_label(graph, node, label);
    for (unsigned j = 0; j < n->stage->n_in; j++) {
        const struct fzm_source s = n->in[j];
        if (s.node == FZM_SOURCE_ABSENT)
            continue;
        const int rebuilder = fzm_graph_rebuilder(graph, s.node, s.port);
        if (rebuilder < 0 && s.node >= 0)
            return FZM_CONFIG_ERROR(err,
                                    "%s: input \"%s\" is only a hint, so port \"%s\" of %s needs another "
                                    "stage that codes it, e.g. RZE",
                                    label, n->stage->in[j].name, graph->nodes[s.node].stage->out[s.port].name,
                                    graph->nodes[s.node].stage->name);
        rebuilds |= rebuilder == (int)node && !(n->stage->in[j].flags & FZM_PORT_HINT);
    }
    if (!rebuilds)
        return FZM_CONFIG_ERROR(err,
                                "%s: unused, for an earlier stage already rebuilds what it takes; "
                                "remove it or connect it elsewhere",
                                label);
    return 0;
}

static int check_guarantee(const struct fzm_graph *graph, struct fzm_err *err)
{
    const int node = fzm_graph_unguarded(graph);
    char label[FZM_LABEL_NBYTES];
    if (node < 0)
        return 0;
    fzm_graph_label(graph, (unsigned)node, label);
    const char *const why = graph->nodes[node].stage->flags & FZM_STAGE_BOUND_CHECKED
                                ? "bounds the error of its own input, which is not @input"
                                : "does not check the error of each element";
    return FZM_CONFIG_ERROR(err,
                            "%s %s: nothing guarantees the bound; state \"guarantee\": \"none\" to "
                            "use it all the same",
                            label, why);
}

int fzm_graph_check(const struct fzm_graph *graph, int no_guarantee, struct fzm_err *err)
{
    if (graph->n_nodes < 1 || graph->n_nodes > FZM_MAX_STAGES)
        return FZM_CONFIG_ERROR(err, "pipeline has %u stages, expected 1 to %d", graph->n_nodes,
                                FZM_MAX_STAGES);
    for (unsigned i = 0; i < graph->n_nodes; i++)
        FZM_TRY(check_sources(graph, i, err));
    if (fzm_graph_rebuilder(graph, FZM_SOURCE_INPUT, 0) < 0)
        return FZM_CONFIG_ERROR(err, "pipeline: no stage takes \"@input\"");
    unsigned n_stored = 0;
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        FZM_TRY(check_rebuilt(graph, i, err));
        for (unsigned j = 0; j < graph->nodes[i].stage->n_out; j++)
            n_stored += fzm_graph_rebuilder(graph, (int)i, (int)j) < 0;
    }
    if (n_stored > FZM_MAX_SECTIONS)
        return FZM_CONFIG_ERROR(err, "pipeline stores %u ports, at most %d are possible", n_stored,
                                FZM_MAX_SECTIONS);
    return no_guarantee ? 0 : check_guarantee(graph, err);
}

int fzm_graph_shapes(const struct fzm_graph *graph, const struct fzm_shape *input,
                     struct fzm_shape shapes[][FZM_MAX_PORTS], struct fzm_err *err)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_node *const n = &graph->nodes[i];
        struct fzm_shape in[FZM_MAX_PORTS];
        for (unsigned j = 0; j < n->stage->n_in; j++) {
            const struct fzm_source s = n->in[j];
            if (s.node == FZM_SOURCE_ABSENT)
                in[j] = fzm_shape_1d(FZM_BYTES, 0);
            else
                in[j] = s.node < 0 ? *input : shapes[s.node][s.port];
        }
        memset(shapes[i], 0, sizeof shapes[i]);
        const int code = n->stage->shape(n->params.bytes, in, shapes[i], err);
        if (code < 0)
            return fzm_err_set(err, code, "%s: does not take these inputs", n->stage->name);
        for (unsigned j = 0; j < n->stage->n_out; j++)
            if (shapes[i][j].n_elems > MAX_PORT_N_ELEMS)
                return fzm_err_set(err, FZM_ERR_UNSUPPORTED, "%s: port \"%s\" would be too large",
                                   n->stage->name, n->stage->out[j].name);
    }
    return 0;
}

/* ---- bytes ---- */

static uint64_t bits_of(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static bool is_written(const struct fzm_node *n, unsigned i, int with_runtime)
{
    const struct fzm_param *const p = &n->stage->params[i];
    if ((p->flags & FZM_PF_RUNTIME) && !with_runtime)
        return false;
    return bits_of(fzm_params_get(n->stage, n->params.bytes, i)) != bits_of(p->def);
}

static struct fzm_source default_source(unsigned node, unsigned input)
{
    struct fzm_source s = {FZM_SOURCE_ABSENT, 0};
    if (input == 0)
        s.node = (int8_t)((int)node - 1); /* -1 is the chunk */
    return s;
}

static void write_f64(struct fzm_writer *w, double v)
{
    uint64_t u = bits_of(v);
    unsigned k = u ? 8 : 0;
    for (; k > 0 && (u & 0xff) == 0; u >>= 8)
        k--;
    fzm_write_u8(w, (uint8_t)k);
    for (unsigned i = 0; i < k; i++)
        fzm_write_u8(w, (uint8_t)(u >> (8 * i)));
}

static double read_f64(struct fzm_reader *r)
{
    const unsigned k = fzm_read_u8(r);
    if (k > 8)
        r->bad = true;
    uint64_t u = 0;
    for (unsigned i = 0; i < k && !r->bad; i++)
        u |= (uint64_t)fzm_read_u8(r) << (8 * (8 - k + i));
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

void fzm_graph_write(const struct fzm_graph *graph, int with_runtime, struct fzm_writer *w)
{
    fzm_write_varint(w, graph->n_nodes);
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_node *const n = &graph->nodes[i];
        uint64_t mask = 0;
        for (unsigned j = 0; j < n->stage->n_in; j++) {
            const struct fzm_source d = default_source(i, j);
            if (n->in[j].node != d.node || (d.node >= 0 && n->in[j].port != d.port))
                mask = 1;
        }
        for (unsigned j = 0; j < n->stage->n_params; j++)
            if (is_written(n, j, with_runtime))
                mask |= UINT64_C(2) << j;
        const unsigned version = n->stage->version - 1u;
        fzm_write_varint(w, (uint64_t)n->stage->id << 3 | (version < 3 ? version : 3) << 1 | (mask != 0));
        if (version >= 3)
            fzm_write_varint(w, version - 3);
        if (mask)
            fzm_write_varint(w, mask);
        for (unsigned j = 0; j < n->stage->n_params; j++) {
            const double v = fzm_params_get(n->stage, n->params.bytes, j);
            if (!(mask >> j & 2))
                continue;
            if (n->stage->params[j].type == FZM_P_F64)
                write_f64(w, v);
            else
                fzm_write_varint(w, (uint32_t)v);
        }
        for (unsigned j = 0; j < n->stage->n_in && (mask & 1); j++) {
            const struct fzm_source s = n->in[j];
            fzm_write_u8(w, (uint8_t)(s.node == FZM_SOURCE_ABSENT ? 0
                                      : s.node < 0                ? 1
                                                                  : 2 + 4 * s.node + s.port));
        }
    }
}

static int read_stage(struct fzm_node *n, struct fzm_reader *r, bool *has_mask, struct fzm_err *err)
{
    const uint64_t head = fzm_read_varint(r), id = head >> 3, low = head >> 1 & 3;
    const uint64_t version = 1 + low + (low == 3 ? fzm_read_varint(r) : 0);
    *has_mask = head & 1;
    if (r->bad)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "pipeline record is cut or malformed");
    n->stage = id <= UINT16_MAX ? fzm_stage_by_id((unsigned)id) : NULL;
    if (!n->stage)
        return fzm_err_set(err, FZM_ERR_VERSION, "pipeline record: this version knows no stage with id %llu",
                           (unsigned long long)id);
    if (version > n->stage->version)
        return fzm_err_set(err, FZM_ERR_VERSION,
                           "%s: layout version %llu is newer than %u, the newest that this version reads",
                           n->stage->name, (unsigned long long)version, n->stage->version);
    if (version != n->stage->version)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "%s: there is no layout version %llu", n->stage->name,
                           (unsigned long long)version);
    return 0;
}

static int read_node(struct fzm_graph *graph, unsigned i, struct fzm_reader *r, struct fzm_err *err)
{
    struct fzm_node *const n = &graph->nodes[i];
    bool has_mask;
    FZM_TRY(read_stage(n, r, &has_mask, err));
    const struct fzm_stage *const stage = n->stage;
    const uint64_t mask = has_mask ? fzm_read_varint(r) : 0;
    if (!r->bad && mask >> 1 >> stage->n_params != 0)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "%s: record of params that it does not have", stage->name);
    fzm_params_init(stage, n->params.bytes);
    for (unsigned j = 0; j < stage->n_params; j++) {
        if (!(mask >> j & 2))
            continue;
        if (stage->params[j].type == FZM_P_F64) {
            fzm_params_set(stage, n->params.bytes, j, read_f64(r));
            continue;
        }
        const uint64_t v = fzm_read_varint(r);
        r->bad |= v > UINT32_MAX;
        fzm_params_set(stage, n->params.bytes, j, (double)(uint32_t)v);
    }
    for (unsigned j = 0; j < stage->n_in; j++) {
        n->in[j] = default_source(i, j);
        if (!(mask & 1))
            continue;
        const int b = fzm_read_u8(r);
        n->in[j].node = (int8_t)(b == 0 ? FZM_SOURCE_ABSENT : b == 1 ? FZM_SOURCE_INPUT : (b - 2) / 4);
        n->in[j].port = (uint8_t)(b < 2 ? 0 : (b - 2) % 4);
    }
    if (r->bad)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "%s: its record is cut or malformed", stage->name);
    return fzm_params_check(stage, n->params.bytes, err);
}

/* The bytes that were read must be the ones that the writer gives. */
static bool is_canonical(const struct fzm_graph *graph, const uint8_t *record, size_t nbytes)
{
    uint8_t again[MAX_RECORD_NBYTES];
    struct fzm_writer w = {again, again + sizeof again, false};
    fzm_graph_write(graph, 1, &w);
    return !w.bad && (size_t)(w.p - again) == nbytes && memcmp(again, record, nbytes) == 0;
}

static int read_nodes(struct fzm_graph *graph, struct fzm_reader *r, struct fzm_err *err)
{
    const uint8_t *const begin = r->p;
    const uint64_t n_nodes = fzm_read_varint(r);
    if (r->bad || n_nodes < 1 || n_nodes > FZM_MAX_STAGES)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "pipeline record: number of stages is cut or not 1 to %d",
                           FZM_MAX_STAGES);
    for (unsigned i = 0; i < n_nodes; i++) {
        graph->n_nodes = i + 1;
        FZM_TRY(read_node(graph, i, r, err));
    }
    FZM_TRY(fzm_graph_check(graph, 1, err));
    if (!is_canonical(graph, begin, (size_t)(r->p - begin)))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "pipeline record is not in its shortest form");
    return 0;
}

int fzm_graph_read(struct fzm_graph *graph, struct fzm_reader *r, struct fzm_err *err)
{
    struct fzm_err why = {0};
    memset(graph, 0, sizeof *graph);
    int code = read_nodes(graph, r, &why);
    if (code == FZM_ERR_CONFIG) /* from the checks that JSON pipelines share */
        code = FZM_ERR_CORRUPT;
    return code < 0 ? fzm_err_set(err, code, "%s", why.text) : 0;
}
