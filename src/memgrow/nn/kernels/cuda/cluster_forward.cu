// The forward kernel: see cluster.cuh.

#include "steps.cuh"

// A GRU's gates, where they take two passes: first r and z, which h and what is read both contribute to, then the candidate's
// part from h beside that from the rest. So all warps do the same amount of work.
#define PAIRED (!LSTM && TILES_U > WARPS_N * NT_U && TILES_U <= 2 * WARPS_N * NT_U)

static_assert(!PAIRED || WARPS_N == 2 && NT_U == TILES_H, "the warps of a column have one gate in a pass");
static_assert(!HELD_U || TILES_U <= WARPS_N * NT_U, "further passes would need other tiles of these blocks");

struct Forward {
    Layer layer;
    const float *x;              // (T, D, 4 H)
    const float *h0[2], *c0[2];  // (B, real H) for each direction
    const half *key_pack, *gate_pack, *read_pack, *value_pack;  // read: of gates from slots, or from contents
    const float *bias;
    float *output, *hn[2], *cn[2];             // (T, D * real H), (B, real H) for each direction
    float *before, *cell, *gates, *attention;  // (T, D, H) twice, (T, D, 4 H), (T, D, N)
    float *content;                            // (T, D, CONTENT)
    char *mailbox;                             // (blocks, mailbox_bytes)
};

// The first tile of gates of a warp, in the pass that begins at tile `base`.
__device__ __forceinline__ int first_gate(int base) {
    const int warp_n = threadIdx.x / 32 % WARPS_N;
    return !PAIRED ? base + warp_n * NT_U : base ? warp_n * 3 * TILES_H : (1 + warp_n) * TILES_H;
}

// Adds what that pass found for the gates of an own unit.
__device__ __forceinline__ void add_gates(float4 &v, const float *sums, int row, int unit, int base) {
#if LSTM
    const int column = 4 * unit - 8 * base;
    if (column < 0 || column >= 8 * WARPS_N * NT_U) return;
#pragma unroll
    for (int warp_k = 0; warp_k < WARPS_K; ++warp_k) {
        const float4 one = *reinterpret_cast<const float4 *>(sums + (warp_k * ROWS + row) * WIDTH(NT_U) + column);
        v = make_float4(v.x + one.x, v.y + one.y, v.z + one.z, v.w + one.w);
    }
#else
    auto of = [&](int gate) {
        const bool one_source = gate % 3 == 0;  // the candidate's parts
        const int tile = !PAIRED ? gate * TILES_H - base : one_source == (base > 0) ? gate / 2 * TILES_H : -TILES_H;
        const int column = 8 * tile + unit;
        return column < 0 || column >= 8 * WARPS_N * NT_U ? 0.f : sum_partials<NT_U>(sums, row, column);
    };
    v = make_float4(v.x + of(1), v.y + of(2), v.z + of(0), v.w + of(3));
#endif
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) forward(const Forward a) {
    extern __shared__ uint4 shared[];
    const Layer layer = a.layer;
    const int me = member_rank(), team = blockIdx.x / MEMBERS, d = team % layer.directions;
    const int row0 = team / layer.directions * ROWS, my_row = threadIdx.x / LANES, sub = threadIdx.x % LANES;
    const int D = layer.directions, H = layer.hidden, N = layer.slots, own = layer.own, unit0 = me * UNITS, slot0 = me * own;
    const int share = my_row < ROWS ? own : 0, peers = my_row < ROWS ? MEMBERS : 0;  // 0: this thread has no row
    const int kh = blocks_of(H), ks = blocks_of(own), kr = blocks_of(DIMS ? CONTENT : N), real_h = layer.real_hidden;
    const int warp_k = threadIdx.x / 32 / WARPS_N;
    const int hs = padded_stride(H), ss = padded_stride(own), rs = padded_stride(CONTENT);
    const bool reversed = layer.reversed >> d & 1;

    char *smem = reinterpret_cast<char *>(shared);
    const size_t number = (size_t)d * MEMBERS + me;
    const Pack keys = load_pack(smem, a.key_pack + number * kh * own * 32, kh, own / 8, layer.fit_first, HELD_S * WARPS_K);
    const Pack gates =
        load_pack(smem, a.gate_pack + number * kh * TILES_ONE * 256, kh, TILES_ONE, layer.fit_second, HELD_U * WARPS_K);
    const Pack reads = load_pack(smem, a.read_pack + number * kr * TILES_ONE * 256, kr, N ? TILES_ONE : 0, layer.fit_third);
    const Pack values = load_pack(smem, a.value_pack + number * ks * CONTENT_TILES * 256, ks, CONTENT_TILES, layer.fit_fourth);
    unsigned long long *mbarriers = allocate<unsigned long long>(smem, 4);
    const DenseRows h_all = {allocate<half>(smem, ROWS * hs), hs};
    float *factor = allocate<float>(smem, MEMBERS * ROWS);
    float *top = allocate<float>(smem, ROWS), *inverse = allocate<float>(smem, ROWS);
    float *mine = allocate<float>(smem, ROWS * own);
    float *sums = allocate<float>(smem, WARPS_K * ROWS * WIDTH(MOST_U));
    uint4 *ring = allocate<uint4>(smem, WARPS * layer.depth * 32 * MOST_U);
    unsigned long long *stream_mbarriers = allocate<unsigned long long>(smem, WARPS * layer.depth);
    WeightStream<MOST_U> stream(allocate<Segment>(smem, layer.depth ? WARPS * SEGMENTS : 0), ring, stream_mbarriers,
                                layer.depth);
    Mailbox mailbox(a.mailbox, layer);
    AllGather<SLOTS ? 1 : 2> states(mailbox, smem, mbarriers, UNITS);  // without slots, a block may be a step ahead
#if DIMS
    const DenseRows content = {allocate<half>(smem, ROWS * rs), rs};
    const DenseRows weights = {allocate<half>(smem, ROWS * ss), ss};  // attention to the own slots
    unsigned *partial_content = allocate<unsigned>(smem, CONTENT * ROWS / 2);  // by block, as halves
    float2 *stats = allocate<float2>(smem, MEMBERS * ROWS);
    AllGather<> content_gather(mailbox, smem, mbarriers + 1, DIMS);
    Mbarrier attention_ready(mbarriers + 2);
    auto scores_of = [&](int peer) { return stats[peer * ROWS + my_row]; };  // max, sum
#else
    AllGather<> attention(mailbox, smem, mbarriers + 2, row_stride(own / 8), N ? sizeof(float2) : 0);
    AllGather<> &attention_ready = attention;
    auto scores_of = [&](int peer) { return attention.trailer<float2>(attention.from(peer), my_row); };
#endif
    plan_multiply<NT_S>(stream, keys, kh);
    if (DIMS) plan_multiply_columns<NT_P>(stream, values, ks);
    stream.add(gates, kh, warp_k, WARPS_K, first_gate(0), NT_U);
    for (int base = 0; base < TILES_U; base += WARPS_N * NT_U) {
        if (base) stream.add(gates, kh, warp_k, WARPS_K, first_gate(base), NT_U);
        stream.add(reads, kr, warp_k, WARPS_K, first_gate(base) - TILES_SKIPPED, NT_U);
    }
    stream.begin(count_steps(layer, row0));
    const auto held = load_registers<NT_U, HELD_U>(gates);
    const auto held_keys = load_registers<NT_S, HELD_S>(keys);
    zero_fill(h_all);
#if DIMS
    zero_fill(content);
    zero_fill(weights);
#endif

    float h[ITEMS], c[ITEMS];
    auto send_state = [&] {
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS;
            if (i < ROWS * UNITS) states.mine()[i] = float2half(h[n]);
        }
        states.send();
    };
    auto receive_states = [&] {
        states.wait();
        states.concatenate<UNITS>(h_all);
    };
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        const bool valid = i < ROWS * UNITS && row < layer.batch && unit < real_h;
        h[n] = valid ? a.h0[d][(size_t)row * real_h + unit] : 0.f;
        c[n] = valid && LSTM ? a.c0[d][(size_t)row * real_h + unit] : 0.f;
    }
    cluster_sync();
    send_state();
    receive_states();

    int rows, at;
    float4 gate[ITEMS];
    auto prefetch_step = [&](int s) {  // its rows, and what the inputs add to the own gates
        rows = 0;
        if (s >= layer.steps) return;
        const int t = reversed ? layer.steps - 1 - s : s;
        rows = layer.sizes[t] - row0;
        at = layer.offsets[t] + row0;
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i < ROWS * UNITS && row < rows)
                gate[n] = *reinterpret_cast<const float4 *>(a.x + (((size_t)(at + row) * D + d) * H + unit) * 4);
        }
    };
    prefetch_step(0);
    for (int s = 0; s < layer.steps; ++s) {
        if (rows <= 0) {
            prefetch_step(s + 1);
            continue;
        }
        if (N) {
            float high = -INFINITE, sum = 0.f;
            multiply<NT_S>(sums, h_all, keys, stream, kh, [&](int base) {
                const int until = min(share, 8 * (base + WARPS_N * NT_S));
                for (int j = 8 * base + sub; j < until; j += LANES) {
                    float score = -INFINITE;
                    if (slot0 + j < layer.real_slots) {
                        score = sum_partials<NT_S>(sums, my_row, j - 8 * base);
                        if (a.bias) score += a.bias[(size_t)d * N + slot0 + j];
                    }
                    mine[my_row * own + j] = score;
                    high = fmaxf(high, score);
                }
            }, held_keys);
            __syncthreads();
            high = row_max(high);
            for (int j = sub; j < share; j += LANES) {
                const float p = high > -INFINITE ? __expf(mine[my_row * own + j] - high) : 0.f;
#if DIMS
                weights.data[my_row * ss + j] = float2half(p);
#else
                attention.mine(my_row, j / 8)[j % 8] = float2half(p);
#endif
                sum += p;
            }
            sum = row_total(sum);
#if DIMS
            attention_ready.expect(MEMBERS * ROWS * (DIMS * sizeof(half) + sizeof(float2)));
            for (int peer = sub; peer < peers; peer += LANES)
                st_async(mapa(smem_addr(stats + me * ROWS + my_row), peer),
                         make_uint2(__float_as_uint(high), __float_as_uint(sum)), mapa(attention_ready.addr, peer));
            __syncthreads();
            scatter_partials<NT_P, DIMS>(weights, values, stream, ks, partial_content, me, attention_ready.addr);
#else
            if (sub == 0 && my_row < ROWS) attention.trailer<float2>(attention.mine(), my_row) = make_float2(high, sum);
            attention.send();
#endif
        }
        // What does not depend on the slots, while the others' attention arrives.
        float from_h[TILES_M][NT_U][4];
        clear(from_h);
        accumulate<NT_U>(from_h, h_all, gates, stream, kh, warp_k, WARPS_K, first_gate(0), Identity(), held);
        if (N) {
            attention_ready.wait();
            float high = -INFINITE, sum = 0.f;
            for (int peer = sub; peer < peers; peer += LANES) high = fmaxf(high, scores_of(peer).x);
            high = row_max(high);
            for (int peer = sub; peer < peers; peer += LANES) {
                const float2 one = scores_of(peer);
                const float f = one.x > -INFINITE ? __expf(one.x - high) : 0.f;
                factor[peer * ROWS + my_row] = f;
                sum += f * one.y;
            }
            sum = row_total(sum);
            if (sub == 0 && my_row < ROWS) {
                top[my_row] = high;
                inverse[my_row] = 1.f / sum;
            }
            __syncthreads();
        }
#if DIMS
        for (int i = threadIdx.x; i < ROWS * DIMS / 2; i += THREADS) {
            const int row = i / (DIMS / 2);
            float2 sum = make_float2(0.f, 0.f);
#pragma unroll
            for (int peer = 0; peer < MEMBERS; ++peer) {
                const float2 one = half22float2(partial_content[peer * ROWS * (DIMS / 2) + i]);
                const float f = factor[peer * ROWS + row];
                sum = make_float2(sum.x + f * one.x, sum.y + f * one.y);
            }
            sum = make_float2(sum.x * inverse[row], sum.y * inverse[row]);
            reinterpret_cast<unsigned *>(content_gather.mine())[i] = floats2half2(clamp_to_half(sum.x), clamp_to_half(sum.y));
            float *to = a.content + ((size_t)(at + row) * D + d) * CONTENT + me * DIMS + i % (DIMS / 2) * 2;
            if (row < rows) *reinterpret_cast<float2 *>(to) = sum;
        }
        content_gather.send();
        content_gather.wait();
        content_gather.concatenate<DIMS>(content);
#endif
        float before[ITEMS];
        for (int base = 0; base < TILES_U; base += WARPS_N * NT_U) {
            if (base) {
                __syncthreads();
                clear(from_h);
                accumulate<NT_U>(from_h, h_all, gates, stream, kh, warp_k, WARPS_K, first_gate(base), Identity());
            }
#if DIMS
            accumulate<NT_U>(from_h, content, reads, stream, kr, warp_k, WARPS_K, first_gate(base) - TILES_SKIPPED, Identity());
#else
            if (N) {
                // Scaled as if attention were not normalized yet: both sums then share their registers.
                scale(from_h, [&](int row) { return 1.f / inverse[row]; });
                const ScaleByOwner rescale = {factor, 8.f / own};
                accumulate<NT_U>(from_h, attention.rows(0, own / 8), reads, stream, kr, warp_k, WARPS_K,
                                 first_gate(base) - TILES_SKIPPED, rescale);
                scale(from_h, [&](int row) { return inverse[row]; });
            }
#endif
            store_partials<NT_U>(sums, from_h);
            __syncthreads();
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS;
                if (i < ROWS * UNITS && row < rows) add_gates(gate[n], sums, row, i % UNITS, base);
            }
        }
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            if (threadIdx.x + n * THREADS >= min(rows, ROWS) * UNITS) continue;
            float4 v = gate[n];
            before[n] = h[n];
#if LSTM
            v = make_float4(sigmoid(v.x), sigmoid(v.y), fast_tanh(v.z), sigmoid(v.w));
            c[n] = v.y * c[n] + v.x * v.z;
            h[n] = v.w * fast_tanh(c[n]);
#else
            v.x = sigmoid(v.x);
            v.y = sigmoid(v.y);
            v.w = fast_tanh(v.w + v.x * v.z);
            h[n] = v.w + v.y * (h[n] - v.w);
#endif
            gate[n] = v;
        }
        send_state();
        // The trace for the backward pass is written while the others' states arrive.
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i >= ROWS * UNITS || row >= rows) continue;
            const size_t here = (size_t)(at + row) * D + d;
            a.before[here * H + unit] = before[n];
            if (LSTM) a.cell[here * H + unit] = c[n];
            *reinterpret_cast<float4 *>(a.gates + (here * H + unit) * 4) = gate[n];
            if (unit < real_h) a.output[here * real_h + unit] = h[n];
        }
        if (N)
            for (int j = sub; j < share; j += LANES)
                if (my_row < rows)
                    a.attention[((size_t)(at + my_row) * D + d) * N + slot0 + j] =
                        __expf(mine[my_row * own + j] - top[my_row]) * inverse[my_row];
        prefetch_step(s + 1);
        receive_states();
    }
    cluster_sync();
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        if (i >= ROWS * UNITS || row >= layer.batch || unit >= real_h) continue;
        a.hn[d][(size_t)row * real_h + unit] = h[n];
        if (LSTM) a.cn[d][(size_t)row * real_h + unit] = c[n];
    }
}
