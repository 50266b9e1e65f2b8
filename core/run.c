/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a graph on an engine: nodes in order, chains fused where the engine can, every buffer of the exact
 * worst case and given back after its last use. Parts that run_forward.c and run_inverse.c share. */
#include "run.h"

#include <string.h>

struct fzm_buf *fzm_run_source(struct fzm_run *r, struct fzm_source s)
{
    if (s.node == FZM_SOURCE_ABSENT)
        return NULL;
    return s.node < 0 ? &r->input : &r->ports[s.node][s.port];
}

/* Whether the length of a port depends on the data: by itself, or because its stage's input does. */
bool fzm_run_is_variable(const struct fzm_graph *g, struct fzm_source s)
{
    for (; s.node >= 0; s = g->nodes[s.node].in[0])
        if (g->nodes[s.node].stage->out[s.port].flags & FZM_PORT_VARIABLE)
            return true;
    return false;
}

int fzm_run_stage_error(struct fzm_run *r, unsigned node, int code)
{
    if (code < 0 && r->ctx->err.code == 0)
        fzm_err_set(&r->ctx->err, code, "%s: %s", r->graph->nodes[node].stage->name, fzm_error_meaning(code));
    return code;
}

/* Whether inputs other than 0 of a chain's member are what the op knows. A mask from elsewhere, or none, would make
 * other predictions. */
static bool has_inputs(const struct fzm_graph *g, const struct fzm_fused *f, unsigned member, unsigned node,
                       unsigned before)
{
    for (unsigned j = 1; j < g->nodes[node].stage->n_in; j++) {
        const struct fzm_source s = g->nodes[node].in[j];
        const bool is_mask = j == 1 && f->mask_at > 0 && (unsigned)f->mask_at == member;
        if (is_mask ? s.node != (int)before || s.port != 1 : s.node != FZM_SOURCE_ABSENT)
            return false;
    }
    return true;
}

/* The fused op that covers the chain starting at a node: every member's output 0 feeds only the next
 * member's input 0, and all other inputs come from members or are absent. members[] gets the nodes. */
const struct fzm_fused *fzm_run_match_fused(const struct fzm_run *r, unsigned start, unsigned members[FZM_MAX_CHAIN])
{
    const struct fzm_graph *const g = r->graph;
    for (const struct fzm_fused *const *f = r->backend->fused; r->ctx->fusion && *f; f++) {
        unsigned node = start, n = 0;
        for (;;) {
            if (g->nodes[node].stage != (*f)->chain[n] || !has_inputs(g, *f, n, node, n ? members[n - 1] : node))
                break;
            members[n++] = node;
            if (n == (*f)->n_stages)
                return *f;
            unsigned n_consumers = 0, next = 0;
            for (unsigned i = 0; i < g->n_nodes; i++)
                for (unsigned j = 0; j < g->nodes[i].stage->n_in; j++)
                    if (g->nodes[i].in[j].node == (int)node && g->nodes[i].in[j].port == 0) {
                        n_consumers++;
                        next = j == 0 ? i : 0;
                    }
            if (n_consumers != 1 || next == 0)
                break;
            node = next;
        }
    }
    return NULL;
}

/* Input descriptors of a node; absent ones are empty byte arrays. */
void fzm_run_fill_inputs(struct fzm_run *r, unsigned node, struct fzm_buf *in, struct fzm_shape *shapes)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    for (unsigned j = 0; j < n->stage->n_in; j++) {
        const struct fzm_buf *const source = fzm_run_source(r, n->in[j]);
        memset(&in[j], 0, sizeof in[j]);
        in[j].shape = fzm_shape_1d(FZM_BYTES, 0);
        if (source)
            in[j] = *source;
        shapes[j] = in[j].shape;
    }
}

int fzm_run_get(struct fzm_run *r, struct fzm_buf *buf, size_t nbytes)
{
    buf->data = r->backend->get(r->ctx, nbytes);
    buf->cap = nbytes;
    if (!buf->data)
        return fzm_err_set(&r->ctx->err, FZM_ERR_MEMORY, "out of memory (%zu bytes of scratch)", nbytes);
    return 0;
}

void fzm_run_put_scratch(struct fzm_run *r, const struct fzm_buf *scratch)
{
    r->backend->touch(r->ctx, scratch->data, scratch->cap);
    r->backend->put(r->ctx, scratch->data);
}

/* Calls of a fused chain; in[] and out[] arrays are given by the caller. */
void fzm_run_make_calls(struct fzm_run *r, const unsigned *members, unsigned n, struct fzm_call *calls,
                       struct fzm_buf in[][FZM_MAX_PORTS], struct fzm_shape shapes[][FZM_MAX_PORTS])
{
    for (unsigned k = 0; k < n; k++) {
        fzm_run_fill_inputs(r, members[k], in[k], shapes[k]);
        const struct fzm_call call = {.params = r->graph->nodes[members[k]].params.bytes, .in = in[k], .out = r->ports[members[k]],
                                      .pool = r->ctx->pool, .err = &r->ctx->err, .fill = r->fill,
                                      .gpu = r->ctx->gpu};
        calls[k] = call;
    }
}

void fzm_run_init(struct fzm_run *r, fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s)
{
    memset(r, 0, sizeof *r);
    r->ctx = ctx;
    r->backend = backend;
    r->stream = s;
    r->graph = &s->graph;
    r->input.shape = s->shape;
    r->input.nbytes = r->input.cap = fzm_shape_nbytes(&s->shape);
    for (unsigned i = 0; i < s->graph.n_nodes; i++)
        for (unsigned j = 0; j < s->graph.nodes[i].stage->n_in; j++)
            if (s->graph.nodes[i].in[j].node >= 0)
                r->n_uses[s->graph.nodes[i].in[j].node][s->graph.nodes[i].in[j].port]++;
}
