/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_stage.h"

#include "stages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys of any stage next to its params. */
enum { N_COMMON_KEYS = 3, MAX_KEYS = N_COMMON_KEYS + 63 };
static const char *const common_keys[N_COMMON_KEYS] = {"name", "type", "inputs"};

static int parse_type(struct fzm_node *node, const cJSON *item, const char *where, struct fzm_err *err)
{
    const char *names[64];
    char list[160];
    unsigned n = 0;
    for (; fzm_stages[n] && n < 63; n++)
        names[n] = fzm_stages[n]->name;
    names[n] = NULL;
    if (!cJSON_IsObject(item))
        return FZM_CONFIG_ERROR(err, "%s: expected an object { }, found %s", where, fzm_json_kind(item));
    const cJSON *const type = fzm_json_get(item, "type");
    if (!type || !cJSON_IsString(type))
        return FZM_CONFIG_ERROR(err, "%s: \"type\" %s; known types: %s", where,
                                type ? "is not a string" : "is missing",
                                fzm_json_list(list, sizeof list, names));
    node->stage = fzm_stage_by_name(type->valuestring);
    if (!node->stage) {
        char hint[FZM_HINT_NBYTES];
        fzm_hint(hint, type->valuestring, names);
        return FZM_CONFIG_ERROR(err, "%s: unknown type \"%.30s\"%s; known types: %s", where,
                                type->valuestring, hint, fzm_json_list(list, sizeof list, names));
    }
    return 0;
}

/* Names are references' first half, so they have no dot and no @. */
static int parse_name(struct fzm_graph *graph, struct fzm_node *node, const cJSON *item, const char *where,
                      struct fzm_err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (!cJSON_IsString(item))
        return FZM_CONFIG_ERROR(err, "%s: \"name\" is %s; expected a string", where, fzm_json_kind(item));
    const char *const name = item->valuestring;
    const size_t n = strlen(name);
    if (n < 1 || n >= sizeof node->name || strspn(name, allowed) != n)
        return FZM_CONFIG_ERROR(err, "%s: \"name\" is \"%.40s\"; expected 1 to %zu letters, digits, _ or -",
                                where, name, sizeof node->name - 1);
    for (unsigned i = 0; i < graph->n_nodes; i++)
        if (strcmp(graph->nodes[i].name, name) == 0)
            return FZM_CONFIG_ERROR(err, "%s: \"name\" %s is already that of stages[%u]", where, name, i);
    memcpy(node->name, name, n + 1);
    return 0;
}

static int range_error(const char *label, const struct fzm_param *p, const cJSON *item, struct fzm_err *err)
{
    char value[FZM_DOUBLE_TEXT_NBYTES], min[FZM_DOUBLE_TEXT_NBYTES], max[FZM_DOUBLE_TEXT_NBYTES];
    char found[FZM_DOUBLE_TEXT_NBYTES + 8];
    if (cJSON_IsNumber(item))
        fzm_print_double(value, item->valuedouble);
    snprintf(found, sizeof found, "%s", cJSON_IsNumber(item) ? value : fzm_json_kind(item));
    fzm_print_double(min, p->min);
    fzm_print_double(max, p->max);
    return FZM_CONFIG_ERROR(err, "%s: \"%s\" is %s; expected %s from %s to %s", label, p->key, found,
                            p->type == FZM_P_U32 ? "an integer" : "a number", min, max);
}

static int parse_word(const char *label, const struct fzm_param *p, const cJSON *item, double *value,
                      struct fzm_err *err)
{
    char list[160], number[FZM_DOUBLE_TEXT_NBYTES];
    const char *word = item->valuestring;
    fzm_json_list(list, sizeof list, p->names);
    if (cJSON_IsNumber(item)) { /* words such as 256 need no quotes */
        fzm_print_double(number, item->valuedouble);
        word = number;
    } else if (!cJSON_IsString(item)) {
        return FZM_CONFIG_ERROR(err, "%s: \"%s\" is %s; expected one of: %s", label, p->key,
                                fzm_json_kind(item), list);
    }
    for (unsigned i = 0; p->names[i]; i++)
        if (strcmp(p->names[i], word) == 0) {
            *value = i;
            return 0;
        }
    char hint[FZM_HINT_NBYTES];
    fzm_hint(hint, word, p->names);
    return FZM_CONFIG_ERROR(err, "%s: \"%s\" is \"%.30s\"%s; expected one of: %s", label, p->key, word, hint,
                            list);
}

/* Value of a param from its item. */
static int parse_param(const char *label, const struct fzm_param *p, const cJSON *item, double *value,
                       struct fzm_err *err)
{
    switch (p->type) {
    case FZM_P_ENUM: return parse_word(label, p, item, value, err);
    case FZM_P_BOOL:
        if (!cJSON_IsBool(item))
            return FZM_CONFIG_ERROR(err, "%s: \"%s\" is %s; expected true or false", label, p->key,
                                    fzm_json_kind(item));
        *value = cJSON_IsTrue(item);
        return 0;
    default:
        *value = cJSON_IsNumber(item) ? item->valuedouble : NAN;
        if (!isfinite(*value) || !(*value >= p->min && *value <= p->max))
            return range_error(label, p, item, err);
        if (p->type == FZM_P_U32 && *value != (double)(uint32_t)*value)
            return range_error(label, p, item, err);
        *value += 0.0; /* -0 becomes 0 */
        return 0;
    }
}

/* A stage's own bound: both its mode and its value, or neither. */
static int check_own_bound(const char *label, int mode, bool has_value, double bound,
                           struct fzm_stage_bound *own, struct fzm_err *err)
{
    own->mode = -1;
    own->bound = 0;
    if (mode < 0 && !has_value)
        return 0;
    if (mode < 0)
        return FZM_CONFIG_ERROR(err, "%s: a bound of its own needs a mode: abs, rel, range, maxabs or psnr",
                                label);
    if (!has_value)
        return FZM_CONFIG_ERROR(err, "%s: mode %s needs the value of the bound", label, fzm_mode_name(mode));
    struct fzm_err why = {0};
    if (fzm_bound_check(mode, bound, &why) < 0)
        return FZM_CONFIG_ERROR(err, "%s: %s", label, why.text);
    own->mode = mode;
    own->bound = bound;
    return 0;
}

static int parse_params(struct fzm_node *node, const cJSON *item, const char *label,
                        struct fzm_stage_bound *own, struct fzm_err *err)
{
    const struct fzm_stage *const stage = node->stage;
    int mode = -1;
    bool has_value = false;
    double bound = 0;
    for (unsigned i = 0; i < stage->n_params; i++) {
        const struct fzm_param *const p = &stage->params[i];
        const cJSON *const found = p->flags & FZM_PF_RUNTIME ? NULL : fzm_json_get(item, p->key);
        double value = 0;
        if (!found)
            continue;
        FZM_TRY(parse_param(label, p, found, &value, err));
        if (!(p->flags & FZM_PF_BOUND)) {
            fzm_params_set(stage, node->params.bytes, i, value);
        } else if (p->type == FZM_P_ENUM) {
            if (value != 0) /* 0 says: the pipeline's */
                mode = fzm_mode_from_name(p->names[(unsigned)value]);
        } else {
            bound = value;
            has_value = true;
        }
    }
    return check_own_bound(label, mode, has_value, bound, own, err);
}

/* Whether a name is that of a stage further down in the list. */
static bool is_later_name(const cJSON *item, const char *name, size_t n)
{
    for (; item; item = item->next) {
        const cJSON *const other = cJSON_IsObject(item) ? fzm_json_get(item, "name") : NULL;
        if (other && cJSON_IsString(other) && strlen(other->valuestring) == n &&
            memcmp(other->valuestring, name, n) == 0)
            return true;
    }
    return false;
}

static int unknown_name(const struct fzm_graph *graph, const char *label, const char *reference, size_t n,
                        struct fzm_err *err)
{
    const char *names[FZM_MAX_STAGES + 1];
    char word[sizeof graph->nodes[0].name] = "", list[96];
    unsigned n_names = 0;
    for (unsigned i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].name[0])
            names[n_names++] = graph->nodes[i].name;
    names[n_names] = NULL;
    if (n < sizeof word)
        memcpy(word, reference, n);
    char hint[FZM_HINT_NBYTES];
    fzm_hint(hint, word, names);
    return FZM_CONFIG_ERROR(err, "%s: input \"%.40s\" names no earlier stage%s; names: @input%s%s", label,
                            reference, hint, n_names ? ", " : "", fzm_json_list(list, sizeof list, names));
}

/* "@input", "name" or "name.port". */
static int parse_reference(const struct fzm_graph *graph, const char *label, const cJSON *stage_item,
                           const char *reference, struct fzm_source *source, struct fzm_err *err)
{
    const char *const dot = strchr(reference, '.');
    const size_t n = dot ? (size_t)(dot - reference) : strlen(reference);
    source->node = FZM_SOURCE_INPUT;
    source->port = 0;
    if (strcmp(reference, "@input") == 0)
        return 0;
    unsigned i = 0;
    while (i < graph->n_nodes &&
           (strlen(graph->nodes[i].name) != n || n == 0 || memcmp(graph->nodes[i].name, reference, n) != 0))
        i++;
    if (i == graph->n_nodes && n > 0 && is_later_name(stage_item, reference, n))
        return FZM_CONFIG_ERROR(err,
                                "%s: input \"%.40s\" is not of an earlier stage; list stages before those "
                                "that take their output",
                                label, reference);
    if (i == graph->n_nodes)
        return unknown_name(graph, label, reference, n, err);
    source->node = (int8_t)i;
    if (!dot)
        return 0;

    const struct fzm_stage *const from = graph->nodes[i].stage;
    const char *ports[FZM_MAX_PORTS + 1];
    char list[96];
    for (unsigned j = 0; j < from->n_out; j++) {
        ports[j] = from->out[j].name;
        if (strcmp(dot + 1, ports[j]) == 0) {
            source->port = (uint8_t)j;
            return 0;
        }
    }
    ports[from->n_out] = NULL;
    char hint[FZM_HINT_NBYTES];
    fzm_hint(hint, dot + 1, ports);
    return FZM_CONFIG_ERROR(err, "%s: input \"%.40s\": %s has no such port%s; its ports: %s", label,
                            reference, from->name, hint, fzm_json_list(list, sizeof list, ports));
}

static int parse_inputs(const struct fzm_graph *graph, struct fzm_node *node, const cJSON *stage_item,
                        const char *label, struct fzm_err *err)
{
    const cJSON *const inputs = fzm_json_get(stage_item, "inputs");
    for (unsigned j = 0; j < FZM_MAX_PORTS; j++) {
        node->in[j].node = FZM_SOURCE_ABSENT;
        node->in[j].port = 0;
    }
    if (!inputs) {
        node->in[0].node = (int8_t)((int)graph->n_nodes - 1); /* the stage before, or @input */
        return 0;
    }
    if (!cJSON_IsArray(inputs))
        return FZM_CONFIG_ERROR(err, "%s: \"inputs\" is %s; expected an array such as [\"quant.codes\"]",
                                label, fzm_json_kind(inputs));
    const int n = cJSON_GetArraySize(inputs);
    if (n < 1 || n > node->stage->n_in)
        return FZM_CONFIG_ERROR(err, "%s: \"inputs\" has %d entries, expected 1 to %u", label, n,
                                node->stage->n_in);
    unsigned j = 0;
    for (const cJSON *item = inputs->child; item; item = item->next, j++) {
        if (cJSON_IsNull(item)) /* absent; fzm_graph_check() says if it must not be */
            continue;
        if (!cJSON_IsString(item))
            return FZM_CONFIG_ERROR(err, "%s: \"inputs\" has %s in it; expected strings", label,
                                    fzm_json_kind(item));
        FZM_TRY(parse_reference(graph, label, stage_item, item->valuestring, &node->in[j], err));
    }
    return 0;
}

int fzm_config_parse_stage(struct fzm_graph *graph, const cJSON *item, struct fzm_stage_bound *own,
                           struct fzm_err *err)
{
    struct fzm_node *const node = &graph->nodes[graph->n_nodes];
    char label[FZM_LABEL_NBYTES];
    const char *keys[MAX_KEYS + 1];
    unsigned n_keys = 0;
    memset(node, 0, sizeof *node);
    snprintf(label, sizeof label, "stages[%u]", graph->n_nodes);
    FZM_TRY(parse_type(node, item, label, err));
    const struct fzm_stage *const stage = node->stage;
    fzm_graph_label(graph, graph->n_nodes, label);
    const cJSON *const name = fzm_json_get(item, "name");
    if (name)
        FZM_TRY(parse_name(graph, node, name, label, err));
    fzm_graph_label(graph, graph->n_nodes, label);
    for (; n_keys < N_COMMON_KEYS; n_keys++)
        keys[n_keys] = common_keys[n_keys];
    for (unsigned i = 0; i < stage->n_params && n_keys < MAX_KEYS; i++)
        if (!(stage->params[i].flags & FZM_PF_RUNTIME))
            keys[n_keys++] = stage->params[i].key;
    keys[n_keys] = NULL;
    FZM_TRY(fzm_json_check_keys(item, keys, label, err));
    fzm_params_init(stage, node->params.bytes);
    FZM_TRY(parse_params(node, item, label, own, err));
    FZM_TRY(parse_inputs(graph, node, item, label, err));
    graph->n_nodes++;
    return 0;
}
