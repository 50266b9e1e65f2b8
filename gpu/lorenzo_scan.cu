/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefix sums along rows: of many rows each by a warp, else one scan over the whole array, by key where sums
 * restart. */
#include "lorenzo_scan.h"

#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "../core/types.h"
#include "quantizer_load.cuh"

/* Elements of a section by index. */
template <typename W> struct fzm_load_elem {
    struct fzm_section section;
    __device__ W operator()(uint64_t i) const { return fzm_section_load<W>(section, i); }
};

/* The stretch between two restarts that an element lies in. Arrays of fewer than 2^32 elements divide
 * fast. */
struct fzm_stretch_of {
    uint64_t n_elems, nx, block, per_row;
    __device__ uint64_t operator()(uint64_t i) const
    {
        if (n_elems >> 32 == 0) {
            const uint32_t row = (uint32_t)i / (uint32_t)nx, x = (uint32_t)i - row * (uint32_t)nx;
            return (uint64_t)row * per_row + x / (uint32_t)block;
        }
        return i / nx * per_row + i % nx / block;
    }
};

template <typename W>
static cudaError_t scan(const struct fzm_row_scan *s, void *scratch, size_t *nbytes, cudaStream_t stream,
                        bool restarts)
{
    const struct fzm_load_elem<W> load = {
        fzm_section_init(s->from, sizeof(W))
    };
    const struct fzm_stretch_of stretch = {s->n_elems, s->nx, s->block, fzm_div_up(s->nx, s->block)};
    const thrust::counting_iterator<uint64_t> index(0);
    const auto elems = thrust::make_transform_iterator(index, load);
    W *const to = (W *)s->to;
    if (!restarts)
        return cub::DeviceScan::InclusiveSum(scratch, *nbytes, elems, to, s->n_elems, stream);
    const auto keys = thrust::make_transform_iterator(index, stretch);
    return cub::DeviceScan::InclusiveSumByKey(scratch, *nbytes, keys, elems, to, s->n_elems,
                                              cuda::std::equal_to<>{}, stream);
}

static cudaError_t scan_width(const struct fzm_row_scan *s, void *scratch, size_t *nbytes,
                              cudaStream_t stream, bool restarts)
{
    switch (s->elem_nbytes) {
    case 1: return scan<uint8_t>(s, scratch, nbytes, stream, restarts);
    case 2: return scan<uint16_t>(s, scratch, nbytes, stream, restarts);
    case 4: return scan<uint32_t>(s, scratch, nbytes, stream, restarts);
    default: return scan<uint64_t>(s, scratch, nbytes, stream, restarts);
    }
}

/* Rows of at least 64 elements, in numbers that fill the device, are left to warps: what a by-key scan
 * does for each element costs more than the idle lanes at the end of a row. */
enum { WARP_MIN_NX = 64, WARP_MIN_ROWS = 1024, WARPS_PER_BLOCK = 8, RUN = 8 };

/* Sum of the run's elements since the last restart in it, and whether there is one; combined over lanes. */
template <typename W> FZM_D void scan_lanes(W *sum, bool *restarts, unsigned lane)
{
    for (unsigned d = 1; d < 32; d *= 2) {
        const W below = (W)__shfl_up_sync(0xffffffffu, *sum, d);
        const bool below_restarts = __shfl_up_sync(0xffffffffu, (int)*restarts, d);
        if (lane < d)
            continue;
        *sum = (W)(*sum + (*restarts ? (W)0 : below));
        *restarts = *restarts || below_restarts;
    }
}

/* A warp per row of pitch elements (the last one may be shorter), 8 neighbours per lane and turn. is_wide:
 * whole runs can be moved in words. */
template <typename W>
static __global__ void __launch_bounds__(32 * WARPS_PER_BLOCK)
    row_kernel(const struct fzm_section from, W *to, uint64_t n_elems, uint64_t pitch, uint64_t block,
               bool is_wide)
{
    const unsigned lane = threadIdx.x & 31;
    const uint64_t row = (uint64_t)blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / 32;
    if (row * pitch >= n_elems)
        return;
    const uint64_t left = n_elems - row * pitch, nx = left < pitch ? left : pitch;
    W carry = 0;
    for (uint64_t turn = 0; turn < nx; turn += 32 * RUN) {
        const uint64_t x = turn + lane * RUN, first = row * pitch + x;
        const bool is_whole = is_wide && x + RUN <= nx;
        W v[RUN];
        if (is_whole) {
            fzm_run_load<W, RUN>(v, (const W *)(const void *)from.bytes + first);
        } else {
#pragma unroll
            for (unsigned k = 0; k < RUN; k++)
                v[k] = x + k < nx ? fzm_section_load<W>(from, first + k) : (W)0;
        }
        uint64_t phase;
        fzm_divide(x, block, &phase);
        unsigned n_open = RUN; /* elements before the first restart */
        W sum = 0;
#pragma unroll
        for (unsigned k = 0; k < RUN; k++) {
            if (phase == 0) {
                sum = 0;
                n_open = n_open < k ? n_open : k;
            }
            v[k] = sum = (W)(sum + v[k]);
            phase = phase + 1 == block ? 0 : phase + 1;
        }
        bool restarts = n_open < RUN;
        scan_lanes<W>(&sum, &restarts, lane);
        const W end = (W)(sum + (restarts ? (W)0 : carry));
        const W below = (W)__shfl_up_sync(0xffffffffu, end, 1), before = lane ? below : carry;
        carry = (W)__shfl_sync(0xffffffffu, end, 31);
#pragma unroll
        for (unsigned k = 0; k < RUN; k++)
            v[k] = (W)(v[k] + (k < n_open ? before : (W)0));
        if (is_whole) {
            fzm_run_store<W, RUN>(to + first, v);
        } else {
#pragma unroll
            for (unsigned k = 0; k < RUN; k++)
                if (x + k < nx)
                    to[first + k] = v[k];
        }
    }
}

template <typename W> static void scan_rows(const struct fzm_row_scan *s, cudaStream_t stream)
{
    const uint64_t n_rows = fzm_div_up(s->n_elems, s->nx), n_blocks = fzm_div_up(n_rows, WARPS_PER_BLOCK);
    const size_t word = RUN * sizeof(W) < 16 ? RUN * sizeof(W) : 16;
    const bool is_wide = ((uintptr_t)s->from | (uintptr_t)s->to | s->nx * sizeof(W)) % word == 0;
    row_kernel<W><<<(uint32_t)n_blocks, 32 * WARPS_PER_BLOCK, 0, stream>>>(
        fzm_section_init(s->from, sizeof(W)), (W *)s->to, s->n_elems, s->nx, s->block, is_wide);
}

static cudaError_t scan_rows_width(const struct fzm_row_scan *s, cudaStream_t stream)
{
    switch (s->elem_nbytes) {
    case 1: scan_rows<uint8_t>(s, stream); break;
    case 2: scan_rows<uint16_t>(s, stream); break;
    case 4: scan_rows<uint32_t>(s, stream); break;
    default: scan_rows<uint64_t>(s, stream); break;
    }
    return cudaGetLastError();
}

size_t fzm_gpu_row_scan_scratch_nbytes(uint64_t n_elems, size_t elem_nbytes)
{
    struct fzm_row_scan s = {NULL, NULL, n_elems, n_elems, 1, elem_nbytes};
    size_t plain = 0, by_key = 0;
    if (n_elems == 0)
        return 0;
    scan_width(&s, NULL, &plain, NULL, false);
    scan_width(&s, NULL, &by_key, NULL, true);
    return plain > by_key ? plain : by_key;
}

cudaError_t fzm_gpu_row_scan(const struct fzm_row_scan *s, void *scratch, size_t scratch_nbytes,
                             cudaStream_t stream)
{
    if (s->n_elems == 0)
        return cudaSuccess;
    struct fzm_row_scan rows = *s;
    if (s->nx == s->n_elems && s->block < s->nx) /* stretches of a single row are rows */
        rows.nx = s->block;
    if (rows.nx >= WARP_MIN_NX && rows.n_elems / rows.nx >= WARP_MIN_ROWS)
        return scan_rows_width(&rows, stream);
    return scan_width(s, scratch, &scratch_nbytes, stream, s->nx < s->n_elems || s->block < s->nx);
}
