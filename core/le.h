/* SPDX-License-Identifier: BSD-3-Clause */
/* Little-endian loads and stores at any alignment, and a bounds-checked reader and writer. */
#ifndef FZM_LE_H
#define FZM_LE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t fzm_get_le16(const void *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t fzm_get_le32(const void *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t fzm_get_le64(const void *p)
{
    return (uint64_t)fzm_get_le32(p) | (uint64_t)fzm_get_le32((const uint8_t *)p + 4) << 32;
}

static inline void fzm_put_le16(void *p, uint16_t v)
{
    uint8_t *b = (uint8_t *)p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void fzm_put_le32(void *p, uint32_t v)
{
    uint8_t *b = (uint8_t *)p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}

static inline void fzm_put_le64(void *p, uint64_t v)
{
    fzm_put_le32(p, (uint32_t)v);
    fzm_put_le32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

/* Reader over untrusted bytes: past the end it returns 0 and sets bad. */
struct fzm_reader {
    const uint8_t *p, *end;
    bool bad;
};

/* Writer into a fixed buffer: past the end it writes nothing and sets bad. */
struct fzm_writer {
    uint8_t *p, *end;
    bool bad;
};

static inline const uint8_t *fzm_read_bytes(struct fzm_reader *r, size_t nbytes)
{
    if (r->bad || (size_t)(r->end - r->p) < nbytes) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *const p = r->p;
    r->p += nbytes;
    return p;
}

static inline uint8_t fzm_read_u8(struct fzm_reader *r)
{
    const uint8_t *const p = fzm_read_bytes(r, 1);
    return p ? *p : 0;
}

static inline uint32_t fzm_read_le32(struct fzm_reader *r)
{
    const uint8_t *const p = fzm_read_bytes(r, 4);
    return p ? fzm_get_le32(p) : 0;
}

static inline uint64_t fzm_read_le64(struct fzm_reader *r)
{
    const uint8_t *const p = fzm_read_bytes(r, 8);
    return p ? fzm_get_le64(p) : 0;
}

/* LEB128, at most 10 bytes, shortest form only (so that one value has one encoding). */
static inline uint64_t fzm_read_varint(struct fzm_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t b = fzm_read_u8(r);
        if (r->bad || (shift == 63 && b > 1) || (shift > 0 && b == 0))
            break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    r->bad = true;
    return 0;
}

static inline void fzm_write_bytes(struct fzm_writer *w, const void *data, size_t nbytes)
{
    if (w->bad || (size_t)(w->end - w->p) < nbytes) {
        w->bad = true;
        return;
    }
    if (nbytes)
        memcpy(w->p, data, nbytes);
    w->p += nbytes;
}

static inline void fzm_write_u8(struct fzm_writer *w, uint8_t v) { fzm_write_bytes(w, &v, 1); }

static inline void fzm_write_le32(struct fzm_writer *w, uint32_t v)
{
    uint8_t b[4];
    fzm_put_le32(b, v);
    fzm_write_bytes(w, b, 4);
}

static inline void fzm_write_le64(struct fzm_writer *w, uint64_t v)
{
    uint8_t b[8];
    fzm_put_le64(b, v);
    fzm_write_bytes(w, b, 8);
}

static inline void fzm_write_varint(struct fzm_writer *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        fzm_write_u8(w, (uint8_t)(v | 0x80));
    fzm_write_u8(w, (uint8_t)v);
}

#endif
