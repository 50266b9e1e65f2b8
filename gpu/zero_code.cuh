/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of RZE with words of 1 byte, 512 of them, one warp each; a lane has 16 neighbours. The layout is
 * in core/stages/zero_stage.h. Coded bytes are in shared memory; the encoder wants zeros there. */
#ifndef FZM_GPU_ZERO_CODE_CUH
#define FZM_GPU_ZERO_CODE_CUH

#include "../core/stages/zero_code.h"
#include "transpose.cuh"

/* Marks of a lane's words, and how many are marked in the lanes before: kept and single in halves. */
struct fzm_zero_marks {
    uint32_t marks, before, totals, nbytes, mode;
};

/* Bit i: byte i of v is not 0. */
FZM_D uint32_t fzm_nonzero_bytes(uint32_t v)
{
    const uint32_t high = (((v & 0x7f7f7f7fu) + 0x7f7f7f7fu) | v) & 0x80808080u;
    return ((high >> 7) * 0x10204080u) >> 28;
}

FZM_D uint32_t fzm_warp_exclusive_sum(uint32_t v, uint32_t *total)
{
    const unsigned lane = threadIdx.x & 31;
    uint32_t sum = v;
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(FZM_FULL_WARP, sum, d);
        sum += lane >= d ? other : 0;
    }
    *total = __shfl_sync(FZM_FULL_WARP, sum, 31);
    return sum - v;
}

/* The map of the bitmap's nonzero bytes (of which each lane has 2), low bytes and high bytes apart. */
struct fzm_zero_levels {
    uint32_t low, high, level3, before; /* before: nonzero bytes of the lanes below */
};

FZM_D struct fzm_zero_levels fzm_zero_levels_of(bool low, bool high)
{
    const uint32_t below = (1u << (threadIdx.x & 31)) - 1;
    struct fzm_zero_levels l;
    l.low = __ballot_sync(FZM_FULL_WARP, low);
    l.high = __ballot_sync(FZM_FULL_WARP, high);
    uint32_t any = l.low | l.high; /* 4 lanes are a byte of level 2 */
    any |= any >> 2;
    any = (any | any >> 1) & 0x11111111u;
    any = (any | any >> 3) & 0x03030303u;
    any = (any | any >> 6) & 0x000f000fu;
    l.level3 = (any | any >> 12) & 0xff;
    l.before = __popc(l.low & below) + __popc(l.high & below);
    return l;
}

/* Byte k of level 2. */
FZM_D uint32_t fzm_zero_level2(const struct fzm_zero_levels *l, unsigned k)
{
    uint32_t a = l->low >> 4 * k & 15, b = l->high >> 4 * k & 15;
    a = (a | a << 2) & 0x33, a = (a | a << 1) & 0x55;
    b = (b | b << 2) & 0x33, b = (b | b << 1) & 0x55;
    return a | b << 1;
}

FZM_D struct fzm_zero_marks fzm_zero_measure(const uint8_t *words)
{
    const uint4 v = ((const uint4 *)(const void *)words)[threadIdx.x & 31];
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
    uint32_t kept = 0, more = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        kept |= fzm_nonzero_bytes(w[i]) << 4 * i;
        more |= fzm_nonzero_bytes(w[i] & __vsub4(w[i], 0x01010101u)) << 4 * i;
    }
    const uint32_t single = kept & ~more;
    struct fzm_zero_marks m;
    m.marks = kept | single << 16;
    m.before = fzm_warp_exclusive_sum(__popc(kept) | __popc(single) << 16, &m.totals);
    const struct fzm_zero_levels l = fzm_zero_levels_of(kept & 0xff, kept >> 8);
    const uint32_t n_kept = m.totals & 0xffff, n_single = m.totals >> 16;
    const uint32_t tree = 1 + __popc(l.level3) + __popc(l.low) + __popc(l.high);
    const uint32_t kept_nbytes = fzm_zero_bytes_nbytes(n_kept, n_single);
    m.mode = fzm_zero_choose(512, 512, n_kept, tree, kept_nbytes);
    m.nbytes = m.mode == FZM_ZERO_NONE ? 0 : m.mode == FZM_ZERO_WORDS ? 512 : min(tree, 64u) + kept_nbytes;
    return m;
}

/* ORs up to 48 bits in at bit `at`. */
FZM_D void fzm_or_bits(uint32_t *to, uint32_t at, uint64_t bits)
{
    const uint64_t low = bits << at % 32;
    const uint32_t rest = at % 32 ? (uint32_t)(bits >> 32 >> (32 - at % 32)) : 0;
    if ((uint32_t)low) atomicOr(&to[at / 32], (uint32_t)low);
    if (low >> 32) atomicOr(&to[at / 32 + 1], (uint32_t)(low >> 32));
    if (rest) atomicOr(&to[at / 32 + 2], rest);
}

/* 128 words to any byte. */
FZM_D void fzm_zero_put_words(const uint8_t *words, uint32_t *to, uint32_t at)
{
    const uint32_t *const from = (const uint32_t *)(const void *)words;
    const unsigned shift = at % 4 * 8;
    for (unsigned i = threadIdx.x & 31; i <= 128; i += 32) {
        const uint32_t low = i ? from[i - 1] : 0, high = i < 128 ? from[i] : 0;
        const uint32_t v = __funnelshift_l(low, high, shift);
        if (i % 128)
            to[at / 4 + i] = v;
        else if (v)
            atomicOr(&to[at / 4 + i], v);
    }
}

/* Writes the segment at byte `at` of out. */
FZM_D void fzm_zero_put(const uint8_t *words, const struct fzm_zero_marks *m, uint32_t *out, uint32_t at)
{
    const unsigned lane = threadIdx.x & 31;
    uint8_t *const bytes = (uint8_t *)out;
    uint32_t kept = m->marks & 0xffff;
    if (m->mode == FZM_ZERO_NONE)
        return;
    if (m->mode == FZM_ZERO_WORDS) {
        fzm_zero_put_words(words, out, at);
        return;
    }
    if (m->mode == FZM_ZERO_FLAT) {
        bytes[at + 2 * lane] = (uint8_t)kept;
        bytes[at + 2 * lane + 1] = (uint8_t)(kept >> 8);
        at += 64;
    } else {
        const struct fzm_zero_levels l = fzm_zero_levels_of(kept & 0xff, kept >> 8);
        if (lane == 8)
            bytes[at] = (uint8_t)l.level3;
        if (lane < 8 && (l.level3 >> lane & 1))
            bytes[at + 1 + __popc(l.level3 & ((1u << lane) - 1))] = (uint8_t)fzm_zero_level2(&l, lane);
        at += 1 + __popc(l.level3);
        if (kept & 0xff)
            bytes[at + l.before] = (uint8_t)kept;
        if (kept >> 8)
            bytes[at + l.before + ((kept & 0xff) != 0)] = (uint8_t)(kept >> 8);
        at += __popc(l.low) + __popc(l.high);
    }
    const uint32_t n_kept = m->totals & 0xffff, n_single = m->totals >> 16, single = m->marks >> 16;
    const uint32_t places_at = at + (n_kept + 7) / 8;
    const uint32_t before = m->before & 0xffff, singles_before = m->before >> 16;
    uint8_t *others = bytes + places_at + (3 * n_single + 7) / 8 + before - singles_before;
    uint32_t classes = 0, n = 0, n_places = 0;
    uint64_t places = 0;
    for (; kept; kept &= kept - 1, n++) {
        const unsigned i = __ffs(kept) - 1;
        const uint32_t v = words[16 * lane + i];
        if (single >> i & 1) {
            classes |= 1u << n;
            places |= (uint64_t)(31 - __clz(v)) << n_places;
            n_places += 3;
        } else {
            *others++ = (uint8_t)v;
        }
    }
    fzm_or_bits(out, 8 * at + before, classes);
    fzm_or_bits(out, 8 * places_at + 3 * singles_before, places);
}

/* One warp: the size of the coded segment at p, of which `left` bytes may be read; -1 if it is damaged. */
FZM_D int fzm_zero_segment_nbytes(const uint8_t *p, int left, unsigned mode)
{
    const unsigned lane = threadIdx.x & 31;
    int at = 64, n_map = 64;
    if (mode == FZM_ZERO_NONE)
        return 0;
    if (mode == FZM_ZERO_WORDS)
        return left < 512 ? -1 : 512;
    if (mode == FZM_ZERO_FLAT) {
        if (left < 64)
            return -1;
        at = 0;
    } else {
        if (left < 1 || left < 1 + (int)__popc(p[0]))
            return -1;
        const int n3 = __popc(p[0]);
        at = 1 + n3;
        n_map = __reduce_add_sync(FZM_FULL_WARP, (int)lane < n3 ? __popc(p[1 + lane]) : 0);
        if (left - at < n_map)
            return -1;
    }
    const int n_kept = __reduce_add_sync(FZM_FULL_WARP, ((int)lane < n_map ? __popc(p[at + lane]) : 0) +
                                         ((int)lane + 32 < n_map ? __popc(p[at + 32 + lane]) : 0));
    at += n_map;
    if (left - at < (n_kept + 7) / 8)
        return -1;
    int n = 0;
#pragma unroll
    for (unsigned j = 0; j < 2; j++) {
        const int bit = 8 * (int)(lane + 32 * j);
        if (bit < n_kept)
            n += __popc(p[at + bit / 8] & (n_kept - bit >= 8 ? 0xff : (1 << (n_kept - bit)) - 1));
    }
    const int n_single = __reduce_add_sync(FZM_FULL_WARP, n);
    const int kept_nbytes = (int)fzm_zero_bytes_nbytes((uint32_t)n_kept, (uint32_t)n_single);
    return left - at < kept_nbytes ? -1 : at + kept_nbytes;
}

/* One warp: decodes a segment that was found sound; some bytes behind it are readable. */
FZM_D void fzm_zero_segment_get(const uint8_t *p, unsigned mode, uint8_t *words)
{
    const unsigned lane = threadIdx.x & 31;
    uint8_t *const mine = words + 16 * lane;
    if (mode == FZM_ZERO_WORDS) {
        const unsigned shift = (uintptr_t)p % 4 * 8;
        const uint32_t *const from = (const uint32_t *)(const void *)(p - (uintptr_t)p % 4);
#pragma unroll
        for (unsigned i = lane; i < 128; i += 32)
            ((uint32_t *)(void *)words)[i] = __funnelshift_r(from[i], from[i + 1], shift);
        return;
    }
    *(uint4 *)(void *)mine = make_uint4(0, 0, 0, 0);
    if (mode == FZM_ZERO_NONE)
        return;
    uint32_t kept;
    if (mode == FZM_ZERO_FLAT) {
        kept = p[2 * lane] | (uint32_t)p[2 * lane + 1] << 8;
        p += 64;
    } else {
        const uint32_t level3 = p[0], k = lane / 4;
        const uint32_t byte = level3 >> k & 1 ? p[1 + __popc(level3 & ((1u << k) - 1))] : 0;
        const uint32_t level2 = byte >> lane % 4 * 2 & 3;
        const struct fzm_zero_levels l = fzm_zero_levels_of(level2 & 1, level2 & 2);
        p += 1 + __popc(level3);
        kept = level2 & 1 ? p[l.before] : 0;
        kept |= level2 & 2 ? (uint32_t)p[l.before + (level2 & 1)] << 8 : 0;
        p += __popc(l.low) + __popc(l.high);
    }
    uint32_t n_kept, n_single;
    const uint32_t n = __popc(kept), before = fzm_warp_exclusive_sum(n, &n_kept);
    const uint8_t *const q = p + before / 8;
    const uint32_t bits = q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16;
    const uint32_t classes = bits >> before % 8 & ((1u << n) - 1);
    const uint32_t singles_before = fzm_warp_exclusive_sum(__popc(classes), &n_single);
    p += (n_kept + 7) / 8;
    const uint8_t *others = p + (3 * n_single + 7) / 8 + before - singles_before;
    uint32_t place_at = 3 * singles_before;
    for (uint32_t j = 0; j < n; j++, kept &= kept - 1) {
        uint32_t v;
        if (classes >> j & 1) {
            v = 1u << ((p[place_at / 8] | (uint32_t)p[place_at / 8 + 1] << 8) >> place_at % 8 & 7);
            place_at += 3;
        } else {
            v = *others++;
        }
        mine[__ffs(kept) - 1] = (uint8_t)v;
    }
}

#endif
