/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of H5Zfzm_direct.h that is in libfzm: it knows cd_values, but no HDF5. */
#include "cd_values.h"
#include "fzm_batch.h"

#include <stdio.h>

int fzm_cd_values_read(const unsigned *values, size_t n_values, fzm_pipeline **pipeline, fzm_array *array,
                       char *text)
{
    struct cd_request request;
    *pipeline = NULL;
    const int applies = cd_read_array(array, values, n_values);
    if (applies <= 0) {
        snprintf(text, FZM_ERROR_TEXT_NBYTES, applies == 0
                     ? "the filter is optional and does not apply to this dataset: its chunks are stored as they are"
                     : "the filter values do not describe the chunk: was the dataset created without the plugin?");
        return FZM_ERR_CONFIG;
    }
    const int code = cd_read_request(&request, values, n_values, text);
    return code < 0 ? code : cd_new_pipeline(pipeline, &request, NULL, 0, text);
}
