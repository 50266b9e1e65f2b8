/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be known of a dataset when it is created: the request, whether the filter applies, and the chunk.
 */
#ifndef FZM_DATASET_H
#define FZM_DATASET_H

#include "cd_values.h"
#include "hdf5_api.h"

enum verdict {
    DATASET_OK = 1,
    DATASET_INAPPLICABLE =
        0, /* type, shape or place in the filter pipeline: no concern if the filter is optional */
    DATASET_INVALID = -1 /* the request itself is wrong */
};

struct dataset {
    bool optional;
    unsigned flags;
    struct cd_request request;
    fzm_pipeline *pipeline;
    fzm_array array; /* one chunk, folded */
    unsigned values[CD_MAX_WORDS];
    size_t n_values;
};

/* Examines property list, file datatype and chunk dataspace as HDF5 hands them to can_apply and set_local.
 * text says what is wrong. dataset_clear() in every case. */
enum verdict dataset_examine(struct dataset *dataset, const struct hdf5_api *api, hid_t dcpl, hid_t type,
                             hid_t space, char *text);

/* Adds the fill value, which pads chunks at the edge of the dataset. In the modes that depend on the range of
 * a chunk also the default one (0) is left out where it pads, or it would loosen the bound of data that are
 * far from 0. For set_local only: HDF5 calls can_apply also for a dataset that was opened again, and
 * H5Pget_fill_value() crashes on the property list that it then passes (2.0.0). */
enum verdict dataset_read_fill(struct dataset *dataset, const struct hdf5_api *api, hid_t dcpl, hid_t type,
                               char *text);
void dataset_clear(struct dataset *dataset);

#endif
