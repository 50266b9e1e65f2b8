/* SPDX-License-Identifier: BSD-3-Clause */
/* RZE: words that are zero are eliminated; a bitmap, reduced over several levels, tells which. */
#define NAME "RZE"
#define HELP "eliminates zero words, with recursively reduced bitmaps"
#define WORD_AUTO "1"
#define ID 10
#define ROW fzm_stage_rze
#define REPEATS 0
#include "zero_stage.h"
