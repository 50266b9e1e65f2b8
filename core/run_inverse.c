/* SPDX-License-Identifier: BSD-3-Clause */
/* The inverse run of a graph: from the stored sections back to the input. */
#include "run.h"

/* Bytes of a node's input i in the inverse, checked against what its producer can have made. */
static int inverse_input_nbytes(struct fzm_run *r, unsigned node, unsigned i, const struct fzm_shape *source,
                                bool variable, size_t *nbytes)
{
    const struct fzm_stage *const stage = r->graph->nodes[node].stage;
    const size_t most = fzm_shape_nbytes(source);
    const struct fzm_call call = {.params = r->graph->nodes[node].params.bytes, .out = r->ports[node],
                                  .err = &r->ctx->err, .gpu = r->ctx->gpu};
    *nbytes = most;
    if (i == 0 && stage->inverse_nbytes)
        FZM_TRY(r->backend->inverse_nbytes(stage, &call, nbytes));
    else if (i == 0 && (stage->flags & FZM_STAGE_SIZE_PRESERVING))
        *nbytes = r->ports[node][0].nbytes;
    if (*nbytes > most || (!variable && *nbytes != most) || *nbytes % fzm_dtype_nbytes(source->dtype) != 0)
        return fzm_err_set(&r->ctx->err, FZM_ERR_CORRUPT, "%s: section decodes to %zu bytes, its port holds %s%zu",
                           stage->name, *nbytes, variable ? "up to " : "", most);
    return 0;
}

/* Allocates the inputs that this node rebuilds. Returns how many there are in *n_rebuilt. */
static int prepare_rebuilt(struct fzm_run *r, unsigned node, unsigned *n_rebuilt, unsigned skip_first)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    *n_rebuilt = 0;
    for (unsigned j = 0; j < n->stage->n_in; j++) {
        const struct fzm_source src = n->in[j];
        if (src.node == FZM_SOURCE_ABSENT || (n->stage->in[j].flags & FZM_PORT_HINT) ||
            fzm_graph_rebuilder(r->graph, src.node, src.port) != (int)node)
            continue;
        ++*n_rebuilt;
        if (src.node < 0 || (j == 0 && skip_first))
            continue;
        struct fzm_buf *const b = &r->ports[src.node][src.port];
        const bool variable = fzm_run_is_variable(r->graph, src);
        size_t nbytes;
        FZM_TRY(inverse_input_nbytes(r, node, j, &b->shape, variable, &nbytes));
        FZM_TRY(fzm_run_get(r, b, nbytes));
        r->backend->touch(r->ctx, b->data, nbytes);
        r->owned[src.node][src.port] = true;
        b->nbytes = nbytes;
        if (variable)
            b->shape = fzm_shape_1d(b->shape.dtype, nbytes / fzm_dtype_nbytes(b->shape.dtype));
    }
    return 0;
}

static void release_outputs(struct fzm_run *r, unsigned node)
{
    for (unsigned j = 0; j < r->graph->nodes[node].stage->n_out; j++)
        if (r->owned[node][j]) {
            r->backend->put(r->ctx, r->ports[node][j].data);
            r->owned[node][j] = false;
        }
}

static int inverse_chain(struct fzm_run *r, const struct fzm_fused *f, const unsigned *members, bool *ran)
{
    struct fzm_buf in[FZM_MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_shape shapes[FZM_MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_call calls[FZM_MAX_CHAIN];
    fzm_run_make_calls(r, members, f->n_stages, calls, in, shapes);
    *ran = f->accepts(calls);
    if (!*ran)
        return 0;
    struct fzm_buf scratch = {0};
    FZM_TRY(fzm_run_get(r, &scratch, f->scratch(calls, r->ctx->n_threads)));
    const int code = f->inverse(calls, scratch.data);
    fzm_run_put_scratch(r, &scratch);
    FZM_TRY(fzm_run_stage_error(r, members[0], code));
    for (unsigned k = 0; k < f->n_stages; k++)
        release_outputs(r, members[k]);
    return 0;
}

static int inverse_node(struct fzm_run *r, unsigned node)
{
    struct fzm_node *const n = &r->graph->nodes[node];
    unsigned n_rebuilt;
    FZM_TRY(prepare_rebuilt(r, node, &n_rebuilt, false));
    if (n_rebuilt > 0) {
        struct fzm_buf in[FZM_MAX_PORTS];
        struct fzm_shape shapes[FZM_MAX_PORTS];
        fzm_run_fill_inputs(r, node, in, shapes);
        struct fzm_buf scratch = {0};
        FZM_TRY(fzm_run_get(r, &scratch, r->backend->scratch(r->ctx, n->stage, n->params.bytes, shapes)));
        struct fzm_call call = {.params = n->params.bytes, .in = in, .out = r->ports[node], .scratch = scratch.data,
                                .pool = r->ctx->pool, .err = &r->ctx->err, .gpu = r->ctx->gpu};
        const int code = r->backend->inverse(n->stage, &call);
        fzm_run_put_scratch(r, &scratch);
        FZM_TRY(fzm_run_stage_error(r, node, code));
    }
    release_outputs(r, node);
    return 0;
}

/* Gives the stored ports their sections; a fixed port must have exactly its bytes. */
static int load_sections(struct fzm_run *r, const struct fzm_stream *s)
{
    for (unsigned i = 0; i < s->n_sections; i++) {
        const struct fzm_section *const section = &s->sections[i];
        const struct fzm_stage *const stage = s->graph.nodes[section->node].stage;
        struct fzm_buf *const b = &r->ports[section->node][section->port];
        const struct fzm_source port = {(int8_t)section->node, section->port};
        const bool variable = fzm_run_is_variable(&s->graph, port);
        if (!variable && section->nbytes != fzm_shape_nbytes(&b->shape))
            return fzm_err_set(&r->ctx->err, FZM_ERR_CORRUPT, "%s: section %s has %llu bytes instead of %zu", stage->name,
                               stage->out[section->port].name, (unsigned long long)section->nbytes,
                               fzm_shape_nbytes(&b->shape));
        b->data = (void *)(uintptr_t)section->data; /* inverse() reads its outputs only */
        b->nbytes = b->cap = section->nbytes;
        if (variable)
            b->shape = fzm_shape_1d(b->shape.dtype, section->nbytes / fzm_dtype_nbytes(b->shape.dtype));
    }
    return 0;
}

int fzm_run_inverse(fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s, void *out)
{
    struct fzm_run run, *const r = &run;
    struct fzm_shape shapes[FZM_MAX_STAGES][FZM_MAX_PORTS];
    fzm_run_init(r, ctx, backend, s);
    r->input.data = out;
    FZM_TRY(fzm_graph_shapes(&s->graph, &s->shape, shapes, &ctx->err));
    for (unsigned i = 0; i < s->graph.n_nodes; i++)
        for (unsigned j = 0; j < s->graph.nodes[i].stage->n_out; j++)
            r->ports[i][j].shape = shapes[i][j];
    FZM_TRY(load_sections(r, s));
    /* Last nodes first; a fused chain runs when its first node's turn comes, so that whatever rebuilds
     * its other ports has run before. */
    for (unsigned i = s->graph.n_nodes; i-- > 0;) {
        unsigned members[FZM_MAX_CHAIN];
        bool inside = false, ran = false;
        for (unsigned start = 0; start < i && !inside; start++) {
            const struct fzm_fused *const f = fzm_run_match_fused(r, start, members);
            for (unsigned k = 1; f && k < f->n_stages; k++)
                inside |= members[k] == i;
        }
        if (inside)
            continue;
        const struct fzm_fused *const f = fzm_run_match_fused(r, i, members);
        if (f) {
            FZM_TRY(inverse_chain(r, f, members, &ran));
            for (unsigned k = f->n_stages; !ran && k-- > 1;)
                FZM_TRY(inverse_node(r, members[k]));
        }
        if (!ran)
            FZM_TRY(inverse_node(r, i));
    }
    return backend->settle ? backend->settle(ctx) : 0;
}
