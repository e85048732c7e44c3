// Products of rows and weights, by all warps of a block.

#pragma once

#include "exchange.cuh"
#include "weights.cuh"

struct Identity {
    __device__ __forceinline__ void operator()(uint4 &, uint4 &, int, int) const {}
};

struct ScaleByOwner {  // each block's attention is relative to its own largest score
    const float *factor;  // (MEMBERS, ROWS)
    float blocks_per_chunk;  // 8 / own slots
    __device__ __forceinline__ void operator()(uint4 &low, uint4 &high, int k, int row) const {
        const int lane = threadIdx.x % 32, owner = min(MEMBERS - 1, (int)((4 * k + lane % 4 + 0.5f) * blocks_per_chunk));
        const float *mine = factor + owner * ROWS + row + lane / 4;
        const unsigned f = floats2half2(mine[0], mine[0]);
        low = make_uint4(hmul2(low.x, f), hmul2(low.y, f), hmul2(low.z, f), hmul2(low.w, f));
        if (row + 8 >= ROWS) return;
        const unsigned g = floats2half2(mine[8], mine[8]);
        high = make_uint4(hmul2(high.x, g), hmul2(high.y, g), hmul2(high.z, g), hmul2(high.w, g));
    }
};

// acc += A (in shared memory) * B, over every step-th block of k; B: of NT tiles from `tile` on those that the pack has.
template <int NT, int HELD = 0, typename Rows, int MOST, typename Transform>
__device__ __forceinline__ void accumulate(float (&acc)[TILES_M][NT][4], const Rows &a, const Pack &pack,
                                           WeightStream<MOST> &stream, int k_blocks, int first, int step, int tile,
                                           Transform transform, const RegisterBlocks<NT, HELD> &held = {}) {
    const int lane = threadIdx.x % 32, from = max(0, -tile), to = min(NT, pack.tiles - tile);
    if (to <= from) return;
    const uint4 *smem = pack.smem + tile * 32 + lane;
    uint4 b[2][NT];
#pragma unroll
    for (int n = 0; n < NT; ++n) b[0][n] = b[1][n] = make_uint4(0, 0, 0, 0);
    auto load = [&](uint4 (&v)[NT], int k) {
        if (k >= k_blocks) return;
        if (k >= pack.fit) return stream.next(v, from, to);
#pragma unroll
        for (int n = 0; n < NT; ++n)
            if (n >= from && n < to) v[n] = smem[(k * pack.tiles + n) * 32];
    };
    auto multiply_add = [&](const uint4 (&v)[NT], int k) {
        const int chunk = 4 * k + lane % 4;
        const half *rows = a.chunk(chunk) + lane / 4 * a.stride;
        const bool valid = a.has(chunk);
        auto load_chunk = [&](int row) {
            return row < ROWS && valid ? *reinterpret_cast<const uint4 *>(rows + row * a.stride) : make_uint4(0, 0, 0, 0);
        };
#pragma unroll
        for (int m = 0; m < TILES_M; ++m) {
            uint4 low = load_chunk(16 * m), high = load_chunk(16 * m + 8);
            transform(low, high, k, 16 * m);
#pragma unroll
            for (int n = 0; n < NT; ++n) mma(acc[m][n], low.x, high.x, low.y, high.y, v[n].x, v[n].y);
#pragma unroll
            for (int n = 0; n < NT; ++n) mma(acc[m][n], low.z, high.z, low.w, high.w, v[n].z, v[n].w);
        }
    };
    const int streamed_from = first + HELD * step;
    load(b[0], streamed_from);
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        if (first + i * step < k_blocks) multiply_add(held.blocks[i], first + i * step);
    for (int k = streamed_from; k < k_blocks; k += 2 * step) {
        load(b[1], k + step);
        multiply_add(b[0], k);
        if (k + step >= k_blocks) break;
        load(b[0], k + 2 * step);
        multiply_add(b[1], k + step);
    }
}

template <int NT>
__device__ __forceinline__ void clear(float (&acc)[TILES_M][NT][4]) {
#pragma unroll
    for (int m = 0; m < TILES_M; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[m][n][i] = 0.f;
}

// Multiplies every row by its own factor.
template <int NT, typename Factor>
__device__ __forceinline__ void scale(float (&acc)[TILES_M][NT][4], Factor factor) {
#pragma unroll
    for (int m = 0; m < TILES_M; ++m) {
        const int row = 16 * m + threadIdx.x % 32 / 4;
        const float low = factor(row), high = 16 * m + 8 < ROWS ? factor(row + 8) : 0.f;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[m][n][i] *= i < 2 ? low : high;
    }
}

// Stores each warp's partial sums of one pass over the tiles: sums is (WARPS_K, ROWS, width).
template <int NT>
__device__ __forceinline__ void store_partials(float *sums, const float (&acc)[TILES_M][NT][4]) {
    const int lane = threadIdx.x % 32, warp_k = threadIdx.x / 32 / WARPS_N, warp_n = threadIdx.x / 32 % WARPS_N;
    constexpr int width = WIDTH(NT);
#pragma unroll
    for (int m = 0; m < TILES_M; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            float *p = sums + (warp_k * ROWS + 16 * m + lane / 4) * width + 8 * (warp_n * NT + n) + 2 * (lane % 4);
            *reinterpret_cast<float2 *>(p) = make_float2(acc[m][n][0], acc[m][n][1]);
            if (16 * m + 8 < ROWS) *reinterpret_cast<float2 *>(p + 8 * width) = make_float2(acc[m][n][2], acc[m][n][3]);
        }
}

template <int NT>
__device__ __forceinline__ float sum_partials(const float *sums, int row, int column) {
    float sum = 0.f;
#pragma unroll
    for (int warp_k = 0; warp_k < WARPS_K; ++warp_k) sum += sums[(warp_k * ROWS + row) * WIDTH(NT) + column];
    return sum;
}

// A product, in passes over some tiles each; `epilogue(base)` finds the sums of the tiles from `base` on.
template <int NT, int HELD = 0, typename Rows, int MOST, typename Epilogue>
__device__ __forceinline__ void multiply(float *sums, const Rows &a, const Pack &pack, WeightStream<MOST> &stream,
                                         int k_blocks, Epilogue epilogue, const RegisterBlocks<NT, HELD> &held = {}) {
    for (int base = 0; base < pack.tiles; base += WARPS_N * NT) {
        if (base) __syncthreads();
        float acc[TILES_M][NT][4];
        clear(acc);
        const int warp_k = threadIdx.x / 32 / WARPS_N, tile = base + threadIdx.x / 32 % WARPS_N * NT;
        accumulate<NT>(acc, a, pack, stream, k_blocks, warp_k, WARPS_K, tile, Identity(), held);
        store_partials<NT>(sums, acc);
        __syncthreads();
        epilogue(base);
    }
}

// Plans the stream of a `multiply`.
template <int NT, int MOST>
__device__ __forceinline__ void plan_multiply(WeightStream<MOST> &stream, const Pack &pack, int k_blocks) {
    for (int tile = threadIdx.x / 32 % WARPS_N * NT; tile < pack.tiles; tile += WARPS_N * NT)
        stream.add(pack, k_blocks, threadIdx.x / 32 / WARPS_N, WARPS_K, tile, NT);
}

// A product of which each warp computes whole tiles; `epilogue` gets two neighbouring columns of a row.
template <int NT, typename Rows, int MOST, typename Epilogue>
__device__ __forceinline__ void multiply_columns(const Rows &a, const Pack &pack, WeightStream<MOST> &stream, int k_blocks,
                                                 Epilogue epilogue) {
    const int lane = threadIdx.x % 32;
    for (int base = threadIdx.x / 32 * NT; base < pack.tiles; base += WARPS * NT) {
        float acc[TILES_M][NT][4];
        clear(acc);
        accumulate<NT>(acc, a, pack, stream, k_blocks, 0, 1, base, Identity());
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            if (base + n >= pack.tiles) break;
#pragma unroll
            for (int m = 0; m < TILES_M; ++m) {
                const int column = 8 * (base + n) + 2 * (lane % 4), row = 16 * m + lane / 4;
                epilogue(row, column, acc[m][n][0], acc[m][n][1]);
                if (16 * m + 8 < ROWS) epilogue(row + 8, column, acc[m][n][2], acc[m][n][3]);
            }
        }
    }
}

// Plans the stream of a `multiply_columns`.
template <int NT, int MOST>
__device__ __forceinline__ void plan_multiply_columns(WeightStream<MOST> &stream, const Pack &pack, int k_blocks) {
    for (int tile = threadIdx.x / 32 * NT; tile < pack.tiles; tile += WARPS * NT) stream.add(pack, k_blocks, 0, 1, tile, NT);
}
