/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer on the device: coding and decoding of whole arrays. A warp takes the 256 elements inside which
 * codes of outliers repeat, lane i the elements i, i + 32, ...; its mask words are ballots. */
#include "quantizer.cuh"

#include "quantizer_code.cuh"
#include "quantizer_load.cuh"

enum { IN_X = 0, OUT_CODES = 0, OUT_MASK = 1, OUT_VALS = 2 };

enum { N_THREADS = 256, N_ROWS = FZM_QUANTIZER_REPEAT_BLOCK / 32, BLOCK_N_ELEMS = N_THREADS * N_ROWS };

/* The head of the scratch: a word that tells whether there are outliers. */
enum { HEAD_NBYTES = 256 };

/* Codes of outliers become the last good one before them in the warp's elements, 0 if there is none. */
template <typename CODE>
FZM_D void repeat_codes(CODE (&code)[N_ROWS], const uint32_t (&bad)[N_ROWS], unsigned lane)
{
    CODE last = 0;
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        const uint32_t good = ~bad[r], before = good & ((1u << lane) - 1);
        const CODE near = __shfl_sync(0xffffffffu, code[r], before ? 31 - __clz(before) : 0);
        const CODE end = __shfl_sync(0xffffffffu, code[r], good ? 31 - __clz(good) : 0);
        if (bad[r] >> lane & 1)
            code[r] = before ? near : last;
        last = good ? end : last;
    }
}

/* HAS_OUTLIERS: false for integers without a fill value; then mask and any are not used. */
template <int KIND, typename T, typename CODE, bool HAS_OUTLIERS>
static __global__ void __launch_bounds__(N_THREADS)
    quantize_kernel(const __grid_constant__ struct fzm_coder<KIND, T> coder, const T *x, uint64_t n,
                    bool has_fill, typename fzm_uint<sizeof(T)>::type fill, CODE *codes, uint32_t *mask,
                    uint32_t *any)
{
    const unsigned lane = threadIdx.x & 31;
    const uint64_t first =
        (uint64_t)blockIdx.x * BLOCK_N_ELEMS + threadIdx.x / 32 * FZM_QUANTIZER_REPEAT_BLOCK;
    CODE code[N_ROWS];
    T v[N_ROWS];
    uint32_t bad[N_ROWS], all_bad = 0, mine = 0;
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        const uint64_t i = first + 32 * r + lane;
        v[r] = i < n ? x[i] : (T)0;
    }
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        bool is_good = fzm_encode(coder, v[r], &code[r]);
        if (HAS_OUTLIERS) {
            is_good = is_good && !(has_fill && fzm_bits_of(v[r]) == fill);
            bad[r] = __ballot_sync(0xffffffffu, !is_good && first + 32 * r + lane < n);
            mine = lane == r ? bad[r] : mine;
            all_bad |= bad[r];
        }
    }
    if (HAS_OUTLIERS && all_bad) {
        repeat_codes(code, bad, lane);
        if (lane == 0)
            *any = 1;
    }
    if (HAS_OUTLIERS && lane < N_ROWS && first + 32 * lane < n)
        mask[first / 32 + lane] = mine;
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        const uint64_t i = first + 32 * r + lane;
        if (i < n)
            codes[i] = code[r];
    }
}

template <int KIND, typename T, typename CODE>
static __global__ void __launch_bounds__(N_THREADS)
    dequantize_kernel(const __grid_constant__ struct fzm_coder<KIND, T> coder, const struct fzm_section codes,
                      uint64_t n, T *y)
{
    typedef typename fzm_uint<sizeof(CODE)>::type word;
    const uint64_t first = (uint64_t)blockIdx.x * BLOCK_N_ELEMS + threadIdx.x;
    CODE code[N_ROWS];
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        const uint64_t i = first + N_THREADS * r;
        code[r] = i < n ? (CODE)fzm_section_load<word>(codes, i) : 0;
    }
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        const uint64_t i = first + N_THREADS * r;
        if (i < n)
            y[i] = fzm_decode(coder, code[r]);
    }
}

static uint32_t n_blocks_of(uint64_t n_elems) { return (uint32_t)fzm_div_up(n_elems, BLOCK_N_ELEMS); }

template <int KIND, typename T, typename CODE> static void quantize(const struct fzm_call *c, uint32_t *any)
{
    typedef typename fzm_uint<sizeof(T)>::type word;
    const struct fzm_quantizer_params *const p = (const struct fzm_quantizer_params *)c->params;
    const struct fzm_shape *const shape = &c->in[IN_X].shape;
    const uint32_t n_blocks = n_blocks_of(shape->n_elems);
    const T *const x = (const T *)c->in[IN_X].data;
    CODE *const codes = (CODE *)c->out[OUT_CODES].data;
    uint32_t *const mask = (uint32_t *)c->out[OUT_MASK].data;
    struct fzm_coder<KIND, T> coder;
    fzm_coder_init(&coder, p, shape->dtype);
    if (KIND != FZM_QUANTIZER_INTEGER || p->has_fill)
        quantize_kernel<KIND, T, CODE, true><<<n_blocks, N_THREADS, 0, c->gpu->stream>>>(
            coder, x, shape->n_elems, p->has_fill != 0, (word)p->fill, codes, mask, any);
    else
        quantize_kernel<KIND, T, CODE, false><<<n_blocks, N_THREADS, 0, c->gpu->stream>>>(
            coder, x, shape->n_elems, false, 0, codes, NULL, NULL);
}

template <int KIND, typename T, typename CODE> static void dequantize(const struct fzm_call *c)
{
    const struct fzm_shape *const shape = &c->in[IN_X].shape;
    struct fzm_coder<KIND, T> coder;
    fzm_coder_init(&coder, (const struct fzm_quantizer_params *)c->params, shape->dtype);
    dequantize_kernel<KIND, T, CODE><<<n_blocks_of(shape->n_elems), N_THREADS, 0, c->gpu->stream>>>(
        coder, fzm_section_init(c->out[OUT_CODES].data, sizeof(CODE)), shape->n_elems, (T *)c->in[IN_X].data);
}

static size_t scratch(const void *params, const struct fzm_shape *in)
{
    (void)params;
    const size_t scan = fzm_gpu_quantizer_scan_scratch_nbytes(in[IN_X].n_elems);
    const size_t outliers = HEAD_NBYTES + fzm_gpu_outlier_list_scratch_nbytes(in[IN_X].n_elems);
    return scan > outliers ? scan : outliers;
}

static size_t code_nbytes_of(const struct fzm_call *c)
{
    const struct fzm_quantizer_params *const p = (const struct fzm_quantizer_params *)c->params;
    return fzm_dtype_nbytes(fzm_quantizer_fns_get(p, c->in[IN_X].shape.dtype).code_dtype);
}

static struct fzm_outlier_list list_of(const struct fzm_call *c)
{
    struct fzm_outlier_list o;
    o.mask = c->out[OUT_MASK].data;
    o.mask_nbytes = fzm_quantizer_mask_nbytes((size_t)c->in[IN_X].shape.n_elems);
    o.values = c->out[OUT_VALS].data;
    o.n_elems = c->in[IN_X].shape.n_elems;
    o.elem_nbytes = fzm_dtype_nbytes(c->in[IN_X].shape.dtype);
    o.n_values = c->out[OUT_VALS].nbytes / o.elem_nbytes;
    o.scratch = (char *)c->scratch + HEAD_NBYTES;
    return o;
}

/* Everything is an outlier. */
static int forward_exact(struct fzm_call *c)
{
    const uint64_t n = c->in[IN_X].shape.n_elems;
    const cudaStream_t stream = c->gpu->stream;
    uint8_t *const mask = (uint8_t *)c->out[OUT_MASK].data;
    c->out[OUT_MASK].nbytes = fzm_quantizer_mask_nbytes((size_t)n);
    c->out[OUT_VALS].nbytes = (size_t)(n * fzm_dtype_nbytes(c->in[IN_X].shape.dtype));
    cudaError_t code = cudaMemsetAsync(c->out[OUT_CODES].data, 0, c->out[OUT_CODES].nbytes, stream);
    if (code == cudaSuccess)
        code = cudaMemsetAsync(mask, 0xff, (size_t)(n / 8), stream);
    if (code == cudaSuccess && n % 8)
        code = cudaMemsetAsync(mask + n / 8, (1 << n % 8) - 1, 1, stream);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(c->out[OUT_VALS].data, c->in[IN_X].data, c->out[OUT_VALS].nbytes,
                               cudaMemcpyDeviceToDevice, stream);
    return fzm_gpu_check(code, "Quantizer: copying", c->err);
}

static int forward(struct fzm_call *c)
{
    const struct fzm_quantizer_params *const p = (const struct fzm_quantizer_params *)c->params;
    const int dtype = c->in[IN_X].shape.dtype;
    uint32_t *const any = (uint32_t *)c->scratch;
    for (unsigned j = 0; j < 3; j++)
        c->out[j].pending = NULL;
    c->out[OUT_CODES].nbytes = (size_t)c->in[IN_X].shape.n_elems * code_nbytes_of(c);
    c->out[OUT_MASK].nbytes = c->out[OUT_VALS].nbytes = 0;
    if (c->in[IN_X].shape.n_elems == 0)
        return 0;
    if (p->kind == FZM_QUANTIZER_EXACT)
        return forward_exact(c);
    if (p->kind == FZM_QUANTIZER_INTEGER && !p->has_fill) {
        FZM_CALL_INT_CODER(quantize, dtype, c, any);
        return fzm_gpu_check(cudaGetLastError(), "Quantizer: coding", c->err);
    }
    c->out[OUT_MASK].pending = fzm_gpu_slot(c->gpu);
    c->out[OUT_VALS].pending = fzm_gpu_slot(c->gpu);
    if (!c->out[OUT_MASK].pending || !c->out[OUT_VALS].pending)
        return fzm_err_set(c->err, FZM_ERR_INTERNAL, "Quantizer: no slot is left for the size of an output");
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(any, 0, sizeof *any, c->gpu->stream), "Quantizer: clearing scratch",
                          c->err));
    if (p->kind == FZM_QUANTIZER_INTEGER)
        FZM_CALL_INT_CODER(quantize, dtype, c, any);
    else
        FZM_CALL_FLOAT_CODER(quantize, dtype, p, c, any);
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "Quantizer: coding", c->err));
    const struct fzm_outlier_list o = list_of(c);
    return fzm_gpu_outliers_gather(c->gpu, &o, c->in[IN_X].data, any, c->out[OUT_MASK].pending,
                                   c->out[OUT_VALS].pending, c->err);
}

static int check_sizes(const struct fzm_call *c, const struct fzm_outlier_list *o)
{
    const size_t codes_nbytes = c->out[OUT_CODES].nbytes, code_nbytes = code_nbytes_of(c);
    const size_t mask_nbytes = c->out[OUT_MASK].nbytes, vals_nbytes = c->out[OUT_VALS].nbytes;
    if (codes_nbytes / code_nbytes != o->n_elems || codes_nbytes % code_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Quantizer: %zu bytes of codes, %llu elements need %llu",
                           codes_nbytes, (unsigned long long)o->n_elems,
                           (unsigned long long)o->n_elems * code_nbytes);
    if (mask_nbytes == 0 && vals_nbytes != 0)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Quantizer: %zu bytes of outliers without a mask",
                           vals_nbytes);
    if (mask_nbytes != 0 && mask_nbytes != o->mask_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT,
                           "Quantizer: outlier mask has %zu bytes, %llu elements need %llu", mask_nbytes,
                           (unsigned long long)o->n_elems, (unsigned long long)o->mask_nbytes);
    if (vals_nbytes % o->elem_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Quantizer: %zu bytes of outliers are no whole elements",
                           vals_nbytes);
    return 0;
}

static int inverse(struct fzm_call *c)
{
    const struct fzm_quantizer_params *const p = (const struct fzm_quantizer_params *)c->params;
    const int dtype = c->in[IN_X].shape.dtype;
    const struct fzm_outlier_list o = list_of(c);
    FZM_TRY(fzm_quantizer_check_params(p, dtype, c->err));
    FZM_TRY(check_sizes(c, &o));
    if (o.n_elems == 0)
        return 0;
    if (p->kind == FZM_QUANTIZER_EXACT)
        FZM_TRY(fzm_gpu_check(
            cudaMemsetAsync(c->in[IN_X].data, 0, (size_t)o.n_elems * o.elem_nbytes, c->gpu->stream),
            "Quantizer: clearing", c->err));
    else if (p->kind == FZM_QUANTIZER_INTEGER)
        FZM_CALL_INT_CODER(dequantize, dtype, c);
    else
        FZM_CALL_FLOAT_CODER(dequantize, dtype, p, c);
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "Quantizer: decoding", c->err));
    return c->out[OUT_MASK].nbytes ? fzm_gpu_outliers_scatter(c->gpu, &o, c->in[IN_X].data, c->err) : 0;
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_quantizer;
const struct fzm_gpu_ops fzm_gpu_ops_quantizer = {
    &fzm_stage_quantizer, scratch, fzm_gpu_quantizer_resolve, NULL, forward, inverse,
};
}
