/* SPDX-License-Identifier: BSD-3-Clause */
/* The one list of stages. Every walker (parser, stream, docs, tests, fuzzers) loops over it. */
#ifndef FZM_STAGES_H
#define FZM_STAGES_H

#include "stage.h"

/* Those that the GPU engine has too; a pipeline with another stage runs on the CPU engine. */
#define FZM_GPU_STAGES(X) \
    X(quantizer)        \
    X(difference)       \
    X(lorenzo)          \
    X(adaptive_lorenzo) \
    X(zigzag)           \
    X(negabinary)       \
    X(bitshuffle)       \
    X(bitpack)          \
    X(adaptive_bitpack) \
    X(rze)              \
    X(rre)              \
    X(bit_lorenzo)

#define FZM_STAGES(X) \
    FZM_GPU_STAGES(X)

#define FZM_DECLARE_STAGE(name) extern const struct fzm_stage fzm_stage_##name;
FZM_STAGES(FZM_DECLARE_STAGE)
#undef FZM_DECLARE_STAGE

/* All rows in list order, NULL-ended; the count. */
extern const struct fzm_stage *const fzm_stages[];
extern const unsigned fzm_n_stages;

/* NULL if there is none. */
const struct fzm_stage *fzm_stage_by_name(const char *name);
const struct fzm_stage *fzm_stage_by_id(unsigned id);

/* Whether the GPU engine has it too. */
bool fzm_stage_is_on_gpu(const struct fzm_stage *stage);

#endif
