/* SPDX-License-Identifier: BSD-3-Clause */
/* cd_values, the 32-bit words that HDF5 keeps for a filter. Documented for users in docs/hdf5.md.
 *
 * User form: what programs pass.
 *   (none)                                preset 0, lossless
 *   [preset]  [preset, 0]                 lossless
 *   [preset, mode, mantissa, exponent]    bound = mantissa * 10^-exponent, exponent 0..400
 *   [preset, mode, low, high]             bound = the double of these words; high > 400
 *   [0x465Av..., ...]                     a compiled pipeline (fzm_pipeline_to_words)
 *   [0x464A0100 + unused bytes, ...]      JSON text, four bytes a word, the first in the lowest bits
 *   [0x464A0100]                          the JSON text is the property CD_JSON_PROPERTY of the property list
 *
 * Stored form: what set_local puts in its place and the file keeps.
 *   0x46530100 + d                        tag, version 1, d = words at the end that describe the chunk
 *   request                               preset, mode and, unless lossless, the double, low word first;
 *                                         or a compiled pipeline
 *   d words, 0 if the filter does not apply to the dataset (then its chunks are left as they are):
 *     dtype | n_axes << 8 | big_endian << 16 | fill << 17; fill: enum fzm_fill
 *     n_axes extents of the chunk, slowest first, folded to at most four
 *     FZM_FILL_VALUE: its bytes as in the file, one word, or two for 8-byte elements; FZM_FILL_PADDING: it is 0 */
#ifndef FZM_CD_VALUES_H
#define FZM_CD_VALUES_H

#include "fzm.h"

enum {
    CD_MAX_WORDS = 256, /* HDF5 hands out no more */
    CD_MAX_DERIVED = 7,
    CD_MAX_EXPONENT = 400
};
#define CD_TAG_MASK 0xffff0000u
#define CD_TAG_STORED 0x46530000u
#define CD_TAG_PIPELINE 0x465A0000u
#define CD_TAG_JSON 0x464A0000u
#define CD_JSON_PROPERTY "h5z-fzm json"

enum cd_kind { CD_PRESET, CD_PIPELINE, CD_JSON, CD_JSON_IN_PROPERTY };

/* What the user asks for. */
struct cd_request {
    enum cd_kind kind;
    unsigned preset;
    int mode;
    double bound;
    const unsigned *words; /* CD_PIPELINE, CD_JSON: in the values that were read, without the JSON tag */
    size_t n_words;
    size_t json_nbytes;
};

/* Reads either form. text: FZM_ERROR_TEXT_NBYTES, what is wrong and what would be accepted. The preset's
 * number and the bound are checked by cd_new_pipeline(). */
int cd_read_request(struct cd_request *request, const unsigned *values, size_t n_values, char *text);

/* The pipeline of a request. json: the text for CD_JSON_IN_PROPERTY. */
int cd_new_pipeline(fzm_pipeline **pipeline, const struct cd_request *request, const char *json,
                    size_t json_nbytes, char *text);

/* Writes the stored form and returns its number of words, 0 if they are more than CD_MAX_WORDS. array NULL:
 * the filter does not apply. array is folded. pipeline: that of the request, compiled unless it is a preset.
 */
size_t cd_write(unsigned values[CD_MAX_WORDS], const struct cd_request *request, const fzm_pipeline *pipeline,
                const fzm_array *array);

/* Chunk in the stored form: 1; 0 if the filter does not apply; FZM_ERR_CONFIG if it is not the stored form.
 */
int cd_read_array(fzm_array *array, const unsigned *values, size_t n_values);

/* Folds an array as core does: axes of length 1 dropped, all before the last three multiplied into one. */
void cd_fold(fzm_array *array);

#endif
