// The recurrence with memory as one persistent kernel for each pass, by all blocks of the GPU (a cooperative launch).
//
// A group of blocks works on one direction and some chunks of 32 rows (sequences); within it every block owns a few hidden
// units and a few slots. A barrier of the group, a counter in global memory, ends each phase of a step. Forward has two
// phases: scores of own slots from all of h; gates of own units from all of h and all scores. Backward has three: gradients
// of own gates; of own slots and, through the weights, of own units; of own units through the keys.
//
// V and the weights that read the content are multiplied beforehand (P = V W'), so that attention gives gates in one
// product. Every unit has four columns in a row: LSTM i, f, g, o; GRU r, z, and the candidate's part from h and from
// the input. Sizes are padded to 16 with zeros. Weights come packed in the order in which a lane passes them to mma:
// [block][16 of k][8 of n][lane][4], the lane's n being lane / 4 and its k being 4 * (lane % 4) + 0..3.
//
// Compile-time: LSTM (0 or 1), EXACT (1: three products of split numbers, near float32; 0: TF32), WARPS, ONE (1: each
// group has one chunk), TILES_U (8 columns of gates each, that is two units), TILES_S and TILES_B (tiles in one pass
// over slots forward, and over units and slots backward).

#define THREADS (32 * WARPS)
#define CHUNK 32
#define UNITS (2 * TILES_U)
#define TILES_H ((TILES_U + 3) / 4)  // tiles of own units, as columns
#define ITEMS ((CHUNK * UNITS + THREADS - 1) / THREADS)
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

struct Layer {
    int directions, groups, blocks, chunks;  // groups of one direction, blocks of one group, chunks of one group
    int batch, steps, reversed;              // reversed: bit d is set if direction d runs backwards in time
    int real_hidden, hidden, slots, real_slots;  // real ones, and padded
    int tiles_s, weights_in_shared;
    const int *sizes, *offsets;  // rows of each step, and where they begin
    unsigned *barrier;           // one for each group
};

struct Forward {
    Layer layer;
    const float *x;                // (T, D, 4 H)
    const float *h0[2], *c0[2];    // (B, real H) for each direction
    const float *key_pack, *gate_pack, *bias;
    float *output, *hn[2], *cn[2];                   // (T, D * real H), (B, real H) for each direction
    float *out, *before, *cell, *gates, *attention;  // (T, D, H) three times, (T, D, 4 H), (T, D, N)
    float *scores, *stats;                           // (D, B, N), (D, B, blocks, 2)
};

struct Backward {
    Layer layer;
    const float *d_out, *d_hn[2], *d_cn[2];  // (T, D * real H), (B, real H) for each direction
    const float *before, *cell, *c0[2], *gates, *attention, *mean_key;  // mean_key: (D, T, real H)
    const float *slope_pack, *key_pack;
    float *d_gates, *weighed, *d_logits;  // (T, D, 4 H), (T, D, N) twice
    float *d_h0[2], *d_c0[2], *partial;   // (B, real H) for each direction, (D, B, blocks)
};

struct Packing {
    int directions, real_hidden, hidden, real_slots, slots, blocks, tiles_s, backward;
    const float *hh[2], *keys[2];
    const float *gate_values;  // (D, real N, 4 H)
    float *key_pack, *gate_pack, *slope_pack, *back_pack;
};

// The gate of torch's weights for h in a column of a unit; -1: none.
__device__ __forceinline__ int inner_gate(int column) { return LSTM || column < 3 ? column : -1; }

__device__ __forceinline__ unsigned tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                    unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// One 16 x 8 product over 8 of k, in TF32 or (EXACT) by split numbers.
__device__ __forceinline__ void product(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
    unsigned p0 = tf32(a0), p1 = tf32(a1), p2 = tf32(a2), p3 = tf32(a3), q0 = tf32(b0), q1 = tf32(b1);
#if EXACT
    unsigned r0 = tf32(a0 - __uint_as_float(p0)), r1 = tf32(a1 - __uint_as_float(p1));
    unsigned r2 = tf32(a2 - __uint_as_float(p2)), r3 = tf32(a3 - __uint_as_float(p3));
    unsigned s0 = tf32(b0 - __uint_as_float(q0)), s1 = tf32(b1 - __uint_as_float(q1));
    mma(c, r0, r1, r2, r3, q0, q1);
    mma(c, p0, p1, p2, p3, s0, s1);
#endif
    mma(c, p0, p1, p2, p3, q0, q1);
}

// The group's barrier: writes before `arrive` are visible to all of its blocks after `wait`, and work may stand between.
__device__ __forceinline__ void arrive(unsigned *counter, unsigned &target, int blocks) {
    target += blocks;
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    }
}

__device__ __forceinline__ void wait(unsigned *counter, unsigned target) {
    if (threadIdx.x == 0) {
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        } while (seen < target);
    }
    __syncthreads();
}

__device__ __forceinline__ float4 load_l2(const float *p) {  // from L2: another block may have written it
    return __ldcg(reinterpret_cast<const float4 *>(p));
}

// acc += A * B. Rows of A are given by pointer (null: a row of zeros); the warps share the k-blocks of `pack`.
template <int NT, typename Transform>
__device__ __forceinline__ void accumulate(float (&acc)[2][NT][4], const float *const (&row)[4], int k_blocks, int shift,
                                           const float4 *pack, int tiles, int tile, int count, Transform transform) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at = 4 * (lane % 4);
    // The first warps would get one block more of every range: let each range begin with another warp.
    int kb = warp - shift % WARPS;
    if (kb < 0) kb += WARPS;
    // Two k-blocks are in flight while one is used: what another block wrote comes from L2, which has a long latency.
    float4 a[3][4];
    auto load = [&](float4 (&v)[4], int k) {
#pragma unroll
        for (int r = 0; r < 4; ++r)
            v[r] = row[r] && k < k_blocks ? load_l2(row[r] + 16 * k + at) : make_float4(0.f, 0.f, 0.f, 0.f);
    };
    auto multiply_add = [&](float4 (&v)[4], int k) {
#pragma unroll
        for (int r = 0; r < 4; ++r)
            if (row[r]) v[r] = transform(v[r], r);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            if (n < count) {
                float4 b = pack[((size_t)k * tiles + tile + n) * 32 + lane];
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    product(acc[m][n], v[2 * m].x, v[2 * m + 1].x, v[2 * m].y, v[2 * m + 1].y, b.x, b.y);
                    product(acc[m][n], v[2 * m].z, v[2 * m + 1].z, v[2 * m].w, v[2 * m + 1].w, b.z, b.w);
                }
            }
        }
    };
    load(a[0], kb);
    load(a[1], kb + WARPS);
    for (; kb < k_blocks; kb += 3 * WARPS) {
        load(a[2], kb + 2 * WARPS);
        multiply_add(a[0], kb);
        if (kb + WARPS >= k_blocks) break;
        load(a[0], kb + 3 * WARPS);
        multiply_add(a[1], kb + WARPS);
        if (kb + 2 * WARPS >= k_blocks) break;
        load(a[1], kb + 4 * WARPS);
        multiply_add(a[2], kb + 2 * WARPS);
    }
}

// Stores each warp's partial sums; `sum_partials` then adds them up.
template <int NT>
__device__ __forceinline__ void store_partials(float *smem, float (&acc)[2][NT][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = 8 * NT;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            float *p = smem + (warp * CHUNK + 16 * m + lane / 4) * width + 8 * n + 2 * (lane % 4);
            *reinterpret_cast<float2 *>(p) = make_float2(acc[m][n][0], acc[m][n][1]);
            *reinterpret_cast<float2 *>(p + 8 * width) = make_float2(acc[m][n][2], acc[m][n][3]);
        }
}

__device__ __forceinline__ float sum_partials(const float *smem, int row, int column, int width) {
    float sum = 0.f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) sum += smem[(warp * CHUNK + row) * width + column];
    return sum;
}

template <int NT>
__device__ __forceinline__ void clear(float (&acc)[2][NT][4]) {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[m][n][i] = 0.f;
}

// Over the eight threads that share a row of the chunk: the first 256 threads have all 32 rows.
__device__ __forceinline__ float row_max(float x) {
    for (int d = 4; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

__device__ __forceinline__ float row_total(float x) {
    for (int d = 4; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float fast_tanh(float x) { return __fdividef(2.f, 1.f + __expf(-2.f * x)) - 1.f; }

__device__ const float4 *load_pack(float *&smem, const float *pack, size_t count, bool into_shared) {
    if (!into_shared) return reinterpret_cast<const float4 *>(pack);
    float4 *mine = reinterpret_cast<float4 *>(smem);
    for (size_t i = threadIdx.x; i < count / 4; i += THREADS) mine[i] = reinterpret_cast<const float4 *>(pack)[i];
    smem += count;
    return mine;
}

struct Identity {
    __device__ __forceinline__ float4 operator()(float4 v, int) const { return v; }
};

struct Softmax {  // from scores to attention
    float top[4], scale[4];
    __device__ __forceinline__ float4 operator()(float4 v, int r) const {
        return make_float4(__expf(v.x - top[r]) * scale[r], __expf(v.y - top[r]) * scale[r],
                           __expf(v.z - top[r]) * scale[r], __expf(v.w - top[r]) * scale[r]);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) forward(const Forward a) {
    extern __shared__ float4 shared[];
    const Layer layer = a.layer;
    const int group = blockIdx.x / layer.blocks, block = blockIdx.x % layer.blocks;
    const int d = group / layer.groups, lane = threadIdx.x % 32, sub = threadIdx.x % 8, pair = threadIdx.x / 8;
    const int D = layer.directions, H = layer.hidden, N = layer.slots, unit0 = block * UNITS, slot0 = block * layer.tiles_s * 8;
    const int own = layer.tiles_s * 8, kh = H / 16, kn = N / 16, real_h = layer.real_hidden;
    const bool reversed = layer.reversed >> d & 1;
    unsigned *counter = layer.barrier + group, target = 0;

    float *smem = reinterpret_cast<float *>(shared);
    const size_t keys = (size_t)kh * layer.tiles_s * 128, weights = (size_t)(kh + kn) * TILES_U * 128;
    const size_t number = (size_t)d * layer.blocks + block;
    const float4 *key_pack = load_pack(smem, a.key_pack + number * keys, keys, layer.weights_in_shared);
    const float4 *gate_pack = load_pack(smem, a.gate_pack + number * weights, weights, layer.weights_in_shared);
    float *top = smem, *scale = smem + CHUNK, *mine = smem + 2 * CHUNK;  // mine: (CHUNK, own slots)
    float *c_now = mine + CHUNK * own, *h_now = c_now + layer.chunks * CHUNK * UNITS;
    float *sums = h_now + layer.chunks * CHUNK * UNITS;

    for (int i = threadIdx.x; i < layer.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % layer.groups + i / (CHUNK * UNITS) * layer.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        const bool valid = row < layer.batch && unit < real_h;
        h_now[i] = valid ? a.h0[d][(size_t)row * real_h + unit] : 0.f;
        c_now[i] = valid && LSTM ? a.c0[d][(size_t)row * real_h + unit] : 0.f;
        // The first step reads h from `out` as all others do: the initial states lie before the first step.
        if (row < layer.batch && unit < H) a.out[((size_t)row * D + d) * H + unit] = h_now[i];
    }
    float *out = a.out + (size_t)layer.batch * D * H;  // after the initial states
    arrive(counter, target, layer.blocks);

    int before_rows = 0, before_at = 0;
    for (int s = 0; s < layer.steps; ++s) {
        const int t = reversed ? layer.steps - 1 - s : s, rows = layer.sizes[t], at = layer.offsets[t];
        const int first_row = group % layer.groups * CHUNK;
        float acc[2][TILES_U][4];
        float4 gate[ITEMS];
        auto state_rows = [&](const float *(&h)[4], int row0) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + lane / 4 + 8 * r;
                h[r] = row >= rows ? nullptr
                       : row < before_rows ? out + ((size_t)(before_at + row) * D + d) * H
                                           : a.out + ((size_t)row * D + d) * H;
            }
        };
        auto inputs = [&](int row0) {
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
                if (i < CHUNK * UNITS && row < rows && unit < H)
                    gate[n] = *reinterpret_cast<const float4 *>(a.x + (((size_t)(at + row) * D + d) * H + unit) * 4);
            }
        };
        if (ONE) inputs(first_row);
        wait(counter, target);
        if (N) {
            for (int k = 0; k < layer.chunks; ++k) {
                const int row0 = first_row + k * layer.groups * CHUNK;
                if (row0 >= rows) break;
                const float *h[4];
                state_rows(h, row0);
                for (int tile = 0; tile < layer.tiles_s; tile += TILES_S) {
                    float part[2][TILES_S][4];
                    clear(part);
                    accumulate<TILES_S>(part, h, kh, 0, key_pack, layer.tiles_s, tile, layer.tiles_s - tile, Identity());
                    store_partials<TILES_S>(sums, part);
                    __syncthreads();
                    for (int i = threadIdx.x; i < CHUNK * 8 * TILES_S; i += THREADS) {
                        const int row = i / (8 * TILES_S), column = i % (8 * TILES_S), slot = slot0 + 8 * tile + column;
                        if (8 * tile + column >= own) continue;
                        float score = sum_partials(sums, row, column, 8 * TILES_S);
                        if (a.bias && slot < layer.real_slots) score += a.bias[(size_t)d * N + slot];
                        if (slot >= layer.real_slots) score = -INFINITY;
                        mine[row * own + 8 * tile + column] = score;
                        if (slot < N && row0 + row < rows)
                            a.scores[((size_t)d * layer.batch + row0 + row) * N + slot] = score;
                    }
                    __syncthreads();
                }
                if (pair < CHUNK) {
                    float high = -INFINITY, sum = 0.f;
                    for (int j = sub; j < own; j += 8) high = fmaxf(high, mine[pair * own + j]);
                    high = row_max(high);
                    if (high > -INFINITY)
                        for (int j = sub; j < own; j += 8) sum += __expf(mine[pair * own + j] - high);
                    sum = row_total(sum);
                    if (sub == 0 && row0 + pair < rows)
                        reinterpret_cast<float2 *>(a.stats)[((size_t)d * layer.batch + row0 + pair) * layer.blocks + block] =
                            make_float2(high, sum);
                }
                if (!ONE) __syncthreads();
            }
            arrive(counter, target, layer.blocks);
            if (ONE && first_row < rows) {  // what does not depend on the scores, while the others arrive
                const float *h[4];
                state_rows(h, first_row);
                clear(acc);
                accumulate<TILES_U>(acc, h, kh, 0, gate_pack, TILES_U, 0, TILES_U, Identity());
            }
            wait(counter, target);
        }
        for (int k = 0; k < layer.chunks; ++k) {
            const int row0 = first_row + k * layer.groups * CHUNK;
            if (row0 >= rows) break;
            if (!ONE) inputs(row0);
            if (!ONE || !N) {
                const float *h[4];
                state_rows(h, row0);
                clear(acc);
                accumulate<TILES_U>(acc, h, kh, 0, gate_pack, TILES_U, 0, TILES_U, Identity());
            }
            if (N) {
                if (pair < CHUNK) {
                    float high = -INFINITY, sum = 0.f;
                    if (row0 + pair < rows) {
                        const float2 *p = reinterpret_cast<const float2 *>(a.stats) +
                                          ((size_t)d * layer.batch + row0 + pair) * layer.blocks;
#pragma unroll 5
                        for (int j = sub; j < layer.blocks; j += 8) {
                            const float2 one = __ldcg(p + j);
                            const float higher = fmaxf(high, one.x);
                            if (one.x > -INFINITY) {
                                sum = sum * __expf(high - higher) + one.y * __expf(one.x - higher);
                                high = higher;
                            }
                        }
                    }
                    const float highest = row_max(high);
                    sum = row_total(high > -INFINITY ? sum * __expf(high - highest) : 0.f);
                    if (sub == 0) {
                        top[pair] = highest;
                        scale[pair] = 1.f / sum;
                    }
                }
                __syncthreads();
                const float *scores[4];
                Softmax softmax;
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const int row = lane / 4 + 8 * r;
                    scores[r] = row0 + row >= rows ? nullptr : a.scores + ((size_t)d * layer.batch + row0 + row) * N;
                    softmax.top[r] = top[row];
                    softmax.scale[r] = scale[row];
                }
                accumulate<TILES_U>(acc, scores, kn, kh, gate_pack + (size_t)kh * TILES_U * 32, TILES_U, 0, TILES_U, softmax);
            }
            store_partials<TILES_U>(sums, acc);
            __syncthreads();
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS, u = i % UNITS, unit = unit0 + u;
                if (i >= CHUNK * UNITS || row0 + row >= rows || unit >= H) continue;
                const size_t here = (size_t)(at + row0 + row) * D + d;
                float4 v = gate[n];
                v.x += sum_partials(sums, row, 4 * u, 4 * UNITS);
                v.y += sum_partials(sums, row, 4 * u + 1, 4 * UNITS);
                v.z += sum_partials(sums, row, 4 * u + 2, 4 * UNITS);
                v.w += sum_partials(sums, row, 4 * u + 3, 4 * UNITS);
                float &hh = h_now[k * CHUNK * UNITS + i];
                const float old = hh;
#if LSTM
                float &c = c_now[k * CHUNK * UNITS + i];
                v = make_float4(sigmoid(v.x), sigmoid(v.y), fast_tanh(v.z), sigmoid(v.w));
                c = v.y * c + v.x * v.z;
                hh = v.w * fast_tanh(c);
                out[here * H + unit] = hh;
                a.cell[here * H + unit] = c;
#else
                v.x = sigmoid(v.x);
                v.y = sigmoid(v.y);
                v.w = fast_tanh(v.w + v.x * v.z);
                hh = v.w + v.y * (hh - v.w);
                out[here * H + unit] = hh;
#endif
                a.before[here * H + unit] = old;
                *reinterpret_cast<float4 *>(a.gates + (here * H + unit) * 4) = v;
                if (unit < real_h) a.output[here * real_h + unit] = hh;
            }
            if (N) {
                for (int i = threadIdx.x; i < CHUNK * own; i += THREADS) {
                    const int row = i / own, slot = slot0 + i % own;
                    if (slot >= N || row0 + row >= rows) continue;
                    const float score = ONE ? mine[i] : __ldcg(a.scores + ((size_t)d * layer.batch + row0 + row) * N + slot);
                    a.attention[((size_t)(at + row0 + row) * D + d) * N + slot] = __expf(score - top[row]) * scale[row];
                }
            }
            if (!ONE) __syncthreads();
        }
        before_rows = rows;
        before_at = at;
        arrive(counter, target, layer.blocks);
    }
    for (int i = threadIdx.x; i < layer.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % layer.groups + i / (CHUNK * UNITS) * layer.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        if (row >= layer.batch || unit >= real_h) continue;
        a.hn[d][(size_t)row * real_h + unit] = h_now[i];
        if (LSTM) a.cn[d][(size_t)row * real_h + unit] = c_now[i];
    }
}

struct Saved {  // the trace of one row and unit, loaded ahead of its step
    float4 gates;
    float d_out, cell, before;
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) backward(const Backward a) {
    extern __shared__ float4 shared[];
    const Layer layer = a.layer;
    const int group = blockIdx.x / layer.blocks, block = blockIdx.x % layer.blocks;
    const int d = group / layer.groups, lane = threadIdx.x % 32, sub = threadIdx.x % 8, pair = threadIdx.x / 8;
    const int D = layer.directions, H = layer.hidden, N = layer.slots, unit0 = block * UNITS, slot0 = block * layer.tiles_s * 8;
    const int own = layer.tiles_s * 8, kg = H / 4, kn = N / 16, tiles = TILES_H + layer.tiles_s, real_h = layer.real_hidden;
    const int first_row = group % layer.groups * CHUNK;
    const bool reversed = layer.reversed >> d & 1;
    unsigned *counter = layer.barrier + group, target = 0;

    float *smem = reinterpret_cast<float *>(shared);
    const size_t slopes = (size_t)kg * tiles * 128, keys = (size_t)kn * TILES_H * 128;
    const size_t number = (size_t)d * layer.blocks + block;
    const float4 *slope_pack = load_pack(smem, a.slope_pack + number * slopes, slopes, layer.weights_in_shared);
    const float4 *key_pack = load_pack(smem, a.key_pack + number * keys, keys, layer.weights_in_shared);
    float *row_sum = smem, *mine = smem + 2 * CHUNK;  // mine: (CHUNK, own slots)
    float *dh = mine + CHUNK * own, *dc = dh + layer.chunks * CHUNK * UNITS, *sums = dc + layer.chunks * CHUNK * UNITS;

    for (int i = threadIdx.x; i < layer.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % layer.groups + i / (CHUNK * UNITS) * layer.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        const bool valid = row < layer.batch && unit < real_h;
        dh[i] = valid ? a.d_hn[d][(size_t)row * real_h + unit] : 0.f;
        dc[i] = valid && LSTM ? a.d_cn[d][(size_t)row * real_h + unit] : 0.f;
    }
    __syncthreads();

    Saved saved[ITEMS];
    auto prefetch_saved = [&](int s, int row0) {
        const int t = reversed ? layer.steps - 1 - s : s, rows = layer.sizes[t], at = layer.offsets[t];
        const int before = s == 0 ? -1 : reversed ? t + 1 : t - 1;  // the step that forward took before this one
        const int before_rows = before < 0 ? 0 : layer.sizes[before], before_at = before < 0 ? 0 : layer.offsets[before];
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
            if (i >= CHUNK * UNITS || row >= rows || unit >= H) continue;
            const size_t here = (size_t)(at + row) * D + d;
            saved[n].gates = *reinterpret_cast<const float4 *>(a.gates + (here * H + unit) * 4);
            saved[n].d_out = unit < real_h ? a.d_out[here * real_h + unit] : 0.f;
#if LSTM
            saved[n].cell = a.cell[here * H + unit];
            saved[n].before = row < before_rows ? a.cell[((size_t)(before_at + row) * D + d) * H + unit]
                             : unit < real_h ? a.c0[d][(size_t)row * real_h + unit] : 0.f;
#else
            saved[n].before = a.before[here * H + unit];
#endif
        }
    };
    if (ONE) prefetch_saved(layer.steps - 1, first_row);

    for (int s = layer.steps - 1; s >= 0; --s) {
        const int t = reversed ? layer.steps - 1 - s : s, rows = layer.sizes[t], at = layer.offsets[t];
        for (int k = 0; k < layer.chunks; ++k) {
            const int row0 = first_row + k * layer.groups * CHUNK;
            if (!ONE) prefetch_saved(s, row0);
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
                if (i >= CHUNK * UNITS || row >= rows || unit >= H) continue;
                const float4 v = saved[n].gates;
                float &my_h = dh[k * CHUNK * UNITS + i];
                const float g = my_h + saved[n].d_out;
                float4 slope;
#if LSTM
                float &my_c = dc[k * CHUNK * UNITS + i];
                const float tanh_c = fast_tanh(saved[n].cell), gc = my_c + g * v.w * (1.f - tanh_c * tanh_c);
                slope.x = gc * v.z * v.x * (1.f - v.x);
                slope.y = gc * saved[n].before * v.y * (1.f - v.y);
                slope.z = gc * v.x * (1.f - v.z * v.z);
                slope.w = g * tanh_c * v.w * (1.f - v.w);
                my_c = gc * v.y;
                my_h = 0.f;
#else
                slope.w = g * (1.f - v.y) * (1.f - v.w * v.w);
                slope.x = slope.w * v.z * v.x * (1.f - v.x);
                slope.y = g * (saved[n].before - v.w) * v.y * (1.f - v.y);
                slope.z = slope.w * v.x;
                my_h = g * v.y;
#endif
                *reinterpret_cast<float4 *>(a.d_gates + (((size_t)(at + row) * D + d) * H + unit) * 4) = slope;
            }
        }
        arrive(counter, target, layer.blocks);
        if (ONE && s) prefetch_saved(s - 1, first_row);
        wait(counter, target);
        for (int k = 0; k < layer.chunks; ++k) {
            const int row0 = first_row + k * layer.groups * CHUNK;
            if (row0 >= rows) break;
            const float *slope[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + lane / 4 + 8 * r;
                slope[r] = row >= rows ? nullptr : a.d_gates + ((size_t)(at + row) * D + d) * H * 4;
            }
            for (int tile = 0; tile < tiles; tile += TILES_B) {
                float part[2][TILES_B][4];
                clear(part);
                accumulate<TILES_B>(part, slope, kg, 0, slope_pack, tiles, tile, tiles - tile, Identity());
                store_partials<TILES_B>(sums, part);
                __syncthreads();
                for (int i = threadIdx.x; i < CHUNK * 8 * TILES_B; i += THREADS) {
                    const int row = i / (8 * TILES_B), column = 8 * tile + i % (8 * TILES_B);
                    if (column >= 8 * tiles || row0 + row >= rows) continue;
                    const int slot = column - 8 * TILES_H;
                    const size_t p = ((size_t)(at + row0 + row) * D + d) * N + slot0 + slot;
                    const bool valid = slot >= 0 && slot0 + slot < N;
                    const float attention = valid ? a.attention[p] : 0.f;
                    const float sum = sum_partials(sums, row, i % (8 * TILES_B), 8 * TILES_B);
                    if (slot < 0) {
                        if (column < UNITS) dh[(k * CHUNK + row) * UNITS + column] += sum;
                    } else {
                        mine[row * own + slot] = attention * sum;
                        if (valid) a.weighed[p] = attention * sum;
                    }
                }
                __syncthreads();
            }
            if (N && pair < CHUNK) {
                float sum = 0.f;
                if (row0 + pair < rows)
                    for (int j = sub; j < own; j += 8) sum += mine[pair * own + j];
                sum = row_total(sum);
                if (sub == 0 && row0 + pair < rows)
                    a.partial[((size_t)d * layer.batch + row0 + pair) * layer.blocks + block] = sum;
            }
            if (!ONE) __syncthreads();
        }
        if (!N) {
            __syncthreads();
            continue;
        }
        arrive(counter, target, layer.blocks);
        float mean[ITEMS];
        auto means = [&](int row0) {
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
                if (i < CHUNK * UNITS && row < rows && unit < real_h)
                    mean[n] = a.mean_key[((size_t)d * layer.offsets[layer.steps] + at + row) * real_h + unit];
            }
        };
        if (ONE) means(first_row);
        wait(counter, target);
        for (int k = 0; k < layer.chunks; ++k) {
            const int row0 = first_row + k * layer.groups * CHUNK;
            if (row0 >= rows) break;
            if (!ONE) means(row0);
            const float *weighed[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + lane / 4 + 8 * r;
                weighed[r] = row >= rows ? nullptr : a.weighed + ((size_t)(at + row) * D + d) * N;
            }
            float sum = 0.f;
            if (pair < CHUNK && row0 + pair < rows) {
                const float *p = a.partial + ((size_t)d * layer.batch + row0 + pair) * layer.blocks;
#pragma unroll 5
                for (int j = sub; j < layer.blocks; j += 8) sum += __ldcg(p + j);
            }
            float part[2][TILES_H][4];
            clear(part);
            accumulate<TILES_H>(part, weighed, kn, 0, key_pack, TILES_H, 0, TILES_H, Identity());
            store_partials<TILES_H>(sums, part);
            if (pair < CHUNK) {
                sum = row_total(sum);
                if (sub == 0) row_sum[pair] = sum;
            }
            __syncthreads();
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
                if (i >= CHUNK * UNITS || row0 + row >= rows || unit >= real_h) continue;
                dh[k * CHUNK * UNITS + i] += sum_partials(sums, row, i % UNITS, 8 * TILES_H) - row_sum[row] * mean[n];
            }
            for (int i = threadIdx.x; i < CHUNK * own; i += THREADS) {
                const int row = i / own, slot = slot0 + i % own;
                if (slot >= N || row0 + row >= rows) continue;
                const size_t p = ((size_t)(at + row0 + row) * D + d) * N + slot;
                const float weighed_here = ONE ? mine[i] : a.weighed[p];
                a.d_logits[p] = weighed_here - a.attention[p] * row_sum[row];
            }
            __syncthreads();
        }
    }
    for (int i = threadIdx.x; i < layer.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % layer.groups + i / (CHUNK * UNITS) * layer.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        if (row >= layer.batch || unit >= real_h) continue;
        a.d_h0[d][(size_t)row * real_h + unit] = dh[i];
        if (LSTM) a.d_c0[d][(size_t)row * real_h + unit] = dc[i];
    }
}

#define EACH(i, count) (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (size_t)gridDim.x * blockDim.x)

struct Entry {  // of a pack: direction, block, k, and column within the block
    int d, block, k, n;
    __device__ Entry(size_t e, int tiles, int k_blocks, int blocks) {
        const int j = e % 4, t = e / 4 % 4, g = e / 16 % 8, tile = e / 128 % tiles;
        const size_t rest = e / 128 / tiles;
        k = rest % k_blocks * 16 + 4 * t + j;
        n = 8 * tile + g;
        block = rest / k_blocks % blocks;
        d = rest / k_blocks / blocks;
    }
};

// Weights in the order in which the lanes of `forward` and `backward` read them.
extern "C" __global__ void pack(const Packing a) {
    const int D = a.directions, H = a.hidden, h = a.real_hidden, N = a.slots, n = a.real_slots, C = a.blocks;
    const int own = 8 * a.tiles_s, tiles = TILES_H + a.tiles_s;
    for EACH (e, (size_t)D * C * (H + N) / 16 * TILES_U * 128) {
        const Entry p(e, TILES_U, (H + N) / 16, C);
        const int unit = p.block * UNITS + p.n / 4, column = p.n % 4, gate = inner_gate(column), slot = p.k - H;
        float value = 0.f;
        if (p.k < H && p.k < h && unit < h && gate >= 0) value = a.hh[p.d][((size_t)gate * h + unit) * h + p.k];
        if (slot >= 0 && slot < n && unit < H) value = a.gate_values[((size_t)p.d * n + slot) * 4 * H + 4 * unit + column];
        a.gate_pack[e] = value;
    }
    for EACH (e, (size_t)D * C * H / 16 * a.tiles_s * 128) {
        const Entry p(e, a.tiles_s, H / 16, C);
        const int slot = p.block * own + p.n;
        a.key_pack[e] = p.k < h && slot < n ? a.keys[p.d][(size_t)slot * h + p.k] : 0.f;
    }
    if (!a.backward) return;
    for EACH (e, (size_t)D * C * H / 4 * tiles * 128) {
        const Entry p(e, tiles, H / 4, C);
        const int from = p.k / 4, gate = inner_gate(p.k % 4), unit = p.block * UNITS + p.n;
        const int slot = p.block * own + p.n - 8 * TILES_H;
        float value = 0.f;
        if (p.n < 8 * TILES_H) {
            if (p.n < UNITS && unit < h && from < h && gate >= 0) value = a.hh[p.d][((size_t)gate * h + from) * h + unit];
        } else if (slot < n) {
            value = a.gate_values[((size_t)p.d * n + slot) * 4 * H + p.k];
        }
        a.slope_pack[e] = value;
    }
    for EACH (e, (size_t)D * C * N / 16 * TILES_H * 128) {
        const Entry p(e, TILES_H, N / 16, C);
        const int unit = p.block * UNITS + p.n;
        a.back_pack[e] = p.k < n && p.n < UNITS && unit < h ? a.keys[p.d][(size_t)p.k * h + unit] : 0.f;
    }
}
