/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cJSON *fzm_json_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *fzm_json_kind(const cJSON *item)
{
    return cJSON_IsString(item)   ? "a string"
           : cJSON_IsNumber(item) ? "a number"
           : cJSON_IsArray(item)  ? "an array"
           : cJSON_IsObject(item) ? "an object"
           : cJSON_IsBool(item)   ? "true or false"
                                  : "null";
}

char *fzm_json_list(char *text, size_t cap, const char *const *words)
{
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; words[i] && at < cap; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%s", i ? ", " : "", words[i]);
    return text;
}

int fzm_json_check_keys(const cJSON *object, const char *const *keys, const char *where, struct fzm_err *err)
{
    char list[160];
    if (!cJSON_IsObject(object))
        return FZM_CONFIG_ERROR(err, "%s: expected an object { }, found %s", where, fzm_json_kind(object));
    for (const cJSON *item = object->child; item; item = item->next) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], item->string) != 0)
            i++;
        if (!keys[i]) {
            char hint[FZM_HINT_NBYTES];
            fzm_hint(hint, item->string, keys);
            return FZM_CONFIG_ERROR(err, "%s: unknown key \"%.30s\"%s; known keys: %s", where, item->string,
                                    hint, fzm_json_list(list, sizeof list, keys));
        }
        /* Each key that came this far is a known one, so there are few of them. */
        for (const cJSON *other = object->child; other != item; other = other->next)
            if (strcmp(other->string, item->string) == 0)
                return FZM_CONFIG_ERROR(err, "%s: key \"%s\" is there twice", where, item->string);
    }
    return 0;
}

/* What cJSON would take but no pipeline needs: deep nesting (it recurses) and NULs (they cut strings). */
static int check_text(const char *json, size_t nbytes, struct fzm_err *err)
{
    if (nbytes > FZM_MAX_JSON_NBYTES)
        return FZM_CONFIG_ERROR(err, "JSON text has %zu bytes, at most %d are accepted", nbytes,
                                FZM_MAX_JSON_NBYTES);
    const char *const nul = nbytes ? memchr(json, 0, nbytes) : NULL;
    if (nul)
        return FZM_CONFIG_ERROR(err, "JSON text has a NUL byte at offset %zu", (size_t)(nul - json));
    unsigned depth = 0, line = 1;
    bool in_string = false;
    for (size_t i = 0; i < nbytes; i++) {
        const char c = json[i];
        line += c == '\n';
        if (in_string && c == '\\') {
            if (nbytes - i >= 6 && memcmp(json + i, "\\u0000", 6) == 0)
                return FZM_CONFIG_ERROR(err, "JSON line %u: \\u0000 in a string", line);
            i++; /* an escaped quote does not end the string */
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '{' || c == '[')) {
            depth++;
        } else if (!in_string && (c == '}' || c == ']') && depth > 0) {
            depth--;
        }
        if (depth > FZM_MAX_JSON_DEPTH)
            return FZM_CONFIG_ERROR(err, "JSON line %u: nested deeper than %d levels", line,
                                    FZM_MAX_JSON_DEPTH);
    }
    return 0;
}

/* cJSON points one byte too far where a key should start, as after a superfluous comma. */
static const char *place_of_error(const char *text, const char *at)
{
    if (at == text || strchr(" \t\r\n\"[{0123456789", at[-1]))
        return at;
    const char *before = at - 1;
    while (before > text && strchr(" \t\r\n", before[-1]))
        before--;
    if (before == text || (before[-1] != ',' && before[-1] != '{') || (at[-1] == '}' && before[-1] == '{'))
        return at;
    return at - 1;
}

static int syntax_error(const char *text, const char *at, struct fzm_err *err)
{
    at = place_of_error(text, at);
    unsigned line = 1, column = 1;
    for (const char *p = text; p < at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    const unsigned char c = (unsigned char)*at;
    if (c == 0)
        return FZM_CONFIG_ERROR(err, "JSON line %u, column %u: syntax error: the text ends too early", line,
                                column);
    if (c < 0x20 || c >= 0x7f)
        return FZM_CONFIG_ERROR(err, "JSON line %u, column %u: syntax error at byte 0x%02x", line, column, c);
    return FZM_CONFIG_ERROR(err, "JSON line %u, column %u: syntax error near '%c'", line, column, c);
}

int fzm_json_parse(cJSON **root, const char *json, size_t json_nbytes, struct fzm_err *err)
{
    *root = NULL;
    FZM_TRY(check_text(json, json_nbytes, err));
    char *const text = malloc(json_nbytes + 1);
    if (!text)
        return fzm_err_set(err, FZM_ERR_MEMORY, "out of memory");
    memcpy(text, json, json_nbytes);
    text[json_nbytes] = 0;
    const char *end = text;
    *root = cJSON_ParseWithLengthOpts(text, json_nbytes + 1, &end, 1);
    const int code = *root ? 0 : syntax_error(text, end, err);
    free(text);
    return code;
}
