/* SPDX-License-Identifier: BSD-3-Clause */
#include "hdf5_api.h"

#include "fzm.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Buffers from this size on ask for huge pages: a fresh buffer for every chunk costs a page fault per page.
 */
enum { HUGE_NBYTES = 8 << 20, HUGE_PAGE_NBYTES = 2 << 20 };

/* One per library in the process, never removed: our handle keeps the library loaded. */
struct library {
    struct library *next;
    const void *base;
    bool usable;
    struct hdf5_api api;
    _Atomic(hid_t) error_class, error_major, error_minor[3];
};

static _Atomic(struct library *) libraries;

/* Takes a function from the handle, if it lies in the object that we look for. */
static bool resolve(void *handle, const void *base, const char *name, void *function)
{
    void *const symbol = dlsym(handle, name);
    Dl_info info;
    if (!symbol || !dladdr(symbol, &info) || info.dli_fbase != base)
        return false;
    memcpy(function, &symbol, sizeof symbol);
    return true;
}

static bool resolve_all(struct library *library, void *handle)
{
    bool ok = resolve(handle, library->base, "H5Epush2", &library->api.H5Epush2);
#define RESOLVE(result, name, parameters) \
    ok = ok && resolve(handle, library->base, #name, &library->api.name);
    HDF5_API_FUNCTIONS(RESOLVE)
#undef RESOLVE
    return ok;
}

/* The handle stays open. A program that holds libhdf5 in itself is only found in the global scope. */
static void open_library(struct library *library, const char *path)
{
    void *handle = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (handle && resolve_all(library, handle)) {
        library->usable = true;
        return;
    }
    if (handle)
        dlclose(handle);
    handle = dlopen(NULL, RTLD_LAZY);
    library->usable = handle && resolve_all(library, handle);
    if (handle && !library->usable)
        dlclose(handle);
}

static struct library *find_library(const void *base)
{
    for (struct library *l = atomic_load_explicit(&libraries, memory_order_acquire); l; l = l->next)
        if (l->base == base)
            return l;
    return NULL;
}

const struct hdf5_api *hdf5_api_at(const void *code)
{
    Dl_info info;
    if (!dladdr(code, &info))
        return NULL;
    struct library *library = find_library(info.dli_fbase);
    if (!library) {
        library = calloc(1, sizeof *library);
        if (!library)
            return NULL;
        library->base = info.dli_fbase;
        open_library(library, info.dli_fname);
        /* Two threads may both get here; the second entry is never found and does no harm. */
        library->next = atomic_load(&libraries);
        while (!atomic_compare_exchange_weak(&libraries, &library->next, library)) {}
    }
    return library->usable ? &library->api : NULL;
}

/* Error classes die when the program closes the library (H5close), so they are made when needed. */
static bool have_error_class(struct library *l)
{
    static const char *const minor[] = {"Invalid filter parameters", "Datatype or dataset not supported",
                                        "Chunk cannot be processed"};
    const struct hdf5_api *const api = &l->api;
    if (atomic_load(&l->error_class) > 0 && api->H5Iis_valid(atomic_load(&l->error_class)) > 0 &&
        api->H5Iis_valid(atomic_load(&l->error_minor[2])) > 0)
        return true;
    const hid_t error_class = api->H5Eregister_class("h5z-fzm", "h5z-fzm", FZM_VERSION_STRING);
    if (error_class < 0)
        return false;
    atomic_store(&l->error_major, api->H5Ecreate_msg(error_class, H5E_MAJOR, "HDF5 filter plugin h5z-fzm"));
    for (int i = 0; i < 3; i++)
        atomic_store(&l->error_minor[i], api->H5Ecreate_msg(error_class, H5E_MINOR, minor[i]));
    atomic_store(&l->error_class, error_class);
    return true;
}

void hdf5_api_push(const struct hdf5_api *api, enum hdf5_error_kind kind, const char *function, unsigned line,
                   const char *text)
{
    if (!api)
        return;
    struct library *const l = (struct library *)((char *)(uintptr_t)api - offsetof(struct library, api));
    if (have_error_class(l))
        api->H5Epush2(H5E_DEFAULT, "h5z_fzm.c", function, line, atomic_load(&l->error_class),
                      atomic_load(&l->error_major), atomic_load(&l->error_minor[kind]), "%s", text);
}

void *hdf5_api_alloc(const struct hdf5_api *api, size_t nbytes)
{
    char *const buf = api ? api->H5allocate_memory(nbytes, 0) : malloc(nbytes);
#ifdef MADV_HUGEPAGE
    if (buf && nbytes >= HUGE_NBYTES) {
        const uintptr_t first = ((uintptr_t)buf + HUGE_PAGE_NBYTES - 1) & ~(uintptr_t)(HUGE_PAGE_NBYTES - 1);
        const uintptr_t end = ((uintptr_t)buf + nbytes) & ~(uintptr_t)(HUGE_PAGE_NBYTES - 1);
        madvise(buf + (first - (uintptr_t)buf), end - first, MADV_HUGEPAGE); /* a wish: no harm if refused */
    }
#endif
    return buf;
}

void hdf5_api_free(const struct hdf5_api *api, void *buf)
{
    if (api)
        api->H5free_memory(buf);
    else
        free(buf);
}
