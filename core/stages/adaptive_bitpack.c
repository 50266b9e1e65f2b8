/* SPDX-License-Identifier: BSD-3-Clause */
/* AdaptiveBitpack: integers in blocks, each stored with just the bits that its largest magnitude needs.
 *
 * Layout (little-endian; empty for no elements). Elements are taken as two's complement numbers of W bits
 * (unsigned types by their bits). A block is block_size of them, a tile 8 blocks, a super-tile 64 tiles; what
 * is missing at the end counts as 0. The width of a block is 0 if all its elements are 0, else the least w
 * for which all of them fit into two's complement numbers of w bits (1..W).
 *   u64                bytes of the input
 *   u32 end[n_super]   end of each super-tile's payload, in units of 4 bytes from the end of this table
 *   payloads           one per super-tile, back to back:
 *     (nothing)        if all widths are 0; else
 *     u64 map          bit t (least significant first) is set if tile t has a width above 0: it is live
 *     classes          2 bits per live tile, 4 to a byte, least significant first; zero-padded to 4 bytes
 *     rates            of the live tiles, back to back; zero-padded to 4 bytes. By class:
 *       0 uniform      1 byte: the width of all 8 blocks
 *       1 delta        3 bytes: the largest width m, then m - width of block b in 2 bits each
 *       2 nibbles      4 bytes: the width of block b in bits 4b .. 4b + 3
 *       3 plain        8 bytes: a width each
 *                      The first class that can express a tile's widths is used.
 *     planes           block by block, w planes of block_size / 8 bytes each, from the sign bit down to the
 *                      least significant one; bit j % 8 of byte j / 8 belongs to element j; zero-padded to 4
 * Super-tiles are coded independently; the table lets a decoder start at any of them. */
#include "adaptive_bitpack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "../cpu/bitpack.h"
#include "../cpu/pool.h"
#include "../le.h"
#include "../stages.h"

/* A worker's scratch: widths, head, one block or tile of elements widened, and the planes. */
struct slot {
    uint8_t widths[FZM_BITPACK_SUPER_BLOCKS];
    uint8_t head[FZM_BITPACK_HEAD_NBYTES + 40]; /* a multiple of 64 bytes up to here */
    uint64_t elems[1024];
    uint8_t planes[];
};

struct job {
    const struct fzm_bitpack_kernels *kernels;
    uint8_t *elems; /* input of forward(), output of inverse() */
    uint64_t n_elems;
    uint32_t elem_nbytes, block_size;
    uint8_t *slots;
    size_t slot_nbytes;
    uint8_t *section;
    struct fzm_bitpack_section in;
    struct fzm_sequence sequence;
    atomic_bool damaged;
};

static size_t slot_nbytes(uint32_t block_size, uint32_t elem_nbytes)
{
    const size_t planes = (size_t)FZM_BITPACK_SUPER_BLOCKS * (block_size / 8) * (8 * elem_nbytes);
    return (sizeof(struct slot) + planes + FZM_BITPACK_SLACK_NBYTES + 63) / 64 * 64;
}

static int check_params(const struct fzm_adaptive_bitpack_params *p, struct fzm_err *err)
{
    if (p->block_size < 8 || p->block_size > 1024 || p->block_size % 8 != 0)
        return fzm_err_set(err, FZM_ERR_CONFIG,
                           "AdaptiveBitpack: block_size %u, must be 8..1024 and a multiple of 8",
                           (unsigned)p->block_size);
    return FZM_OK;
}

static int shape(const void *params, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_adaptive_bitpack_params *const p = params;
    FZM_TRY(check_params(p, err));
    if (!fzm_dtype_is_int(in->dtype))
        return fzm_err_set(err, FZM_ERR_CONFIG, "AdaptiveBitpack: takes integers, got type %s",
                           fzm_dtype_name(in->dtype));
    if (in->n_elems > (uint64_t)1 << 40)
        return fzm_err_set(err, FZM_ERR_UNSUPPORTED, "AdaptiveBitpack: more than 2^40 elements");
    const uint64_t bound =
        fzm_bitpack_section_bound(in->n_elems, p->block_size, 8 * (uint32_t)fzm_dtype_nbytes(in->dtype));
    if (bound / 4 > UINT32_MAX || bound > SIZE_MAX)
        return fzm_err_set(err, FZM_ERR_UNSUPPORTED, "AdaptiveBitpack: input of more than 16 GiB");
    *out = fzm_shape_1d(FZM_BYTES, bound);
    return FZM_OK;
}

static size_t scratch(const void *params, const struct fzm_shape *in, unsigned n_threads)
{
    const struct fzm_adaptive_bitpack_params *const p = params;
    return slot_nbytes(p->block_size, (uint32_t)fzm_dtype_nbytes(in->dtype)) * n_threads;
}

/* Loads n elements sign-extended. */
static void widen32(const uint8_t *p, uint32_t elem_nbytes, size_t n, int32_t *v)
{
    if (elem_nbytes == 4) {
        memcpy(v, p, 4 * n);
    } else if (elem_nbytes == 2) {
        for (size_t i = 0; i < n; i++) {
            int16_t x;
            memcpy(&x, p + 2 * i, 2);
            v[i] = x;
        }
    } else {
        for (size_t i = 0; i < n; i++)
            v[i] = (int8_t)p[i];
    }
}

static void narrow32(uint8_t *p, uint32_t elem_nbytes, size_t n, const int32_t *v)
{
    if (elem_nbytes == 4) {
        memcpy(p, v, 4 * n);
    } else if (elem_nbytes == 2) {
        for (size_t i = 0; i < n; i++) {
            const uint16_t x = (uint16_t)v[i];
            memcpy(p + 2 * i, &x, 2);
        }
    } else {
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)v[i];
    }
}

static void widen64(const uint8_t *p, uint32_t elem_nbytes, size_t n, uint64_t *v)
{
    for (size_t i = 0; i < n; i++, p += elem_nbytes) {
        int32_t x = 0;
        if (elem_nbytes == 8) {
            memcpy(&v[i], p, 8);
            continue;
        }
        widen32(p, elem_nbytes, 1, &x);
        v[i] = (uint64_t)x;
    }
}

static void narrow64(uint8_t *p, uint32_t elem_nbytes, size_t n, const uint64_t *v)
{
    for (size_t i = 0; i < n; i++, p += elem_nbytes) {
        const int32_t x = (int32_t)(uint32_t)v[i];
        if (elem_nbytes == 8)
            memcpy(p, &v[i], 8);
        else
            narrow32(p, elem_nbytes, 1, &x);
    }
}

/* Encodes n elements (at most a super-tile) of blocks of 32. Returns the end of the planes. */
static uint8_t *encode_blocks_of_32(const struct job *j, const uint8_t *p, uint64_t n, struct slot *s)
{
    uint8_t *planes = s->planes;
    for (uint8_t *widths = s->widths; n; widths += FZM_BITPACK_TILE_BLOCKS) {
        const size_t n_here = n < FZM_BITPACK_TILE_ELEMS ? (size_t)n : FZM_BITPACK_TILE_ELEMS;
        const void *v = p;
        if (n_here < FZM_BITPACK_TILE_ELEMS || j->elem_nbytes < 4 || (uintptr_t)p % j->elem_nbytes) {
            if (n_here < FZM_BITPACK_TILE_ELEMS)
                memset(s->elems, 0, FZM_BITPACK_TILE_ELEMS * 8);
            if (j->elem_nbytes == 8)
                memcpy(s->elems, p, 8 * n_here);
            else
                widen32(p, j->elem_nbytes, n_here, (int32_t *)(void *)s->elems);
            v = s->elems;
        }
        if (j->elem_nbytes == 8) {
            fzm_put_le64(widths, j->kernels->widths64(v));
            planes = j->kernels->encode64(v, widths, planes);
        } else {
            fzm_put_le64(widths, j->kernels->widths32(v));
            planes = j->kernels->encode32(v, widths, planes);
        }
        p += n_here * j->elem_nbytes;
        n -= n_here;
    }
    return planes;
}

static uint8_t *encode_blocks_of_any(const struct job *j, const uint8_t *p, uint64_t n, struct slot *s)
{
    const uint32_t stride = j->block_size / 8;
    uint8_t *planes = s->planes;
    for (uint8_t *width = s->widths; n; width++) {
        const size_t n_here = n < j->block_size ? (size_t)n : j->block_size;
        widen64(p, j->elem_nbytes, n_here, s->elems);
        memset(s->elems + n_here, 0, (j->block_size - n_here) * sizeof s->elems[0]);
        uint64_t any = 0, folded = 0;
        for (size_t i = 0; i < n_here; i++) {
            any |= s->elems[i];
            folded |= s->elems[i] ^ (0 - (s->elems[i] >> 63));
        }
        *width = (uint8_t)fzm_bitpack_width(any, folded);
        for (uint32_t g = 0; g < stride; g++)
            fzm_bitpack_group_encode(s->elems + 8 * (size_t)g, *width, planes + g, stride);
        planes += (size_t)*width * stride;
        p += n_here * j->elem_nbytes;
        n -= n_here;
    }
    return planes;
}

static void encode_super(void *arg, size_t i, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = (struct slot *)(void *)(j->slots + worker * j->slot_nbytes);
    const uint64_t per_super = fzm_bitpack_super_n_elems(j->block_size), first = i * per_super;
    const uint64_t n = j->n_elems - first < per_super ? j->n_elems - first : per_super;
    const uint8_t *const p = j->elems + first * j->elem_nbytes;
    memset(s->widths, 0, sizeof s->widths);
    uint8_t *end = j->block_size == 32 ? encode_blocks_of_32(j, p, n, s) : encode_blocks_of_any(j, p, n, s);
    end = fzm_bitpack_pad4(s->planes, end);
    const size_t head_nbytes = fzm_bitpack_super_head(s->widths, s->head);
    const size_t planes_nbytes = (size_t)(end - s->planes), nbytes = head_nbytes + planes_nbytes;
    const uint64_t offset = fzm_sequence_take(&j->sequence, i, nbytes);
    uint8_t *const payload =
        j->section + fzm_bitpack_table_nbytes(fzm_bitpack_n_super(j->n_elems, j->block_size)) + offset;
    memcpy(payload, s->head, head_nbytes);
    memcpy(payload + head_nbytes, s->planes, planes_nbytes);
    fzm_bitpack_section_end_at(j->section, i, offset + nbytes);
}

static struct job make_job(struct fzm_call *c)
{
    const struct fzm_adaptive_bitpack_params *const p = c->params;
    struct job j;
    memset(&j, 0, sizeof j);
    j.kernels = fzm_bitpack_kernels_get();
    j.elems = c->in[0].data;
    j.n_elems = c->in[0].shape.n_elems;
    j.elem_nbytes = (uint32_t)fzm_dtype_nbytes(c->in[0].shape.dtype);
    j.block_size = p->block_size;
    j.slots = c->scratch;
    j.slot_nbytes = slot_nbytes(j.block_size, j.elem_nbytes);
    j.section = c->out[0].data;
    return j;
}

static int forward(struct fzm_call *c)
{
    struct job j = make_job(c);
    const uint64_t n_super = fzm_bitpack_n_super(j.n_elems, j.block_size);
    if (n_super) {
        fzm_bitpack_section_begin(j.section, j.n_elems, j.elem_nbytes);
        fzm_pool_run(c->pool, (size_t)n_super, encode_super, &j);
    }
    c->out[0].nbytes = (size_t)(fzm_bitpack_table_nbytes(n_super) + j.sequence.total);
    c->out[0].shape = fzm_shape_1d(FZM_BYTES, c->out[0].nbytes);
    return FZM_OK;
}

static void decode_blocks_of_32(const struct job *j, const uint8_t *planes, uint8_t *p, uint64_t n,
                                struct slot *s)
{
    for (const uint8_t *widths = s->widths; n; widths += FZM_BITPACK_TILE_BLOCKS) {
        const size_t n_here = n < FZM_BITPACK_TILE_ELEMS ? (size_t)n : FZM_BITPACK_TILE_ELEMS;
        const bool direct =
            n_here == FZM_BITPACK_TILE_ELEMS && j->elem_nbytes >= 4 && (uintptr_t)p % j->elem_nbytes == 0;
        void *const v = direct ? (void *)p : (void *)s->elems;
        if (j->elem_nbytes == 8)
            planes = j->kernels->decode64(planes, widths, v);
        else
            planes = j->kernels->decode32(planes, widths, v);
        if (!direct && j->elem_nbytes == 8)
            memcpy(p, s->elems, 8 * n_here);
        else if (!direct)
            narrow32(p, j->elem_nbytes, n_here, v);
        p += n_here * j->elem_nbytes;
        n -= n_here;
    }
}

static void decode_blocks_of_any(const struct job *j, const uint8_t *planes, uint8_t *p, uint64_t n,
                                 struct slot *s)
{
    const uint32_t stride = j->block_size / 8;
    for (const uint8_t *width = s->widths; n; width++) {
        const size_t n_here = n < j->block_size ? (size_t)n : j->block_size;
        for (uint32_t g = 0; g < stride; g++)
            fzm_bitpack_group_decode(planes + g, stride, *width, s->elems + 8 * (size_t)g);
        narrow64(p, j->elem_nbytes, n_here, s->elems);
        planes += (size_t)*width * stride;
        p += n_here * j->elem_nbytes;
        n -= n_here;
    }
}

static void decode_super(void *arg, size_t i, unsigned worker)
{
    struct job *const j = arg;
    struct slot *const s = (struct slot *)(void *)(j->slots + worker * j->slot_nbytes);
    const uint64_t per_super = fzm_bitpack_super_n_elems(j->block_size), first = i * per_super;
    const uint64_t n = j->n_elems - first < per_super ? j->n_elems - first : per_super;
    uint8_t *const p = j->elems + first * j->elem_nbytes;
    const uint8_t *payload = NULL, *planes = NULL;
    size_t payload_nbytes = 0;
    if (!fzm_bitpack_section_payload(&j->in, i, &payload, &payload_nbytes) ||
        !fzm_bitpack_super_parse(payload, payload_nbytes, j->block_size, 8 * j->elem_nbytes, s->widths,
                                 &planes)) {
        atomic_store_explicit(&j->damaged, true, memory_order_relaxed);
        return;
    }
    if (payload_nbytes == 0)
        memset(p, 0, (size_t)n * j->elem_nbytes);
    else if (j->block_size == 32)
        decode_blocks_of_32(j, planes, p, n, s);
    else
        decode_blocks_of_any(j, planes, p, n, s);
}

static int inverse(struct fzm_call *c)
{
    struct job j = make_job(c);
    FZM_TRY(fzm_bitpack_section_open(&j.in, c->out[0].data, c->out[0].nbytes, j.n_elems, j.elem_nbytes,
                                     j.block_size, c->err));
    fzm_pool_run(c->pool, (size_t)j.in.n_super, decode_super, &j);
    if (atomic_load_explicit(&j.damaged, memory_order_relaxed))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "AdaptiveBitpack: damaged super-tile");
    return FZM_OK;
}

static const struct fzm_port in_ports[] = {{"input", "int", 0}};
static const struct fzm_port out_ports[] = {{"output", "bytes", FZM_PORT_VARIABLE}};
static const struct fzm_param params[] = {
    {"block_size", "elements that share a width, a multiple of 8", FZM_P_U32, 0,
     offsetof(struct fzm_adaptive_bitpack_params, block_size), 8, 1024, 32, NULL},
};

static int inverse_nbytes(const void *params_, const struct fzm_buf *out, size_t *in_nbytes,
                          struct fzm_err *err)
{
    (void)params_;
    if (out[0].nbytes > 0 && out[0].nbytes < 8)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack: section of %zu bytes", out[0].nbytes);
    const uint64_t nbytes = out[0].nbytes ? fzm_get_le64(out[0].data) : 0;
    if (nbytes > SIZE_MAX)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveBitpack: section too large for this machine");
    *in_nbytes = (size_t)nbytes;
    return FZM_OK;
}

const struct fzm_stage fzm_stage_adaptive_bitpack = {
    .name = "AdaptiveBitpack",
    .help = "bit planes of integers in blocks, as many as each block's largest magnitude needs",
    .reference = "own layout; after cuSZp (Huang et al., SC 2023) and FSZ",
    .id = 9,
    .version = 1,
    .n_in = 1,
    .n_out = 1,
    .n_params = 1,
    .params_nbytes = sizeof(struct fzm_adaptive_bitpack_params),
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
