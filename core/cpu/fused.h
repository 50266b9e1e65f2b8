/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused chains of the CPU engine: several stages run tile by tile in cache, with the bytes of the staged run.
 *
 * A fused op covers a chain of stages in which each stage's output 0 feeds only the next one's input 0.
 * It gets one struct fzm_call per stage; the buffers of the inner edges have data NULL, everything else
 * is as for the stages themselves. forward() also does the resolve() of every stage but the first one,
 * writing to the calls' params. */
#ifndef FZM_FUSED_H
#define FZM_FUSED_H

#include "../stage.h"

struct fzm_fused {
    const char *name;
    const struct fzm_stage *const *chain; /* n_stages rows */
    unsigned n_stages;
    int mask_at; /* member whose input 1 is port 1 of the one before; 0: none. All other inputs are absent */
    bool any_alignment; /* forward() takes output 0 of the last member at any multiple of 4 bytes */
    /* Whether it can run these params and shapes (calls[i].in[].shape and .params are set). */
    int (*accepts)(const struct fzm_call *calls);
    size_t (*scratch)(const struct fzm_call *calls, unsigned n_threads);
    /* Not NULL: resolve() of every stage but the first one, before outputs have memory; then forward() does none. */
    int (*resolve)(struct fzm_call *calls, void *scratch);
    int (*forward)(struct fzm_call *calls, void *scratch);
    int (*inverse)(struct fzm_call *calls, void *scratch);
    /* Not NULL: port late_port of the first stage has no memory in forward(), which leaves its size pending.
     * When that is known, finish() fills the port; its memory is then as large as it gets. */
    int (*finish)(struct fzm_call *calls, void *scratch);
    int late_port;
};

/* fused_fast.c: Quantizer, AdaptiveLorenzo on tiles of 256, AdaptiveBitpack. */
extern const struct fzm_fused fzm_fused_fast;

/* fused_planes.c: AdaptiveLorenzo on tiles of 4096, a sign map, Bitshuffle, RZE. Behind a Quantizer the map is
 * Zigzag, whose planes are sparser; without one it is Negabinary, which keeps trailing zeros. */
extern const struct fzm_fused fzm_fused_planes, fzm_fused_lossless;

/* NULL-ended, longest chains first. */
extern const struct fzm_fused *const fzm_cpu_fused[];

#endif
