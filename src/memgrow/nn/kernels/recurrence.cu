// The recurrence with memory as one kernel each way: the blocks walk the sequence by themselves.
//
// Rows (sequences) are in groups of blocks; a group works on one direction and some chunks of 32 rows, and within it
// every block owns a few hidden units and a few slots. A step of the forward pass is two phases with a barrier of the
// group behind each: scores of the own slots from all of h; then gates of the own units from all of h and all scores.
// A step back is three: gradients of the own gates; of the own slots and, through the weights, of the own units; of
// the own units through the keys.
//
// V and the weights that read the content are multiplied beforehand (P = V W'), so that attention gives gates in one
// product. Every unit has four columns in a row: LSTM i, f, g, o; GRU r, z, and the candidate's part from h and from
// the input. Sizes are padded to 16 with zeros. Weights come packed in the order in which a lane feeds them to the
// matrix units: [block][16 of k][8 of n][lane][4], the lane's n being lane / 4 and its k being 4 * (lane % 4) + 0..3.
//
// Compile-time: LSTM (0 or 1), EXACT (1: three products of split numbers, near float32; 0: TF32), TILES_U (8 columns
// of gates each, two units), TILES_S and TILES_B (tiles in one pass over slots forward, and over all backward).

#define WARPS 8
#define THREADS (32 * WARPS)
#define CHUNK 32
#define UNITS (2 * TILES_U)

struct Walk {
    int directions, groups, blocks, chunks;  // groups of one direction, blocks of one group, chunks of one group
    int batch, steps, reversed;              // reversed: bit d is set if direction d walks backwards
    int hidden, slots, real_slots;           // padded, padded, as they are
    int tiles_s, tiles_h;                    // tiles of own slots, and of own units as columns
    int weights_in_shared;
    const int *sizes, *offsets;              // of each step
    unsigned *barrier;                       // one for each group
};

struct Forward {
    Walk walk;
    const float *x;        // (T, D, 4 H)
    const float *h0, *c0;  // (D, B, H)
    const float *key_pack, *gate_pack, *bias;
    float *out, *before, *cell, *gates, *attention;  // (T, D, H) three times, (T, D, 4 H), (T, D, N)
    float *scores, *stats;                           // (D, B, N), (D, B, blocks, 2)
};

struct Backward {
    Walk walk;
    const float *d_out, *d_hn, *d_cn;  // (T, D, H), (D, B, H)
    const float *before, *cell, *c0, *gates, *attention, *mean_key;
    const float *slope_pack, *key_pack;
    float *d_gates, *weighed, *row_sum;  // (T, D, 4 H), (T, D, N), (T, D)
    float *d_h0, *d_c0, *partial;        // (D, B, H), (D, B, blocks)
};

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

// One 16 x 8 product over 8 of k, as exact as asked for.
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

// All writes of the group's blocks before it are seen by all of them after it.
__device__ __forceinline__ void meet(unsigned *counter, unsigned &target, int blocks) {
    target += blocks;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        } while (seen < target);
    }
    __syncthreads();
}

__device__ __forceinline__ float4 fresh(const float *p) {  // from L2: another block may have written it
    return __ldcg(reinterpret_cast<const float4 *>(p));
}

// Rows of A are given by pointer (null: a row of zeros); the warps share out the k-blocks of `pack`.
template <int NT, typename Turn>
__device__ __forceinline__ void accumulate(float (&acc)[2][NT][4], const float *const (&row)[4], int k_blocks, int shift,
                                           const float4 *pack, int tiles, int tile, int many, Turn turn) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at = 4 * (lane % 4);
    // The first warps would get one block more of every range: let each range begin with another warp.
    int first = warp - shift % WARPS;
    if (first < 0) first += WARPS;
#pragma unroll 2
    for (int kb = first; kb < k_blocks; kb += WARPS) {
        float4 a[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            a[r] = row[r] ? turn(fresh(row[r] + 16 * kb + at), r) : make_float4(0.f, 0.f, 0.f, 0.f);
        }
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            if (n < many) {
                float4 b = pack[((size_t)kb * tiles + tile + n) * 32 + lane];
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    product(acc[m][n], a[2 * m].x, a[2 * m + 1].x, a[2 * m].y, a[2 * m + 1].y, b.x, b.y);
                    product(acc[m][n], a[2 * m].z, a[2 * m + 1].z, a[2 * m].w, a[2 * m + 1].w, b.z, b.w);
                }
            }
        }
    }
}

// Each warp lays its part of the sums beside the others'; `total` then adds them up.
template <int NT>
__device__ __forceinline__ void lay_down(float *room, float (&acc)[2][NT][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = 8 * NT;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            float *p = room + (warp * CHUNK + 16 * m + lane / 4) * width + 8 * n + 2 * (lane % 4);
            *reinterpret_cast<float2 *>(p) = make_float2(acc[m][n][0], acc[m][n][1]);
            *reinterpret_cast<float2 *>(p + 8 * width) = make_float2(acc[m][n][2], acc[m][n][3]);
        }
}

__device__ __forceinline__ float total(const float *room, int row, int column, int width) {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) sum += room[(w * CHUNK + row) * width + column];
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

__device__ __forceinline__ float warp_sum(float x) {
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
    for (int d = 16; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

__device__ const float4 *bring(float *&room, const float *pack, size_t count, bool into_shared) {
    if (!into_shared) return reinterpret_cast<const float4 *>(pack);
    float4 *mine = reinterpret_cast<float4 *>(room);
    for (size_t i = threadIdx.x; i < count / 4; i += THREADS) mine[i] = reinterpret_cast<const float4 *>(pack)[i];
    room += count;
    return mine;
}

struct Plain {
    __device__ __forceinline__ float4 operator()(float4 v, int) const { return v; }
};

struct Softmax {  // from scores to attention
    float top[4], scale[4];
    __device__ __forceinline__ float4 operator()(float4 v, int r) const {
        return make_float4(expf(v.x - top[r]) * scale[r], expf(v.y - top[r]) * scale[r], expf(v.z - top[r]) * scale[r],
                           expf(v.w - top[r]) * scale[r]);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) forward(const Forward a) {
    extern __shared__ float4 shared[];
    const Walk w = a.walk;
    const int group = blockIdx.x / w.blocks, block = blockIdx.x % w.blocks;
    const int d = group / w.groups, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int D = w.directions, H = w.hidden, N = w.slots, unit0 = block * UNITS, slot0 = block * w.tiles_s * 8;
    const int own = w.tiles_s * 8, kh = H / 16, kn = N / 16;
    const bool reversed = w.reversed >> d & 1;
    unsigned *counter = w.barrier + group, target = 0;

    float *room = reinterpret_cast<float *>(shared);
    const size_t keys = (size_t)kh * w.tiles_s * 128, weights = (size_t)(kh + kn) * TILES_U * 128;
    const size_t number = (size_t)d * w.blocks + block;
    const float4 *key_pack = bring(room, a.key_pack + number * keys, keys, w.weights_in_shared);
    const float4 *gate_pack = bring(room, a.gate_pack + number * weights, weights, w.weights_in_shared);
    float *top = room, *scale = room + CHUNK, *mine = room + 2 * CHUNK;  // mine: (CHUNK, own slots)
    float *c_now = mine + CHUNK * own, *h_now = c_now + w.chunks * CHUNK * UNITS;
    float *sums = h_now + w.chunks * CHUNK * UNITS;

    for (int i = threadIdx.x; i < w.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % w.groups + i / (CHUNK * UNITS) * w.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        const bool there = row < w.batch && unit < H;
        h_now[i] = there ? a.h0[((size_t)d * w.batch + row) * H + unit] : 0.f;
        c_now[i] = there && LSTM ? a.c0[((size_t)d * w.batch + row) * H + unit] : 0.f;
    }
    __syncthreads();

    int before_rows = 0, before_at = 0;
    for (int s = 0; s < w.steps; ++s) {
        const int t = reversed ? w.steps - 1 - s : s, rows = w.sizes[t], at = w.offsets[t];
        if (N) {
            for (int k = 0; k < w.chunks; ++k) {
                const int row0 = (group % w.groups + k * w.groups) * CHUNK;
                if (row0 >= rows) break;
                const float *h[4];
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const int row = row0 + lane / 4 + 8 * r;
                    h[r] = row >= rows ? nullptr
                           : row < before_rows ? a.out + ((size_t)(before_at + row) * D + d) * H
                                               : a.h0 + ((size_t)d * w.batch + row) * H;
                }
                for (int tile = 0; tile < w.tiles_s; tile += TILES_S) {
                    float acc[2][TILES_S][4];
                    clear(acc);
                    accumulate<TILES_S>(acc, h, kh, 0, key_pack, w.tiles_s, tile, w.tiles_s - tile, Plain());
                    lay_down<TILES_S>(sums, acc);
                    __syncthreads();
                    for (int i = threadIdx.x; i < CHUNK * 8 * TILES_S; i += THREADS) {
                        const int row = i / (8 * TILES_S), column = i % (8 * TILES_S), slot = slot0 + 8 * tile + column;
                        if (8 * tile + column >= own) continue;
                        float score = total(sums, row, column, 8 * TILES_S);
                        if (a.bias && slot < w.real_slots) score += a.bias[(size_t)d * N + slot];
                        if (slot >= w.real_slots) score = -INFINITY;
                        mine[row * own + 8 * tile + column] = score;
                        if (slot < N && row0 + row < rows)
                            a.scores[((size_t)d * w.batch + row0 + row) * N + slot] = score;
                    }
                    __syncthreads();
                }
                for (int row = warp; row < CHUNK; row += WARPS) {
                    float high = -INFINITY, sum = 0.f;
                    for (int j = lane; j < own; j += 32) high = fmaxf(high, mine[row * own + j]);
                    high = warp_max(high);
                    for (int j = lane; j < own; j += 32) sum += high == -INFINITY ? 0.f : expf(mine[row * own + j] - high);
                    sum = warp_sum(sum);
                    if (lane == 0 && row0 + row < rows) {
                        float *p = a.stats + (((size_t)d * w.batch + row0 + row) * w.blocks + block) * 2;
                        p[0] = high;
                        p[1] = sum;
                    }
                }
                __syncthreads();
            }
            meet(counter, target, w.blocks);
        }
        for (int k = 0; k < w.chunks; ++k) {
            const int row0 = (group % w.groups + k * w.groups) * CHUNK;
            if (row0 >= rows) break;
            const float *h[4];
            const float *scores[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + lane / 4 + 8 * r;
                h[r] = row >= rows ? nullptr
                       : row < before_rows ? a.out + ((size_t)(before_at + row) * D + d) * H
                                           : a.h0 + ((size_t)d * w.batch + row) * H;
                scores[r] = row >= rows ? nullptr : a.scores + ((size_t)d * w.batch + row) * N;
            }
            float acc[2][TILES_U][4];
            clear(acc);
            accumulate<TILES_U>(acc, h, kh, 0, gate_pack, TILES_U, 0, TILES_U, Plain());
            if (N) {
                for (int row = warp; row < CHUNK; row += WARPS) {
                    float high = -INFINITY, sum = 0.f;
                    if (row0 + row < rows) {
                        const float *p = a.stats + ((size_t)d * w.batch + row0 + row) * w.blocks * 2;
                        for (int j = lane; j < w.blocks; j += 32) high = fmaxf(high, __ldcg(p + 2 * j));
                        high = warp_max(high);
                        for (int j = lane; j < w.blocks; j += 32) sum += __ldcg(p + 2 * j + 1) * expf(__ldcg(p + 2 * j) - high);
                        sum = warp_sum(sum);
                    }
                    if (lane == 0) {
                        top[row] = high;
                        scale[row] = 1.f / sum;
                    }
                }
                __syncthreads();
                for (int i = threadIdx.x; i < CHUNK * own; i += THREADS) {
                    const int row = i / own, slot = slot0 + i % own;
                    if (slot < N && row0 + row < rows) {
                        const float score = __ldcg(a.scores + ((size_t)d * w.batch + row0 + row) * N + slot);
                        a.attention[((size_t)(at + row0 + row) * D + d) * N + slot] = expf(score - top[row]) * scale[row];
                    }
                }
                Softmax softmax;
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    softmax.top[r] = top[lane / 4 + 8 * r];
                    softmax.scale[r] = scale[lane / 4 + 8 * r];
                }
                accumulate<TILES_U>(acc, scores, kn, kh, gate_pack + (size_t)kh * TILES_U * 32, TILES_U, 0, TILES_U, softmax);
            }
            lay_down<TILES_U>(sums, acc);
            __syncthreads();
            for (int i = threadIdx.x; i < CHUNK * UNITS; i += THREADS) {
                const int row = i / UNITS, u = i % UNITS, unit = unit0 + u;
                if (row0 + row >= rows || unit >= H) continue;
                const size_t here = (size_t)(at + row0 + row) * D + d;
                float4 v = *reinterpret_cast<const float4 *>(a.x + (here * H + unit) * 4);
                v.x += total(sums, row, 4 * u, 4 * UNITS);
                v.y += total(sums, row, 4 * u + 1, 4 * UNITS);
                v.z += total(sums, row, 4 * u + 2, 4 * UNITS);
                v.w += total(sums, row, 4 * u + 3, 4 * UNITS);
                float &c = c_now[k * CHUNK * UNITS + i], &hh = h_now[k * CHUNK * UNITS + i];
                a.before[here * H + unit] = hh;
#if LSTM
                v = make_float4(sigmoid(v.x), sigmoid(v.y), tanhf(v.z), sigmoid(v.w));
                c = v.y * c + v.x * v.z;
                hh = v.w * tanhf(c);
                a.cell[here * H + unit] = c;
#else
                v.x = sigmoid(v.x);
                v.y = sigmoid(v.y);
                v.w = tanhf(v.w + v.x * v.z);
                hh = v.w + v.y * (hh - v.w);
#endif
                *reinterpret_cast<float4 *>(a.gates + (here * H + unit) * 4) = v;
                a.out[here * H + unit] = hh;
            }
            __syncthreads();
        }
        before_rows = rows;
        before_at = at;
        if (s + 1 < w.steps) meet(counter, target, w.blocks);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) backward(const Backward a) {
    extern __shared__ float4 shared[];
    const Walk w = a.walk;
    const int group = blockIdx.x / w.blocks, block = blockIdx.x % w.blocks;
    const int d = group / w.groups, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int D = w.directions, H = w.hidden, N = w.slots, unit0 = block * UNITS, slot0 = block * w.tiles_s * 8;
    const int own = w.tiles_s * 8, kg = H / 4, kn = N / 16, tiles = w.tiles_h + w.tiles_s;
    const bool reversed = w.reversed >> d & 1;
    unsigned *counter = w.barrier + group, target = 0;

    float *room = reinterpret_cast<float *>(shared);
    const size_t slopes = (size_t)kg * tiles * 128, keys = (size_t)kn * w.tiles_h * 128;
    const size_t number = (size_t)d * w.blocks + block;
    const float4 *slope_pack = bring(room, a.slope_pack + number * slopes, slopes, w.weights_in_shared);
    const float4 *key_pack = bring(room, a.key_pack + number * keys, keys, w.weights_in_shared);
    float *row_sum = room, *mine = room + CHUNK;  // mine: (CHUNK, own slots)
    float *dh = mine + CHUNK * own, *dc = dh + w.chunks * CHUNK * UNITS, *sums = dc + w.chunks * CHUNK * UNITS;

    for (int i = threadIdx.x; i < w.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % w.groups + i / (CHUNK * UNITS) * w.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        const bool there = row < w.batch && unit < H;
        dh[i] = there ? a.d_hn[((size_t)d * w.batch + row) * H + unit] : 0.f;
        dc[i] = there && LSTM ? a.d_cn[((size_t)d * w.batch + row) * H + unit] : 0.f;
    }
    __syncthreads();

    for (int s = w.steps - 1; s >= 0; --s) {
        const int t = reversed ? w.steps - 1 - s : s, rows = w.sizes[t], at = w.offsets[t];
        const int before = s == 0 ? -1 : reversed ? t + 1 : t - 1;  // the step that forward walked before this one
        const int before_rows = before < 0 ? 0 : w.sizes[before], before_at = before < 0 ? 0 : w.offsets[before];
        for (int k = 0; k < w.chunks; ++k) {
            const int row0 = (group % w.groups + k * w.groups) * CHUNK;
            for (int i = threadIdx.x; i < CHUNK * UNITS; i += THREADS) {
                const int row = row0 + i / UNITS, unit = unit0 + i % UNITS;
                if (row >= rows || unit >= H) continue;
                const size_t here = (size_t)(at + row) * D + d;
                const float4 v = *reinterpret_cast<const float4 *>(a.gates + (here * H + unit) * 4);
                float &my_h = dh[k * CHUNK * UNITS + i], &my_c = dc[k * CHUNK * UNITS + i];
                const float g = my_h + a.d_out[here * H + unit];
                float4 slope;
#if LSTM
                const float bent = tanhf(a.cell[here * H + unit]);
                const float c = row < before_rows ? a.cell[((size_t)(before_at + row) * D + d) * H + unit]
                                                  : a.c0[((size_t)d * w.batch + row) * H + unit];
                const float gc = my_c + g * v.w * (1.f - bent * bent);
                slope.x = gc * v.z * v.x * (1.f - v.x);
                slope.y = gc * c * v.y * (1.f - v.y);
                slope.z = gc * v.x * (1.f - v.z * v.z);
                slope.w = g * bent * v.w * (1.f - v.w);
                my_c = gc * v.y;
                my_h = 0.f;
#else
                slope.w = g * (1.f - v.y) * (1.f - v.w * v.w);
                slope.x = slope.w * v.z * v.x * (1.f - v.x);
                slope.y = g * (a.before[here * H + unit] - v.w) * v.y * (1.f - v.y);
                slope.z = slope.w * v.x;
                my_h = g * v.y;
#endif
                *reinterpret_cast<float4 *>(a.d_gates + (here * H + unit) * 4) = slope;
            }
        }
        meet(counter, target, w.blocks);
        for (int k = 0; k < w.chunks; ++k) {
            const int row0 = (group % w.groups + k * w.groups) * CHUNK;
            if (row0 >= rows) break;
            const float *slope[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + lane / 4 + 8 * r;
                slope[r] = row >= rows ? nullptr : a.d_gates + ((size_t)(at + row) * D + d) * H * 4;
            }
            for (int tile = 0; tile < tiles; tile += TILES_B) {
                float acc[2][TILES_B][4];
                clear(acc);
                accumulate<TILES_B>(acc, slope, kg, 0, slope_pack, tiles, tile, tiles - tile, Plain());
                lay_down<TILES_B>(sums, acc);
                __syncthreads();
                for (int i = threadIdx.x; i < CHUNK * 8 * TILES_B; i += THREADS) {
                    const int row = i / (8 * TILES_B), column = 8 * tile + i % (8 * TILES_B);
                    if (column >= 8 * tiles || row0 + row >= rows) continue;
                    const float sum = total(sums, row, i % (8 * TILES_B), 8 * TILES_B);
                    const int slot = column - 8 * w.tiles_h;
                    if (slot < 0) {
                        if (column < UNITS) dh[(k * CHUNK + row) * UNITS + column] += sum;
                    } else if (slot0 + slot < N) {
                        const size_t p = ((size_t)(at + row0 + row) * D + d) * N + slot0 + slot;
                        mine[row * own + slot] = a.weighed[p] = a.attention[p] * sum;
                    } else {
                        mine[row * own + slot] = 0.f;
                    }
                }
                __syncthreads();
            }
            for (int row = warp; row < CHUNK && N; row += WARPS) {
                float sum = 0.f;
                if (row0 + row < rows)
                    for (int j = lane; j < own; j += 32) sum += mine[row * own + j];
                sum = warp_sum(sum);
                if (lane == 0 && row0 + row < rows)
                    a.partial[((size_t)d * w.batch + row0 + row) * w.blocks + block] = sum;
            }
            __syncthreads();
        }
        if (!N) continue;
        meet(counter, target, w.blocks);
        for (int k = 0; k < w.chunks; ++k) {
            const int row0 = (group % w.groups + k * w.groups) * CHUNK;
            if (row0 >= rows) break;
            const float *weighed[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + lane / 4 + 8 * r;
                weighed[r] = row >= rows ? nullptr : a.weighed + ((size_t)(at + row) * D + d) * N;
            }
            float acc[2][(TILES_U + 3) / 4][4];
            clear(acc);
            accumulate<(TILES_U + 3) / 4>(acc, weighed, kn, 0, key_pack, w.tiles_h, 0, w.tiles_h, Plain());
            lay_down<(TILES_U + 3) / 4>(sums, acc);
            for (int row = warp; row < CHUNK; row += WARPS) {
                float sum = 0.f;
                if (row0 + row < rows) {
                    const float *p = a.partial + ((size_t)d * w.batch + row0 + row) * w.blocks;
                    for (int j = lane; j < w.blocks; j += 32) sum += __ldcg(p + j);
                }
                sum = warp_sum(sum);
                if (lane == 0) {
                    row_sum[row] = sum;
                    if (block == 0 && row0 + row < rows) a.row_sum[(size_t)(at + row0 + row) * D + d] = sum;
                }
            }
            __syncthreads();
            for (int i = threadIdx.x; i < CHUNK * UNITS; i += THREADS) {
                const int row = i / UNITS, unit = unit0 + i % UNITS;
                if (row0 + row >= rows || unit >= H) continue;
                const float mean = a.mean_key[((size_t)(at + row0 + row) * D + d) * H + unit];
                dh[k * CHUNK * UNITS + i] += total(sums, row, i % UNITS, 8 * ((TILES_U + 3) / 4)) - row_sum[row] * mean;
            }
            __syncthreads();
        }
    }
    for (int i = threadIdx.x; i < w.chunks * CHUNK * UNITS; i += THREADS) {
        const int row = (group % w.groups + i / (CHUNK * UNITS) * w.groups) * CHUNK + i / UNITS % CHUNK;
        const int unit = unit0 + i % UNITS;
        if (row >= w.batch || unit >= H) continue;
        a.d_h0[((size_t)d * w.batch + row) * H + unit] = dh[i];
        if (LSTM) a.d_c0[((size_t)d * w.batch + row) * H + unit] = dc[i];
    }
}
