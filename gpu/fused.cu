/* SPDX-License-Identifier: BSD-3-Clause */
/* The fused chains of the GPU engine, as the graph walker sees them. Arrays of 32-bit elements; all others run stage
 * by stage. */
#include "fused_choice.cuh"
#include "fused_fast.cuh"
#include "fused_planes.cuh"

extern "C" {
#include "../core/cpu/fused.h"
extern const struct fzm_fused *const fzm_gpu_fused[];
}

enum { X = 0, OUT_MASK = 1, OUT_VALS = 2, OUT_MODES = 1, OUT_ORIGINS = 2, RESULT_NBYTES = 256 };

/* ---- what the chains share ---- */

/* A chain's calls by their parts. quantizer is NULL in the lossless chain. */
struct parts {
    const struct fzm_call *quantizer, *lorenzo, *last;
    const struct fzm_shape *shape;
};

static struct parts parts_of(const struct fzm_call *calls, bool quantized, unsigned n_stages)
{
    struct parts p;
    p.quantizer = quantized ? &calls[0] : NULL;
    p.lorenzo = &calls[quantized];
    p.last = &calls[n_stages - 1];
    p.shape = &calls[0].in[X].shape;
    return p;
}

static bool is_word_aligned(const struct fzm_buf *b) { return (uintptr_t)b->data % 4 == 0; }

static bool is_supported(const struct parts *p)
{
    if (p->shape->n_elems == 0 || p->shape->n_elems > 1u << 30 || !is_word_aligned(&p->last->out[0]) ||
        !is_word_aligned(&p->lorenzo->out[OUT_ORIGINS]))
        return false;
    if (!p->quantizer)
        return p->shape->dtype == FZM_F32 || p->shape->dtype == FZM_I32 || p->shape->dtype == FZM_U32;
    const struct fzm_quantizer_params *const q = (const struct fzm_quantizer_params *)p->quantizer->params;
    return p->shape->dtype == FZM_F32 && q->kind == FZM_QUANTIZER_LINEAR && q->code_type != FZM_QUANTIZER_CODE_I64;
}

static const struct fzm_adaptive_lorenzo_params *lorenzo_params(const struct parts *p)
{
    return (const struct fzm_adaptive_lorenzo_params *)p->lorenzo->params;
}

static bool tiling_of(const struct parts *p, int geometry, struct fzm_tiling *t)
{
    return fzm_tiling_init(t, p->shape, fzm_adaptive_lorenzo_n_tile_elems(lorenzo_params(p)), geometry);
}

/* Bytes of scratch behind the result. */
static size_t scratch_nbytes(const struct parts *p, size_t (*of_tiling)(const struct fzm_tiling *t))
{
    const int chosen = (int)lorenzo_params(p)->geometry;
    size_t most = fzm_gpu_outlier_list_scratch_nbytes(p->shape->n_elems);
    struct fzm_tiling t;
    for (int g = FZM_GEOMETRY_1D; g < FZM_N_GEOMETRIES; g++)
        if ((chosen == FZM_GEOMETRY_AUTO || chosen == g) && tiling_of(p, g, &t) && of_tiling(&t) > most)
            most = of_tiling(&t);
    return RESULT_NBYTES + most;
}

static void *behind_result(void *scratch) { return (char *)scratch + RESULT_NBYTES; }

/* Sizes from a result to the slots; those of outliers may be NULL. */
static __global__ void sizes_kernel(const struct fzm_gpu_fast_result *result, uint64_t *section, uint64_t *mask,
                                    uint64_t *vals, uint64_t mask_nbytes)
{
    *section = result->section_nbytes;
    if (mask) {
        *mask = result->n_outliers ? mask_nbytes : 0;
        *vals = result->n_outliers * 4;
    }
}

static int set_sizes(const struct parts *p, const struct fzm_tiling *t, const struct fzm_gpu_fast_result *result)
{
    struct fzm_gpu *const gpu = p->lorenzo->gpu;
    struct fzm_buf *const section = &p->last->out[0];
    uint64_t *mask = NULL, *vals = NULL;
    section->nbytes = 0;
    section->pending = fzm_gpu_slot(gpu);
    if (p->quantizer) {
        p->quantizer->out[OUT_MASK].pending = mask = fzm_gpu_slot(gpu);
        p->quantizer->out[OUT_VALS].pending = vals = fzm_gpu_slot(gpu);
        p->quantizer->out[OUT_MASK].nbytes = p->quantizer->out[OUT_VALS].nbytes = 0;
    }
    if (!section->pending || (p->quantizer && (!mask || !vals)))
        return fzm_err_set(p->lorenzo->err, FZM_ERR_INTERNAL, "fused chain: no slot is left for the size of an output");
    p->lorenzo->out[OUT_MODES].nbytes = (size_t)fzm_div_up(t->n_tiles, 4);
    p->lorenzo->out[OUT_ORIGINS].nbytes = (size_t)t->n_tiles * 4;
    sizes_kernel<<<1, 1, 0, gpu->stream>>>(result, section->pending, mask, vals,
                                           fzm_quantizer_mask_nbytes((size_t)p->shape->n_elems));
    return fzm_gpu_check(cudaGetLastError(), "sizes", p->lorenzo->err);
}

static struct fzm_outlier_list outliers_of(const struct fzm_call *quantizer, void *scratch)
{
    struct fzm_outlier_list o;
    o.mask = quantizer->out[OUT_MASK].data;
    o.mask_nbytes = quantizer->out[OUT_MASK].nbytes;
    o.values = quantizer->out[OUT_VALS].data;
    o.n_elems = quantizer->in[X].shape.n_elems;
    o.n_values = quantizer->out[OUT_VALS].nbytes / 4;
    o.elem_nbytes = 4;
    o.scratch = scratch;
    return o;
}

/* The outliers' values, when their number is known. */
static int finish(struct fzm_call *calls, void *scratch)
{
    const struct fzm_outlier_list o = outliers_of(&calls[0], behind_result(scratch));
    return fzm_gpu_outliers_gather(calls[0].gpu, &o, calls[0].in[X].data, NULL, NULL, NULL, calls[0].err);
}

/* What the inverse of both chains wants of the sections' sizes. */
static int check_sections(const struct parts *p, const struct fzm_tiling *t)
{
    struct fzm_err *const err = p->lorenzo->err;
    if (p->lorenzo->out[OUT_MODES].nbytes != fzm_div_up(t->n_tiles, 4) ||
        p->lorenzo->out[OUT_ORIGINS].nbytes != t->n_tiles * 4)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: modes or origins of the wrong size");
    if (!p->quantizer)
        return 0;
    const struct fzm_buf *const mask = &p->quantizer->out[OUT_MASK], *const vals = &p->quantizer->out[OUT_VALS];
    FZM_TRY(fzm_quantizer_check_params((const struct fzm_quantizer_params *)p->quantizer->params, p->shape->dtype, err));
    if (mask->nbytes == 0 ? vals->nbytes != 0
                          : mask->nbytes != fzm_quantizer_mask_nbytes((size_t)p->shape->n_elems) || vals->nbytes % 4)
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: outlier mask of %zu bytes and values of %zu do not fit",
                           mask->nbytes, vals->nbytes);
    return 0;
}

static __global__ void damage_kernel(const struct fzm_gpu_fast_result *result, uint32_t *corrupt)
{
    if (result->corrupt)
        *corrupt = 1;
}

/* After the inverse of a chain: its verdict, and outliers over the elements. */
static int finish_inverse(const struct parts *p, const struct fzm_gpu_fast_result *result, void *scratch)
{
    const struct fzm_gpu *const gpu = p->lorenzo->gpu;
    damage_kernel<<<1, 1, 0, gpu->stream>>>(result, gpu->corrupt);
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "fused chain", p->lorenzo->err));
    if (!p->quantizer || p->quantizer->out[OUT_MASK].nbytes == 0)
        return 0;
    const struct fzm_outlier_list o = outliers_of(p->quantizer, scratch);
    return fzm_gpu_outliers_scatter(gpu, &o, p->quantizer->in[X].data, p->lorenzo->err);
}

/* FZM_PF_RUNTIME of the predictor. */
static int resolve(struct fzm_call *calls, void *scratch)
{
    return fzm_gpu_choose_geometry((struct fzm_adaptive_lorenzo_params *)(uintptr_t)calls[1].params, &calls[0], scratch);
}

/* ---- fast ---- */

static int fast_accepts(const struct fzm_call *calls)
{
    const struct parts p = parts_of(calls, true, 3);
    return fzm_fused_fast.accepts(calls) && is_supported(&p);
}

static size_t fast_scratch(const struct fzm_call *calls, unsigned n_threads)
{
    (void)n_threads;
    const struct parts p = parts_of(calls, true, 3);
    return scratch_nbytes(&p, fzm_gpu_fast_scratch_nbytes);
}

/* Codes have a range of their own. */
static bool is_in_range(const struct fzm_quantizer_params *q)
{
    const struct fzm_linear_f32 k = fzm_linear_f32_init(q);
    return q->is_in_range && k.lo <= q->lo && k.hi >= q->hi;
}

static struct fzm_gpu_fast fast_of(const struct parts *p, const struct fzm_tiling *t, void *scratch)
{
    struct fzm_gpu_fast f;
    memset(&f, 0, sizeof f);
    f.quantizer = (const struct fzm_quantizer_params *)p->quantizer->params;
    f.tiling = t;
    f.geometry = (int)lorenzo_params(p)->geometry;
    f.elems = (float *)p->quantizer->in[X].data;
    f.section = (uint8_t *)p->last->out[0].data;
    f.section_nbytes = p->last->out[0].nbytes;
    f.modes = (uint8_t *)p->lorenzo->out[OUT_MODES].data;
    f.origins = (int32_t *)p->lorenzo->out[OUT_ORIGINS].data;
    f.mask = (uint32_t *)p->quantizer->out[OUT_MASK].data;
    f.in_range = is_in_range(f.quantizer);
    f.result = (struct fzm_gpu_fast_result *)scratch;
    f.scratch = behind_result(scratch);
    return f;
}

static int fast_forward(struct fzm_call *calls, void *scratch)
{
    const struct parts p = parts_of(calls, true, 3);
    struct fzm_tiling t;
    if (!tiling_of(&p, (int)lorenzo_params(&p)->geometry, &t))
        return fzm_err_set(calls[1].err, FZM_ERR_INTERNAL, "AdaptiveLorenzo: no tiling");
    const struct fzm_gpu_fast f = fast_of(&p, &t, scratch);
    FZM_TRY(fzm_gpu_check(fzm_gpu_fast_forward(&f, calls[0].gpu->stream), "fast chain", calls[0].err));
    return set_sizes(&p, &t, f.result);
}

static int fast_inverse(struct fzm_call *calls, void *scratch)
{
    const struct parts p = parts_of(calls, true, 3);
    struct fzm_tiling t;
    if (!tiling_of(&p, (int)lorenzo_params(&p)->geometry, &t))
        return fzm_err_set(calls[1].err, FZM_ERR_CORRUPT, "AdaptiveLorenzo: geometry does not fit the array");
    FZM_TRY(check_sections(&p, &t));
    const struct fzm_gpu_fast f = fast_of(&p, &t, scratch);
    FZM_TRY(fzm_gpu_check(fzm_gpu_fast_inverse(&f, calls[0].gpu->stream), "fast chain", calls[0].err));
    return finish_inverse(&p, f.result, behind_result(scratch));
}

/* ---- bit planes, with and without a Quantizer ---- */

static int planes_accepts(const struct fzm_call *calls)
{
    const struct parts p = parts_of(calls, true, 5);
    return fzm_fused_planes.accepts(calls) && is_supported(&p);
}

static int lossless_accepts(const struct fzm_call *calls)
{
    const struct parts p = parts_of(calls, false, 4);
    return fzm_fused_lossless.accepts(calls) && is_supported(&p);
}

static size_t planes_scratch(const struct fzm_call *calls, unsigned n_threads)
{
    (void)n_threads;
    const struct parts p = parts_of(calls, true, 5);
    return scratch_nbytes(&p, fzm_gpu_planes_scratch_nbytes);
}

static size_t lossless_scratch(const struct fzm_call *calls, unsigned n_threads)
{
    (void)n_threads;
    const struct parts p = parts_of(calls, false, 4);
    return scratch_nbytes(&p, fzm_gpu_planes_scratch_nbytes);
}

static struct fzm_gpu_planes planes_of(const struct parts *p, const struct fzm_tiling *t, void *scratch)
{
    struct fzm_gpu_planes f;
    memset(&f, 0, sizeof f);
    f.quantizer = p->quantizer ? (const struct fzm_quantizer_params *)p->quantizer->params : NULL;
    f.tiling = t;
    f.geometry = (int)lorenzo_params(p)->geometry;
    f.is_float = fzm_dtype_is_float(p->shape->dtype);
    f.elems = p->quantizer ? p->quantizer->in[X].data : p->lorenzo->in[X].data;
    f.section = (uint8_t *)p->last->out[0].data;
    f.section_nbytes = p->last->out[0].nbytes;
    f.modes = (uint8_t *)p->lorenzo->out[OUT_MODES].data;
    f.origins = (int32_t *)p->lorenzo->out[OUT_ORIGINS].data;
    f.mask = p->quantizer ? (uint32_t *)p->quantizer->out[OUT_MASK].data : NULL;
    f.result = (struct fzm_gpu_fast_result *)scratch;
    f.scratch = behind_result(scratch);
    return f;
}

static int planes_run(const struct parts *p, bool is_forward, void *scratch)
{
    const cudaStream_t stream = p->lorenzo->gpu->stream;
    struct fzm_err *const err = p->lorenzo->err;
    struct fzm_tiling t;
    if (!tiling_of(p, (int)lorenzo_params(p)->geometry, &t))
        return fzm_err_set(err, is_forward ? FZM_ERR_INTERNAL : FZM_ERR_CORRUPT,
                           "AdaptiveLorenzo: geometry does not fit the array");
    const struct fzm_gpu_planes f = planes_of(p, &t, scratch);
    if (is_forward) {
        FZM_TRY(fzm_gpu_check(fzm_gpu_planes_forward(&f, stream), "chain of planes", err));
        return set_sizes(p, &t, f.result);
    }
    FZM_TRY(check_sections(p, &t));
    FZM_TRY(fzm_gpu_check(fzm_gpu_planes_inverse(&f, stream), "chain of planes", err));
    return finish_inverse(p, f.result, behind_result(scratch));
}

static int planes_forward(struct fzm_call *calls, void *scratch)
{
    const struct parts p = parts_of(calls, true, 5);
    return planes_run(&p, true, scratch);
}

static int planes_inverse(struct fzm_call *calls, void *scratch)
{
    const struct parts p = parts_of(calls, true, 5);
    return planes_run(&p, false, scratch);
}

static int lossless_forward(struct fzm_call *calls, void *scratch)
{
    const struct parts p = parts_of(calls, false, 4);
    return planes_run(&p, true, scratch);
}

static int lossless_inverse(struct fzm_call *calls, void *scratch)
{
    const struct parts p = parts_of(calls, false, 4);
    return planes_run(&p, false, scratch);
}

/* ---- rows, members in the order of struct fzm_fused ---- */

static const struct fzm_stage *const fast_chain[] = {&fzm_stage_quantizer, &fzm_stage_adaptive_lorenzo,
                                                     &fzm_stage_adaptive_bitpack};
static const struct fzm_stage *const planes_chain[] = {&fzm_stage_quantizer, &fzm_stage_adaptive_lorenzo,
                                                       &fzm_stage_zigzag, &fzm_stage_bitshuffle, &fzm_stage_rze};
static const struct fzm_stage *const lossless_chain[] = {&fzm_stage_adaptive_lorenzo, &fzm_stage_negabinary,
                                                         &fzm_stage_bitshuffle, &fzm_stage_rze};

static const struct fzm_fused fast = {"fast", fast_chain, 3, 1, true, fast_accepts, fast_scratch,
                                      resolve, fast_forward, fast_inverse, finish, OUT_VALS};
static const struct fzm_fused planes = {"planes", planes_chain, 5, 1, true, planes_accepts, planes_scratch,
                                        resolve, planes_forward, planes_inverse, finish, OUT_VALS};
static const struct fzm_fused lossless = {"lossless planes", lossless_chain, 4, 0, true, lossless_accepts, lossless_scratch,
                                          NULL, lossless_forward, lossless_inverse, NULL, 0};

const struct fzm_fused *const fzm_gpu_fused[] = {&planes, &lossless, &fast, NULL};
