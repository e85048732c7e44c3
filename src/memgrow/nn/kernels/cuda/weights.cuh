// Packs of weights: on the chip, in shared memory or in registers, or brought in from L2 ahead of the work.

#pragma once

#include "cluster.cuh"

// A pack of weights: the first `fit` blocks of k are on the chip, in shared memory unless they are held in registers.
struct Pack {
    const uint4 *near, *far;
    int fit, tiles;
};

__device__ __forceinline__ Pack bring(char *&room, const half *pack, int k_blocks, int tiles, int fit, int held = 0) {
    held = min(held, k_blocks);
    fit = max(held, fit);
    uint4 *mine = reinterpret_cast<uint4 *>(room);
    const uint4 *all = reinterpret_cast<const uint4 *>(pack), *from = all + held * tiles * 32;
    for (int i = threadIdx.x; i < (fit - held) * tiles * 32; i += THREADS) mine[i] = from[i];
    room += (size_t)(fit - held) * tiles * 512;
    return {mine - held * tiles * 32, all, fit, tiles};  // blocks of k keep their numbers
}

// The first blocks of k that a warp uses of a pack, in registers for the whole walk: only constants may be an index here.
template <int NT, int HELD>
struct Held {
    uint4 blocks[HELD ? HELD : 1][NT];
};

template <int NT, int HELD>
__device__ __forceinline__ Held<NT, HELD> hold(const Pack &pack) {
    const int part = threadIdx.x / 32 / WAYS, tile = threadIdx.x / 32 % WAYS * NT;
    Held<NT, HELD> held;
#pragma unroll
    for (int i = 0; i < HELD; ++i)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            const int k = part + i * PARTS;
            const bool there = k < pack.fit && tile + n < pack.tiles;
            held.blocks[i][n] = there ? pack.far[(k * pack.tiles + tile + n) * 32 + threadIdx.x % 32] : make_uint4(0, 0, 0, 0);
        }
    return held;
}

struct Segment {  // chunks of a pack that a warp needs one after another: blocks of k from `first` to `end`
    const uint4 *from;
    int first, end, step, stride, bytes;
};

// Brings a warp the weights that do not fit, in the order in which it uses them, step after step: a ring of chunks that
// runs ahead of the work, also while the block waits for others.
template <int MOST>  // tiles of a chunk
struct Feed {
    Segment *plan;
    uint4 *ring;
    unsigned boxes;
    int depth, segments, left;          // left: chunks that are still to be asked for
    int segment, k, asked, used, turn;  // where asking and using stand; turn: of the chunk that is used next

    __device__ __forceinline__ Feed(Segment *plans, uint4 *rings, unsigned long long *counters, int depth)
        : plan(plans + threadIdx.x / 32 * SEGMENTS), ring(rings + threadIdx.x / 32 * depth * 32 * MOST), depth(depth),
          boxes(place(counters + threadIdx.x / 32 * depth)), segments(0), left(0), segment(0), asked(0), used(0), turn(0) {
        if (threadIdx.x % 32 == 0)
            for (int n = 0; n < depth; ++n) found(boxes + 8 * n);
    }
    // To be told at the beginning, in the order of use: those of `many` tiles from `tile` on that the pack has, of every
    // step-th block of k.
    __device__ __forceinline__ void add(const Pack &pack, int k_blocks, int first, int step, int tile, int many) {
        many = min(many, pack.tiles - tile) - max(0, -tile);
        while (first < pack.fit) first += step;
        if (many <= 0 || first >= k_blocks) return;
        if (threadIdx.x % 32 == 0)
            plan[segments] = {pack.far + max(0, tile) * 32, first, k_blocks, step, pack.tiles * 32, 512 * many};
        left += (k_blocks - first + step - 1) / step;
        ++segments;
    }
    __device__ __forceinline__ void begin(int steps) {
        left *= steps;
        if (!segments) return;
        __syncwarp();
        k = plan[0].first;
        for (int n = 0; n < depth; ++n) ask();
    }
    __device__ __forceinline__ void ask() {
        if (left-- <= 0) return;
        const Segment s = plan[segment];
        if (threadIdx.x % 32 == 0) {
            const unsigned box = boxes + 8 * asked;
            announce(box, s.bytes);
            fetch(place(ring + asked * 32 * MOST), s.from + (size_t)k * s.stride, s.bytes, box);
        }
        asked = asked + 1 == depth ? 0 : asked + 1;
        k += s.step;
        if (k >= s.end) {
            segment = segment + 1 == segments ? 0 : segment + 1;
            k = plan[segment].first;
        }
    }
    template <int NT>
    __device__ __forceinline__ void take(uint4 (&v)[NT], int from, int to) {
        await(boxes + 8 * used, turn);
#pragma unroll
        for (int n = 0; n < NT; ++n)
            if (n >= from && n < to) v[n] = ring[(used * MOST + n - from) * 32 + threadIdx.x % 32];
        __syncwarp();
        if (used + 1 == depth) turn ^= 1;
        used = used + 1 == depth ? 0 : used + 1;
        ask();
    }
};
