/* SPDX-License-Identifier: BSD-3-Clause */
/* The payload of a stream on the device: sections put together, hashed, and the header in front of them. The hash and
 * its blocks are those of core/stream.c; XXH64 and XXH32 as in Y. Collet's specification of xxHash. */
#ifndef FZM_GPU_PAYLOAD_H
#define FZM_GPU_PAYLOAD_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FZM_GPU_MAX_PARTS = 32, FZM_GPU_MAX_HEADER = 1024 };

/* Sections in order, none empty; the first one may lie in its place already. */
struct fzm_gpu_parts {
    unsigned n;
    const uint8_t *data[FZM_GPU_MAX_PARTS];
    uint64_t end[FZM_GPU_MAX_PARTS]; /* in the payload */
};

/* A header that lacks its hash, at hash_at, and its last 4 bytes. */
struct fzm_gpu_header {
    uint32_t nbytes, hash_at;
    uint8_t bytes[FZM_GPU_MAX_HEADER];
};

/* Copies the parts to payload (4-byte aligned) and adds its hash to *hash. */
cudaError_t fzm_gpu_payload_gather(const struct fzm_gpu_parts *parts, uint8_t *payload, uint64_t *hash, cudaStream_t stream);

/* Writes the header at out (4-byte aligned) with *hash in it, which is set to 0. */
cudaError_t fzm_gpu_payload_head(const struct fzm_gpu_header *header, uint8_t *out, uint64_t *hash, cudaStream_t stream);

/* payload: any alignment. ORs `flag` into *damage unless the payload has this hash; *hash is 0 before and after. */
cudaError_t fzm_gpu_payload_verify(const uint8_t *payload, uint64_t nbytes, uint64_t expected, uint64_t *hash,
                                   uint32_t *damage, uint32_t flag, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
