/* SPDX-License-Identifier: BSD-3-Clause */
/* The forward run of a graph. Nodes that need a size which the engine does not know yet run after all others, so
 * that an engine with work in flight is waited for as rarely as possible. */
#include "run.h"

#include <string.h>

static size_t scratch_nbytes(struct fzm_run *r, unsigned node, const struct fzm_shape *in_shapes)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    return r->backend->scratch(r->ctx, n->stage, n->params.bytes, in_shapes);
}

static int resolve_node(struct fzm_run *r, unsigned node, struct fzm_call *call, const struct fzm_shape *in_shapes)
{
    struct fzm_node *const n = &r->graph->nodes[node];
    struct fzm_buf scratch = {0};
    if (!n->stage->resolve)
        return 0;
    FZM_TRY(fzm_run_get(r, &scratch, scratch_nbytes(r, node, in_shapes)));
    call->scratch = scratch.data;
    const int code = r->backend->resolve(n->stage, n->params.bytes, call);
    fzm_run_put_scratch(r, &scratch);
    return fzm_run_stage_error(r, node, code);
}

/* Shapes and worst-case sizes of a node's outputs. */
static int shape_outputs(struct fzm_run *r, unsigned node, const struct fzm_shape *in_shapes)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    struct fzm_shape out[FZM_MAX_PORTS];
    size_t bound[FZM_MAX_PORTS];
    memset(out, 0, sizeof out);
    FZM_TRY(fzm_run_stage_error(r, node, n->stage->shape(n->params.bytes, in_shapes, out, &r->ctx->err)));
    for (unsigned j = 0; j < n->stage->n_out; j++)
        bound[j] = fzm_shape_nbytes(&out[j]);
    if (n->stage->bound)
        n->stage->bound(n->params.bytes, in_shapes, bound);
    for (unsigned j = 0; j < n->stage->n_out; j++) {
        struct fzm_buf *const b = &r->ports[node][j];
        memset(b, 0, sizeof *b);
        b->shape = out[j];
        b->cap = bound[j];
    }
    return 0;
}

/* Memory for a node's outputs, except inner edges (port 0, if skip_first), late ones, and those that have it. */
static int get_outputs(struct fzm_run *r, unsigned node, bool skip_first, int late_port)
{
    for (unsigned j = 0; j < r->graph->nodes[node].stage->n_out; j++) {
        struct fzm_buf *const b = &r->ports[node][j];
        if ((j == 0 && skip_first) || (int)j == late_port || b->data)
            continue;
        FZM_TRY(fzm_run_get(r, b, b->cap));
        r->owned[node][j] = true;
    }
    return 0;
}

/* The size of a port is known: the extent of a variable one follows from it. */
static int finish_output(struct fzm_run *r, unsigned node, unsigned j)
{
    const struct fzm_stage *const stage = r->graph->nodes[node].stage;
    struct fzm_buf *const b = &r->ports[node][j];
    if (b->nbytes > b->cap)
        return fzm_err_set(&r->ctx->err, FZM_ERR_INTERNAL, "%s: port %s has %zu bytes, its bound is %zu", stage->name,
                           stage->out[j].name, b->nbytes, b->cap);
    r->backend->touch(r->ctx, b->data, b->nbytes);
    const struct fzm_source port = {(int8_t)node, (uint8_t)j};
    if (fzm_run_is_variable(r->graph, port))
        b->shape = fzm_shape_1d(b->shape.dtype, b->nbytes / fzm_dtype_nbytes(b->shape.dtype));
    return 0;
}

static int finish_outputs(struct fzm_run *r, unsigned node)
{
    for (unsigned j = 0; j < r->graph->nodes[node].stage->n_out; j++)
        if (!r->ports[node][j].pending)
            FZM_TRY(finish_output(r, node, j));
    return 0;
}

static void release_use(struct fzm_run *r, struct fzm_source s)
{
    if (s.node < 0 || --r->n_uses[s.node][s.port] > 0 || !r->owned[s.node][s.port])
        return;
    struct fzm_buf *const b = &r->ports[s.node][s.port];
    r->backend->put(r->ctx, b->data);
    b->data = NULL;
    r->owned[s.node][s.port] = false;
}

static int forward_node(struct fzm_run *r, unsigned node)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    struct fzm_buf in[FZM_MAX_PORTS], scratch = {0};
    struct fzm_shape shapes[FZM_MAX_PORTS];
    fzm_run_fill_inputs(r, node, in, shapes);
    struct fzm_call call = {.params = n->params.bytes, .in = in, .out = r->ports[node], .pool = r->ctx->pool,
                            .err = &r->ctx->err, .fill = r->fill, .gpu = r->ctx->gpu};
    int code = resolve_node(r, node, &call, shapes);
    if (code != 0)
        return code;
    FZM_TRY(shape_outputs(r, node, shapes));
    FZM_TRY(get_outputs(r, node, false, -1));
    FZM_TRY(fzm_run_get(r, &scratch, scratch_nbytes(r, node, shapes)));
    call.scratch = scratch.data;
    code = r->backend->forward(n->stage, &call);
    fzm_run_put_scratch(r, &scratch);
    FZM_TRY(fzm_run_stage_error(r, node, code));
    return finish_outputs(r, node);
}

/* After a fused forward(): extents that depend on params which it has settled. */
static int finish_chain(struct fzm_run *r, const struct fzm_fused *f, const unsigned *members)
{
    for (unsigned k = 0; k < f->n_stages; k++) {
        const struct fzm_node *const n = &r->graph->nodes[members[k]];
        struct fzm_buf in[FZM_MAX_PORTS];
        struct fzm_shape shapes[FZM_MAX_PORTS], out[FZM_MAX_PORTS];
        fzm_run_fill_inputs(r, members[k], in, shapes);
        FZM_TRY(fzm_run_stage_error(r, members[k], n->stage->shape(n->params.bytes, shapes, out, &r->ctx->err)));
        for (unsigned j = 0; j < n->stage->n_out; j++)
            r->ports[members[k]][j].shape = out[j];
        FZM_TRY(finish_outputs(r, members[k]));
    }
    return 0;
}

/* Calls of a chain, with the shapes of its ports. */
static int shape_chain(struct fzm_run *r, const struct fzm_fused *f, const unsigned *members, struct fzm_call *calls,
                       struct fzm_buf in[][FZM_MAX_PORTS], struct fzm_shape shapes[][FZM_MAX_PORTS])
{
    for (unsigned k = 0; k < f->n_stages; k++) {
        fzm_run_fill_inputs(r, members[k], in[k], shapes[k]);
        FZM_TRY(shape_outputs(r, members[k], shapes[k]));
    }
    fzm_run_make_calls(r, members, f->n_stages, calls, in, shapes);
    return 0;
}

/* A chain's own resolve(), and the shapes that follow from it. */
static int resolve_chain(struct fzm_run *r, const struct fzm_fused *f, const unsigned *members, struct fzm_call *calls,
                         struct fzm_buf in[][FZM_MAX_PORTS], struct fzm_shape shapes[][FZM_MAX_PORTS])
{
    struct fzm_buf scratch = {0};
    FZM_TRY(fzm_run_get(r, &scratch, f->scratch(calls, r->ctx->n_threads)));
    const int code = f->resolve(calls, scratch.data);
    fzm_run_put_scratch(r, &scratch);
    FZM_TRY(fzm_run_stage_error(r, members[0], code));
    return shape_chain(r, f, members, calls, in, shapes);
}

/* Memory for the outputs of a chain; the last member's may be in its place in the stream. */
static int get_chain_outputs(struct fzm_run *r, const struct fzm_fused *f, const unsigned *members)
{
    const unsigned last = members[f->n_stages - 1];
    struct fzm_buf *const b = &r->ports[last][0];
    if (f->any_alignment && r->backend->place)
        b->data = r->backend->place(r->ctx, r->stream, last, 0, b->cap);
    for (unsigned k = 0; k < f->n_stages; k++)
        FZM_TRY(get_outputs(r, members[k], k + 1 < f->n_stages, f->finish && k == 0 ? f->late_port : -1));
    return 0;
}

/* Returns 1 if the chain was not run: by the op's choice (*declined) or by the first stage's resolve(). */
static int forward_fused(struct fzm_run *r, const struct fzm_fused *f, const unsigned *members, bool *declined)
{
    struct fzm_buf in[FZM_MAX_CHAIN][FZM_MAX_PORTS], scratch = {0};
    struct fzm_shape shapes[FZM_MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_call calls[FZM_MAX_CHAIN];
    *declined = false;
    fzm_run_make_calls(r, members, 1, calls, in, shapes);
    int code = resolve_node(r, members[0], &calls[0], shapes[0]);
    if (code != 0)
        return code;
    FZM_TRY(shape_chain(r, f, members, calls, in, shapes));
    *declined = !f->accepts(calls);
    if (*declined)
        return 1;
    if (f->resolve)
        FZM_TRY(resolve_chain(r, f, members, calls, in, shapes));
    FZM_TRY(get_chain_outputs(r, f, members));
    fzm_run_make_calls(r, members, f->n_stages, calls, in, shapes);
    FZM_TRY(fzm_run_get(r, &scratch, f->scratch(calls, r->ctx->n_threads)));
    code = f->forward(calls, scratch.data);
    fzm_run_put_scratch(r, &scratch);
    FZM_TRY(fzm_run_stage_error(r, members[0], code));
    if (f->finish) {
        struct fzm_run_late *const late = &r->late[r->n_late++];
        late->fused = f;
        memcpy(late->members, members, f->n_stages * sizeof members[0]);
    }
    return finish_chain(r, f, members);
}

/* Fills the late ports, whose sizes are known now. */
static int finish_late(struct fzm_run *r, const struct fzm_run_late *late)
{
    struct fzm_buf in[FZM_MAX_CHAIN][FZM_MAX_PORTS], scratch = {0};
    struct fzm_shape shapes[FZM_MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_call calls[FZM_MAX_CHAIN];
    const unsigned node = late->members[0], port = (unsigned)late->fused->late_port;
    const size_t nbytes = r->ports[node][port].nbytes;
    if (nbytes == 0)
        return 0;
    FZM_TRY(fzm_run_get(r, &r->ports[node][port], nbytes));
    r->owned[node][port] = true;
    fzm_run_make_calls(r, late->members, late->fused->n_stages, calls, in, shapes);
    FZM_TRY(fzm_run_get(r, &scratch, late->fused->scratch(calls, r->ctx->n_threads)));
    const int code = late->fused->finish(calls, scratch.data);
    fzm_run_put_scratch(r, &scratch);
    return fzm_run_stage_error(r, node, code);
}

/* Waits for the sizes that are pending. */
static int settle(struct fzm_run *r)
{
    FZM_TRY(r->backend->settle(r->ctx));
    for (unsigned i = 0; i < r->graph->n_nodes; i++)
        for (unsigned j = 0; j < r->graph->nodes[i].stage->n_out; j++) {
            struct fzm_buf *const b = &r->ports[i][j];
            if (!b->pending)
                continue;
            b->nbytes = (size_t)r->backend->pending_nbytes(r->ctx, b->pending);
            b->pending = NULL;
            FZM_TRY(finish_output(r, i, j));
        }
    for (unsigned i = 0; i < r->n_late; i++)
        FZM_TRY(finish_late(r, &r->late[i]));
    r->n_late = 0;
    return 0;
}

static bool is_pending(const struct fzm_run *r)
{
    bool any = r->n_late > 0;
    for (unsigned i = 0; i < r->graph->n_nodes; i++)
        for (unsigned j = 0; j < r->graph->nodes[i].stage->n_out; j++)
            any |= r->ports[i][j].pending != NULL;
    return any;
}

static bool waits(struct fzm_run *r, unsigned node)
{
    for (unsigned j = 0; j < r->graph->nodes[node].stage->n_in; j++) {
        const struct fzm_source s = r->graph->nodes[node].in[j];
        if (s.node >= 0 && (!r->done[s.node] || r->ports[s.node][s.port].pending))
            return true;
    }
    return false;
}

static int run_node(struct fzm_run *r, unsigned node)
{
    unsigned members[FZM_MAX_CHAIN] = {node}, n_members = 1;
    const struct fzm_fused *const f = fzm_run_match_fused(r, node, members);
    bool declined = true;
    int code = 1;
    if (f) {
        code = forward_fused(r, f, members, &declined);
        n_members = f->n_stages;
    }
    if (declined) {
        n_members = 1;
        code = forward_node(r, node);
    }
    if (code != 0)
        return code;
    for (unsigned k = 0; k < n_members; k++) {
        r->done[members[k]] = true;
        for (unsigned j = 0; j < r->graph->nodes[members[k]].stage->n_in; j++)
            release_use(r, r->graph->nodes[members[k]].in[j]);
    }
    return 0;
}

int fzm_run_forward(fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s, const void *in, const void *fill)
{
    struct fzm_run run, *const r = &run;
    fzm_run_init(r, ctx, backend, s);
    r->input.data = (void *)(uintptr_t)in; /* forward() reads its inputs only */
    r->fill = fill;
    for (unsigned n_left = 1; n_left > 0;) {
        unsigned n_ran = 0;
        n_left = 0;
        for (unsigned i = 0; i < s->graph.n_nodes; i++) {
            if (r->done[i])
                continue;
            if (waits(r, i)) {
                n_left++;
                continue;
            }
            const int code = run_node(r, i);
            if (code != 0)
                return code;
            n_ran++;
        }
        if (n_left > 0 && n_ran == 0)
            FZM_TRY(settle(r));
    }
    if (is_pending(r))
        FZM_TRY(settle(r));
    FZM_TRY(fzm_stream_list_sections(s, &ctx->err));
    for (unsigned i = 0; i < s->n_sections; i++) {
        const struct fzm_buf *const b = &r->ports[s->sections[i].node][s->sections[i].port];
        s->sections[i].data = b->data;
        s->sections[i].nbytes = b->nbytes;
    }
    return 0;
}
