// Packs of weights: on the chip, in shared memory or in registers, or streamed from L2 ahead of their use.

#pragma once

#include "cluster.cuh"

// A pack of weights: the first `fit` blocks of k are on the chip, in shared memory unless they are held in registers.
struct Pack {
    const uint4 *smem, *global;
    int fit, tiles;
};

__device__ __forceinline__ Pack load_pack(char *&smem, const half *pack, int k_blocks, int tiles, int fit, int held = 0) {
    held = min(held, k_blocks);
    fit = max(held, fit);
    uint4 *copy = reinterpret_cast<uint4 *>(smem);
    const uint4 *all = reinterpret_cast<const uint4 *>(pack), *from = all + held * tiles * 32;
    for (int i = threadIdx.x; i < (fit - held) * tiles * 32; i += THREADS) copy[i] = from[i];
    smem += (size_t)(fit - held) * tiles * 512;
    return {copy - held * tiles * 32, all, fit, tiles};  // blocks of k keep their numbers
}

// The first blocks of k that a warp uses of a pack, in registers for all steps: indices must be constants.
template <int NT, int HELD>
struct RegisterBlocks {
    uint4 blocks[HELD ? HELD : 1][NT];
};

template <int NT, int HELD>
__device__ __forceinline__ RegisterBlocks<NT, HELD> load_registers(const Pack &pack) {
    const int warp_k = threadIdx.x / 32 / WARPS_N, tile = threadIdx.x / 32 % WARPS_N * NT;
    RegisterBlocks<NT, HELD> held;
#pragma unroll
    for (int i = 0; i < HELD; ++i)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            const int k = warp_k + i * WARPS_K;
            const bool valid = k < pack.fit && tile + n < pack.tiles;
            held.blocks[i][n] =
                valid ? pack.global[(k * pack.tiles + tile + n) * 32 + threadIdx.x % 32] : make_uint4(0, 0, 0, 0);
        }
    return held;
}

struct Segment {  // chunks of a pack that a warp needs one after another: blocks of k from `first` to `end`
    const uint4 *from;
    int first, end, step, stride, bytes;
};

// Streams to a warp the weights that do not fit, in the order in which it uses them, step after step: a ring of chunks with an
// mbarrier each, which is filled ahead of their use, also while the block waits for others.
template <int MOST>  // tiles of a chunk
struct WeightStream {
    Segment *plan;
    uint4 *ring;
    unsigned mbarriers;
    int depth, segments, remaining;           // remaining: copies that are still to be issued
    int segment, k, issued, consumed, phase;  // the next copy, ring places of the next copy and use, parity of that use

    __device__ __forceinline__ WeightStream(Segment *plans, uint4 *rings, unsigned long long *storage, int depth)
        : plan(plans + threadIdx.x / 32 * SEGMENTS), ring(rings + threadIdx.x / 32 * depth * 32 * MOST), depth(depth),
          mbarriers(smem_addr(storage + threadIdx.x / 32 * depth)), segments(0), remaining(0), segment(0), issued(0),
          consumed(0), phase(0) {
        if (threadIdx.x % 32 == 0)
            for (int n = 0; n < depth; ++n) mbarrier_init(mbarriers + 8 * n);
    }
    // Plans a segment: of `count` tiles from `tile` on those that the pack has, of every step-th block of k. Called before
    // `begin`, in order of use.
    __device__ __forceinline__ void add(const Pack &pack, int k_blocks, int first, int step, int tile, int count) {
        count = min(count, pack.tiles - tile) - max(0, -tile);
        while (first < pack.fit) first += step;
        if (count <= 0 || first >= k_blocks) return;
        if (threadIdx.x % 32 == 0)
            plan[segments] = {pack.global + max(0, tile) * 32, first, k_blocks, step, pack.tiles * 32, 512 * count};
        remaining += (k_blocks - first + step - 1) / step;
        ++segments;
    }
    __device__ __forceinline__ void begin(int steps) {
        remaining *= steps;
        if (!segments) return;
        __syncwarp();
        k = plan[0].first;
        for (int n = 0; n < depth; ++n) prefetch();
    }
    __device__ __forceinline__ void prefetch() {
        if (remaining-- <= 0) return;
        const Segment s = plan[segment];
        if (threadIdx.x % 32 == 0) {
            const unsigned mbarrier = mbarriers + 8 * issued;
            mbarrier_expect_tx(mbarrier, s.bytes);
            bulk_copy(smem_addr(ring + issued * 32 * MOST), s.from + (size_t)k * s.stride, s.bytes, mbarrier);
        }
        issued = issued + 1 == depth ? 0 : issued + 1;
        k += s.step;
        if (k >= s.end) {
            segment = segment + 1 == segments ? 0 : segment + 1;
            k = plan[segment].first;
        }
    }
    template <int NT>
    __device__ __forceinline__ void next(uint4 (&v)[NT], int from, int to) {
        mbarrier_wait(mbarriers + 8 * consumed, phase);
#pragma unroll
        for (int n = 0; n < NT; ++n)
            if (n >= from && n < to) v[n] = ring[(consumed * MOST + n - from) * 32 + threadIdx.x % 32];
        __syncwarp();
        if (consumed + 1 == depth) phase ^= 1;
        consumed = consumed + 1 == depth ? 0 : consumed + 1;
        prefetch();
    }
};
