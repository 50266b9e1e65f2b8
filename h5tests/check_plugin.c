/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin from C: filter() called as HDF5 calls it, then through HDF5 with the macros of H5Zfzm.h.
 * check_plugin PLUGIN_FILE; HDF5_PLUGIN_PATH is the folder of that file. */
#include "H5Zfzm.h"
#include "check.h"
#include "fzm.h"

#include <H5PLextern.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

enum { N = 4096, NBYTES = 4 * N, STORED_TAG = 0x46530100 };

static const H5Z_class2_t *filter_class;

/* Stored form: fast, abs 1e-3, f32, 64 x 64. */
static size_t stored_values(unsigned values[16], int preset, double bound)
{
    values[0] = STORED_TAG + 3;
    const size_t n = 1 + H5Pset_fzm_cdata(preset, H5Z_FZM_ABS, bound, values + 1);
    values[n] = FZM_F32 | 2 << 8;
    values[n + 1] = values[n + 2] = 64;
    return n + 3;
}

static void fill_smooth(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 64) * 0.0123f + (float)(i / 64) * 0.0257f;
}

/* A buffer as HDF5 has it: malloc, allocation larger than the contents. */
static void *new_buf(const void *data, size_t nbytes, size_t allocated)
{
    uint8_t *const buf = malloc(allocated);
    memset(buf, 0xA5, allocated);
    memcpy(buf, data, nbytes);
    return buf;
}

static size_t run_filter(unsigned flags, const unsigned *values, size_t n_values, size_t nbytes,
                         size_t *allocated, void **buf)
{
    return filter_class->filter(flags, n_values, values, nbytes, allocated, buf);
}

/* The call must fail and leave everything as it was. */
static void check_refused(const char *what, unsigned flags, const unsigned *values, size_t n_values,
                          const void *data, size_t nbytes, size_t allocated)
{
    void *const before = new_buf(data, nbytes, allocated);
    void *buf = before;
    size_t size = allocated;
    const size_t result = run_filter(flags, values, n_values, nbytes, &size, &buf);
    CHECK(result == 0, "%s: result %zu", what, result);
    CHECK(buf == before && size == allocated, "%s: buffer changed", what);
    if (buf == before)
        CHECK(memcmp(buf, data, nbytes) == 0, "%s: contents changed", what);
    free(buf);
}

static void check_round_trip(size_t spare)
{
    unsigned values[16];
    const size_t n_values = stored_values(values, H5Z_FZM_FAST, 1e-3);
    float x[N];
    fill_smooth(x);
    void *buf = new_buf(x, NBYTES, NBYTES + spare);
    size_t size = NBYTES + spare;
    const size_t nbytes = run_filter(0, values, n_values, NBYTES, &size, &buf);
    CHECK(nbytes > 0 && nbytes < NBYTES / 4 && size >= nbytes, "encode: %zu bytes", nbytes);
    void *const stream = new_buf(buf, nbytes, nbytes);
    /* HDF5 1.x hands in a buffer of the stream's size, 2.2 one of the chunk's size. */
    for (int large = 0; large < 2; large++) {
        size_t out_size = large ? (size_t)NBYTES + 7 : nbytes;
        void *out = new_buf(stream, nbytes, out_size);
        const size_t result = run_filter(H5Z_FLAG_REVERSE, values, n_values, nbytes, &out_size, &out);
        CHECK(result == NBYTES && out_size >= NBYTES, "decode: %zu bytes in a buffer of %zu", result,
              out_size);
        double error = 0;
        for (int i = 0; i < N && result == NBYTES; i++)
            error = fmax(error, fabs((double)x[i] - (double)((float *)out)[i]));
        CHECK(error <= 1e-3, "error %g", error);
        free(out);
        out_size = nbytes;
        out = new_buf(stream, nbytes, out_size);
        CHECK(run_filter(H5Z_FLAG_REVERSE, NULL, 0, nbytes, &out_size, &out) == NBYTES,
              "decode without values");
        free(out);
    }
    free(stream);
    free(buf);
}

static void check_damage(void)
{
    unsigned values[16];
    const size_t n_values = stored_values(values, H5Z_FZM_BALANCED, 1e-2);
    float x[N];
    fill_smooth(x);
    void *buf = new_buf(x, NBYTES, NBYTES);
    size_t size = NBYTES;
    const size_t nbytes = run_filter(0, values, n_values, NBYTES, &size, &buf);
    uint8_t *const bytes = buf;
    size_t n_unnoticed = 0;
    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] ^= (uint8_t)(1u << i % 8);
        check_refused("flipped bit", H5Z_FLAG_REVERSE, values, n_values, bytes, nbytes,
                      i % 2 ? nbytes : NBYTES);
        /* With the checksums switched off anything may come out, but not a crash. */
        void *unchecked = new_buf(bytes, nbytes, nbytes);
        size_t unchecked_size = nbytes;
        const size_t result = run_filter(H5Z_FLAG_REVERSE | H5Z_FLAG_SKIP_EDC, values, n_values, nbytes,
                                         &unchecked_size, &unchecked);
        CHECK(result == 0 || result == NBYTES, "checksums off: %zu bytes", result);
        n_unnoticed += result == NBYTES;
        free(unchecked);
        bytes[i] ^= (uint8_t)(1u << i % 8);
        check_refused("cut stream", H5Z_FLAG_REVERSE, values, n_values, bytes, i, i % 2 ? nbytes : NBYTES);
    }
    CHECK(n_unnoticed > 0, "H5Z_FLAG_SKIP_EDC is heeded");
    values[n_values - 1] = 32;
    check_refused("stream of a larger chunk", H5Z_FLAG_REVERSE, values, n_values, bytes, nbytes, nbytes);
    check_refused("foreign bytes", H5Z_FLAG_REVERSE, values, n_values, x, NBYTES, NBYTES);
    free(buf);
}

static void check_refusals(void)
{
    unsigned values[16];
    size_t n_values = stored_values(values, H5Z_FZM_FAST, 1e-30);
    float x[N];
    check_fill_random(x, sizeof x);
    check_refused("optional, incompressible", H5Z_FLAG_OPTIONAL, values, n_values, x, NBYTES, NBYTES);
    void *buf = new_buf(x, NBYTES, NBYTES);
    size_t size = NBYTES;
    const size_t nbytes = run_filter(0, values, n_values, NBYTES, &size, &buf);
    CHECK(nbytes > 0 && nbytes <= NBYTES + FZM_MAX_OVERHEAD_NBYTES && size >= nbytes, "wrapped: %zu bytes",
          nbytes);
    CHECK(run_filter(H5Z_FLAG_REVERSE, values, n_values, nbytes, &size, &buf) == NBYTES &&
              memcmp(buf, x, NBYTES) == 0,
          "wrapped chunk comes back");
    free(buf);
    for (unsigned flags = 0; flags < 2; flags++) {
        check_refused("wrong size", flags, values, n_values, x, NBYTES - 4, NBYTES);
        check_refused("no values", flags, NULL, 0, x, NBYTES, NBYTES);
        for (size_t n = 0; n < n_values; n++)
            check_refused("cut values", flags, values, n, x, NBYTES, NBYTES);
        for (int i = 0; i < 2000; i++) {
            unsigned random[16];
            check_fill_random(random, sizeof random);
            if (i % 2)
                random[0] = STORED_TAG + (unsigned)check_random_below(9);
            check_refused("random values", flags, random, check_random_below(17), x, NBYTES, NBYTES);
        }
    }
    values[0] = STORED_TAG;
    check_refused("values that say: does not apply", H5Z_FLAG_OPTIONAL, values, 5, x, NBYTES, NBYTES);
}

static void *thread_main(void *arg)
{
    unsigned values[16];
    const size_t n_values = stored_values(values, H5Z_FZM_FAST, 1e-3);
    float x[N];
    fill_smooth(x);
    bool *const ok = arg;
    *ok = true;
    for (int i = 0; i < 50; i++) {
        void *buf = new_buf(x, NBYTES, NBYTES);
        size_t size = NBYTES, nbytes = run_filter(0, values, n_values, NBYTES, &size, &buf);
        nbytes = nbytes ? run_filter(H5Z_FLAG_REVERSE, values, n_values, nbytes, &size, &buf) : 0;
        *ok = *ok && nbytes == NBYTES && fabsf(((float *)buf)[N - 1] - x[N - 1]) <= 1e-3f;
        free(buf);
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[8];
    bool ok[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, thread_main, &ok[i]);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        CHECK(ok[i], "thread %d", i);
    }
}

/* ---- through HDF5 ---- */

/* What write_and_read() gave last. */
static char message[512];
static double error;
static hsize_t stored;

static herr_t first_message(unsigned n, const H5E_error2_t *entry, void *unused)
{
    (void)unused;
    if (n == 0)
        snprintf(message, sizeof message, "%s", entry->desc);
    return 0;
}

/* Creates a 64 x 64 dataset, writes and reads it. 0, or -1 with the innermost message. */
static int write_and_read(hid_t dcpl, hid_t file_type)
{
    const hsize_t dims[2] = {64, 64};
    float x[N];
    double y[N]; /* exact for every file type here */
    fill_smooth(x);
    message[0] = '\0';
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 1 << 16, 0);
    const hid_t file = H5Fcreate("check_plugin.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    const hid_t space = H5Screate_simple(2, dims, NULL);
    H5Pset_chunk(dcpl, 2, dims);
    const hid_t set = H5Dcreate2(file, "x", file_type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    int code = set < 0 ? -1 : 0;
    if (set >= 0) {
        code = H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
        H5Dclose(set); /* so that the chunk is read from the file */
        const hid_t again = H5Dopen2(file, "x", H5P_DEFAULT);
        if (code >= 0)
            code = H5Dread(again, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, y);
        stored = H5Dget_storage_size(again);
        H5Dclose(again);
    } else
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_message, NULL);
    error = 0;
    for (int i = 0; i < N && code >= 0; i++)
        error = fmax(error, fabs((double)x[i] - y[i]));
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(fapl);
    return code;
}

static const char json[] =
    "{\"fzm\": 1, \"bound\": {\"mode\": \"abs\", \"value\": 0.004}, \"stages\": ["
    "{\"name\": \"quant\", \"type\": \"Quantizer\"}, "
    "{\"name\": \"pred\", \"type\": \"AdaptiveLorenzo\", \"inputs\": [\"quant.codes\"]}, "
    "{\"type\": \"AdaptiveBitpack\"}]}";

/* The dataset is made, and the error lies in (least, most]. */
static void check_written(const char *what, hid_t dcpl, hid_t file_type, double least, double most)
{
    const int code = write_and_read(dcpl, file_type);
    CHECK(code >= 0 && error <= most && error >= least && stored < NBYTES, "%s: %s, error %g, %d bytes", what,
          message, error, (int)stored);
}

/* H5Dcreate fails, and the message has these words. */
static void check_not_created(const char *what, hid_t dcpl, hid_t file_type, const char *words)
{
    const int code = write_and_read(dcpl, file_type);
    CHECK(code < 0 && *message && strstr(message, words), "%s: no '%s' in: %s", what, words, message);
}

static void check_header(void)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_fzm(dcpl, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-2) >= 0, "H5Pset_fzm");
    CHECK(H5Pset_fzm(dcpl, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3) >= 0, "H5Pset_fzm again");
    CHECK(H5Pget_nfilters(dcpl) == 1, "the second call changes the first");
    check_written("H5Pset_fzm", dcpl, H5T_NATIVE_FLOAT, 1e-5, 1e-3);
    check_written("big-endian double", dcpl, H5T_IEEE_F64BE, 1e-5, 1e-3);
    check_not_created("string", dcpl, H5T_C_S1, "string");
    check_not_created("string", dcpl, H5T_C_S1, "supported are");

    CHECK(H5Pset_fzm_json(dcpl, json) >= 0, "H5Pset_fzm_json");
    check_written("short JSON", dcpl, H5T_NATIVE_FLOAT, 1.1e-3, 4e-3);
    char *const longer = malloc(60001);
    memset(longer, ' ', 60000);
    memcpy(longer + 60000 - sizeof json, json, sizeof json - 1);
    longer[60000] = '\0';
    CHECK(H5Pset_fzm_json(dcpl, longer) >= 0 && H5Pset_fzm_json(dcpl, longer) >= 0, "long JSON");
    check_written("long JSON", dcpl, H5T_NATIVE_FLOAT, 1.1e-3, 4e-3);
    free(longer);
    CHECK(H5Pset_fzm_json(dcpl, "{\"fzm\": 1, \"stages\": [{\"type\": \"Quantiser\"}]}") >= 0,
          "bad JSON is passed");
    check_not_created("bad JSON", dcpl, H5T_NATIVE_FLOAT, "Quantizer");
    CHECK(H5Pset_fzm_json(dcpl, "") >= 0, "empty JSON is passed");
    check_not_created("empty JSON", dcpl, H5T_NATIVE_FLOAT, "JSON");

    CHECK(H5Pset_fzm(dcpl, H5Z_FZM_FAST, H5Z_FZM_ABS, -1) >= 0, "bad bound is passed");
    check_not_created("bad bound", dcpl, H5T_NATIVE_FLOAT, ">= 0");
    CHECK(H5Pset_fzm(dcpl, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-320) >= 0, "tiny bound");
    check_written("tiny bound", dcpl, H5T_NATIVE_FLOAT, 0, 0);
    H5Pclose(dcpl);
    /* Error classes die with the library; the next message must still come. */
    H5close();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fzm(dcpl, 99, H5Z_FZM_ABS, 1);
    check_not_created("library reopened", dcpl, H5T_NATIVE_FLOAT, "99");
    for (size_t i = 0; fzm_preset(i); i++) {
        H5Pset_fzm(dcpl, fzm_preset(i)->number, H5Z_FZM_RANGE, 1e-3);
        check_written(fzm_preset(i)->name, dcpl, H5T_NATIVE_FLOAT, 0, 2.395e-3);
    }
    H5Pclose(dcpl);
}

/* On a group's link heap the filter does nothing: optional it is skipped, mandatory refused. */
static void check_group(unsigned flags)
{
    const hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE), fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 1 << 16, 0);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate("check_plugin.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pset_filter(gcpl, H5Z_FILTER_FZM, flags, 0, NULL);
    H5Pset_link_phase_change(gcpl, 0, 0);
    const hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, gcpl, H5P_DEFAULT);
    herr_t code = group < 0 ? -1 : 0;
    for (int i = 0; i < 300 && code >= 0; i++) {
        char name[200];
        snprintf(name, sizeof name, "a link with a long name, so that the group needs its heap: %d", i);
        code = H5Lcreate_soft("/nowhere", group, name, H5P_DEFAULT, H5P_DEFAULT);
    }
    H5G_info_t info = {0};
    if (group >= 0) {
        H5Gget_info(group, &info);
        H5Gclose(group);
    }
    if (flags & H5Z_FLAG_OPTIONAL)
        CHECK(code >= 0 && info.nlinks == 300, "group, optional: %d links", (int)info.nlinks);
    else
        CHECK(code < 0, "group, mandatory");
    H5Pclose(gcpl);
    H5Fclose(file);
    H5Pclose(fapl);
}

/* Takes a function of the second library, or returns from the function at hand. */
#define TAKE(result, name, parameters) \
    result(*name##_2) parameters; \
    *(void **)(&name##_2) = dlsym(lib, #name); \
    if (!name##_2) { \
        CHECK(false, "second library: no %s", #name); \
        return; \
    }

#ifndef __SANITIZE_ADDRESS__
/* A second copy of libhdf5 in the process, not in the global scope, as Python wheels have it. */
static void check_second_library(void)
{
    Dl_info info;
    char command[1024], text[64] = "./second_libhdf5.so";
    void *open_address;
    herr_t (*const open_function)(void) = H5open;
    memcpy(&open_address, &open_function, sizeof open_address);
    open_address = dlsym(RTLD_DEFAULT, "H5open"); /* not the address of a PLT entry */
    if (!dladdr(open_address, &info) || strchr(info.dli_fname, '\'') ||
        snprintf(command, sizeof command, "cp '%s' %s", info.dli_fname, text) < 0 || system(command) != 0) {
        check_skip("libhdf5 cannot be copied");
        return;
    }
    void *const lib = dlopen(text, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    unlink(text);
    if (!CHECK(lib != NULL, "second library: %s", dlerror()))
        return;
    TAKE(herr_t, H5open, (void))
    TAKE(hid_t, H5Pcreate, (hid_t))
    TAKE(herr_t, H5Pset_chunk, (hid_t, int, const hsize_t *))
    TAKE(herr_t, H5Pset_filter, (hid_t, H5Z_filter_t, unsigned, size_t, const unsigned *))
    TAKE(herr_t, H5Pset_fapl_core, (hid_t, size_t, hbool_t))
    TAKE(hid_t, H5Fcreate, (const char *, unsigned, hid_t, hid_t))
    TAKE(hid_t, H5Screate_simple, (int, const hsize_t *, const hsize_t *))
    TAKE(hid_t, H5Dcreate2, (hid_t, const char *, hid_t, hid_t, hid_t, hid_t, hid_t))
    TAKE(herr_t, H5Dwrite, (hid_t, hid_t, hid_t, hid_t, hid_t, const void *))
    TAKE(herr_t, H5Dclose, (hid_t))
    TAKE(hid_t, H5Dopen2, (hid_t, const char *, hid_t))
    TAKE(herr_t, H5Dread, (hid_t, hid_t, hid_t, hid_t, hid_t, void *))
    TAKE(hsize_t, H5Dget_storage_size, (hid_t))
    H5open_2();
    const hid_t dcpl_class = *(hid_t *)dlsym(lib, "H5P_CLS_DATASET_CREATE_ID_g"),
                fapl_class = *(hid_t *)dlsym(lib, "H5P_CLS_FILE_ACCESS_ID_g"),
                type = *(hid_t *)dlsym(lib, "H5T_NATIVE_FLOAT_g");
    unsigned values[4];
    const hsize_t dims[2] = {64, 64};
    float x[N], y[N] = {0};
    fill_smooth(x);
    const hid_t dcpl = H5Pcreate_2(dcpl_class), fapl = H5Pcreate_2(fapl_class);
    H5Pset_chunk_2(dcpl, 2, dims);
    H5Pset_fapl_core_2(fapl, 1 << 16, 0);
    const size_t n_values = H5Pset_fzm_cdata(H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3, values);
    CHECK(H5Pset_filter_2(dcpl, H5Z_FILTER_FZM, 0, n_values, values) >= 0, "second library: H5Pset_filter");
    const hid_t file = H5Fcreate_2("check_plugin_2.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    const hid_t set =
        H5Dcreate2_2(file, "x", type, H5Screate_simple_2(2, dims, NULL), H5P_DEFAULT, dcpl, H5P_DEFAULT);
    CHECK(set >= 0 && H5Dwrite_2(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0, "second library: write");
    H5Dclose_2(set);
    const hid_t again = H5Dopen2_2(file, "x", H5P_DEFAULT);
    CHECK(H5Dread_2(again, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, y) >= 0 &&
              fabsf(y[N - 1] - x[N - 1]) <= 1e-3f,
          "second library: read");
    CHECK(H5Dget_storage_size_2(again) < NBYTES / 4, "second library: compressed");
    H5Dclose_2(again);
}
#endif

int main(int argc, char **argv)
{
    check_seed(argc, argv);
    void *const plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const void *(*info)(void);
    H5PL_type_t (*type)(void);
    if (!CHECK(plugin != NULL, "%s", argc > 1 ? dlerror() : "usage: check_plugin PLUGIN_FILE"))
        return check_done();
    *(void **)(&info) = dlsym(plugin, "H5PLget_plugin_info");
    *(void **)(&type) = dlsym(plugin, "H5PLget_plugin_type");
    if (!CHECK(info && type && type() == H5PL_TYPE_FILTER, "entry points"))
        return check_done();
    filter_class = info();
    CHECK(filter_class->version == H5Z_CLASS_T_VERS && filter_class->id == H5Z_FILTER_FZM &&
              filter_class->encoder_present == 1 && filter_class->decoder_present == 1,
          "class");
    CHECK(strcmp(filter_class->name, "h5z-fzm: error-bounded compression (filter 46266)") == 0 ||
              FZM_FILTER_ID != 46266,
          "name %s", filter_class->name);
    check_round_trip(0);
    check_round_trip(260);
    check_damage();
    check_refusals();
    check_threads();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    check_header();
    check_group(H5Z_FLAG_OPTIONAL);
    check_group(H5Z_FLAG_MANDATORY);
#ifdef __SANITIZE_ADDRESS__
    check_skip("the address sanitizer does not allow a second library");
#else
    check_second_library();
#endif
    return check_done();
}
