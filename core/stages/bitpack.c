/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitpack: integers in a fixed number of bits, chosen by the user or block by block.
 *
 * Layout (little-endian; empty for no elements). Bit strings hold fields of w bits one after the other,
 * least significant bit first: field i is bits i w .. i w + w - 1, bit j being bit j % 8 of byte j / 8.
 *   u64                bytes of the input
 * nbits given:
 *   bit string         the lowest nbits of every element, zero-padded to a byte. Signed types come back
 *                      sign-extended; forward() refuses elements that would not come back.
 * nbits 0 (auto): blocks of 4096 elements, the last one shorter:
 *   u32 end[n_blocks]  end of each block's payload, in units of 8 bytes from the end of this table
 *   payloads           one per block, back to back:
 *     (nothing)        if all elements are 0; else
 *     u8 width         0..64
 *     u8 shift         0..63
 *     6 zero bytes
 *     u64 minimum      of the block, as the type's own bits
 *     bit string       (element - minimum) >> shift in width bits; zero-padded to 8 bytes */
#include "bitpack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "../cpu/pool.h"
#include "../le.h"
#include "../stages.h"

/* A worker's scratch: a block's payload. */
enum { SLOT_NBYTES = FZM_BITPACK_BLOCK_HEAD_NBYTES + 48 + FZM_BITPACK_BLOCK_ELEMS * 8 };

struct job {
    uint8_t *elems; /* input of forward(), output of inverse() */
    uint64_t n_elems;
    uint32_t elem_nbytes, nbits;
    bool is_signed;
    uint64_t flip; /* sign bit of a signed type */
    uint8_t *slots, *section;
    uint8_t *payloads;
    uint64_t payloads_nbytes;
    struct fzm_sequence sequence;
    _Atomic uint64_t first_misfit; /* index of the first element that does not fit, or UINT64_MAX */
    atomic_bool damaged;
};

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_bitpack_params *const p = params;
    if (!fzm_dtype_is_int(in->dtype))
        return fzm_err_set(err, FZM_ERR_CONFIG, "Bitpack: takes integers, got type %s",
                           fzm_dtype_name(in->dtype));
    const uint32_t elem_nbits = 8 * (uint32_t)fzm_dtype_nbytes(in->dtype);
    if (p->nbits > elem_nbits)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Bitpack: nbits %u, elements of type %s have %u",
                           (unsigned)p->nbits, fzm_dtype_name(in->dtype), (unsigned)elem_nbits);
    if (in->n_elems > (uint64_t)1 << 40)
        return fzm_err_set(err, FZM_ERR_UNSUPPORTED, "Bitpack: more than 2^40 elements");
    const uint64_t bound = fzm_bitpack_bound(in->n_elems, p->nbits, elem_nbits);
    if (bound / 8 > UINT32_MAX || bound > SIZE_MAX)
        return fzm_err_set(err, FZM_ERR_UNSUPPORTED, "Bitpack: input of more than 32 GiB");
    *out = fzm_shape_1d(FZM_BYTES, bound);
    return FZM_OK;
}

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    (void)params;
    (void)in;
    return (size_t)SLOT_NBYTES * n_threads;
}

/* n (<= 64) elements to 64 bits each, unsigned or sign-extended; the missing ones are 0. */
static void load_group(const struct job *j, const uint8_t *p, size_t n, uint64_t v[FZM_BITPACK_GROUP_ELEMS])
{
    if (n < FZM_BITPACK_GROUP_ELEMS)
        memset(v, 0, FZM_BITPACK_GROUP_ELEMS * sizeof *v);
    switch (j->elem_nbytes) {
    case 1:
        for (size_t i = 0; i < n; i++)
            v[i] = p[i];
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            v[i] = fzm_get_le16(p + 2 * i);
        break;
    case 4:
        for (size_t i = 0; i < n; i++)
            v[i] = fzm_get_le32(p + 4 * i);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            v[i] = fzm_get_le64(p + 8 * i);
    }
}

static void store_group(const struct job *j, uint8_t *p, size_t n, const uint64_t v[FZM_BITPACK_GROUP_ELEMS])
{
    switch (j->elem_nbytes) {
    case 1:
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)v[i];
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            fzm_put_le16(p + 2 * i, (uint16_t)v[i]);
        break;
    case 4:
        for (size_t i = 0; i < n; i++)
            fzm_put_le32(p + 4 * i, (uint32_t)v[i]);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            fzm_put_le64(p + 8 * i, v[i]);
    }
}

/* Bytes of n fields from words, little-endian. */
static void put_words(uint8_t *p, const uint64_t *words, size_t nbytes)
{
    for (; nbytes >= 8; nbytes -= 8, p += 8)
        fzm_put_le64(p, *words++);
    for (size_t i = 0; i < nbytes; i++)
        p[i] = (uint8_t)(*words >> (8 * i));
}

static void get_words(uint64_t *words, const uint8_t *p, size_t nbytes)
{
    for (; nbytes >= 8; nbytes -= 8, p += 8)
        *words++ = fzm_get_le64(p);
    if (nbytes)
        *words = 0;
    for (size_t i = 0; i < nbytes; i++)
        *words |= (uint64_t)p[i] << (8 * i);
}

static size_t least(uint64_t a, size_t b) { return a < b ? (size_t)a : b; }

/* Elements of block i, and where they are. */
static size_t block_at(const struct job *j, uint64_t i, uint8_t **p)
{
    const uint64_t first = i * FZM_BITPACK_BLOCK_ELEMS;
    *p = j->elems + first * j->elem_nbytes;
    return least(j->n_elems - first, FZM_BITPACK_BLOCK_ELEMS);
}

static void note_misfit(struct job *j, uint64_t index)
{
    uint64_t seen = atomic_load_explicit(&j->first_misfit, memory_order_relaxed);
    while (index < seen && !atomic_compare_exchange_weak_explicit(
                               &j->first_misfit, &seen, index, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Sign-extends fields of nbits if the type is signed. */
static void extend_group(const struct job *j, uint32_t nbits, uint64_t v[FZM_BITPACK_GROUP_ELEMS])
{
    if (!j->is_signed)
        return;
    const uint64_t sign = (uint64_t)1 << (nbits - 1);
    for (unsigned i = 0; i < FZM_BITPACK_GROUP_ELEMS; i++)
        v[i] = (v[i] ^ sign) - sign;
}

/* nbits given: a block of fields starts at a whole byte, so blocks are independent. */
static void encode_fixed(void *arg, size_t i, unsigned worker)
{
    struct job *const j = arg;
    (void)worker;
    uint8_t *p;
    const size_t n = block_at(j, i, &p);
    uint8_t *out = j->section + 8 + i * (FZM_BITPACK_BLOCK_ELEMS / 8) * j->nbits;
    const uint64_t mask = fzm_bitpack_low_mask(j->nbits);
    uint64_t v[FZM_BITPACK_GROUP_ELEMS], words[64];
    for (size_t at = 0; at < n; at += FZM_BITPACK_GROUP_ELEMS) {
        const size_t n_here = least(n - at, FZM_BITPACK_GROUP_ELEMS);
        load_group(j, p + at * j->elem_nbytes, n_here, v);
        extend_group(j, 8 * j->elem_nbytes, v);
        bool fits = true;
        for (unsigned k = 0; k < FZM_BITPACK_GROUP_ELEMS; k++)
            fits &= fzm_bitpack_fits(v[k], j->nbits, j->is_signed);
        for (size_t k = 0; !fits && k < n_here; k++)
            if (!fzm_bitpack_fits(v[k], j->nbits, j->is_signed))
                note_misfit(j, (uint64_t)i * FZM_BITPACK_BLOCK_ELEMS + at + k);
        for (unsigned k = 0; k < FZM_BITPACK_GROUP_ELEMS; k++)
            v[k] &= mask;
        fzm_bitpack_pack_group(v, j->nbits, words);
        const size_t nbytes = (size_t)fzm_bitpack_fields_nbytes(n_here, j->nbits);
        put_words(out, words, nbytes);
        out += nbytes;
    }
}

static void decode_fixed(void *arg, size_t i, unsigned worker)
{
    const struct job *const j = arg;
    (void)worker;
    uint8_t *p;
    const size_t n = block_at(j, i, &p);
    const uint8_t *in = j->payloads + i * (FZM_BITPACK_BLOCK_ELEMS / 8) * j->nbits;
    uint64_t v[FZM_BITPACK_GROUP_ELEMS], words[64];
    memset(words, 0, sizeof words);
    for (size_t at = 0; at < n; at += FZM_BITPACK_GROUP_ELEMS) {
        const size_t n_here = least(n - at, FZM_BITPACK_GROUP_ELEMS);
        const size_t nbytes = (size_t)fzm_bitpack_fields_nbytes(n_here, j->nbits);
        get_words(words, in, nbytes);
        fzm_bitpack_unpack_group(words, j->nbits, v);
        extend_group(j, j->nbits, v);
        store_group(j, p + at * j->elem_nbytes, n_here, v);
        in += nbytes;
    }
}

static struct fzm_bitpack_block measure_block(const struct job *j, const uint8_t *p, size_t n)
{
    uint64_t v[FZM_BITPACK_GROUP_ELEMS], min = UINT64_MAX, max = 0, differing = 0, first = 0;
    for (size_t at = 0; at < n; at += FZM_BITPACK_GROUP_ELEMS) {
        const size_t n_here = least(n - at, FZM_BITPACK_GROUP_ELEMS);
        load_group(j, p + at * j->elem_nbytes, n_here, v);
        if (at == 0)
            first = v[0];
        for (size_t k = 0; k < n_here; k++) {
            const uint64_t x = v[k] ^ j->flip;
            min = x < min ? x : min;
            max = x > max ? x : max;
            differing |= v[k] ^ first;
        }
    }
    return fzm_bitpack_block_from(min, max, differing);
}

static void encode_auto(void *arg, size_t i, unsigned worker)
{
    struct job *const j = arg;
    uint8_t *p, *const payload = j->slots + (size_t)worker * SLOT_NBYTES;
    const size_t n = block_at(j, i, &p);
    const struct fzm_bitpack_block b = measure_block(j, p, n);
    size_t nbytes = 0;
    if (b.width || b.minimum != j->flip) {
        nbytes = (size_t)fzm_bitpack_block_nbytes(n, b.width);
        fzm_put_le64(payload, b.width | (uint64_t)b.shift << 8);
        fzm_put_le64(payload + 8, b.minimum ^ j->flip);
        uint8_t *out = payload + FZM_BITPACK_BLOCK_HEAD_NBYTES;
        for (size_t at = 0; b.width && at < n; at += FZM_BITPACK_GROUP_ELEMS) {
            uint64_t v[FZM_BITPACK_GROUP_ELEMS], words[64];
            const size_t n_here = least(n - at, FZM_BITPACK_GROUP_ELEMS);
            load_group(j, p + at * j->elem_nbytes, n_here, v);
            for (unsigned k = 0; k < FZM_BITPACK_GROUP_ELEMS; k++)
                v[k] = k < n_here ? ((v[k] ^ j->flip) - b.minimum) >> b.shift : 0;
            fzm_bitpack_pack_group(v, b.width, words);
            const size_t words_nbytes = ((size_t)fzm_bitpack_fields_nbytes(n_here, b.width) + 7) / 8 * 8;
            put_words(out, words, words_nbytes);
            out += words_nbytes;
        }
    }
    const uint64_t offset = fzm_sequence_take(&j->sequence, i, nbytes);
    memcpy(j->payloads + offset, payload, nbytes);
    fzm_put_le32(j->section + 8 + 4 * i, (uint32_t)((offset + nbytes) / 8));
}

static bool decode_block(const struct job *j, uint64_t i, uint8_t *p, size_t n)
{
    const uint8_t *const table = j->section + 8;
    const uint64_t begin = i ? (uint64_t)fzm_get_le32(table + 4 * (i - 1)) * 8 : 0;
    const uint64_t end = (uint64_t)fzm_get_le32(table + 4 * i) * 8;
    if (begin > end || end > j->payloads_nbytes)
        return false;
    if (begin == end) {
        memset(p, 0, n * j->elem_nbytes);
        return true;
    }
    if (end - begin < FZM_BITPACK_BLOCK_HEAD_NBYTES)
        return false;
    const uint8_t *const payload = j->payloads + begin;
    const uint32_t width = payload[0], shift = payload[1];
    if (width > 8 * j->elem_nbytes || shift > 63 || end - begin != fzm_bitpack_block_nbytes(n, width))
        return false;
    const uint64_t minimum = fzm_get_le64(payload + 8);
    const uint8_t *in = payload + FZM_BITPACK_BLOCK_HEAD_NBYTES;
    uint64_t v[FZM_BITPACK_GROUP_ELEMS], words[64];
    memset(v, 0, sizeof v);
    memset(words, 0, sizeof words);
    for (size_t at = 0; at < n; at += FZM_BITPACK_GROUP_ELEMS) {
        const size_t n_here = least(n - at, FZM_BITPACK_GROUP_ELEMS);
        if (width) {
            const size_t words_nbytes = ((size_t)fzm_bitpack_fields_nbytes(n_here, width) + 7) / 8 * 8;
            get_words(words, in, words_nbytes);
            fzm_bitpack_unpack_group(words, width, v);
            in += words_nbytes;
        }
        for (unsigned k = 0; k < FZM_BITPACK_GROUP_ELEMS; k++)
            v[k] = width ? (v[k] << shift) + minimum : minimum;
        store_group(j, p + at * j->elem_nbytes, n_here, v);
    }
    return true;
}

static void decode_auto(void *arg, size_t i, unsigned worker)
{
    struct job *const j = arg;
    (void)worker;
    uint8_t *p;
    const size_t n = block_at(j, i, &p);
    if (!decode_block(j, i, p, n))
        atomic_store_explicit(&j->damaged, true, memory_order_relaxed);
}

static uint64_t n_blocks_of(const struct job *j) { return fzm_div_up(j->n_elems, FZM_BITPACK_BLOCK_ELEMS); }

static void init_job(struct job *j, struct fzm_call *c)
{
    const struct fzm_bitpack_params *const p = c->params;
    memset(j, 0, sizeof *j);
    j->elems = c->in[0].data;
    j->n_elems = c->in[0].shape.n_elems;
    j->elem_nbytes = (uint32_t)fzm_dtype_nbytes(c->in[0].shape.dtype);
    j->nbits = p->nbits;
    j->is_signed = fzm_dtype_is_signed(c->in[0].shape.dtype);
    j->flip = fzm_bitpack_sign_flip(c->in[0].shape.dtype);
    j->slots = c->scratch;
    j->section = c->out[0].data;
    atomic_init(&j->first_misfit, UINT64_MAX);
}

static int misfit_error(const struct job *j, struct fzm_err *err)
{
    const uint64_t index = atomic_load_explicit(&j->first_misfit, memory_order_relaxed);
    uint64_t v[FZM_BITPACK_GROUP_ELEMS];
    load_group(j, j->elems + index * j->elem_nbytes, 1, v);
    extend_group(j, 8 * j->elem_nbytes, v);
    if (j->is_signed)
        return fzm_err_set(err, FZM_ERR_CONFIG,
                           "Bitpack: element %llu is %lld, which does not fit into nbits %u",
                           (unsigned long long)index, (long long)v[0], (unsigned)j->nbits);
    return fzm_err_set(err, FZM_ERR_CONFIG, "Bitpack: element %llu is %llu, which does not fit into nbits %u",
                       (unsigned long long)index, (unsigned long long)v[0], (unsigned)j->nbits);
}

/* The one forward() that refuses input: with nbits given, elements that need more. */
static int forward(struct fzm_call *c)
{
    struct job j;
    init_job(&j, c);
    const uint64_t n_blocks = n_blocks_of(&j), front = j.n_elems ? 8 + (j.nbits ? 0 : 4 * n_blocks) : 0;
    if (j.n_elems) {
        fzm_put_le64(j.section, j.n_elems * j.elem_nbytes);
        j.payloads = j.section + front;
        fzm_pool_run(c->pool, (size_t)n_blocks, j.nbits ? encode_fixed : encode_auto, &j);
    }
    if (atomic_load_explicit(&j.first_misfit, memory_order_relaxed) != UINT64_MAX)
        return misfit_error(&j, c->err);
    c->out[0].nbytes =
        (size_t)(front + (j.nbits ? fzm_bitpack_fields_nbytes(j.n_elems, j.nbits) : j.sequence.total));
    c->out[0].shape = fzm_shape_1d(FZM_BYTES, c->out[0].nbytes);
    return FZM_OK;
}

static int inverse(struct fzm_call *c)
{
    struct job j;
    init_job(&j, c);
    const uint64_t n_blocks = n_blocks_of(&j), front = j.n_elems ? 8 + (j.nbits ? 0 : 4 * n_blocks) : 0;
    const size_t nbytes = c->out[0].nbytes;
    if (nbytes < front || (j.n_elems == 0 && nbytes != 0))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitpack: section of %zu bytes", nbytes);
    if (j.n_elems == 0)
        return FZM_OK;
    j.payloads = j.section + front;
    j.payloads_nbytes = nbytes - front;
    const uint64_t told = j.nbits ? fzm_bitpack_fields_nbytes(j.n_elems, j.nbits)
                                  : (uint64_t)fzm_get_le32(j.section + front - 4) * 8;
    if (fzm_get_le64(j.section) != j.n_elems * j.elem_nbytes || told != j.payloads_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitpack: section of %zu bytes does not match its sizes",
                           nbytes);
    fzm_pool_run(c->pool, (size_t)n_blocks, j.nbits ? decode_fixed : decode_auto, &j);
    if (atomic_load_explicit(&j.damaged, memory_order_relaxed))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Bitpack: damaged block");
    return FZM_OK;
}

static int inverse_nbytes(const void *params_, const struct fzm_buf *out, size_t *in_nbytes,
                          struct fzm_err *err)
{
    (void)params_;
    if (out[0].nbytes > 0 && out[0].nbytes < 8)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Bitpack: section of %zu bytes", out[0].nbytes);
    const uint64_t nbytes = out[0].nbytes ? fzm_get_le64(out[0].data) : 0;
    if (nbytes > SIZE_MAX)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Bitpack: section too large for this machine");
    *in_nbytes = (size_t)nbytes;
    return FZM_OK;
}

static const struct fzm_port in_ports[] = {{"input", "int", 0}};
static const struct fzm_port out_ports[] = {{"output", "bytes", FZM_PORT_VARIABLE}};
static const struct fzm_param params[] = {
    {"nbits", "bits of every element; elements that need more are an error. 0: found per 4096 elements",
     FZM_P_U32, 0, offsetof(struct fzm_bitpack_params, nbits), 0, 64, 0, NULL},
};

const struct fzm_stage fzm_stage_bitpack = {
    .name = "Bitpack",
    .help =
        "integers in a fixed number of bits, given or found per 4096 elements (minimum, common shift, width)",
    .reference = "frame of reference packing",
    .id = 8,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .n_params = 1,
    .params_nbytes = sizeof(struct fzm_bitpack_params),
    .in = in_ports,
    .out = out_ports,
    .params = params,
    .shape = shape,
    .bound = NULL,
    .scratch = scratch,
    .inverse_nbytes = inverse_nbytes,
    .forward = forward,
    .inverse = inverse,
};
