/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a field as any HDF5 program does: example_read FILE. Nothing here knows of the filter, except that it
 * says how small the field is in the file. */
#include <hdf5.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    hsize_t dims[3];
    if (argc != 2)
        return fprintf(stderr, "usage: example_read FILE\n"), 2;
    const hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "field", H5P_DEFAULT);
    if (set < 0)
        return 1;
    const hid_t space = H5Dget_space(set);
    if (H5Sget_simple_extent_ndims(space) != 3 || H5Sget_simple_extent_dims(space, dims, NULL) < 0)
        return 1;
    const size_t n = (size_t)(dims[0] * dims[1] * dims[2]);
    float *const field = malloc(n * sizeof *field);
    if (!field || H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) < 0)
        return 1;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += field[i];
    const double stored = (double)H5Dget_storage_size(set);
    printf("%zu values, mean %.6f, %.0f bytes in the file, ratio %.2f\n", n, sum / (double)n, stored,
           (double)(n * sizeof *field) / stored);
    free(field);
    H5Sclose(space);
    H5Dclose(set);
    return H5Fclose(file) < 0;
}
