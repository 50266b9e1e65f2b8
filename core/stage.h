/* SPDX-License-Identifier: BSD-3-Clause */
/* The stage row: everything that parser, planner, stream, docs, tests and fuzzers know of a stage. */
#ifndef FZM_STAGE_H
#define FZM_STAGE_H

#include "error.h"
#include "types.h"

struct fzm_pool;

enum { FZM_MAX_PORTS = 4, FZM_MAX_PARAMS_NBYTES = 128, FZM_MAX_STAGES = 32 };

/* One JSON key of a stage. The member at mem_off has the C type named by `type`. */
enum fzm_param_type {
    FZM_P_U32,  /* uint32_t */
    FZM_P_F64,  /* double */
    FZM_P_BOOL, /* uint32_t, 0 or 1 */
    FZM_P_ENUM, /* uint32_t, index into names[] */
};

enum fzm_param_flag {
    FZM_PF_RUNTIME = 1, /* set by resolve(), stored in the stream, not a JSON key */
    FZM_PF_BOUND = 2,   /* the stage's own error bound: taken from the pipeline's bound when absent */
};

struct fzm_param {
    const char *key;
    const char *help; /* one line, with the unit */
    uint8_t type;     /* enum fzm_param_type */
    uint8_t flags;    /* enum fzm_param_flag */
    uint16_t mem_off;
    double min, max, def;     /* inclusive range; every u32 is exact in a double */
    const char *const *names; /* FZM_P_ENUM: words, NULL-ended; index 0.. */
};

/* A port. Its type and extent come from shape(); variable ports hold any length up to the shape. */
enum fzm_port_flag {
    FZM_PORT_OPTIONAL = 1, /* input that a pipeline may leave out */
    FZM_PORT_HINT = 2,     /* input that steers the encoder and that inverse() does not rebuild */
    FZM_PORT_VARIABLE = 4, /* output whose length depends on the data */
};

struct fzm_port {
    const char *name;
    const char *dtypes; /* for people and docs: "f32 f64", "int", "bytes" */
    uint8_t flags;
};

/* One array in memory. forward(): in[] is read, out[].nbytes (<= cap) and out[].shape.n_elems are set.
 * inverse(): out[] is read, in[].data is filled; in[].nbytes is exact and fixed by the caller.
 * data of an absent optional input is NULL and its shape.n_elems 0. Buffers are 64-byte aligned,
 * except @input and stored sections, which may have any alignment. They never overlap. */
struct fzm_buf {
    void *data;
    size_t nbytes;
    size_t cap;
    struct fzm_shape shape;
    uint64_t *pending; /* GPU engine: device word that will hold nbytes; NULL: nbytes holds already */
};

struct fzm_call {
    const void *params; /* the stage's params struct, resolved */
    struct fzm_buf *in;
    struct fzm_buf *out;
    void *scratch; /* scratch() bytes, 64-byte aligned, junk on entry */
    struct fzm_pool *pool;
    struct fzm_err *err;
    const void *fill; /* one element of the chunk's type: its fill value; NULL if it has none */
    struct fzm_gpu *gpu; /* GPU engine, see gpu/ops.h; NULL on the CPU */
};

enum fzm_stage_flag {
    FZM_STAGE_LOSSY = 1,         /* inverse(forward(x)) may differ from x */
    FZM_STAGE_BOUND_CHECKED = 2, /* ... but each element is proved to be within the bound */
    FZM_STAGE_SIZE_PRESERVING = 4,
};

struct fzm_stage {
    const char *name; /* JSON "type" */
    const char *help;
    const char *reference; /* paper or source of the algorithm */
    uint16_t id;           /* on disk, never reused */
    uint8_t version;       /* of the encoded layout, on disk */
    uint8_t n_in, n_out, n_params;
    uint16_t params_nbytes;
    uint32_t flags;
    const struct fzm_port *in, *out;
    const struct fzm_param *params;

    /* Checks that the stage takes inputs of these shapes with these params, and gives each output's
     * type and extent (for variable ports: the largest extent; before resolve(): the largest over all
     * choices that resolve() may make). in[] of an absent optional input has n_elems 0 and dtype
     * FZM_BYTES. Called for untrusted params and shapes: must check everything, never overflow. */
    int (*shape)(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err);

    /* Exact worst case of each output in bytes. NULL: the bytes of shape(). Not called if shape() fails. */
    void (*bound)(const void *params, const struct fzm_shape *in, size_t *out_nbytes);

    /* Bytes of scratch for forward and inverse with n_threads workers. NULL: none. */
    size_t (*scratch)(const void *params, const struct fzm_shape *in, unsigned n_threads);

    /* Settles data-dependent params (FZM_PF_RUNTIME) before forward(): c->in is complete, c->out is not
     * there. NULL: nothing to settle. Must be deterministic: same input and params, same result. Returns 1
     * if the elements had better be coded exactly: the chunk is then left to the lossless pipeline. */
    int (*resolve)(void *params, const struct fzm_call *c);

    /* Exact number of bytes of in[0] from encoded outputs; *in_nbytes holds the largest extent on entry.
     * NULL: in[0] has that extent, or for SIZE_PRESERVING stages the bytes of out[0]. Reads untrusted bytes. */
    int (*inverse_nbytes)(const void *params, const struct fzm_buf *out, size_t *in_nbytes, struct fzm_err *err);

    /* forward() never fails for inputs that shape() took, except with FZM_ERR_MEMORY.
     * inverse() reads untrusted bytes: it never reads or writes outside its buffers, always ends. */
    int (*forward)(struct fzm_call *c);
    int (*inverse)(struct fzm_call *c);
};

/* Rows of one kind: X(quantizer) declares fzm_stage_quantizer. See stages.h for the list. */
#endif
