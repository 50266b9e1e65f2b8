/* SPDX-License-Identifier: BSD-3-Clause */
/* The HDF5 filter. All that can be refused is refused when a dataset is created: there a message reaches the
 * user, whereas HDF5 2.x drops what filter() says. filter() itself calls HDF5 only to get a larger buffer. */
#include "cd_values.h"
#include "dataset.h"
#include "hdf5_api.h"
#include "log.h"
#include "worker.h"

#include <stdio.h>
#include <string.h>

#define STRING_OF(x) #x
#define STRING_OF_VALUE(x) STRING_OF(x)
#define FILTER_NAME "h5z-fzm: error-bounded compression (filter " STRING_OF_VALUE(FZM_FILTER_ID) ")"

_Static_assert(FZM_FILTER_ID >= H5Z_FILTER_RESERVED && FZM_FILTER_ID <= H5Z_FILTER_MAX,
               "filter id out of range");

/* Says why in the log and on the error stack of the library. */
static void refuse(const struct hdf5_api *api, enum hdf5_error_kind kind, const char *function, unsigned line,
                   const char *text)
{
    char message[FZM_ERROR_TEXT_NBYTES + 16];
    snprintf(message, sizeof message, "h5z-fzm: %s", text);
    log_line(LOG_ERROR, "%s", text);
    hdf5_api_push(api, kind, function, line, message);
}

/* Can this library be talked to, and is this a dataset? Objects of a group have no datatype. */
static bool is_dataset(const struct hdf5_api *api, hid_t dcpl, hid_t type, hid_t space)
{
    return api && dcpl >= 0 && type >= 0 && space >= 0;
}

/* 1 applies, 0 does not (the creation fails unless the filter is optional), negative: the creation fails. */
static htri_t can_apply(hid_t dcpl, hid_t type, hid_t space)
{
    const struct hdf5_api *const api = HDF5_API_OF_CALLER();
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    struct dataset dataset;
    if (!api)
        log_line(LOG_ERROR, "the calling HDF5 library does not export its functions");
    if (!is_dataset(api, dcpl, type, space)) {
        refuse(api, HDF5_ERROR_TYPE, "can_apply", __LINE__, "the filter is for datasets only");
        return 0;
    }
    const enum verdict verdict = dataset_examine(&dataset, api, dcpl, type, space, text);
    dataset_clear(&dataset);
    if (verdict == DATASET_INVALID)
        refuse(api, HDF5_ERROR_PARAMETERS, "can_apply", __LINE__, text);
    else if (verdict == DATASET_INAPPLICABLE && !dataset.optional)
        refuse(api, HDF5_ERROR_TYPE, "can_apply", __LINE__, text);
    else if (verdict == DATASET_INAPPLICABLE)
        log_line(LOG_WARN, "chunks will be stored as they are: %s", text);
    return (htri_t)verdict;
}

/* An invalid environment variable is told now, not when the first chunk is written. */
static int check_environment(char *text)
{
    struct worker *worker;
    int code = log_check(text);
    if (code == 0 && (code = worker_take(&worker, text)) == 0)
        worker_give(worker);
    return code;
}

/* Stores the words that filter() works from. HDF5 calls this also after can_apply has returned 0, if the
 * filter is optional: then the words say that it does not apply. */
static herr_t set_local(hid_t dcpl, hid_t type, hid_t space)
{
    const struct hdf5_api *const api = HDF5_API_OF_CALLER();
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    unsigned values[CD_MAX_WORDS];
    struct dataset dataset;
    if (!is_dataset(api, dcpl, type, space))
        return 0;
    enum verdict verdict = dataset_examine(&dataset, api, dcpl, type, space, text);
    if (verdict == DATASET_INAPPLICABLE && !dataset.optional)
        verdict = DATASET_INVALID;
    if (verdict == DATASET_OK)
        verdict = dataset_read_fill(&dataset, api, dcpl, type, text);
    if (verdict != DATASET_INVALID && check_environment(text) < 0)
        verdict = DATASET_INVALID;
    if (verdict != DATASET_INVALID) {
        const size_t n = cd_write(values, &dataset.request, dataset.pipeline,
                                  verdict == DATASET_OK ? &dataset.array : NULL);
        if (n == 0) {
            snprintf(text, sizeof text, "the pipeline is too long to be kept in %d filter values",
                     CD_MAX_WORDS);
            verdict = DATASET_INVALID;
        } else if (api->H5Pmodify_filter(dcpl, FZM_FILTER_ID, dataset.flags, n, values) < 0) {
            snprintf(text, sizeof text, "the filter values cannot be stored in the property list");
            verdict = DATASET_INVALID;
        }
    }
    dataset_clear(&dataset);
    if (verdict == DATASET_INVALID)
        refuse(api, HDF5_ERROR_PARAMETERS, "set_local", __LINE__, text);
    return verdict == DATASET_INVALID ? -1 : 0;
}

/* One call of filter(). */
struct chunk {
    const void *caller; /* code address in the calling library */
    unsigned flags;
    size_t n_values;
    const unsigned *values;
    size_t nbytes; /* valid bytes in *buf */
    size_t *buf_nbytes;
    void **buf;
};

/* Hands out n bytes of data: in the caller's buffer if they fit, else in a new one. */
static size_t put_result(const struct chunk *chunk, const void *data, size_t nbytes, char *text)
{
    if (nbytes <= *chunk->buf_nbytes) {
        memcpy(*chunk->buf, data, nbytes);
        return nbytes;
    }
    const struct hdf5_api *const api = hdf5_api_at(chunk->caller);
    void *const buf = hdf5_api_alloc(api, nbytes);
    if (!buf) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "out of memory (%zu bytes)", nbytes);
        return 0;
    }
    memcpy(buf, data, nbytes);
    hdf5_api_free(api, *chunk->buf);
    *chunk->buf = buf;
    *chunk->buf_nbytes = nbytes;
    return nbytes;
}

/* Compresses *buf. 0 with a text: failed; 0 without: HDF5 shall store the chunk as it is. */
static size_t encode(struct worker *worker, const struct chunk *chunk, char *text)
{
    fzm_array array;
    const bool optional = (chunk->flags & H5Z_FLAG_OPTIONAL) != 0;
    const int applies = cd_read_array(&array, chunk->values, chunk->n_values);
    if (applies <= 0) {
        if (applies < 0 || !optional)
            snprintf(text, FZM_ERROR_TEXT_NBYTES,
                     "the filter values do not describe the chunk: they were not made by "
                     "this filter when the dataset was created");
        return 0;
    }
    if (fzm_array_nbytes(&array) != chunk->nbytes) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES,
                 "the chunk has %zu bytes, the filter values describe one of %zu", chunk->nbytes,
                 fzm_array_nbytes(&array));
        return 0;
    }
    const fzm_pipeline *const pipeline = worker_pipeline(worker, chunk->values, chunk->n_values, text);
    if (!pipeline)
        return 0;
    const size_t cap = fzm_compress_bound(&array);
    uint8_t *const stream = worker_scratch(worker, cap);
    size_t nbytes = 0;
    if (!stream) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "out of memory (%zu bytes)", cap);
        return 0;
    }
    if (fzm_compress(worker->ctx, pipeline, &array, *chunk->buf, chunk->nbytes, stream, cap, &nbytes) < 0) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", fzm_error_text(worker->ctx));
        return 0;
    }
    if (optional && nbytes >= chunk->nbytes)
        return 0;
    return put_result(chunk, stream, nbytes, text);
}

/* Decompresses a stream of array_nbytes into the caller's buffer, which holds the stream. */
static size_t decode_in_place(struct worker *worker, const struct chunk *chunk, size_t array_nbytes,
                              int verify, char *text)
{
    uint8_t *const stream = worker_scratch(worker, chunk->nbytes);
    if (!stream) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "out of memory (%zu bytes)", chunk->nbytes);
        return 0;
    }
    memcpy(stream, *chunk->buf, chunk->nbytes);
    size_t nbytes = 0;
    if (fzm_decompress(worker->ctx, stream, chunk->nbytes, *chunk->buf, array_nbytes, &nbytes, verify) == 0)
        return nbytes;
    snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", fzm_error_text(worker->ctx));
    memcpy(*chunk->buf, stream, chunk->nbytes);
    return 0;
}

static size_t decode_to_new(struct worker *worker, const struct chunk *chunk, size_t array_nbytes, int verify,
                            char *text)
{
    const struct hdf5_api *const api = hdf5_api_at(chunk->caller);
    void *const buf = hdf5_api_alloc(api, array_nbytes);
    size_t nbytes = 0;
    if (!buf) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "out of memory (%zu bytes)", array_nbytes);
        return 0;
    }
    if (fzm_decompress(worker->ctx, *chunk->buf, chunk->nbytes, buf, array_nbytes, &nbytes, verify) < 0) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "%s", fzm_error_text(worker->ctx));
        hdf5_api_free(api, buf);
        return 0;
    }
    hdf5_api_free(api, *chunk->buf);
    *chunk->buf = buf;
    *chunk->buf_nbytes = array_nbytes;
    return nbytes;
}

/* The stream says all; the words serve to see that it belongs to this dataset: HDF5 before 2.2 does not
 * compare the size with that of its chunk and would read beyond a shorter buffer. */
static size_t decode(struct worker *worker, const struct chunk *chunk, char *text)
{
    fzm_stream_info info;
    fzm_array array;
    if (fzm_stream_read_info(*chunk->buf, chunk->nbytes, &info, NULL, 0, text) < 0)
        return 0;
    if (cd_read_array(&array, chunk->values, chunk->n_values) == 1 &&
        fzm_array_nbytes(&array) != info.array_nbytes) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "the stream holds %llu bytes, the dataset's chunks have %zu",
                 (unsigned long long)info.array_nbytes, fzm_array_nbytes(&array));
        return 0;
    }
    if (info.array_nbytes == 0 || info.array_nbytes > UINT32_MAX) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, "the stream holds %llu bytes; expected 1 to 4294967295",
                 (unsigned long long)info.array_nbytes);
        return 0;
    }
    const size_t array_nbytes = (size_t)info.array_nbytes;
    const int verify = (chunk->flags & H5Z_FLAG_SKIP_EDC) == 0;
    return array_nbytes <= *chunk->buf_nbytes ? decode_in_place(worker, chunk, array_nbytes, verify, text)
                                              : decode_to_new(worker, chunk, array_nbytes, verify, text);
}

static size_t filter(unsigned flags, size_t n_values, const unsigned values[], size_t nbytes,
                     size_t *buf_nbytes, void **buf)
{
    const struct chunk chunk = {
        __builtin_return_address(0), flags, n_values, values, nbytes, buf_nbytes, buf};
    const char *const what = flags & H5Z_FLAG_REVERSE ? "decode" : "encode";
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    struct worker *worker;
    size_t result = 0;
    if (worker_take(&worker, text) == 0) {
        result = flags & H5Z_FLAG_REVERSE ? decode(worker, &chunk, text) : encode(worker, &chunk, text);
        if (result > 0 && log_wanted(LOG_DEBUG))
            log_line(LOG_DEBUG, "%s: %zu -> %zu bytes, engine %s", what, nbytes, result,
                     fzm_ctx_engine_used(worker->ctx));
        worker_give(worker);
    }
    if (result == 0 && *text) {
        char message[FZM_ERROR_TEXT_NBYTES + 32];
        snprintf(message, sizeof message, "h5z-fzm: %s: %s", what, text);
        log_line(LOG_ERROR, "%s: %s", what, text);
        hdf5_api_push(hdf5_api_at(chunk.caller), HDF5_ERROR_CHUNK, "filter", __LINE__, message);
    } else if (result == 0)
        log_line(LOG_INFO, "%s: a chunk of %zu bytes is stored as it is", what, nbytes);
    return result;
}

static const H5Z_class2_t filter_class = {
    H5Z_CLASS_T_VERS, FZM_FILTER_ID, 1, 1, FILTER_NAME, can_apply, set_local, filter,
};

H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void *H5PLget_plugin_info(void) { return &filter_class; }
