// Products of rows and weights, by all warps of a block.

#pragma once

#include "exchange.cuh"
#include "weights.cuh"

struct Plain {
    __device__ __forceinline__ void operator()(uint4 &, uint4 &, int, int) const {}
};

struct Weighed {  // each block's scores are relative to its own largest one
    const float *factor;  // (MEMBERS, ROWS)
    float share;          // 8 / own slots
    __device__ __forceinline__ void operator()(uint4 &low, uint4 &high, int k, int row) const {
        const int lane = threadIdx.x % 32, owner = min(MEMBERS - 1, (int)((4 * k + lane % 4 + 0.5f) * share));
        const float *mine = factor + owner * ROWS + row + lane / 4;
        const unsigned f = halves(mine[0], mine[0]);
        low = make_uint4(times(low.x, f), times(low.y, f), times(low.z, f), times(low.w, f));
        if (row + 8 >= ROWS) return;
        const unsigned g = halves(mine[8], mine[8]);
        high = make_uint4(times(high.x, g), times(high.y, g), times(high.z, g), times(high.w, g));
    }
};

// acc += A (in shared memory) times those of NT tiles from `tile` on that the pack has, over every step-th block of k.
template <int NT, int HELD = 0, typename Rows, int MOST, typename Turn>
__device__ __forceinline__ void accumulate(float (&acc)[TALL][NT][4], const Rows &a, const Pack &pack, Feed<MOST> &feed,
                                           int k_blocks, int first, int step, int tile, Turn turn,
                                           const Held<NT, HELD> &held = {}) {
    const int lane = threadIdx.x % 32, from = max(0, -tile), to = min(NT, pack.tiles - tile);
    if (to <= from) return;
    const uint4 *near = pack.near + tile * 32 + lane;
    uint4 b[2][NT];
#pragma unroll
    for (int n = 0; n < NT; ++n) b[0][n] = b[1][n] = make_uint4(0, 0, 0, 0);
    auto fetch = [&](uint4 (&v)[NT], int k) {
        if (k >= k_blocks) return;
        if (k >= pack.fit) return feed.take(v, from, to);
#pragma unroll
        for (int n = 0; n < NT; ++n)
            if (n >= from && n < to) v[n] = near[(k * pack.tiles + n) * 32];
    };
    auto work = [&](const uint4 (&v)[NT], int k) {
        const int chunk = 4 * k + lane % 4;
        const half *rows = a.chunk(chunk) + lane / 4 * a.stride;
        const bool there = a.has(chunk);
        auto eight = [&](int row) {
            return row < ROWS && there ? *reinterpret_cast<const uint4 *>(rows + row * a.stride) : make_uint4(0, 0, 0, 0);
        };
#pragma unroll
        for (int m = 0; m < TALL; ++m) {
            uint4 low = eight(16 * m), high = eight(16 * m + 8);
            turn(low, high, k, 16 * m);
#pragma unroll
            for (int n = 0; n < NT; ++n) mma(acc[m][n], low.x, high.x, low.y, high.y, v[n].x, v[n].y);
#pragma unroll
            for (int n = 0; n < NT; ++n) mma(acc[m][n], low.z, high.z, low.w, high.w, v[n].z, v[n].w);
        }
    };
    const int rest = first + HELD * step;
    fetch(b[0], rest);
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        if (first + i * step < k_blocks) work(held.blocks[i], first + i * step);
    for (int k = rest; k < k_blocks; k += 2 * step) {
        fetch(b[1], k + step);
        work(b[0], k);
        if (k + step >= k_blocks) break;
        fetch(b[0], k + 2 * step);
        work(b[1], k + step);
    }
}

template <int NT>
__device__ __forceinline__ void clear(float (&acc)[TALL][NT][4]) {
#pragma unroll
    for (int m = 0; m < TALL; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[m][n][i] = 0.f;
}

// Every row times its own factor.
template <int NT, typename Factor>
__device__ __forceinline__ void scale(float (&acc)[TALL][NT][4], Factor factor) {
#pragma unroll
    for (int m = 0; m < TALL; ++m) {
        const int row = 16 * m + threadIdx.x % 32 / 4;
        const float low = factor(row), high = 16 * m + 8 < ROWS ? factor(row + 8) : 0.f;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[m][n][i] *= i < 2 ? low : high;
    }
}

// Each warp lays its part of the sums beside the others': sums is (PARTS, ROWS, width), for one pass over the tiles.
template <int NT>
__device__ __forceinline__ void lay_down(float *sums, const float (&acc)[TALL][NT][4]) {
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32 / WAYS, way = threadIdx.x / 32 % WAYS;
    constexpr int width = WIDTH(NT);
#pragma unroll
    for (int m = 0; m < TALL; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            float *p = sums + (part * ROWS + 16 * m + lane / 4) * width + 8 * (way * NT + n) + 2 * (lane % 4);
            *reinterpret_cast<float2 *>(p) = make_float2(acc[m][n][0], acc[m][n][1]);
            if (16 * m + 8 < ROWS) *reinterpret_cast<float2 *>(p + 8 * width) = make_float2(acc[m][n][2], acc[m][n][3]);
        }
}

template <int NT>
__device__ __forceinline__ float total(const float *sums, int row, int column) {
    float sum = 0.f;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) sum += sums[(part * ROWS + row) * WIDTH(NT) + column];
    return sum;
}

// A product, some tiles at a time; `use` finds the sums of those from `base` on.
template <int NT, int HELD = 0, typename Rows, int MOST, typename Use>
__device__ __forceinline__ void multiply(float *sums, const Rows &a, const Pack &pack, Feed<MOST> &feed, int k_blocks, Use use,
                                         const Held<NT, HELD> &held = {}) {
    for (int base = 0; base < pack.tiles; base += WAYS * NT) {
        if (base) __syncthreads();
        float acc[TALL][NT][4];
        clear(acc);
        const int part = threadIdx.x / 32 / WAYS, tile = base + threadIdx.x / 32 % WAYS * NT;
        accumulate<NT>(acc, a, pack, feed, k_blocks, part, PARTS, tile, Plain(), held);
        lay_down<NT>(sums, acc);
        __syncthreads();
        use(base);
    }
}

template <int NT, int MOST>
__device__ __forceinline__ void plan_multiply(Feed<MOST> &feed, const Pack &pack, int k_blocks) {  // what `multiply` will need
    for (int tile = threadIdx.x / 32 % WAYS * NT; tile < pack.tiles; tile += WAYS * NT)
        feed.add(pack, k_blocks, threadIdx.x / 32 / WAYS, PARTS, tile, NT);
}

// A product of which each warp has some tiles to itself; `use` gets two neighbouring columns of a row.
template <int NT, typename Rows, int MOST, typename Use>
__device__ __forceinline__ void spread(const Rows &a, const Pack &pack, Feed<MOST> &feed, int k_blocks, Use use) {
    const int lane = threadIdx.x % 32;
    for (int base = threadIdx.x / 32 * NT; base < pack.tiles; base += WARPS * NT) {
        float acc[TALL][NT][4];
        clear(acc);
        accumulate<NT>(acc, a, pack, feed, k_blocks, 0, 1, base, Plain());
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            if (base + n >= pack.tiles) break;
#pragma unroll
            for (int m = 0; m < TALL; ++m) {
                const int column = 8 * (base + n) + 2 * (lane % 4), row = 16 * m + lane / 4;
                use(row, column, acc[m][n][0], acc[m][n][1]);
                if (16 * m + 8 < ROWS) use(row + 8, column, acc[m][n][2], acc[m][n][3]);
            }
        }
    }
}

template <int NT, int MOST>
__device__ __forceinline__ void plan_spread(Feed<MOST> &feed, const Pack &pack, int k_blocks) {  // what `spread` will need
    for (int tile = threadIdx.x / 32 * NT; tile < pack.tiles; tile += WARPS * NT) feed.add(pack, k_blocks, 0, 1, tile, NT);
}
