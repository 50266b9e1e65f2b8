/* SPDX-License-Identifier: BSD-3-Clause */
/* RRE: words equal to the word before them are eliminated; a bitmap, reduced over several levels, tells which. */
#define NAME "RRE"
#define HELP "eliminates repeated words, with recursively reduced bitmaps"
#define WORD_AUTO "of the input's type"
#define ID 11
#define ROW fzm_stage_rre
#define REPEATS 1
#include "zero_stage.h"
