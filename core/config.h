/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the JSON side that several of its files share. */
#ifndef FZM_CONFIG_H
#define FZM_CONFIG_H

#include "graph.h"

#include <locale.h>

#define FZM_CONFIG_ERROR(err, ...) fzm_err_set(err, FZM_ERR_CONFIG, __VA_ARGS__)

/* Largest JSON text in bytes, and the deepest nesting that a pipeline has use for. */
enum { FZM_MAX_JSON_NBYTES = 65536, FZM_MAX_JSON_DEPTH = 8 };

/* The host program may have set a locale with another decimal point; numbers are read and printed in
 * the C locale of this thread between the two calls. */
struct fzm_c_locale {
    locale_t c, before;
};
void fzm_c_locale_enter(struct fzm_c_locale *l);
void fzm_c_locale_leave(struct fzm_c_locale *l);

/* Shortest decimal text that reads back as the same double; call it inside the C locale. */
enum { FZM_DOUBLE_TEXT_NBYTES = 32 };
void fzm_print_double(char text[FZM_DOUBLE_TEXT_NBYTES], double v);

/* ` (did you mean "x"?)` with the word of a NULL-ended list that resembles the given one most; empty if
 * none does. */
enum { FZM_HINT_NBYTES = 80 };
void fzm_hint(char hint[FZM_HINT_NBYTES], const char *word, const char *const *words);

/* "stage quant (Quantizer)", or "stages[2] (RZE)" if it has no name. */
enum { FZM_LABEL_NBYTES = 80 };
void fzm_graph_label(const struct fzm_graph *graph, unsigned node, char label[FZM_LABEL_NBYTES]);

bool fzm_graph_is_lossy(const struct fzm_graph *graph);

/* The first stage that breaks the end-to-end guarantee, or -1. A stage proves its bound for its own
 * input, so only what it does to @input itself says something about the elements. */
int fzm_graph_unguarded(const struct fzm_graph *graph);

/* fzm_config_parse() with the pipeline's bound given by the caller, as for presets; mode < 0: it is taken
 * from the text. */
int fzm_config_parse_with(struct fzm_pipeline *pipeline, const char *json, size_t json_nbytes, int mode,
                          double bound, struct fzm_err *err);

/* Whether a bound value makes sense for its mode. */
int fzm_bound_check(int mode, double bound, struct fzm_err *err);

#endif
