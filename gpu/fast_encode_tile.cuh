/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast chain, forward: one tile in a warp, from codes to bit planes. */
#ifndef FZM_GPU_FAST_ENCODE_TILE_CUH
#define FZM_GPU_FAST_ENCODE_TILE_CUH

#include "fast_encode.cuh"

/* The larger magnitudes of two pairs of halves; their signs mean nothing. */
FZM_D uint32_t half_max_abs(uint32_t a, uint32_t b)
{
#if __CUDA_ARCH__ >= 860
    uint32_t m;
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
#else
    return fzm_from_half2(__hmax2(__habs2(fzm_as_half2(a)), __habs2(fzm_as_half2(b))));
#endif
}

/* 16 words of each lane go to the exchange buffer, group g of 4 by put_words(); then lane l reads word
 * l % 16 of half of the lanes (a row at a time) with row_word(). */
FZM_D void put_words(const struct tile_state *s, unsigned g, const uint32_t v[4])
{
    *(uint4 *)(void *)&s->exchange[s->lane * ROW + 4 * g] = make_uint4(v[0], v[1], v[2], v[3]);
}

FZM_D uint32_t row_word(const struct tile_state *s, unsigned i)
{
    const unsigned half = s->lane / 16;
    /* the halves of the warp are 4 rows apart, hence in different banks */
    const uint32_t *const p = s->exchange + half * (20 * ROW) + s->lane % 16;
    return i < 12 ? p[i * ROW] : (p - half * (16 * ROW))[i * ROW];
}

/* Lane (h, mode, pair) = 16 h + 4 mode + pair has the width of block pair + 4 h under a mode. Returns the
 * least cost * 4 + mode. */
template <bool SMALL> FZM_D uint32_t choose_mode(unsigned lane, uint32_t w, unsigned n_modes)
{
    uint32_t sum, max, min;
    if (SMALL) { /* widths below 20: one bit each, and the sum above */
        uint32_t v = 1u << w | w << 20;
        for (int d = 1; d <= 16; d = d == 2 ? 16 : d * 2) {
            const uint32_t other = __shfl_xor_sync(FZM_FULL_WARP, v, d), added = v + other;
            v = ((v | other) & 0xfffffu) | (added & 0xfff00000u);
        }
        sum = v >> 20;
        max = 31 - __clz(v & 0xfffffu);
        min = __ffs(v) - 1;
    } else {
        sum = max = min = w;
        for (int d = 1; d <= 16; d = d == 2 ? 16 : d * 2) {
            sum += __shfl_xor_sync(FZM_FULL_WARP, sum, d);
            max = umax(max, __shfl_xor_sync(FZM_FULL_WARP, max, d));
            min = umin(min, __shfl_xor_sync(FZM_FULL_WARP, min, d));
        }
    }
    const uint32_t spread = max - min;
    const uint32_t rate_class = spread == 0 ? FZM_BITPACK_UNIFORM
                                : spread <= 3 ? FZM_BITPACK_DELTA
                                : max <= 15 ? FZM_BITPACK_NIBBLES : FZM_BITPACK_PLAIN;
    const uint32_t cost = sum ? 2 + 8 * fzm_bitpack_class_nbytes(rate_class) + 32 * sum : 0;
    const uint32_t mode = lane % 16 / 4;
    return __reduce_min_sync(FZM_FULL_WARP, mode < n_modes ? cost * 4 + mode : 0xffffffffu);
}

FZM_D uint32_t width_of_mode(unsigned lane, uint32_t w, uint32_t mode)
{
    return __shfl_sync(FZM_FULL_WARP, w, (lane & 4) << 2 | mode << 2 | (lane & 3));
}

/* Clears the halves of padding. */
template <int G> FZM_D void clear_padding(uint32_t p[4], uint32_t extents)
{
    const unsigned lane = threadIdx.x & 31;
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        p[k] &= (fzm_lane_valid<G>(extents, lane, k) ? 0xffffu : 0) | (fzm_lane_valid<G>(extents, lane,
            k + 4) ? 0xffff0000u : 0);
}

/* Planes of the blocks in words of 4 bytes or 2 halves to dst. pw: width and start of block lane % 8 in
 * the tile. */
FZM_D void write_plane(uint32_t *dst, uint32_t pw, unsigned plane, uint32_t word)
{
    const uint32_t w = pw & 0xff;
    if (plane < w)
        dst[(pw >> 8) + w - 1 - plane] = word;
}

FZM_D void write_planes_8(const struct fzm_transpose &t, unsigned lane, const uint32_t x[4],
                          uint32_t pw, uint32_t *dst)
{
    const unsigned block = lane / 16 + (lane & 8) / 2; /* bytes: blocks 0 4 1 5, then 2 6 3 7 */
    const uint32_t v0 = fzm_transpose_32x32(t, __byte_perm(x[0], x[1], 0x6420));
    const uint32_t v1 = fzm_transpose_32x32(t, __byte_perm(x[2], x[3], 0x6420));
    const uint32_t pw0 = __shfl_sync(FZM_FULL_WARP, pw, block), pw1 = __shfl_sync(FZM_FULL_WARP, pw,
        block + 2);
    write_plane(dst, pw0, lane & 7, v0);
    write_plane(dst, pw1, lane & 7, v1);
}

FZM_D void write_planes_16(const struct fzm_transpose &t, unsigned lane, const uint32_t x[4],
                           uint32_t pw, uint32_t *dst)
{
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        write_plane(dst, __shfl_sync(FZM_FULL_WARP, pw, lane / 16 * 4 + k), lane & 15,
                    fzm_transpose_32x32(t, x[k]));
}

FZM_D void write_planes_32(const struct fzm_transpose &t, unsigned lane, const uint32_t d[8],
                           uint32_t pw, uint32_t *dst)
{
#pragma unroll
    for (unsigned b = 0; b < 8; b++)
        write_plane(dst, __shfl_sync(FZM_FULL_WARP, pw, b), lane, fzm_transpose_32x32(t, d[b]));
}

/* Width and start of block lane % 8 as write_planes_*() want them, and the words of the tile. */
FZM_D uint32_t place_blocks(unsigned lane, uint32_t w, uint32_t *n_words)
{
    uint32_t end = w;
    for (unsigned d = 1; d < 8; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, end, d, 8);
        end += (lane & 7) >= d ? other : 0;
    }
    *n_words = __shfl_sync(FZM_FULL_WARP, end, 7);
    return w | (end - w) << 8;
}

/* The path of halves: p[] holds code - origin. Returns the width of block lane % 8; residuals in x[] as
 * 16-bit integers, of which the low 8 bits count if all widths are at most 8. */
template <int G, bool WHOLE>
FZM_D uint32_t encode_halves(const struct tile_state *s, uint32_t extents, uint32_t p[4],
                             uint32_t *mode)
{
    const unsigned lane = s->lane;
    __syncwarp();
    put_words(s, 0, p);
    fzm_half_difference_x<G>(p, lane);
    if (!WHOLE) clear_padding<G>(p, extents);
    put_words(s, 1, p);
    fzm_half_difference_y<G>(p, lane);
    if (!WHOLE) clear_padding<G>(p, extents);
    put_words(s, 2, p);
    if (G == FZM_GEOMETRY_3D) {
        fzm_half_difference_z(p);
        if (!WHOLE) clear_padding<G>(p, extents);
        put_words(s, 3, p);
    }
    __syncwarp();
    /* |v + 0.375| has the binary exponent of v's two's complement width, less 2; 0 and -1 included */
    const __half2 bias = fzm_as_half2(0x36003600u);
    uint32_t v[4];
#pragma unroll
    for (unsigned i = 0; i < 16; i++) {
        const uint32_t biased = fzm_from_half2(__hadd2(fzm_as_half2(row_word(s, i)), bias));
        v[i % 4] = i < 4 ? biased : half_max_abs(v[i % 4], biased);
    }
    uint32_t m = half_max_abs(half_max_abs(v[0], v[1]), half_max_abs(v[2], v[3]));
    m = half_max_abs(m, __shfl_xor_sync(FZM_FULL_WARP, m, 16));
    uint32_t w = ((lane < 16 ? m : m >> 16) >> 10 & 31) - 13;
    if (fzm_geo<G>::n_modes == 3 && lane % 16 >= 12)
        w = 0; /* nothing was written there */
    const uint32_t best = choose_mode<true>(lane, w, fzm_geo<G>::n_modes);
    *mode = best & 3;
    const uint4 best_p = *(const uint4 *)(const void *)&s->exchange[lane * ROW + 4 * *mode];
    p[0] = best_p.x, p[1] = best_p.y, p[2] = best_p.z, p[3] = best_p.w;
    return width_of_mode(lane, w, *mode);
}

FZM_D void halves_to_bytes(uint32_t p[4])
{
    for (int k = 0; k < 4; k++)
        p[k] = fzm_from_half2(__hadd2(fzm_as_half2(p[k]), fzm_as_half2(0x66006600u))); /* 1536 */
}

FZM_D void halves_to_ints(uint32_t p[4])
{
    for (int k = 0; k < 4; k++) {
        const float2 f = __half22float2(fzm_as_half2(p[k]));
        p[k] = __byte_perm(__float_as_uint(f.x + MAGIC), __float_as_uint(f.y + MAGIC), 0x5410);
    }
}

/* The path of words: d[] holds code - origin, then the residuals. */
template <int G>
FZM_D uint32_t encode_words(const struct tile_state *s, uint32_t extents, uint32_t d[8],
                            uint32_t *mode)
{
    const unsigned lane = s->lane;
    uint32_t base[8], w = 0;
    for (int b = 0; b < 8; b++)
        base[b] = d[b];
    for (unsigned m = 0; m < 4; m++) {
        if (m == 1) fzm_difference_x<G>(d, lane);
        if (m == 2) fzm_difference_y<G>(d, lane);
        if (m == 3 && G == FZM_GEOMETRY_3D) fzm_difference_z(d);
        uint32_t folded[8]; /* its bit length is the two's complement width */
        for (unsigned b = 0; b < 8; b++) {
            folded[b] = d[b] << 1 ^ (uint32_t)((int32_t)d[b] >> 31);
            if (!fzm_lane_valid<G>(extents, lane, b))
                folded[b] = 0;
        }
        if (m % 2 == 0)
            __syncwarp();
        put_words(s, m % 2 * 2, folded);
        put_words(s, m % 2 * 2 + 1, folded + 4);
        if (m % 2 == 0)
            continue;
        __syncwarp();
        uint32_t any = 0;
        for (unsigned i = 0; i < 16; i++)
            any |= row_word(s, i);
        any |= __shfl_xor_sync(FZM_FULL_WARP, any, 16);
        if (lane / 16 == m / 2)
            w = 32 - __clz(any); /* of mode lane / 8 and block lane % 8 */
    }
    w = __shfl_sync(FZM_FULL_WARP, w, lane % 16 / 4 * 8 + lane / 16 * 4 + lane % 4);
    const uint32_t best = choose_mode<false>(lane, w, fzm_geo<G>::n_modes);
    *mode = best & 3;
    for (int b = 0; b < 8; b++)
        d[b] = base[b];
    if (*mode >= 1) fzm_difference_x<G>(d, lane);
    if (*mode >= 2) fzm_difference_y<G>(d, lane);
    if (*mode >= 3) fzm_difference_z(d);
    for (unsigned b = 0; b < 8; b++)
        d[b] = fzm_lane_valid<G>(extents, lane, b) ? d[b] : 0;
    return width_of_mode(lane, w, *mode);
}

/* What became of a tile: words of planes (bits 0..15), width of block lane % 8 (16..23), mode (24, 25),
 * whether it is masked (31); origin. Two registers, so that calls return it in such. */
struct __align__(8) tile_result {
    uint32_t what;
    int32_t origin;
};

/* Planes of a tile by the path of halves, from h[]: code - origin. */
template <int G, bool WHOLE>
FZM_D void encode_small_tile(const struct tile_state *s, uint32_t extents, uint32_t h[4],
                             uint32_t *dst, uint32_t *what)
{
    uint32_t mode, n_words;
    const uint32_t w = encode_halves<G, WHOLE>(s, extents, h, &mode);
    const uint32_t pw = place_blocks(s->lane, w, &n_words);
    const struct fzm_transpose t = fzm_transpose_load(s->transpose);
    *what = n_words | w << 16 | mode << 24;
    if (!__any_sync(FZM_FULL_WARP, w > 8)) {
        halves_to_bytes(h);
        write_planes_8(t, s->lane, h, pw, dst);
    } else {
        halves_to_ints(h);
        write_planes_16(t, s->lane, h, pw, dst);
    }
}

/* q[] becomes code - origin, h[] the same as halves. Returns whether the path of halves can take the tile
 * as far as the lane sees. */
template <int G, bool WHOLE>
FZM_D bool subtract_origin(float q[8], uint32_t extents, float *q0, uint32_t h[4], uint32_t *n_any)
{
    *q0 = __shfl_sync(FZM_FULL_WARP, q[0], 0);
#pragma unroll
    for (int b = 0; b < 8; b++)
        q[b] -= *q0;
#pragma unroll
    for (int k = 0; k < 4; k++)
        h[k] = fzm_from_half2(__floats2half2_rn(q[k], q[k + 4]));
    if (!WHOLE)
        clear_padding<G>(h, extents);
    *n_any = half_max_abs(half_max_abs(h[0], h[1]), half_max_abs(h[2], h[3])) & 0x7fff7fffu;
    const __half2 small = fzm_as_half2(G == FZM_GEOMETRY_3D ? 0x5bf85bf8u : 0x5ffc5ffcu); /* 255, 511 */
    return __hble2(fzm_as_half2(*n_any), small) && fabsf(*q0) < MAX_FAST_CODE;
}

/* Puts q[] = code - origin into the exchange buffer,
 * word b of each lane; false if the codes are too large for that. */
FZM_D bool put_codes(const struct tile_state *s, bool good, const float q[8], float q0)
{
    bool near = good && fabsf(q0) < MAX_FAST_CODE;
#pragma unroll
    for (int b = 0; b < 8; b++)
        near = near && fabsf(q[b]) < MAX_FAST_CODE;
    if (!__all_sync(FZM_FULL_WARP, near))
        return false;
#pragma unroll
    for (int b = 0; b < 8; b++)
        s->exchange[s->lane * ROW + b] = __float_as_uint(q[b] + MAGIC) - __float_as_uint(MAGIC);
    return true;
}

/* Any tile: with padding, outliers, large codes. tile: its stage of the ring, filled if it has no padding.
 * Quantises anew; not inlined, to leave the registers to the path of halves. */
template <int G, int KIND>
static __device__ __noinline__ struct tile_result encode_any(const struct encode_args *a, float *tile,
                                                             uint32_t *exchange,
                                                             const struct fzm_transpose *transpose,
                                                                 uint32_t first,
                                                             uint32_t extents, uint32_t *dst)
{
    const struct tile_state s = {exchange, threadIdx.x & 31, transpose};
    struct tile_result r = {0, 0};
    uint32_t *const mine = s.exchange + s.lane * ROW;
    uint32_t d[8], mode, n_words;
    float q[8], q0;
    if (extents != fzm_geo<G>::whole)
        load_part<G>(a, first, extents, fzm_lane_y<G>(s.lane, 0) * a->pitch_y + fzm_lane_x<G>(s.lane, 0),
                     tile + s.lane);
    const bool good = quantize<KIND>(a, &s, tile, q), fits = subtract_origin<G, false>(q, extents, &q0, d,
        &n_words);
    if (__all_sync(FZM_FULL_WARP, good && fits)) { /* padding is all that is uncommon */
        r.origin = (int32_t)q0;
        if (__any_sync(FZM_FULL_WARP, n_words))
            encode_small_tile<G, false>(&s, extents, d, dst, &r.what);
        return r;
    }
    __syncwarp();
    if (!put_codes(&s, good, q, q0)) {
        const int n = quantize_any<G>(a, mine, first, extents, &r.origin);
        if (s.lane == 0 && n)
            atomicAdd((unsigned long long *)&a->result->n_outliers, (unsigned long long)(n < 0 ? -1 - n
                : n));
        if (n < 0) {
            r.what = 1u << 31;
            return r;
        }
    } else {
        r.origin = (int32_t)q0;
    }
#pragma unroll
    for (int b = 0; b < 8; b++)
        d[b] = mine[b];
    const uint32_t w = encode_words<G>(&s, extents, d, &mode);
    const uint32_t pw = place_blocks(s.lane, w, &n_words);
    r.what = n_words | w << 16 | mode << 24;
    const struct fzm_transpose t = fzm_transpose_load(s.transpose);
    if (__any_sync(FZM_FULL_WARP, w > 16)) {
        write_planes_32(t, s.lane, d, pw, dst);
        return r;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        d[k] = __byte_perm(d[k], d[k + 4], 0x5410);
    if (__any_sync(FZM_FULL_WARP, w > 8))
        write_planes_16(t, s.lane, d, pw, dst);
    else
        write_planes_8(t, s.lane, d, pw, dst);
    return r;
}

#endif
