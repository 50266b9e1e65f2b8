/* SPDX-License-Identifier: BSD-3-Clause */
/* Difference on the device: a thread takes 16 bytes of the output; the inverse is a scan. */
#include <string.h>

extern "C" {
#include "../core/stages.h"
#include "../core/stages/difference.h"
#include "ops.h"
}

#include "lorenzo_scan.h"
#include "quantizer_load.cuh"

enum { N_THREADS = 256 };

/* chunk: elements between restarts. is_wide: x is aligned to 16 bytes. */
template <typename W>
static __global__ void __launch_bounds__(N_THREADS)
    difference_kernel(const W *x, W *out, uint64_t n, uint64_t chunk, bool is_wide)
{
    enum { N = 16 / sizeof(W) };
    const uint64_t first = ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * N;
    if (first >= n)
        return;
    W v[N], r[N];
    if (is_wide && first + N <= n) {
        fzm_run_load<W, N>(v, x + first);
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = first + k < n ? x[first + k] : (W)0;
    }
    uint64_t phase = n >> 32 ? first % chunk : (uint32_t)first % (uint32_t)chunk;
    W before = phase ? x[first - 1] : (W)0;
#pragma unroll
    for (int k = 0; k < N; k++) {
        r[k] = (W)(v[k] - before);
        phase = phase + 1 == chunk ? 0 : phase + 1;
        before = phase ? v[k] : (W)0;
    }
    if (first + N <= n) {
        fzm_run_store<W, N>(out + first, r);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (first + k < n)
            out[first + k] = r[k];
}

static uint64_t chunk_of(const struct fzm_call *c)
{
    const struct fzm_difference_params *const p = (const struct fzm_difference_params *)c->params;
    const uint64_t n = c->in[0].shape.n_elems;
    return p->chunk && p->chunk < n ? p->chunk : n;
}

template <typename W> static void difference(const struct fzm_call *c)
{
    const uint64_t n = c->in[0].shape.n_elems;
    difference_kernel<W>
        <<<(uint32_t)fzm_div_up(n * sizeof(W), 16 * N_THREADS), N_THREADS, 0, c->gpu->stream>>>(
            (const W *)c->in[0].data, (W *)c->out[0].data, n, chunk_of(c),
            (uintptr_t)c->in[0].data % 16 == 0);
}

static size_t scratch(const void *params, const struct fzm_shape *in)
{
    (void)params;
    return fzm_gpu_row_scan_scratch_nbytes(in[0].n_elems, fzm_dtype_nbytes(in[0].dtype));
}

static int forward(struct fzm_call *c)
{
    c->out[0].pending = NULL;
    c->out[0].nbytes = fzm_shape_nbytes(&c->in[0].shape);
    if (c->in[0].shape.n_elems == 0)
        return 0;
    switch (fzm_dtype_nbytes(c->in[0].shape.dtype)) {
    case 1: difference<uint8_t>(c); break;
    case 2: difference<uint16_t>(c); break;
    case 4: difference<uint32_t>(c); break;
    default: difference<uint64_t>(c); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "Difference", c->err);
}

static int inverse(struct fzm_call *c)
{
    const size_t nbytes = fzm_shape_nbytes(&c->in[0].shape);
    if (c->out[0].nbytes != nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Difference: %zu bytes for an array of %zu",
                           c->out[0].nbytes, nbytes);
    struct fzm_row_scan s;
    s.from = c->out[0].data;
    s.to = c->in[0].data;
    s.n_elems = s.nx = c->in[0].shape.n_elems;
    s.block = chunk_of(c);
    s.elem_nbytes = fzm_dtype_nbytes(c->in[0].shape.dtype);
    const size_t scratch_nbytes = scratch(c->params, &c->in[0].shape);
    return fzm_gpu_check(fzm_gpu_row_scan(&s, c->scratch, scratch_nbytes, c->gpu->stream), "Difference: scan",
                         c->err);
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_difference;
const struct fzm_gpu_ops fzm_gpu_ops_difference = {
    &fzm_stage_difference, scratch, NULL, NULL, forward, inverse,
};
}
