/* SPDX-License-Identifier: BSD-3-Clause */
/* The HDF5 library that called us. The plugin does not link libhdf5: a process may hold several of them (one
 * of h5py's wheel, one of the netCDF4 wheel, the system's), and ids of one mean nothing to another. */
#ifndef FZM_HDF5_API_H
#define FZM_HDF5_API_H

#include <H5PLextern.h>

#include <stdbool.h>
#include <stddef.h>

/* Functions that are the same in HDF5 1.10 to 2.x: result, name, parameters. */
#define HDF5_API_FUNCTIONS(X) \
    X(herr_t, H5Pget_filter_by_id2, \
      (hid_t, H5Z_filter_t, unsigned *, size_t *, unsigned[], size_t, char[], unsigned *)) \
    X(H5Z_filter_t, H5Pget_filter2, \
      (hid_t, unsigned, unsigned *, size_t *, unsigned[], size_t, char[], unsigned *)) \
    X(int, H5Pget_nfilters, (hid_t)) \
    X(herr_t, H5Pmodify_filter, (hid_t, H5Z_filter_t, unsigned, size_t, const unsigned[])) \
    X(herr_t, H5Pfill_value_defined, (hid_t, H5D_fill_value_t *)) \
    X(herr_t, H5Pget_fill_value, (hid_t, hid_t, void *)) \
    X(htri_t, H5Pexist, (hid_t, const char *)) \
    X(herr_t, H5Pget_size, (hid_t, const char *, size_t *)) \
    X(herr_t, H5Pget, (hid_t, const char *, void *)) \
    X(H5T_class_t, H5Tget_class, (hid_t)) \
    X(size_t, H5Tget_size, (hid_t)) \
    X(H5T_order_t, H5Tget_order, (hid_t)) \
    X(size_t, H5Tget_precision, (hid_t)) \
    X(int, H5Tget_offset, (hid_t)) \
    X(H5T_sign_t, H5Tget_sign, (hid_t)) \
    X(herr_t, H5Tget_fields, (hid_t, size_t *, size_t *, size_t *, size_t *, size_t *)) \
    X(size_t, H5Tget_ebias, (hid_t)) \
    X(H5T_norm_t, H5Tget_norm, (hid_t)) \
    X(int, H5Sget_simple_extent_ndims, (hid_t)) \
    X(int, H5Sget_simple_extent_dims, (hid_t, hsize_t[], hsize_t[])) \
    X(hid_t, H5Eregister_class, (const char *, const char *, const char *)) \
    X(hid_t, H5Ecreate_msg, (hid_t, H5E_type_t, const char *)) \
    X(htri_t, H5Iis_valid, (hid_t)) \
    X(void *, H5allocate_memory, (size_t, hbool_t)) \
    X(herr_t, H5free_memory, (void *))

struct hdf5_api {
#define HDF5_API_MEMBER(result, name, parameters) result(*name) parameters;
    HDF5_API_FUNCTIONS(HDF5_API_MEMBER)
#undef HDF5_API_MEMBER
    herr_t (*H5Epush2)(hid_t, const char *, const char *, unsigned, hid_t, hid_t, hid_t, const char *, ...);
};

/* The library that holds this code address, or NULL if it does not offer those functions (a static libhdf5
 * whose program exports nothing). Any thread, any time. */
const struct hdf5_api *hdf5_api_at(const void *code);

/* For use in a callback of HDF5. */
#define HDF5_API_OF_CALLER() hdf5_api_at(__builtin_return_address(0))

enum hdf5_error_kind { HDF5_ERROR_PARAMETERS, HDF5_ERROR_TYPE, HDF5_ERROR_CHUNK };

/* Puts a message on the error stack of that library (api may be NULL: does nothing). Must be the last call
 * into the library before the callback returns: others clear the stack. */
void hdf5_api_push(const struct hdf5_api *api, enum hdf5_error_kind kind, const char *function, unsigned line,
                   const char *text);

/* A buffer that the library can free, and back. api NULL: malloc and free, what the library uses itself. */
void *hdf5_api_alloc(const struct hdf5_api *api, size_t nbytes);
void hdf5_api_free(const struct hdf5_api *api, void *buf);

#endif
