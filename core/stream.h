/* SPDX-License-Identifier: BSD-3-Clause */
/* The FZM stream: header of a compressed chunk. Bytes are specified in docs/format.md. */
#ifndef FZM_STREAM_H
#define FZM_STREAM_H

#include "graph.h"

enum { FZM_MAX_SECTIONS = 32, FZM_MAX_HEADER_NBYTES = 1020 };

/* One stored port. */
struct fzm_section {
    uint8_t node, port;
    uint64_t nbytes;
    const uint8_t *data;
};

struct fzm_stream {
    struct fzm_shape shape;
    bool big_endian;
    bool stored;
    int mode;
    double bound;
    struct fzm_graph graph; /* params with their runtime values */
    const struct fzm_graph *original; /* writers: the graph before fzm_graph_inherit_bound() */
    unsigned n_sections;
    struct fzm_section sections[FZM_MAX_SECTIONS];
    uint64_t payload_nbytes;
    uint64_t payload_hash;
    size_t header_nbytes;
};

/* The ports that nobody rebuilds, in node order: fills node and port of each section. Fails if there
 * are more than FZM_MAX_SECTIONS. */
int fzm_stream_list_sections(struct fzm_stream *s, struct fzm_err *err);

/* Node that rebuilds a port in the inverse: the first consumer that is not a hint, or -1. node -1 = @input. */
int fzm_graph_rebuilder(const struct fzm_graph *graph, int node, int port);

/* Replaces stage params that inherit the pipeline's bound by its mode and value. */
void fzm_graph_inherit_bound(struct fzm_graph *graph, int mode, double bound);

/* A header that lacks its payload hash, at hash_at, and the check in its last 4 bytes. */
struct fzm_header {
    uint8_t bytes[FZM_MAX_HEADER_NBYTES];
    size_t hash_at;
};

/* Makes the header of a stream whose sections have their sizes; sets s->header_nbytes and payload_nbytes. The header's
 * length does not depend on these sizes. Returns FZM_ERR_CAPACITY if the stream does not fit into out_cap. */
int fzm_stream_make_header(struct fzm_stream *s, struct fzm_header *header, size_t out_cap, struct fzm_err *err);

/* Writes header and sections; sections[].data, nbytes are set, payload_hash is computed here.
 * Returns FZM_ERR_CAPACITY if it does not fit. */
int fzm_stream_write(struct fzm_stream *s, struct fzm_pool *pool, void *out, size_t out_cap, size_t *out_nbytes, struct fzm_err *err);

/* Parses and checks a header (untrusted); sections[].data point into in. The params inherit the bound.
 * The payload is not looked at: see fzm_stream_verify(). */
int fzm_stream_read(struct fzm_stream *s, const void *in, size_t in_nbytes, struct fzm_err *err);

/* Compares the payload of a stream that was read with its hash. */
int fzm_stream_verify(const struct fzm_stream *s, const void *in, struct fzm_pool *pool, struct fzm_err *err);

#endif
