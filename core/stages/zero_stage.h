/* SPDX-License-Identifier: BSD-3-Clause */
/* The stage around the chunk coder of zero_code.h: included by rze.c and rre.c, which define
 *   REPEATS (0 or 1), ROW the row's symbol, NAME, HELP, WORD_AUTO, ID.
 *
 * Section: empty for empty input; else
 *   u64 bytes of the input
 *   u32 end of each group of 64 chunks, in bytes from the first payload
 *   u16 size of each chunk's payload: 0: every word is eliminated; the chunk's length: stored as it is
 *   payloads back to back
 * Payload of a chunk of len bytes: its len / word words are cut into segments of 512 (of a 4096-element bit plane:
 * all), the last one shorter.
 *   u8 number of leading segments of mode 0
 *   2 bits for the mode of each other segment, LSB first, padded to a byte
 *   the other segments
 *   the len % word bytes left over
 * A word is kept if it differs from 0 (RZE) or from the word before it in the chunk, the first from 0 (RRE).
 * Segment of n words by mode:
 *   0  nothing is kept
 *   1  the words as they are
 *   2  bitmap: one bit per word, LSB first, set if the word is kept; the kept words
 *   3  u8 level 3, of level 2 the bytes that are not 0, of the bitmap the bytes that are not 0; the kept words.
 *      Level 2 has one bit per byte of the bitmap, level 3 one bit per byte of level 2, set if the byte is not 0.
 * The kept words of RZE with words of 1 byte, k of them, are stored as
 *   k bits, LSB first, padded to a byte: 1: a single bit of the byte is set
 *   3 bits for each of those, LSB first, padded to a byte: which bit
 *   the other kept bytes
 * and all others as they are. Encoders take the shortest mode, the lower one on ties. Pad bits are 0. */
#include "../cpu/pool.h"
#include "../cpu/zero_code.h"
#include "../le.h"
#include "../stage.h"

#include <stdatomic.h>
#include <string.h>

static const char *const word_names[] = {"auto", "1", "2", "4", "8", NULL};

/* auto: RZE single bytes, since planes of bits are what it is for; RRE whole elements. */
static unsigned word_of(const struct fzm_zero_code_params *p, int dtype)
{
    return p->word ? 1u << (p->word - 1) : REPEATS ? (unsigned)fzm_dtype_nbytes(dtype) : 1u;
}

static uint32_t chunk_nbytes_of(const struct fzm_zero_code_params *p, int dtype)
{
    return p->chunk_size ? p->chunk_size : 4096u * (uint32_t)fzm_dtype_nbytes(dtype);
}

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_zero_code_params *const p = params;
    if (p->chunk_size && (p->chunk_size < 512 || p->chunk_size % 64 != 0))
        return fzm_err_set(err, FZM_ERR_CONFIG, NAME ": chunk_size %u is neither 0 nor a multiple of 64 from 512 to %d",
                           p->chunk_size, FZM_ZERO_MAX_CHUNK);
    const uint64_t nbytes = fzm_shape_nbytes(&in[0]);
    out[0] = fzm_shape_1d(FZM_BYTES, fzm_zero_table_nbytes(fzm_zero_n_chunks(nbytes, chunk_nbytes_of(p, in[0].dtype))) +
                                         nbytes);
    return 0;
}

/* A worker's slot: the payloads of a group. */
static size_t slot_nbytes(uint64_t in_nbytes, uint32_t chunk_nbytes)
{
    const uint64_t group = (uint64_t)FZM_ZERO_GROUP_CHUNKS * chunk_nbytes;
    const uint64_t n = fzm_zero_n_chunks(in_nbytes, chunk_nbytes) * chunk_nbytes;
    return ((size_t)(n < group ? n : group) + FZM_ZERO_EXTRA_NBYTES + 63) / 64 * 64;
}

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    return n_threads * slot_nbytes(fzm_shape_nbytes(&in[0]), chunk_nbytes_of(params, in[0].dtype));
}

struct job {
    const struct fzm_zero_kernels *kernels;
    unsigned word;
    uint32_t chunk_nbytes;
    uint64_t in_nbytes, n_chunks;
    uint8_t *array;
    uint8_t *slots;
    size_t slot_nbytes;
    uint8_t *group_ends, *sizes, *payloads; /* forward */
    struct fzm_sequence sequence;
    struct fzm_zero_section section; /* inverse */
    atomic_bool damaged;
};

static void encode_group(void *arg, size_t group, unsigned worker)
{
    struct job *const j = arg;
    uint8_t *const slot = j->slots + worker * j->slot_nbytes, *p = slot;
    const uint64_t first = (uint64_t)group * FZM_ZERO_GROUP_CHUNKS;
    for (uint64_t i = first; i < j->n_chunks && i < first + FZM_ZERO_GROUP_CHUNKS; i++) {
        const uint64_t at = i * j->chunk_nbytes, left = j->in_nbytes - at;
        const size_t n = left < j->chunk_nbytes ? (size_t)left : j->chunk_nbytes;
        const size_t nbytes = fzm_zero_chunk_encode(j->kernels, j->array + at, n, j->word, REPEATS, 0, p);
        fzm_put_le16(j->sizes + 2 * i, (uint16_t)nbytes);
        p += nbytes;
    }
    const size_t nbytes = (size_t)(p - slot);
    const uint64_t offset = fzm_sequence_take(&j->sequence, group, nbytes);
    fzm_put_le32(j->group_ends + 4 * group, (uint32_t)(offset + nbytes));
    memcpy(j->payloads + offset, slot, nbytes);
}

static int forward(struct fzm_call *c)
{
    const struct fzm_zero_code_params *const p = c->params;
    struct job j;
    memset(&j, 0, sizeof j);
    j.kernels = fzm_zero_kernels_get();
    j.word = word_of(p, c->in[0].shape.dtype);
    j.chunk_nbytes = chunk_nbytes_of(p, c->in[0].shape.dtype);
    j.in_nbytes = c->in[0].nbytes;
    j.n_chunks = fzm_zero_n_chunks(j.in_nbytes, j.chunk_nbytes);
    j.array = c->in[0].data;
    j.slots = c->scratch;
    j.slot_nbytes = slot_nbytes(j.in_nbytes, j.chunk_nbytes);
    c->out[0].nbytes = 0;
    if (j.in_nbytes == 0)
        return 0;
    const size_t n_groups = (size_t)fzm_div_up(j.n_chunks, FZM_ZERO_GROUP_CHUNKS);
    uint8_t *const section = c->out[0].data;
    fzm_put_le64(section, j.in_nbytes);
    j.group_ends = section + 8;
    j.sizes = j.group_ends + 4 * n_groups;
    j.payloads = section + fzm_zero_table_nbytes(j.n_chunks);
    fzm_pool_run(c->pool, n_groups, encode_group, &j);
    c->out[0].nbytes = (size_t)(fzm_zero_table_nbytes(j.n_chunks) + j.sequence.total);
    return 0;
}

static int inverse_nbytes(const void *params, const struct fzm_buf *out, size_t *in_nbytes, struct fzm_err *err)
{
    (void)params;
    if (out[0].nbytes == 0) {
        *in_nbytes = 0;
        return 0;
    }
    if (out[0].nbytes < 8)
        return fzm_err_set(err, FZM_ERR_CORRUPT, NAME ": section of %zu bytes is cut", out[0].nbytes);
    const uint64_t n = fzm_get_le64(out[0].data);
    if (n == 0 || n > SIZE_MAX / 2)
        return fzm_err_set(err, FZM_ERR_CORRUPT, NAME ": section with an impossible size of its input");
    *in_nbytes = (size_t)n;
    return 0;
}

static void decode_group(void *arg, size_t group, unsigned worker)
{
    (void)worker;
    struct job *const j = arg;
    const uint64_t first = (uint64_t)group * FZM_ZERO_GROUP_CHUNKS;
    const uint8_t *p, *end;
    bool good = fzm_zero_section_group(&j->section, group, &p, &end);
    for (uint64_t i = first; good && i < j->n_chunks && i < first + FZM_ZERO_GROUP_CHUNKS; i++) {
        const uint64_t at = i * j->chunk_nbytes, left = j->in_nbytes - at;
        const size_t n = left < j->chunk_nbytes ? (size_t)left : j->chunk_nbytes;
        const size_t nbytes = fzm_get_le16(j->section.sizes + 2 * i);
        good = nbytes <= (size_t)(end - p) &&
               fzm_zero_chunk_decode(j->kernels, p, nbytes, fzm_zero_section_has_slack(&j->section, p + nbytes), n, j->word,
                                     REPEATS, j->array + at, NULL);
        p += nbytes;
    }
    if (!good || p != end)
        atomic_store(&j->damaged, true);
}

static int inverse(struct fzm_call *c)
{
    const struct fzm_zero_code_params *const p = c->params;
    struct job j;
    memset(&j, 0, sizeof j);
    j.kernels = fzm_zero_kernels_get();
    j.word = word_of(p, c->in[0].shape.dtype);
    j.chunk_nbytes = chunk_nbytes_of(p, c->in[0].shape.dtype);
    j.in_nbytes = c->in[0].nbytes;
    j.array = c->in[0].data;
    if (!fzm_zero_section_open(&j.section, c->out[0].data, c->out[0].nbytes, j.in_nbytes, j.chunk_nbytes))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, NAME ": section of %zu bytes does not hold %llu", c->out[0].nbytes,
                           (unsigned long long)j.in_nbytes);
    j.n_chunks = j.section.n_chunks;
    fzm_pool_run(c->pool, (size_t)fzm_div_up(j.n_chunks, FZM_ZERO_GROUP_CHUNKS), decode_group, &j);
    if (atomic_load(&j.damaged))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, NAME ": a chunk's payload is damaged");
    return 0;
}

static const struct fzm_port inputs[] = {{"input", "any", 0}};
static const struct fzm_port outputs[] = {{"output", "bytes", FZM_PORT_VARIABLE}};
static const struct fzm_param params[] = {
    {"word", "bytes of a word; auto: " WORD_AUTO, FZM_P_ENUM, 0, offsetof(struct fzm_zero_code_params, word), 0, 4, 0,
     word_names},
    {"chunk_size", "bytes coded on their own, a multiple of 64 from 512; 0: 4096 elements", FZM_P_U32, 0,
     offsetof(struct fzm_zero_code_params, chunk_size), 0, FZM_ZERO_MAX_CHUNK, 0, NULL},
};

const struct fzm_stage ROW = {
    .name = NAME,
    .help = HELP,
    .reference = "LC framework (Texas State University), components RZE and RRE; A. Fallin et al., PFPL, IPDPS 2025",
    .id = ID,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .n_params = 2,
    .params_nbytes = sizeof(struct fzm_zero_code_params),
    .in = inputs,
    .out = outputs,
    .params = params,
    .shape = shape,
    .scratch = scratch,
    .inverse_nbytes = inverse_nbytes,
    .forward = forward,
    .inverse = inverse,
};
