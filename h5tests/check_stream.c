/* SPDX-License-Identifier: BSD-3-Clause */
/* The public API: round trips over types, shapes, patterns, presets and modes with strict bounds, size
 * limits, damaged and foreign streams, determinism, memory.
 *     check_stream [--seed=N] */
#include "../tools/cmd.h"
#include "check.h"
#include "cpu/isa.h"
#include "ctx.h"
#include "patterns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER_3D_NBYTES = 96 };

struct request {
    int preset, mode;
    double bound;
};

/* Chunk, stream and restored chunk of one round trip. */
struct chunk {
    fzm_array array;
    int pattern;
    uint8_t *in, *stream, *out;
    size_t in_nbytes, stream_cap, stream_nbytes;
};

static const char *chunk_name(const struct chunk *c, const struct request *r)
{
    static char text[200];
    char shape[100];
    size_t at = 0;
    shape[0] = 0;
    for (int i = 0; i < c->array.rank; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, i ? "x" : "", c->array.dims[i]);
    snprintf(text, sizeof text, "%s %s %s %s, preset %d, %s %g", fzm_dtype_name(c->array.dtype), shape,
             pattern_name(c->pattern), c->array.big_endian ? "big-endian" : "", r->preset,
             fzm_mode_name(r->mode), r->bound);
    return text;
}

static void chunk_new(struct chunk *c, int dtype, int rank, const uint64_t *dims, int pattern)
{
    memset(c, 0, sizeof *c);
    c->array.dtype = dtype;
    c->array.rank = rank;
    c->pattern = pattern;
    uint64_t n_elems = 1;
    for (int i = 0; i < rank; i++)
        n_elems *= c->array.dims[i] = dims[i];
    c->in_nbytes = (size_t)n_elems * cmd_dtype_nbytes(dtype);
    c->stream_cap = fzm_compress_bound(&c->array);
    c->in = malloc(c->in_nbytes + 1);
    c->out = malloc(c->in_nbytes + 1);
    c->stream = malloc(c->stream_cap);
    if (!c->in || !c->out || !c->stream)
        abort();
    pattern_fill(c->in, dtype, (size_t)n_elems, pattern, check_random());
    memset(c->out, 0x5c, c->in_nbytes + 1);
}

static void chunk_free(struct chunk *c)
{
    free(c->in);
    free(c->out);
    free(c->stream);
}

static fzm_ctx *ctx_new(unsigned n_threads)
{
    fzm_options options = {.size = sizeof options, .engine = FZM_ENGINE_CPU, .n_threads = n_threads};
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_ctx *ctx = NULL;
    CHECK(fzm_ctx_new(&ctx, &options, text) == 0, "no context: %s", text);
    if (!ctx)
        abort();
    return ctx;
}

/* NULL if the preset does not take this mode or array. */
static fzm_pipeline *pipeline_for(const struct request *r, const fzm_array *array)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_pipeline *p = NULL;
    if (fzm_pipeline_from_preset(&p, r->preset, r->mode, r->bound, text) < 0) {
        CHECK(text[0] != 0 && !p, "a refused preset must say why");
        return NULL;
    }
    if (fzm_pipeline_check(p, array, text) < 0) {
        CHECK(text[0] != 0, "a refused array must say why");
        fzm_pipeline_free(&p);
    }
    return p;
}

static void swap_bytes(uint8_t *data, size_t nbytes, size_t elem_nbytes)
{
    for (size_t i = 0; i < nbytes; i += elem_nbytes)
        for (size_t k = 0; k < elem_nbytes / 2; k++) {
            const uint8_t b = data[i + k];
            data[i + k] = data[i + elem_nbytes - 1 - k];
            data[i + elem_nbytes - 1 - k] = b;
        }
}

static void check_bound(const struct chunk *c, const struct request *r)
{
    const struct cmd_bound bound = {.given = true, .mode = r->mode, .value = r->bound};
    const size_t elem_nbytes = cmd_dtype_nbytes(c->array.dtype);
    if (c->array.big_endian) {
        swap_bytes(c->in, c->in_nbytes, elem_nbytes);
        swap_bytes(c->out, c->in_nbytes, elem_nbytes);
    }
    struct cmd_difference d;
    cmd_compare_arrays(c->in, c->out, c->array.dtype, c->in_nbytes / elem_nbytes, NULL, &bound, &d);
    CHECK(d.n_violations == 0, "%s: %" PRIu64 " violations, worst %.9g of the bound", chunk_name(c, r),
          d.n_violations, d.error_over_bound);
    if (c->array.big_endian) {
        swap_bytes(c->in, c->in_nbytes, elem_nbytes);
        swap_bytes(c->out, c->in_nbytes, elem_nbytes);
    }
}

/* Decompressed data compressed again must come back unchanged. */
static void check_idempotent(struct chunk *c, const struct request *r, fzm_ctx *ctx, const fzm_pipeline *p)
{
    size_t nbytes = 0;
    uint8_t *const again = malloc(c->in_nbytes + 1), *const stream = malloc(c->stream_cap);
    if (!again || !stream)
        abort();
    CHECK(fzm_compress(ctx, p, &c->array, c->out, c->in_nbytes, stream, c->stream_cap, &nbytes) == 0,
          "%s: second compression: %s", chunk_name(c, r), fzm_error_text(ctx));
    CHECK(fzm_decompress(ctx, stream, nbytes, again, c->in_nbytes, &nbytes, 1) == 0 && nbytes == c->in_nbytes,
          "%s: second decompression: %s", chunk_name(c, r), fzm_error_text(ctx));
    CHECK(memcmp(again, c->out, c->in_nbytes) == 0, "%s: not idempotent", chunk_name(c, r));
    free(again);
    free(stream);
}

static void check_info(const struct chunk *c, const struct request *r)
{
    fzm_stream_info info;
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    static char json[16384];
    CHECK(fzm_stream_read_info(c->stream, c->stream_nbytes, &info, json, sizeof json, text) == 0,
          "%s: info: %s", chunk_name(c, r), text);
    CHECK(info.stream_nbytes == c->stream_nbytes && info.array_nbytes == c->in_nbytes &&
              info.array.dtype == c->array.dtype && (info.mode == r->mode || info.mode == FZM_LOSSLESS),
          "%s: info disagrees with the chunk", chunk_name(c, r));
    CHECK(c->array.rank > 3 || info.header_nbytes <= MAX_HEADER_3D_NBYTES, "%s: header of %" PRIu64 " bytes",
          chunk_name(c, r), info.header_nbytes);
    uint64_t sum = info.header_nbytes;
    for (unsigned i = 0; i < info.n_sections; i++)
        sum += info.sections[i].nbytes;
    CHECK(info.stored || sum == c->stream_nbytes, "%s: header and sections have %" PRIu64 " bytes of %zu",
          chunk_name(c, r), sum, c->stream_nbytes);
}

static void round_trip(struct chunk *c, const struct request *r, fzm_ctx *const *ctx)
{
    fzm_pipeline *p = pipeline_for(r, &c->array);
    if (!p)
        return;
    size_t nbytes = 0;
    const int code =
        fzm_compress(ctx[0], p, &c->array, c->in, c->in_nbytes, c->stream, c->stream_cap, &c->stream_nbytes);
    CHECK(code == 0, "%s: compress: %s", chunk_name(c, r), fzm_error_text(ctx[0]));
    CHECK(c->stream_nbytes <= c->in_nbytes + FZM_MAX_OVERHEAD_NBYTES, "%s: %zu bytes for %zu",
          chunk_name(c, r), c->stream_nbytes, c->in_nbytes);
    CHECK(strcmp(fzm_ctx_engine_used(ctx[0]), "cpu") == 0, "engine is %s", fzm_ctx_engine_used(ctx[0]));
    if (code == 0) {
        /* other thread counts, staged run, plain C: the same bytes */
        uint8_t *const other = malloc(c->stream_cap);
        for (int k = 1; k < 4 && other; k++) {
            fzm_isa_set_limit(k == 3 ? FZM_ISA_C : FZM_ISA_AVX512);
            const int other_code =
                fzm_compress(ctx[k], p, &c->array, c->in, c->in_nbytes, other, c->stream_cap, &nbytes);
            CHECK(other_code == 0 && nbytes == c->stream_nbytes && memcmp(other, c->stream, nbytes) == 0,
                  "%s: other bytes with %s", chunk_name(c, r),
                  k == 1   ? "2 threads"
                  : k == 2 ? "no fusion"
                           : "plain C");
        }
        free(other);
        for (int k = 3; k >= 0; k--) {
            memset(c->out, 0x5c, c->in_nbytes);
            fzm_isa_set_limit(k == 3 ? FZM_ISA_C : FZM_ISA_AVX512);
            CHECK(fzm_decompress(ctx[k], c->stream, c->stream_nbytes, c->out, c->in_nbytes, &nbytes, 1) ==
                          0 &&
                      nbytes == c->in_nbytes,
                  "%s: decompress: %s", chunk_name(c, r), fzm_error_text(ctx[k]));
            check_bound(c, r);
        }
        CHECK(c->out[c->in_nbytes] == 0x5c, "%s: written behind the output", chunk_name(c, r));
        check_info(c, r);
        if (r->preset <= 5 && r->mode <= FZM_REL) /* the others depend on the range of the values */
            check_idempotent(c, r, ctx[0], p);
    }
    fzm_pipeline_free(&p);
}

static const struct {
    int rank;
    uint64_t dims[6];
} shapes[] = {{0, {0}},         {1, {0}},          {1, {1}},          {1, {33}},
              {1, {257}},       {1, {4097}},       {2, {17, 31}},     {2, {65, 257}},
              {3, {5, 9, 17}},  {3, {33, 20, 65}}, {4, {3, 4, 5, 9}}, {6, {2, 3, 1, 4, 5, 7}},
              {3, {1, 70, 70}}, {3, {40, 50, 60}}, {2, {0, 5}},       {3, {2, 1, 1}}};

static bool next_request(unsigned i, int preset, int dtype, struct request *r)
{
    static const struct {
        int mode;
        double bound;
    } floats[] = {{FZM_LOSSLESS, 0}, {FZM_ABS, 1e-3},   {FZM_ABS, 1},      {FZM_ABS, 1e-300},
                  {FZM_REL, 1e-3},   {FZM_RANGE, 1e-3}, {FZM_RANGE, 1e-6}, {FZM_MAXABS, 1e-2},
                  {FZM_PSNR, 70},    {FZM_ABS, 0},      {FZM_ABS, 1e300}};
    static const struct {
        int mode;
        double bound;
    } ints[] = {{FZM_LOSSLESS, 0}, {FZM_ABS, 1}, {FZM_ABS, 20}, {FZM_ABS, 0}};
    r->preset = preset;
    if (dtype >= FZM_F32) {
        if (i >= sizeof floats / sizeof floats[0])
            return false;
        r->mode = floats[i].mode;
        r->bound = floats[i].bound;
        return true;
    }
    if (i >= sizeof ints / sizeof ints[0])
        return false;
    r->mode = ints[i].mode;
    r->bound = ints[i].bound;
    return true;
}

static void check_round_trips(void)
{
    fzm_ctx *ctx[4] = {ctx_new(1), ctx_new(2), ctx_new(1), ctx_new(2)};
    fzm_ctx_set_fusion(ctx[2], 0);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int dtype = FZM_U8; dtype <= FZM_F64; dtype++)
            for (int pattern = 0; pattern < N_PATTERNS; pattern++) {
                struct chunk c;
                chunk_new(&c, dtype, shapes[s].rank, shapes[s].dims, pattern);
                c.array.big_endian = (int)((s + (unsigned)pattern) % 5 == 0);
                if (c.array.big_endian)
                    swap_bytes(c.in, c.in_nbytes, cmd_dtype_nbytes(dtype));
                if (pattern == PATTERN_MASKED && s % 2) {
                    c.array.has_fill = FZM_FILL_VALUE;
                    pattern_masked_value(c.array.fill, dtype);
                    if (c.array.big_endian)
                        swap_bytes(c.array.fill, cmd_dtype_nbytes(dtype), cmd_dtype_nbytes(dtype));
                }
                const fzm_preset_info *p;
                struct request r;
                for (size_t i = 0; (p = fzm_preset(i)) != NULL; i++)
                    for (unsigned k = 0; next_request(k, p->number, dtype, &r); k++)
                        if ((s + (unsigned)pattern + k) % (c.in_nbytes < 20000 ? 2 : 7) ==
                            0) /* not the whole product */
                            round_trip(&c, &r, ctx);
                chunk_free(&c);
            }
    for (int k = 0; k < 4; k++)
        fzm_ctx_free(&ctx[k]);
}

/* Every flipped bit and every cut of a small stream is found; out is never overrun. */
static void check_damage(const struct request *r, int dtype, int pattern)
{
    struct chunk c;
    static const uint64_t dims[] = {9, 13, 17};
    chunk_new(&c, dtype, 3, dims, pattern);
    fzm_ctx *ctx = ctx_new(1);
    fzm_pipeline *p = pipeline_for(r, &c.array);
    size_t nbytes = 0;
    if (p &&
        fzm_compress(ctx, p, &c.array, c.in, c.in_nbytes, c.stream, c.stream_cap, &c.stream_nbytes) == 0) {
        uint8_t *const damaged = malloc(c.stream_nbytes);
        if (!damaged)
            abort();
        for (size_t i = 0; i < c.stream_nbytes; i++) {
            memcpy(damaged, c.stream, c.stream_nbytes);
            damaged[i] ^= (uint8_t)(1u << (check_random() % 8));
            const int code = fzm_decompress(ctx, damaged, c.stream_nbytes, c.out, c.in_nbytes, &nbytes, 1);
            CHECK(code < 0 && fzm_error_text(ctx)[0], "%s: a flip in byte %zu is not found",
                  chunk_name(&c, r), i);
            /* without the checksum any result is right, as long as it stays inside */
            (void)fzm_decompress(ctx, damaged, c.stream_nbytes, c.out, c.in_nbytes, &nbytes, 0);
        }
        for (size_t cut = 0; cut < c.stream_nbytes; cut++) {
            uint8_t *const part = malloc(cut + (cut == 0));
            if (!part)
                abort();
            memcpy(part, c.stream, cut);
            CHECK(fzm_decompress(ctx, part, cut, c.out, c.in_nbytes, &nbytes, 1) < 0,
                  "%s: a cut at %zu is not found", chunk_name(&c, r), cut);
            free(part);
        }
        CHECK(c.out[c.in_nbytes] == 0x5c, "%s: written behind the output", chunk_name(&c, r));
        CHECK(fzm_decompress(ctx, c.stream, c.stream_nbytes, c.out, c.in_nbytes - 1, &nbytes, 1) ==
                  FZM_ERR_CAPACITY,
              "%s: an output too small by one byte must be refused", chunk_name(&c, r));
        CHECK(fzm_decompress(ctx, c.stream, c.stream_nbytes, c.out, c.in_nbytes, &nbytes, 1) == 0,
              "%s: the context does not work after failures: %s", chunk_name(&c, r), fzm_error_text(ctx));
        size_t small = 0;
        CHECK(fzm_compress(ctx, p, &c.array, c.in, c.in_nbytes, damaged, c.stream_nbytes - 1, &small) ==
                  FZM_ERR_CAPACITY,
              "%s: a stream buffer too small by one byte must be refused", chunk_name(&c, r));
        free(damaged);
    }
    fzm_pipeline_free(&p);
    fzm_ctx_free(&ctx);
    chunk_free(&c);
}

static void check_foreign(void)
{
    fzm_ctx *ctx = ctx_new(1);
    uint8_t bytes[4096], out[64];
    size_t nbytes = 0;
    for (unsigned k = 0; k < 3000; k++) {
        const size_t n = (size_t)(check_random() % sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)check_random();
        CHECK(fzm_decompress(ctx, bytes, n, out, sizeof out, &nbytes, 1) < 0, "random bytes decode");
    }
    memset(bytes, 0, sizeof bytes);
    CHECK(fzm_decompress(ctx, bytes, sizeof bytes, out, sizeof out, &nbytes, 1) < 0, "zeros decode");
    CHECK(fzm_decompress(ctx, NULL, 0, out, sizeof out, &nbytes, 1) < 0, "nothing decodes");
    fzm_ctx_free(&ctx);
}

/* Memory: below three chunks with the chunk and the stream themselves, and no growth over calls. */
static void check_memory(const struct request *r)
{
    static const uint64_t dims[] = {64, 128, 256};
    struct chunk c;
    chunk_new(&c, FZM_F32, 3, dims, PATTERN_SMOOTH);
    fzm_ctx *ctx = ctx_new(2);
    fzm_pipeline *p = pipeline_for(r, &c.array);
    size_t after_two = 0, nbytes = 0;
    for (int i = 0; i < 6 && p; i++) {
        CHECK(fzm_compress(ctx, p, &c.array, c.in, c.in_nbytes, c.stream, c.stream_cap, &c.stream_nbytes) ==
                  0,
              "%s", fzm_error_text(ctx));
        const size_t held = fzm_ctx_memory_nbytes(ctx);
        CHECK(held + c.stream_nbytes + c.in_nbytes <= 3 * c.in_nbytes,
              "%s: compress holds %.2f chunks, stream %.2f", chunk_name(&c, r),
              (double)held / (double)c.in_nbytes, (double)c.stream_nbytes / (double)c.in_nbytes);
        CHECK(fzm_decompress(ctx, c.stream, c.stream_nbytes, c.out, c.in_nbytes, &nbytes, 1) == 0, "%s",
              fzm_error_text(ctx));
        CHECK(fzm_ctx_memory_nbytes(ctx) + c.stream_nbytes + c.in_nbytes <= 3 * c.in_nbytes,
              "%s: decompress holds %.2f chunks", chunk_name(&c, r),
              (double)fzm_ctx_memory_nbytes(ctx) / (double)c.in_nbytes);
        if (i == 1)
            after_two = fzm_ctx_memory_nbytes(ctx);
    }
    CHECK(!p || fzm_ctx_memory_nbytes(ctx) <= after_two, "%s: memory grows over calls", chunk_name(&c, r));
    fzm_pipeline_free(&p);
    fzm_ctx_free(&ctx);
    chunk_free(&c);
}

int main(int argc, char **argv)
{
    check_seed(argc, argv);
    const fzm_preset_info *p;
    for (size_t i = 0; (p = fzm_preset(i)) != NULL; i++) {
        const struct request lossy = {p->number, FZM_ABS, 0.01}, lossless = {p->number, FZM_LOSSLESS, 0},
                             range = {p->number, FZM_RANGE, 1e-3};
        check_damage(&lossy, FZM_F32, PATTERN_SPECIAL);
        check_damage(&lossy, FZM_F64, PATTERN_SMOOTH);
        check_damage(&lossless, FZM_F32, PATTERN_SMOOTH);
        check_damage(&lossless, FZM_I16, PATTERN_RANDOM);
        check_memory(&range);
        check_memory(&lossless);
    }
    check_foreign();
    check_round_trips();
    return check_done();
}
