/* SPDX-License-Identifier: BSD-3-Clause */
#include "payload.h"

#include "transpose.cuh"

/* A block of threads copies and hashes this much; 4 lanes of its first warp hash, others copy. */
enum { HASH_BLOCK = 16384, THREADS = 128 };

static __device__ const uint64_t P1 = 0x9E3779B185EBCA87ull, P2 = 0xC2B2AE3D27D4EB4Full, P3 = 0x165667B19E3779F9ull,
                                 P4 = 0x85EBCA77C2B2AE63ull, P5 = 0x27D4EB2F165667C5ull;

FZM_D uint64_t rotate64(uint64_t x, unsigned n) { return x << n | x >> (64 - n); }
FZM_D uint64_t round64(uint64_t acc, uint64_t v) { return rotate64(acc + v * P2, 31) * P1; }
FZM_D uint64_t merge64(uint64_t h, uint64_t acc) { return (h ^ round64(0, acc)) * P1 + P4; }

/* XXH64 of n bytes in shared memory; for the first warp, result in all of its first four lanes. */
FZM_D uint64_t hash_block(const uint64_t *words, uint32_t n, uint64_t seed)
{
    const unsigned lane = threadIdx.x;
    const uint32_t n_stripes = n / 32;
    uint64_t h;
    if (n_stripes > 0) {
        uint64_t acc = lane == 0 ? seed + P1 + P2 : lane == 1 ? seed + P2 : lane == 2 ? seed : seed - P1;
#pragma unroll 8
        for (uint32_t i = 0; i < n_stripes; i++)
            acc = round64(acc, words[4 * i + lane]);
        const uint64_t a = __shfl_sync(0xf, acc, 0), b = __shfl_sync(0xf, acc, 1), c = __shfl_sync(0xf, acc, 2),
                       d = __shfl_sync(0xf, acc, 3);
        h = rotate64(a, 1) + rotate64(b, 7) + rotate64(c, 12) + rotate64(d, 18);
        h = merge64(merge64(merge64(merge64(h, a), b), c), d);
    } else {
        h = seed + P5;
    }
    h += n;
    uint32_t at = n_stripes * 32;
    for (; at + 8 <= n; at += 8)
        h = rotate64(h ^ round64(0, words[at / 8]), 27) * P1 + P4;
    const uint8_t *const bytes = (const uint8_t *)words;
    if (at + 4 <= n) {
        h = rotate64(h ^ (uint64_t)((const uint32_t *)words)[at / 4] * P1, 23) * P2 + P3;
        at += 4;
    }
    for (; at < n; at++)
        h = rotate64(h ^ bytes[at] * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

/* Bytes [first, first + n) of a part to shared memory, n a multiple of 4 unless it is the end; reads whole words
 * that hold bytes of the part. */
FZM_D void load_part(const uint8_t *from, uint32_t n, uint8_t *to)
{
    const unsigned shift = (unsigned)((uintptr_t)from % 4);
    if (shift == 0 && (uintptr_t)to % 4 == 0) {
        const uint32_t *const words = (const uint32_t *)(const void *)from;
        for (uint32_t i = threadIdx.x; i < n / 4; i += THREADS)
            ((uint32_t *)(void *)to)[i] = words[i];
        for (uint32_t i = n / 4 * 4 + threadIdx.x; i < n; i += THREADS)
            to[i] = from[i];
        return;
    }
    for (uint32_t i = threadIdx.x; i < n; i += THREADS)
        to[i] = from[i];
}

__global__ void __launch_bounds__(THREADS) gather_kernel(const struct fzm_gpu_parts parts, uint8_t *payload, uint64_t *hash)
{
    __shared__ __align__(16) uint64_t words[HASH_BLOCK / 8];
    uint8_t *const bytes = (uint8_t *)words;
    const uint64_t first = (uint64_t)blockIdx.x * HASH_BLOCK, total = parts.end[parts.n - 1];
    const uint32_t n = (uint32_t)(total - first < HASH_BLOCK ? total - first : HASH_BLOCK);
    unsigned k = 0;
    while (parts.end[k] <= first)
        k++;
    bool in_place = true;
    for (uint32_t at = 0; at < n; k++) {
        const uint64_t begin = k ? parts.end[k - 1] : 0;
        const uint64_t left = parts.end[k] - (first + at);
        const uint32_t m = (uint32_t)(left < n - at ? left : n - at);
        const uint8_t *const from = parts.data[k] + (first + at - begin);
        if (m == 0)
            continue;
        in_place = in_place && from == payload + first + at;
        load_part(from, m, bytes + at);
        at += m;
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        const uint64_t h = hash_block(words, n, blockIdx.x);
        if (threadIdx.x == 0)
            atomicAdd((unsigned long long *)hash, (unsigned long long)h);
    }
    if (in_place)
        return;
    uint32_t *const out = (uint32_t *)(void *)(payload + first);
    for (uint32_t i = threadIdx.x; i < n / 4; i += THREADS)
        out[i] = ((const uint32_t *)words)[i];
    for (uint32_t i = n / 4 * 4 + threadIdx.x; i < n; i += THREADS)
        payload[first + i] = bytes[i];
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

__global__ void head_kernel(const struct fzm_gpu_header header, uint8_t *out, uint64_t *hash)
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

__global__ void verify_kernel(uint64_t expected, uint64_t *hash, uint32_t *damage, uint32_t flag)
{
    if (*hash != expected)
        atomicOr(damage, flag);
    *hash = 0;
}

extern "C" cudaError_t fzm_gpu_payload_gather(const struct fzm_gpu_parts *parts, uint8_t *payload, uint64_t *hash,
                                              cudaStream_t stream)
{
    const uint64_t nbytes = parts->n ? parts->end[parts->n - 1] : 0;
    if (nbytes > 0)
        gather_kernel<<<(unsigned)((nbytes + HASH_BLOCK - 1) / HASH_BLOCK), THREADS, 0, stream>>>(*parts, payload, hash);
    return cudaGetLastError();
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
    struct fzm_gpu_parts parts;
    parts.n = 1;
    parts.data[0] = payload;
    parts.end[0] = nbytes;
    const cudaError_t code = fzm_gpu_payload_gather(&parts, (uint8_t *)(uintptr_t)payload, hash, stream);
    if (code != cudaSuccess)
        return code;
    verify_kernel<<<1, 1, 0, stream>>>(expected, hash, damage, flag);
    return cudaGetLastError();
}
