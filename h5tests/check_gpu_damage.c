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

static void check_damaged(struct gpu_check *g, fzm_ctx *ctx, const struct gpu_chunk *c, int verify)
{
    fzm_stream_info info;
    size_t n = 0, m = 0;
    if (fzm_stream_read_info(c->stream, c->stream_nbytes, &info, NULL, 0, NULL) < 0)
        return;
    memcpy(c->other, c->stream, c->stream_nbytes);
    const size_t nbytes = damage(c->other, (size_t)info.header_nbytes, c->stream_nbytes);
    const int cpu = fzm_decompress(g->cpu, c->other, nbytes, c->expected, c->nbytes, &n, verify);
    const int gpu = fzm_decompress(ctx, c->other, nbytes, c->out, c->nbytes, &m, verify);
    if (gpu == FZM_ERR_ENGINE && strstr(fzm_error_text(ctx), "does not run there")) {
        g->n_declined++;
        return;
    }
    GPU_CHECK(cpu == gpu, "%s, damaged: the CPU gives %d (%s), the GPU %d (%s)", c->name, cpu, fzm_error_text(g->cpu), gpu,
              fzm_error_text(ctx));
    if (cpu == 0 && gpu == 0)
        GPU_CHECK(memcmp(c->out, c->expected, n) == 0, "%s, damaged: restored arrays differ", c->name);
}

void gpu_check_damage(struct gpu_check *g)
{
    static const struct fzm_shape shapes[] = {{FZM_F32, 1, {1, 1, 1, 70001}, 70001},
                                              {FZM_F32, 3, {1, 20, 33, 47}, 31020},
                                              {FZM_I16, 2, {1, 1, 100, 301}, 30100},
                                              {FZM_F64, 1, {1, 1, 1, 9001}, 9001}};
    const int n_trials = g->is_quick ? 6 : 60;
    char text[FZM_ERROR_TEXT_NBYTES];
    for (size_t i = 0; fzm_preset(i); i++)
        for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int pattern = PATTERN_SMOOTH; pattern <= PATTERN_SPECIAL; pattern += PATTERN_SPECIAL - PATTERN_SMOOTH) {
                fzm_pipeline *p = NULL;
                struct gpu_chunk c;
                gpu_chunk_new(&c, &shapes[s], pattern, i);
                const double bound = fzm_dtype_is_float(shapes[s].dtype) ? 1e-3 : 3;
                if (fzm_pipeline_from_preset(&p, fzm_preset(i)->number, FZM_ABS, bound, text) == 0 &&
                    fzm_compress(g->cpu, p, &c.array, c.in, c.nbytes, c.stream, c.cap, &c.stream_nbytes) == 0) {
                    for (int k = 0; k < n_trials; k++)
                        check_damaged(g, k % 3 ? g->gpu : g->staged, &c, k % 8 == 0);
                    gpu_compare(g, g->gpu, p, &c, "after damage");
                }
                fzm_pipeline_free(&p);
                gpu_chunk_free(&c);
            }
}
