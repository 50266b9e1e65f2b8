/* SPDX-License-Identifier: BSD-3-Clause */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* in_use values */
enum { BLOCK_IDLE = 0, BLOCK_USED = 1, BLOCK_RELEASED = 2 };

static const size_t huge_page_nbytes = 2u << 20;

/* Sizes are rounded up to an eighth of their power of two, so that chunks whose streams differ a little
 * share blocks. */
static size_t round_up(size_t nbytes)
{
    size_t step = 4096;
    while (step < nbytes / 16)
        step *= 2;
    return nbytes > SIZE_MAX - step ? 0 : (nbytes + step - 1) / step * step;
}

static void *block_alloc(size_t nbytes)
{
    const int huge = nbytes >= huge_page_nbytes;
    void *data = NULL;
    if (posix_memalign(&data, huge ? huge_page_nbytes : 64, nbytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    /* A page fault for each 4 KiB would cost more than the compression itself. */
    if (huge)
        madvise(data, nbytes, MADV_HUGEPAGE);
#endif
    return data;
}

void *fzm_arena_get(struct fzm_arena *arena, size_t nbytes)
{
    const size_t want = round_up(nbytes ? nbytes : 1);
    if (want == 0)
        return NULL;
    struct fzm_arena_block *best = NULL;
    for (size_t i = 0; i < arena->n_blocks; i++) {
        struct fzm_arena_block *const b = &arena->blocks[i];
        if (b->in_use != BLOCK_USED && b->nbytes >= want && (!best || b->nbytes < best->nbytes))
            best = b;
    }
    /* A block of more than twice the size stays for whoever needs it. */
    if (best && best->nbytes / 2 <= want) {
        best->in_use = BLOCK_USED;
        return best->data;
    }
    if (arena->n_blocks == arena->cap_blocks) {
        const size_t cap = arena->cap_blocks ? 2 * arena->cap_blocks : 16;
        struct fzm_arena_block *const blocks = realloc(arena->blocks, cap * sizeof *blocks);
        if (!blocks)
            return NULL;
        arena->blocks = blocks;
        arena->cap_blocks = cap;
    }
    void *const data = block_alloc(want);
    if (!data)
        return NULL;
    struct fzm_arena_block *const b = &arena->blocks[arena->n_blocks++];
    b->data = data;
    b->nbytes = want;
    b->used_nbytes = 0;
    b->in_use = BLOCK_USED;
    return data;
}

static struct fzm_arena_block *find(struct fzm_arena *arena, const void *data)
{
    for (size_t i = 0; data && i < arena->n_blocks; i++)
        if (arena->blocks[i].data == data)
            return &arena->blocks[i];
    return NULL;
}

void fzm_arena_put(struct fzm_arena *arena, void *data)
{
    struct fzm_arena_block *const b = find(arena, data);
    if (b)
        b->in_use = BLOCK_RELEASED;
}

void fzm_arena_touch(struct fzm_arena *arena, const void *data, size_t nbytes)
{
    struct fzm_arena_block *const b = find(arena, data);
    if (b && nbytes > b->used_nbytes)
        b->used_nbytes = nbytes;
}

void fzm_arena_reset(struct fzm_arena *arena)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < arena->n_blocks; i++) {
        struct fzm_arena_block b = arena->blocks[i];
        if (b.in_use == BLOCK_IDLE) {
            free(b.data);
            continue;
        }
        b.in_use = BLOCK_IDLE;
        arena->blocks[n_kept++] = b;
    }
    arena->n_blocks = n_kept;
}

size_t fzm_arena_nbytes(const struct fzm_arena *arena)
{
    size_t nbytes = 0;
    for (size_t i = 0; i < arena->n_blocks; i++)
        nbytes += arena->blocks[i].used_nbytes;
    return nbytes;
}

void fzm_arena_free(struct fzm_arena *arena)
{
    for (size_t i = 0; i < arena->n_blocks; i++)
        free(arena->blocks[i].data);
    free(arena->blocks);
    memset(arena, 0, sizeof *arena);
}
