/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines as graphs of stages: the form between JSON text, compiled words and stream headers. */
#ifndef FZM_GRAPH_H
#define FZM_GRAPH_H

#include "le.h"
#include "stage.h"

enum { FZM_SOURCE_INPUT = -1, FZM_SOURCE_ABSENT = -2 };

/* Where a stage's input comes from: a port of an earlier node, the chunk itself, or nowhere. */
struct fzm_source {
    int8_t node; /* index, or FZM_SOURCE_* */
    uint8_t port;
};

struct fzm_node {
    const struct fzm_stage *stage;
    struct fzm_source in[FZM_MAX_PORTS];
    char name[24]; /* the JSON "name"; empty when read from a stream or words */
    union {        /* the stage's params struct */
        uint64_t align;
        uint8_t bytes[FZM_MAX_PARAMS_NBYTES];
    } params;
};

/* Nodes are in topological order: a node's sources are earlier nodes or the chunk. */
struct fzm_graph {
    unsigned n_nodes;
    struct fzm_node nodes[FZM_MAX_STAGES];
};

struct fzm_pipeline {
    struct fzm_graph graph;
    int mode;            /* enum fzm_mode */
    double bound;
    int preset;          /* number, or -1: from JSON */
    int no_guarantee;    /* JSON "guarantee": "none" */
};

/* ---- params.c: one walker over a stage's parameter schema ---- */

/* Fills a params struct with the defaults of the schema. */
void fzm_params_init(const struct fzm_stage *stage, void *params);

/* Checks every param against its range. */
int fzm_params_check(const struct fzm_stage *stage, const void *params, struct fzm_err *err);

/* Value of param i as a double, and the reverse (no range check). */
double fzm_params_get(const struct fzm_stage *stage, const void *params, unsigned i);
void fzm_params_set(const struct fzm_stage *stage, void *params, unsigned i, double value);

/* Index of a key, or -1. */
int fzm_params_find(const struct fzm_stage *stage, const char *key);

/* ---- graph.c: structure and bytes ---- */

/* Checks structure: sources precede, ports exist, required inputs are connected, every node's path
 * leads from @input, exactly the @input is rebuilt by the inverse (some consumer of @input and of every
 * inner port is not a hint), lossy stages carry a guarantee unless no_guarantee. Type and shape
 * agreement is checked by fzm_graph_shapes(). */
int fzm_graph_check(const struct fzm_graph *graph, int no_guarantee, struct fzm_err *err);

/* Shapes of every output port for a chunk: shapes[node][port]. Runs every stage's shape(). */
int fzm_graph_shapes(const struct fzm_graph *graph, const struct fzm_shape *input,
                     struct fzm_shape shapes[][FZM_MAX_PORTS], struct fzm_err *err);

/* The graph as bytes (stream header and compiled words share this form; docs/format.md):
 *   varint n_nodes, then per node: varint stage id << 3 | min(version - 1, 3) << 1 | (mask != 0); varint
 *   version - 4 if that was 3; and if mask is not 0: varint mask; set params; sources.
 *   Bit 0 of mask: sources are listed (else: input 0 is port 0 of the node before, or @input for node 0, the
 *   other inputs absent). Bit 1+i: param i differs from its default and follows, in schema order: u32, bool
 *   and enum as varint; f64 as u8 k (0..8) and its k most significant bytes, low first (the others are 0).
 *   A listed source: one byte per input: 0 absent, 1 @input, else 2 + 4 * node + port (node < 63).
 * with_runtime: FZM_PF_RUNTIME params are written too (streams); else they keep their defaults. */
void fzm_graph_write(const struct fzm_graph *graph, int with_runtime, struct fzm_writer *w);

/* Reads untrusted bytes; checks ids, versions (FZM_ERR_VERSION if newer), ranges, and fzm_graph_check(). */
int fzm_graph_read(struct fzm_graph *graph, struct fzm_reader *r, struct fzm_err *err);

/* ---- config.c: JSON ---- */

/* Parses JSON text (need not be NUL-ended) strictly into a pipeline. */
int fzm_config_parse(struct fzm_pipeline *pipeline, const char *json, size_t json_nbytes, struct fzm_err *err);

/* Prints a pipeline as JSON that parses to the same pipeline; as fzm_pipeline_to_json(). */
size_t fzm_config_print(const struct fzm_pipeline *pipeline, char *json, size_t cap);

/* Graph of a preset for a mode; the bound is set in the pipeline. */
int fzm_preset_build(struct fzm_pipeline *pipeline, int preset, int mode, double bound, struct fzm_err *err);

#endif
