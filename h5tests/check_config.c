/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON pipelines: what is taken, what is refused and in which words, and that printing a pipeline and
 * reading it back gives the same one. check_pipeline.c has compiled words, presets and shapes.
 *     check_config [--seed=N] */
#include "check.h"
#include "config_cases.h"
#include "fzm.h"
#include "stages.h"

#include <locale.h>
#include <math.h>

enum { TEXT_NBYTES = 1 << 17, MAX_WORDS = 512 };

/* ' to " */
static char *json_of(const char *quoted)
{
    static char text[TEXT_NBYTES];
    snprintf(text, sizeof text, "%s", quoted);
    for (char *p = text; *p; p++)
        if (*p == '\'')
            *p = '"';
    return text;
}

/* Prints a pipeline, reads it back: the same words and the same text. */
static void check_round_trip(const fzm_pipeline *p, const char *what)
{
    static char first[TEXT_NBYTES], second[TEXT_NBYTES];
    uint32_t words[MAX_WORDS], again[MAX_WORDS];
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_pipeline *q;
    const size_t n = fzm_pipeline_to_json(p, first, sizeof first);
    CHECK(n == strlen(first), "%s: to_json returns %zu for %zu bytes", what, n, strlen(first));
    const int code = fzm_pipeline_from_json(&q, first, n, text);
    if (!CHECK(code == 0, "%s: does not read what it printed: %s\n%s", what, text, first))
        return;
    const size_t n_words = fzm_pipeline_to_words(p, words, MAX_WORDS);
    CHECK(n_words == fzm_pipeline_to_words(q, again, MAX_WORDS) && n_words <= MAX_WORDS &&
              memcmp(words, again, 4 * n_words) == 0,
          "%s: another pipeline after print and parse\n%s", what, first);
    CHECK(fzm_pipeline_mode(p) == fzm_pipeline_mode(q) && fzm_pipeline_bound(p) == fzm_pipeline_bound(q),
          "%s: another bound after print and parse", what);
    fzm_pipeline_to_json(q, second, sizeof second);
    CHECK(strcmp(first, second) == 0, "%s: printed again it differs\n%s\n%s", what, first, second);
    fzm_pipeline_free(&q);

    /* Any capacity: never more bytes than that, always an end. */
    char cut[16];
    memset(cut, 'x', sizeof cut);
    CHECK(fzm_pipeline_to_json(p, cut, 10) == n && strlen(cut) == 9 && memcmp(cut, first, 9) == 0 &&
              cut[10] == 'x',
          "%s: cut print", what);
    CHECK(fzm_pipeline_to_json(p, NULL, 0) == n, "%s: print without room", what);
}

static void check_good(void)
{
    for (size_t i = 0; i < sizeof good_cases / sizeof *good_cases; i++) {
        const struct good_case *const c = &good_cases[i];
        char text[FZM_ERROR_TEXT_NBYTES] = "";
        fzm_pipeline *p;
        const char *const json = json_of(c->json);
        if (!CHECK(fzm_pipeline_from_json(&p, json, strlen(json), text) == 0, "%s: refused: %s", json, text))
            continue;
        CHECK(fzm_pipeline_mode(p) == c->mode && fzm_pipeline_bound(p) == c->bound &&
                  !signbit(fzm_pipeline_bound(p)),
              "%s: %s %g", json, fzm_mode_name(fzm_pipeline_mode(p)), fzm_pipeline_bound(p));
        check_round_trip(p, c->json);
        fzm_pipeline_free(&p);
        CHECK(p == NULL, "free leaves the pointer");
    }
}

static void check_refused(const char *json, size_t nbytes, int code, const char *fragment)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_pipeline *p = (fzm_pipeline *)(void *)text; /* must be reset */
    const int got = fzm_pipeline_from_json(&p, json, nbytes, text);
    CHECK(got == code && !p, "%.200s: %s, expected %s", json, fzm_error_name(got), fzm_error_name(code));
    CHECK(strstr(text, fragment) != NULL, "%.200s:\n  says     %s\n  expected %s", json, text, fragment);
    fzm_pipeline_from_json(&p, json, nbytes, NULL);
}

static void check_bad(void)
{
    static char big[TEXT_NBYTES];
    for (size_t i = 0; i < sizeof bad_cases / sizeof *bad_cases; i++) {
        const char *const json = json_of(bad_cases[i].json);
        check_refused(json, strlen(json), bad_cases[i].code, bad_cases[i].fragment);
    }
    const char *const json = json_of(PLAIN("{'type':'RZE'}"));
    check_refused(json, strlen(json) + 1, FZM_ERR_CONFIG, "NUL byte");
    memset(big, ' ', sizeof big);
    check_refused(big, 65537, FZM_ERR_CONFIG, "has 65537 bytes, at most 65536");
    memset(big, '[', sizeof big);
    check_refused(big, 65536, FZM_ERR_CONFIG, "nested deeper");
    /* Exactly as long as allowed; not ended by a NUL. */
    memset(big, ' ', sizeof big);
    memcpy(big, json, strlen(json));
    big[65536] = 'x';
    fzm_pipeline *p;
    CHECK(fzm_pipeline_from_json(&p, big, 65536, NULL) == 0, "64 KiB are refused");
    fzm_pipeline_free(&p);

    strcpy(big, "{\"fzm\":1,\"stages\":[");
    for (int i = 0; i < 33; i++)
        strcat(big, i ? ",{\"type\":\"Zigzag\"}" : "{\"type\":\"Zigzag\"}");
    strcat(big, "]}");
    check_refused(big, strlen(big), FZM_ERR_CONFIG, "33 stages, expected 1 to 32");
}

/* One stage with one param, in a pipeline that takes any stage: every input is the chunk. */
static void make_param_json(char *json, const struct fzm_stage *s, const char *key, const char *value)
{
    char inputs[64] = "\"@input\"";
    for (unsigned i = 1; i < s->n_in; i++)
        strcat(inputs, ",\"@input\"");
    sprintf(json,
            "{\"fzm\":1,\"guarantee\":\"none\",\"bound\":{\"mode\":\"abs\",\"value\":1},\"stages\":["
            "{\"type\":\"%s\",\"inputs\":[%s],\"%s\":%s}]}",
            s->name, inputs, key, value);
}

static void check_param_value(const struct fzm_stage *s, const struct fzm_param *p, const char *value,
                              int good)
{
    char json[1024], text[FZM_ERROR_TEXT_NBYTES] = "";
    fzm_pipeline *pipeline;
    make_param_json(json, s, p->key, value);
    const int code = fzm_pipeline_from_json(&pipeline, json, strlen(json), text);
    CHECK((code == 0) == good, "%s: %s", json, code ? text : "is taken");
    CHECK(code == 0 || (strstr(text, p->key) && strstr(text, s->name)), "%s: %s", json, text);
    if (code == 0)
        check_round_trip(pipeline, json);
    fzm_pipeline_free(&pipeline);
}

/* Every param of every stage: ends of its range, one step beyond, other kinds of values. */
static void check_params(const struct fzm_stage *s)
{
    char value[64];
    for (unsigned i = 0; i < s->n_params; i++) {
        const struct fzm_param *const p = &s->params[i];
        CHECK(strcmp(p->key, "name") && strcmp(p->key, "type") && strcmp(p->key, "inputs"),
              "%s.%s: key of every stage", s->name, p->key);
        const int visible = !(p->flags & FZM_PF_RUNTIME);
        check_param_value(s, p, "{}", 0);
        check_param_value(s, p, "null", 0);
        if (p->flags & FZM_PF_BOUND)
            continue;
        if (p->type == FZM_P_BOOL) {
            check_param_value(s, p, "true", visible);
            check_param_value(s, p, "false", visible);
            check_param_value(s, p, "1", 0);
        } else if (p->type == FZM_P_ENUM) {
            for (unsigned k = 0; p->names[k]; k++) {
                sprintf(value, "\"%s\"", p->names[k]);
                check_param_value(s, p, value, visible);
            }
            check_param_value(s, p, "\"no such word\"", 0);
        } else {
            const double values[] = {p->min, p->max, p->def, p->min - 1, p->max + 1, p->min + 0.5};
            for (unsigned k = 0; k < 6; k++) {
                const double v = values[k];
                sprintf(value, "%.17g", v);
                if (isfinite(v) && !(k >= 3 && (v == p->min || v == p->max)))
                    check_param_value(s, p, value,
                                      visible && k != 3 && k != 4 && !(k == 5 && p->type == FZM_P_U32));
            }
            check_param_value(s, p, "\"1\"", 0);
        }
    }
}

/* Damaged texts: an answer, and what is taken can be printed and read back. */
static void check_fuzz(void)
{
    static char json[TEXT_NBYTES];
    static const char marks[] = "{}[]\",:.-+eE0123456789@ntf\\/u \n";
    const fzm_preset_info *info;
    for (size_t i = 0; (info = fzm_preset(i)) != NULL; i++) {
        const size_t n = info->json ? strlen(info->json) : 0;
        for (unsigned round = 0; n && round < 3000; round++) {
            fzm_pipeline *p;
            size_t nbytes = n;
            memcpy(json, info->json, n);
            if (round < n)
                nbytes = round; /* every prefix */
            for (unsigned k = 0; round >= n && k <= round % 3; k++)
                json[check_random_below(n)] =
                    round % 2 ? marks[check_random_below(sizeof marks - 1)] : (char)check_random();
            if (fzm_pipeline_from_json(&p, json, nbytes, NULL) == 0) {
                check_round_trip(p, "fuzz");
                fzm_pipeline_free(&p);
            }
        }
    }
}

/* The host may use a decimal comma. */
static void check_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                        "fr_FR.utf8",  "de_DE",      "fr_FR"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_ALL, names[i]);
    if (!found) {
        check_skip("no locale with a decimal comma is installed");
        return;
    }
    char comma[16];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CHECK(strcmp(comma, "0,5") == 0, "locale %s has no decimal comma", found);
    check_good();
    check_bad();
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CHECK(strcmp(comma, "0,5") == 0, "the locale of the host was changed");
    setlocale(LC_ALL, "C");
}

int main(int argc, char **argv)
{
    check_seed(argc, argv);
    check_good();
    check_bad();
    for (unsigned i = 0; i < fzm_n_stages; i++)
        check_params(fzm_stages[i]);
    check_fuzz();
    check_locale();
    return check_done();
}
