/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a graph on the CPU engine: nodes in order, chains fused where the engine can, every buffer of the
 * exact worst case and given back after its last use. */
#include "ctx.h"

#include "cpu/fused.h"

#include <stdio.h>
#include <string.h>

/* Longest chain that an engine fuses. */
enum { MAX_CHAIN = 8 };

/* State of one run: a buffer for each output port, and the input. */
struct run {
    fzm_ctx *ctx;
    struct fzm_graph *graph;
    struct fzm_buf input;
    struct fzm_buf ports[FZM_MAX_STAGES][FZM_MAX_PORTS];
    bool owned[FZM_MAX_STAGES][FZM_MAX_PORTS];       /* lies in the arena */
    unsigned n_uses[FZM_MAX_STAGES][FZM_MAX_PORTS];  /* consumers still to come */
    bool done[FZM_MAX_STAGES];
    const void *fill;
};

static void *params_of(struct run *r, unsigned node) { return r->graph->nodes[node].params.bytes; }

static struct fzm_buf *source_of(struct run *r, struct fzm_source s)
{
    if (s.node == FZM_SOURCE_ABSENT)
        return NULL;
    return s.node < 0 ? &r->input : &r->ports[s.node][s.port];
}

/* Whether the length of a port depends on the data: by itself, or because its stage's input does. */
static bool is_variable(const struct fzm_graph *g, struct fzm_source s)
{
    for (; s.node >= 0; s = g->nodes[s.node].in[0])
        if (g->nodes[s.node].stage->out[s.port].flags & FZM_PORT_VARIABLE)
            return true;
    return false;
}

static int stage_error(struct run *r, unsigned node, int code)
{
    if (code < 0 && r->ctx->err.code == 0)
        fzm_err_set(&r->ctx->err, code, "%s: %s", r->graph->nodes[node].stage->name, fzm_error_meaning(code));
    return code;
}

/* The fused op that covers the chain starting at a node: every member's output 0 feeds only the next
 * member's input 0, and all other inputs come from members or are absent. members[] gets the nodes. */
static const struct fzm_fused *match_fused(const struct fzm_graph *g, unsigned start, unsigned members[MAX_CHAIN])
{
    for (const struct fzm_fused *const *f = fzm_cpu_fused; *f; f++) {
        unsigned node = start, n = 0;
        for (;;) {
            if (g->nodes[node].stage != (*f)->chain[n])
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
            bool closed = true;
            for (unsigned j = 1; j < g->nodes[next].stage->n_in; j++) {
                const int from = g->nodes[next].in[j].node;
                bool inside = from == FZM_SOURCE_ABSENT;
                for (unsigned k = 0; k < n; k++)
                    inside |= from == (int)members[k];
                closed &= inside;
            }
            if (!closed)
                break;
            node = next;
        }
    }
    return NULL;
}

/* Input descriptors of a node; absent ones are empty byte arrays. */
static void fill_inputs(struct run *r, unsigned node, struct fzm_buf *in, struct fzm_shape *shapes)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    for (unsigned j = 0; j < n->stage->n_in; j++) {
        const struct fzm_buf *const source = source_of(r, n->in[j]);
        memset(&in[j], 0, sizeof in[j]);
        in[j].shape = fzm_shape_1d(FZM_BYTES, 0);
        if (source)
            in[j] = *source;
        shapes[j] = in[j].shape;
    }
}

static int get_block(struct run *r, struct fzm_buf *buf, size_t nbytes)
{
    buf->data = fzm_arena_get(&r->ctx->arena, nbytes);
    buf->cap = nbytes;
    if (!buf->data)
        return fzm_err_set(&r->ctx->err, FZM_ERR_MEMORY, "out of memory (%zu bytes of scratch)", nbytes);
    return 0;
}

static void put_scratch(struct run *r, const struct fzm_buf *scratch)
{
    fzm_arena_touch(&r->ctx->arena, scratch->data, scratch->cap);
    fzm_arena_put(&r->ctx->arena, scratch->data);
}

/* Shapes and worst-case sizes of a node's outputs; allocates those that are not inner edges. */
static int prepare_outputs(struct run *r, unsigned node, const struct fzm_shape *in_shapes, bool skip_first)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    struct fzm_shape out[FZM_MAX_PORTS];
    size_t bound[FZM_MAX_PORTS];
    memset(out, 0, sizeof out);
    FZM_TRY(stage_error(r, node, n->stage->shape(n->params.bytes, in_shapes, out, &r->ctx->err)));
    for (unsigned j = 0; j < n->stage->n_out; j++)
        bound[j] = fzm_shape_nbytes(&out[j]);
    if (n->stage->bound)
        n->stage->bound(n->params.bytes, in_shapes, bound);
    for (unsigned j = 0; j < n->stage->n_out; j++) {
        struct fzm_buf *const b = &r->ports[node][j];
        memset(b, 0, sizeof *b);
        b->shape = out[j];
        b->cap = bound[j];
        if (j == 0 && skip_first)
            continue;
        FZM_TRY(get_block(r, b, bound[j]));
        r->owned[node][j] = true;
    }
    return 0;
}

/* After forward(): extents of variable outputs follow from their bytes. */
static int finish_outputs(struct run *r, unsigned node)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    for (unsigned j = 0; j < n->stage->n_out; j++) {
        struct fzm_buf *const b = &r->ports[node][j];
        if (b->nbytes > b->cap)
            return fzm_err_set(&r->ctx->err, FZM_ERR_INTERNAL, "%s: port %s has %zu bytes, its bound is %zu",
                               n->stage->name, n->stage->out[j].name, b->nbytes, b->cap);
        fzm_arena_touch(&r->ctx->arena, b->data, b->nbytes);
        const struct fzm_source port = {(int8_t)node, (uint8_t)j};
        if (is_variable(r->graph, port))
            b->shape = fzm_shape_1d(b->shape.dtype, b->nbytes / fzm_dtype_nbytes(b->shape.dtype));
    }
    return 0;
}

static void release_use(struct run *r, struct fzm_source s)
{
    if (s.node < 0 || --r->n_uses[s.node][s.port] > 0 || !r->owned[s.node][s.port])
        return;
    struct fzm_buf *const b = &r->ports[s.node][s.port];
    fzm_arena_put(&r->ctx->arena, b->data);
    b->data = NULL;
    r->owned[s.node][s.port] = false;
}

static size_t scratch_nbytes(const struct fzm_node *n, const struct fzm_shape *in_shapes, unsigned n_threads)
{
    return n->stage->scratch ? n->stage->scratch(n->params.bytes, in_shapes, n_threads) : 0;
}

static int forward_node(struct run *r, unsigned node)
{
    const struct fzm_node *const n = &r->graph->nodes[node];
    struct fzm_buf in[FZM_MAX_PORTS];
    struct fzm_shape shapes[FZM_MAX_PORTS];
    fill_inputs(r, node, in, shapes);
    struct fzm_call call = {.params = n->params.bytes, .in = in, .out = r->ports[node], .pool = r->ctx->pool,
                            .err = &r->ctx->err, .fill = r->fill};
    if (n->stage->resolve) {
        struct fzm_buf scratch = {0};
        FZM_TRY(get_block(r, &scratch, scratch_nbytes(n, shapes, r->ctx->n_threads)));
        call.scratch = scratch.data;
        const int code = n->stage->resolve(params_of(r, node), &call);
        put_scratch(r, &scratch);
        if (code != 0)
            return stage_error(r, node, code);
    }
    FZM_TRY(prepare_outputs(r, node, shapes, false));
    struct fzm_buf scratch = {0};
    FZM_TRY(get_block(r, &scratch, scratch_nbytes(n, shapes, r->ctx->n_threads)));
    call.scratch = scratch.data;
    const int code = n->stage->forward(&call);
    put_scratch(r, &scratch);
    FZM_TRY(stage_error(r, node, code));
    return finish_outputs(r, node);
}

/* Calls of a fused chain; in[] and out[] arrays are given by the caller. */
static void make_calls(struct run *r, const unsigned *members, unsigned n, struct fzm_call *calls,
                       struct fzm_buf in[][FZM_MAX_PORTS], struct fzm_shape shapes[][FZM_MAX_PORTS])
{
    for (unsigned k = 0; k < n; k++) {
        fill_inputs(r, members[k], in[k], shapes[k]);
        const struct fzm_call call = {.params = params_of(r, members[k]), .in = in[k], .out = r->ports[members[k]],
                                      .pool = r->ctx->pool, .err = &r->ctx->err, .fill = r->fill};
        calls[k] = call;
    }
}

/* Returns 1 if the chain was not run: by the op's choice (*declined) or by the first stage's resolve(). */
static int forward_fused(struct run *r, const struct fzm_fused *f, const unsigned *members, bool *declined)
{
    struct fzm_buf in[MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_shape shapes[MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_call calls[MAX_CHAIN];
    const struct fzm_node *const first = &r->graph->nodes[members[0]];
    *declined = false;
    make_calls(r, members, 1, calls, in, shapes);
    if (first->stage->resolve) {
        struct fzm_buf scratch = {0};
        FZM_TRY(get_block(r, &scratch, scratch_nbytes(first, shapes[0], r->ctx->n_threads)));
        calls[0].scratch = scratch.data;
        const int code = first->stage->resolve(params_of(r, members[0]), &calls[0]);
        put_scratch(r, &scratch);
        if (code != 0)
            return stage_error(r, members[0], code);
    }
    for (unsigned k = 0; k < f->n_stages; k++) {
        fill_inputs(r, members[k], in[k], shapes[k]);
        FZM_TRY(prepare_outputs(r, members[k], shapes[k], k + 1 < f->n_stages));
    }
    make_calls(r, members, f->n_stages, calls, in, shapes);
    if (!f->accepts(calls)) {
        for (unsigned k = 0; k < f->n_stages; k++)
            for (unsigned j = 0; j < r->graph->nodes[members[k]].stage->n_out; j++)
                if (r->owned[members[k]][j]) {
                    fzm_arena_put(&r->ctx->arena, r->ports[members[k]][j].data);
                    r->owned[members[k]][j] = false;
                }
        *declined = true;
        return 1;
    }
    struct fzm_buf scratch = {0};
    FZM_TRY(get_block(r, &scratch, f->scratch(calls, r->ctx->n_threads)));
    const int code = f->forward(calls, scratch.data);
    put_scratch(r, &scratch);
    FZM_TRY(stage_error(r, members[0], code));
    for (unsigned k = 0; k < f->n_stages; k++) {
        /* extents that depend on params which the run has settled */
        struct fzm_shape out[FZM_MAX_PORTS];
        const struct fzm_node *const n = &r->graph->nodes[members[k]];
        fill_inputs(r, members[k], in[k], shapes[k]);
        FZM_TRY(stage_error(r, members[k], n->stage->shape(n->params.bytes, shapes[k], out, &r->ctx->err)));
        for (unsigned j = 0; j < n->stage->n_out; j++)
            r->ports[members[k]][j].shape = out[j];
        FZM_TRY(finish_outputs(r, members[k]));
    }
    return 0;
}

static void run_init(struct run *r, fzm_ctx *ctx, struct fzm_stream *s)
{
    memset(r, 0, sizeof *r);
    r->ctx = ctx;
    r->graph = &s->graph;
    r->input.shape = s->shape;
    r->input.nbytes = r->input.cap = fzm_shape_nbytes(&s->shape);
    for (unsigned i = 0; i < s->graph.n_nodes; i++)
        for (unsigned j = 0; j < s->graph.nodes[i].stage->n_in; j++)
            if (s->graph.nodes[i].in[j].node >= 0)
                r->n_uses[s->graph.nodes[i].in[j].node][s->graph.nodes[i].in[j].port]++;
}

int fzm_run_forward(fzm_ctx *ctx, struct fzm_stream *s, const void *in, const void *fill)
{
    struct run r;
    run_init(&r, ctx, s);
    r.input.data = (void *)(uintptr_t)in; /* forward() reads its inputs only */
    r.fill = fill;
    for (unsigned i = 0; i < s->graph.n_nodes; i++) {
        if (r.done[i])
            continue;
        unsigned members[MAX_CHAIN] = {i}, n_members = 1;
        const struct fzm_fused *const f = ctx->fusion ? match_fused(&s->graph, i, members) : NULL;
        int code = 1;
        bool declined = true;
        if (f) {
            code = forward_fused(&r, f, members, &declined);
            n_members = f->n_stages;
        }
        if (declined) {
            n_members = 1;
            code = forward_node(&r, i);
        }
        if (code != 0)
            return code;
        for (unsigned k = 0; k < n_members; k++) {
            r.done[members[k]] = true;
            for (unsigned j = 0; j < s->graph.nodes[members[k]].stage->n_in; j++)
                release_use(&r, s->graph.nodes[members[k]].in[j]);
        }
    }
    FZM_TRY(fzm_stream_list_sections(s, &ctx->err));
    for (unsigned i = 0; i < s->n_sections; i++) {
        const struct fzm_buf *const b = &r.ports[s->sections[i].node][s->sections[i].port];
        s->sections[i].data = b->data;
        s->sections[i].nbytes = b->nbytes;
    }
    return 0;
}

/* Bytes of a node's input i in the inverse, checked against what its producer can have made. */
static int inverse_input_nbytes(struct run *r, unsigned node, unsigned i, const struct fzm_shape *source,
                                bool variable, size_t *nbytes)
{
    const struct fzm_stage *const stage = r->graph->nodes[node].stage;
    const size_t most = fzm_shape_nbytes(source);
    *nbytes = most;
    if (i == 0 && stage->inverse_nbytes)
        FZM_TRY(stage->inverse_nbytes(params_of(r, node), r->ports[node], nbytes, &r->ctx->err));
    else if (i == 0 && (stage->flags & FZM_STAGE_SIZE_PRESERVING))
        *nbytes = r->ports[node][0].nbytes;
    if (*nbytes > most || (!variable && *nbytes != most) || *nbytes % fzm_dtype_nbytes(source->dtype) != 0)
        return fzm_err_set(&r->ctx->err, FZM_ERR_CORRUPT, "%s: section decodes to %zu bytes, its port holds %s%zu",
                           stage->name, *nbytes, variable ? "up to " : "", most);
    return 0;
}

/* Allocates the inputs that this node rebuilds. Returns how many there are in *n_rebuilt. */
static int prepare_rebuilt(struct run *r, unsigned node, unsigned *n_rebuilt, unsigned skip_first)
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
        const bool variable = is_variable(r->graph, src);
        size_t nbytes;
        FZM_TRY(inverse_input_nbytes(r, node, j, &b->shape, variable, &nbytes));
        FZM_TRY(get_block(r, b, nbytes));
        fzm_arena_touch(&r->ctx->arena, b->data, nbytes);
        r->owned[src.node][src.port] = true;
        b->nbytes = nbytes;
        if (variable)
            b->shape = fzm_shape_1d(b->shape.dtype, nbytes / fzm_dtype_nbytes(b->shape.dtype));
    }
    return 0;
}

static void release_outputs(struct run *r, unsigned node)
{
    for (unsigned j = 0; j < r->graph->nodes[node].stage->n_out; j++)
        if (r->owned[node][j]) {
            fzm_arena_put(&r->ctx->arena, r->ports[node][j].data);
            r->owned[node][j] = false;
        }
}

static int inverse_chain(struct run *r, const struct fzm_fused *f, const unsigned *members, bool *ran)
{
    struct fzm_buf in[MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_shape shapes[MAX_CHAIN][FZM_MAX_PORTS];
    struct fzm_call calls[MAX_CHAIN];
    make_calls(r, members, f->n_stages, calls, in, shapes);
    *ran = f->accepts(calls);
    if (!*ran)
        return 0;
    struct fzm_buf scratch = {0};
    FZM_TRY(get_block(r, &scratch, f->scratch(calls, r->ctx->n_threads)));
    const int code = f->inverse(calls, scratch.data);
    put_scratch(r, &scratch);
    FZM_TRY(stage_error(r, members[0], code));
    for (unsigned k = 0; k < f->n_stages; k++)
        release_outputs(r, members[k]);
    return 0;
}

static int inverse_node(struct run *r, unsigned node)
{
    struct fzm_node *const n = &r->graph->nodes[node];
    unsigned n_rebuilt;
    FZM_TRY(prepare_rebuilt(r, node, &n_rebuilt, false));
    if (n_rebuilt > 0) {
        struct fzm_buf in[FZM_MAX_PORTS];
        struct fzm_shape shapes[FZM_MAX_PORTS];
        fill_inputs(r, node, in, shapes);
        struct fzm_buf scratch = {0};
        FZM_TRY(get_block(r, &scratch, scratch_nbytes(n, shapes, r->ctx->n_threads)));
        struct fzm_call call = {.params = n->params.bytes, .in = in, .out = r->ports[node], .scratch = scratch.data,
                                .pool = r->ctx->pool, .err = &r->ctx->err};
        const int code = n->stage->inverse(&call);
        put_scratch(r, &scratch);
        FZM_TRY(stage_error(r, node, code));
    }
    release_outputs(r, node);
    return 0;
}

/* Gives the stored ports their sections; a fixed port must have exactly its bytes. */
static int load_sections(struct run *r, const struct fzm_stream *s)
{
    for (unsigned i = 0; i < s->n_sections; i++) {
        const struct fzm_section *const section = &s->sections[i];
        const struct fzm_stage *const stage = s->graph.nodes[section->node].stage;
        struct fzm_buf *const b = &r->ports[section->node][section->port];
        const struct fzm_source port = {(int8_t)section->node, section->port};
        const bool variable = is_variable(&s->graph, port);
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

int fzm_run_inverse(fzm_ctx *ctx, struct fzm_stream *s, void *out)
{
    struct run r;
    struct fzm_shape shapes[FZM_MAX_STAGES][FZM_MAX_PORTS];
    run_init(&r, ctx, s);
    r.input.data = out;
    FZM_TRY(fzm_graph_shapes(&s->graph, &s->shape, shapes, &ctx->err));
    for (unsigned i = 0; i < s->graph.n_nodes; i++)
        for (unsigned j = 0; j < s->graph.nodes[i].stage->n_out; j++)
            r.ports[i][j].shape = shapes[i][j];
    FZM_TRY(load_sections(&r, s));
    /* Last nodes first; a fused chain runs when its first node's turn comes, so that whatever rebuilds
     * its other ports has run before. */
    for (unsigned i = s->graph.n_nodes; i-- > 0;) {
        unsigned members[MAX_CHAIN];
        if (r.done[i])
            continue;
        bool inside = false, ran = false;
        for (unsigned start = 0; ctx->fusion && start < i && !inside; start++) {
            const struct fzm_fused *const f = match_fused(&s->graph, start, members);
            for (unsigned k = 1; f && k < f->n_stages; k++)
                inside |= members[k] == i;
        }
        if (inside)
            continue;
        const struct fzm_fused *const f = ctx->fusion ? match_fused(&s->graph, i, members) : NULL;
        if (f) {
            FZM_TRY(inverse_chain(&r, f, members, &ran));
            for (unsigned k = f->n_stages; !ran && k-- > 1;)
                FZM_TRY(inverse_node(&r, members[k]));
        }
        if (!ran)
            FZM_TRY(inverse_node(&r, i));
    }
    return 0;
}
