/* SPDX-License-Identifier: BSD-3-Clause */
#include "cd_values.h"

#include "cpu/fpenv.h"
#include "types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, MAX_PRESET = 0xffffff };

static int fail(char *text, int code, const char *message)
{
    snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", message);
    return code;
}

static double double_of_words(unsigned low, unsigned high)
{
    const uint64_t bits = (uint64_t)high << 32 | low;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* mantissa * 10^-exponent, correctly rounded: strtod is, and text without a decimal point has no locale. */
static double decimal(unsigned mantissa, unsigned exponent)
{
    char text[32];
    const int saved = errno;
    const uint64_t fpenv = fzm_fpenv_enter();
    snprintf(text, sizeof text, "%ue-%u", mantissa, exponent);
    const double value = strtod(text, NULL);
    fzm_fpenv_leave(fpenv);
    errno = saved;
    return value;
}

static int read_preset(struct cd_request *r, const unsigned *values, size_t n_values, char *text)
{
    if (n_values == 3 || n_values > 4) {
        snprintf(
            text, FZM_ERROR_TEXT_NBYTES,
            "%zu filter values; expected none (lossless), 1 (preset), 2 (preset, 0 = lossless) or 4 (preset, "
            "mode, mantissa, exponent: bound = mantissa * 10^-exponent)",
            n_values);
        return FZM_ERR_CONFIG;
    }
    r->kind = CD_PRESET;
    r->preset = n_values > 0 ? values[0] : 0;
    const unsigned mode = n_values > 1 ? values[1] : FZM_LOSSLESS;
    if (r->preset > MAX_PRESET) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES,
                 "first filter value %u is neither a preset (see fzm presets) nor the head of a compiled "
                 "pipeline or "
                 "JSON text",
                 r->preset);
        return FZM_ERR_CONFIG;
    }
    if (mode > FZM_PSNR) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES,
                 "bound mode %u (second filter value) does not exist; expected 0 lossless, 1 abs, 2 rel, 3 "
                 "range, 4 "
                 "maxabs or 5 psnr",
                 mode);
        return FZM_ERR_CONFIG;
    }
    r->mode = (int)mode;
    if (mode != FZM_LOSSLESS && n_values < 4) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES,
                 "mode %s needs a bound, but there are only %zu filter values; expected 4: preset, mode, "
                 "mantissa, "
                 "exponent (bound = mantissa * 10^-exponent)",
                 fzm_mode_name((int)mode), n_values);
        return FZM_ERR_CONFIG;
    }
    if (mode != FZM_LOSSLESS)
        r->bound = values[3] <= CD_MAX_EXPONENT ? decimal(values[2], values[3])
                                                : double_of_words(values[2], values[3]);
    return 0;
}

static int read_json(struct cd_request *r, const unsigned *values, size_t n_values, char *text)
{
    const unsigned unused = values[0] & 0xff;
    if ((values[0] >> 8 & 0xff) != VERSION || unused > 3 || (n_values == 1 && unused > 0))
        return fail(text, FZM_ERR_CONFIG,
                    "JSON text in filter values: the first value must be 0x464A0100 + the number "
                    "of bytes (0 to 3) not used in the last one");
    r->kind = n_values > 1 ? CD_JSON : CD_JSON_IN_PROPERTY;
    r->words = values + 1;
    r->n_words = n_values - 1;
    r->json_nbytes = 4 * r->n_words - unused;
    return 0;
}

/* The words that describe the chunk, or SIZE_MAX if this is not the stored form of version 1. */
static size_t derived_count(const unsigned *values, size_t n_values)
{
    if (n_values == 0 || (values[0] & 0xffffff00u) != (CD_TAG_STORED | VERSION << 8))
        return SIZE_MAX;
    const size_t n_derived = values[0] & 0xff;
    return n_derived <= CD_MAX_DERIVED && n_values >= 1 + 2 + n_derived ? n_derived : SIZE_MAX;
}

static int read_stored(struct cd_request *r, const unsigned *values, size_t n_values, char *text)
{
    const size_t n_derived = derived_count(values, n_values);
    const unsigned version = values[0] >> 8 & 0xff;
    if (version > VERSION) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES,
                 "filter values stored by a newer version of the filter (form %u; this one knows %d)",
                 version, VERSION);
        return FZM_ERR_VERSION;
    }
    if (n_derived == SIZE_MAX)
        return fail(text, FZM_ERR_CONFIG, "stored filter values are damaged");
    const unsigned *const request = values + 1;
    const size_t n_request = n_values - 1 - n_derived;
    if ((request[0] & CD_TAG_MASK) == CD_TAG_PIPELINE) {
        r->kind = CD_PIPELINE;
        r->words = request;
        r->n_words = n_request;
        return 0;
    }
    if (request[0] > MAX_PRESET || request[1] > FZM_PSNR || n_request != (request[1] == FZM_LOSSLESS ? 2 : 4))
        return fail(text, FZM_ERR_CONFIG, "stored filter values are damaged");
    r->kind = CD_PRESET;
    r->preset = request[0];
    r->mode = (int)request[1];
    if (r->mode != FZM_LOSSLESS)
        r->bound = double_of_words(request[2], request[3]);
    return 0;
}

int cd_read_request(struct cd_request *request, const unsigned *values, size_t n_values, char *text)
{
    memset(request, 0, sizeof *request);
    if (n_values > CD_MAX_WORDS) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES,
                 "%zu filter values; HDF5 hands out at most %d. Pass a long pipeline with "
                 "H5Pset_fzm_json()",
                 n_values, CD_MAX_WORDS);
        return FZM_ERR_CONFIG;
    }
    switch (n_values ? values[0] & CD_TAG_MASK : 0) {
    case CD_TAG_STORED: return read_stored(request, values, n_values, text);
    case CD_TAG_PIPELINE:
        request->kind = CD_PIPELINE;
        request->words = values;
        request->n_words = n_values;
        return 0;
    case CD_TAG_JSON: return read_json(request, values, n_values, text);
    default: return read_preset(request, values, n_values, text);
    }
}

static int new_pipeline_of_json_words(fzm_pipeline **pipeline, const struct cd_request *r, char *text)
{
    char json[4 * CD_MAX_WORDS];
    for (size_t i = 0; i < r->json_nbytes; i++)
        json[i] = (char)(r->words[i / 4] >> 8 * (i % 4) & 0xff);
    return fzm_pipeline_from_json(pipeline, json, r->json_nbytes, text);
}

int cd_new_pipeline(fzm_pipeline **pipeline, const struct cd_request *r, const char *json, size_t json_nbytes,
                    char *text)
{
    switch (r->kind) {
    case CD_PRESET: return fzm_pipeline_from_preset(pipeline, (int)r->preset, r->mode, r->bound, text);
    case CD_PIPELINE: return fzm_pipeline_from_words(pipeline, r->words, r->n_words, text);
    case CD_JSON: return new_pipeline_of_json_words(pipeline, r, text);
    default: return fzm_pipeline_from_json(pipeline, json, json_nbytes, text);
    }
}

static size_t write_derived(unsigned *words, const fzm_array *array)
{
    const size_t elem_nbytes = fzm_dtype_nbytes(array->dtype);
    size_t n = 0;
    words[n++] = (unsigned)array->dtype | (unsigned)array->rank << 8 | (array->big_endian ? 1u << 16 : 0) |
                 (unsigned)array->has_fill << 17;
    for (int i = 0; i < array->rank; i++)
        words[n++] = (unsigned)array->dims[i];
    for (size_t i = 0; array->has_fill == FZM_FILL_VALUE && i < elem_nbytes; i += 4) {
        words[n] = 0;
        for (size_t j = i; j < i + 4 && j < elem_nbytes; j++)
            words[n] |= (unsigned)array->fill[j] << 8 * (j - i);
        n++;
    }
    return n;
}

size_t cd_write(unsigned values[CD_MAX_WORDS], const struct cd_request *r, const fzm_pipeline *pipeline,
                const fzm_array *array)
{
    size_t n = 1;
    if (r->kind == CD_PRESET) {
        values[n++] = r->preset;
        values[n++] = (unsigned)r->mode;
        if (r->mode != FZM_LOSSLESS) {
            uint64_t bits;
            memcpy(&bits, &r->bound, sizeof bits);
            values[n++] = (unsigned)bits;
            values[n++] = (unsigned)(bits >> 32);
        }
    } else {
        n += fzm_pipeline_to_words(pipeline, values + 1, CD_MAX_WORDS - 1);
        if (n == 1 || n > CD_MAX_WORDS - CD_MAX_DERIVED)
            return 0;
    }
    const size_t n_derived = array ? write_derived(values + n, array) : 0;
    values[0] = CD_TAG_STORED | VERSION << 8 | (unsigned)n_derived;
    return n + n_derived;
}

int cd_read_array(fzm_array *array, const unsigned *values, size_t n_values)
{
    const size_t n_derived = derived_count(values, n_values);
    memset(array, 0, sizeof *array);
    if (n_derived == SIZE_MAX)
        return FZM_ERR_CONFIG;
    if (n_derived == 0)
        return 0;
    const unsigned *const words = values + (n_values - n_derived);
    array->dtype = (int)(words[0] & 0xff);
    array->rank = (int)(words[0] >> 8 & 0xff);
    array->big_endian = (int)(words[0] >> 16 & 1);
    array->has_fill = (int)(words[0] >> 17 & 3);
    const size_t elem_nbytes = fzm_dtype_nbytes(array->dtype),
                 n_fill = array->has_fill == FZM_FILL_VALUE ? 1 + (elem_nbytes > 4) : 0;
    if (words[0] >> 19 != 0 || array->has_fill > FZM_FILL_PADDING || array->dtype >= FZM_BYTES || array->rank < 1 || array->rank > 4 ||
        n_derived != 1 + (size_t)array->rank + n_fill)
        return FZM_ERR_CONFIG;
    uint64_t n_elems = 1;
    for (int i = 0; i < array->rank; i++) {
        array->dims[i] = words[1 + i];
        if (array->dims[i] == 0 || n_elems > UINT32_MAX / array->dims[i])
            return FZM_ERR_CONFIG;
        n_elems *= array->dims[i];
    }
    for (size_t i = 0; n_fill > 0 && i < elem_nbytes; i++)
        array->fill[i] = (uint8_t)(words[1 + array->rank + (int)(i / 4)] >> 8 * (i % 4));
    return n_elems <= UINT32_MAX / elem_nbytes ? 1 : FZM_ERR_CONFIG;
}

void cd_fold(fzm_array *array)
{
    uint64_t dims[4] = {1, 1, 1, 1};
    int rank = 0;
    for (int i = array->rank - 1; i >= 0; i--) {
        if (array->dims[i] == 1)
            continue;
        if (rank < 4)
            dims[3 - rank++] = array->dims[i];
        else
            dims[0] *= array->dims[i];
    }
    array->rank = rank ? rank : 1;
    memset(array->dims, 0, sizeof array->dims);
    memcpy(array->dims, dims + 4 - array->rank, (size_t)array->rank * sizeof dims[0]);
}
