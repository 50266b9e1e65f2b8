/* SPDX-License-Identifier: BSD-3-Clause */
/* RZE and RRE on the device, backward. One block of threads per chunk: its first warp finds the segments of
 * the payload one after the other, the others decode them as they become known. The section is untrusted and
 * may have any alignment. */
#ifndef FZM_GPU_ZERO_STAGE_DECODE_CUH
#define FZM_GPU_ZERO_STAGE_DECODE_CUH

#include "zero_stage.cuh"

#define FZM_ZERO_SEGMENT_UNKNOWN 0xffffffffu
#define FZM_ZERO_SEGMENT_DAMAGED 0xfffffffeu /* this one or one before it */

struct fzm_zero_decode_shared {
    uint64_t begin; /* of the payload, behind the tables */
    uint32_t size;
    bool sound;
    uint32_t segments[FZM_ZERO_MAX_SEGMENTS]; /* place in the payload, mode in the upper 16 bits */
    uint32_t before[FZM_ZERO_MAX_SEGMENTS];   /* RRE: place of the word in front of the segment, 0: it is 0 */
    uint32_t tail[FZM_ZERO_TAIL_WORDS]; /* the short last segment of single bytes, in mode FLAT of 512 */
};

/* Warp 0: place and size of the payload; whether the tables are sound there. */
FZM_D void fzm_zero_find_payload(const struct fzm_zero_args *a, struct fzm_zero_decode_shared *sh, uint32_t n)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t n_groups = (a->n_chunks + FZM_ZERO_GROUP_CHUNKS - 1) / FZM_ZERO_GROUP_CHUNKS;
    const uint32_t chunk = blockIdx.x, group = chunk / FZM_ZERO_GROUP_CHUNKS,
                   place = chunk % FZM_ZERO_GROUP_CHUNKS;
    const struct fzm_section ends = {a->section + 8, (uintptr_t)a->section % 4 == 0};
    const struct fzm_section sizes = {ends.bytes + 4 * (uint64_t)n_groups, (uintptr_t)a->section % 2 == 0};
    const uint32_t n_here = min(a->n_chunks - (chunk - place), (uint32_t)FZM_ZERO_GROUP_CHUNKS);
    const uint64_t payloads_nbytes = a->section_nbytes - fzm_zero_table_nbytes(a->n_chunks);
    const uint32_t begin = group ? fzm_section_load<uint32_t>(ends, group - 1) : 0;
    const uint32_t end = fzm_section_load<uint32_t>(ends, group);
    uint32_t size[2];
#pragma unroll
    for (unsigned j = 0; j < 2; j++)
        size[j] =
            lane + 32 * j < n_here ? fzm_section_load<uint16_t>(sizes, chunk - place + lane + 32 * j) : 0;
    const uint32_t sum = __reduce_add_sync(FZM_FULL_WARP, size[0] + size[1]);
    const uint32_t before =
        __reduce_add_sync(FZM_FULL_WARP, (lane < place ? size[0] : 0) + (lane + 32 < place ? size[1] : 0));
    const uint32_t mine = __shfl_sync(FZM_FULL_WARP, place < 32 ? size[0] : size[1], place % 32);
    bool sound = begin <= end && end <= payloads_nbytes && end - begin == sum && mine <= n;
    if (group == n_groups - 1)
        sound = sound && end == payloads_nbytes &&
                fzm_section_load<uint64_t>({a->section, false}, 0) == a->in_nbytes;
    if (lane == 0) {
        sh->begin = (uint64_t)begin + before;
        sh->size = mine;
        sh->sound = sound;
    }
}

/* Warp 0: bytes of the short last segment of single bytes at p, -1: damaged. Leaves it in tail. */
FZM_D int fzm_zero_spread_tail(struct fzm_zero_decode_shared *sh, const uint8_t *p, int left, uint32_t n,
                               uint32_t mode)
{
    const unsigned lane = threadIdx.x & 31;
    enum { MAP = FZM_ZERO_SEGMENT_WORDS / 8 };
    uint8_t *const tail = (uint8_t *)sh->tail;
    uint32_t kept;
    const int map = fzm_zero_get_map(p, left, mode, n, &kept);
    if (map < 0)
        return -1;
    left -= map;
    const int n_copied = min(left, (int)sizeof sh->tail - MAP);
    tail[2 * lane] = (uint8_t)kept;
    tail[2 * lane + 1] = (uint8_t)(kept >> 8);
    for (int i = (int)lane; i < n_copied; i += 32)
        tail[MAP + i] = p[map + i];
    __syncwarp();
    const int nbytes = fzm_zero_segment_nbytes(tail, MAP + left, FZM_ZERO_FLAT);
    return nbytes < 0 ? -1 : nbytes - MAP + map;
}

/* Warp 0: bytes of a segment of n words at p, of which `left` may be read; -1: damaged. *is_kept: whether
 * words are stored. */
template <unsigned W, bool REPEATS>
FZM_D int fzm_zero_scan_segment(struct fzm_zero_decode_shared *sh, const uint8_t *p, int left, uint32_t n,
                                uint32_t mode, bool *is_kept)
{
    *is_kept = mode == FZM_ZERO_WORDS;
    if (mode == FZM_ZERO_NONE)
        return 0;
    if (mode == FZM_ZERO_WORDS)
        return left < (int)(n * W) ? -1 : (int)(n * W);
    if (W == 1 && !REPEATS)
        return n == FZM_ZERO_SEGMENT_WORDS ? fzm_zero_segment_nbytes(p, left, mode)
                                           : fzm_zero_spread_tail(sh, p, left, n, mode);
    uint32_t kept;
    const int map = fzm_zero_get_map(p, left, mode, n, &kept);
    const int n_kept = __reduce_add_sync(FZM_FULL_WARP, __popc(kept));
    *is_kept = n_kept != 0;
    return map < 0 || left - map < n_kept * (int)W ? -1 : map + n_kept * (int)W;
}

/* Warp 0: makes a segment known to warps that wait for it, after what it has written about it. */
FZM_D void fzm_zero_tell(struct fzm_zero_decode_shared *sh, uint32_t i, uint32_t segment)
{
    __syncwarp();
    __threadfence_block();
    if (threadIdx.x == 0)
        *(volatile uint32_t *)&sh->segments[i] = segment;
}

FZM_D uint32_t fzm_zero_wait(const struct fzm_zero_decode_shared *sh, uint32_t i)
{
    uint32_t segment;
    while ((segment = *(const volatile uint32_t *)&sh->segments[i]) == FZM_ZERO_SEGMENT_UNKNOWN)
        __nanosleep(64);
    __threadfence_block();
    __syncwarp();
    return segment;
}

/* Warp 0: finds the segments after `lead` empty ones; whether the payload is sound. */
template <unsigned W, bool REPEATS>
FZM_D bool fzm_zero_scan(struct fzm_zero_decode_shared *sh, const struct fzm_zero_frame *f, const uint8_t *p,
                         uint32_t lead, uint32_t size)
{
    uint32_t at = fzm_zero_head_nbytes(f->n_segments, lead), before = 0, i = lead;
    for (; i < f->n_segments; i++) {
        const uint32_t k = i - lead, mode = p[1 + k / 4] >> k % 4 * 2 & 3;
        bool is_kept;
        const int nbytes = fzm_zero_scan_segment<W, REPEATS>(sh, p + at, (int)(size - f->n_left - at),
                                                             fzm_zero_words_of(f, i), mode, &is_kept);
        if (nbytes < 0)
            break;
        if (REPEATS && threadIdx.x == 0)
            sh->before[i] = before;
        fzm_zero_tell(sh, i, at | mode << 16);
        at += (uint32_t)nbytes;
        before = is_kept ? at - W : before;
    }
    const bool sound = i == f->n_segments && at + f->n_left == size;
    for (; i < f->n_segments; i++)
        fzm_zero_tell(sh, i, FZM_ZERO_SEGMENT_DAMAGED);
    return sound;
}

/* Warp: decodes a segment. */
template <unsigned W, bool REPEATS>
FZM_D void fzm_zero_decode_segment(const struct fzm_zero_decode_shared *sh, const uint8_t *p,
                                   uint32_t segment, uint32_t before_at, uint32_t n, uint8_t *words)
{
    const uint32_t at = segment & 0xffff, mode = segment >> 16;
    if (W == 1 && !REPEATS) {
        if (mode >= FZM_ZERO_FLAT && n < FZM_ZERO_SEGMENT_WORDS)
            fzm_zero_segment_get((const uint8_t *)sh->tail, FZM_ZERO_FLAT, words);
        else if (mode == FZM_ZERO_WORDS)
            fzm_zero_copy(words, p + at, n, threadIdx.x & 31, 32);
        else
            fzm_zero_segment_get(p + at, mode, words);
        return;
    }
    fzm_zero_get_segment<W, REPEATS>(p + at, mode, n, before_at ? fzm_zero_load<W>(p + before_at) : 0, words);
}

/* All warps but the first: segments to their places in the array. */
template <unsigned W, bool REPEATS>
FZM_D void fzm_zero_decode_segments(const struct fzm_zero_decode_shared *sh, const struct fzm_zero_frame *f,
                                    const uint8_t *p, uint32_t lead, uint8_t *stages, uint8_t *array)
{
    enum { SEGMENT_NBYTES = FZM_ZERO_SEGMENT_WORDS * W };
    const uint32_t decoder = threadIdx.x / 32 - 1, n_decoders = blockDim.x / 32 - 1;
    uint8_t *const stage = stages + decoder * SEGMENT_NBYTES;
    for (uint32_t i = lead + decoder; i < f->n_segments; i += n_decoders) {
        const uint32_t segment = fzm_zero_wait(sh, i), n = fzm_zero_words_of(f, i);
        if (segment == FZM_ZERO_SEGMENT_DAMAGED)
            return;
        fzm_zero_decode_segment<W, REPEATS>(sh, p, segment, REPEATS ? sh->before[i] : 0, n, stage);
        __syncwarp();
        fzm_zero_copy(array + i * SEGMENT_NBYTES, stage, n * W, threadIdx.x & 31, 32);
        __syncwarp();
    }
}

/* Block: n zeros to any address. */
FZM_D void fzm_zero_clear(uint8_t *to, uint32_t n)
{
    const uint32_t before = min(n, (uint32_t)(0 - (uintptr_t)to) % 16), n_wide = (n - before) / 16;
    const uint32_t after = before + 16 * n_wide;
    for (uint32_t i = threadIdx.x; i < n_wide; i += blockDim.x)
        ((uint4 *)(void *)(to + before))[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < before)
        to[threadIdx.x] = 0;
    if (threadIdx.x < n - after)
        to[after + threadIdx.x] = 0;
}

/* Grid: chunks. */
template <unsigned W, bool REPEATS>
static __global__ void __launch_bounds__(FZM_ZERO_MAX_THREADS)
    fzm_zero_decode_kernel(const __grid_constant__ struct fzm_zero_args a)
{
    extern __shared__ uint4 fzm_zero_memory[];
    __shared__ struct fzm_zero_decode_shared sh;
    const uint64_t first = (uint64_t)blockIdx.x * a.chunk_nbytes;
    const uint32_t n = (uint32_t)min(a.in_nbytes - first, (uint64_t)a.chunk_nbytes);
    const struct fzm_zero_frame f = fzm_zero_frame_of<W>(n);
    uint8_t *const coded = (uint8_t *)fzm_zero_memory, *const stages = coded + fzm_zero_room(a.chunk_nbytes);
    uint8_t *const array = a.array + first;
    if (threadIdx.x < 32)
        fzm_zero_find_payload(&a, &sh, n);
    for (uint32_t i = threadIdx.x; i < FZM_ZERO_MAX_SEGMENTS; i += blockDim.x)
        sh.segments[i] = FZM_ZERO_SEGMENT_UNKNOWN;
    __syncthreads();
    const uint32_t size = sh.sound ? sh.size : 0;
    if (size == 0) {
        if (!sh.sound && threadIdx.x == 0)
            *a.corrupt = 1;
        fzm_zero_clear(array, n);
        return;
    }
    const uint8_t *const payload = a.section + fzm_zero_table_nbytes(a.n_chunks) + sh.begin;
    const uint32_t skip = (uintptr_t)payload % 4;
    for (uint32_t i = threadIdx.x; i < (skip + size + 3) / 4; i += blockDim.x)
        ((uint32_t *)(void *)coded)[i] = ((const uint32_t *)(const void *)(payload - skip))[i];
    __syncthreads();
    const uint8_t *const p = coded + skip;
    const uint32_t lead = p[0];
    if (size == n) {
        fzm_zero_copy(array, p, n, threadIdx.x, blockDim.x);
    } else if (lead > f.n_segments || size < fzm_zero_head_nbytes(f.n_segments, lead) + f.n_left) {
        if (threadIdx.x == 0)
            *a.corrupt = 1;
    } else {
        fzm_zero_clear(array, min(lead * FZM_ZERO_SEGMENT_WORDS, f.n_words) * W);
        if (threadIdx.x < f.n_left)
            array[n - f.n_left + threadIdx.x] = p[size - f.n_left + threadIdx.x];
        if (threadIdx.x >= 32)
            fzm_zero_decode_segments<W, REPEATS>(&sh, &f, p, lead, stages, array);
        else if (!fzm_zero_scan<W, REPEATS>(&sh, &f, p, lead, size) && threadIdx.x == 0)
            *a.corrupt = 1;
    }
}

#endif
