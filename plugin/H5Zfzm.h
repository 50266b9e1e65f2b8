/* SPDX-License-Identifier: BSD-3-Clause */
/* h5z-fzm for C and C++ programs. Everything is inline: a program links libhdf5 only, and HDF5 finds the
 * filter at run time through HDF5_PLUGIN_PATH.
 *
 *   hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
 *   H5Pset_chunk(dcpl, 3, chunk);
 *   H5Pset_fzm(dcpl, H5Z_FZM_FAST, H5Z_FZM_ABS, 1e-3);
 *   H5Dcreate2(file, "t", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
 *
 * Reading needs nothing. What is wrong with a request is said when the dataset is created. */
#ifndef H5Z_FZM_H
#define H5Z_FZM_H

#include <hdf5.h>

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef H5Z_FILTER_FZM
#define H5Z_FILTER_FZM 46266
#endif

enum H5Z_fzm_preset {
    H5Z_FZM_AUTO = 0,     /* balanced under an error bound, lossless without one */
    H5Z_FZM_FAST = 1,     /* highest speed */
    H5Z_FZM_BALANCED = 2, /* more compression */
    H5Z_FZM_PRESET_LOSSLESS = 5
};

/* What the bound v promises for every element x and its reconstruction y. */
enum H5Z_fzm_mode {
    H5Z_FZM_LOSSLESS = 0, /* y is x bit for bit; v is ignored */
    H5Z_FZM_ABS = 1,      /* |x - y| <= v */
    H5Z_FZM_REL = 2,      /* |x - y| <= v |x| */
    H5Z_FZM_RANGE = 3,    /* |x - y| <= v (max - min) of the chunk */
    H5Z_FZM_MAXABS = 4,   /* |x - y| <= v max|x| of the chunk */
    H5Z_FZM_PSNR = 5      /* peak signal-to-noise ratio of the chunk >= v dB */
};

/* Fills the filter's values and returns how many they are (4). A bound below 1e-311 becomes 0: exact. */
static inline size_t H5Pset_fzm_cdata(int preset, int mode, double bound, unsigned cd_values[4])
{
    uint64_t bits;
    memcpy(&bits, &bound, sizeof bits);
    if (bits >> 32 <= 400) /* such a fourth value is read as a power of ten */
        bits = 0;
    cd_values[0] = (unsigned)preset;
    cd_values[1] = (unsigned)mode;
    cd_values[2] = (unsigned)(bits & 0xffffffffu);
    cd_values[3] = (unsigned)(bits >> 32);
    return 4;
}

/* Sets the filter, or changes it if the list has it already. flags: H5Z_FLAG_MANDATORY or H5Z_FLAG_OPTIONAL.
 */
static inline herr_t H5Pset_fzm_values(hid_t dcpl, unsigned flags, size_t n_values, const unsigned *cd_values)
{
    const int n_filters = H5Pget_nfilters(dcpl);
    for (int i = 0; i < n_filters; i++) {
        unsigned old_flags = 0;
        if (H5Pget_filter2(dcpl, (unsigned)i, &old_flags, NULL, NULL, 0, NULL, NULL) == H5Z_FILTER_FZM)
            return H5Pmodify_filter(dcpl, H5Z_FILTER_FZM, flags, n_values, cd_values);
    }
    return H5Pset_filter(dcpl, H5Z_FILTER_FZM, flags, n_values, cd_values);
}

/* Compresses datasets made with this list. Mandatory: H5Dcreate fails, with the reason, where the filter does
 * not apply. Call it before other filters are added: elements must reach this one unchanged. */
static inline herr_t H5Pset_fzm(hid_t dcpl, int preset, int mode, double bound)
{
    unsigned cd_values[4];
    const size_t n_values = H5Pset_fzm_cdata(preset, mode, bound, cd_values);
    return H5Pset_fzm_values(dcpl, H5Z_FLAG_MANDATORY, n_values, cd_values);
}

/* The same with a pipeline written as JSON, which has its bound inside. Up to 1020 bytes travel in the
 * filter's values, more in a property of the list; the file keeps the compiled form in either case. */
static inline herr_t H5Pset_fzm_json(hid_t dcpl, const char *json)
{
    enum { TAG = 0x464A0100, MAX_WORDS = 256 };
    static const char property[] = "h5z-fzm json";
    const size_t nbytes = strlen(json);
    unsigned cd_values[MAX_WORDS];
    size_t n_values = 1 + (nbytes + 3) / 4, i;
    if (H5Pexist(dcpl, property) > 0 && H5Premove(dcpl, property) < 0)
        return -1;
    if (n_values > MAX_WORDS || nbytes == 0) {
        char *const text = (char *)(uintptr_t)json; /* HDF5 copies it */
        if (H5Pinsert2(dcpl, property, nbytes + 1, text, NULL, NULL, NULL, NULL, NULL, NULL) < 0)
            return -1;
        n_values = 1;
    }
    cd_values[0] = TAG;
    if (n_values > 1) {
        cd_values[0] |= (unsigned)(4 * (n_values - 1) - nbytes);
        memset(cd_values + 1, 0, (n_values - 1) * sizeof *cd_values);
        for (i = 0; i < nbytes; i++)
            cd_values[1 + i / 4] |= (unsigned)(unsigned char)json[i] << 8 * (i % 4);
    }
    return H5Pset_fzm_values(dcpl, H5Z_FLAG_MANDATORY, n_values, cd_values);
}

#ifdef __cplusplus
}
#endif

#endif
