/* SPDX-License-Identifier: BSD-3-Clause */
/* Damaged streams on the GPU: both engines refuse them, or restore the same; the GPU works on. */
#include "check_gpu.h"

#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return n ? random_state % n : 0;
}

/* Damages the payload; returns the new length. */
static size_t damage(uint8_t *stream, size_t header_nbytes, size_t nbytes)
{
    const size_t payload = nbytes - header_nbytes;
    if (payload == 0)
        return nbytes;
    switch (random_below(5)) {
    case 0: stream[header_nbytes + random_below(payload)] ^= (uint8_t)(1u << random_below(8)); break;
    case 1:
        for (int i = 0; i < 4; i++)
            stream[header_nbytes + random_below(payload)] = (uint8_t)random_below(256);
        break;
    case 2: /* tables are in front */
        stream[header_nbytes + random_below(payload < 64 ? payload : 64)] = (uint8_t)random_below(256);
        break;
    case 3: /* sections of the small chains are at the end */
        stream[nbytes - 1 - random_below(payload < 200 ? payload : 200)] = (uint8_t)random_below(256);
        break;
    default: return nbytes - random_below(payload < 4000 ? payload : 4000);
    }
    return nbytes;
}

/* The first nbytes of c->other are restored by both engines. */
static void compare_damaged(struct gpu_check *g, fzm_ctx *ctx, const struct gpu_chunk *c, size_t nbytes,
                            int verify)
{
    size_t n = 0, m = 0;
    const int cpu = fzm_decompress(g->cpu, c->other, nbytes, c->expected, c->nbytes, &n, verify);
    const int gpu = fzm_decompress(ctx, c->other, nbytes, c->out, c->nbytes, &m, verify);
    GPU_CHECK(cpu == gpu, "%s, damaged: the CPU gives %d (%s), the GPU %d (%s)", c->name, cpu,
              fzm_error_text(g->cpu), gpu, fzm_error_text(ctx));
    if (cpu == 0 && gpu == 0)
        GPU_CHECK(n == m && memcmp(c->out, c->expected, n) == 0, "%s, damaged: restored arrays differ",
                  c->name);
}

static void check_random_damage(struct gpu_check *g, struct gpu_chunk *c)
{
    fzm_stream_info info;
    if (fzm_stream_read_info(c->stream, c->stream_nbytes, &info, NULL, 0, NULL) < 0)
        return;
    for (int k = 0; k < (g->is_quick ? 6 : 60); k++) {
        memcpy(c->other, c->stream, c->stream_nbytes);
        const size_t nbytes = damage(c->other, (size_t)info.header_nbytes, c->stream_nbytes);
        compare_damaged(g, k % 3 ? g->gpu : g->staged, c, nbytes, k % 8 == 0);
    }
}

/* Every byte of the stream, header too, is damaged in turn, then the stream is cut there. */
static void check_all_damage(struct gpu_check *g, struct gpu_chunk *c)
{
    const size_t step = g->is_quick ? 61 : 1;
    for (size_t i = 0; i < c->stream_nbytes; i += step) {
        fzm_ctx *const ctx = i % 3 ? g->gpu : i % 2 ? g->staged : g->poisoned;
        memcpy(c->other, c->stream, c->stream_nbytes);
        c->other[i] ^= (uint8_t)(1u << random_below(8));
        compare_damaged(g, ctx, c, c->stream_nbytes, 0);
        if (i % 16 == 0)
            compare_damaged(g, ctx, c, c->stream_nbytes, 1);
        memcpy(c->other, c->stream, c->stream_nbytes);
        compare_damaged(g, ctx, c, i, i % 2 == 0);
    }
    GPU_CHECK(c->out[c->nbytes] == 0x77, "%s, damaged: written behind the output", c->name);
}

static void check_pipeline(struct gpu_check *g, const fzm_pipeline *p, const struct fzm_shape *shape,
                           int pattern, bool all)
{
    char text[FZM_ERROR_TEXT_NBYTES];
    struct gpu_chunk c;
    gpu_chunk_new(&c, shape, pattern, shape->n_elems);
    c.out[c.nbytes] = 0x77;
    if (fzm_pipeline_check(p, &c.array, text) == 0 &&
        fzm_compress(g->cpu, p, &c.array, c.in, c.nbytes, c.stream, c.cap, &c.stream_nbytes) == 0) {
        all ? check_all_damage(g, &c) : check_random_damage(g, &c);
        gpu_compare(g, g->gpu, p, &c, "after damage");
    }
    gpu_chunk_free(&c);
}

static void check_shapes(struct gpu_check *g, const fzm_pipeline *p, bool is_float)
{
    static const struct fzm_shape floats[] = {{FZM_F32, 1, {1, 1, 1, 70001}, 70001},
                                              {FZM_F32, 3, {1, 20, 33, 47}, 31020},
                                              {FZM_F64, 1, {1, 1, 1, 9001}, 9001}};
    static const struct fzm_shape small_float = {FZM_F32, 3, {1, 9, 13, 17}, 1989};
    static const struct fzm_shape ints[] = {{FZM_I16, 2, {1, 1, 100, 301}, 30100},
                                            {FZM_U8, 1, {1, 1, 1, 20000}, 20000}};
    static const struct fzm_shape small_int = {FZM_I32, 2, {1, 1, 33, 65}, 2145};
    const struct fzm_shape *const shapes = is_float ? floats : ints;
    const unsigned n_shapes = is_float ? sizeof floats / sizeof floats[0] : sizeof ints / sizeof ints[0];
    for (unsigned i = 0; i < n_shapes; i++) {
        check_pipeline(g, p, &shapes[i], PATTERN_SMOOTH, false);
        check_pipeline(g, p, &shapes[i], PATTERN_SPECIAL, false);
    }
    check_pipeline(g, p, is_float ? &small_float : &small_int, PATTERN_SPECIAL, true);
    check_pipeline(g, p, is_float ? &small_float : &small_int, PATTERN_SPARSE, true);
}

void gpu_check_damage(struct gpu_check *g)
{
    char text[FZM_ERROR_TEXT_NBYTES];
    for (size_t i = 0; fzm_preset(i); i++)
        for (int is_float = 0; is_float < 2; is_float++) {
            fzm_pipeline *p = NULL;
            if (fzm_pipeline_from_preset(&p, fzm_preset(i)->number, FZM_ABS, is_float ? 1e-1 : 3, text) == 0)
                check_shapes(g, p, is_float);
            fzm_pipeline_free(&p);
        }
    for (unsigned i = 0; gpu_pipeline_json(i); i++) {
        const char *const json = gpu_pipeline_json(i);
        fzm_pipeline *p = NULL;
        if (GPU_CHECK(fzm_pipeline_from_json(&p, json, strlen(json), text) == 0, "%s: %s", json, text)) {
            check_shapes(g, p, true);
            check_shapes(g, p, false);
        }
        fzm_pipeline_free(&p);
    }
}
