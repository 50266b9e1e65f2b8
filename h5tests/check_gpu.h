/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the GPU engine: what the parts share. */
#ifndef FZM_CHECK_GPU_H
#define FZM_CHECK_GPU_H

#include "ctx.h"
#include "patterns.h"

/* Contexts of a run. staged: the GPU without fused chains; poisoned: with junk in its scratch memory. */
struct gpu_check {
    fzm_ctx *cpu, *gpu, *staged, *poisoned;
    bool is_quick;
};

/* A chunk and room for its stream and what is restored from it, twice. */
struct gpu_chunk {
    fzm_array array;
    char name[160];
    size_t nbytes, cap;
    uint8_t *in, *stream, *other, *out, *expected;
    size_t stream_nbytes;
};

void gpu_chunk_new(struct gpu_chunk *c, const struct fzm_shape *shape, int pattern, uint64_t seed);
void gpu_chunk_free(struct gpu_chunk *c);

/* Compresses with the CPU and with `ctx`, compares the streams, then restores the CPU's stream with both. Returns
 * whether both have made a stream. */
bool gpu_compare(struct gpu_check *g, fzm_ctx *ctx, const fzm_pipeline *pipeline, struct gpu_chunk *c,
                 const char *what);

/* JSON texts of pipelines that are no presets: i from 0 until NULL. */
const char *gpu_pipeline_json(unsigned i);

/* CHECK of check.h, for the other files. */
bool gpu_check_that(bool ok, const char *file, int line, const char *format, ...);
#define GPU_CHECK(condition, ...) gpu_check_that(condition, __FILE__, __LINE__, __VA_ARGS__)

/* check_gpu_device.c */
void gpu_check_device_memory(struct gpu_check *g);
/* check_gpu_engine.c */
void gpu_check_engine(struct gpu_check *g);
/* check_gpu_damage.c */
void gpu_check_damage(struct gpu_check *g);

#endif
