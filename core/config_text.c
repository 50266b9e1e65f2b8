/* SPDX-License-Identifier: BSD-3-Clause */
/* Small text helpers of the JSON reader and writer. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fzm_c_locale_enter(struct fzm_c_locale *l)
{
    l->before = (locale_t)0;
    l->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (l->c)
        l->before = uselocale(l->c);
}

void fzm_c_locale_leave(struct fzm_c_locale *l)
{
    if (!l->c)
        return;
    uselocale(l->before);
    freelocale(l->c);
}

void fzm_print_double(char text[FZM_DOUBLE_TEXT_NBYTES], double v)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, FZM_DOUBLE_TEXT_NBYTES, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            return;
    }
}

enum { MAX_WORD_NBYTES = 48 };

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c; }

/* Levenshtein distance in which the case of a letter does not count, of words below MAX_WORD_NBYTES. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[MAX_WORD_NBYTES];
    const size_t n = strlen(b);
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[n];
}

static const char *nearest_word(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    const size_t n = strlen(word);
    if (n == 0 || n >= MAX_WORD_NBYTES)
        return NULL;
    unsigned least = (unsigned)n / 3 + 2; /* a mistyped word, not another one */
    for (; *words; words++) {
        if (strlen(*words) >= MAX_WORD_NBYTES)
            continue;
        const unsigned d = edit_distance(word, *words);
        if (d < least && d < n) {
            least = d;
            nearest = *words;
        }
    }
    return nearest;
}

void fzm_hint(char hint[FZM_HINT_NBYTES], const char *word, const char *const *words)
{
    const char *const near = nearest_word(word, words);
    hint[0] = 0;
    if (near)
        snprintf(hint, FZM_HINT_NBYTES, " (did you mean \"%s\"?)", near);
}
