/* SPDX-License-Identifier: BSD-3-Clause */
#include "payload.h"

#include "transpose.cuh"

/* COPY_BLOCK: bytes that a block of threads copies. Four lanes hash a block of the payload together, each an
 * accumulator of XXH64: the chain of multiplications of one takes all its time, so a warp hashes 8 blocks at once. */
enum { HASH_BLOCK = 16384, COPY_BLOCK = 16384, COPY_THREADS = 128, HASH_THREADS = 64, AHEAD = 32 };

static __device__ const uint64_t P1 = 0x9E3779B185EBCA87ull, P2 = 0xC2B2AE3D27D4EB4Full, P3 = 0x165667B19E3779F9ull,
                                 P4 = 0x85EBCA77C2B2AE63ull, P5 = 0x27D4EB2F165667C5ull;

FZM_D uint64_t rotate64(uint64_t x, unsigned n) { return x << n | x >> (64 - n); }
FZM_D uint64_t round64(uint64_t acc, uint64_t v) { return rotate64(acc + v * P2, 31) * P1; }
FZM_D uint64_t merge64(uint64_t h, uint64_t acc) { return (h ^ round64(0, acc)) * P1 + P4; }

/* Numbers of a payload, which is 4-byte aligned or not at all. */
template <bool ALIGNED> FZM_D uint32_t load32(const uint8_t *p)
{
    if (ALIGNED)
        return *(const uint32_t *)(const void *)p;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

template <bool ALIGNED> FZM_D uint64_t load64(const uint8_t *p)
{
    return load32<ALIGNED>(p) | (uint64_t)load32<ALIGNED>(p + 4) << 32;
}

/* The accumulator of this lane over n_stripes of 32 bytes; what comes next is loaded in time. */
template <bool ALIGNED> FZM_D uint64_t accumulate(const uint8_t *p, uint32_t n_stripes, uint64_t acc)
{
    uint64_t v[AHEAD], next[AHEAD];
    p += 8 * (threadIdx.x % 4);
#pragma unroll
    for (uint32_t k = 0; k < AHEAD; k++)
        next[k] = k < n_stripes ? load64<ALIGNED>(p + 32 * k) : 0;
    for (uint32_t i = 0; i < n_stripes; i += AHEAD) {
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            v[k] = next[k];
            next[k] = i + AHEAD + k < n_stripes ? load64<ALIGNED>(p + 32 * (i + AHEAD + k)) : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++)
            if (i + k < n_stripes)
                acc = round64(acc, v[k]);
    }
    return acc;
}

/* The bytes after the last stripe, and the end of XXH64. */
template <bool ALIGNED> FZM_D uint64_t finish_hash(const uint8_t *p, uint32_t at, uint32_t n, uint64_t h)
{
    h += n;
    for (; at + 8 <= n; at += 8)
        h = rotate64(h ^ round64(0, load64<ALIGNED>(p + at)), 27) * P1 + P4;
    if (at + 4 <= n) {
        h = rotate64(h ^ (uint64_t)load32<ALIGNED>(p + at) * P1, 23) * P2 + P3;
        at += 4;
    }
    for (; at < n; at++)
        h = rotate64(h ^ p[at] * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(HASH_THREADS) hash_kernel(const uint8_t *payload, uint64_t nbytes, uint64_t *hash)
{
    const uint64_t block = ((uint64_t)blockIdx.x * HASH_THREADS + threadIdx.x) / 4, first = block * HASH_BLOCK;
    const uint32_t n = first >= nbytes ? 0 : (uint32_t)(nbytes - first < HASH_BLOCK ? nbytes - first : HASH_BLOCK);
    const unsigned lane = threadIdx.x % 4;
    const uint8_t *const p = payload + first;
    const uint64_t start = lane == 0 ? P1 + P2 : lane == 1 ? P2 : lane == 2 ? 0 : 0 - P1;
    const uint64_t acc = accumulate<ALIGNED>(p, n / 32, block + start);
    const uint64_t a = __shfl_sync(FZM_FULL_WARP, acc, 0, 4), b = __shfl_sync(FZM_FULL_WARP, acc, 1, 4),
                   c = __shfl_sync(FZM_FULL_WARP, acc, 2, 4), d = __shfl_sync(FZM_FULL_WARP, acc, 3, 4);
    uint64_t h = 0;
    if (n > 0 && lane == 0) {
        h = rotate64(a, 1) + rotate64(b, 7) + rotate64(c, 12) + rotate64(d, 18);
        h = n < 32 ? block + P5 : merge64(merge64(merge64(merge64(h, a), b), c), d);
        h = finish_hash<ALIGNED>(p, n / 32 * 32, n, h);
    }
    for (unsigned k = 4; k < 32; k *= 2)
        h += __shfl_xor_sync(FZM_FULL_WARP, h, k);
    if (threadIdx.x % 32 == 0)
        atomicAdd((unsigned long long *)hash, (unsigned long long)h);
}

/* n bytes; `to` and its end are 4-byte aligned where another part does not begin. Reads whole words that hold bytes of
 * the source. */
FZM_D void copy_part(const uint8_t *from, uint32_t n, uint8_t *to)
{
    const uint32_t before = min(n, (uint32_t)(0 - (uintptr_t)to) % 4), n_words = (n - before) / 4;
    const unsigned shift = (unsigned)((uintptr_t)(from + before) % 4);
    const uint32_t *const words = (const uint32_t *)(const void *)(from + before - shift);
    uint32_t *const out = (uint32_t *)(void *)(to + before);
    for (uint32_t i = threadIdx.x; i < n_words; i += COPY_THREADS)
        out[i] = shift ? __funnelshift_r(words[i], words[i + 1], 8 * shift) : words[i];
    const uint32_t after = before + 4 * n_words;
    if (threadIdx.x < before)
        to[threadIdx.x] = from[threadIdx.x];
    if (after + threadIdx.x < n)
        to[after + threadIdx.x] = from[after + threadIdx.x];
}

/* Parts from number `k_first` on, which begins at `base`. */
static __global__ void __launch_bounds__(COPY_THREADS)
    copy_kernel(const __grid_constant__ struct fzm_gpu_parts parts, unsigned k_first, uint64_t base, uint8_t *payload)
{
    const uint64_t first = base + (uint64_t)blockIdx.x * COPY_BLOCK, total = parts.end[parts.n - 1];
    const uint32_t n = (uint32_t)(total - first < COPY_BLOCK ? total - first : COPY_BLOCK);
    unsigned k = k_first;
    while (parts.end[k] <= first)
        k++;
    for (uint32_t at = 0; at < n; k++) {
        const uint64_t begin = k ? parts.end[k - 1] : 0, left = parts.end[k] - (first + at);
        const uint32_t m = (uint32_t)(left < n - at ? left : n - at);
        copy_part(parts.data[k] + (first + at - begin), m, payload + first + at);
        at += m;
    }
}

FZM_D uint32_t rotate32(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }

/* XXH32 of n bytes, n a multiple of 4, seed 0. */
FZM_D uint32_t hash_header(const uint32_t *words, uint32_t n)
{
    const uint32_t p1 = 0x9E3779B1u, p2 = 0x85EBCA77u, p3 = 0xC2B2AE3Du, p4 = 0x27D4EB2Fu, p5 = 0x165667B1u;
    uint32_t h = p5, i = 0;
    if (n >= 16) {
        uint32_t acc[4] = {p1 + p2, p2, 0, 0u - p1};
        for (; 4 * i + 16 <= n; i += 4)
            for (unsigned k = 0; k < 4; k++)
                acc[k] = rotate32(acc[k] + words[i + k] * p2, 13) * p1;
        h = rotate32(acc[0], 1) + rotate32(acc[1], 7) + rotate32(acc[2], 12) + rotate32(acc[3], 18);
    }
    h += n;
    for (; 4 * i < n; i++)
        h = rotate32(h + words[i] * p3, 17) * p4;
    h = (h ^ h >> 15) * p2;
    h = (h ^ h >> 13) * p3;
    return h ^ h >> 16;
}

static __global__ void head_kernel(const struct fzm_gpu_header header, uint8_t *out, uint64_t *hash)
{
    __shared__ uint32_t words[FZM_GPU_MAX_HEADER / 4];
    uint8_t *const bytes = (uint8_t *)words;
    for (uint32_t i = threadIdx.x; i < header.nbytes; i += 32)
        bytes[i] = header.bytes[i];
    __syncwarp();
    if (threadIdx.x < 8)
        bytes[header.hash_at + threadIdx.x] = (uint8_t)(*hash >> 8 * threadIdx.x);
    __syncwarp();
    if (threadIdx.x == 0) {
        words[header.nbytes / 4 - 1] = hash_header(words, header.nbytes - 4);
        *hash = 0;
    }
    __syncwarp();
    for (uint32_t i = threadIdx.x; i < header.nbytes / 4; i += 32)
        ((uint32_t *)(void *)out)[i] = words[i];
}

static __global__ void verify_kernel(uint64_t expected, uint64_t *hash, uint32_t *damage, uint32_t flag)
{
    if (*hash != expected)
        atomicOr(damage, flag);
    *hash = 0;
}

static cudaError_t add_hash(const uint8_t *payload, uint64_t nbytes, uint64_t *hash, cudaStream_t stream)
{
    const uint64_t n_blocks = (nbytes + HASH_BLOCK - 1) / HASH_BLOCK;
    const unsigned n_ctas = (unsigned)((4 * n_blocks + HASH_THREADS - 1) / HASH_THREADS);
    if (nbytes == 0)
        return cudaSuccess;
    if ((uintptr_t)payload % 4 == 0)
        hash_kernel<true><<<n_ctas, HASH_THREADS, 0, stream>>>(payload, nbytes, hash);
    else
        hash_kernel<false><<<n_ctas, HASH_THREADS, 0, stream>>>(payload, nbytes, hash);
    return cudaGetLastError();
}

extern "C" cudaError_t fzm_gpu_payload_gather(const struct fzm_gpu_parts *parts, uint8_t *payload, uint64_t *hash,
                                              cudaStream_t stream)
{
    const uint64_t nbytes = parts->n ? parts->end[parts->n - 1] : 0;
    const bool in_place = parts->n && parts->data[0] == payload;
    const uint64_t base = in_place ? parts->end[0] : 0;
    if (nbytes > base) {
        copy_kernel<<<(unsigned)((nbytes - base + COPY_BLOCK - 1) / COPY_BLOCK), COPY_THREADS, 0, stream>>>(
            *parts, in_place, base, payload);
        const cudaError_t code = cudaGetLastError();
        if (code != cudaSuccess)
            return code;
    }
    return add_hash(payload, nbytes, hash, stream);
}

extern "C" cudaError_t fzm_gpu_payload_head(const struct fzm_gpu_header *header, uint8_t *out, uint64_t *hash,
                                            cudaStream_t stream)
{
    head_kernel<<<1, 32, 0, stream>>>(*header, out, hash);
    return cudaGetLastError();
}

extern "C" cudaError_t fzm_gpu_payload_verify(const uint8_t *payload, uint64_t nbytes, uint64_t expected, uint64_t *hash,
                                              uint32_t *damage, uint32_t flag, cudaStream_t stream)
{
    const cudaError_t code = add_hash(payload, nbytes, hash, stream);
    if (code != cudaSuccess)
        return code;
    verify_kernel<<<1, 1, 0, stream>>>(expected, hash, damage, flag);
    return cudaGetLastError();
}
