/* SPDX-License-Identifier: BSD-3-Clause */
#include "stages.h"

#include <string.h>

#define FZM_STAGE_POINTER(name) &fzm_stage_##name,
const struct fzm_stage *const fzm_stages[] = {FZM_STAGES(FZM_STAGE_POINTER) NULL};
const unsigned fzm_n_stages = sizeof fzm_stages / sizeof fzm_stages[0] - 1;

const struct fzm_stage *fzm_stage_by_name(const char *name)
{
    for (unsigned i = 0; i < fzm_n_stages; i++)
        if (strcmp(fzm_stages[i]->name, name) == 0)
            return fzm_stages[i];
    return NULL;
}

const struct fzm_stage *fzm_stage_by_id(unsigned id)
{
    for (unsigned i = 0; i < fzm_n_stages; i++)
        if (fzm_stages[i]->id == id)
            return fzm_stages[i];
    return NULL;
}

bool fzm_stage_is_on_gpu(const struct fzm_stage *stage)
{
    static const struct fzm_stage *const on_gpu[] = {FZM_GPU_STAGES(FZM_STAGE_POINTER) NULL};
    for (unsigned i = 0; on_gpu[i]; i++)
        if (on_gpu[i] == stage)
            return true;
    return false;
}
