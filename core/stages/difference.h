/* SPDX-License-Identifier: BSD-3-Clause */
/* Difference: parameters. */
#ifndef FZM_DIFFERENCE_H
#define FZM_DIFFERENCE_H

#include "../types.h"

struct fzm_difference_params {
    uint32_t chunk; /* elements between restarts; 0: none */
};

/* Elements of a partition of the parallel prefix sums; on disk it has no meaning. */
enum { FZM_DIFFERENCE_PIECE = 16384 };

#endif
