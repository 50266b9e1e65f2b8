/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataset.h"

#include "types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JSON_NBYTES = 1 << 20, BITS = 8 };

#define SAY(text, ...) snprintf(text, FZM_ERROR_TEXT_NBYTES, __VA_ARGS__)
#define SUPPORTED \
    "; supported are IEEE float32 and float64 and integers of 8, 16, 32 and 64 bits, in either byte order"

static const char *class_name(H5T_class_t type_class)
{
    static const char *const names[] = {"integer",  "float",           "time",     "string",
                                        "bitfield", "opaque",          "compound", "reference",
                                        "enum",     "variable-length", "array",    "complex"};
    const int i = (int)type_class;
    return i >= 0 && i < (int)(sizeof names / sizeof names[0]) ? names[i] : "unknown";
}

/* The words and flags of our filter in the list. */
static enum verdict read_values(struct dataset *d, const struct hdf5_api *api, hid_t dcpl, char *text)
{
    size_t n_values = CD_MAX_WORDS;
    if (api->H5Pget_filter_by_id2(dcpl, FZM_FILTER_ID, &d->flags, &n_values, d->values, 0, NULL, NULL) < 0) {
        SAY(text, "the filter is not in the property list");
        return DATASET_INVALID;
    }
    d->n_values = n_values;
    d->optional = (d->flags & H5Z_FLAG_OPTIONAL) != 0;
    return cd_read_request(&d->request, d->values, n_values, text) < 0 ? DATASET_INVALID : DATASET_OK;
}

/* JSON text that H5Pset_fzm_json() left in the property list. */
static char *read_json(const struct hdf5_api *api, hid_t dcpl, size_t *nbytes, char *text)
{
    if (api->H5Pexist(dcpl, CD_JSON_PROPERTY) <= 0 || api->H5Pget_size(dcpl, CD_JSON_PROPERTY, nbytes) < 0 ||
        *nbytes == 0 || *nbytes > MAX_JSON_NBYTES) {
        SAY(text, "the filter values announce a JSON pipeline in the property list, but there is none of at "
                  "most 1 MiB; "
                  "use H5Pset_fzm_json()");
        return NULL;
    }
    char *const json = malloc(*nbytes);
    if (!json || api->H5Pget(dcpl, CD_JSON_PROPERTY, json) < 0) {
        SAY(text, "the JSON pipeline cannot be read from the property list");
        free(json);
        return NULL;
    }
    while (*nbytes > 0 && json[*nbytes - 1] == '\0')
        --*nbytes;
    return json;
}

static enum verdict read_pipeline(struct dataset *d, const struct hdf5_api *api, hid_t dcpl, char *text)
{
    char *json = NULL;
    size_t json_nbytes = 0;
    if (d->request.kind == CD_JSON_IN_PROPERTY && !(json = read_json(api, dcpl, &json_nbytes, text)))
        return DATASET_INVALID;
    const int code = cd_new_pipeline(&d->pipeline, &d->request, json, json_nbytes, text);
    free(json);
    return code < 0 ? DATASET_INVALID : DATASET_OK;
}

/* We must be the first filter, and be there once. */
static enum verdict check_place(const struct hdf5_api *api, hid_t dcpl, char *text)
{
    char name[64] = "", first_name[64] = "";
    int n_ours = 0, place = -1;
    const int n_filters = api->H5Pget_nfilters(dcpl);
    for (int i = 0; i < n_filters; i++) {
        unsigned flags = 0;
        const H5Z_filter_t id =
            api->H5Pget_filter2(dcpl, (unsigned)i, &flags, NULL, NULL, sizeof name, name, NULL);
        name[sizeof name - 1] = '\0';
        if (i == 0)
            snprintf(first_name, sizeof first_name, "%.40s (filter %d)", *name ? name : "unnamed", (int)id);
        if (id == FZM_FILTER_ID && n_ours++ == 0)
            place = i;
    }
    if (n_ours != 1) {
        SAY(text, "filter %d is %d times in the filter pipeline; expected once", FZM_FILTER_ID, n_ours);
        return DATASET_INVALID;
    }
    if (place > 0) {
        SAY(text,
            "%s stands before filter %d in the pipeline, so that it would see changed bytes, not elements; "
            "put "
            "filter %d first",
            first_name, FZM_FILTER_ID, FZM_FILTER_ID);
        return DATASET_INAPPLICABLE;
    }
    return DATASET_OK;
}

static int int_dtype(const struct hdf5_api *api, hid_t type, size_t elem_nbytes)
{
    const int base = api->H5Tget_sign(type) == H5T_SGN_NONE ? FZM_U8 : FZM_I8;
    switch (elem_nbytes) {
    case 1: return base;
    case 2: return base + 1;
    case 4: return base + 2;
    case 8: return base + 3;
    default: return -1;
    }
}

static int float_dtype(const struct hdf5_api *api, hid_t type, size_t elem_nbytes)
{
    size_t sign = 0, exponent = 0, exponent_nbits = 0, mantissa = 0, mantissa_nbits = 0;
    if (api->H5Tget_fields(type, &sign, &exponent, &exponent_nbits, &mantissa, &mantissa_nbits) < 0 ||
        api->H5Tget_norm(type) != H5T_NORM_IMPLIED || mantissa != 0 || exponent != mantissa_nbits ||
        sign != exponent + exponent_nbits)
        return -1;
    const size_t bias = api->H5Tget_ebias(type);
    if (elem_nbytes == 4 && exponent_nbits == 8 && mantissa_nbits == 23 && bias == 127)
        return FZM_F32;
    return elem_nbytes == 8 && exponent_nbits == 11 && mantissa_nbits == 52 && bias == 1023 ? FZM_F64 : -1;
}

static enum verdict read_type(struct dataset *d, const struct hdf5_api *api, hid_t type, char *text)
{
    const H5T_class_t type_class = api->H5Tget_class(type);
    if (type_class != H5T_INTEGER && type_class != H5T_FLOAT) {
        SAY(text, "datatype of class %s" SUPPORTED, class_name(type_class));
        return DATASET_INAPPLICABLE;
    }
    const size_t elem_nbytes = api->H5Tget_size(type), precision = api->H5Tget_precision(type);
    if (precision != BITS * elem_nbytes || api->H5Tget_offset(type) != 0) {
        SAY(text, "%s datatype of %zu bytes with only %zu significant bits" SUPPORTED, class_name(type_class),
            elem_nbytes, precision);
        return DATASET_INAPPLICABLE;
    }
    const H5T_order_t order = api->H5Tget_order(type);
    if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) {
        SAY(text, "%s datatype whose byte order is neither little- nor big-endian" SUPPORTED,
            class_name(type_class));
        return DATASET_INAPPLICABLE;
    }
    d->array.dtype =
        type_class == H5T_INTEGER ? int_dtype(api, type, elem_nbytes) : float_dtype(api, type, elem_nbytes);
    d->array.big_endian = order == H5T_ORDER_BE;
    if (d->array.dtype < 0) {
        SAY(text, "%s datatype of %zu bytes%s" SUPPORTED, class_name(type_class), elem_nbytes,
            type_class == H5T_FLOAT ? " that is not IEEE single or double precision" : "");
        return DATASET_INAPPLICABLE;
    }
    return DATASET_OK;
}

static enum verdict read_shape(struct dataset *d, const struct hdf5_api *api, hid_t space, char *text)
{
    hsize_t dims[FZM_MAX_RANK];
    const int rank = api->H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > FZM_MAX_RANK || api->H5Sget_simple_extent_dims(space, dims, NULL) != rank) {
        SAY(text, "the shape of the chunks cannot be read");
        return DATASET_INAPPLICABLE;
    }
    const uint64_t max_n_elems = UINT32_MAX / fzm_dtype_nbytes(d->array.dtype);
    uint64_t n_elems = 1;
    d->array.rank = rank;
    for (int i = 0; i < rank; i++) {
        d->array.dims[i] = dims[i];
        if (dims[i] == 0 || dims[i] > max_n_elems / n_elems) {
            SAY(text, "chunks of 4 GiB and more; supported are chunks of up to 4294967295 bytes");
            return DATASET_INAPPLICABLE;
        }
        n_elems *= dims[i];
    }
    cd_fold(&d->array);
    return DATASET_OK;
}

enum verdict dataset_examine(struct dataset *d, const struct hdf5_api *api, hid_t dcpl, hid_t type,
                             hid_t space, char *text)
{
    memset(d, 0, sizeof *d);
    enum verdict verdict = read_values(d, api, dcpl, text);
    if (verdict == DATASET_OK)
        verdict = read_pipeline(d, api, dcpl, text);
    if (verdict == DATASET_OK)
        verdict = check_place(api, dcpl, text);
    if (verdict == DATASET_OK)
        verdict = read_type(d, api, type, text);
    if (verdict == DATASET_OK)
        verdict = read_shape(d, api, space, text);
    if (verdict == DATASET_OK && fzm_pipeline_check(d->pipeline, &d->array, text) < 0)
        verdict = DATASET_INAPPLICABLE;
    return verdict;
}

enum verdict dataset_read_fill(struct dataset *d, const struct hdf5_api *api, hid_t dcpl, hid_t type,
                               char *text)
{
    H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
    if (api->H5Pfill_value_defined(dcpl, &status) < 0 || status != H5D_FILL_VALUE_USER_DEFINED) {
        const int mode = fzm_pipeline_mode(d->pipeline);
        d->array.has_fill = mode == FZM_RANGE || mode == FZM_PSNR ? FZM_FILL_PADDING : FZM_FILL_NONE;
        return DATASET_OK;
    }
    if (api->H5Pget_fill_value(dcpl, type, d->array.fill) < 0) {
        SAY(text, "the fill value cannot be read");
        return DATASET_INVALID;
    }
    d->array.has_fill = FZM_FILL_VALUE;
    return DATASET_OK;
}

void dataset_clear(struct dataset *d) { fzm_pipeline_free(&d->pipeline); }
