/* SPDX-License-Identifier: BSD-3-Clause */
/* BitLorenzo on the device, forward: a thread takes a word of each row of an octet. */
#include "bit_lorenzo.cuh"

enum {
    N_THREADS = 128,
    GROUP_OCTETS = 8, /* octets of a group that resolve() samples, as on the CPU */
    MAX_SAMPLE_GROUPS = 32,
    N_AXES = 8 /* sets of axes */
};

struct encode_args {
    struct fzm_bit_field f;
    struct fzm_bit_string mask;
    uint64_t n_row_words, n_octets;
    uint64_t n_items; /* words of octets to code or to count */
    uint64_t n_groups, n_sample_groups;
    unsigned axes;
    uint8_t *cells;
    unsigned long long *counts; /* resolve: bytes that are not 0, for each set of axes */
};

/* 33 bits of a row, of which the lowest is the one before the word: 0 at the row's begin. */
FZM_D uint64_t row_bits(const struct encode_args *a, uint64_t row, uint64_t word)
{
    const uint64_t at = row * a->f.n_x + 32 * word - (word != 0);
    const uint32_t low = fzm_bit_string_word(&a->mask, at / 32),
                   high = fzm_bit_string_word(&a->mask, at / 32 + 1);
    const uint64_t bits = (low | (uint64_t)high << 32) >> at % 32;
    return (word ? bits : bits << 1) & ((uint64_t)fzm_bit_row_mask(&a->f, word) << 1 | 1);
}

/* A row of an octet and the rows that predict it: themselves, and above in z, in the same way. */
struct predictors {
    uint64_t row, y, z, yz; /* 33 bits as above; 0: outside */
};

FZM_D uint32_t residual(const struct predictors *p, unsigned axes, uint32_t mask)
{
    uint64_t v = p->row;
    v ^= axes & FZM_BIT_LORENZO_Y ? p->y : 0;
    v ^= axes & FZM_BIT_LORENZO_Z ? p->z : 0;
    v ^= (axes & (FZM_BIT_LORENZO_Y | FZM_BIT_LORENZO_Z)) == (FZM_BIT_LORENZO_Y | FZM_BIT_LORENZO_Z) ? p->yz
                                                                                                     : 0;
    return (uint32_t)(v >> 1 ^ (axes & FZM_BIT_LORENZO_X ? v : 0)) & mask;
}

/* Calls use(k, predictors) for the rows of an octet. */
template <typename USE>
FZM_D void for_rows(const struct encode_args *a, uint64_t octet, uint64_t word, unsigned axes, USE use)
{
    const uint64_t first = 8 * octet, per_plane = a->f.n_rows_per_plane;
    const bool y = axes & FZM_BIT_LORENZO_Y, z = axes & FZM_BIT_LORENZO_Z;
    struct predictors p = {0, 0, 0, 0};
    uint64_t place; /* of the row in its plane */
    fzm_divide(first, per_plane, &place);
    if (y && place != 0) {
        p.row = row_bits(a, first - 1, word);
        p.z = z && first - 1 >= per_plane ? row_bits(a, first - 1 - per_plane, word) : 0;
    }
#pragma unroll
    for (unsigned k = 0; k < 8; k++) {
        if (first + k >= a->f.n_rows)
            break;
        p.y = y && place ? p.row : 0;
        p.yz = y && place ? p.z : 0;
        p.row = row_bits(a, first + k, word);
        p.z = z && first + k >= per_plane ? row_bits(a, first + k - per_plane, word) : 0;
        use(k, &p);
        place = place + 1 == per_plane ? 0 : place + 1;
    }
}

static __global__ void __launch_bounds__(N_THREADS)
    encode_kernel(const __grid_constant__ struct encode_args a)
{
    const uint64_t item = (uint64_t)blockIdx.x * N_THREADS + threadIdx.x;
    if (item >= a.n_items)
        return;
    uint64_t word;
    const uint64_t octet = fzm_divide(item, a.n_row_words, &word);
    const uint32_t mask = fzm_bit_row_mask(&a.f, word);
    uint32_t w[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for_rows(&a, octet, word, a.axes,
             [&](unsigned k, const struct predictors *p) { w[k] = residual(p, a.axes, mask); });
    if (a.f.n_rows == 1) { /* the buffer reaches to a multiple of 16 bytes */
        ((uint32_t *)(void *)a.cells)[word] = w[0];
        return;
    }
    uint64_t cells[4];
    fzm_bit_cells_of(cells, w);
    uint64_t *const to = (uint64_t *)(void *)a.cells + octet * a.f.row_nbytes + 4 * word;
#pragma unroll
    for (unsigned c = 0; c < 4; c++)
        if (4 * word + c < a.f.row_nbytes)
            to[c] = cells[c];
}

FZM_D uint32_t n_nonzero_bytes(uint32_t v) { return __popc(__vcmpne4(v, 0) & 0x01010101u); }

static __global__ void __launch_bounds__(N_THREADS) count_kernel(const __grid_constant__ struct encode_args a)
{
    uint32_t n[N_AXES] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (uint64_t item = (uint64_t)blockIdx.x * N_THREADS + threadIdx.x; item < a.n_items;
         item += (uint64_t)gridDim.x * N_THREADS) {
        uint64_t word;
        const uint64_t i = fzm_divide(item, a.n_row_words, &word), sample = i / GROUP_OCTETS;
        const uint64_t octet = sample * a.n_groups / a.n_sample_groups * GROUP_OCTETS + i % GROUP_OCTETS;
        const uint32_t mask = fzm_bit_row_mask(&a.f, word);
        if (octet < a.n_octets)
            for_rows(&a, octet, word, N_AXES - 1, [&](unsigned, const struct predictors *p) {
#pragma unroll
                for (unsigned axes = 0; axes < N_AXES; axes++)
                    n[axes] += n_nonzero_bytes(residual(p, axes, mask));
            });
    }
#pragma unroll
    for (unsigned axes = 0; axes < N_AXES; axes++) {
        const uint32_t sum = __reduce_add_sync(FZM_FULL_WARP, n[axes]);
        if (threadIdx.x % 32 == 0 && sum)
            atomicAdd(&a.counts[axes], (unsigned long long)sum);
    }
}

static size_t scratch(const void *params, const struct fzm_shape *in)
{
    (void)params;
    const struct fzm_bit_field f = fzm_bit_field_of(&in[1]);
    const size_t decode = fzm_gpu_bit_lorenzo_decode_scratch(&f), counts = N_AXES * sizeof(uint64_t);
    return decode > counts ? decode : counts;
}

static struct encode_args args_of(const struct fzm_call *c)
{
    struct encode_args a;
    memset(&a, 0, sizeof a);
    a.f = fzm_bit_field_of(&c->in[1].shape);
    a.mask.bytes = (const uint8_t *)c->in[0].data;
    a.mask.nbytes = c->in[0].nbytes;
    a.mask.aligned = (uintptr_t)a.mask.bytes % 4 == 0;
    a.n_row_words = fzm_div_up(a.f.n_x, 32);
    a.n_octets = fzm_div_up(a.f.n_rows, 8);
    a.n_groups = fzm_div_up(a.n_octets, GROUP_OCTETS);
    a.n_sample_groups = a.n_groups < MAX_SAMPLE_GROUPS ? a.n_groups : (uint64_t)MAX_SAMPLE_GROUPS;
    a.counts = (unsigned long long *)c->scratch;
    return a;
}

static int resolve(void *params, const struct fzm_call *c)
{
    struct fzm_bit_lorenzo_params *const p = (struct fzm_bit_lorenzo_params *)params;
    struct encode_args a = args_of(c);
    uint64_t counts[N_AXES];
    if (c->in[0].nbytes == 0 || p->axes != 0)
        return 0;
    a.n_items = (a.n_groups == 1 ? a.n_octets : a.n_sample_groups * GROUP_OCTETS) * a.n_row_words;
    const uint64_t n_blocks = fzm_div_up(a.n_items, N_THREADS),
                   most = 8 * (uint64_t)c->gpu->n_multiprocessors;
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(a.counts, 0, sizeof counts, c->gpu->stream), "BitLorenzo", c->err));
    count_kernel<<<(uint32_t)(n_blocks < most ? n_blocks : most), N_THREADS, 0, c->gpu->stream>>>(a);
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "BitLorenzo", c->err));
    FZM_TRY(fzm_gpu_read(c->gpu, counts, a.counts, sizeof counts, c->err));
    unsigned best = 0;
    for (unsigned axes = 1; axes < N_AXES; axes++)
        if (counts[axes] < counts[best])
            best = axes;
    p->axes = best + 1;
    return 0;
}

static int forward(struct fzm_call *c)
{
    struct encode_args a = args_of(c);
    c->out[0].pending = NULL;
    c->out[0].nbytes = 0;
    if (c->in[0].nbytes == 0)
        return 0;
    a.axes = ((const struct fzm_bit_lorenzo_params *)c->params)->axes - 1;
    a.cells = (uint8_t *)c->out[0].data;
    a.n_items = a.n_octets * a.n_row_words;
    c->out[0].nbytes = (size_t)fzm_bit_field_nbytes(&a.f);
    encode_kernel<<<(uint32_t)fzm_div_up(a.n_items, N_THREADS), N_THREADS, 0, c->gpu->stream>>>(a);
    return fzm_gpu_check(cudaGetLastError(), "BitLorenzo", c->err);
}

static int inverse_nbytes(const struct fzm_call *c, size_t *in_nbytes)
{
    if (c->out[0].nbytes == 0)
        *in_nbytes = 0;
    return 0;
}

extern "C" {
extern const struct fzm_gpu_ops fzm_gpu_ops_bit_lorenzo;
const struct fzm_gpu_ops fzm_gpu_ops_bit_lorenzo = {
    &fzm_stage_bit_lorenzo, scratch, resolve, inverse_nbytes, forward, fzm_gpu_bit_lorenzo_inverse,
};
}
