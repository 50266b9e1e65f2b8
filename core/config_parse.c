/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON to pipelines: the whole text, its bound and its list of stages. config_stage.c has the stages. */
#include "config_stage.h"

#include <math.h>
#include <string.h>

int fzm_bound_check(int mode, double bound, struct fzm_err *err)
{
    char text[FZM_DOUBLE_TEXT_NBYTES];
    if (!fzm_mode_name(mode))
        return fzm_err_set(err, FZM_ERR_ARGUMENT,
                           "bound mode %d is unknown; expected 0 lossless, 1 abs, 2 rel, 3 range, "
                           "4 maxabs or 5 psnr",
                           mode);
    if (mode == FZM_LOSSLESS || (isfinite(bound) && (mode == FZM_PSNR ? bound > 0 : bound >= 0)))
        return 0;
    fzm_print_double(text, bound);
    return FZM_CONFIG_ERROR(err, "bound of mode %s is %s; expected a finite number %s", fzm_mode_name(mode),
                            text, mode == FZM_PSNR ? "> 0, in dB" : ">= 0");
}

/* The pipeline's "bound": {"mode": word, "value": number}. */
static int parse_bound(struct fzm_pipeline *pipeline, const cJSON *item, struct fzm_err *err)
{
    static const char *const keys[] = {"mode", "value", NULL};
    static const char *const modes[] = {"lossless", "abs", "rel", "range", "maxabs", "psnr", NULL};
    char list[96];
    FZM_TRY(fzm_json_check_keys(item, keys, "bound", err));
    const cJSON *const mode = fzm_json_get(item, "mode"), *const value = fzm_json_get(item, "value");
    if (!mode || !cJSON_IsString(mode))
        return FZM_CONFIG_ERROR(err, "bound: \"mode\" %s; expected one of: %s",
                                mode ? "is not a string" : "is missing",
                                fzm_json_list(list, sizeof list, modes));
    pipeline->mode = fzm_mode_from_name(mode->valuestring);
    if (pipeline->mode < 0) {
        char hint[FZM_HINT_NBYTES];
        fzm_hint(hint, mode->valuestring, modes);
        return FZM_CONFIG_ERROR(err, "bound: \"mode\" is \"%.30s\"%s; expected one of: %s", mode->valuestring,
                                hint, fzm_json_list(list, sizeof list, modes));
    }
    if (pipeline->mode == FZM_LOSSLESS)
        return value ? FZM_CONFIG_ERROR(err, "bound: mode lossless has no \"value\"; leave it out") : 0;
    if (!value || !cJSON_IsNumber(value))
        return FZM_CONFIG_ERROR(err, "bound: \"value\" %s; expected a number",
                                value ? "is not a number" : "is missing");
    pipeline->bound = value->valuedouble + 0.0; /* -0 becomes 0 */
    return fzm_bound_check(pipeline->mode, pipeline->bound, err);
}

/* Checks "fzm" and "guarantee". */
static int parse_head(struct fzm_pipeline *pipeline, const cJSON *root, struct fzm_err *err)
{
    static const char *const keys[] = {"fzm", "bound", "guarantee", "stages", NULL};
    FZM_TRY(fzm_json_check_keys(root, keys, "pipeline", err));
    const cJSON *const version = fzm_json_get(root, "fzm"), *const guarantee =
                                                                fzm_json_get(root, "guarantee");
    if (!version || !cJSON_IsNumber(version))
        return FZM_CONFIG_ERROR(err, "pipeline: \"fzm\" %s; expected \"fzm\": 1, the version of the notation",
                                version ? "is not a number" : "is missing");
    if (version->valuedouble != 1) {
        char text[FZM_DOUBLE_TEXT_NBYTES];
        fzm_print_double(text, version->valuedouble);
        return fzm_err_set(err, version->valuedouble > 1 ? FZM_ERR_VERSION : FZM_ERR_CONFIG,
                           "pipeline: \"fzm\" is %s; this version reads notation 1", text);
    }
    if (guarantee && (!cJSON_IsString(guarantee) || strcmp(guarantee->valuestring, "none") != 0))
        return FZM_CONFIG_ERROR(err, "pipeline: \"guarantee\" takes only \"none\"; leave it out to have one");
    pipeline->no_guarantee = guarantee != NULL;
    return 0;
}

static int parse_stages(struct fzm_pipeline *pipeline, const cJSON *stages, struct fzm_stage_bound *own,
                        struct fzm_err *err)
{
    if (!stages || !cJSON_IsArray(stages))
        return FZM_CONFIG_ERROR(err, "pipeline: \"stages\" %s; expected an array of 1 to %d stages",
                                stages ? "is not an array" : "is missing", FZM_MAX_STAGES);
    const int n = cJSON_GetArraySize(stages);
    if (n < 1 || n > FZM_MAX_STAGES)
        return FZM_CONFIG_ERROR(err, "pipeline: \"stages\" has %d stages, expected 1 to %d", n,
                                FZM_MAX_STAGES);
    for (const cJSON *item = stages->child; item; item = item->next)
        FZM_TRY(fzm_config_parse_stage(&pipeline->graph, item, &own[pipeline->graph.n_nodes], err));
    return 0;
}

/* Brings the pipeline's bound and those of stages together: equal, or stated in one place only. */
static int settle_bound(struct fzm_pipeline *pipeline, bool has_bound, const struct fzm_stage_bound *own,
                        struct fzm_err *err)
{
    char label[FZM_LABEL_NBYTES], mine[FZM_DOUBLE_TEXT_NBYTES], theirs[FZM_DOUBLE_TEXT_NBYTES];
    for (unsigned i = 0; i < pipeline->graph.n_nodes; i++) {
        if (own[i].mode < 0)
            continue;
        if (!has_bound) {
            pipeline->mode = own[i].mode;
            pipeline->bound = own[i].bound;
            has_bound = true;
        }
        if (own[i].mode != pipeline->mode || own[i].bound != pipeline->bound) {
            fzm_graph_label(&pipeline->graph, i, label);
            fzm_print_double(mine, own[i].bound);
            fzm_print_double(theirs, pipeline->bound);
            return FZM_CONFIG_ERROR(
                err, "%s: its bound, %s %s, contradicts %s %s of the pipeline; leave it out here", label,
                fzm_mode_name(own[i].mode), mine, fzm_mode_name(pipeline->mode), theirs);
        }
    }
    const bool lossy = fzm_graph_is_lossy(&pipeline->graph);
    if (!has_bound && lossy)
        return FZM_CONFIG_ERROR(err, "pipeline: it is lossy and has no bound; add e.g. \"bound\": "
                                     "{\"mode\": \"abs\", \"value\": 1e-3}");
    if (has_bound && pipeline->mode == FZM_LOSSLESS && lossy)
        return FZM_CONFIG_ERROR(err, "pipeline: its bound is lossless but a stage is lossy; remove that "
                                     "stage or use a bound of mode abs, rel, range, maxabs or psnr");
    return 0;
}

static int parse_root(struct fzm_pipeline *pipeline, const cJSON *root, int mode, double bound,
                      struct fzm_err *err)
{
    struct fzm_stage_bound own[FZM_MAX_STAGES];
    FZM_TRY(parse_head(pipeline, root, err));
    const cJSON *const item = fzm_json_get(root, "bound");
    if (item)
        FZM_TRY(parse_bound(pipeline, item, err));
    if (mode >= 0) {
        pipeline->mode = mode;
        pipeline->bound = bound;
    }
    FZM_TRY(parse_stages(pipeline, fzm_json_get(root, "stages"), own, err));
    FZM_TRY(settle_bound(pipeline, item || mode >= 0, own, err));
    return fzm_graph_check(&pipeline->graph, pipeline->no_guarantee, err);
}

int fzm_config_parse_with(struct fzm_pipeline *pipeline, const char *json, size_t json_nbytes, int mode,
                          double bound, struct fzm_err *err)
{
    struct fzm_c_locale c_locale;
    cJSON *root;
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->preset = -1;
    fzm_c_locale_enter(&c_locale);
    int code = fzm_json_parse(&root, json, json_nbytes, err);
    if (code == 0)
        code = parse_root(pipeline, root, mode, bound, err);
    cJSON_Delete(root);
    fzm_c_locale_leave(&c_locale);
    return code;
}

int fzm_config_parse(struct fzm_pipeline *pipeline, const char *json, size_t json_nbytes, struct fzm_err *err)
{
    return fzm_config_parse_with(pipeline, json, json_nbytes, -1, 0, err);
}
