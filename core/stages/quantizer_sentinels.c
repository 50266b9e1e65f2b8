/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: sentinels, values like 1e20 or -9999 that stand for "no data". One is an extreme value that
 * occurs again and again, far outside the rest. To take one too many for that only makes bounds tighter. */
#include "quantizer_resolve.h"

/* How far outside the rest a sentinel lies, in ranges of the rest: 9999 in 0..30, -999 in 0..100. Loose:
 * what may have been that before the rest was coded. */
enum { FAR_RANGES = 8, LOOSE_RANGES = 4 };

/* An extreme that lies so far from a rest of one single value is taken for a sentinel as well. */
#define SURE_SENTINEL 1e15

static bool is_outside(double extreme, double rest_min, double rest_max, bool loose)
{
    const double range = rest_max - rest_min;
    const double distance = extreme > rest_max ? extreme - rest_max : rest_min - extreme;
    if (range == 0)
        return loose || distance >= SURE_SENTINEL;
    return distance > (loose ? LOOSE_RANGES : FAR_RANGES) * range;
}

/* One side or both at once (-9999 and 9999). */
struct outside {
    bool min, max;
};

/* rest: what lies strictly between the extremes of f, empty if there are but two values. */
static struct outside find_outside(const struct fzm_field *f, const struct fzm_extremes *rest, bool min_repeats,
                                   bool max_repeats, bool loose)
{
    const int dtype = f->scan->dtype;
    struct outside o = {false, false};
    if (rest->min > rest->max) {
        const bool is = is_outside(f->max, f->min, f->min, loose), max_is_larger = f->max > -f->min;
        o.max = is && max_is_larger && max_repeats;
        o.min = is && !max_is_larger && min_repeats;
        return o;
    }
    const double rest_min = fzm_scan_value(dtype, rest->min), rest_max = fzm_scan_value(dtype, rest->max);
    o.max = max_repeats && is_outside(f->max, f->min, rest_max, loose);
    o.min = min_repeats && is_outside(f->min, rest_min, f->max, loose);
    if (!o.max && !o.min && max_repeats && min_repeats)
        o.max = o.min = is_outside(f->max, rest_min, rest_max, loose) && is_outside(f->min, rest_min, rest_max, loose);
    return o;
}

/* Whether the sample leaves it open that there is a sentinel: its rest is a part of the whole rest. */
static bool may_have_sentinels(const struct fzm_field *f)
{
    const struct fzm_scan *const s = f->scan;
    struct fzm_extremes rest = {INT64_MAX, INT64_MIN, 0, 0};
    for (size_t i = 0; i < s->n_sample; i++) {
        const int64_t key = fzm_scan_key(s->dtype, s->sample[i]);
        if (key <= f->key_min || key >= f->key_max || (s->has_fill && s->sample[i] == s->fill))
            continue;
        rest.min = key < rest.min ? key : rest.min;
        rest.max = key > rest.max ? key : rest.max;
    }
    if (rest.min > rest.max)
        return true;
    const struct outside o = find_outside(f, &rest, true, true, true);
    return o.min || o.max;
}

struct fzm_field fzm_field_init(const struct fzm_scan *s, int64_t key_min, int64_t key_max)
{
    const struct fzm_field f = {s, key_min, key_max, fzm_scan_value(s->dtype, key_min),
                                fzm_scan_value(s->dtype, key_max)};
    return f;
}

void fzm_windows_init(struct fzm_windows *w, const struct fzm_field *all)
{
    const uint64_t often = all->scan->n_elems / 16384 > 2 ? all->scan->n_elems / 16384 : 2;
    bool loose = false;
    w->field[0] = *all;
    w->n = 1;
    w->primary = 0;
    while (w->n < sizeof w->field / sizeof w->field[0]) {
        const struct fzm_field *const f = &w->field[w->n - 1];
        if (f->min == f->max || !may_have_sentinels(f))
            return;
        const struct fzm_extremes rest = f->scan->passes->rest(f->scan, f->key_min, f->key_max);
        struct outside o = find_outside(f, &rest, rest.n_min >= often, rest.n_max >= often, loose);
        if (!o.min && !o.max && !loose) {
            loose = true;
            o = find_outside(f, &rest, rest.n_min >= often, rest.n_max >= often, true);
        }
        if (!o.min && !o.max)
            return;
        const bool pair = rest.min > rest.max;
        const int64_t low = pair ? f->key_max : rest.min, high = pair ? f->key_min : rest.max;
        w->field[w->n] = fzm_field_init(f->scan, o.min ? low : f->key_min, o.max ? high : f->key_max);
        w->primary = loose ? w->primary : w->n;
        w->n++;
        if (pair && loose && w->n < sizeof w->field / sizeof w->field[0]) { /* or the other one */
            w->field[w->n] = fzm_field_init(f->scan, o.min ? f->key_min : low, o.max ? f->key_max : high);
            w->n++;
        }
    }
}
