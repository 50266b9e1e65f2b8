/* SPDX-License-Identifier: BSD-3-Clause */
/* Negabinary: integers in base -2, so that values near 0 of either sign have zero high bits; elements stay
 * at their places. */
#define NAME "Negabinary"
#define HELP "signed integers to their digits in base -2"
#define REFERENCE "R. Schroeppel, HAKMEM item 128 (1972); P. Lindstrom, zfp (2014)"
#define ID 6
#define ROW fzm_stage_negabinary
#define ENCODE(W) fzm_negabinary_encode##W
#define DECODE(W) fzm_negabinary_decode##W
#include "sign_map.h"
