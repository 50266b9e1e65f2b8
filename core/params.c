/* SPDX-License-Identifier: BSD-3-Clause */
/* Params structs, by the schema of their stage. */
#include "config.h"

#include <string.h>

static bool is_f64(const struct fzm_param *p) { return p->type == FZM_P_F64; }

/* Largest value: words and bools are bounded by their kind, whatever the row says. */
static double param_max(const struct fzm_param *p)
{
    if (p->type == FZM_P_BOOL)
        return 1;
    if (p->type != FZM_P_ENUM)
        return p->max;
    unsigned n = 0;
    while (p->names[n])
        n++;
    return (double)n - 1;
}

static double param_min(const struct fzm_param *p)
{
    return p->type == FZM_P_U32 || p->type == FZM_P_F64 ? p->min : 0;
}

double fzm_params_get(const struct fzm_stage *stage, const void *params, unsigned i)
{
    const struct fzm_param *const p = &stage->params[i];
    const uint8_t *const at = (const uint8_t *)params + p->mem_off;
    double f;
    uint32_t u;
    if (is_f64(p)) {
        memcpy(&f, at, sizeof f);
        return f;
    }
    memcpy(&u, at, sizeof u);
    return u;
}

void fzm_params_set(const struct fzm_stage *stage, void *params, unsigned i, double value)
{
    const struct fzm_param *const p = &stage->params[i];
    uint8_t *const at = (uint8_t *)params + p->mem_off;
    if (is_f64(p)) {
        memcpy(at, &value, sizeof value);
        return;
    }
    /* A value that no u32 holds becomes one that no range of a word or bool allows. */
    const uint32_t u = value >= 0 && value <= UINT32_MAX ? (uint32_t)value : UINT32_MAX;
    memcpy(at, &u, sizeof u);
}

void fzm_params_init(const struct fzm_stage *stage, void *params)
{
    memset(params, 0, stage->params_nbytes);
    for (unsigned i = 0; i < stage->n_params; i++)
        fzm_params_set(stage, params, i, stage->params[i].def);
}

int fzm_params_check(const struct fzm_stage *stage, const void *params, struct fzm_err *err)
{
    for (unsigned i = 0; i < stage->n_params; i++) {
        const struct fzm_param *const p = &stage->params[i];
        const double v = fzm_params_get(stage, params, i), min = param_min(p), max = param_max(p);
        if (!(v >= min && v <= max)) /* also NaN */
            return FZM_CONFIG_ERROR(err, "%s: %s is %.17g, accepted are %.17g to %.17g", stage->name, p->key,
                                    v, min, max);
    }
    return 0;
}

int fzm_params_find(const struct fzm_stage *stage, const char *key)
{
    for (unsigned i = 0; i < stage->n_params; i++)
        if (strcmp(stage->params[i].key, key) == 0)
            return (int)i;
    return -1;
}
