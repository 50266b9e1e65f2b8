/* SPDX-License-Identifier: BSD-3-Clause */
/* h5z-fzm core library: error-bounded compression of arrays through modular pipelines.
 *
 * Thread-safety: an fzm_ctx or fzm_pipeline serves one call at a time; different objects are
 * independent. Nothing here prints, aborts, exits or installs signal handlers.
 * Sizes are in bytes unless the name says otherwise. Every int result is 0 or a negative FZM_ERR_*;
 * after a failure fzm_error_text() gives a sentence that says what, where and what would be accepted. */
#ifndef FZM_H
#define FZM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define FZM_VERSION_MAJOR 0
#define FZM_VERSION_MINOR 1
#define FZM_VERSION_PATCH 0
#define FZM_VERSION_STRING "0.1.0"
#define FZM_FORMAT_VERSION 1 /* of the stream, see docs/format.md */

#ifndef FZM_FILTER_ID
#define FZM_FILTER_ID 46266 /* HDF5 filter id */
#endif

enum { FZM_ERROR_TEXT_NBYTES = 256, FZM_MAX_RANK = 32 };

/* Most bytes by which a stream can exceed its chunk. */
#define FZM_MAX_OVERHEAD_NBYTES 64

/* Element types; the values are on disk. FZM_BYTES is untyped and only used between stages. */
enum fzm_dtype {
    FZM_U8 = 0, FZM_U16 = 1, FZM_U32 = 2, FZM_U64 = 3,
    FZM_I8 = 4, FZM_I16 = 5, FZM_I32 = 6, FZM_I64 = 7,
    FZM_F32 = 8, FZM_F64 = 9,
    FZM_BYTES = 10
};

/* What the bound value v promises for every element x and its reconstruction y. */
enum fzm_mode {
    FZM_LOSSLESS = 0, /* y is x bit for bit; v is ignored */
    FZM_ABS = 1,      /* |x - y| <= v */
    FZM_REL = 2,      /* |x - y| <= v |x| */
    FZM_RANGE = 3,    /* |x - y| <= v (max - min) of the chunk */
    FZM_MAXABS = 4,   /* |x - y| <= v max|x| of the chunk */
    FZM_PSNR = 5      /* peak signal-to-noise ratio of the chunk >= v dB */
};

#define FZM_ERRORS(X) \
    X(FZM_OK, 0, "success") \
    X(FZM_ERR_ARGUMENT, -1, "invalid argument") \
    X(FZM_ERR_CONFIG, -2, "invalid pipeline or parameter") \
    X(FZM_ERR_UNSUPPORTED, -3, "not supported") \
    X(FZM_ERR_MEMORY, -4, "out of memory") \
    X(FZM_ERR_CORRUPT, -5, "damaged or foreign data") \
    X(FZM_ERR_VERSION, -6, "written by a newer version") \
    X(FZM_ERR_CAPACITY, -7, "output buffer too small") \
    X(FZM_ERR_ENGINE, -8, "engine not usable") \
    X(FZM_ERR_INTERNAL, -9, "internal error")

#define FZM_ERROR_ENUM(name, value, text) name = value,
enum fzm_error { FZM_ERRORS(FZM_ERROR_ENUM) };
#undef FZM_ERROR_ENUM

/* Name of a code ("FZM_ERR_CORRUPT") and its meaning; static strings, never NULL. */
const char *fzm_error_name(int code);
const char *fzm_error_meaning(int code);

/* Names: "f32", "i16", ...; "abs", "range", ... Static strings; NULL for an unknown value.
 * The inverse functions return -1 for an unknown name. */
const char *fzm_dtype_name(int dtype);
int fzm_dtype_from_name(const char *name);
const char *fzm_mode_name(int mode);
int fzm_mode_from_name(const char *name);

enum fzm_engine { FZM_ENGINE_AUTO = 0, FZM_ENGINE_CPU = 1, FZM_ENGINE_GPU = 2 };

/* All-zero means defaults. Set size to sizeof(fzm_options). */
typedef struct fzm_options {
    size_t size;
    int engine;         /* enum fzm_engine; default: FZM_ENGINE of the environment, else auto */
    unsigned n_threads; /* default: FZM_NUM_THREADS, else the CPUs of the affinity mask */
    int device;         /* GPU index + 1; default: FZM_DEVICE, else by local MPI rank */
    void (*log)(void *arg, const char *text); /* gets warnings, e.g. why a GPU was left; may be NULL */
    void *log_arg;
} fzm_options;

typedef struct fzm_ctx fzm_ctx;

/* Threads, scratch memory and plans, kept between calls. options may be NULL. On failure *ctx is NULL
 * and text (FZM_ERROR_TEXT_NBYTES, may be NULL) says why, e.g. an invalid environment variable. */
int fzm_ctx_new(fzm_ctx **ctx, const fzm_options *options, char *text);
void fzm_ctx_free(fzm_ctx **ctx);
const char *fzm_error_text(const fzm_ctx *ctx);

/* "cpu" or "gpu": the engine that ran the last call. */
const char *fzm_ctx_engine_used(const fzm_ctx *ctx);

/* Bytes of scratch memory that ctx holds and has written to. */
size_t fzm_ctx_memory_nbytes(const fzm_ctx *ctx);

/* What fill[] of an array is: nothing; a fill value, which is kept bit for bit and left out of range and
 * maximum; the same, but only if the first or the last element has it, as where it pads a chunk at the edge
 * of a dataset. */
enum fzm_fill { FZM_FILL_NONE = 0, FZM_FILL_VALUE = 1, FZM_FILL_PADDING = 2 };

/* An array of a chunk: row-major, last axis fastest. */
typedef struct fzm_array {
    int dtype;                    /* enum fzm_dtype, not FZM_BYTES */
    int rank;                     /* 0 (one element) .. FZM_MAX_RANK */
    uint64_t dims[FZM_MAX_RANK];  /* slowest first; a zero extent makes an empty array */
    int big_endian;               /* elements are stored big-endian */
    int has_fill;                 /* enum fzm_fill */
    uint8_t fill[8];              /* one element in the array's byte order */
} fzm_array;

/* A pipeline: what to do with a chunk. Immutable after creation. */
typedef struct fzm_pipeline fzm_pipeline;

/* From a preset (number or name "fast", see fzm_preset_*) with a bound, or from JSON text with the
 * bound inside. text as in fzm_ctx_new(). A bound must be finite and >= 0 (psnr: > 0, dB). */
int fzm_pipeline_from_preset(fzm_pipeline **pipeline, int preset, int mode, double bound, char *text);
int fzm_pipeline_from_json(fzm_pipeline **pipeline, const char *json, size_t json_nbytes, char *text);

/* Compiled form, in 32-bit words for HDF5 cd_values; the first word is >= 2^24. to_words returns the
 * number of words that the pipeline needs and writes min(that, cap) of them. */
size_t fzm_pipeline_to_words(const fzm_pipeline *pipeline, uint32_t *words, size_t cap_words);
int fzm_pipeline_from_words(fzm_pipeline **pipeline, const uint32_t *words, size_t n_words, char *text);

/* JSON text of a pipeline, NUL-ended; returns its length without the NUL, writes at most cap bytes. */
size_t fzm_pipeline_to_json(const fzm_pipeline *pipeline, char *json, size_t cap);

int fzm_pipeline_mode(const fzm_pipeline *pipeline);
double fzm_pipeline_bound(const fzm_pipeline *pipeline);
void fzm_pipeline_free(fzm_pipeline **pipeline);

/* 0 if the pipeline takes arrays like this one, else the reason in text. */
int fzm_pipeline_check(const fzm_pipeline *pipeline, const fzm_array *array, char *text);

/* Presets, in order of number: i from 0 until NULL. */
typedef struct fzm_preset_info {
    int number;
    const char *name, *help, *json;
} fzm_preset_info;
const fzm_preset_info *fzm_preset(size_t i);
const fzm_preset_info *fzm_preset_by_number(int number);
const fzm_preset_info *fzm_preset_by_name(const char *name);

/* Bytes of the array; 0 if it is empty or invalid. */
size_t fzm_array_nbytes(const fzm_array *array);

/* Worst case of fzm_compress: array bytes + FZM_MAX_OVERHEAD_NBYTES. */
size_t fzm_compress_bound(const fzm_array *array);

/* Compresses one chunk from host memory into a self-describing stream. in and out must not overlap.
 * *out_nbytes is the size of the stream. out_cap may be less than fzm_compress_bound(): then
 * FZM_ERR_CAPACITY if the stream does not fit. */
int fzm_compress(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array,
                 const void *in, size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes);

/* Decompresses a stream into out (at least fzm_stream_info().array's bytes). Safe on hostile input.
 * verify: 0 skips the payload checksum. */
int fzm_decompress(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                   size_t *out_nbytes, int verify);

/* The same for arrays and streams in device memory, on a CUDA stream (a cudaStream_t; NULL: the default one) of
 * the context's device. Work is enqueued; the calls wait for the device where they need a number: a preset compresses
 * with three to five waits (what the bound means for the chunk, the shape of the tiles, sizes of sections) and
 * decompresses with three, other pipelines wait more. *out_nbytes is valid on return, the bytes of out when the stream
 * has got so far. in and out are the caller's until then; scratch memory belongs to ctx, so all calls with one ctx go
 * to one stream, or are separated by a synchronisation. For several chunks in flight use a ctx for each, on threads of
 * their own. Elements are in the host's byte order (array->big_endian is an error).
 * in and the restored array are aligned to their elements, out of fzm_compress_device() to 16 bytes; with room for
 * half as much again as fzm_compress_bound() the largest section is made in its place. in of fzm_decompress_device() can be read up to the next multiple of 4 bytes.
 * FZM_ERR_ENGINE if there is no usable GPU; there is no fallback. */
int fzm_compress_device(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in,
                        size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes, void *stream);
int fzm_decompress_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                          size_t *out_nbytes, int verify, void *stream);

/* Between device and host memory: the array in device memory (aligned to its elements), the stream in host memory, so
 * that only compressed bytes cross the bus. They use a CUDA stream of ctx: what fills the array must be complete, and
 * the result is there on return. fzm_copy_to_device() copies bytes as they are. Errors as above. */
int fzm_compress_from_device(fzm_ctx *ctx, const fzm_pipeline *pipeline, const fzm_array *array, const void *in,
                             size_t in_nbytes, void *out, size_t out_cap, size_t *out_nbytes);
int fzm_decompress_to_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out, size_t out_cap,
                             size_t *out_nbytes, int verify);
int fzm_copy_to_device(fzm_ctx *ctx, const void *in, size_t in_nbytes, void *out);

typedef struct fzm_section_info {
    const char *stage, *port; /* producing stage's type and port name */
    uint64_t nbytes;
} fzm_section_info;

typedef struct fzm_stream_info {
    fzm_array array;         /* folded to at most four axes */
    uint64_t stream_nbytes, array_nbytes, header_nbytes;
    int stored;              /* 1: the elements are stored as they are */
    int mode;                /* what was asked for */
    double bound;
    double abs_bound;        /* the absolute bound that the chunk was coded with; 0: exact */
    unsigned n_sections;
    fzm_section_info sections[32];
} fzm_stream_info;

/* Reads the header only. json (may be NULL): the pipeline as JSON text, at most json_cap bytes. */
int fzm_stream_read_info(const void *in, size_t in_nbytes, fzm_stream_info *info,
                         char *json, size_t json_cap, char *text);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
