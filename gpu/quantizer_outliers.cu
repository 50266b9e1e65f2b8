/* SPDX-License-Identifier: BSD-3-Clause */
/* Outliers of the Quantizer, elements of any width: out of an array and back. A thread takes 8 neighbouring words of
 * the mask, so that there are few blocks, which find their place in the list by look-back. */
#include "quantizer.cuh"

#include "lookback.cuh"
#include "quantizer_load.cuh"

enum { N_THREADS = 256, N_WORDS = 8, THREAD_N_ELEMS = 32 * N_WORDS, BLOCK_N_ELEMS = THREAD_N_ELEMS * N_THREADS };

struct list_args {
    struct fzm_section mask;
    uint64_t mask_nbytes, n_elems;
    uint64_t *lookback; /* one word per block */
    const uint32_t *any;
};

/* Words of the mask from number i on. */
FZM_D void load_words(const struct list_args *a, uint64_t i, uint32_t (&w)[N_WORDS])
{
    if (4 * (i + N_WORDS) <= a->mask_nbytes && (uintptr_t)a->mask.bytes % 16 == 0) {
        fzm_run_load<uint32_t, N_WORDS>(w, (const uint32_t *)(const void *)a->mask.bytes + i);
        return;
    }
    for (int k = 0; k < N_WORDS; k++, i++) {
        w[k] = 0;
        if (4 * i + 4 <= a->mask_nbytes)
            w[k] = fzm_section_load<uint32_t>(a->mask, i);
        else
            for (uint64_t at = 4 * i; at < a->mask_nbytes; at++)
                w[k] |= (uint32_t)a->mask.bytes[at] << (8 * (at - 4 * i));
    }
}

/* The mask's bits of this thread's elements, those beyond the last one cleared; *excess: if it had some. Returns how
 * many are set. */
FZM_D uint32_t mask_words(const struct list_args *a, uint32_t (&w)[N_WORDS], bool *excess)
{
    const uint64_t i = ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * N_WORDS;
    uint32_t n = 0;
    *excess = false;
    load_words(a, i, w);
#pragma unroll
    for (int k = 0; k < N_WORDS; k++) {
        const uint64_t first = (i + k) * 32, left = first < a->n_elems ? a->n_elems - first : 0;
        const uint32_t valid = left < 32 ? (1u << left) - 1 : 0xffffffffu;
        *excess = *excess || (w[k] & ~valid) != 0;
        w[k] &= valid;
        n += __popc(w[k]);
    }
    return n;
}

/* Place of this thread's first outlier in the block, given how many it has, and how many the block has. */
FZM_D uint32_t place_in_block(uint32_t n, uint32_t *total)
{
    __shared__ uint32_t warp_ends[N_THREADS / 32];
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    uint32_t end = n;
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
    return before + end - n;
}

/* Place of the block's first outlier in the list. Leaves the count up to each block's end in lookback[]. */
FZM_D uint64_t place_in_all(const struct list_args *a, uint32_t total)
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

template <typename W>
static __global__ void __launch_bounds__(N_THREADS)
    gather_kernel(const struct list_args a, const W *x, W *values, uint64_t *mask_nbytes,
                  uint64_t *values_nbytes)
{
    if (a.any && *a.any == 0)
        return;
    bool excess;
    uint32_t words[N_WORDS], total;
    const uint32_t place = place_in_block(mask_words(&a, words, &excess), &total);
    const uint64_t base = place_in_all(&a, total);
    if (a.any && blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
        *mask_nbytes = a.mask_nbytes;
        *values_nbytes = (base + total) * sizeof(W);
    }
    W *to = values + base + place;
    const W *from = x + ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * THREAD_N_ELEMS;
#pragma unroll
    for (int k = 0; k < N_WORDS; k++, from += 32)
        for (uint32_t word = words[k]; word; word &= word - 1)
            *to++ = from[__ffs(word) - 1];
}

static __global__ void __launch_bounds__(N_THREADS) place_kernel(const struct list_args a, uint32_t *corrupt)
{
    bool excess;
    uint32_t words[N_WORDS], total;
    place_in_block(mask_words(&a, words, &excess), &total);
    place_in_all(&a, total);
    if (excess)
        *corrupt = 1;
}

template <typename W>
static __global__ void __launch_bounds__(N_THREADS)
    scatter_kernel(const struct list_args a, const struct fzm_section values, uint64_t n_values, W *y,
                   uint32_t *corrupt)
{
    if ((a.lookback[gridDim.x - 1] & FZM_LOOKBACK_MASK) != n_values) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            *corrupt = 1;
        return;
    }
    bool excess;
    uint32_t words[N_WORDS], total;
    uint64_t from = place_in_block(mask_words(&a, words, &excess), &total);
    from += blockIdx.x ? a.lookback[blockIdx.x - 1] & FZM_LOOKBACK_MASK : 0;
    W *to = y + ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) * THREAD_N_ELEMS;
#pragma unroll
    for (int k = 0; k < N_WORDS; k++, to += 32)
        for (uint32_t word = words[k]; word; word &= word - 1)
            to[__ffs(word) - 1] = fzm_section_load<W>(values, from++);
}

static uint32_t n_blocks_of(uint64_t n_elems) { return (uint32_t)fzm_div_up(n_elems, BLOCK_N_ELEMS); }

size_t fzm_gpu_outlier_list_scratch_nbytes(uint64_t n_elems) { return 8 * (size_t)n_blocks_of(n_elems); }

static int list_args_init(struct list_args *a, const struct fzm_gpu *gpu, const struct fzm_outlier_list *o,
                          struct fzm_err *err)
{
    a->mask = fzm_section_init(o->mask, 4);
    a->mask_nbytes = o->mask_nbytes;
    a->n_elems = o->n_elems;
    a->lookback = (uint64_t *)o->scratch;
    a->any = NULL;
    return fzm_gpu_check(
        cudaMemsetAsync(o->scratch, 0, fzm_gpu_outlier_list_scratch_nbytes(o->n_elems), gpu->stream),
        "Quantizer: clearing scratch", err);
}

template <typename W>
static void gather(const struct fzm_gpu *gpu, const struct list_args *a, const struct fzm_outlier_list *o,
                   const void *x, uint64_t *mask_nbytes, uint64_t *values_nbytes)
{
    gather_kernel<W><<<n_blocks_of(o->n_elems), N_THREADS, 0, gpu->stream>>>(*a, (const W *)x, (W *)o->values,
                                                                             mask_nbytes, values_nbytes);
}

int fzm_gpu_outliers_gather(const struct fzm_gpu *gpu, const struct fzm_outlier_list *o, const void *x,
                            const uint32_t *any, uint64_t *mask_nbytes, uint64_t *values_nbytes,
                            struct fzm_err *err)
{
    struct list_args a;
    FZM_TRY(list_args_init(&a, gpu, o, err));
    a.any = any;
    switch (o->elem_nbytes) {
    case 1: gather<uint8_t>(gpu, &a, o, x, mask_nbytes, values_nbytes); break;
    case 2: gather<uint16_t>(gpu, &a, o, x, mask_nbytes, values_nbytes); break;
    case 4: gather<uint32_t>(gpu, &a, o, x, mask_nbytes, values_nbytes); break;
    default: gather<uint64_t>(gpu, &a, o, x, mask_nbytes, values_nbytes); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "Quantizer: collecting outliers", err);
}

template <typename W>
static void scatter(const struct fzm_gpu *gpu, const struct list_args *a, const struct fzm_outlier_list *o,
                    void *y)
{
    scatter_kernel<W><<<n_blocks_of(o->n_elems), N_THREADS, 0, gpu->stream>>>(
        *a, fzm_section_init(o->values, o->elem_nbytes), o->n_values, (W *)y, gpu->corrupt);
}

int fzm_gpu_outliers_scatter(const struct fzm_gpu *gpu, const struct fzm_outlier_list *o, void *y,
                             struct fzm_err *err)
{
    struct list_args a;
    FZM_TRY(list_args_init(&a, gpu, o, err));
    place_kernel<<<n_blocks_of(o->n_elems), N_THREADS, 0, gpu->stream>>>(a, gpu->corrupt);
    switch (o->elem_nbytes) {
    case 1: scatter<uint8_t>(gpu, &a, o, y); break;
    case 2: scatter<uint16_t>(gpu, &a, o, y); break;
    case 4: scatter<uint32_t>(gpu, &a, o, y); break;
    default: scatter<uint64_t>(gpu, &a, o, y); break;
    }
    return fzm_gpu_check(cudaGetLastError(), "Quantizer: placing outliers", err);
}
