/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON to one stage of a pipeline. */
#ifndef FZM_CONFIG_STAGE_H
#define FZM_CONFIG_STAGE_H

#include "config_json.h"

/* The bound that a stage states for itself; mode -1: none, it inherits the pipeline's. */
struct fzm_stage_bound {
    int mode; /* enum fzm_mode */
    double bound;
};

/* Appends the stage of one item of "stages" to the graph. Its bound params stay at "inherit"; what it
 * states itself goes to *own. */
int fzm_config_parse_stage(struct fzm_graph *graph, const cJSON *item, struct fzm_stage_bound *own,
                           struct fzm_err *err);

#endif
