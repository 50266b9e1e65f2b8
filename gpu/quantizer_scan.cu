/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes that settle the Quantizer's parameters, on the device: a clearing, a kernel, and one wait
 * each. The decisions are those of core/stages/quantizer_resolve.c. */
#include "quantizer.cuh"

#include "quantizer_code.cuh"
#include "quantizer_reduce.cuh"

enum { N_THREADS = 256, N_PER_THREAD = 8, PIECE_N_ELEMS = N_THREADS * N_PER_THREAD };

/* A resolve() under way. After a failure passes find nothing. */
struct scan_run {
    struct fzm_gpu *gpu;
    struct fzm_err *err;
    int code;
};

/* A partition's share of the squared errors. */
struct error_part {
    double sum;
    uint64_t n_good;
};

static struct scan_run *run_of(const struct fzm_scan *s) { return (struct scan_run *)s->engine; }

/* Clears the first bytes of the scratch. */
static bool begin(const struct fzm_scan *s, size_t nbytes)
{
    struct scan_run *const r = run_of(s);
    if (r->code == 0)
        r->code = fzm_gpu_check(cudaMemsetAsync(s->scratch, 0, nbytes, r->gpu->stream),
                                "Quantizer: clearing scratch", r->err);
    return r->code == 0;
}

/* Waits for what the kernels have left in the scratch. */
static bool finish(const struct fzm_scan *s, void *host, const void *device, size_t nbytes)
{
    struct scan_run *const r = run_of(s);
    if (r->code == 0)
        r->code = fzm_gpu_check(cudaGetLastError(), "Quantizer: looking at the chunk", r->err);
    if (r->code == 0)
        r->code = fzm_gpu_read(r->gpu, host, device, nbytes, r->err);
    return r->code == 0;
}

/* Blocks of one wave, and no more than there is work for. */
static uint32_t n_blocks_of(const struct fzm_scan *s, size_t n_per_block)
{
    const uint64_t most = 8 * (uint64_t)run_of(s)->gpu->n_multiprocessors,
                   need = fzm_div_up(s->n_elems, n_per_block);
    return (uint32_t)(need < most ? need : most);
}

template <int DTYPE, typename W, int WHAT>
static void launch_reduce(const struct fzm_scan *s, int64_t lo, int64_t hi, uint64_t min_bits,
                          uint64_t max_bits)
{
    struct fzm_reduce_args<DTYPE, W> a;
    const bool all = lo == INT64_MIN && hi == INT64_MAX;
    a.x = (const W *)s->x;
    a.n_elems = s->n_elems;
    a.n_sample = s->n_sample;
    a.lo = all ? fzm_key<DTYPE>::least : fzm_key_narrow<DTYPE>(lo);
    a.hi = all ? fzm_key<DTYPE>::most : fzm_key_narrow<DTYPE>(hi);
    a.min_bits = (W)min_bits;
    a.max_bits = (W)max_bits;
    a.fill = (W)s->fill;
    a.has_fill = s->has_fill;
    a.result = (struct fzm_reduce_result *)s->scratch;
    fzm_reduce_kernel<DTYPE, W, WHAT>
        <<<n_blocks_of(s, 4096 / sizeof(W)), 256, 0, run_of(s)->gpu->stream>>>(a);
}

static struct fzm_extremes scan_extremes(struct fzm_scan *s)
{
    static const struct fzm_reduce_result nothing = {0, 0, 0, 0, {0}};
    struct fzm_reduce_result r;
    s->n_sample = s->n_elems < FZM_SAMPLE_MAX_ELEMS ? s->n_elems : (size_t)FZM_SAMPLE_MAX_ELEMS;
    memset(s->sample, 0, sizeof s->sample);
    if (s->n_elems == 0 || !begin(s, FZM_REDUCE_HEAD_NBYTES))
        return fzm_reduce_extremes(&nothing);
#define FZM_CASE(DTYPE, W) \
    case DTYPE: launch_reduce<DTYPE, W, FZM_REDUCE_EXTREMES>(s, s->key_lo, s->key_hi, 0, 0); break;
    switch (s->dtype) {
        FZM_CASE(FZM_U8, uint8_t)
        FZM_CASE(FZM_U16, uint16_t)
        FZM_CASE(FZM_U32, uint32_t)
        FZM_CASE(FZM_U64, uint64_t)
        FZM_CASE(FZM_I8, uint8_t)
        FZM_CASE(FZM_I16, uint16_t)
        FZM_CASE(FZM_I32, uint32_t)
        FZM_CASE(FZM_I64, uint64_t)
        FZM_CASE(FZM_F32, uint32_t)
    default: launch_reduce<FZM_F64, uint64_t, FZM_REDUCE_EXTREMES>(s, s->key_lo, s->key_hi, 0, 0); break;
    }
#undef FZM_CASE
    if (!finish(s, &r, s->scratch, FZM_REDUCE_HEAD_NBYTES + 8 * s->n_sample))
        return fzm_reduce_extremes(&nothing);
    memcpy(s->sample, r.sample, 8 * s->n_sample);
    return fzm_reduce_extremes(&r);
}

/* A pass over floats. */
template <int WHAT>
static struct fzm_extremes reduce_floats(const struct fzm_scan *s, int64_t lo, int64_t hi, uint64_t min_bits,
                                         uint64_t max_bits)
{
    struct fzm_reduce_result r;
    memset(&r, 0, FZM_REDUCE_HEAD_NBYTES);
    if (begin(s, FZM_REDUCE_HEAD_NBYTES)) {
        if (s->dtype == FZM_F32)
            launch_reduce<FZM_F32, uint32_t, WHAT>(s, lo, hi, min_bits, max_bits);
        else
            launch_reduce<FZM_F64, uint64_t, WHAT>(s, lo, hi, min_bits, max_bits);
        if (!finish(s, &r, s->scratch, FZM_REDUCE_HEAD_NBYTES))
            memset(&r, 0, FZM_REDUCE_HEAD_NBYTES);
    }
    return fzm_reduce_extremes(&r);
}

static struct fzm_extremes scan_rest(const struct fzm_scan *s, int64_t min, int64_t max)
{
    return reduce_floats<FZM_REDUCE_REST>(s, min + 1, max - 1, fzm_scan_bits(s->dtype, min),
                                          fzm_scan_bits(s->dtype, max));
}

static int64_t scan_min_magnitude(const struct fzm_scan *s)
{
    return reduce_floats<FZM_REDUCE_MAGNITUDE>(s, s->key_lo, s->key_hi, 0, 0).min;
}

/* One wave; each block looks whether another one has found a difference before it goes on. */
template <int KIND, typename T, typename CODE>
static __global__ void __launch_bounds__(N_THREADS)
    fixed_kernel(const __grid_constant__ struct fzm_coder<KIND, T> coder, const T *x, uint64_t n,
                 bool has_fill, typename fzm_uint<sizeof(T)>::type fill, uint32_t *differs)
{
    for (uint64_t first = (uint64_t)blockIdx.x * PIECE_N_ELEMS; first < n;
         first += (uint64_t)gridDim.x * PIECE_N_ELEMS) {
        if (*(volatile uint32_t *)differs)
            return;
        T v[N_PER_THREAD];
        bool is_fixed = true;
#pragma unroll
        for (int k = 0; k < N_PER_THREAD; k++) {
            const uint64_t i = first + N_THREADS * k + threadIdx.x;
            v[k] = i < n ? x[i] : x[n - 1];
        }
#pragma unroll
        for (int k = 0; k < N_PER_THREAD; k++) {
            CODE code;
            const bool good = fzm_encode(coder, v[k], &code) && !(has_fill && fzm_bits_of(v[k]) == fill);
            is_fixed = is_fixed && (!good || fzm_bits_of(fzm_decode(coder, code)) == fzm_bits_of(v[k]));
        }
        if (!is_fixed)
            *(volatile uint32_t *)differs = 1;
    }
}

template <int KIND, typename T, typename CODE>
static void launch_fixed(const struct fzm_scan *s, const struct fzm_quantizer_params *p)
{
    struct fzm_coder<KIND, T> coder;
    fzm_coder_init(&coder, p, s->dtype);
    fixed_kernel<KIND, T, CODE><<<n_blocks_of(s, PIECE_N_ELEMS), N_THREADS, 0, run_of(s)->gpu->stream>>>(
        coder, (const T *)s->x, s->n_elems, s->has_fill, (typename fzm_uint<sizeof(T)>::type)s->fill,
        (uint32_t *)s->scratch);
}

static bool scan_is_fixed_point(const struct fzm_scan *s, const struct fzm_quantizer_params *p)
{
    uint32_t differs = 1;
    if (!begin(s, sizeof differs))
        return false;
    FZM_CALL_FLOAT_CODER(launch_fixed, s->dtype, p, s, p);
    return finish(s, &differs, s->scratch, sizeof differs) && !differs;
}

/* A block per partition. Eight warps square errors piece by piece; meanwhile the ninth adds up those of
 * the piece before, each of its first lanes one running sum, in order of index. */
template <int KIND, typename T, typename CODE>
static __global__ void __launch_bounds__(N_THREADS + 32)
    error_kernel(const __grid_constant__ struct fzm_coder<KIND, T> coder, const T *x, uint64_t n,
                 bool has_fill, typename fzm_uint<sizeof(T)>::type fill, struct error_part *parts)
{
    enum { N_PIECES = FZM_SCAN_PARTITION_N_ELEMS / PIECE_N_ELEMS };
    __shared__ double squares[2][PIECE_N_ELEMS], sums[FZM_SCAN_N_SUMS];
    __shared__ uint32_t n_good;
    const uint64_t begin = (uint64_t)blockIdx.x * FZM_SCAN_PARTITION_N_ELEMS;
    const unsigned adder = threadIdx.x - N_THREADS; /* of the ninth warp */
    double sum = 0;
    uint32_t count = 0;
    if (threadIdx.x == 0)
        n_good = 0;
    for (int piece = 0; piece <= N_PIECES; piece++) {
        if (threadIdx.x < N_THREADS && piece < N_PIECES) {
#pragma unroll
            for (int k = 0; k < N_PER_THREAD; k++) {
                const unsigned at = N_THREADS * k + threadIdx.x;
                const uint64_t i = begin + (uint64_t)piece * PIECE_N_ELEMS + at;
                const T v = i < n ? x[i] : (T)0;
                CODE code;
                const bool good =
                    i < n && fzm_encode(coder, v, &code) && !(has_fill && fzm_bits_of(v) == fill);
                const double d = good ? (double)v - (double)fzm_decode(coder, code) : 0.0;
                squares[piece % 2][at] = d * d;
                count += good;
            }
        } else if (threadIdx.x >= N_THREADS && piece > 0 && adder < FZM_SCAN_N_SUMS) {
#pragma unroll 16
            for (int i = 0; i < PIECE_N_ELEMS / FZM_SCAN_N_SUMS; i++)
                sum += squares[(piece - 1) % 2][i * FZM_SCAN_N_SUMS + adder];
        }
        __syncthreads();
    }
    if (threadIdx.x >= N_THREADS && adder < FZM_SCAN_N_SUMS)
        sums[adder] = sum;
    atomicAdd(&n_good, count);
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x].sum = fzm_scan_add_sums(sums);
        parts[blockIdx.x].n_good = n_good;
    }
}

/* The sum over all partitions in order, by one warp that reads ahead. */
static __global__ void add_parts_kernel(const struct error_part *parts, uint64_t n_parts,
                                        struct error_part *total)
{
    struct error_part all = {0, 0};
    for (uint64_t first = 0; first < n_parts; first += 32) {
        struct error_part mine = {0, 0};
        if (first + threadIdx.x < n_parts)
            mine = parts[first + threadIdx.x];
        for (int i = 0; i < 32; i++) {
            all.sum += __shfl_sync(0xffffffffu, mine.sum, i);
            all.n_good += __shfl_sync(0xffffffffu, mine.n_good, i);
        }
    }
    if (threadIdx.x == 0)
        *total = all;
}

template <int KIND, typename T, typename CODE>
static void launch_error(const struct fzm_scan *s, const struct fzm_quantizer_params *p, uint32_t n_parts)
{
    struct fzm_coder<KIND, T> coder;
    fzm_coder_init(&coder, p, s->dtype);
    error_kernel<KIND, T, CODE><<<n_parts, N_THREADS + 32, 0, run_of(s)->gpu->stream>>>(
        coder, (const T *)s->x, s->n_elems, s->has_fill, (typename fzm_uint<sizeof(T)>::type)s->fill,
        (struct error_part *)s->scratch + 1);
}

static double scan_squared_error(const struct fzm_scan *s, const struct fzm_quantizer_params *p,
                                 uint64_t *n_good)
{
    const uint32_t n_parts = (uint32_t)fzm_div_up(s->n_elems, FZM_SCAN_PARTITION_N_ELEMS);
    struct error_part *const parts = (struct error_part *)s->scratch;
    struct error_part total = {0, 0};
    *n_good = 0;
    if (run_of(s)->code)
        return 0;
    FZM_CALL_FLOAT_CODER(launch_error, s->dtype, p, s, p, n_parts);
    add_parts_kernel<<<1, 32, 0, run_of(s)->gpu->stream>>>(parts + 1, n_parts, parts);
    if (!finish(s, &total, parts, sizeof total))
        return 0;
    *n_good = total.n_good;
    return total.sum;
}

static const struct fzm_scan_passes passes = {
    scan_extremes, scan_rest, scan_min_magnitude, scan_is_fixed_point, scan_squared_error,
};

size_t fzm_gpu_quantizer_scan_scratch_nbytes(uint64_t n_elems)
{
    const size_t parts =
        (size_t)(fzm_div_up(n_elems, FZM_SCAN_PARTITION_N_ELEMS) + 1) * sizeof(struct error_part);
    return parts > sizeof(struct fzm_reduce_result) ? parts : sizeof(struct fzm_reduce_result);
}

int fzm_gpu_quantizer_resolve(void *params, const struct fzm_call *c)
{
    struct fzm_quantizer_params *const p = (struct fzm_quantizer_params *)params;
    struct scan_run run = {c->gpu, c->err, 0};
    fzm_quantizer_resolve(p, c, &passes, &run);
    return run.code < 0 ? run.code : fzm_quantizer_is_exact(p);
}
