// What both walks need beside products.

#pragma once

#include "products.cuh"

__device__ __forceinline__ float bounded(float x) { return fminf(fmaxf(x, -65000.f), 65000.f); }
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float bend(float x) { return __fdividef(2.f, 1.f + __expf(-2.f * x)) - 1.f; }  // tanh

// Steps in which rows from `row0` on are there at all.
__device__ __forceinline__ int steps_of(const Walk &w, int row0) {
    int count = 0;
    for (int from = 0; from < w.steps; from += THREADS)
        count += __syncthreads_count(from + threadIdx.x < w.steps && w.sizes[from + threadIdx.x] > row0);
    return count;
}

// The lanes that have a row together are neighbours.
__device__ __forceinline__ float row_max(float x) {
    for (int d = LANES / 2; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

__device__ __forceinline__ float row_total(float x) {
    for (int d = LANES / 2; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

template <typename T>
__device__ __forceinline__ T *take(char *&room, size_t count) {
    T *mine = reinterpret_cast<T *>(room);
    room += (count * sizeof(T) + 15) / 16 * 16;
    return mine;
}

// What the own slots add to contents or units, of which each block owns OWNED: a product whose sums go to the owners as it
// is made. There `added` has them from each block, two halves in a word.
template <int NT, int OWNED, int MOST>
__device__ __forceinline__ void push_to_owners(const Whole &weights, const Pack &pack, Feed<MOST> &feed, int k_blocks,
                                               const unsigned *added, int me, unsigned box) {
    spread<NT>(weights, pack, feed, k_blocks, [&](int row, int column, float first, float second) {
        const int owner = column / OWNED;
        if (owner >= MEMBERS) return;  // behind the last
        const unsigned there = place(added + (me * ROWS + row) * (OWNED / 2) + (column - owner * OWNED) / 2);
        push(at_peer(there, owner), halves(bounded(first), bounded(second)), at_peer(box, owner));
    });
}
