/* SPDX-License-Identifier: BSD-3-Clause */
/* State of one run of a graph on an engine, and what both directions do with it. */
#ifndef FZM_RUN_H
#define FZM_RUN_H

#include "ctx.h"

/* Longest chain that an engine fuses. */
enum { FZM_MAX_CHAIN = 8 };

/* A fused chain whose late port waits for its size. */
struct fzm_run_late {
    const struct fzm_fused *fused;
    unsigned members[FZM_MAX_CHAIN];
};

/* A buffer for each output port, and the input. */
struct fzm_run {
    fzm_ctx *ctx;
    const struct fzm_backend *backend;
    struct fzm_stream *stream;
    struct fzm_graph *graph;
    struct fzm_buf input;
    struct fzm_buf ports[FZM_MAX_STAGES][FZM_MAX_PORTS];
    bool owned[FZM_MAX_STAGES][FZM_MAX_PORTS];       /* lies in the engine's scratch memory */
    unsigned n_uses[FZM_MAX_STAGES][FZM_MAX_PORTS];  /* consumers still to come */
    bool done[FZM_MAX_STAGES];
    const void *fill;
    struct fzm_run_late late[FZM_MAX_STAGES];
    unsigned n_late;
};

void fzm_run_init(struct fzm_run *r, fzm_ctx *ctx, const struct fzm_backend *backend, struct fzm_stream *s);

/* The buffer that an input comes from; NULL: absent. */
struct fzm_buf *fzm_run_source(struct fzm_run *r, struct fzm_source s);

/* Whether the length of a port depends on the data: by itself, or because its stage's input does. */
bool fzm_run_is_variable(const struct fzm_graph *g, struct fzm_source s);

/* Gives a failure of a node a text if it has none; returns code. */
int fzm_run_stage_error(struct fzm_run *r, unsigned node, int code);

/* The fused op that covers the chain starting at a node: every member's output 0 feeds only the next
 * member's input 0, and all other inputs come from members or are absent. members[] gets the nodes.
 * NULL: none, or fusion is off. */
const struct fzm_fused *fzm_run_match_fused(const struct fzm_run *r, unsigned start, unsigned members[FZM_MAX_CHAIN]);

/* Input descriptors of a node; absent ones are empty byte arrays. */
void fzm_run_fill_inputs(struct fzm_run *r, unsigned node, struct fzm_buf *in, struct fzm_shape *shapes);

/* The calls of a chain; in[] and shapes[] are given by the caller. */
void fzm_run_make_calls(struct fzm_run *r, const unsigned *members, unsigned n, struct fzm_call *calls,
                        struct fzm_buf in[][FZM_MAX_PORTS], struct fzm_shape shapes[][FZM_MAX_PORTS]);

/* Memory of the engine: a buffer of nbytes, and giving scratch back. */
int fzm_run_get(struct fzm_run *r, struct fzm_buf *buf, size_t nbytes);
void fzm_run_put_scratch(struct fzm_run *r, const struct fzm_buf *scratch);

#endif
