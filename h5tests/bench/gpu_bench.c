/* SPDX-License-Identifier: BSD-3-Clause */
/* Ratios and speeds of the GPU engine on chunks in device memory and in host memory:
 *     gpu_bench [--repeat=N] [--bounds=V,V...] [--json=FILE] [--fields=FOLDER] [FILE TYPE SHAPE]...
 * Bounds are parts of the field's range, and become absolute ones. FOLDER has files NAME_SHAPE.f32, as gen_fields.py
 * makes them; TYPE and SHAPE are as for `fzm bench`: f32 100x500x500. Without files, on fields made here.
 * Times are medians after three warm-ups. Device: whole fields, by events around the call, side chains, payload, hash and
 * the calls' waits included. Host: chunks of at most 64 MiB, one after the other, in memory touched before. */
#include "gpu_fields.h"

#include <dirent.h>
#include <stdbool.h>

enum { CHUNK_NBYTES = 64 << 20, N_WARM_UPS = 3, MAX_BOUNDS = 8 };

enum way {
    DEVICE_COMPRESS,
    DEVICE_DECOMPRESS,
    PAGEABLE_COMPRESS,
    PAGEABLE_DECOMPRESS,
    PINNED_COMPRESS,
    PINNED_DECOMPRESS,
    N_WAYS
};
static const char *const way_names[] = {"device_compress",     "device_decompress", "pageable_compress",
                                        "pageable_decompress", "pinned_compress",   "pinned_decompress"};

/* A field in host memory, and room for its chunks' streams and what is restored from them. */
struct host {
    uint8_t *in, *streams, *out;
};

struct bench {
    struct field field;
    fzm_array chunk; /* as many slices of the slowest axis as fit */
    size_t chunk_nbytes, chunk_cap, n_chunks;
    struct host host[2]; /* pageable, pinned */
    size_t *chunk_stream_nbytes;
    void *device_in, *device_stream, *device_out;
    size_t device_cap, stream_nbytes;
    fzm_ctx *ctx;
    int repeat, n_bounds;
    double bounds[MAX_BOUNDS];
    double *times;
    FILE *json;
    int n_rows, n_wrong;
};

/* What the table shows. */
struct row {
    const char *preset;
    double bound, ratio, memory, gbps[N_WAYS];
    long long n_violations; /* -1: not checked */
};

static int call_device(struct bench *b, const fzm_pipeline *p, enum way way)
{
    size_t n;
    if (way == DEVICE_COMPRESS)
        return fzm_compress_device(b->ctx, p, &b->field.array, b->device_in, b->field.nbytes,
                                   b->device_stream, b->device_cap, &b->stream_nbytes, NULL);
    return fzm_decompress_device(b->ctx, b->device_stream, b->stream_nbytes, b->device_out, b->field.nbytes,
                                 &n, 1, NULL);
}

static int call_host(struct bench *b, const fzm_pipeline *p, enum way way)
{
    const struct host *const h = &b->host[way >= PINNED_COMPRESS];
    for (size_t i = 0; i < b->n_chunks; i++) {
        const size_t at = i * b->chunk_nbytes, left = b->field.nbytes - at;
        const size_t nbytes = left < b->chunk_nbytes ? left : b->chunk_nbytes;
        uint8_t *const stream = h->streams + i * b->chunk_cap;
        fzm_array array = b->chunk;
        size_t n;
        array.dims[0] = array.dims[0] * nbytes / b->chunk_nbytes;
        const int code =
            way == PAGEABLE_COMPRESS || way == PINNED_COMPRESS
                ? fzm_compress(b->ctx, p, &array, h->in + at, nbytes, stream, b->chunk_cap,
                               &b->chunk_stream_nbytes[i])
                : fzm_decompress(b->ctx, stream, b->chunk_stream_nbytes[i], h->out + at, nbytes, &n, 1);
        if (code < 0)
            return code;
    }
    return 0;
}

/* GB/s of the array at the median; 0 if the GPU does not run it. */
static double measure(struct bench *b, const fzm_pipeline *p, enum way way)
{
    const bool is_device = way <= DEVICE_DECOMPRESS;
    const int repeat = is_device ? b->repeat : (b->repeat + 2) / 3; /* host calls are long */
    cudaEvent_t start, end;
    check_cuda(cudaEventCreate(&start));
    check_cuda(cudaEventCreate(&end));
    int n = 0;
    for (int i = -N_WARM_UPS; i < repeat; i++) {
        float ms = 0;
        const double begin = now_s();
        check_cuda(cudaEventRecord(start, NULL));
        if ((is_device ? call_device(b, p, way) : call_host(b, p, way)) < 0) {
            fprintf(stderr, "%s: %s\n", b->field.name, fzm_error_text(b->ctx));
            break;
        }
        const double seconds = now_s() - begin;
        check_cuda(cudaEventRecord(end, NULL));
        check_cuda(cudaEventSynchronize(end));
        check_cuda(cudaEventElapsedTime(&ms, start, end));
        if (i >= 0)
            b->times[n++] = is_device ? 1e-3 * ms : seconds;
    }
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    return n == repeat ? 1e-9 * (double)b->field.nbytes / median(b->times, n) : 0;
}

/* Elements of `restored` that are further than bound from their originals; not finite ones and all of a bound of 0 must
 * be equal bit for bit. -1 for integers under a bound. */
static long long count_violations(const struct bench *b, const uint8_t *restored, double bound)
{
    const size_t elem = b->field.array.dtype == FZM_F64 ? 8 : 4;
    long long n = 0;
    if (bound == 0)
        return memcmp(b->host[0].in, restored, b->field.nbytes) != 0;
    if (b->field.array.dtype != FZM_F32 && b->field.array.dtype != FZM_F64)
        return -1;
    for (size_t at = 0; at < b->field.nbytes; at += elem) {
        double x, y;
        if (elem == 8) {
            memcpy(&x, b->host[0].in + at, 8);
            memcpy(&y, restored + at, 8);
        } else {
            float v, w;
            memcpy(&v, b->host[0].in + at, 4);
            memcpy(&w, restored + at, 4);
            x = v, y = w;
        }
        const double error = fabs(x - y);
        if (!(error < bound) && !(fabsl((long double)x - (long double)y) <= (long double)bound))
            n += memcmp(b->host[0].in + at, restored + at, elem) != 0;
    }
    return n;
}

static void print_row(struct bench *b, const struct row *r)
{
    char bound[32] = "lossless", violations[32] = "-";
    if (r->bound > 0)
        snprintf(bound, sizeof bound, "%g", r->bound);
    if (r->n_violations >= 0)
        snprintf(violations, sizeof violations, "%lld", r->n_violations);
    printf("| %s | %s | %s | %.3f | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %s |\n", b->field.name,
           r->preset, bound, r->ratio, r->gbps[0], r->gbps[1], r->gbps[2], r->gbps[3], r->gbps[4], r->gbps[5],
           r->memory, violations);
    fflush(stdout);
    if (!b->json)
        return;
    fprintf(b->json,
            "%s\n  {\"field\": \"%s\", \"nbytes\": %zu, \"preset\": \"%s\", \"range_bound\": %.17g, "
            "\"ratio\": %.6g",
            b->n_rows ? "," : "", b->field.name, b->field.nbytes, r->preset, r->bound, r->ratio);
    for (int way = 0; way < N_WAYS; way++)
        fprintf(b->json, ", \"%s_gbps\": %.6g", way_names[way], r->gbps[way]);
    fprintf(b->json, ", \"memory_over_chunk\": %.4g, \"n_violations\": %lld}", r->memory, r->n_violations);
    b->n_rows++;
}

/* Restored arrays of all ways against the bound. */
static long long check_results(struct bench *b, double bound)
{
    long long n = count_violations(b, b->host[0].out, bound);
    if (n >= 0)
        n += count_violations(b, b->host[1].out, bound);
    check_cuda(cudaMemcpy(b->host[1].out, b->device_out, b->field.nbytes, cudaMemcpyDeviceToHost));
    if (n >= 0)
        n += count_violations(b, b->host[1].out, bound);
    return n;
}

static void bench_pipeline(struct bench *b, const char *preset, double part_of_range)
{
    const fzm_options options = {.size = sizeof options, .engine = FZM_ENGINE_GPU};
    const double bound = part_of_range * b->field.range;
    char text[FZM_ERROR_TEXT_NBYTES];
    struct row r = {.preset = preset, .bound = part_of_range};
    fzm_pipeline *p = NULL;
    if (fzm_pipeline_from_preset(&p, fzm_preset_by_name(preset)->number, bound > 0 ? FZM_ABS : FZM_LOSSLESS,
                                 bound, text) < 0 ||
        fzm_ctx_new(&b->ctx, &options, text) < 0)
        fail(preset, text);
    bool works = fzm_pipeline_check(p, &b->field.array, text) == 0;
    for (int way = 0; way < N_WAYS && works; way++) {
        r.gbps[way] = measure(b, p, (enum way)way);
        works = r.gbps[way] > 0;
        if (way == DEVICE_DECOMPRESS)
            r.memory = (double)fzm_ctx_memory_nbytes(b->ctx) / (double)b->field.nbytes;
    }
    if (works) {
        r.ratio = (double)b->field.nbytes / (double)b->stream_nbytes;
        r.n_violations = check_results(b, bound);
        b->n_wrong += r.n_violations > 0;
        print_row(b, &r);
    }
    fzm_ctx_free(&b->ctx);
    fzm_pipeline_free(&p);
}

/* ---- memory of a field ---- */

static void get_memory(struct bench *b)
{
    const size_t streams_nbytes = b->n_chunks * b->chunk_cap;
    struct host *const pageable = &b->host[0], *const pinned = &b->host[1];
    pageable->in = b->field.data;
    b->chunk_stream_nbytes = checked(calloc(b->n_chunks, sizeof *b->chunk_stream_nbytes));
    pageable->streams = checked(malloc(streams_nbytes));
    pageable->out = checked(malloc(b->field.nbytes));
    check_cuda(cudaMallocHost((void **)&pinned->in, b->field.nbytes));
    check_cuda(cudaMallocHost((void **)&pinned->streams, streams_nbytes));
    check_cuda(cudaMallocHost((void **)&pinned->out, b->field.nbytes));
    memset(pageable->streams, 1, streams_nbytes);
    memset(pageable->out, 1, b->field.nbytes);
    memcpy(pinned->in, pageable->in, b->field.nbytes);
    b->device_cap =
        fzm_compress_bound(&b->field.array) * 3 / 2 + (1 << 20); /* room for sections to be made in place */
    check_cuda(cudaMalloc(&b->device_in, b->field.nbytes));
    check_cuda(cudaMalloc(&b->device_out, b->field.nbytes));
    check_cuda(cudaMalloc(&b->device_stream, b->device_cap));
    check_cuda(cudaMemcpy(b->device_in, pageable->in, b->field.nbytes, cudaMemcpyHostToDevice));
}

static void free_memory(struct bench *b)
{
    free(b->chunk_stream_nbytes);
    free(b->host[0].in);
    free(b->host[0].streams);
    free(b->host[0].out);
    cudaFreeHost(b->host[1].in);
    cudaFreeHost(b->host[1].streams);
    cudaFreeHost(b->host[1].out);
    cudaFree(b->device_in);
    cudaFree(b->device_out);
    cudaFree(b->device_stream);
}

static void cut_into_chunks(struct bench *b)
{
    const uint64_t n_slices = b->field.array.dims[0], n_fit = CHUNK_NBYTES / (b->field.nbytes / n_slices);
    b->chunk = b->field.array;
    b->chunk.dims[0] = n_fit < 1 ? 1 : n_fit < n_slices ? n_fit : n_slices;
    b->chunk_nbytes = fzm_array_nbytes(&b->chunk);
    b->chunk_cap = (fzm_compress_bound(&b->chunk) + 63) / 64 * 64;
    b->n_chunks = (b->field.nbytes + b->chunk_nbytes - 1) / b->chunk_nbytes;
}

/* Takes b->field.data. */
static void bench_field(struct bench *b)
{
    static const char *const lossy[] = {"fast", "balanced"};
    field_set_range(&b->field);
    cut_into_chunks(b);
    get_memory(b);
    for (int i = 0; i < b->n_bounds && b->field.range > 0; i++)
        for (int k = 0; k < 2; k++)
            bench_pipeline(b, lossy[k], b->bounds[i]);
    bench_pipeline(b, "lossless", 0);
    free_memory(b);
}

/* Files NAME_SHAPE.f32 in order of name. */
static void bench_folder(struct bench *b, const char *folder)
{
    struct dirent **entries;
    const int n = scandir(folder, &entries, NULL, alphasort);
    if (n < 0)
        fail(folder, "cannot be read");
    for (int i = 0; i < n; i++) {
        char path[4096], name[256];
        snprintf(name, sizeof name, "%s", entries[i]->d_name);
        char *const end = strstr(name, ".f32"), *const shape = strrchr(name, '_');
        if (end && shape && end[4] == 0) {
            snprintf(path, sizeof path, "%s/%s", folder, name);
            *end = *shape = 0;
            field_set_shape(&b->field, "f32", shape + 1);
            field_read(&b->field, path, name);
            bench_field(b);
        }
        free(entries[i]);
    }
    free(entries);
}

static bool has_gpu(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

static void set_bounds(struct bench *b, const char *text)
{
    for (b->n_bounds = 0; *text && b->n_bounds < MAX_BOUNDS; text += *text == ',') {
        char *end;
        const double v = strtod(text, &end);
        if (end == text || !(v > 0))
            fail(text, "expected bounds as parts of the range: 1e-2,1e-3");
        b->bounds[b->n_bounds++] = v;
        text = end;
    }
}

/* Takes options; returns the index of the first other argument. */
static int take_options(struct bench *b, int argc, char **argv, const char **folder)
{
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strncmp(argv[i], "--repeat=", 9) == 0)
            b->repeat = atoi(argv[i] + 9);
        else if (strncmp(argv[i], "--bounds=", 9) == 0)
            set_bounds(b, argv[i] + 9);
        else if (strncmp(argv[i], "--fields=", 9) == 0)
            *folder = argv[i] + 9;
        else if (strncmp(argv[i], "--json=", 7) == 0)
            b->json = checked(fopen(argv[i] + 7, "w"));
        else
            fail(argv[i], "unknown option");
    }
    if (b->repeat < 1 || (argc - i) % 3)
        fail("usage",
             "gpu_bench [--repeat=N] [--bounds=V,V...] [--json=FILE] [--fields=FOLDER] [FILE TYPE SHAPE]...");
    return i;
}

int main(int argc, char **argv)
{
    static const char *const made[][2] = {
        {"made 3-D", "512x512x512"}, {"made 2-D", "8192x16384"}, {"made 1-D", "134217728"}};
    struct bench b = {.repeat = 30, .n_bounds = 1, .bounds = {1e-3}};
    const char *folder = NULL;
    int i = take_options(&b, argc, argv, &folder);
    if (!has_gpu()) {
        printf("SKIP: no usable GPU\n");
        return 0;
    }
    b.times = checked(calloc((size_t)b.repeat, sizeof *b.times));
    printf("GB/s of array bytes, compression and decompression; device: medians of %d\n\n", b.repeat);
    printf("| field | preset | range bound | ratio | device comp | device dec | pageable comp | pageable dec "
           "| pinned comp | "
           "pinned dec | scratch/field | violations |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    if (b.json)
        fprintf(b.json, "[");
    for (int k = 0; i == argc && !folder && k < 3; k++) {
        field_set_shape(&b.field, "f32", made[k][1]);
        field_make(&b.field, made[k][0]);
        bench_field(&b);
    }
    if (folder)
        bench_folder(&b, folder);
    for (; i < argc; i += 3) {
        field_set_shape(&b.field, argv[i + 1], argv[i + 2]);
        field_read(&b.field, argv[i], strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
        bench_field(&b);
    }
    if (b.json) {
        fprintf(b.json, "\n]\n");
        fclose(b.json);
    }
    free(b.times);
    return b.n_wrong > 0;
}
