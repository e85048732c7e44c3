// What runs before the forward and backward kernels: packing of weights, and the largest incoming gradient.

#include "cluster.cuh"

// One of two pointers: an index that is not constant would put all arguments into local memory.
__device__ __forceinline__ const float *of(const float *const (&two)[2], int d) { return d ? two[1] : two[0]; }

struct Packing {
    int directions, real_hidden, hidden, real_slots, slots, own, slot_size, backward;
    const float *hh[2], *keys[2], *values[2];
    const float *gate_values, *w_c;  // (D, real N, 4 H), or (D, 4 H, M)
    half *key_pack, *gate_pack, *read_pack, *value_pack, *slope_pack, *back_pack, *back_value_pack, *back_read_pack;
};

struct Entry {  // of a pack: direction, block, k, and column within the block
    unsigned d, block, k, n;
};

struct Tiles {  // of a pack: `count` tiles from `first` on, out of `all`, in each block of k
    half *pack;
    int k_blocks, all, first, count;
};

// Fills tiles with `value` of each entry. A warp fills a tile, [8 of n][32 of k], and a lane eight entries of it: indices are
// divided once for the eight, and all eight are loaded before the first is used. Neighbouring lanes load neighbours of the
// source (in k if ALONG_K, otherwise in n), that is, whole sectors. `next` is the warp's next tile; it counts on from call to
// call, so that all warps fill the same number.
template <bool ALONG_K, typename Value>
__device__ __forceinline__ void fill_tiles(const Tiles &tiles, int directions, unsigned &next, Value value) {
    const unsigned lane = threadIdx.x % 32, count = directions * MEMBERS * tiles.k_blocks * tiles.count;
    for (; next < count; next += gridDim.x * blockDim.x / 32) {
        const unsigned row = next / tiles.count, tile = tiles.first + next % tiles.count, number = row / tiles.k_blocks;
        const unsigned d = number / MEMBERS, block = number % MEMBERS, k = row % tiles.k_blocks * 32, n = tile * 8;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            v[i] = value(ALONG_K ? Entry{d, block, k + lane, n + i} : Entry{d, block, k + lane / 8 * 8 + i, n + lane % 8});
        half *to = tiles.pack + (size_t)(row * tiles.all + tile) * 256;
        if (ALONG_K) {
#pragma unroll
            for (int i = 0; i < 8; ++i) to[32 * i + lane] = float2half(v[i]);
        } else {
            reinterpret_cast<uint4 *>(to)[lane % 8 * 4 + lane / 8] =
                make_uint4(floats2half2(v[0], v[1]), floats2half2(v[2], v[3]), floats2half2(v[4], v[5]),
                           floats2half2(v[6], v[7]));
        }
    }
    next -= count;
}

// The unit and the gate of a column: an LSTM's stand unit by unit, a GRU's gate by gate.
struct Gate {
    int unit, gate;
    __device__ static Gate of_block(int column) {
        return LSTM ? Gate{column / 4, column % 4} : Gate{column % (8 * TILES_H), column / (8 * TILES_H)};
    }
    __device__ static Gate of_all(int column) {  // padding: a unit far above the last
        const int width = 8 * TILES_ONE;
        const Gate g = of_block(column % width);
        return {g.unit < UNITS ? column / width * UNITS + g.unit : 1 << 28, g.gate};
    }
    __device__ int torch_gate() const { return LSTM ? gate : (gate + 2) % 3; }  // GRU: n, r, z
    // Of a unit's four columns outside of these kernels; GRU: r, z, and the candidate's part from the rest.
    __device__ int padded_column(int unit) const { return 4 * unit + (LSTM ? gate : gate + gate / 2); }
};

// Weights in the order in which the lanes of `forward` and `backward` read them.
extern "C" __global__ void __launch_bounds__(THREADS, 8) pack(const Packing a) {
    const int D = a.directions, H = a.hidden, h = a.real_hidden, n = a.real_slots, own = a.own;
    const int kh = blocks_of(H), ks = blocks_of(DIMS ? own : a.slots), kr = blocks_of(DIMS ? CONTENT : a.slots);
    unsigned next = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    fill_tiles<true>({a.gate_pack, kh, TILES_ONE, 0, TILES_ONE}, D, next, [&](const Entry &p) {
        const Gate g = Gate::of_block(p.n);
        const int unit = p.block * UNITS + g.unit;
        return g.unit < UNITS && unit < h && p.k < h ? of(a.hh, p.d)[(g.torch_gate() * h + unit) * h + p.k] : 0.f;
    });
    fill_tiles<true>({a.key_pack, kh, own / 8, 0, own / 8}, D, next, [&](const Entry &p) {
        const int slot = p.block * own + p.n;
        return p.k < h && slot < n ? of(a.keys, p.d)[slot * h + p.k] : 0.f;
    });
    const int read_tiles = n ? TILES_ONE : 0;
    fill_tiles<DIMS != 0>({a.read_pack, kr, read_tiles, 0, read_tiles}, D, next, [&](const Entry &p) {
        const Gate g = Gate::of_block(p.n);
        const int column = g.padded_column(p.block * UNITS + g.unit);
        if (g.unit >= UNITS) return 0.f;
#if DIMS
        return p.k < a.slot_size ? a.w_c[(p.d * 4 * H + column) * a.slot_size + p.k] : 0.f;
#else
        return p.k < n ? a.gate_values[(p.d * n + p.k) * 4 * H + column] : 0.f;
#endif
    });
#if DIMS
    fill_tiles<false>({a.value_pack, ks, CONTENT_TILES, 0, CONTENT_TILES}, D, next, [&](const Entry &p) {
        const int slot = p.block * own + p.k;
        const bool valid = p.k < own && slot < n && p.n < a.slot_size;
        return valid ? of(a.values, p.d)[slot * a.slot_size + p.n] : 0.f;
    });
#endif
    if (!a.backward) return;
    const int tiles_r = DIMS ? TILES_D : own / 8, tiles = LSTM ? TILES_H + tiles_r : TILES_H;
    fill_tiles<false>({a.slope_pack, K_SLOPES, tiles, 0, TILES_H}, D, next, [&](const Entry &p) {
        const Gate g = Gate::of_all(p.k);
        const int unit = p.block * UNITS + p.n;
        return p.n < UNITS && unit < h && g.unit < h ? of(a.hh, p.d)[(g.torch_gate() * h + g.unit) * h + unit] : 0.f;
    });
    const Tiles reads = LSTM ? Tiles{a.slope_pack, K_SLOPES, tiles, TILES_H, tiles_r}
                             : Tiles{a.back_read_pack, K_SLOPES, tiles_r, 0, tiles_r};
    fill_tiles<!DIMS>(reads, D, next, [&](const Entry &p) {
        const Gate g = Gate::of_all(p.k);
        const int column = g.padded_column(g.unit), one = p.n - 8 * reads.first;
        if (g.unit >= H) return 0.f;
#if DIMS
        const int dim = p.block * DIMS + one;
        return one < DIMS && dim < a.slot_size ? a.w_c[(p.d * 4 * H + column) * a.slot_size + dim] : 0.f;
#else
        const int slot = p.block * own + one;
        return slot < n ? a.gate_values[(p.d * n + slot) * 4 * H + column] : 0.f;
#endif
    });
    fill_tiles<false>({a.back_pack, ks, UNITS_FROM_SLOTS, 0, UNITS_FROM_SLOTS}, D, next, [&](const Entry &p) {
        const int slot = DIMS ? p.block * own + p.k : p.k, unit = DIMS ? p.n : p.block * UNITS + p.n;
        const bool valid = slot < n && unit < h && (DIMS ? p.k < own : p.n < UNITS);
        return valid ? of(a.keys, p.d)[slot * h + unit] : 0.f;
    });
#if DIMS
    fill_tiles<true>({a.back_value_pack, blocks_of(CONTENT), own / 8, 0, own / 8}, D, next, [&](const Entry &p) {
        const int slot = p.block * own + p.n;
        return p.k < a.slot_size && slot < n ? of(a.values, p.d)[slot * a.slot_size + p.k] : 0.f;
    });
#endif
}

struct Gradients {
    int directions, states;
    size_t outputs;
    const float *d_out, *d_hn[2], *d_cn[2];
    unsigned *largest;
};

// The largest of a warp's share of some numbers, 256 at a time; `next` counts on as in `fill_tiles`. After the end the last
// number is read again.
__device__ __forceinline__ float largest_of(const float *from, size_t count, size_t &next) {
    const size_t chunks = (count + 255) / 256;
    float high = 0.f;
    for (; next < chunks; next += gridDim.x * blockDim.x / 32) {
        float v[8];
#pragma unroll
        for (int n = 0; n < 8; ++n) v[n] = from[min(next * 256 + 32 * n + threadIdx.x % 32, count - 1)];
#pragma unroll
        for (int n = 0; n < 8; ++n) high = fmaxf(high, fabsf(v[n]));
    }
    next -= chunks;
    return high;
}

// The largest of all incoming gradients, as bits: those of positive floats compare like the numbers.
extern "C" __global__ void largest(const Gradients a) {
    extern __shared__ uint4 shared[];
    float *warp_max = reinterpret_cast<float *>(shared);
    size_t next = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    float high = largest_of(a.d_out, a.outputs, next);
    for (int d = 0; d < a.directions; ++d) {
        high = fmaxf(high, largest_of(of(a.d_hn, d), a.states, next));
        if (LSTM) high = fmaxf(high, largest_of(of(a.d_cn, d), a.states, next));
    }
    for (int step = 16; step; step /= 2) high = fmaxf(high, __shfl_xor_sync(~0u, high, step));
    if (threadIdx.x % 32 == 0) warp_max[threadIdx.x / 32] = high;
    __syncthreads();
    if (threadIdx.x) return;  // one atomic for all warps: atomics on one address are serialised
    for (int warp = 1; warp < WARPS; ++warp) high = fmaxf(high, warp_max[warp]);
    if (high > 0.f) atomicMax(a.largest, __float_as_uint(high));
}
