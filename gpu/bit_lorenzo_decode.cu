/* SPDX-License-Identifier: BSD-3-Clause */
/* BitLorenzo on the device, backward: cells become rows of whole words while the prediction along x is
 * undone; then sums along y and along z; then rows are packed, unless they are whole words of the mask
 * already. All sums are exclusive ors, so that they can be cut anywhere and their order does not matter. */
#include "bit_lorenzo.cuh"

enum {
    N_THREADS = 128,
    PART_WORDS = 128,       /* of a row that one warp takes: at least so many, */
    LONG_PART_WORDS = 2048, /* or so many, if there are rows enough for the whole device; */
    MANY_OCTETS = 512,
    MAX_PARTS = 2048, /* and at most so many parts, since a part reads what is before it */
    MAX_SUM_WARPS = 32,
    SUM_BLOCKS = 256, /* sums along an axis are cut until there are about so many blocks */
    PARTIALS_NBYTES = SUM_BLOCKS * 32 * 4
};

/* Rows as words: how they are cut and where they are kept. A row of one byte takes one, all others words. */
struct layout {
    uint64_t n_row_words, n_octets, part_words, n_parts;
    size_t rows_nbytes, parities_nbytes;
};

static struct layout layout_of(const struct fzm_bit_field *f)
{
    struct layout l;
    l.n_row_words = fzm_div_up(f->n_x, 32);
    l.n_octets = fzm_div_up(f->n_rows, 8);
    l.part_words = fzm_div_up(l.n_row_words, MAX_PARTS);
    const uint64_t least = l.n_octets < MANY_OCTETS ? PART_WORDS : LONG_PART_WORDS;
    l.part_words = l.part_words < least ? least : fzm_div_up(l.part_words, 32) * 32;
    l.n_parts = fzm_div_up(l.n_row_words, l.part_words);
    l.rows_nbytes = (size_t)(f->n_rows * (f->row_nbytes == 1 ? 1 : 4 * l.n_row_words) + 15) / 16 * 16;
    l.parities_nbytes = l.n_parts > 1 ? (size_t)(l.n_octets * l.n_parts + 15) / 16 * 16 : 0;
    return l;
}

extern "C" size_t fzm_gpu_bit_lorenzo_decode_scratch(const struct fzm_bit_field *f)
{
    const struct layout l = layout_of(f);
    return f->n_rows ? l.rows_nbytes + l.parities_nbytes + PARTIALS_NBYTES : 0;
}

struct decode_args {
    struct fzm_bit_field f;
    struct layout l;
    struct fzm_bit_string row; /* the section, if there is one row */
    struct fzm_section cells;  /* the section, if there are more */
    unsigned n_lanes;          /* that share an octet's part; a power of two */
    bool undo_x;
    uint8_t *parities; /* of the parts of octets: bit r for row r */
    void *rows;
};

/* A word of each row of an octet; zeros from `end` on. */
FZM_D void load_rows(uint32_t w[8], const struct decode_args *a, uint64_t octet, uint64_t word, uint64_t end)
{
#pragma unroll
    for (unsigned k = 0; k < 8; k++)
        w[k] = 0;
    if (word >= end)
        return;
    if (a->f.n_rows == 1) {
        w[0] = fzm_bit_string_word(&a->row, word);
        return;
    }
    uint64_t cells[4];
#pragma unroll
    for (unsigned c = 0; c < 4; c++)
        cells[c] = 4 * word + c < a->f.row_nbytes
                       ? fzm_section_load<uint64_t>(a->cells, octet * a->f.row_nbytes + 4 * word + c)
                       : 0;
    fzm_bit_rows_of(w, cells);
}

/* Octet and part of a group of lanes; words [begin, end) of its rows. */
FZM_D bool find_part(const struct decode_args *a, uint64_t *octet, uint64_t *part, uint64_t *begin,
                     uint64_t *end)
{
    const uint64_t i = ((uint64_t)blockIdx.x * N_THREADS + threadIdx.x) / a->n_lanes;
    *octet = fzm_divide(i, a->l.n_parts, part);
    *begin = *part * a->l.part_words;
    *end = *octet < a->l.n_octets ? min(*begin + a->l.part_words, a->l.n_row_words) : 0;
    return *octet < a->l.n_octets;
}

/* Parities of all parts. Grid: a warp for each; only if rows have several. N_ROWS: of an octet, 1 or 8. */
template <unsigned N_ROWS>
static __global__ void __launch_bounds__(N_THREADS)
    parity_kernel(const __grid_constant__ struct decode_args a)
{
    uint64_t octet, part, begin, end;
    if (!find_part(&a, &octet, &part, &begin, &end))
        return;
    uint32_t any[8] = {0, 0, 0, 0, 0, 0, 0, 0}, parity = 0;
    for (uint64_t word = begin + threadIdx.x % 32; word < end; word += 32) {
        uint32_t w[8];
        load_rows(w, &a, octet, word, end);
#pragma unroll
        for (unsigned k = 0; k < N_ROWS; k++)
            any[k] ^= w[k];
    }
#pragma unroll
    for (unsigned k = 0; k < N_ROWS; k++)
        parity |= (__popc(any[k]) & 1) << k;
    parity = __reduce_xor_sync(FZM_FULL_WARP, parity);
    if (threadIdx.x % 32 == 0)
        a.parities[octet * a.l.n_parts + part] = (uint8_t)parity;
}

/* Undoes x in a word of 8 rows; *carry: parities of the rows before these lanes, and then after them. */
template <unsigned N_ROWS> FZM_D void undo_x(uint32_t w[8], uint32_t *carry, unsigned n_lanes)
{
    uint32_t parity = 0;
#pragma unroll
    for (unsigned k = 0; k < N_ROWS; k++) {
#pragma unroll
        for (unsigned d = 1; d < 32; d *= 2)
            w[k] ^= w[k] << d;
        parity |= w[k] >> 31 << k;
    }
    uint32_t all = parity;
    for (unsigned d = 1; d < n_lanes; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, all, d, n_lanes);
        all ^= threadIdx.x % n_lanes >= d ? other : 0;
    }
    const uint32_t before = *carry ^ all ^ parity;
#pragma unroll
    for (unsigned k = 0; k < N_ROWS; k++)
        w[k] ^= 0 - (before >> k & 1);
    *carry ^= __shfl_sync(FZM_FULL_WARP, all, n_lanes - 1, n_lanes);
}

/* Grid: n_lanes lanes for each part of each octet. T: uint8_t for rows of one byte. */
template <typename T, unsigned N_ROWS>
static __global__ void __launch_bounds__(N_THREADS)
    decode_kernel(const __grid_constant__ struct decode_args a)
{
    uint64_t octet, part, begin, end;
    const bool here = find_part(&a, &octet, &part, &begin, &end);
    const unsigned lane = threadIdx.x % a.n_lanes;
    uint32_t carry = 0;
    if (a.undo_x && a.l.n_parts > 1) { /* whole warps then */
        for (uint64_t i = lane; here && i < part; i += 32)
            carry ^= a.parities[octet * a.l.n_parts + i];
        carry = __reduce_xor_sync(FZM_FULL_WARP, carry);
    }
    const uint64_t n_rounds = fzm_div_up(min(a.l.part_words, a.l.n_row_words), a.n_lanes);
    for (uint64_t i = 0; i < n_rounds; i++) {
        const uint64_t word = begin + i * a.n_lanes + lane;
        uint32_t w[8];
        load_rows(w, &a, octet, word, end);
        if (a.undo_x)
            undo_x<N_ROWS>(w, &carry, a.n_lanes);
        if (word < end)
#pragma unroll
            for (unsigned k = 0; k < N_ROWS; k++)
                if (8 * octet + k < a.f.n_rows)
                    ((T *)a.rows)[(8 * octet + k) * a.l.n_row_words + word] = (T)w[k];
    }
}

/* Sums along an axis of length n: item i of line l of a slab is at (slab * n + l) * width + i. */
struct sum_args {
    void *items;
    uint64_t n, width, n_columns; /* n_columns: of 32 items */
    uint64_t n_parts, part_nlines;
    void *partials;
};

template <typename T> FZM_D T sum_lines(const T *p, uint64_t n, uint64_t width)
{
    T sum = 0;
    uint64_t l = 0;
    for (; l + 8 <= n; l += 8) {
        T v[8];
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
            v[k] = p[(l + k) * width];
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
            sum ^= v[k];
    }
    for (; l < n; l++)
        sum ^= p[l * width];
    return sum;
}

template <typename T> FZM_D void scan_lines(T *p, uint64_t n, uint64_t width, T sum)
{
    uint64_t l = 0;
    for (; l + 8 <= n; l += 8) {
        T v[8];
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
            v[k] = p[(l + k) * width];
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
            p[(l + k) * width] = sum ^= v[k];
    }
    for (; l < n; l++)
        p[l * width] = sum ^= p[l * width];
}

/* Grid: slabs x parts x columns. A warp takes a run of lines, a lane an item of each. SCAN: false: leaves the
 * sums of the parts in partials. */
template <typename T, bool SCAN>
static __global__ void __launch_bounds__(32 * MAX_SUM_WARPS)
    sum_kernel(const __grid_constant__ struct sum_args a)
{
    __shared__ T sums[MAX_SUM_WARPS][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    uint64_t column, part;
    const uint64_t slab = fzm_divide(fzm_divide(blockIdx.x, a.n_columns, &column), a.n_parts, &part);
    const uint64_t item = 32 * column + lane, first = part * a.part_nlines,
                   n = min(a.n - first, a.part_nlines);
    const uint64_t begin = n * warp / n_warps, n_mine = n * (warp + 1) / n_warps - begin;
    const bool here = item < a.width;
    T *const p = (T *)a.items + (slab * a.n + first + begin) * a.width + item;
    T sum = 0;
    if (n_warps > 1 || !SCAN) {
        sums[warp][lane] = here ? sum_lines<T>(p, n_mine, a.width) : (T)0;
        __syncthreads();
    }
    const unsigned n_before = SCAN ? warp : warp == 0 ? n_warps : 0;
    for (unsigned k = 0; k < n_before; k++)
        sum ^= sums[k][lane];
    T *const partials = (T *)a.partials + slab * a.n_parts * a.width + item;
    if (!SCAN) {
        if (warp == 0 && here)
            partials[part * a.width] = sum;
    } else if (here) {
        if (part)
            sum ^= sum_lines<T>(partials, part, a.width);
        scan_lines<T>(p, n_mine, a.width, sum);
    }
}

template <typename T>
static void sum_axis(void *items, uint64_t n_slabs, uint64_t n, uint64_t width, void *partials,
                     cudaStream_t stream)
{
    enum { WARP_LINES = 4, PART_LINES = 1024 }; /* at least, of a warp and of a part */
    struct sum_args a = {items, n, width, fzm_div_up(width, 32), 1, n, partials};
    const uint64_t n_blocks = n_slabs * a.n_columns, n_warps = fzm_div_up(n, WARP_LINES);
    if (n <= 1)
        return;
    if (n_blocks < SUM_BLOCKS / 2 && n > 2 * PART_LINES) {
        a.n_parts = SUM_BLOCKS / n_blocks < n / PART_LINES ? SUM_BLOCKS / n_blocks : n / PART_LINES;
        a.part_nlines = fzm_div_up(n, a.n_parts);
        a.n_parts = fzm_div_up(n, a.part_nlines);
    }
    const uint32_t grid = (uint32_t)(n_blocks * a.n_parts);
    const uint32_t n_threads = 32 * (n_warps < MAX_SUM_WARPS ? (uint32_t)n_warps : (uint32_t)MAX_SUM_WARPS);
    if (a.n_parts > 1)
        sum_kernel<T, false><<<grid, n_threads, 0, stream>>>(a);
    sum_kernel<T, true><<<grid, n_threads, 0, stream>>>(a);
}

struct pack_args {
    struct fzm_bit_field f;
    uint64_t n_row_words;
    const void *rows;
    uint8_t *mask;
    bool aligned; /* mask: to 4 bytes */
};

/* Grid: a thread for each word of the mask. */
template <typename T>
static __global__ void __launch_bounds__(N_THREADS) pack_kernel(const __grid_constant__ struct pack_args a)
{
    const uint64_t i = (uint64_t)blockIdx.x * N_THREADS + threadIdx.x, first = 32 * i;
    if (first >= a.f.n_bits)
        return;
    const uint32_t n = (uint32_t)min(a.f.n_bits - first, (uint64_t)32);
    const T *const rows = (const T *)a.rows;
    uint64_t x, row = fzm_divide(first, a.f.n_x, &x);
    uint32_t v = 0, at = 0;
    while (at < n) {
        const uint32_t n_here = (uint32_t)min(a.f.n_x - x, (uint64_t)(n - at));
        const T *const p = rows + row * a.n_row_words + x / 32;
        const uint32_t shift = (uint32_t)(x % 32), low = p[0];
        uint32_t bits = low >> shift;
        if (shift + n_here > 32)
            bits = __funnelshift_r(low, (uint32_t)p[1], shift);
        v |= (n_here < 32 ? bits & ((1u << n_here) - 1) : bits) << at;
        at += n_here;
        x = 0;
        row++;
    }
    if (n == 32 && a.aligned) {
        ((uint32_t *)(void *)a.mask)[i] = v;
        return;
    }
    for (uint32_t b = 0; 8 * b < n; b++)
        a.mask[4 * i + b] = (uint8_t)(v >> 8 * b);
}

template <typename T> static void decode(const struct fzm_call *c, struct decode_args *a, unsigned axes)
{
    const cudaStream_t stream = c->gpu->stream;
    const uint64_t n_parts = a->l.n_octets * a->l.n_parts, per_plane = a->f.n_rows_per_plane;
    const uint32_t n_blocks = (uint32_t)fzm_div_up(n_parts * a->n_lanes, N_THREADS);
    uint8_t *const mask = (uint8_t *)c->in[0].data;
    const bool aligned = (uintptr_t)mask % 4 == 0, is_packed = aligned && a->f.n_x % 32 == 0;
    void *const partials = a->parities + a->l.parities_nbytes;
    if (is_packed)
        a->rows = mask;
    const bool has_parities = a->undo_x && a->l.n_parts > 1;
    if (a->f.n_rows == 1) {
        if (has_parities)
            parity_kernel<1><<<n_blocks, N_THREADS, 0, stream>>>(*a);
        decode_kernel<T, 1><<<n_blocks, N_THREADS, 0, stream>>>(*a);
    } else {
        if (has_parities)
            parity_kernel<8><<<n_blocks, N_THREADS, 0, stream>>>(*a);
        decode_kernel<T, 8><<<n_blocks, N_THREADS, 0, stream>>>(*a);
    }
    if (axes & FZM_BIT_LORENZO_Y)
        sum_axis<T>(a->rows, a->f.n_rows / per_plane, per_plane, a->l.n_row_words, partials, stream);
    if (axes & FZM_BIT_LORENZO_Z)
        sum_axis<T>(a->rows, 1, a->f.n_rows / per_plane, per_plane * a->l.n_row_words, partials, stream);
    const struct pack_args p = {a->f, a->l.n_row_words, a->rows, mask, aligned};
    if (!is_packed)
        pack_kernel<T><<<(uint32_t)fzm_div_up(a->f.n_bits, 32 * N_THREADS), N_THREADS, 0, stream>>>(p);
}

extern "C" int fzm_gpu_bit_lorenzo_inverse(struct fzm_call *c)
{
    const unsigned axes = ((const struct fzm_bit_lorenzo_params *)c->params)->axes;
    struct decode_args a;
    memset(&a, 0, sizeof a);
    a.f = fzm_bit_field_of(&c->in[1].shape);
    if (c->in[0].nbytes == 0 && c->out[0].nbytes == 0)
        return 0;
    if (axes == 0 || c->out[0].nbytes != fzm_bit_field_nbytes(&a.f) ||
        c->in[0].nbytes != fzm_div_up(a.f.n_bits, 8))
        return fzm_err_set(c->err, FZM_ERR_CORRUPT, "BitLorenzo: section has %zu bytes, its array needs %llu",
                           c->out[0].nbytes, (unsigned long long)fzm_bit_field_nbytes(&a.f));
    a.l = layout_of(&a.f);
    a.row.bytes = (const uint8_t *)c->out[0].data;
    a.row.nbytes = c->out[0].nbytes;
    a.row.aligned = (uintptr_t)a.row.bytes % 4 == 0;
    a.cells = fzm_section_init(c->out[0].data, sizeof(uint64_t));
    a.n_lanes = 1;
    while (a.n_lanes < 32 && a.n_lanes < a.l.n_row_words)
        a.n_lanes *= 2;
    a.undo_x = (axes - 1) & FZM_BIT_LORENZO_X;
    a.rows = c->scratch;
    a.parities = (uint8_t *)c->scratch + a.l.rows_nbytes;
    if (a.f.row_nbytes == 1)
        decode<uint8_t>(c, &a, axes - 1);
    else
        decode<uint32_t>(c, &a, axes - 1);
    return fzm_gpu_check(cudaGetLastError(), "BitLorenzo", c->err);
}
