/* SPDX-License-Identifier: BSD-3-Clause */
/* RZE and RRE on the device, forward: included by rze.cu and rre.cu. One block of threads per chunk: its
 * warps measure the segments, the block publishes the payload's size for the look-back, puts the payload
 * together in shared memory and copies it to its place. */
#ifndef FZM_GPU_ZERO_STAGE_CUH
#define FZM_GPU_ZERO_STAGE_CUH

extern "C" {
#include "../core/le.h"
#include "../core/stages.h"
#include "ops.h"
}

#include "lookback.cuh"
#include "quantizer_load.cuh"
#include "zero_segment.cuh"

enum {
    FZM_ZERO_MAX_WARPS = 16,
    FZM_ZERO_MAX_THREADS = 32 * FZM_ZERO_MAX_WARPS,
    FZM_ZERO_SLACK = 16,      /* bytes behind a chunk in shared memory that are read, or written with zeros */
    FZM_ZERO_TAIL_WORDS = 164 /* 32-bit words of a segment of single bytes that is spread to 512 words */
};

/* A section and its array, which may have any alignment when they are read. */
struct fzm_zero_args {
    uint8_t *array, *section;
    uint64_t in_nbytes, section_nbytes;
    uint32_t chunk_nbytes, n_chunks;
    uint64_t *lookback, *section_nbytes_slot; /* forward */
    uint32_t *corrupt;                        /* inverse */
};

/* Bytes of a chunk in shared memory: whole segments of single bytes. There are two, words and payload. */
FZM_HD uint32_t fzm_zero_room(uint32_t chunk_nbytes)
{
    return (chunk_nbytes + FZM_ZERO_SEGMENT_WORDS - 1) / FZM_ZERO_SEGMENT_WORDS * FZM_ZERO_SEGMENT_WORDS +
           FZM_ZERO_SLACK;
}

struct fzm_zero_encode_shared {
    uint64_t base;
    uint32_t size;                            /* of the payload */
    uint32_t segments[FZM_ZERO_MAX_SEGMENTS]; /* size, later place, in the lower 16 bits, mode above */
    uint16_t kept[FZM_ZERO_MAX_SEGMENTS][32];
    uint32_t tail[FZM_ZERO_TAIL_WORDS];
};

/* Block: n bytes of the array, zeros up to room, and a payload of zeros behind. */
FZM_D void fzm_zero_load_chunk(uint8_t *to, const uint8_t *from, uint32_t n, uint32_t room)
{
    const uint32_t width = (uintptr_t)from % 16 == 0 ? 16 : (uintptr_t)from % 4 == 0 ? 4 : 1;
    const uint32_t whole = n / width;
    if (width == 16)
        for (uint32_t i = threadIdx.x; i < whole; i += blockDim.x)
            ((uint4 *)(void *)to)[i] = ((const uint4 *)(const void *)from)[i];
    else if (width == 4)
        for (uint32_t i = threadIdx.x; i < whole; i += blockDim.x)
            ((uint32_t *)(void *)to)[i] = ((const uint32_t *)(const void *)from)[i];
    for (uint32_t i = (width == 1 ? 0 : whole * width) + threadIdx.x; i < n; i += blockDim.x)
        to[i] = from[i];
    const uint32_t end = (n + 15) / 16 * 16;
    if (n + threadIdx.x < end)
        to[n + threadIdx.x] = 0;
    for (uint32_t i = end / 16 + threadIdx.x; i < 2 * room / 16; i += blockDim.x)
        ((uint4 *)(void *)to)[i] = make_uint4(0, 0, 0, 0);
}

/* Warp: size and mode of a segment. */
template <unsigned W, bool REPEATS>
FZM_D uint32_t fzm_zero_measure_segment(struct fzm_zero_encode_shared *sh, const uint8_t *words,
                                        uint32_t segment, uint32_t n)
{
    if (W == 1 && !REPEATS) {
        const struct fzm_zero_marks m = fzm_zero_measure(words + segment * FZM_ZERO_SEGMENT_WORDS);
        const uint32_t n_kept = m.totals & 0xffff;
        if (n == FZM_ZERO_SEGMENT_WORDS)
            return m.nbytes | m.mode << 16;
        return fzm_zero_size(n, n, m.marks & 0xffff, n_kept, fzm_zero_bytes_nbytes(n_kept, m.totals >> 16));
    }
    const uint32_t kept = fzm_zero_mark<W, REPEATS>(words, segment, n);
    const uint32_t n_kept = __reduce_add_sync(FZM_FULL_WARP, __popc(kept));
    sh->kept[segment][threadIdx.x & 31] = (uint16_t)kept;
    return fzm_zero_size(n, n * W, kept, n_kept, n_kept * W);
}

/* Warp 0: places of the segments, the payload's size, which is published, and its head. */
FZM_D void fzm_zero_plan(const struct fzm_zero_args *a, struct fzm_zero_encode_shared *sh,
                         const struct fzm_zero_frame *f, uint32_t n, const uint8_t *words, uint8_t *payload)
{
    const unsigned lane = threadIdx.x & 31;
    uint32_t segment[2], at[2], total[2], used[2];
#pragma unroll
    for (unsigned j = 0; j < 2; j++) {
        segment[j] = lane + 32 * j < f->n_segments ? sh->segments[lane + 32 * j] : 0;
        used[j] = __ballot_sync(FZM_FULL_WARP, segment[j] != 0);
        at[j] = fzm_warp_exclusive_sum(segment[j] & 0xffff, &total[j]);
    }
    const bool left = __any_sync(FZM_FULL_WARP, lane < f->n_left && words[n - f->n_left + lane]);
    const uint32_t lead = used[0] ? __ffs(used[0]) - 1 : used[1] ? __ffs(used[1]) + 31 : f->n_segments;
    const uint32_t head_nbytes = fzm_zero_head_nbytes(f->n_segments, lead);
    uint32_t size = min(head_nbytes + total[0] + total[1] + f->n_left, n);
    if (lead == f->n_segments && !left)
        size = 0;
    if (lane == 0) {
        sh->size = size;
        if (a->n_chunks > 1)
            fzm_lookback_publish(a->lookback, blockIdx.x, size);
    }
    if (size == 0 || size == n)
        return;
    if (lane < head_nbytes) {
        uint32_t byte = lane ? 0 : lead;
        for (uint32_t i = 0; lane && i < 4; i++) {
            const uint32_t k = lead + 4 * (lane - 1) + i;
            byte |= k < f->n_segments ? sh->segments[k] >> 16 << 2 * i : 0;
        }
        payload[lane] = (uint8_t)byte;
    }
    if (lane < f->n_left)
        payload[size - f->n_left + lane] = words[n - f->n_left + lane];
    __syncwarp();
    sh->segments[lane] = (segment[0] & ~0xffffu) | (head_nbytes + at[0]);
    sh->segments[lane + 32] = (segment[1] & ~0xffffu) | (head_nbytes + total[0] + at[1]);
}

/* Warp: the last segment of single bytes, if it is short: put together as a whole one, and cut. */
FZM_D void fzm_zero_put_tail(struct fzm_zero_encode_shared *sh, uint8_t *to, const uint8_t *words, uint32_t n,
                             uint32_t mode)
{
    const unsigned lane = threadIdx.x & 31;
    if (mode == FZM_ZERO_NONE || mode == FZM_ZERO_WORDS) {
        fzm_zero_copy(to, words, mode == FZM_ZERO_NONE ? 0 : n, lane, 32);
        return;
    }
    struct fzm_zero_marks m = fzm_zero_measure(words);
    const uint32_t map = fzm_zero_put_map(to, mode, m.marks & 0xffff, n);
    const uint32_t kept_nbytes = fzm_zero_bytes_nbytes(m.totals & 0xffff, m.totals >> 16);
    for (unsigned i = lane; i < FZM_ZERO_TAIL_WORDS; i += 32)
        sh->tail[i] = 0;
    __syncwarp();
    m.mode = FZM_ZERO_FLAT;
    fzm_zero_put(words, &m, sh->tail, 0);
    __syncwarp();
    fzm_zero_copy(to + map, (const uint8_t *)sh->tail + FZM_ZERO_SEGMENT_WORDS / 8, kept_nbytes, lane, 32);
}

/* Warp: writes a segment at its place. */
template <unsigned W, bool REPEATS>
FZM_D void fzm_zero_emit_segment(struct fzm_zero_encode_shared *sh, const uint8_t *words, uint32_t segment,
                                 uint32_t n, uint8_t *payload)
{
    const uint32_t at = sh->segments[segment] & 0xffff, mode = sh->segments[segment] >> 16;
    words += segment * FZM_ZERO_SEGMENT_WORDS * W;
    if (W != 1 || REPEATS) {
        fzm_zero_put_segment<W>(payload + at, words, n, mode, sh->kept[segment][threadIdx.x & 31]);
    } else if (n < FZM_ZERO_SEGMENT_WORDS) {
        fzm_zero_put_tail(sh, payload + at, words, n, mode);
    } else if (mode != FZM_ZERO_NONE) {
        const struct fzm_zero_marks m = fzm_zero_measure(words);
        fzm_zero_put(words, &m, (uint32_t *)(void *)payload, at);
    }
}

/* Warp 0: the place of the payload, and the tables in front of it. */
FZM_D void fzm_zero_find_place(const struct fzm_zero_args *a, struct fzm_zero_encode_shared *sh)
{
    const uint32_t chunk = blockIdx.x,
                   n_groups = (a->n_chunks + FZM_ZERO_GROUP_CHUNKS - 1) / FZM_ZERO_GROUP_CHUNKS;
    uint64_t sum = sh->size, base = 0;
    if (a->n_chunks > 1)
        base = fzm_lookback_wait(a->lookback, chunk, &sum);
    if (threadIdx.x != 0)
        return;
    uint32_t *const ends = (uint32_t *)(void *)(a->section + 8);
    ((uint16_t *)(void *)(ends + n_groups))[chunk] = (uint16_t)sum;
    if (chunk % FZM_ZERO_GROUP_CHUNKS == FZM_ZERO_GROUP_CHUNKS - 1 || chunk == a->n_chunks - 1)
        ends[chunk / FZM_ZERO_GROUP_CHUNKS] = (uint32_t)(base + sum);
    if (chunk == a->n_chunks - 1) {
        *(uint64_t *)(void *)a->section = a->in_nbytes;
        *a->section_nbytes_slot = fzm_zero_table_nbytes(a->n_chunks) + base + sum;
    }
    sh->base = base;
}

/* Grid: chunks. */
template <unsigned W, bool REPEATS>
static __global__ void __launch_bounds__(FZM_ZERO_MAX_THREADS)
    fzm_zero_encode_kernel(const __grid_constant__ struct fzm_zero_args a)
{
    extern __shared__ uint4 fzm_zero_memory[];
    __shared__ struct fzm_zero_encode_shared sh;
    const uint64_t first = (uint64_t)blockIdx.x * a.chunk_nbytes;
    const uint32_t n = (uint32_t)min(a.in_nbytes - first, (uint64_t)a.chunk_nbytes);
    const uint32_t room = fzm_zero_room(a.chunk_nbytes), warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const struct fzm_zero_frame f = fzm_zero_frame_of<W>(n);
    uint8_t *const words = (uint8_t *)fzm_zero_memory, *const payload = words + room;
    fzm_zero_load_chunk(words, a.array + first, n, room);
    __syncthreads();
    for (uint32_t i = warp; i < f.n_segments; i += n_warps) {
        const uint32_t v = fzm_zero_measure_segment<W, REPEATS>(&sh, words, i, fzm_zero_words_of(&f, i));
        if (threadIdx.x % 32 == 0)
            sh.segments[i] = v;
    }
    __syncthreads();
    if (warp == 0)
        fzm_zero_plan(&a, &sh, &f, n, words, payload);
    __syncthreads();
    const uint32_t size = sh.size;
    if (size != 0 && size != n)
        for (uint32_t i = warp; i < f.n_segments; i += n_warps)
            fzm_zero_emit_segment<W, REPEATS>(&sh, words, i, fzm_zero_words_of(&f, i), payload);
    if (warp == 0)
        fzm_zero_find_place(&a, &sh);
    __syncthreads();
    fzm_zero_copy(a.section + fzm_zero_table_nbytes(a.n_chunks) + sh.base, size == n ? words : payload, size,
                  threadIdx.x, blockDim.x);
}

#endif
