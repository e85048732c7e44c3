// What the forward and the backward kernel share beside products.

#pragma once

#include "products.cuh"

__device__ __forceinline__ float clamp_to_half(float x) { return fminf(fmaxf(x, -65000.f), 65000.f); }
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float fast_tanh(float x) { return __fdividef(2.f, 1.f + __expf(-2.f * x)) - 1.f; }

// The number of steps that have rows from `row0` on.
__device__ __forceinline__ int count_steps(const Layer &layer, int row0) {
    int count = 0;
    for (int from = 0; from < layer.steps; from += THREADS)
        count += __syncthreads_count(from + threadIdx.x < layer.steps && layer.sizes[from + threadIdx.x] > row0);
    return count;
}

// Over the threads that share a row, which are neighbours.
__device__ __forceinline__ float row_max(float x) {
    for (int d = LANES / 2; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

__device__ __forceinline__ float row_total(float x) {
    for (int d = LANES / 2; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

template <typename T>
__device__ __forceinline__ T *allocate(char *&smem, size_t count) {
    T *mine = reinterpret_cast<T *>(smem);
    smem += (count * sizeof(T) + 15) / 16 * 16;
    return mine;
}

// A product of the own slots, whose columns (contents or units) belong OWNED to each block: the sums go to the owners as they
// are computed. An owner finds in `partials` those of each block, two halves in a word.
template <int NT, int OWNED, int MOST>
__device__ __forceinline__ void scatter_partials(const DenseRows &weights, const Pack &pack, WeightStream<MOST> &stream,
                                                 int k_blocks, const unsigned *partials, int me, unsigned mbarrier) {
    multiply_columns<NT>(weights, pack, stream, k_blocks, [&](int row, int column, float first, float second) {
        const int owner = column / OWNED;
        if (owner >= MEMBERS) return;  // padding after the last column
        const unsigned address = smem_addr(partials + (me * ROWS + row) * (OWNED / 2) + (column - owner * OWNED) / 2);
        st_async(mapa(address, owner), floats2half2(clamp_to_half(first), clamp_to_half(second)), mapa(mbarrier, owner));
    });
}
