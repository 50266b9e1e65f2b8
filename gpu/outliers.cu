/* SPDX-License-Identifier: BSD-3-Clause */
/* Outliers on the device: the elements whose mask bit is set, out of an array and back. A block takes 256
 * words of the mask, a thread one; blocks find their place by look-back. */
#include "fused_fast.cuh"
#include "lookback.cuh"

enum { N_THREADS = 256 };

struct outlier_args {
    const uint32_t *mask;
    uint64_t n_elems, n_values;
    uint64_t *lookback; /* one word per block */
    struct fzm_gpu_fast_result *result;
};

/* Bits of this thread's word. */
FZM_D uint32_t mask_word(const struct outlier_args *a)
{
    const uint64_t i = (uint64_t)blockIdx.x * N_THREADS + threadIdx.x, first = i * 32;
    if (first >= a->n_elems)
        return 0;
    const uint64_t left = a->n_elems - first;
    return a->mask[i] & (left < 32 ? (1u << left) - 1 : 0xffffffffu);
}

/* Place of this thread's first outlier in the block, and how many the block has. */
FZM_D uint32_t place_in_block(uint32_t word, uint32_t *total)
{
    __shared__ uint32_t warp_ends[N_THREADS / 32];
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    uint32_t end = __popc(word);
    for (unsigned d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, end, d);
        end += lane >= d ? other : 0;
    }
    if (lane == 31)
        warp_ends[warp] = end;
    __syncthreads();
    uint32_t before = 0, sum = 0;
    for (unsigned i = 0; i < N_THREADS / 32; i++) {
        before += i < warp ? warp_ends[i] : 0;
        sum += warp_ends[i];
    }
    *total = sum;
    return before + end - __popc(word);
}

/* Leaves each block's sum of itself and all before it in lookback[], marked as prefix. */
FZM_D uint64_t place_in_all(const struct outlier_args *a, uint32_t total)
{
    __shared__ uint64_t base;
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            fzm_lookback_publish(a->lookback, blockIdx.x, total);
        uint64_t sum;
        const uint64_t before = fzm_lookback_wait(a->lookback, blockIdx.x, &sum);
        if (threadIdx.x == 0)
            base = before;
    }
    __syncthreads();
    return base;
}

static __global__ void __launch_bounds__(N_THREADS) gather_kernel(const struct outlier_args a,
                                                                  const float *elems, float *values)
{
    uint32_t word = mask_word(&a), total;
    const uint32_t place = place_in_block(word, &total);
    float *to = values + place_in_all(&a, total) + place;
    const float *const from = elems + ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * 32;
    for (; word; word &= word - 1)
        *to++ = from[__ffs(word) - 1];
}

static __global__ void __launch_bounds__(N_THREADS) place_kernel(const struct outlier_args a)
{
    uint32_t total;
    place_in_block(mask_word(&a), &total);
    place_in_all(&a, total);
}

static __global__ void __launch_bounds__(N_THREADS) scatter_kernel(const struct outlier_args a,
                                                                   float *elems, const float *values)
{
    const uint64_t n_found = a.lookback[gridDim.x - 1] & FZM_LOOKBACK_MASK;
    if (n_found != a.n_values) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            a.result->corrupt = 1;
        return;
    }
    uint32_t word = mask_word(&a), total;
    const uint32_t place = place_in_block(word, &total);
    const uint64_t base = blockIdx.x ? a.lookback[blockIdx.x - 1] & FZM_LOOKBACK_MASK : 0;
    const float *from = values + base + place;
    float *const to = elems + ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * 32;
    for (; word; word &= word - 1)
        to[__ffs(word) - 1] = *from++;
}

static uint32_t n_blocks_of(uint64_t n_elems) { return (uint32_t)fzm_div_up(n_elems, N_THREADS * 32); }

extern "C" size_t fzm_gpu_outlier_scratch_nbytes(uint64_t n_elems)
{
    return 8 * (size_t)n_blocks_of(n_elems);
}

extern "C" cudaError_t fzm_gpu_gather_outliers(const uint32_t *mask, const float *elems, uint64_t n_elems,
                                               float *values, void *scratch, cudaStream_t stream)
{
    const struct outlier_args a = {mask, n_elems, 0, (uint64_t *)scratch, NULL};
    const uint32_t n_blocks = n_blocks_of(n_elems);
    const cudaError_t err = cudaMemsetAsync(scratch, 0, 8 * (size_t)n_blocks, stream);
    if (err != cudaSuccess || n_blocks == 0)
        return err;
    gather_kernel<<<n_blocks, N_THREADS, 0, stream>>>(a, elems, values);
    return cudaGetLastError();
}

extern "C" cudaError_t fzm_gpu_scatter_outliers(const uint32_t *mask, float *elems, uint64_t n_elems,
                                                const float *values, uint64_t n_values,
                                                struct fzm_gpu_fast_result *result, void *scratch,
                                                cudaStream_t stream)
{
    const struct outlier_args a = {mask, n_elems, n_values, (uint64_t *)scratch, result};
    const uint32_t n_blocks = n_blocks_of(n_elems);
    const cudaError_t err = cudaMemsetAsync(scratch, 0, 8 * (size_t)n_blocks, stream);
    if (err != cudaSuccess || n_blocks == 0)
        return err;
    place_kernel<<<n_blocks, N_THREADS, 0, stream>>>(a);
    scatter_kernel<<<n_blocks, N_THREADS, 0, stream>>>(a, elems, values);
    return cudaGetLastError();
}
