/* SPDX-License-Identifier: BSD-3-Clause */
/* Many chunks in flight: worker threads compress or decompress some chunks while the caller writes or reads the streams
 * of others. For programs that hand whole chunks to HDF5 (H5Zfzm_direct.h) or to storage of their own.
 *
 * A batch serves one call at a time; its callbacks run on the caller's thread, in the order of the chunks. It must not
 * be used in a child process of the one that made it. Arrays may lie in host memory (pageable, or pinned, which is
 * faster with a GPU) or in device memory; streams are in host memory. */
#ifndef FZM_BATCH_H
#define FZM_BATCH_H

#include "fzm.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct fzm_batch fzm_batch;

enum fzm_memory { FZM_HOST_MEMORY = 0, FZM_DEVICE_MEMORY = 1 };

/* Worker threads share options->n_threads CPUs. At most 16 chunks are in flight, and of large ones at most 1 GiB (but
 * always two). On failure *batch is NULL and text (FZM_ERROR_TEXT_NBYTES, may be NULL) says why. */
int fzm_batch_new(fzm_batch **batch, const fzm_options *options, char *text);
void fzm_batch_free(fzm_batch **batch);

/* Why the last call failed. A callback may say more than its code: it sets the text and returns code. */
const char *fzm_batch_error_text(const fzm_batch *batch);
int fzm_batch_fail(fzm_batch *batch, int code, const char *text);

/* Takes the stream of chunk i, which is gone after the call. A negative result ends the batch and is its result. */
typedef int fzm_batch_sink(void *arg, size_t i, const void *stream, size_t stream_nbytes);

/* Compresses n_chunks arrays of the same type and shape. Arrays in device memory must be complete when this is called:
 * it uses CUDA streams of its own. */
int fzm_batch_compress(fzm_batch *batch, const fzm_pipeline *pipeline, const fzm_array *array, enum fzm_memory memory,
                       size_t n_chunks, const void *const *chunks, fzm_batch_sink *sink, void *arg);

/* Gives the stream of chunk i. First called with buf NULL: sets *stream_nbytes; then puts that many bytes at buf, and sets
 * *is_plain if they are the elements themselves (0 on entry). A negative result ends the batch and is its result. */
typedef int fzm_batch_source(void *arg, size_t i, void *buf, size_t *stream_nbytes, int *is_plain);

/* Decompresses streams of arrays that have chunk_nbytes bytes each. verify: as in fzm_decompress(). */
int fzm_batch_decompress(fzm_batch *batch, enum fzm_memory memory, size_t n_chunks, void *const *chunks,
                         size_t chunk_nbytes, int verify, fzm_batch_source *source, void *arg);

/* What the filter's values of a dataset (cd_values in HDF5) say: the pipeline, yours to free, and the array of a chunk.
 * In libfzm alone. text: FZM_ERROR_TEXT_NBYTES, may not be NULL. */
int fzm_cd_values_read(const unsigned *values, size_t n_values, fzm_pipeline **pipeline, fzm_array *array, char *text);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
