/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm info on an HDF5 file: reads raw chunks, so it needs no filter plugin. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The signature stands at 0 or, behind a user block, at 512 * 2^k. */
bool cmd_is_hdf5(const char *path)
{
    static const char signature[8] = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
    FILE *const f = fopen(path, "rb");
    bool found = false;
    for (long at = 0; f && !found && at < 1L << 26; at = at ? at * 2 : 512) {
        char head[8];
        if (fseek(f, at, SEEK_SET) != 0 || fread(head, 1, sizeof head, f) != sizeof head)
            break;
        found = memcmp(head, signature, sizeof head) == 0;
    }
    if (f)
        fclose(f);
    return found;
}

#ifndef FZM_HAVE_HDF5

int cmd_info_h5(const char *path, bool json)
{
    (void)json;
    return cmd_fail("%s is an HDF5 file, and this fzm was built without the HDF5 library", path);
}

#else

/* The calls used exist since 1.10.5; later versions keep them under these names. */
#define H5_USE_110_API
#include <hdf5.h>

enum { JSON_CAP = 16384, MAX_FILTERS = 32 };

struct walk {
    const char *path;
    bool json;
    unsigned n_datasets; /* with the filter */
    unsigned n_others;
    int code;
};

struct dataset {
    hid_t id;
    const char *name;
    int rank, n_filters, filter_at; /* filter_at: place of ours in the dataset's pipeline */
    hsize_t dims[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
    size_t elem_nbytes;
    uint64_t n_chunks, n_allocated, n_skipped, n_unreadable,
        n_stored;                       /* skipped: written without the filter */
    uint64_t array_nbytes, file_nbytes; /* of the allocated chunks */
    fzm_stream_info first;
    char pipeline[JSON_CAP];
    char text[FZM_ERROR_TEXT_NBYTES]; /* why the first unreadable chunk is so */
};

/* One allocated chunk: counts it and reads its stream header. */
static void read_chunk(struct dataset *d, const hsize_t *offset, hsize_t file_nbytes, unsigned mask)
{
    uint64_t n_elems = 1;
    for (int i = 0; i < d->rank; i++)
        n_elems *= d->chunk[i];
    d->n_allocated++;
    d->array_nbytes += n_elems * d->elem_nbytes;
    d->file_nbytes += file_nbytes;
    if (mask >> d->filter_at & 1) {
        d->n_skipped++;
        return;
    }
    if (d->filter_at != d->n_filters - 1) /* the bytes on disk are another filter's output */
        return;
    uint8_t *const bytes = malloc((size_t)file_nbytes + 1);
    uint32_t read_mask = 0;
    fzm_stream_info info;
    const bool first = d->n_allocated - d->n_skipped - d->n_unreadable == 1;
    if (!bytes || H5Dread_chunk(d->id, H5P_DEFAULT, offset, &read_mask, bytes) < 0) {
        d->n_unreadable++;
        snprintf(d->text, sizeof d->text, "the chunk cannot be read from the file");
    } else if (fzm_stream_read_info(bytes, (size_t)file_nbytes, &info, first ? d->pipeline : NULL,
                                    first ? JSON_CAP : 0, d->text) < 0)
        d->n_unreadable++;
    else {
        d->n_stored += info.stored != 0;
        if (first)
            d->first = info;
    }
    free(bytes);
}

/* Walks the grid of chunks; a look-up by coordinates is cheap at any index, one by number is not. */
static void read_chunks(struct dataset *d)
{
    hsize_t offset[H5S_MAX_RANK] = {0};
    for (int i = 0; i < d->rank; i++)
        if (d->dims[i] == 0)
            return;
    for (int axis = 0; axis >= 0;) {
        unsigned mask = 0;
        haddr_t address = HADDR_UNDEF;
        hsize_t file_nbytes = 0;
        d->n_chunks++;
        if (H5Dget_chunk_info_by_coord(d->id, offset, &mask, &address, &file_nbytes) >= 0 &&
            address != HADDR_UNDEF)
            read_chunk(d, offset, file_nbytes, mask);
        for (axis = d->rank - 1; axis >= 0; axis--) {
            offset[axis] += d->chunk[axis];
            if (offset[axis] < d->dims[axis])
                break;
            offset[axis] = 0;
        }
    }
}

static void print_extents(const hsize_t *extents, int rank, const char *separator)
{
    for (int i = 0; i < rank; i++)
        printf("%s%llu", i ? separator : "", (unsigned long long)extents[i]);
}

static double dataset_ratio(const struct dataset *d)
{
    return d->file_nbytes ? (double)d->array_nbytes / (double)d->file_nbytes : 0;
}

static void print_dataset_text(const struct dataset *d)
{
    printf("%s\n  shape ", d->name);
    print_extents(d->dims, d->rank, "x");
    fputs(", chunks ", stdout);
    print_extents(d->chunk, d->rank, "x");
    printf(", %llu of %llu in the file\n", (unsigned long long)d->n_allocated,
           (unsigned long long)d->n_chunks);
    printf("  %llu bytes in the file, ratio %.4g; stored as they are %llu, without the filter %llu\n",
           (unsigned long long)d->file_nbytes, dataset_ratio(d), (unsigned long long)d->n_stored,
           (unsigned long long)d->n_skipped);
    if (d->filter_at != d->n_filters - 1)
        puts("  another filter follows this one, so the streams are not visible");
    if (*d->pipeline) {
        printf("  bound %s", fzm_mode_name(d->first.mode));
        if (d->first.mode != FZM_LOSSLESS)
            printf(" %.9g", d->first.bound);
        printf("\n  pipeline of the first chunk: %s\n", d->pipeline);
    }
    if (d->n_unreadable)
        printf("  UNREADABLE: %llu chunks; the last one: %s\n", (unsigned long long)d->n_unreadable, d->text);
}

static void print_dataset_json(const struct dataset *d, bool first)
{
    fputs(first ? "" : ",\n ", stdout);
    fputs("{\"dataset\": ", stdout);
    cmd_print_json_string(d->name);
    fputs(", \"shape\": [", stdout);
    print_extents(d->dims, d->rank, ", ");
    fputs("], \"chunks\": [", stdout);
    print_extents(d->chunk, d->rank, ", ");
    printf(
        "], \"n_chunks\": %llu, \"n_allocated\": %llu, \"n_stored\": %llu, \"n_without_filter\": %llu, "
        "\"n_unreadable\": %llu, \"array_nbytes\": %llu, \"file_nbytes\": %llu, \"ratio\": %.9g, \"mode\": ",
        (unsigned long long)d->n_chunks, (unsigned long long)d->n_allocated, (unsigned long long)d->n_stored,
        (unsigned long long)d->n_skipped, (unsigned long long)d->n_unreadable,
        (unsigned long long)d->array_nbytes, (unsigned long long)d->file_nbytes, dataset_ratio(d));
    if (*d->pipeline) {
        printf("\"%s\", \"bound\": ", fzm_mode_name(d->first.mode));
        cmd_print_json_number(d->first.bound);
        printf(", \"pipeline\": %s}", d->pipeline);
    } else
        fputs("null, \"bound\": null, \"pipeline\": null}", stdout);
}

/* Place of our filter in the creation property list, or -1. */
static int find_filter(hid_t dcpl, int *n_filters)
{
    *n_filters = H5Pget_nfilters(dcpl);
    for (int i = 0; i < *n_filters && i < MAX_FILTERS; i++) {
        unsigned flags = 0, config = 0;
        size_t n_words = 0;
        if (H5Pget_filter2(dcpl, (unsigned)i, &flags, &n_words, NULL, 0, NULL, &config) == FZM_FILTER_ID)
            return i;
    }
    return -1;
}

static void visit_dataset(struct walk *w, hid_t id, const char *name)
{
    const hid_t dcpl = H5Dget_create_plist(id), space = H5Dget_space(id), type = H5Dget_type(id);
    struct dataset *const d = calloc(1, sizeof *d);
    if (d) {
        d->id = id;
        d->name = name;
        d->filter_at = find_filter(dcpl, &d->n_filters);
    }
    if (!d || d->filter_at < 0)
        w->n_others++;
    else {
        d->rank = H5Sget_simple_extent_dims(space, d->dims, NULL);
        d->elem_nbytes = H5Tget_size(type);
        if (H5Pget_chunk(dcpl, H5S_MAX_RANK, d->chunk) == d->rank)
            read_chunks(d);
        if (w->json)
            print_dataset_json(d, w->n_datasets == 0);
        else
            print_dataset_text(d);
        w->n_datasets++;
        if (d->n_unreadable)
            w->code = CMD_FAILED;
    }
    free(d);
    H5Tclose(type);
    H5Sclose(space);
    H5Pclose(dcpl);
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *object, void *arg)
{
    if (object->type != H5O_TYPE_DATASET)
        return 0;
    const hid_t id = H5Dopen2(root, name, H5P_DEFAULT);
    if (id >= 0) {
        visit_dataset(arg, id, name);
        H5Dclose(id);
    }
    return 0;
}

int cmd_info_h5(const char *path, bool json)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return cmd_fail("%s: the HDF5 library cannot open it (damaged, or still open for writing?)", path);
    struct walk w = {.path = path, .json = json};
    if (json)
        putchar('[');
    if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &w, H5O_INFO_BASIC) < 0)
        w.code = cmd_fail("%s: cannot list its objects", path);
    if (json)
        puts("]");
    else
        printf("%u dataset%s with filter %d, %u without\n", w.n_datasets, w.n_datasets == 1 ? "" : "s",
               FZM_FILTER_ID, w.n_others);
    H5Fclose(file);
    return w.code;
}

#endif
