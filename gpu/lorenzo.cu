/* SPDX-License-Identifier: BSD-3-Clause */
/* Lorenzo on the device. Forward: a thread takes 16 bytes of the residuals. Inverse: sums along x by a
 * scan, then along y and z by blocks that walk down 32 columns. */
#include <string.h>

extern "C" {
#include "../core/stages.h"
#include "../core/stages/lorenzo.h"
#include "ops.h"
}

#include "lorenzo_scan.h"
#include "quantizer_load.cuh"

enum { N_THREADS = 256 };

/* The array as a pass sees it. */
struct field {
    uint64_t n_elems, nx, ny, nz;
    uint64_t block_x, block_y, block_z;
};

static struct field field_of(const struct fzm_shape *shape, uint32_t geometry, uint32_t block)
{
    const struct fzm_lorenzo_field f = fzm_lorenzo_field_of(shape, geometry);
    struct field s;
    s.n_elems = shape->n_elems;
    s.nx = f.dims[2];
    s.ny = f.dims[1];
    s.nz = f.dims[0];
    s.block_x = block ? block : s.nx;
    s.block_y = block ? block : s.ny;
    s.block_z = block ? block : s.nz;
    return s;
}

/* Where an element lies, each coordinate relative to the last restart along its axis as well. */
struct place {
    uint64_t x, y, z;
    bool has_x, has_y, has_z; /* there is a predecessor along the axis */
};

FZM_D struct place place_of(const struct field &f, uint64_t i)
{
    struct place p;
    uint64_t phase;
    const uint64_t row = fzm_divide(i, f.nx, &p.x), plane = fzm_divide(row, f.ny, &p.y);
    fzm_divide(plane, f.nz, &p.z);
    fzm_divide(p.x, f.block_x, &phase);
    p.has_x = phase != 0;
    fzm_divide(p.y, f.block_y, &phase);
    p.has_y = phase != 0;
    fzm_divide(p.z, f.block_z, &phase);
    p.has_z = phase != 0;
    return p;
}

/* The difference along y and z at element i. */
template <typename W>
FZM_D W difference_yz(const W *x, const struct field &f, uint64_t i, bool has_y, bool has_z)
{
    W d = x[i];
    if (has_y)
        d = (W)(d - x[i - f.nx]);
    if (has_z) {
        const W *const back = x + i - f.nx * f.ny;
        d = (W)(d - *back);
        if (has_y)
            d = (W)(d + *(back - f.nx));
    }
    return d;
}

template <typename W>
static __global__ void __launch_bounds__(N_THREADS)
    difference_kernel(const W *x, W *out, const __grid_constant__ struct field f)
{
    enum { N = 16 / sizeof(W) };
    const uint64_t first = ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * N;
    if (first >= f.n_elems)
        return;
    struct place p = place_of(f, first);
    W r[N], before = p.has_x ? difference_yz(x, f, first - 1, p.has_y, p.has_z) : (W)0;
    uint64_t phase_x;
    fzm_divide(p.x, f.block_x, &phase_x);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const uint64_t i = first + k;
        const W d = i < f.n_elems ? difference_yz(x, f, i, p.has_y, p.has_z) : (W)0;
        r[k] = (W)(d - before);
        before = d;
        if (++phase_x == f.block_x) {
            phase_x = 0;
            before = 0;
        }
        if (++p.x == f.nx) {
            p = place_of(f, i + 1);
            phase_x = 0;
            before = 0;
        }
    }
    if (first + N <= f.n_elems) {
        fzm_run_store<W, N>(out + first, r);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (first + k < f.n_elems)
            out[first + k] = r[k];
}

/* Sums along an axis, in place: n_columns neighbouring columns (a plane of x, or of y and x) of n elements
 * that are n_columns apart, in n_groups groups; restarts at multiples of block. */
struct axis {
    uint64_t n_columns, n, block, n_groups, blocks_per_group;
};

/* A block takes 32 columns, N_SEGMENTS x N_ROWS elements of each at a time: a thread sums N_ROWS
 * neighbours. */
enum { N_SEGMENTS = 16, N_ROWS = 8 };

/* Elements first, first + 1, ... of a column; 0 beyond its end. */
template <typename W>
FZM_D void load_rows(W (&d)[N_ROWS], const W *column, uint64_t first, uint64_t n, uint64_t pitch, bool there)
{
#pragma unroll
    for (unsigned k = 0; k < N_ROWS; k++)
        d[k] = there && first + k < n ? column[(first + k) * pitch] : (W)0;
}

template <typename W>
static __global__ void __launch_bounds__(32 * N_SEGMENTS)
    axis_kernel(W *data, const __grid_constant__ struct axis a)
{
    __shared__ W ends[N_SEGMENTS][32];
    __shared__ bool restarts[N_SEGMENTS];
    const unsigned lane = threadIdx.x & 31, segment = threadIdx.x / 32;
    uint64_t group_block;
    const uint64_t group =
        fzm_divide(blockIdx.x + (uint64_t)gridDim.x * blockIdx.y, a.blocks_per_group, &group_block);
    if (group >= a.n_groups)
        return;
    const uint64_t column = group_block * 32 + lane;
    W *const v = data + group * a.n_columns * a.n + column;
    W carry = 0; /* the sum at the last element before the turn */
    W next[N_ROWS];
    load_rows(next, v, segment * N_ROWS, a.n, a.n_columns, column < a.n_columns);
    for (uint64_t turn = 0; turn < a.n; turn += N_SEGMENTS * N_ROWS) {
        const uint64_t first = turn + segment * N_ROWS;
        uint64_t phase;
        fzm_divide(first, a.block, &phase);
        W d[N_ROWS], sum = 0;
        unsigned n_open = N_ROWS; /* elements before the first restart */
#pragma unroll
        for (unsigned k = 0; k < N_ROWS; k++)
            d[k] = next[k];
        load_rows(next, v, first + N_SEGMENTS * N_ROWS, a.n, a.n_columns, column < a.n_columns);
#pragma unroll
        for (unsigned k = 0; k < N_ROWS; k++) {
            if (phase == 0) {
                sum = 0;
                n_open = n_open < k ? n_open : k;
            }
            d[k] = sum = (W)(sum + d[k]);
            phase = phase + 1 == a.block ? 0 : phase + 1;
        }
        ends[segment][lane] = sum;
        if (lane == 0)
            restarts[segment] = n_open < N_ROWS;
        __syncthreads();
        W before = carry;
#pragma unroll
        for (unsigned s = 0; s < N_SEGMENTS; s++) {
            before = s == segment ? carry : before;
            carry = (W)((restarts[s] ? (W)0 : carry) + ends[s][lane]);
        }
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < N_ROWS; k++)
            if (first + k < a.n && column < a.n_columns)
                v[(first + k) * a.n_columns] = (W)(d[k] + (k < n_open ? before : (W)0));
    }
}

template <typename W> FZM_D unsigned row_cost(W d) { return fzm_lorenzo_cost((uint64_t)d, 8 * sizeof(W)); }

/* The cost of each geometry, a block per sampled row. */
template <typename W>
static __global__ void __launch_bounds__(N_THREADS)
    cost_kernel(const W *x, const __grid_constant__ struct field f, uint64_t n_rows, unsigned long long *cost)
{
    const uint64_t row = fzm_lorenzo_sample_at(blockIdx.x, gridDim.x, n_rows), first = row * f.nx;
    const bool has_y = row % f.ny != 0, has_z = row / f.ny % f.nz != 0;
    unsigned long long sum[3] = {0, 0, 0};
    for (uint64_t i = first + 1 + threadIdx.x; i < first + f.nx; i += N_THREADS)
        for (int g = 0; g < 3; g++) {
            const bool y = has_y && g >= 1, z = has_z && g >= 2;
            sum[g] += row_cost<W>((W)(difference_yz(x, f, i, y, z) - difference_yz(x, f, i - 1, y, z)));
        }
    for (int g = 0; g < 3; g++) {
        for (int d = 16; d; d /= 2)
            sum[g] += __shfl_xor_sync(0xffffffffu, sum[g], d);
        if ((threadIdx.x & 31) == 0)
            atomicAdd(&cost[g + 1], sum[g]);
    }
}

#define FOR_WIDTH(nbytes, function, ...) \
    switch (nbytes) { \
    case 1: function<uint8_t>(__VA_ARGS__); break; \
    case 2: function<uint16_t>(__VA_ARGS__); break; \
    case 4: function<uint32_t>(__VA_ARGS__); break; \
    default: function<uint64_t>(__VA_ARGS__); break; \
    }

enum { COST_NBYTES = 4 * sizeof(uint64_t) };

static size_t scratch(const void *params, const struct fzm_shape *in)
{
    const struct fzm_lorenzo_params *const p = (const struct fzm_lorenzo_params *)params;
    const size_t scan = fzm_gpu_row_scan_scratch_nbytes(in[0].n_elems, fzm_dtype_nbytes(in[0].dtype));
    const size_t between = p->order == 2 ? fzm_shape_nbytes(&in[0]) : 0,
                 most = scan > between ? scan : between;
    return most > COST_NBYTES ? most : (size_t)COST_NBYTES;
}

template <typename W> static void measure(const struct fzm_call *c, const struct field *f)
{
    const uint64_t n_rows = f->n_elems / f->nx;
    cost_kernel<W><<<(uint32_t)fzm_lorenzo_n_samples(n_rows), N_THREADS, 0, c->gpu->stream>>>(
        (const W *)c->in[0].data, *f, n_rows, (unsigned long long *)c->scratch);
}

static int resolve(void *params, const struct fzm_call *c)
{
    struct fzm_lorenzo_params *const p = (struct fzm_lorenzo_params *)params;
    const struct fzm_shape *const shape = &c->in[0].shape;
    uint64_t cost[4];
    if (p->geometry != 0)
        return 0;
    p->geometry = 1;
    if (shape->n_elems == 0 || shape->rank < 2)
        return 0;
    const struct field f = field_of(shape, shape->rank, 0);
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(c->scratch, 0, COST_NBYTES, c->gpu->stream), "Lorenzo: clearing",
                          c->err));
    FOR_WIDTH(fzm_dtype_nbytes(shape->dtype), measure, c, &f)
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "Lorenzo: sampling", c->err));
    FZM_TRY(fzm_gpu_read(c->gpu, cost, c->scratch, COST_NBYTES, c->err));
    p->geometry = fzm_lorenzo_choose(cost, shape->rank);
    return 0;
}

template <typename W>
static void difference(const struct fzm_call *c, const struct field *f, const void *from, void *to)
{
    difference_kernel<W>
        <<<(uint32_t)fzm_div_up(f->n_elems * sizeof(W), 16 * N_THREADS), N_THREADS, 0, c->gpu->stream>>>(
            (const W *)from, (W *)to, *f);
}

static int forward(struct fzm_call *c)
{
    const struct fzm_lorenzo_params *const p = (const struct fzm_lorenzo_params *)c->params;
    const struct fzm_shape *const shape = &c->in[0].shape;
    const size_t elem_nbytes = fzm_dtype_nbytes(shape->dtype);
    c->out[0].pending = NULL;
    c->out[0].nbytes = fzm_shape_nbytes(shape);
    if (shape->n_elems == 0)
        return 0;
    const struct field f = field_of(shape, p->geometry, p->block);
    void *const to = p->order == 2 ? c->scratch : c->out[0].data;
    FOR_WIDTH(elem_nbytes, difference, c, &f, c->in[0].data, to)
    if (p->order == 2)
        FOR_WIDTH(elem_nbytes, difference, c, &f, c->scratch, c->out[0].data)
    return fzm_gpu_check(cudaGetLastError(), "Lorenzo", c->err);
}

template <typename W> static void sum_axis(const struct fzm_call *c, const struct axis *a)
{
    const uint64_t n_blocks = a->n_groups * a->blocks_per_group, most = 1u << 30;
    const dim3 grid((uint32_t)(n_blocks < most ? n_blocks : most), (uint32_t)fzm_div_up(n_blocks, most));
    axis_kernel<W><<<grid, 32 * N_SEGMENTS, 0, c->gpu->stream>>>((W *)c->in[0].data, *a);
}

/* x: from the residuals, or in place; then the other axes in place. */
static int sum_axes(const struct fzm_call *c, const struct field *f, const void *from)
{
    const size_t elem_nbytes = fzm_dtype_nbytes(c->in[0].shape.dtype);
    const struct fzm_row_scan row = {from, c->in[0].data, f->n_elems, f->nx, f->block_x, elem_nbytes};
    const size_t scratch_nbytes = fzm_gpu_row_scan_scratch_nbytes(f->n_elems, elem_nbytes);
    FZM_TRY(fzm_gpu_check(fzm_gpu_row_scan(&row, c->scratch, scratch_nbytes, c->gpu->stream), "Lorenzo: scan",
                          c->err));
    const struct axis axes[2] = {
        {f->nx, f->ny, f->block_y, f->n_elems / (f->nx * f->ny), fzm_div_up(f->nx, 32)},
        {f->nx * f->ny, f->nz, f->block_z, f->n_elems / (f->nx * f->ny * f->nz),
         fzm_div_up(f->nx * f->ny, 32)}};
    for (int i = 0; i < 2; i++)
        if (axes[i].n > 1 && axes[i].block > 1)
            FOR_WIDTH(elem_nbytes, sum_axis, c, &axes[i])
    return fzm_gpu_check(cudaGetLastError(), "Lorenzo: sums", c->err);
}

static int inverse(struct fzm_call *c)
{
    const struct fzm_lorenzo_params *const p = (const struct fzm_lorenzo_params *)c->params;
    const struct fzm_shape *const shape = &c->in[0].shape;
    const size_t nbytes = fzm_shape_nbytes(shape);
    if (c->out[0].nbytes != nbytes || (nbytes && p->geometry == 0))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Lorenzo: %zu bytes of residuals for an array of %zu",
                           c->out[0].nbytes, nbytes);
    if (nbytes == 0)
        return 0;
    const struct field f = field_of(shape, p->geometry, p->block);
    for (uint32_t i = 0; i < p->order; i++)
        FZM_TRY(sum_axes(c, &f, i ? c->in[0].data : c->out[0].data));
    return 0;
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_lorenzo;
const struct fzm_gpu_ops fzm_gpu_ops_lorenzo = {
    &fzm_stage_lorenzo, scratch, resolve, NULL, forward, inverse,
};
}
