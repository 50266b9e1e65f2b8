/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of bit planes, forward: a block of 16 warps encodes a tile in shared memory. The input is read
 * once. Sizes are known before the payload is built, so that blocks find their place by look-back while
 * they build it. */
#include "planes_encode.cuh"

/* Sizes of the segments; a warp has two planes, 16 apart. */
FZM_D void measure_planes(struct encode_shared *sh, unsigned lead, struct fzm_zero_marks marks[2])
{
    const uint8_t *const planes = (const uint8_t *)sh->planes;
#pragma unroll
    for (unsigned j = 0; j < 2; j++) {
        const unsigned plane = lead + PLANE_WARPS * j + threadIdx.x / 32;
        if (plane >= 32)
            break;
        marks[j] = fzm_zero_measure(planes + plane * PLANE_NBYTES);
        if (threadIdx.x % 32 == 0)
            sh->segments[plane] = marks[j].nbytes | marks[j].mode << 16;
    }
}

/* Number of leading empty segments and modes of the others; one warp. mine: the lane's word of segments[]. */
FZM_D void put_head(uint8_t *payload, unsigned lead, uint32_t mine)
{
    const unsigned lane = threadIdx.x & 31;
    uint32_t modes = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned plane = lead + 4 * lane + i;
        const uint32_t mode = __shfl_sync(FZM_FULL_WARP, mine >> 16, plane & 31);
        modes |= (plane < 32 ? mode : 0) << 2 * i;
    }
    if (lane == 0)
        payload[0] = (uint8_t)lead;
    if (lead + 4 * lane < 32)
        payload[1 + lane] = (uint8_t)modes;
}

/* Planes of the tile, with those that may be other than zero; the exact number of leading zero planes. Zigzag
 * codes have at most one bit more than negabinary ones, of which `any` is the OR. */
FZM_D unsigned split(struct encode_shared *sh, const uint32_t v[8], uint32_t any)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t low = v[0] | v[1] | v[2] | v[3], high = v[4] | v[5] | v[6] | v[7];
    const uint32_t mine = __reduce_or_sync(FZM_FULL_WARP, low | high);
    if (lane == 0)
        sh->mapped[threadIdx.x / 32] = mine;
    fzm_split_planes(v, __clz(any | any << 1), (uint8_t *)sh->planes);
    __syncthreads();
    return __clz(__reduce_or_sync(FZM_FULL_WARP, sh->mapped[lane % PLANE_WARPS]));
}

/* Builds the payload of a tile that is not zero in its buffer, or leaves the planes as they are if that is
 * not longer. Makes the size public as soon as it is known. */
FZM_D uint32_t encode_planes(const struct encode_args *a, struct encode_shared *sh, const uint32_t v[8],
                             uint32_t any)
{
    const unsigned lane = threadIdx.x & 31;
    uint8_t *const planes = (uint8_t *)sh->planes;
    struct fzm_zero_marks marks[2];
    const unsigned lead = split(sh, v, any);
    measure_planes(sh, lead, marks);
    sh->exchange[threadIdx.x] = sh->exchange[PLANE_THREADS + threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const uint32_t mine = lane < lead ? 0 : sh->segments[lane], nbytes = mine & 0xffff;
    uint32_t total;
    const uint32_t head_nbytes = fzm_zero_head_nbytes(32, lead);
    const uint32_t at = head_nbytes + fzm_warp_exclusive_sum(nbytes, &total);
    const bool raw = head_nbytes + total >= TILE_NBYTES;
    const uint32_t size = raw ? TILE_NBYTES : head_nbytes + total;
    if (threadIdx.x == 0)
        fzm_lookback_publish(a->lookback, blockIdx.x, size);
    if (raw) {
        for (uint32_t i = threadIdx.x; i < lead * (PLANE_NBYTES / 16); i += PLANE_THREADS)
            sh->planes[i] = make_uint4(0, 0, 0, 0);
        return size;
    }
    if (threadIdx.x / 32 == PLANE_WARPS - 1)
        put_head((uint8_t *)sh->exchange, lead, mine);
#pragma unroll
    for (unsigned j = 0; j < 2; j++) {
        const unsigned plane = lead + PLANE_WARPS * j + threadIdx.x / 32;
        if (plane >= 32)
            break;
        fzm_zero_put(planes + plane * PLANE_NBYTES, &marks[j], (uint32_t *)(void *)sh->exchange,
                     __shfl_sync(FZM_FULL_WARP, at, plane));
    }
    return size;
}

/* One warp: the place of the payload, and the tables in front of it. */
FZM_D void find_place(const struct encode_args *a, struct encode_shared *sh, uint32_t tile)
{
    uint64_t sum;
    const uint64_t base = fzm_lookback_wait(a->lookback, tile, &sum);
    if (threadIdx.x % 32 != 0)
        return;
    const uint32_t n_groups = (a->n_tiles + FZM_ZERO_GROUP_CHUNKS - 1) / FZM_ZERO_GROUP_CHUNKS;
    uint32_t *const ends = (uint32_t *)(void *)(a->section + 8);
    ((uint16_t *)(void *)(ends + n_groups))[tile] = (uint16_t)sum;
    if (tile % FZM_ZERO_GROUP_CHUNKS == FZM_ZERO_GROUP_CHUNKS - 1 || tile == a->n_tiles - 1)
        ends[tile / FZM_ZERO_GROUP_CHUNKS] = (uint32_t)(base + sum);
    if (tile == a->n_tiles - 1) {
        const uint64_t nbytes = (uint64_t)a->n_tiles * TILE_NBYTES;
        ends[-2] = (uint32_t)nbytes;
        ends[-1] = (uint32_t)(nbytes >> 32);
        a->result->section_nbytes = fzm_zero_table_nbytes(a->n_tiles) + base + sum;
    }
    sh->base = base;
}

/* size bytes to any address. */
FZM_D void copy_out(const uint32_t *from, uint32_t size, uint8_t *to)
{
    const uint32_t before = min(size, (uint32_t)(0 - (uintptr_t)to) % 4), n_words = (size - before) / 4;
    const uint8_t *const bytes = (const uint8_t *)from;
    uint32_t *const words = (uint32_t *)(void *)(to + before);
    for (uint32_t i = threadIdx.x; i < n_words; i += PLANE_THREADS)
        words[i] = before ? __funnelshift_r(from[i], from[i + 1], 8 * before) : from[i];
    const uint32_t after = before + 4 * n_words;
    if (threadIdx.x < before)
        to[threadIdx.x] = bytes[threadIdx.x];
    if (after + threadIdx.x < size)
        to[after + threadIdx.x] = bytes[after + threadIdx.x];
}

template <int G, bool QUANTIZED>
static __global__ void __launch_bounds__(PLANE_THREADS, 3)
encode_kernel(const __grid_constant__ struct encode_args a)
{
    __shared__ struct encode_shared shared;
    struct encode_shared *const sh = &shared;
    const uint32_t tile = blockIdx.x;
    const struct fzm_plane_place place = fzm_plane_place_at<G>(a.grid, tile);
    uint32_t v[8], bad = 0, size = 0;
    fzm_plane_load(a.elems, place, a.aligned, v);
    if (QUANTIZED) {
        bad = quantize(&a, place.valid, v);
    } else if (a.is_float) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = (uint32_t)fzm_ordered_i32((int32_t)v[i]);
    }
    fzm_put8(sh->exchange, v);
    bool masked = false;
    if (QUANTIZED) {
        if (__syncthreads_or(bad)) {
            masked = !fill_outliers(&a, sh, place.first, place.valid, bad);
            fzm_get8(sh->exchange, threadIdx.x, v);
        }
    } else {
        __syncthreads();
    }
    if (masked) {
        if (threadIdx.x == 0) {
            atomicAdd(&a.result->n_masked_tiles, 1);
            a.states[tile] = TILE_MASKED;
        }
    } else {
        unsigned mode;
        const int32_t origin = (int32_t)sh->exchange[0].x;
        const uint32_t any = predict<G, QUANTIZED>(sh, place.valid, v, &mode);
        if (threadIdx.x == 0) {
            a.states[tile] = (uint8_t)mode;
            a.origins[tile] = origin;
        }
        if (any)
            size = encode_planes(&a, sh, v, any);
    }
    if (size == 0 && threadIdx.x == 0)
        fzm_lookback_publish(a.lookback, tile, size);
    if (threadIdx.x / 32 == PLANE_WARPS - 1)
        find_place(&a, sh, tile);
    if (size == 0)
        return;
    __syncthreads();
    copy_out((const uint32_t *)(const void *)(size < TILE_NBYTES ? sh->exchange : sh->planes), size,
             a.section + fzm_zero_table_nbytes(a.n_tiles) + sh->base);
}

/* Packs the modes; masked tiles take the origin of the last tile before that is not, else 0. A warp has 128
 * tiles, a lane 4. */
static __global__ void finish_kernel(const uint8_t *states, uint32_t n_tiles, uint8_t *modes,
                                     int32_t *origins)
{
    const unsigned lane = threadIdx.x & 31;
    const uint32_t *const words = (const uint32_t *)(const void *)states;
    const uint32_t warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, mine = 32 * warp + lane;
    const uint32_t n_words = (n_tiles + 3) / 4;
    if (32 * warp >= n_words)
        return;
    const uint32_t exist = mine >= n_words ? 0 : min(n_tiles - 4 * mine, 4u);
    const uint32_t s = exist ? words[mine] & 0xffffffffu >> (32 - 8 * exist) : 0;
    if (exist)
        modes[mine] = (uint8_t)((s & 3) | (s >> 6 & 12) | (s >> 12 & 48) | (s >> 18 & 192));
    const uint32_t all = exist ? 0x04040404u >> (32 - 8 * exist) : 0, good = all & ~s;
    if (!__any_sync(FZM_FULL_WARP, s & all))
        return;
    const unsigned goods = __ballot_sync(FZM_FULL_WARP, good != 0), below = goods & ((1u << lane) - 1);
    int64_t last = good ? 4 * (int64_t)mine + (31 - __clz(good)) / 8 : -1, source = -1;
    for (int64_t j = 32 * (int64_t)warp - 1; j >= 0 && source < 0; j -= 32) {
        const uint32_t g = j >= (int64_t)lane ? 0x04040404u & ~words[j - lane] : 0;
        const unsigned found = __ballot_sync(FZM_FULL_WARP, g != 0);
        if (found) {
            const int from = __ffs(found) - 1;
            source = 4 * (j - from) + (31 - __clz(__shfl_sync(FZM_FULL_WARP, g, from))) / 8;
        }
    }
    const int64_t near = __shfl_sync(FZM_FULL_WARP, last, below ? 31 - __clz(below) : 0);
    last = below ? near : source;
    for (uint32_t i = 0; i < exist; i++) {
        if (s >> 8 * i & TILE_MASKED)
            origins[4 * mine + i] = last < 0 ? 0 : origins[last];
        else
            last = 4 * (int64_t)mine + i;
    }
}

static uint64_t padded(uint64_t nbytes) { return (nbytes + 255) / 256 * 256; }

extern "C" size_t fzm_gpu_planes_scratch_nbytes(const struct fzm_tiling *tiling)
{
    return (size_t)(padded(8 * tiling->n_tiles) + padded(tiling->n_tiles));
}

template <int G> static void launch_encode(const struct encode_args *a, bool quantized, cudaStream_t stream)
{
    if (quantized)
        encode_kernel<G, true><<<a->n_tiles, PLANE_THREADS, 0, stream>>>(*a);
    else
        encode_kernel<G, false><<<a->n_tiles, PLANE_THREADS, 0, stream>>>(*a);
}

static cudaError_t launch(const struct encode_args *a, int geometry, bool quantized, cudaStream_t stream)
{
    switch (geometry) {
    case FZM_GEOMETRY_1D: launch_encode<FZM_GEOMETRY_1D>(a, quantized, stream); break;
    case FZM_GEOMETRY_2D: launch_encode<FZM_GEOMETRY_2D>(a, quantized, stream); break;
    case FZM_GEOMETRY_3D: launch_encode<FZM_GEOMETRY_3D>(a, quantized, stream); break;
    case FZM_GEOMETRY_2D_WIDE: launch_encode<FZM_GEOMETRY_2D_WIDE>(a, quantized, stream); break;
    case FZM_GEOMETRY_3D_FLAT: launch_encode<FZM_GEOMETRY_3D_FLAT>(a, quantized, stream); break;
    default: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

extern "C" cudaError_t fzm_gpu_planes_forward(const struct fzm_gpu_planes *f, cudaStream_t stream)
{
    const struct fzm_tiling *const t = f->tiling;
    const uint64_t n_elems = t->n_batch * t->dims[0] * t->dims[1] * t->dims[2];
    if ((f->quantizer && f->quantizer->kind != FZM_QUANTIZER_LINEAR) || t->n_tile_elems != 4096 ||
        n_elems > 1u << 30)
        return cudaErrorInvalidValue;
    struct encode_args a = {};
    a.grid = fzm_plane_grid_init(t);
    a.n_tiles = (uint32_t)t->n_tiles;
    a.aligned = fzm_plane_rows_aligned(t, f->elems);
    a.is_float = f->is_float != 0;
    if (f->quantizer) {
        a.k = fzm_linear_f32_init(f->quantizer);
        a.has_fill = f->quantizer->has_fill;
        a.fill = (uint32_t)f->quantizer->fill;
        a.mask = f->mask;
    }
    a.elems = (const uint32_t *)f->elems;
    a.section = f->section;
    a.origins = f->origins;
    a.lookback = (uint64_t *)f->scratch;
    a.states = (uint8_t *)f->scratch + padded(8 * t->n_tiles);
    a.result = f->result;
    cudaError_t err = cudaMemsetAsync(f->result, 0, sizeof *f->result, stream);
    if (err == cudaSuccess && f->quantizer && !f->mask_is_zero)
        err = cudaMemsetAsync(f->mask, 0, fzm_div_up(n_elems, 32) * 4, stream);
    if (err != cudaSuccess || a.n_tiles == 0)
        return err;
    err = cudaMemsetAsync(a.lookback, 0, 8 * (size_t)a.n_tiles, stream);
    if (err == cudaSuccess)
        err = launch(&a, f->geometry, f->quantizer != NULL, stream);
    if (err != cudaSuccess)
        return err;
    finish_kernel<<<(a.n_tiles + 1023) / 1024, 256, 0, stream>>>(a.states, a.n_tiles, f->modes, f->origins);
    return cudaGetLastError();
}
