/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of RZE and RRE with words of any size, one warp each; a lane has the marks of 16 neighbours. The
 * layout is in core/stages/zero_stage.h. Whole segments of RZE with words of 1 byte are in zero_code.cuh. */
#ifndef FZM_GPU_ZERO_SEGMENT_CUH
#define FZM_GPU_ZERO_SEGMENT_CUH

#include "zero_code.cuh"

template <unsigned W> struct fzm_zero_word;
template <> struct fzm_zero_word<1> {
    typedef uint8_t type;
};
template <> struct fzm_zero_word<2> {
    typedef uint16_t type;
};
template <> struct fzm_zero_word<4> {
    typedef uint32_t type;
};
template <> struct fzm_zero_word<8> {
    typedef uint64_t type;
};

/* Words of a chunk. */
struct fzm_zero_frame {
    uint32_t n_words, n_segments, n_left; /* n_left: bytes behind the last word */
};

template <unsigned W> FZM_D struct fzm_zero_frame fzm_zero_frame_of(uint32_t nbytes)
{
    struct fzm_zero_frame f;
    f.n_words = nbytes / W;
    f.n_left = nbytes % W;
    f.n_segments = (f.n_words + FZM_ZERO_SEGMENT_WORDS - 1) / FZM_ZERO_SEGMENT_WORDS;
    return f;
}

FZM_D uint32_t fzm_zero_words_of(const struct fzm_zero_frame *f, uint32_t segment)
{
    return min(f->n_words - segment * FZM_ZERO_SEGMENT_WORDS, (uint32_t)FZM_ZERO_SEGMENT_WORDS);
}

/* n_threads threads copy n bytes from any address in shared memory, with 7 readable bytes behind, to any. */
FZM_D void fzm_zero_copy(uint8_t *to, const uint8_t *from, uint32_t n, uint32_t thread, uint32_t n_threads)
{
    if (((uintptr_t)to | (uintptr_t)from) % 16 == 0 && n % 16 == 0) {
        for (uint32_t i = thread; i < n / 16; i += n_threads)
            ((uint4 *)(void *)to)[i] = ((const uint4 *)(const void *)from)[i];
        return;
    }
    const uint32_t before = min(n, (uint32_t)(0 - (uintptr_t)to) % 4), n_words = (n - before) / 4;
    const uint32_t after = before + 4 * n_words, skip = (uint32_t)(uintptr_t)(from + before) % 4;
    const uint32_t *const words = (const uint32_t *)(const void *)(from + before - skip);
    uint32_t *const to_words = (uint32_t *)(void *)(to + before);
    for (uint32_t i = thread; i < n_words; i += n_threads)
        to_words[i] = skip ? __funnelshift_r(words[i], words[i + 1], 8 * skip) : words[i];
    if (thread < before)
        to[thread] = from[thread];
    if (after + thread < n)
        to[after + thread] = from[after + thread];
}

/* A word at any address in shared memory, of which the rest of its last 4 bytes is readable. */
template <unsigned W> FZM_D typename fzm_zero_word<W>::type fzm_zero_load(const uint8_t *p)
{
    typedef typename fzm_zero_word<W>::type word;
    if (W <= 2)
        return (word)(p[0] | (W == 2 ? p[W - 1] << 8 : 0));
    const uint32_t skip = (uint32_t)(uintptr_t)p % 4, shift = 8 * skip;
    const uint32_t *const q = (const uint32_t *)(const void *)(p - skip);
    const uint32_t low = __funnelshift_r(q[0], skip ? q[1] : 0, shift);
    if (W == 4)
        return (word)low;
    return (word)(low | (uint64_t)__funnelshift_r(q[1], skip ? q[2] : 0, shift) << 32);
}

/* Marks of words 32 i to 32 i + 31 of a segment. */
FZM_D uint32_t fzm_zero_marks_of(uint32_t kept, unsigned i)
{
    return __shfl_sync(FZM_FULL_WARP, kept, 2 * i) | __shfl_sync(FZM_FULL_WARP, kept, 2 * i + 1) << 16;
}

/* Marks the n words of a segment of a chunk. */
template <unsigned W, bool REPEATS>
FZM_D uint32_t fzm_zero_mark(const uint8_t *chunk, uint32_t segment, uint32_t n)
{
    typedef typename fzm_zero_word<W>::type word;
    const unsigned lane = threadIdx.x & 31;
    const uint32_t first = segment * FZM_ZERO_SEGMENT_WORDS;
    const word *const words = (const word *)(const void *)chunk + first;
    uint32_t kept = 0;
#pragma unroll
    for (unsigned i = 0; i < 16; i++) {
        const uint32_t k = 32 * i + lane;
        const word v = k < n ? words[k] : (word)0;
        const word before = REPEATS && k < n && first + k ? words[(int)k - 1] : (word)0;
        const uint32_t marks = __ballot_sync(FZM_FULL_WARP, v != before);
        if (lane / 2 == i)
            kept = marks >> lane % 2 * 16 & 0xffff;
    }
    return kept;
}

/* Size of a segment of n words in the lower 16 bits, its mode above; kept_nbytes: of what follows the map. */
FZM_D uint32_t fzm_zero_size(uint32_t n, uint32_t nbytes, uint32_t kept, uint32_t n_kept,
                             uint32_t kept_nbytes)
{
    const struct fzm_zero_levels l = fzm_zero_levels_of(kept & 0xff, kept >> 8);
    const uint32_t tree = 1 + __popc(l.level3) + __popc(l.low) + __popc(l.high);
    const uint32_t mode = fzm_zero_choose(n, nbytes, n_kept, tree, kept_nbytes);
    const uint32_t coded = mode == FZM_ZERO_NONE    ? 0
                           : mode == FZM_ZERO_WORDS ? nbytes
                                                    : min(tree, (n + 7) / 8) + kept_nbytes;
    return coded | mode << 16;
}

/* Writes the map of n words in mode FLAT or TREE; returns its bytes. */
FZM_D uint32_t fzm_zero_put_map(uint8_t *to, uint32_t mode, uint32_t kept, uint32_t n)
{
    const unsigned lane = threadIdx.x & 31;
    if (mode == FZM_ZERO_FLAT) {
        const uint32_t nbytes = (n + 7) / 8;
        if (2 * lane < nbytes)
            to[2 * lane] = (uint8_t)kept;
        if (2 * lane + 1 < nbytes)
            to[2 * lane + 1] = (uint8_t)(kept >> 8);
        return nbytes;
    }
    const struct fzm_zero_levels l = fzm_zero_levels_of(kept & 0xff, kept >> 8);
    const uint32_t n3 = __popc(l.level3);
    if (lane == 8)
        to[0] = (uint8_t)l.level3;
    if (lane < 8 && (l.level3 >> lane & 1))
        to[1 + __popc(l.level3 & ((1u << lane) - 1))] = (uint8_t)fzm_zero_level2(&l, lane);
    if (kept & 0xff)
        to[1 + n3 + l.before] = (uint8_t)kept;
    if (kept >> 8)
        to[1 + n3 + l.before + ((kept & 0xff) != 0)] = (uint8_t)(kept >> 8);
    return 1 + n3 + __popc(l.low) + __popc(l.high);
}

/* Writes a segment of n words. */
template <unsigned W>
FZM_D void fzm_zero_put_segment(uint8_t *to, const uint8_t *words, uint32_t n, uint32_t mode, uint32_t kept)
{
    typedef typename fzm_zero_word<W>::type word;
    const unsigned lane = threadIdx.x & 31;
    if (mode == FZM_ZERO_NONE)
        return;
    if (mode == FZM_ZERO_WORDS) {
        fzm_zero_copy(to, words, n * W, lane, 32);
        return;
    }
    to += fzm_zero_put_map(to, mode, kept, n);
#pragma unroll 4
    for (unsigned i = 0; i < 16; i++) {
        const uint32_t marks = fzm_zero_marks_of(kept, i);
        if (marks >> lane & 1) {
            const word v = ((const word *)(const void *)words)[32 * i + lane];
            uint8_t *const p = to + W * __popc(marks & ((1u << lane) - 1));
#pragma unroll
            for (unsigned b = 0; b < W; b++)
                p[b] = (uint8_t)(v >> 8 * b);
        }
        to += W * __popc(marks);
    }
}

/* The map of n words at p, of which `left` untrusted bytes may be read. Returns its bytes, -1: damaged. */
FZM_D int fzm_zero_get_map(const uint8_t *p, int left, uint32_t mode, uint32_t n, uint32_t *kept)
{
    const unsigned lane = threadIdx.x & 31;
    int nbytes = (int)(n + 7) / 8;
    *kept = 0;
    if (mode == FZM_ZERO_FLAT) {
        if (left < nbytes)
            return -1;
        *kept = (int)(2 * lane) < nbytes ? p[2 * lane] : 0;
        *kept |= (int)(2 * lane) + 1 < nbytes ? (uint32_t)p[2 * lane + 1] << 8 : 0;
    } else {
        if (left < 1 || left < 1 + (int)__popc(p[0]))
            return -1;
        const uint32_t level3 = p[0], k = lane / 4;
        const uint32_t byte = level3 >> k & 1 ? p[1 + __popc(level3 & ((1u << k) - 1))] : 0;
        const uint32_t level2 = byte >> lane % 4 * 2 & 3;
        const struct fzm_zero_levels l = fzm_zero_levels_of(level2 & 1, level2 & 2);
        nbytes = 1 + __popc(level3) + __popc(l.low) + __popc(l.high);
        if (left < nbytes)
            return -1;
        p += 1 + __popc(level3);
        *kept = level2 & 1 ? p[l.before] : 0;
        *kept |= level2 & 2 ? (uint32_t)p[l.before + (level2 & 1)] << 8 : 0;
    }
    const int n_valid = max(min((int)n - 16 * (int)lane, 16), 0); /* words beyond the segment's end */
    return __any_sync(FZM_FULL_WARP, *kept >> n_valid) ? -1 : nbytes;
}

/* Decodes a sound segment of n words; before: the word in front of it, 0 for RZE. */
template <unsigned W, bool REPEATS>
FZM_D void fzm_zero_get_segment(const uint8_t *p, uint32_t mode, uint32_t n, uint64_t before, uint8_t *words)
{
    typedef typename fzm_zero_word<W>::type word;
    const unsigned lane = threadIdx.x & 31;
    uint32_t kept = 0, count = 0;
    if (mode == FZM_ZERO_WORDS) {
        fzm_zero_copy(words, p, n * W, lane, 32);
        return;
    }
    if (mode != FZM_ZERO_NONE)
        p += fzm_zero_get_map(p, FZM_ZERO_MAX_CHUNK, mode, n, &kept);
#pragma unroll 4
    for (unsigned i = 0; i < 16; i++) {
        const uint32_t marks = fzm_zero_marks_of(kept, i), k = 32 * i + lane;
        const uint32_t n_here = count + __popc(marks & (0xffffffffu >> (31 - lane)));
        word v = (word)before;
        if (REPEATS ? n_here != 0 : marks >> lane & 1)
            v = fzm_zero_load<W>(p + (n_here - 1) * W);
        if (k < n)
            ((word *)(void *)words)[k] = v;
        count += __popc(marks);
    }
}

#endif
