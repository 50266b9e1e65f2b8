/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a field with the filter: example_write FILE [PRESET BOUND | PIPELINE.json]
 *
 *   cc write.c -I../plugin $(pkg-config --cflags --libs hdf5) -lm -o write
 *   HDF5_PLUGIN_PATH=../build/plugin ./write field.h5 1 1e-3 */
#include "H5Zfzm.h"

#include <stdio.h>
#include <stdlib.h>

enum { NZ = 32, NY = 96, NX = 128 };

/* A wave that moves through the box. */
static void fill_field(float *field)
{
    for (int z = 0; z < NZ; z++)
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x++) {
                const float u = (float)(x + 2 * z) / NX, v = (float)y / NY;
                field[(z * NY + y) * NX + x] = 20.0f * u * (1 - u) * v * v + 0.5f * (float)z;
            }
}

static char *read_text(const char *path)
{
    FILE *const f = fopen(path, "rb");
    char *const text = calloc(1, 1 << 16);
    if (!f || !text || fread(text, 1, (1 << 16) - 1, f) == 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

/* The list of properties that asks for compression. */
static hid_t compressed(int argc, char **argv)
{
    const hsize_t chunk[3] = {16, NY, NX};
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    herr_t code = H5Pset_chunk(dcpl, 3, chunk);
    if (code >= 0 && argc == 3) {
        char *const json = read_text(argv[2]);
        code = H5Pset_fzm_json(dcpl, json);
        free(json);
    } else if (code >= 0)
        code = H5Pset_fzm(dcpl, argc > 3 ? atoi(argv[2]) : H5Z_FZM_BALANCED, H5Z_FZM_ABS,
                          argc > 3 ? atof(argv[3]) : 1e-3);
    if (code < 0) {
        fprintf(stderr, "HDF5 does not find filter %d: is HDF5_PLUGIN_PATH set?\n", H5Z_FILTER_FZM);
        exit(1);
    }
    return dcpl;
}

int main(int argc, char **argv)
{
    const hsize_t dims[3] = {NZ, NY, NX};
    float *const field = malloc(sizeof(float) * NZ * NY * NX);
    if (argc < 2 || !field)
        return fprintf(stderr, "usage: example_write FILE [PRESET BOUND | PIPELINE.json]\n"), 2;
    fill_field(field);
    const hid_t dcpl = compressed(argc, argv);
    const hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(3, dims, NULL);
    /* A wrong bound, preset, pipeline or datatype fails here, and HDF5 prints the reason. */
    const hid_t set = H5Dcreate2(file, "field", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    if (set < 0 || H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) < 0)
        return 1;
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(dcpl);
    const herr_t code = H5Fclose(file); /* the last chunks are compressed here */
    free(field);
    return code < 0;
}
