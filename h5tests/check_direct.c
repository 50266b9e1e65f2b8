/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole chunks past the filter path (H5Zfzm_direct.h): equal to what the filter makes, readable either way.
 * HDF5_PLUGIN_PATH is the folder of the plugin. */
#include "H5Zfzm.h"
#include "H5Zfzm_direct.h"
#include "check.h"

#include <stdbool.h>

enum { NY = 100, NX = 70, CHUNK_Y = 16, CHUNK_X = 32, N_Y = 7, N_X = 3, N_CHUNKS = N_Y * N_X, CHUNK = CHUNK_Y * CHUNK_X };

static float field[NY][NX], chunks[N_CHUNKS][CHUNK];
static hsize_t offsets[N_CHUNKS][2];
static const float fill = -9999.0f;

/* Cuts the field into chunks, with the fill value beyond the edge as HDF5 has it. */
static void make_field(void)
{
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++)
            field[y][x] = 0.013f * (float)x + 0.0007f * (float)(y * y) + 1e-3f * (float)check_random_unit();
    for (int c = 0; c < N_CHUNKS; c++) {
        offsets[c][0] = (hsize_t)(c / N_X * CHUNK_Y);
        offsets[c][1] = (hsize_t)(c % N_X * CHUNK_X);
        for (int i = 0; i < CHUNK; i++) {
            const int y = c / N_X * CHUNK_Y + i / CHUNK_X, x = c % N_X * CHUNK_X + i % CHUNK_X;
            chunks[c][i] = y < NY && x < NX ? field[y][x] : fill;
        }
    }
}

enum layout { FILTERED, NOT_FILTERED, TWO_FILTERS, CONTIGUOUS };

static hid_t new_dataset(hid_t file, const char *name, enum layout layout, int preset, int mode, double bound)
{
    const hsize_t dims[2] = {NY, NX}, chunk[2] = {CHUNK_Y, CHUNK_X};
    const hid_t space = H5Screate_simple(2, dims, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    if (layout != CONTIGUOUS)
        H5Pset_chunk(dcpl, 2, chunk);
    H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &fill);
    if (layout == FILTERED || layout == TWO_FILTERS)
        CHECK(H5Pset_fzm(dcpl, preset, mode, bound) >= 0, "%s: filter", name);
    if (layout == TWO_FILTERS)
        H5Pset_fletcher32(dcpl);
    const hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    CHECK(dataset >= 0, "%s: dataset", name);
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
}

static hid_t new_file(void)
{
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 1 << 20, 0);
    const hid_t file = H5Fcreate("check_direct.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pclose(fapl);
    return file;
}

static herr_t write_all(fzm_batch *batch, hid_t dataset, size_t n)
{
    const void *in[N_CHUNKS];
    for (int c = 0; c < N_CHUNKS; c++)
        in[c] = chunks[c];
    return H5Zfzm_write_chunks(batch, dataset, n, &offsets[0][0], in, FZM_HOST_MEMORY);
}

static float restored[N_CHUNKS][CHUNK];

static herr_t read_all(fzm_batch *batch, hid_t dataset)
{
    void *out[N_CHUNKS];
    for (int c = 0; c < N_CHUNKS; c++)
        out[c] = restored[c];
    memset(restored, 0xA5, sizeof restored);
    return H5Zfzm_read_chunks(batch, dataset, N_CHUNKS, &offsets[0][0], out, FZM_HOST_MEMORY);
}

static bool is_same_chunk(hid_t a, hid_t b, const hsize_t *offset)
{
    static uint8_t x[1 << 16], y[1 << 16];
    hsize_t nx = 0, ny = 0;
    uint32_t mask = 0;
    return H5Dget_chunk_storage_size(a, offset, &nx) >= 0 && H5Dget_chunk_storage_size(b, offset, &ny) >= 0 &&
           nx == ny && nx > 0 && nx <= sizeof x && H5Dread_chunk(a, H5P_DEFAULT, offset, &mask, x) >= 0 && mask == 0 &&
           H5Dread_chunk(b, H5P_DEFAULT, offset, &mask, y) >= 0 && mask == 0 && memcmp(x, y, (size_t)nx) == 0;
}

static void check_equal_to_filter(fzm_batch *batch, int preset, int mode, double bound)
{
    static float back[NY][NX];
    const hid_t file = new_file();
    const hid_t direct = new_dataset(file, "direct", FILTERED, preset, mode, bound);
    const hid_t filtered = new_dataset(file, "filtered", FILTERED, preset, mode, bound);
    CHECK(write_all(batch, direct, N_CHUNKS) >= 0, "write: %s", fzm_batch_error_text(batch));
    CHECK(H5Dwrite(filtered, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) >= 0 &&
          H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "write through the filter");
    for (int c = 0; c < N_CHUNKS; c++)
        CHECK(is_same_chunk(direct, filtered, offsets[c]), "preset %d mode %d: chunk %d differs", preset, mode, c);
    CHECK(H5Dread(direct, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) >= 0, "read through the filter");
    CHECK(read_all(batch, filtered) >= 0, "read: %s", fzm_batch_error_text(batch));
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++) {
            const int c = y / CHUNK_Y * N_X + x / CHUNK_X, i = y % CHUNK_Y * CHUNK_X + x % CHUNK_X;
            const double error = (double)back[y][x] - (double)field[y][x];
            CHECK(error <= bound && -error <= bound, "[%d][%d]: error %g", y, x, error);
            CHECK(memcmp(&restored[c][i], &back[y][x], 4) == 0, "[%d][%d]: read directly %g, through the filter %g", y, x,
                  (double)restored[c][i], (double)back[y][x]);
        }
    H5Dclose(direct);
    H5Dclose(filtered);
    H5Fclose(file);
}

/* Chunks that were never written, or stored as they are by an optional filter. */
static void check_other_chunks(fzm_batch *batch)
{
    const hid_t file = new_file();
    const hid_t dataset = new_dataset(file, "partly", FILTERED, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3);
    CHECK(write_all(batch, dataset, 3) >= 0, "write: %s", fzm_batch_error_text(batch));
    CHECK(H5Dwrite_chunk(dataset, H5P_DEFAULT, 1, offsets[3], sizeof chunks[3], chunks[3]) >= 0, "plain chunk");
    CHECK(read_all(batch, dataset) >= 0, "read: %s", fzm_batch_error_text(batch));
    CHECK(memcmp(restored[3], chunks[3], sizeof chunks[3]) == 0, "plain chunk differs");
    for (int c = 4; c < N_CHUNKS; c++)
        for (int i = 0; i < CHUNK; i++)
            CHECK(memcmp(&restored[c][i], &fill, 4) == 0, "chunk %d, element %d: %g instead of the fill value", c, i, (double)restored[c][i]);
    H5Dclose(dataset);
    H5Fclose(file);
}

static void check_says(const char *what, fzm_batch *batch, herr_t code, const char *words)
{
    CHECK(code < 0 && strstr(fzm_batch_error_text(batch), words), "%s: result %d, text '%s'", what, code,
          fzm_batch_error_text(batch));
}

static void check_refusals(fzm_batch *batch)
{
    const hid_t file = new_file();
    static const char *const names[] = {"", "plain", "two", "contiguous"};
    static const char *const words[] = {"", "h5z-fzm alone", "h5z-fzm alone", "not chunked"};
    for (int layout = NOT_FILTERED; layout <= CONTIGUOUS; layout++) {
        const hid_t dataset = new_dataset(file, names[layout], (enum layout)layout, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3);
        check_says(names[layout], batch, write_all(batch, dataset, N_CHUNKS), words[layout]);
        check_says(names[layout], batch, read_all(batch, dataset), words[layout]);
        H5Dclose(dataset);
    }
    const hid_t dataset = new_dataset(file, "good", FILTERED, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3);
    const hsize_t kept = offsets[1][1];
    offsets[1][1] = 5; /* no chunk begins there */
    check_says("offset", batch, write_all(batch, dataset, N_CHUNKS), "H5Dwrite_chunk");
    check_says("offset", batch, read_all(batch, dataset), "begins at such an offset");
    offsets[1][1] = kept;
    check_says("not a dataset", batch, write_all(batch, -1, N_CHUNKS), "not a dataset");
    uint8_t junk[100];
    check_fill_random(junk, sizeof junk);
    CHECK(write_all(batch, dataset, N_CHUNKS) >= 0, "write after a failure: %s", fzm_batch_error_text(batch));
    CHECK(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offsets[5], sizeof junk, junk) >= 0, "damaged chunk");
    CHECK(read_all(batch, dataset) < 0 && fzm_batch_error_text(batch)[0], "a damaged chunk is read");
    CHECK(write_all(batch, dataset, N_CHUNKS) >= 0 && read_all(batch, dataset) >= 0, "after a damaged chunk: %s",
          fzm_batch_error_text(batch));
    CHECK(write_all(batch, dataset, 0) >= 0, "no chunks");
    H5Dclose(dataset);
    H5Fclose(file);
}

int main(int argc, char **argv)
{
    char text[FZM_ERROR_TEXT_NBYTES] = "";
    check_seed(argc, argv);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    make_field();
    for (unsigned n_threads = 1; n_threads <= 4; n_threads += 3) {
        const fzm_options options = {.size = sizeof options, .n_threads = n_threads};
        fzm_batch *batch;
        if (!CHECK(fzm_batch_new(&batch, &options, text) == 0, "batch: %s", text))
            break;
        check_equal_to_filter(batch, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3);
        check_equal_to_filter(batch, H5Z_FZM_BALANCED, H5Z_FZM_ABS, 1e-2);
        check_equal_to_filter(batch, H5Z_FZM_LOSSLESS, 0, 0);
        check_other_chunks(batch);
        check_refusals(batch);
        fzm_batch_free(&batch);
    }
    return check_done();
}
