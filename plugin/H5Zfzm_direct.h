/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole chunks of HDF5 datasets, many at a time, past HDF5's one-at-a-time filter path: worker threads and GPUs compress
 * some chunks while others are written. Arrays may lie in host or in device memory: of the latter only compressed bytes
 * cross the bus. The files are the same, byte for byte of every chunk, as through the filter, and either way reads them.
 *
 *   fzm_batch *batch;
 *   fzm_batch_new(&batch, NULL, NULL);
 *   hsize_t offsets[N][3] = ...;           first element of each chunk
 *   const void *chunks[N] = ...;           whole chunks, in the dataset's type, padded at the dataset's edge
 *   H5Zfzm_write_chunks(batch, dataset, N, &offsets[0][0], chunks, FZM_HOST_MEMORY);
 *   H5Zfzm_read_chunks(batch, dataset, N, &offsets[0][0], chunks, FZM_DEVICE_MEMORY);
 *   fzm_batch_free(&batch);
 *
 * Link with libfzm (pkg-config h5z-fzm) and any HDF5 from 1.10.3 on. The dataset's filters must be this one alone. On
 * failure -1, and fzm_batch_error_text(batch) says why; chunks before the one that failed have been written or read.
 * All calls of HDF5 are made by the calling thread, so HDF5 need not be thread-safe. */
#ifndef H5Z_FZM_DIRECT_H
#define H5Z_FZM_DIRECT_H

#include "H5Zfzm.h"
#include "fzm_batch.h"

#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

struct H5Zfzm_direct {
    fzm_batch *batch;
    hid_t dataset, dcpl;
    int rank;
    const hsize_t *offsets;
    hsize_t dims[H5S_MAX_RANK], chunk_dims[H5S_MAX_RANK];
    size_t chunk_nbytes;
    hsize_t stream_nbytes; /* of the chunk whose stream comes next; 0: it was never written */
    fzm_array array;
    fzm_pipeline *pipeline;
};

static inline int H5Zfzm_direct_open(struct H5Zfzm_direct *d, fzm_batch *batch, hid_t dataset, const hsize_t *offsets)
{
    enum { MAX_VALUES = 256 };
    unsigned values[MAX_VALUES];
    size_t n_values = MAX_VALUES;
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    memset(d, 0, sizeof *d);
    d->batch = batch;
    d->dataset = dataset;
    d->offsets = offsets;
    d->dcpl = H5Dget_create_plist(dataset);
    if (d->dcpl < 0)
        return fzm_batch_fail(batch, FZM_ERR_ARGUMENT, "not a dataset");
    d->rank = H5Pget_layout(d->dcpl) == H5D_CHUNKED ? H5Pget_chunk(d->dcpl, H5S_MAX_RANK, d->chunk_dims) : -1;
    if (d->rank < 0)
        return fzm_batch_fail(batch, FZM_ERR_ARGUMENT, "the dataset is not chunked");
    if (H5Pget_nfilters(d->dcpl) != 1 ||
        H5Pget_filter2(d->dcpl, 0, NULL, &n_values, values, 0, NULL, NULL) != H5Z_FILTER_FZM || n_values > MAX_VALUES)
        return fzm_batch_fail(batch, FZM_ERR_UNSUPPORTED, "the dataset's filters must be h5z-fzm alone");
    if (fzm_cd_values_read(values, n_values, &d->pipeline, &d->array, text) < 0)
        return fzm_batch_fail(batch, FZM_ERR_CONFIG, text);
    d->chunk_nbytes = fzm_array_nbytes(&d->array);
    const hid_t space = H5Dget_space(dataset);
    const int rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, d->dims, NULL);
    if (space >= 0)
        H5Sclose(space);
    if (rank != d->rank)
        return fzm_batch_fail(batch, FZM_ERR_ARGUMENT, "the extents of the dataset cannot be read");
    return 0;
}

static inline herr_t H5Zfzm_direct_close(struct H5Zfzm_direct *d, int code)
{
    fzm_pipeline_free(&d->pipeline);
    if (d->dcpl >= 0)
        H5Pclose(d->dcpl);
    return code < 0 ? -1 : 0;
}

static inline int H5Zfzm_direct_sink(void *arg, size_t i, const void *stream, size_t stream_nbytes)
{
    const struct H5Zfzm_direct *const d = (const struct H5Zfzm_direct *)arg;
    if (H5Dwrite_chunk(d->dataset, H5P_DEFAULT, 0, d->offsets + i * (size_t)d->rank, stream_nbytes, stream) < 0)
        return fzm_batch_fail(d->batch, FZM_ERR_ARGUMENT, "H5Dwrite_chunk failed (see the error stack of HDF5)");
    return 0;
}

/* A chunk that was never written is made of the fill value. */
static inline int H5Zfzm_direct_fill(const struct H5Zfzm_direct *d, void *buf)
{
    hid_t type = H5Dget_type(d->dataset);
    const size_t elem_nbytes = type < 0 ? 0 : H5Tget_size(type);
    char *const at = (char *)buf;
    int is_done = 0;
    if (elem_nbytes > 0 && elem_nbytes <= d->chunk_nbytes && H5Pget_fill_value(d->dcpl, type, at) >= 0) {
        size_t n = elem_nbytes; /* doubled until the chunk is full */
        for (; n < d->chunk_nbytes; n *= 2)
            memcpy(at + n, at, n < d->chunk_nbytes - n ? n : d->chunk_nbytes - n);
        is_done = 1;
    }
    if (type >= 0)
        H5Tclose(type);
    return is_done ? 0 : fzm_batch_fail(d->batch, FZM_ERR_ARGUMENT, "the dataset's fill value cannot be read");
}

/* Whether a chunk of the dataset begins there. */
static inline int H5Zfzm_direct_is_chunk(const struct H5Zfzm_direct *d, const hsize_t *offset)
{
    int is_chunk = 1;
    for (int k = 0; k < d->rank && is_chunk; k++)
        is_chunk = offset[k] < d->dims[k] && offset[k] % d->chunk_dims[k] == 0;
    return is_chunk;
}

static inline int H5Zfzm_direct_find(struct H5Zfzm_direct *d, const hsize_t *offset)
{
    if (!H5Zfzm_direct_is_chunk(d, offset))
        return fzm_batch_fail(d->batch, FZM_ERR_ARGUMENT, "no chunk of the dataset begins at such an offset");
    herr_t has_size = -1;
    H5E_BEGIN_TRY /* HDF5 1.10 fails for a chunk that was never written */
    {
        has_size = H5Dget_chunk_storage_size(d->dataset, offset, &d->stream_nbytes);
    }
    H5E_END_TRY
    if (has_size < 0)
        d->stream_nbytes = 0;
    return 0;
}

static inline int H5Zfzm_direct_source(void *arg, size_t i, void *buf, size_t *stream_nbytes, int *is_plain)
{
    struct H5Zfzm_direct *const d = (struct H5Zfzm_direct *)arg;
    const hsize_t *const offset = d->offsets + i * (size_t)d->rank;
    uint32_t mask = 0;
    if (!buf) {
        const int code = H5Zfzm_direct_find(d, offset);
        *stream_nbytes = d->stream_nbytes > 0 ? (size_t)d->stream_nbytes : d->chunk_nbytes;
        return code;
    }
    if (d->stream_nbytes == 0) {
        *is_plain = 1;
        return H5Zfzm_direct_fill(d, buf);
    }
#if H5_VERSION_GE(2, 0, 0)
    size_t cap = *stream_nbytes;
    if (H5Dread_chunk2(d->dataset, H5P_DEFAULT, offset, &mask, buf, &cap) < 0)
#else
    if (H5Dread_chunk(d->dataset, H5P_DEFAULT, offset, &mask, buf) < 0)
#endif
        return fzm_batch_fail(d->batch, FZM_ERR_ARGUMENT, "H5Dread_chunk failed (see the error stack of HDF5)");
    *is_plain = (int)(mask & 1u);
    return 0;
}

/* offsets: n_chunks times the dataset's rank, in elements, each the first element of a chunk. */
static inline herr_t H5Zfzm_write_chunks(fzm_batch *batch, hid_t dataset, size_t n_chunks, const hsize_t *offsets,
                                         const void *const *chunks, enum fzm_memory memory)
{
    struct H5Zfzm_direct d;
    int code = H5Zfzm_direct_open(&d, batch, dataset, offsets);
    if (code == 0)
        code = fzm_batch_compress(batch, d.pipeline, &d.array, memory, n_chunks, chunks, H5Zfzm_direct_sink, &d);
    return H5Zfzm_direct_close(&d, code);
}

/* chunks: n_chunks places of a whole chunk each. */
static inline herr_t H5Zfzm_read_chunks(fzm_batch *batch, hid_t dataset, size_t n_chunks, const hsize_t *offsets,
                                        void *const *chunks, enum fzm_memory memory)
{
    struct H5Zfzm_direct d;
    int code = H5Zfzm_direct_open(&d, batch, dataset, offsets);
    if (code == 0)
        code = fzm_batch_decompress(batch, memory, n_chunks, chunks, d.chunk_nbytes, 1, H5Zfzm_direct_source, &d);
    return H5Zfzm_direct_close(&d, code);
}

#ifdef __cplusplus
}
#endif

#endif
