/* SPDX-License-Identifier: BSD-3-Clause */
/* Zigzag: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...; elements stay at their places. */
#define NAME "Zigzag"
#define HELP "signed integers to unsigned ones with the sign in the lowest bit"
#define REFERENCE "Protocol Buffers encoding (Google), signed integers"
#define ID 5
#define ROW fzm_stage_zigzag
#define ENCODE(W) fzm_zigzag_encode##W
#define DECODE(W) fzm_zigzag_decode##W
#include "sign_map.h"
