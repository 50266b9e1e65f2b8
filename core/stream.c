/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream layout (all little-endian; docs/format.md):
 *   0  "FZM", u8 format version
 *   4  u8 bytes of the header / 4
 *   5  u8 element type | (number of axes - 1) << 4 | big-endian << 6 | stored << 7
 *   6  axes as varints, slowest first
 *      unless stored: u8 mode; f64 bound unless lossless; graph record (graph.h);
 *                     sizes of the sections but the first, in order of node and port, each as long as the
 *                     varint of the array's bytes: so the header's length does not depend on the data
 *      u64 payload hash: sum of the XXH64s of each 16 KiB of the payload (the last may be shorter), seeded
 *          with the block's index, so that blocks are hashed in parallel
 *      zeros to a multiple of 4 counted with the next field
 *      u32 XXH32 of all header bytes before
 *      payload: the sections back to back, or the elements as they are */
#include "stream.h"

#include "cpu/pool.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { FLAG_BIG_ENDIAN = 64, FLAG_STORED = 128, HASH_BLOCK_NBYTES = 16384 };

/* Blocks of one task. */
enum { TASK_BLOCKS = 16 };

/* The payload in pieces: copied together from its sections if there are any, and hashed. */
struct payload_job {
    const struct fzm_section *sections; /* NULL: the payload is in place */
    uint8_t *payload;
    uint64_t nbytes;
    _Atomic uint64_t hash;
};

/* Copies bytes [first, first + nbytes) of the payload from the sections that hold them. */
static void copy_piece(const struct payload_job *j, uint64_t first, uint64_t nbytes)
{
    const struct fzm_section *section = j->sections;
    uint64_t begin = 0; /* of the section in the payload */
    while (begin + section->nbytes <= first)
        begin += section++->nbytes;
    while (nbytes > 0) {
        const uint64_t at = first - begin, left = section->nbytes - at, n = left < nbytes ? left : nbytes;
        if (n > 0)
            memcpy(j->payload + first, section->data + at, n);
        first += n;
        nbytes -= n;
        begin += section++->nbytes;
    }
}

static void payload_task(void *arg, size_t task, unsigned worker)
{
    (void)worker;
    struct payload_job *const j = arg;
    const uint64_t piece = (uint64_t)TASK_BLOCKS * HASH_BLOCK_NBYTES, first = (uint64_t)task * piece;
    const uint64_t nbytes = j->nbytes - first < piece ? j->nbytes - first : piece;
    uint64_t hash = 0;
    if (j->sections)
        copy_piece(j, first, nbytes);
    for (uint64_t at = 0; at < nbytes; at += HASH_BLOCK_NBYTES)
        hash += XXH64(j->payload + first + at, nbytes - at < HASH_BLOCK_NBYTES ? nbytes - at : HASH_BLOCK_NBYTES,
                      (first + at) / HASH_BLOCK_NBYTES);
    j->hash += hash;
}

static uint64_t run_payload(struct payload_job *j, struct fzm_pool *pool)
{
    const uint64_t piece = (uint64_t)TASK_BLOCKS * HASH_BLOCK_NBYTES;
    fzm_pool_run(pool, (size_t)fzm_div_up(j->nbytes, piece), payload_task, j);
    return j->hash;
}

int fzm_graph_rebuilder(const struct fzm_graph *graph, int node, int port)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        const struct fzm_node *const n = &graph->nodes[i];
        for (unsigned j = 0; j < n->stage->n_in; j++)
            if (n->in[j].node == node && (node < 0 || n->in[j].port == port) &&
                !(n->stage->in[j].flags & FZM_PORT_HINT))
                return (int)i;
    }
    return -1;
}

int fzm_stream_list_sections(struct fzm_stream *s, struct fzm_err *err)
{
    s->n_sections = 0;
    for (unsigned i = 0; i < s->graph.n_nodes; i++) {
        for (unsigned j = 0; j < s->graph.nodes[i].stage->n_out; j++) {
            if (fzm_graph_rebuilder(&s->graph, (int)i, (int)j) >= 0)
                continue;
            if (s->n_sections == FZM_MAX_SECTIONS)
                return fzm_err_set(err, FZM_ERR_CONFIG, "pipeline stores more than %d ports", FZM_MAX_SECTIONS);
            struct fzm_section *const section = &s->sections[s->n_sections++];
            section->node = (uint8_t)i;
            section->port = (uint8_t)j;
            section->nbytes = 0;
            section->data = NULL;
        }
    }
    return 0;
}

void fzm_graph_inherit_bound(struct fzm_graph *graph, int mode, double bound)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        struct fzm_node *const n = &graph->nodes[i];
        bool inherits = false;
        for (unsigned j = 0; j < n->stage->n_params; j++) {
            const struct fzm_param *const p = &n->stage->params[j];
            if (!(p->flags & FZM_PF_BOUND))
                continue;
            if (p->type == FZM_P_ENUM && fzm_params_get(n->stage, n->params.bytes, j) == 0) {
                fzm_params_set(n->stage, n->params.bytes, j, mode);
                inherits = true;
            } else if (p->type == FZM_P_F64 && inherits) {
                fzm_params_set(n->stage, n->params.bytes, j, bound);
            }
        }
    }
}

/* The graph as it is stored: runtime params from the run, bound params as the pipeline had them. */
static void restore_bound(struct fzm_graph *graph, const struct fzm_graph *original)
{
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        struct fzm_node *const n = &graph->nodes[i];
        for (unsigned j = 0; j < n->stage->n_params; j++)
            if (n->stage->params[j].flags & FZM_PF_BOUND)
                fzm_params_set(n->stage, n->params.bytes, j,
                               fzm_params_get(n->stage, original->nodes[i].params.bytes, j));
    }
}

static unsigned n_axes(const struct fzm_shape *shape)
{
    unsigned n = shape->dims[0] > 1 ? 4 : shape->rank;
    return n < 1 ? 1 : n;
}

static uint64_t bits_of(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* A varint padded to the length that `most` needs. */
static void write_size(struct fzm_writer *w, uint64_t v, uint64_t most)
{
    for (; most >= 0x80; most >>= 7, v >>= 7)
        fzm_write_u8(w, (uint8_t)(v | 0x80));
    fzm_write_u8(w, (uint8_t)v);
}

/* Any varint of at most 10 bytes, padded or not. */
static uint64_t read_size(struct fzm_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        const uint8_t b = fzm_read_u8(r);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    r->bad = true;
    return 0;
}

int fzm_stream_make_header(struct fzm_stream *s, struct fzm_header *h, size_t out_cap, struct fzm_err *err)
{
    uint8_t *const header = h->bytes;
    struct fzm_writer w = {header, header + sizeof h->bytes, false};
    const unsigned axes = n_axes(&s->shape);
    fzm_write_bytes(&w, "FZM", 3);
    fzm_write_u8(&w, FZM_FORMAT_VERSION);
    fzm_write_u8(&w, 0); /* length, set below */
    fzm_write_u8(&w, (uint8_t)(s->shape.dtype | (axes - 1) << 4 | (s->big_endian ? FLAG_BIG_ENDIAN : 0) |
                               (s->stored ? FLAG_STORED : 0)));
    for (unsigned i = 4 - axes; i < 4; i++)
        fzm_write_varint(&w, s->shape.dims[i]);
    if (!s->stored) {
        restore_bound(&s->graph, s->original);
        fzm_write_u8(&w, (uint8_t)s->mode);
        if (s->mode != FZM_LOSSLESS)
            fzm_write_le64(&w, bits_of(s->bound));
        fzm_graph_write(&s->graph, 1, &w);
        for (unsigned i = 1; i < s->n_sections; i++)
            write_size(&w, s->sections[i].nbytes, fzm_shape_nbytes(&s->shape));
    }

    s->payload_nbytes = 0;
    for (unsigned i = 0; i < s->n_sections; i++)
        s->payload_nbytes += s->sections[i].nbytes;
    const size_t fixed = 8 + 3 + 4;
    if (w.bad || (size_t)(w.end - w.p) < fixed)
        return fzm_err_set(err, FZM_ERR_CONFIG, "pipeline needs a header of more than %d bytes", FZM_MAX_HEADER_NBYTES);
    h->hash_at = (size_t)(w.p - header);
    fzm_write_le64(&w, 0);
    while ((w.p - header) % 4 != 0)
        fzm_write_u8(&w, 0);
    s->header_nbytes = (size_t)(w.p - header) + 4;
    header[4] = (uint8_t)(s->header_nbytes / 4);
    if (s->payload_nbytes > out_cap || out_cap - s->payload_nbytes < s->header_nbytes)
        return fzm_err_set(err, FZM_ERR_CAPACITY, "stream of %llu bytes does not fit into %zu",
                           (unsigned long long)(s->payload_nbytes + s->header_nbytes), out_cap);
    return 0;
}

int fzm_stream_write(struct fzm_stream *s, struct fzm_pool *pool, void *out, size_t out_cap, size_t *out_nbytes, struct fzm_err *err)
{
    struct fzm_header h;
    FZM_TRY(fzm_stream_make_header(s, &h, out_cap, err));
    struct payload_job job = {s->sections, (uint8_t *)out + s->header_nbytes, s->payload_nbytes, 0};
    s->payload_hash = run_payload(&job, pool);
    fzm_put_le64(h.bytes + h.hash_at, s->payload_hash);
    fzm_put_le32(h.bytes + s->header_nbytes - 4, XXH32(h.bytes, s->header_nbytes - 4, 0));
    memcpy(out, h.bytes, s->header_nbytes);
    *out_nbytes = s->header_nbytes + (size_t)s->payload_nbytes;
    return 0;
}

static int read_shape(struct fzm_stream *s, struct fzm_reader *r, struct fzm_err *err)
{
    const unsigned b = fzm_read_u8(r), axes = (b >> 4 & 3) + 1;
    s->shape = fzm_shape_1d((int)(b & 15), 0);
    s->big_endian = (b & FLAG_BIG_ENDIAN) != 0;
    s->stored = (b & FLAG_STORED) != 0;
    if (r->bad || (b & 15) >= FZM_BYTES)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header: unknown element type %u", b & 15);
    uint64_t n = 1;
    for (unsigned i = 4 - axes; i < 4; i++) {
        const uint64_t extent = fzm_read_varint(r);
        if (r->bad || (extent != 0 && n > (UINT64_C(1) << 40) / extent))
            return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header: invalid extent of axis %u", i - (4 - axes));
        s->shape.dims[i] = extent;
        n *= extent;
    }
    s->shape.n_elems = n;
    s->shape.rank = (uint8_t)(axes > 3 ? 3 : axes);
    return 0;
}

static int read_sections(struct fzm_stream *s, struct fzm_reader *r, const uint8_t *begin, size_t in_nbytes,
                         struct fzm_err *err)
{
    uint64_t rest = 0;
    for (unsigned i = 1; i < s->n_sections; i++) {
        s->sections[i].nbytes = read_size(r);
        r->bad |= s->sections[i].nbytes > in_nbytes; /* so that the sum cannot overflow */
        rest += s->sections[i].nbytes;
    }
    s->payload_hash = fzm_read_le64(r);
    const size_t n_pad = (size_t)(r->end - r->p);
    for (size_t i = 0; !r->bad && i < n_pad; i++)
        if (fzm_read_u8(r) != 0)
            r->bad = true;
    if (r->bad || n_pad > 3)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header is malformed");
    s->payload_nbytes = in_nbytes - s->header_nbytes;
    if (s->stored) {
        if (s->payload_nbytes != fzm_shape_nbytes(&s->shape))
            return fzm_err_set(err, FZM_ERR_CORRUPT, "stored stream has %llu payload bytes, its shape needs %zu",
                               (unsigned long long)s->payload_nbytes, fzm_shape_nbytes(&s->shape));
        return 0;
    }
    if (rest > s->payload_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream of %zu bytes is cut: its sections have more", in_nbytes);
    s->sections[0].nbytes = s->payload_nbytes - rest;
    const uint8_t *p = begin + s->header_nbytes;
    for (unsigned i = 0; i < s->n_sections; i++) {
        s->sections[i].data = p;
        p += s->sections[i].nbytes;
    }
    return 0;
}

/* Magic, versions, length and checksum: afterwards the header is what a writer wrote. */
static int read_front(struct fzm_stream *s, const uint8_t *begin, size_t in_nbytes, struct fzm_err *err)
{
    if (in_nbytes < 8 || memcmp(begin, "FZM", 3) != 0)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "not an FZM stream (%zu bytes without its magic)", in_nbytes);
    if (begin[3] > FZM_FORMAT_VERSION)
        return fzm_err_set(err, FZM_ERR_VERSION, "stream has format version %u, this library reads up to %d", begin[3],
                           FZM_FORMAT_VERSION);
    s->header_nbytes = 4 * (size_t)begin[4];
    if (s->header_nbytes < 20 || s->header_nbytes > in_nbytes)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream of %zu bytes is cut inside its header", in_nbytes);
    if (fzm_get_le32(begin + s->header_nbytes - 4) != XXH32(begin, s->header_nbytes - 4, 0))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header does not match its checksum");
    return 0;
}

int fzm_stream_read(struct fzm_stream *s, const void *in, size_t in_nbytes, struct fzm_err *err)
{
    const uint8_t *const begin = in;
    memset(s, 0, sizeof *s);
    FZM_TRY(read_front(s, begin, in_nbytes, err));
    struct fzm_reader r = {begin + 5, begin + s->header_nbytes - 4, false};
    if (begin[3] == 0)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header: there is no format version 0");
    FZM_TRY(read_shape(s, &r, err));
    if (!s->stored) {
        s->mode = fzm_read_u8(&r);
        if (s->mode > FZM_PSNR)
            return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header: unknown bound mode %d", s->mode);
        if (s->mode != FZM_LOSSLESS) {
            const uint64_t bits = fzm_read_le64(&r);
            memcpy(&s->bound, &bits, sizeof bits);
        }
        FZM_TRY(fzm_graph_read(&s->graph, &r, err));
        FZM_TRY(fzm_stream_list_sections(s, err));
    }
    FZM_TRY(read_sections(s, &r, begin, in_nbytes, err));
    if (!s->stored && s->mode != FZM_LOSSLESS && !(s->bound >= 0 && s->bound <= 1.7976931348623157e308))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream header: invalid bound");
    fzm_graph_inherit_bound(&s->graph, s->mode, s->bound);
    return 0;
}

int fzm_stream_verify(const struct fzm_stream *s, const void *in, struct fzm_pool *pool, struct fzm_err *err)
{
    struct payload_job job = {NULL, (uint8_t *)(uintptr_t)in + s->header_nbytes, s->payload_nbytes, 0};
    if (run_payload(&job, pool) != s->payload_hash)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "stream payload does not match its checksum");
    return 0;
}
