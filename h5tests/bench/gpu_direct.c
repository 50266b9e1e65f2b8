/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of the direct-chunk path: many chunks in flight from pinned host memory and from device memory, streams kept in
 * host memory as a file of HDF5's core driver keeps them.
 *     gpu_direct [--repeat=N] [--bounds=V,V...] [--chunk-mib=N] [FILE TYPE SHAPE]...
 * Bounds are parts of the field's range. Without files, on fields made here. Host time, medians after two warm-ups. */
#include "gpu_fields.h"

#include "fzm_batch.h"

#include <stdbool.h>

enum { N_WARM_UPS = 2, MAX_CHUNKS = 4096, MAX_REPEAT = 100, MAX_BOUNDS = 8 };

struct direct {
    struct field field;
    fzm_array chunk;
    size_t chunk_nbytes, n_chunks;
    uint8_t *file; /* n_chunks places of cap bytes each */
    size_t cap, stream_nbytes[MAX_CHUNKS];
    const void *in[MAX_CHUNKS];
    void *out[MAX_CHUNKS];
    fzm_batch *batch;
    fzm_pipeline *pipeline;
    enum fzm_memory memory;
    int repeat;
};

static int store(void *arg, size_t i, const void *stream, size_t nbytes)
{
    struct direct *const d = arg;
    memcpy(d->file + i * d->cap, stream, nbytes);
    d->stream_nbytes[i] = nbytes;
    return 0;
}

static int load(void *arg, size_t i, void *buf, size_t *nbytes, int *is_plain)
{
    const struct direct *const d = arg;
    *nbytes = d->stream_nbytes[i];
    *is_plain = 0;
    if (buf)
        memcpy(buf, d->file + i * d->cap, *nbytes);
    return 0;
}

static int call(struct direct *d, bool is_compression)
{
    if (is_compression)
        return fzm_batch_compress(d->batch, d->pipeline, &d->chunk, d->memory, d->n_chunks, d->in, store, d);
    return fzm_batch_decompress(d->batch, d->memory, d->n_chunks, d->out, d->chunk_nbytes, 1, load, d);
}

static double measure(struct direct *d, bool is_compression)
{
    double times[MAX_REPEAT];
    for (int i = -N_WARM_UPS; i < d->repeat; i++) {
        const double begin = now_s();
        if (call(d, is_compression) < 0)
            fail(d->field.name, fzm_batch_error_text(d->batch));
        if (i >= 0)
            times[i] = now_s() - begin;
    }
    return 1e-9 * (double)(d->n_chunks * d->chunk_nbytes) / median(times, d->repeat);
}

/* Arrays in pinned or in device memory, from the field. */
static void get_arrays(struct direct *d)
{
    for (size_t i = 0; i < d->n_chunks; i++) {
        void *in;
        if (d->memory == FZM_DEVICE_MEMORY) {
            check_cuda(cudaMalloc(&in, d->chunk_nbytes));
            check_cuda(cudaMalloc(&d->out[i], d->chunk_nbytes));
        } else {
            check_cuda(cudaMallocHost(&in, d->chunk_nbytes));
            check_cuda(cudaMallocHost(&d->out[i], d->chunk_nbytes));
        }
        check_cuda(cudaMemcpy(in, (uint8_t *)d->field.data + i * d->chunk_nbytes, d->chunk_nbytes, cudaMemcpyDefault));
        d->in[i] = in;
    }
}

static void free_arrays(struct direct *d)
{
    for (size_t i = 0; i < d->n_chunks; i++) {
        void *const in = (void *)(uintptr_t)d->in[i];
        if (d->memory == FZM_DEVICE_MEMORY)
            cudaFree(in), cudaFree(d->out[i]);
        else
            cudaFreeHost(in), cudaFreeHost(d->out[i]);
    }
}

static void bench_memory(struct direct *d, const char *preset, double part_of_range)
{
    const fzm_options options = {.size = sizeof options, .engine = FZM_ENGINE_GPU};
    char text[FZM_ERROR_TEXT_NBYTES];
    size_t nbytes = 0;
    if (fzm_pipeline_from_preset(&d->pipeline, fzm_preset_by_name(preset)->number, FZM_ABS,
                                 part_of_range * d->field.range, text) < 0 ||
        fzm_batch_new(&d->batch, &options, text) < 0)
        fail(preset, text);
    get_arrays(d);
    const double compress_gbps = measure(d, true), decompress_gbps = measure(d, false);
    for (size_t i = 0; i < d->n_chunks; i++)
        nbytes += d->stream_nbytes[i];
    printf("| %s | %s | %g | %s | %zu x %zu MiB | %.2f | %.1f | %.1f |\n", d->field.name, preset, part_of_range,
           d->memory == FZM_DEVICE_MEMORY ? "device" : "pinned", d->n_chunks, d->chunk_nbytes >> 20,
           (double)(d->n_chunks * d->chunk_nbytes) / (double)nbytes, compress_gbps, decompress_gbps);
    fflush(stdout);
    free_arrays(d);
    fzm_batch_free(&d->batch);
    fzm_pipeline_free(&d->pipeline);
}

static void bench_field(struct direct *d, size_t chunk_mib, const double *bounds, int n_bounds)
{
    const size_t slice_nbytes = d->field.nbytes / d->field.array.dims[0];
    const size_t n_fit = (chunk_mib << 20) / slice_nbytes, n_slices = d->field.array.dims[0];
    field_set_range(&d->field);
    d->chunk = d->field.array;
    d->chunk.dims[0] = n_fit < 1 ? 1 : n_fit < n_slices ? n_fit : n_slices;
    d->chunk_nbytes = fzm_array_nbytes(&d->chunk);
    d->n_chunks = d->field.nbytes / d->chunk_nbytes;
    if (d->n_chunks > MAX_CHUNKS)
        fail(d->field.name, "too many chunks: use a larger --chunk-mib");
    d->cap = fzm_compress_bound(&d->chunk);
    d->file = checked(malloc(d->n_chunks * d->cap));
    memset(d->file, 1, d->n_chunks * d->cap);
    for (int i = 0; i < n_bounds; i++)
        for (int k = 0; k < 4; k++) {
            d->memory = k & 1 ? FZM_DEVICE_MEMORY : FZM_HOST_MEMORY;
            bench_memory(d, k < 2 ? "fast" : "balanced", bounds[i]);
        }
    free(d->file);
    free(d->field.data);
}

static int take_bounds(double bounds[MAX_BOUNDS], const char *text)
{
    int n = 0;
    for (; *text && n < MAX_BOUNDS; text += *text == ',') {
        char *end;
        bounds[n] = strtod(text, &end);
        if (end == text || !(bounds[n++] > 0))
            fail(text, "expected bounds as parts of the range: 1e-2,1e-3");
        text = end;
    }
    return n;
}

int main(int argc, char **argv)
{
    static struct direct d = {.repeat = 10};
    double bounds[MAX_BOUNDS] = {1e-3};
    int n_devices = 0, n_bounds = 1, i = 1;
    size_t chunk_mib = 32;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strncmp(argv[i], "--repeat=", 9) == 0)
            d.repeat = atoi(argv[i] + 9);
        else if (strncmp(argv[i], "--bounds=", 9) == 0)
            n_bounds = take_bounds(bounds, argv[i] + 9);
        else if (strncmp(argv[i], "--chunk-mib=", 12) == 0)
            chunk_mib = (size_t)strtoul(argv[i] + 12, NULL, 10);
        else
            fail(argv[i], "unknown option");
    }
    if (d.repeat < 1 || d.repeat > MAX_REPEAT || chunk_mib < 1 || (argc - i) % 3)
        fail("usage", "gpu_direct [--repeat=1..100] [--bounds=V,V...] [--chunk-mib=N] [FILE TYPE SHAPE]...");
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        printf("SKIP: no usable GPU\n");
        return 0;
    }
    printf("GB/s of array bytes, medians of %d\n\n| field | preset | range bound | memory | chunks | ratio | write | read |\n"
           "|---|---|---|---|---|---|---|---|\n", d.repeat);
    if (i == argc) {
        field_set_shape(&d.field, "f32", "1024x512x512");
        field_make(&d.field, "made 3-D");
        bench_field(&d, chunk_mib, bounds, n_bounds);
    }
    for (; i < argc; i += 3) {
        field_set_shape(&d.field, argv[i + 1], argv[i + 2]);
        field_read(&d.field, argv[i], strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
        bench_field(&d, chunk_mib, bounds, n_bounds);
    }
    return 0;
}
