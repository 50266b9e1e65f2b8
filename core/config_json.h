/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON text to a cJSON tree, and errors about its items. */
#ifndef FZM_CONFIG_JSON_H
#define FZM_CONFIG_JSON_H

#include "cJSON.h"
#include "config.h"

/* Parses text that need not be NUL-ended; syntax errors are told by line and column. Call it inside the
 * C locale; free *root with cJSON_Delete(). */
int fzm_json_parse(cJSON **root, const char *json, size_t json_nbytes, struct fzm_err *err);

/* Checks that an item is an object whose keys are all in the NULL-ended list and none repeats. where
 * names it in errors. */
int fzm_json_check_keys(const cJSON *object, const char *const *keys, const char *where, struct fzm_err *err);

/* Item of a key, or NULL; unlike cJSON's own, case counts in the name's and in the key's spelling. */
const cJSON *fzm_json_get(const cJSON *object, const char *key);

/* What an item is, in words: "a string", "null", ... */
const char *fzm_json_kind(const cJSON *item);

/* Appends words as `a, b, c` to text; returns text. */
char *fzm_json_list(char *text, size_t cap, const char *const *words);

#endif
