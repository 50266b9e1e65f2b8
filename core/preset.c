/* SPDX-License-Identifier: BSD-3-Clause */
/* Presets. The JSON texts here are the only definition; examples/presets/ has copies of them. */
#include "config.h"

#include <stdio.h>
#include <string.h>

enum { AUTO = 0, FAST = 1, BALANCED = 2, LOSSLESS = 5 };

static const char fast_json[] =
    "{\n"
    "  \"fzm\": 1,\n"
    "  \"stages\": [\n"
    "    {\"name\": \"quant\", \"type\": \"Quantizer\"},\n"
    "    {\"name\": \"pred\", \"type\": \"AdaptiveLorenzo\", "
    "\"inputs\": [\"quant.codes\", \"quant.outlier_mask\"]},\n"
    "    {\"type\": \"AdaptiveBitpack\"},\n"
    "    {\"type\": \"Difference\", \"inputs\": [\"pred.origins\"]},\n"
    "    {\"type\": \"AdaptiveBitpack\"},\n"
    "    {\"type\": \"RRE\", \"inputs\": [\"pred.modes\"]},\n"
    "    {\"type\": \"BitLorenzo\", \"inputs\": [\"quant.outlier_mask\", \"@input\"]},\n"
    "    {\"type\": \"RZE\"},\n"
    "    {\"type\": \"Difference\", \"inputs\": [\"quant.outlier_vals\"]},\n"
    "    {\"type\": \"RZE\"}\n"
    "  ]\n"
    "}\n";

static const char balanced_json[] =
    "{\n"
    "  \"fzm\": 1,\n"
    "  \"stages\": [\n"
    "    {\"name\": \"quant\", \"type\": \"Quantizer\"},\n"
    "    {\"name\": \"pred\", \"type\": \"AdaptiveLorenzo\", "
    "\"inputs\": [\"quant.codes\", \"quant.outlier_mask\"], "
    "\"tile\": 4096},\n"
    "    {\"type\": \"Zigzag\"},\n"
    "    {\"type\": \"Bitshuffle\"},\n"
    "    {\"type\": \"RZE\"},\n"
    "    {\"type\": \"Difference\", \"inputs\": [\"pred.origins\"]},\n"
    "    {\"type\": \"AdaptiveBitpack\"},\n"
    "    {\"type\": \"RRE\", \"inputs\": [\"pred.modes\"]},\n"
    "    {\"type\": \"BitLorenzo\", \"inputs\": [\"quant.outlier_mask\", \"@input\"]},\n"
    "    {\"type\": \"RZE\"},\n"
    "    {\"type\": \"Difference\", \"inputs\": [\"quant.outlier_vals\"]},\n"
    "    {\"type\": \"RZE\"}\n"
    "  ]\n"
    "}\n";

static const char lossless_json[] =
    "{\n"
    "  \"fzm\": 1,\n"
    "  \"stages\": [\n"
    "    {\"name\": \"pred\", \"type\": \"AdaptiveLorenzo\", \"tile\": 4096},\n"
    "    {\"type\": \"Negabinary\"},\n"
    "    {\"type\": \"Bitshuffle\"},\n"
    "    {\"type\": \"RZE\"},\n"
    "    {\"type\": \"Difference\", \"inputs\": [\"pred.origins\"]},\n"
    "    {\"type\": \"AdaptiveBitpack\"},\n"
    "    {\"type\": \"RRE\", \"inputs\": [\"pred.modes\"]}\n"
    "  ]\n"
    "}\n";

/* auto has no pipeline of its own: lossless for mode lossless, else balanced. */
static const fzm_preset_info presets[] = {
    {AUTO, "auto", "balanced under an error bound, lossless without one", NULL},
    {FAST, "fast", "highest speed: adaptive prediction in small tiles and block-wise bit packing", fast_json},
    {BALANCED, "balanced", "more compression: adaptive prediction, bit planes and recursive zero elimination",
     balanced_json},
    {LOSSLESS, "lossless",
     "bit for bit, any element type: prediction on integer bits, bit planes, zero elimination", lossless_json},
};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const fzm_preset_info *fzm_preset(size_t i) { return i < N_PRESETS ? &presets[i] : NULL; }

const fzm_preset_info *fzm_preset_by_number(int number)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        if (presets[i].number == number)
            return &presets[i];
    return NULL;
}

const fzm_preset_info *fzm_preset_by_name(const char *name)
{
    for (size_t i = 0; name && i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

static int unknown_preset(int preset, struct fzm_err *err)
{
    char list[160] = "";
    size_t at = 0;
    for (size_t i = 0; i < N_PRESETS && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d %s", i ? ", " : "", presets[i].number,
                               presets[i].name);
    return fzm_err_set(err, FZM_ERR_ARGUMENT, "preset %d does not exist; presets: %s", preset, list);
}

int fzm_preset_build(struct fzm_pipeline *pipeline, int preset, int mode, double bound, struct fzm_err *err)
{
    if (!fzm_preset_by_number(preset))
        return unknown_preset(preset, err);
    FZM_TRY(fzm_bound_check(mode, bound, err));
    const int lossy = preset == AUTO ? BALANCED : preset;
    const char *const json = fzm_preset_by_number(mode == FZM_LOSSLESS ? LOSSLESS : lossy)->json;
    const double value = mode == FZM_LOSSLESS ? 0 : bound + 0.0; /* -0 becomes 0 */
    FZM_TRY(fzm_config_parse_with(pipeline, json, strlen(json), mode, value, err));
    pipeline->preset = preset;
    return 0;
}
