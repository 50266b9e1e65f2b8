/* SPDX-License-Identifier: BSD-3-Clause */
/* Zigzag and Negabinary on the device: a thread maps 16 bytes. */
#include <string.h>

extern "C" {
#include "../core/stages.h"
#include "../core/stages/zigzag.h"
#include "ops.h"
}

#include "quantizer_load.cuh"

enum { N_THREADS = 256 };

enum sign_map { ZIGZAG, ZIGZAG_BACK, NEGABINARY, NEGABINARY_BACK };

#define DEFINE_MAP(W)                                                    \
    template <int MAP> FZM_D uint##W##_t map(uint##W##_t x)              \
    {                                                                    \
        return MAP == ZIGZAG        ? fzm_zigzag_encode##W(x)            \
               : MAP == ZIGZAG_BACK ? fzm_zigzag_decode##W(x)            \
               : MAP == NEGABINARY  ? fzm_negabinary_encode##W(x)        \
                                    : fzm_negabinary_decode##W(x);       \
    }

DEFINE_MAP(8)
DEFINE_MAP(16)
DEFINE_MAP(32)
DEFINE_MAP(64)

/* is_wide: both arrays are aligned to 16 bytes. */
template <typename W, int MAP>
static __global__ void __launch_bounds__(N_THREADS)
    map_kernel(const struct fzm_section from, W *to, uint64_t n, bool is_wide)
{
    enum { N = 16 / sizeof(W) };
    const uint64_t first = ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * N;
    if (is_wide && first + N <= n) {
        W v[N];
        fzm_run_load<W, N>(v, (const W *)(const void *)from.bytes + first);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = map<MAP>(v[k]);
        fzm_run_store<W, N>(to + first, v);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (first + k < n)
            to[first + k] = map<MAP>(fzm_section_load<W>(from, first + k));
}

template <typename W, int MAP>
static void map_all(const void *from, void *to, uint64_t n, cudaStream_t stream)
{
    const bool is_wide = ((uintptr_t)from | (uintptr_t)to) % 16 == 0;
    map_kernel<W, MAP><<<(uint32_t)fzm_div_up(n * sizeof(W), 16 * N_THREADS), N_THREADS, 0, stream>>>(
        fzm_section_init(from, sizeof(W)), (W *)to, n, is_wide);
}

template <int MAP> static int run(struct fzm_call *c, const void *from, void *to, const char *name)
{
    const uint64_t n = c->in[0].shape.n_elems;
    if (n == 0)
        return 0;
    switch (fzm_dtype_nbytes(c->in[0].shape.dtype)) {
    case 1: map_all<uint8_t, MAP>(from, to, n, c->gpu->stream); break;
    case 2: map_all<uint16_t, MAP>(from, to, n, c->gpu->stream); break;
    case 4: map_all<uint32_t, MAP>(from, to, n, c->gpu->stream); break;
    default: map_all<uint64_t, MAP>(from, to, n, c->gpu->stream); break;
    }
    return fzm_gpu_check(cudaGetLastError(), name, c->err);
}

template <int MAP> static int forward(struct fzm_call *c)
{
    c->out[0].pending = NULL;
    c->out[0].nbytes = fzm_shape_nbytes(&c->in[0].shape);
    return run<MAP>(c, c->in[0].data, c->out[0].data, "sign map");
}

template <int MAP> static int inverse(struct fzm_call *c)
{
    const size_t nbytes = fzm_shape_nbytes(&c->in[0].shape);
    const char *const name = MAP == ZIGZAG_BACK ? "Zigzag" : "Negabinary";
    if (c->out[0].nbytes != nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "%s: %zu bytes for an array of %zu", name,
                           c->out[0].nbytes, nbytes);
    return run<MAP>(c, c->out[0].data, c->in[0].data, name);
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_zigzag, fzm_gpu_ops_negabinary;
const struct fzm_gpu_ops fzm_gpu_ops_zigzag = {
    &fzm_stage_zigzag, NULL, NULL, NULL, forward<ZIGZAG>, inverse<ZIGZAG_BACK>,
};
const struct fzm_gpu_ops fzm_gpu_ops_negabinary = {
    &fzm_stage_negabinary, NULL, NULL, NULL, forward<NEGABINARY>, inverse<NEGABINARY_BACK>,
};
}
