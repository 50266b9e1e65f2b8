/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizer: the stage row, coding and decoding of whole arrays. */
#include "quantizer.h"

#include "../cpu/pool.h"
#include "../cpu/quantizer.h"
#include "../stages.h"
#include "quantizer_resolve.h"

/* Elements of a task: whole bytes of the mask, whole blocks of repeated codes. */
enum { PARTITION_N_ELEMS = 65536 };

enum { IN_X = 0, OUT_CODES = 0, OUT_MASK = 1, OUT_VALS = 2 };

static const char *const modes[] = {"pipeline", "abs", "rel", "range", "maxabs", "psnr", NULL};
static const char *const code_types[] = {"auto", "i32", "i64", NULL};
static const char *const kinds[] = {"linear", "log", "integer", "exact", NULL};

_Static_assert(sizeof(struct fzm_quantizer_params) <= FZM_MAX_PARAMS_NBYTES, "stage.h");

#define OFF(member) offsetof(struct fzm_quantizer_params, member)

static const struct fzm_param params[] = {
    {"mode", "what bound means; pipeline: as for the pipeline", FZM_P_ENUM, FZM_PF_BOUND, OFF(mode), 0, 5, 0, modes},
    {"bound", "value of the mode; 0: exact", FZM_P_F64, FZM_PF_BOUND, OFF(bound), 0, 1.7976931348623157e308, 0, NULL},
    {"code_type", "type of the codes; auto: i32 if the chunk's codes fit", FZM_P_ENUM, 0, OFF(code_type), 0, 2, 0,
     code_types},
    {"kind", "how codes become values", FZM_P_ENUM, FZM_PF_RUNTIME, OFF(kind), 0, 3, 0, kinds},
    {"step", "distance of neighbouring values; log: of their log2", FZM_P_F64, FZM_PF_RUNTIME, OFF(step), 0,
     1.7976931348623157e308, 1, NULL},
    {"offset", "value of code 0; log: bin of code 1", FZM_P_F64, FZM_PF_RUNTIME, OFF(offset), -1.7976931348623157e308,
     1.7976931348623157e308, 0, NULL},
    {"threshold", "elements of at least this magnitude are stored exactly; 0: none", FZM_P_F64, 0, OFF(threshold), 0,
     1.7976931348623157e308, 0, NULL},
    {"int_lo0", "least value of integers, low word", FZM_P_U32, FZM_PF_RUNTIME, OFF(int_lo[0]), 0, 4294967295.0, 0,
     NULL},
    {"int_lo1", "least value of integers, high word", FZM_P_U32, FZM_PF_RUNTIME, OFF(int_lo[1]), 0, 4294967295.0, 0,
     NULL},
    {"int_hi0", "greatest value of integers, low word", FZM_P_U32, FZM_PF_RUNTIME, OFF(int_hi[0]), 0, 4294967295.0, 0,
     NULL},
    {"int_hi1", "greatest value of integers, high word", FZM_P_U32, FZM_PF_RUNTIME, OFF(int_hi[1]), 0, 4294967295.0, 0,
     NULL},
};

static const struct fzm_port in_ports[] = {{"input", "f32 f64 int", 0}};
static const struct fzm_port out_ports[] = {
    {"codes", "i32 i64", 0},
    {"outlier_mask", "bytes", FZM_PORT_VARIABLE},
    {"outlier_vals", "type of the input", FZM_PORT_VARIABLE},
};

static int shape(const void *opaque, const struct fzm_shape *in, struct fzm_shape *out, struct fzm_err *err)
{
    const struct fzm_quantizer_params *const p = (const struct fzm_quantizer_params *)opaque;
    const int dtype = in[IN_X].dtype;
    const bool is_float = fzm_dtype_is_float(dtype);
    int code = dtype == FZM_F64 || dtype == FZM_I64 || dtype == FZM_U64 ? FZM_I64 : FZM_I32;
    if (!is_float && !fzm_dtype_is_int(dtype))
        return fzm_err_set(err, FZM_ERR_CONFIG, "Quantizer takes numbers, not untyped bytes");
    if (!is_float && p->mode == FZM_REL)
        return fzm_err_set(err, FZM_ERR_CONFIG,
                           "Quantizer: mode rel needs floats; integers take abs, range, maxabs or psnr");
    if (!is_float && p->threshold > 0)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Quantizer: threshold needs floats");
    if (p->code_type == FZM_QUANTIZER_CODE_I64 && code != FZM_I64)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Quantizer: code_type i64 needs f64, i64 or u64 elements");
    if (p->code_type == FZM_QUANTIZER_CODE_I32 && !is_float && code == FZM_I64)
        return fzm_err_set(err, FZM_ERR_CONFIG, "Quantizer: 64-bit integers have codes of type i64");
    if (p->code_type == FZM_QUANTIZER_CODE_I32)
        code = FZM_I32;
    out[OUT_CODES] = in[IN_X];
    out[OUT_CODES].dtype = (uint8_t)code;
    out[OUT_MASK] = fzm_shape_1d(FZM_BYTES, fzm_div_up(in[IN_X].n_elems, 8));
    out[OUT_VALS] = fzm_shape_1d(dtype, in[IN_X].n_elems);
    return 0;
}

static size_t scratch(const void *opaque, const struct fzm_shape *in, unsigned n_threads)
{
    const size_t n = (size_t)in[IN_X].n_elems;
    const size_t scan = fzm_scan_scratch_nbytes(n), outliers = fzm_quantizer_outlier_scratch_nbytes(n);
    (void)opaque, (void)n_threads;
    return scan > outliers ? scan : outliers;
}

struct job {
    const struct fzm_quantizer_params *p;
    struct fzm_quantizer_fns fns;
    char *x, *codes;
    uint8_t *mask;
    size_t n_elems, elem_nbytes, code_nbytes;
    uint64_t *n_bad; /* per partition */
};

static struct job job_init(const struct fzm_call *c)
{
    struct job j;
    j.p = (const struct fzm_quantizer_params *)c->params;
    j.fns = fzm_quantizer_fns_get(j.p, c->in[IN_X].shape.dtype);
    j.x = (char *)c->in[IN_X].data;
    j.codes = (char *)c->out[OUT_CODES].data;
    j.mask = (uint8_t *)c->out[OUT_MASK].data;
    j.n_elems = (size_t)c->in[IN_X].shape.n_elems;
    j.elem_nbytes = fzm_dtype_nbytes(c->in[IN_X].shape.dtype);
    j.code_nbytes = fzm_dtype_nbytes(j.fns.code_dtype);
    j.n_bad = (uint64_t *)c->scratch;
    return j;
}

static void quantize_task(void *arg, size_t part, unsigned worker)
{
    const struct job *const j = (const struct job *)arg;
    const size_t first = part * PARTITION_N_ELEMS, left = j->n_elems - first;
    const size_t end = first + (left < PARTITION_N_ELEMS ? left : PARTITION_N_ELEMS);
    uint64_t bad[FZM_QUANTIZER_MAX_BAD_WORDS], n_bad = 0;
    (void)worker;
    for (size_t i = first; i < end; i += FZM_QUANTIZER_MAX_BLOCK) {
        const size_t n = end - i < FZM_QUANTIZER_MAX_BLOCK ? end - i : FZM_QUANTIZER_MAX_BLOCK;
        char *const codes = j->codes + i * j->code_nbytes;
        const size_t count = j->fns.quantize(j->p, j->x + i * j->elem_nbytes, n, codes, bad);
        uint8_t *const mask = j->mask + i / 8;
        if (count == 0) {
            memset(mask, 0, fzm_quantizer_mask_nbytes(n));
            continue;
        }
        n_bad += count;
        fzm_quantizer_repeat_codes(codes, j->fns.code_dtype, n, bad);
        for (size_t b = 0; b < fzm_quantizer_mask_nbytes(n); b++)
            mask[b] = (uint8_t)(bad[b / 8] >> b % 8 * 8);
    }
    j->n_bad[part] = n_bad;
}

static int forward(struct fzm_call *c)
{
    struct job j = job_init(c);
    const size_t n_parts = (size_t)fzm_div_up(j.n_elems, PARTITION_N_ELEMS);
    uint64_t n_bad = 0;
    fzm_pool_run(c->pool, n_parts, quantize_task, &j);
    for (size_t i = 0; i < n_parts; i++)
        n_bad += j.n_bad[i];
    if (n_bad)
        fzm_quantizer_gather_outliers(c->pool, j.mask, j.x, j.n_elems, j.elem_nbytes, c->out[OUT_VALS].data,
                                      c->scratch);
    c->out[OUT_CODES].shape.n_elems = j.n_elems;
    c->out[OUT_CODES].nbytes = j.n_elems * j.code_nbytes;
    c->out[OUT_MASK].nbytes = n_bad ? fzm_quantizer_mask_nbytes(j.n_elems) : 0;
    c->out[OUT_MASK].shape.n_elems = c->out[OUT_MASK].nbytes;
    c->out[OUT_VALS].shape.n_elems = n_bad;
    c->out[OUT_VALS].nbytes = (size_t)n_bad * j.elem_nbytes;
    return 0;
}

static void dequantize_task(void *arg, size_t part, unsigned worker)
{
    const struct job *const j = (const struct job *)arg;
    const size_t first = part * PARTITION_N_ELEMS, left = j->n_elems - first;
    const size_t end = first + (left < PARTITION_N_ELEMS ? left : PARTITION_N_ELEMS);
    (void)worker;
    for (size_t i = first; i < end; i += FZM_QUANTIZER_MAX_BLOCK)
        j->fns.dequantize(j->p, j->codes + i * j->code_nbytes,
                          end - i < FZM_QUANTIZER_MAX_BLOCK ? end - i : FZM_QUANTIZER_MAX_BLOCK,
                          j->x + i * j->elem_nbytes);
}

int fzm_quantizer_check_params(const struct fzm_quantizer_params *p, int dtype, struct fzm_err *err)
{
    const double top = dtype == FZM_F32 ? 3.4028234663852886e38 : 1.7976931348623157e308;
    const bool is_float = fzm_dtype_is_float(dtype);
    if (p->kind > FZM_QUANTIZER_EXACT || is_float == (p->kind == FZM_QUANTIZER_INTEGER))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: kind %u does not go with the element type",
                           (unsigned)p->kind);
    if (!(p->step > 0 && p->step <= top && p->offset >= -top && p->offset <= top))
        return fzm_err_set(err, FZM_ERR_CORRUPT, "Quantizer: step or offset is not a finite number of the type");
    return 0;
}

static int inverse(struct fzm_call *c)
{
    struct job j = job_init(c);
    FZM_TRY(fzm_quantizer_check_params(j.p, c->in[IN_X].shape.dtype, c->err));
    if (c->out[OUT_CODES].nbytes / j.code_nbytes != j.n_elems || c->out[OUT_CODES].nbytes % j.code_nbytes)
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "Quantizer: %zu bytes of codes, %zu elements need %zu",
                           c->out[OUT_CODES].nbytes, j.n_elems, j.n_elems * j.code_nbytes);
    fzm_pool_run(c->pool, (size_t)fzm_div_up(j.n_elems, PARTITION_N_ELEMS), dequantize_task, &j);
    return fzm_quantizer_scatter_outliers(c->pool, j.mask, c->out[OUT_MASK].nbytes, c->out[OUT_VALS].data,
                                          c->out[OUT_VALS].nbytes, j.x, j.n_elems, j.elem_nbytes, c->scratch, c->err);
}

/* What is to be exact in every element is better left to the lossless pipeline. */
static int resolve(void *opaque, const struct fzm_call *c)
{
    struct fzm_quantizer_params *const p = (struct fzm_quantizer_params *)opaque;
    fzm_quantizer_resolve(p, c, &fzm_scan_passes_cpu, c->pool);
    return fzm_quantizer_is_exact(p);
}

const struct fzm_stage fzm_stage_quantizer = {
    .name = "Quantizer",
    .help = "numbers to integers under an error bound; what cannot be kept within it is stored exactly",
    .reference = "linear and log quantisation with verification, as in PFPL (IPDPS 2025)",
    .id = 1,
    .version = 1,
    .n_in = 1,
    .n_out = 3,
    .n_params = sizeof params / sizeof params[0],
    .params_nbytes = sizeof(struct fzm_quantizer_params),
    .flags = FZM_STAGE_LOSSY | FZM_STAGE_BOUND_CHECKED,
    .in = in_ports,
    .out = out_ports,
    .params = params,
    .shape = shape,
    .scratch = scratch,
    .resolve = resolve,
    .forward = forward,
    .inverse = inverse,
};
