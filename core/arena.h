/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch memory of a context: blocks are kept and reused, so equal chunks need no malloc after the first. */
#ifndef FZM_ARENA_H
#define FZM_ARENA_H

#include <stddef.h>

struct fzm_arena_block {
    void *data;
    size_t nbytes;
    size_t used_nbytes; /* most that was written to; pages beyond are not resident */
    int in_use;
};

struct fzm_arena {
    struct fzm_arena_block *blocks;
    size_t n_blocks, cap_blocks;
};

/* A block of at least nbytes, 64-byte aligned, with junk in it. NULL when out of memory. */
void *fzm_arena_get(struct fzm_arena *arena, size_t nbytes);

/* Gives a block back for reuse. NULL is allowed. */
void fzm_arena_put(struct fzm_arena *arena, void *data);

/* Notes that the first nbytes of a block have been written to. */
void fzm_arena_touch(struct fzm_arena *arena, const void *data, size_t nbytes);

/* Gives all blocks back; those that no call since the last reset has used are freed. */
void fzm_arena_reset(struct fzm_arena *arena);

/* Bytes in use: what was written to, not what was reserved for the worst case. */
size_t fzm_arena_nbytes(const struct fzm_arena *arena);
void fzm_arena_free(struct fzm_arena *arena);

#endif
