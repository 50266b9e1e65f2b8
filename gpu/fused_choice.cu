/* SPDX-License-Identifier: BSD-3-Clause */
#include "fused_choice.cuh"

#include "adaptive_lorenzo.cuh"

/* A sample of tiles of each candidate. */
struct sample_args {
    struct fzm_linear_f32 k;
    bool has_fill;
    uint32_t fill;
    int cost;
    const float *elems;
    unsigned n_candidates;
    int geometry[FZM_N_GEOMETRIES];
    uint64_t n_samples[FZM_N_GEOMETRIES];
    struct fzm_tiling tiling[FZM_N_GEOMETRIES];
    unsigned long long *nbits; /* per candidate */
};

/* Codes of a run of the tile, outliers filled in. Returns whether the tile has a good element. */
template <bool BIG>
FZM_D bool fetch(const struct sample_args &a, const struct fzm_team_place &p, uint32_t (&v)[FZM_RUN],
                 struct fzm_team_shared<uint32_t, BIG> *sh)
{
    unsigned bad = 0;
#pragma unroll
    for (unsigned k = 0; k < FZM_RUN; k++) {
        const float x = k < p.n_valid ? a.elems[p.index + k] : 0.0f;
        int32_t code = 0;
        const bool is_good =
            fzm_linear_f32_encode(&a.k, x, &code) && !(a.has_fill && __float_as_uint(x) == a.fill);
        bad |= is_good || k >= p.n_valid ? 0u : 1u << k;
        v[k] = (uint32_t)code;
    }
    return fzm_team_fill<uint32_t, BIG>(v, bad, p.n_valid, sh);
}

template <bool BIG>
static __global__ void __launch_bounds__(BIG ? 512 : 256) sample_kernel(const __grid_constant__ struct sample_args a)
{
    __shared__ struct fzm_team_shared<uint32_t, BIG> shared;
    struct fzm_team_shared<uint32_t, BIG> *const sh = &shared;
    const unsigned c = blockIdx.y;
    const uint64_t i = (uint64_t)blockIdx.x * fzm_team<BIG>::per_block + (BIG ? 0 : threadIdx.x / 32);
    if (i >= a.n_samples[c])
        return;
    const struct fzm_tiling &t = a.tiling[c];
    const struct fzm_team_place p = fzm_team_place_of<BIG>(t, fzm_tile_sample_at(i, a.n_samples[c], t.n_tiles));
    uint32_t r[FZM_RUN], best[FZM_RUN];
    const bool any = fetch<BIG>(a, p, r, sh);
    const uint32_t origin = fzm_team_origin<uint32_t, BIG>(r[0], sh);
#pragma unroll
    for (unsigned k = 0; k < FZM_RUN; k++)
        r[k] = k < p.n_valid ? r[k] - origin : 0;
    struct fzm_team_choice choice = {0, 0};
    if (any)
        choice = fzm_team_choose<uint32_t, BIG>(r, best, a.cost, t, p, sh);
    if (p.thread == 0)
        atomicAdd(a.nbits + c, (unsigned long long)choice.cost_nbits + FZM_TILE_OVERHEAD_NBITS);
}

static uint64_t list_candidates(struct sample_args *a, const struct fzm_shape *shape, uint32_t n_tile_elems)
{
    uint64_t most = 0;
    a->n_candidates = 0;
    for (int g = FZM_GEOMETRY_1D; g < FZM_N_GEOMETRIES; g++) {
        const unsigned c = a->n_candidates;
        if (!fzm_tile_is_candidate(&a->tiling[c], shape, n_tile_elems, g))
            continue;
        a->geometry[c] = g;
        a->n_samples[c] = fzm_tile_n_samples(a->tiling[c].n_tiles);
        most = a->n_samples[c] > most ? a->n_samples[c] : most;
        a->n_candidates++;
    }
    return most;
}

int fzm_gpu_choose_geometry(struct fzm_adaptive_lorenzo_params *lorenzo, const struct fzm_call *quantizer, void *scratch)
{
    const struct fzm_shape *const shape = &quantizer->in[0].shape;
    const struct fzm_quantizer_params *const params = (const struct fzm_quantizer_params *)quantizer->params;
    const struct fzm_gpu *const gpu = quantizer->gpu;
    const uint32_t n_tile_elems = fzm_adaptive_lorenzo_n_tile_elems(lorenzo);
    unsigned long long nbits[FZM_N_GEOMETRIES];
    if (lorenzo->geometry != FZM_GEOMETRY_AUTO)
        return 0;
    lorenzo->geometry = FZM_GEOMETRY_1D;
    if (shape->n_elems == 0 || shape->rank == 1)
        return 0;
    struct sample_args a;
    memset(&a, 0, sizeof a);
    const uint64_t most = list_candidates(&a, shape, n_tile_elems);
    if (a.n_candidates < 2)
        return 0;
    a.k = fzm_linear_f32_init(params);
    a.has_fill = params->has_fill != 0;
    a.fill = (uint32_t)params->fill;
    a.cost = fzm_adaptive_lorenzo_cost(lorenzo);
    a.elems = (const float *)quantizer->in[0].data;
    a.nbits = (unsigned long long *)scratch;
    FZM_TRY(fzm_gpu_check(cudaMemsetAsync(scratch, 0, sizeof nbits, gpu->stream), "choice of the geometry", quantizer->err));
    if (n_tile_elems == 4096)
        sample_kernel<true><<<dim3((unsigned)most, a.n_candidates), 512, 0, gpu->stream>>>(a);
    else
        sample_kernel<false><<<dim3((unsigned)fzm_div_up(most, 8), a.n_candidates), 256, 0, gpu->stream>>>(a);
    FZM_TRY(fzm_gpu_check(cudaGetLastError(), "choice of the geometry", quantizer->err));
    FZM_TRY(fzm_gpu_read(quantizer->gpu, nbits, scratch, sizeof nbits, quantizer->err));
    uint64_t least = UINT64_MAX;
    for (unsigned c = 0; c < a.n_candidates; c++) {
        const uint64_t cost = fzm_tile_cost_of_all(nbits[c], a.n_samples[c], a.tiling[c].n_tiles);
        if (cost < least) {
            lorenzo->geometry = (uint32_t)a.geometry[c];
            least = cost;
        }
    }
    return 0;
}
