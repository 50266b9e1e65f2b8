/* SPDX-License-Identifier: BSD-3-Clause */
/* Every stage of the table against its contract, over types, shapes, data patterns and parameters: forward
 * within its bound, inverse gives the input back (or stays within the error bound), equal bytes for every
 * instruction set and thread count, damaged outputs never crash the inverse.
 *     check_stages [--stage=NAME | --except=NAME,NAME,...] [--seed=N] */
#include "stage_trial.h"

#include <math.h>

/* Sets of parameters per stage at most. */
enum { MAX_SCHEMES = 64 };

/* ---- parameters ---- */

static double random_param(const struct fzm_param *p)
{
    const double u = check_random_unit();
    if (p->type == FZM_P_F64) {
        const double low = fmax(p->min, 1e-12), high = fmin(p->max, 1e12);
        return low < high ? exp(log(low) + u * (log(high) - log(low))) : p->def;
    }
    return floor(p->min + u * (p->max - p->min + 1));
}

static unsigned enum_count(const struct fzm_param *p)
{
    unsigned n = 0;
    while (p->names && p->names[n])
        n++;
    return n;
}

/* Params number `scheme`: 0 the defaults, then each param alone at its extremes (each word of an enum), then
 * random ones. False at the end. Bounds are set by set_bound(). */
static bool make_params(const struct fzm_stage *s, unsigned scheme, void *params)
{
    fzm_params_init(s, params);
    if (scheme-- == 0)
        return true;
    for (unsigned i = 0; i < s->n_params; i++) {
        const struct fzm_param *const p = &s->params[i];
        if (p->flags)
            continue;
        const unsigned n = p->type == FZM_P_ENUM ? enum_count(p) : 2;
        if (scheme < n) {
            fzm_params_set(s, params, i, p->type == FZM_P_ENUM ? scheme : scheme ? p->max : p->min);
            return true;
        }
        scheme -= n;
    }
    if (scheme >= 4)
        return false;
    for (unsigned i = 0; i < s->n_params; i++)
        if (s->params[i].flags == 0)
            fzm_params_set(s, params, i, random_param(&s->params[i]));
    return true;
}

/* Sets the bound for a lossy stage: every mode, loose to hopelessly tight. False at the end. */
static bool set_bound(const struct fzm_stage *s, unsigned i, int dtype, void *params)
{
    static const struct {
        int mode;
        double value;
    } floats[] = {{FZM_ABS, 1e-3},   {FZM_ABS, 7.5},    {FZM_ABS, 1e-30}, {FZM_ABS, 0x1p-7},
                  {FZM_ABS, 1e30},   {FZM_REL, 1e-3},   {FZM_REL, 0.5},   {FZM_REL, 1e-9},
                  {FZM_RANGE, 1e-3}, {FZM_RANGE, 1e-6}, {FZM_RANGE, 0.3}, {FZM_MAXABS, 1e-4},
                  {FZM_PSNR, 60}};
    static const double ints[] = {1, 2, 17, 1000};
    int mode = FZM_ABS;
    double value;
    if (fzm_dtype_is_float(dtype)) {
        if (i >= sizeof floats / sizeof floats[0])
            return false;
        mode = floats[i].mode;
        value = floats[i].value;
    } else {
        if (i >= sizeof ints / sizeof ints[0])
            return false;
        value = ints[i];
    }
    bool any = false;
    for (unsigned k = 0; k < s->n_params; k++)
        if (s->params[k].flags & FZM_PF_BOUND) {
            fzm_params_set(s, params, k, s->params[k].type == FZM_P_F64 ? value : mode);
            any = true;
        }
    return any || i == 0;
}

/* ---- the loops ---- */

/* Whether input 0 is a bit mask of the array at a required hint input. */
static bool is_mask_stage(const struct fzm_stage *s)
{
    return s->n_in > 1 && (s->in[1].flags & FZM_PORT_HINT) && !(s->in[1].flags & FZM_PORT_OPTIONAL);
}

static void fill_inputs(struct trial *t, uint64_t seed)
{
    for (unsigned i = 0; i < t->stage->n_in; i++) {
        t->in[i].shape = t->shapes[i];
        t->in[i].nbytes = t->in[i].cap = fzm_shape_nbytes(&t->shapes[i]);
        t->in[i].data = NULL;
        if (i > 0 && t->in[i].nbytes == 0)
            continue;
        t->in[i].data = malloc(t->in[i].nbytes + (t->in[i].nbytes == 0));
        if (!t->in[i].data)
            abort();
        pattern_fill(t->in[i].data, t->shapes[i].dtype == FZM_BYTES ? FZM_U8 : t->shapes[i].dtype,
                     t->shapes[i].n_elems, i == 0 ? t->pattern : PATTERN_SPARSE, seed + i);
    }
    const unsigned n_last = is_mask_stage(t->stage) ? (unsigned)(t->shapes[1].n_elems % 8) : 0;
    if (n_last && t->in[0].nbytes) /* padding bits of a mask are 0 */
        ((uint8_t *)t->in[0].data)[t->in[0].nbytes - 1] &= (uint8_t)((1u << n_last) - 1);
}

static void run_shape(struct trial *t, const struct fzm_shape *shape)
{
    static const uint8_t some_patterns[] = {PATTERN_SMOOTH, PATTERN_RANDOM};
    const bool large = shape->n_elems > 20000;
    uint64_t fill[1] = {0};
    pattern_masked_value(fill, shape->dtype == FZM_BYTES ? FZM_U8 : shape->dtype);
    for (int k = 0; k < (large ? 2 : N_PATTERNS); k++) {
        t->pattern = large ? some_patterns[k] : k;
        t->fill = t->pattern == PATTERN_MASKED && (t->scheme & 1) ? fill : NULL;
        fill_inputs(t, check_random());
        run_trial(t);
        for (unsigned i = 0; i < t->stage->n_in; i++)
            free(t->in[i].data);
    }
}

/* Shapes of all inputs from the pattern's: optional ones absent or one bit per element, required ones equal;
 * a mask stage gets the mask of an array of this shape, or with hinted an empty one. False: no such case. */
static bool set_shapes(struct trial *t, const struct fzm_shape *shape, bool hinted)
{
    bool any = false;
    t->shapes[0] = *shape;
    t->hinted = hinted;
    if (is_mask_stage(t->stage)) {
        t->shapes[0] = fzm_shape_1d(FZM_BYTES, hinted ? 0 : fzm_div_up(shape->n_elems, 8));
        t->shapes[1] = *shape;
        return shape->dtype == FZM_F32;
    }
    for (unsigned i = 1; i < t->stage->n_in; i++) {
        const bool optional = t->stage->in[i].flags & FZM_PORT_OPTIONAL;
        t->shapes[i] = *shape;
        if (optional)
            t->shapes[i] = fzm_shape_1d(FZM_BYTES, hinted ? fzm_div_up(shape->n_elems, 8) : 0);
        any |= optional;
    }
    return any || !hinted;
}

static unsigned run_type(const struct fzm_stage *s, int dtype)
{
    unsigned n_taken = 0;
    struct fzm_shape shape, out[FZM_MAX_PORTS];
    struct trial t;
    memset(&t, 0, sizeof t);
    t.stage = s;
    for (unsigned i = 0; pattern_shape(i, dtype, &shape); i++)
        for (t.scheme = 0; t.scheme < MAX_SCHEMES && make_params(s, t.scheme, t.params); t.scheme++)
            for (unsigned b = 0; set_bound(s, b, dtype, t.params); b++)
                for (int hinted = 0; hinted < 2; hinted++) {
                    if (t.scheme > 0 && ((i + t.scheme + (unsigned)dtype) % 4 != 0 || b > t.scheme % 3 + 1 ||
                                         (shape.n_elems > 20000 && t.scheme > 2)))
                        continue; /* not the whole product */
                    memset(out, 0, sizeof out);
                    if (!set_shapes(&t, &shape, hinted) || s->shape(t.params, t.shapes, out, NULL) < 0)
                        continue;
                    run_shape(&t, &shape);
                    n_taken++;
                }
    return n_taken;
}

static void check_stage(const struct fzm_stage *s)
{
    unsigned n_taken = 0;
    for (int dtype = FZM_U8; dtype <= FZM_BYTES; dtype++)
        n_taken += run_type(s, dtype);
    CHECK(n_taken > 0, "%s takes no type at all", s->name);
}

/* What every row must keep, whatever the stage does. */
static void check_row(const struct fzm_stage *s)
{
    CHECK(s->id > 0 && fzm_stage_by_id(s->id) == s, "%s: id %u is not its own", s->name, s->id);
    CHECK(fzm_stage_by_name(s->name) == s, "%s: name is not its own", s->name);
    CHECK(s->version > 0, "%s has no version", s->name);
    CHECK(s->n_in >= 1 && s->n_in <= FZM_MAX_PORTS && s->n_out >= 1 && s->n_out <= FZM_MAX_PORTS, "%s: ports",
          s->name);
    CHECK(s->params_nbytes <= FZM_MAX_PARAMS_NBYTES, "%s: params", s->name);
    CHECK(s->help && *s->help && s->reference && *s->reference, "%s lacks help or reference", s->name);
    for (unsigned i = 0; i < s->n_params; i++) {
        const struct fzm_param *const p = &s->params[i];
        CHECK(p->key && p->help && *p->help, "%s: param %u lacks key or help", s->name, i);
        CHECK(p->min <= p->def && p->def <= p->max, "%s.%s: default outside its range", s->name, p->key);
        CHECK(p->type != FZM_P_ENUM || (p->min == 0 && enum_count(p) == (unsigned)p->max + 1), "%s.%s: words",
              s->name, p->key);
        CHECK(fzm_params_find(s, p->key) == (int)i, "%s.%s is there twice", s->name, p->key);
    }
}

/* Whether a name is in a list NAME,NAME,... */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0))
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    const char *const name = check_option(argc, argv, "stage"), *const except =
                                                                    check_option(argc, argv, "except");
    check_seed(argc, argv);
    for (unsigned n = 1; n < 3; n++)
        pools[n] = fzm_pool_new(n);
    CHECK(!name || fzm_stage_by_name(name), "there is no stage %s", name ? name : "");
    for (unsigned i = 0; i < fzm_n_stages; i++) {
        const struct fzm_stage *const s = fzm_stages[i];
        if (name ? strcmp(name, s->name) != 0 : is_listed(except, s->name))
            continue;
        check_row(s);
        check_stage(s);
    }
    for (unsigned n = 1; n < 3; n++)
        fzm_pool_free(&pools[n]);
    return check_done();
}
