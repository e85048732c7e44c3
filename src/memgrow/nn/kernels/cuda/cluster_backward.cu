// The backward kernel: see cluster.cuh.

#include "steps.cuh"

struct Backward {
    Layer layer;
    const float *d_out, *d_hn[2], *d_cn[2];  // (T, D * real H), (B, real H) for each direction
    const float *before, *cell, *c0[2], *gates, *attention, *mean_key;  // mean_key: (D, T, real H)
    const half *slope_pack, *back_pack, *back_value_pack, *back_read_pack;  // the last: GRU's; LSTM's is in the first
    const unsigned *largest;                // bits of the largest incoming gradient
    float *d_gates, *d_logits, *d_content;  // (T, D, 4 H), (T, D, N), (T, D, CONTENT)
    float *d_h0[2], *d_c0[2];               // (B, real H) for each direction
    char *mailbox;                          // (blocks, mailbox_bytes)
};

// The columns of own slots, or contents, come after those of own units (LSTM), or in a product of their own (GRU).
#define AHEAD (LSTM ? TILES_H : 0)
#define SLOTS_AHEAD (DIMS ? 0 : AHEAD)
#define SLOT_TILES (SLOTS_AHEAD + own / 8)
#define SLOTS_AT_ONCE (WARPS_N * (DIMS ? NT_S : NT_B))
// Loops over the own slots whose columns are in the pass from tile `base` on, shared by the threads of a row.
#define OWN_SLOTS(j, base)                                                                                       \
    (int j = max(0, 8 * ((base) - SLOTS_AHEAD)) + sub; j < min(share, 8 * ((base) + SLOTS_AT_ONCE - SLOTS_AHEAD)); j += LANES)

struct Step {
    int rows, at;  // of this cluster
};

struct Saved {  // the trace of one row and unit, loaded ahead of its step
    float4 gates;
    float d_out, cell, before;
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) backward(const Backward a) {
    extern __shared__ uint4 shared[];
    const Layer layer = a.layer;
    const int me = member_rank(), team = blockIdx.x / MEMBERS, d = team % layer.directions;
    const int row0 = team / layer.directions * ROWS, my_row = threadIdx.x / LANES, sub = threadIdx.x % LANES;
    const int D = layer.directions, H = layer.hidden, N = layer.slots, own = layer.own, unit0 = me * UNITS, slot0 = me * own;
    const int share = my_row < ROWS ? own : 0, peers = my_row < ROWS ? MEMBERS : 0;  // 0: this thread has no row
    const int ks = blocks_of(DIMS ? own : N), kc = blocks_of(CONTENT), real_h = layer.real_hidden;
    const int ss = padded_stride(own), cs = padded_stride(CONTENT);
    const int tiles_r = DIMS ? TILES_D : own / 8, tiles = LSTM ? TILES_H + tiles_r : TILES_H;
    const bool reversed = layer.reversed >> d & 1;

    char *smem = reinterpret_cast<char *>(shared);
    const size_t number = (size_t)d * MEMBERS + me;
    const Pack slopes =
        load_pack(smem, a.slope_pack + number * K_SLOPES * tiles * 256, K_SLOPES, tiles, layer.fit_first, HELD_B * WARPS_K);
    const Pack keys =
        load_pack(smem, a.back_pack + number * ks * UNITS_FROM_SLOTS * 256, ks, N ? UNITS_FROM_SLOTS : 0, layer.fit_second);
    const Pack values = load_pack(smem, a.back_value_pack + number * kc * own * 32, kc, DIMS ? own / 8 : 0, layer.fit_third);
    const int tiles_apart = LSTM ? 0 : tiles_r;
    const Pack reads =
        load_pack(smem, a.back_read_pack + number * K_SLOPES * tiles_apart * 256, K_SLOPES, tiles_apart, layer.fit_fourth);
    unsigned long long *mbarriers = allocate<unsigned long long>(smem, 4);
    float *row_sum = allocate<float>(smem, ROWS), *attention = allocate<float>(smem, ROWS * own);
    float *sums = allocate<float>(smem, WARPS_K * ROWS * WIDTH(MOST_B));
    uint4 *ring = allocate<uint4>(smem, WARPS * layer.depth * 32 * MOST_B);
    unsigned long long *stream_mbarriers = allocate<unsigned long long>(smem, WARPS * layer.depth);
    WeightStream<MOST_B> stream(allocate<Segment>(smem, layer.depth ? WARPS * SEGMENTS : 0), ring, stream_mbarriers,
                                layer.depth);
    Mailbox mailbox(a.mailbox, layer);
    AllGather<> slope_gather(mailbox, smem, mbarriers, row_stride(TILES_U));
    Mbarrier attention_ready(mbarriers + 3);
    for (int i = threadIdx.x; i < ROWS * own; i += THREADS) attention[i] = 0.f;
#if DIMS
    const DenseRows weights = {allocate<half>(smem, ROWS * ss), ss}, contents = {allocate<half>(smem, ROWS * cs), cs};
    unsigned *partial_dh = allocate<unsigned>(smem, MEMBERS * ROWS * UNITS / 2);  // by block, as halves
    float *partial_sums = allocate<float>(smem, MEMBERS * ROWS);
    AllGather<> content_gather(mailbox, smem, mbarriers + 2, DIMS);
    Mbarrier weights_ready(mbarriers + 1);
    auto sum_of = [&](int peer) { return partial_sums[peer * ROWS + my_row]; };
#else
    AllGather<> weights(mailbox, smem, mbarriers + 1, row_stride(own / 8), N ? sizeof(float) : 0);
    AllGather<> &weights_ready = weights;
    auto sum_of = [&](int peer) { return weights.trailer<float>(weights.from(peer), my_row); };
#endif
    plan_multiply<NT_B>(stream, slopes, K_SLOPES);
    plan_multiply<NT_B>(stream, reads, K_SLOPES);
    plan_multiply<NT_S>(stream, values, kc);
    if (DIMS) plan_multiply_columns<NT_H>(stream, keys, ks);
    else plan_multiply<NT_H>(stream, keys, ks);
    stream.begin(count_steps(layer, row0));
#if DIMS
    zero_fill(weights);
    zero_fill(contents);
#endif

    const auto held = load_registers<NT_B, HELD_B>(slopes);
    // The largest incoming gradient becomes about 8: that leaves range for larger ones in earlier steps, and for small ones.
    const int exponent = max(-100, min(100, (int)(*a.largest >> 23 & 255) - 127));
    const float scale = exp2f(3.f - exponent), unscale = exp2f(exponent - 3.f);

    float dh[ITEMS], dc[ITEMS];
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        const bool valid = i < ROWS * UNITS && row < layer.batch && unit < real_h;
        dh[n] = valid ? a.d_hn[d][(size_t)row * real_h + unit] : 0.f;
        dc[n] = valid && LSTM ? a.d_cn[d][(size_t)row * real_h + unit] : 0.f;
    }
    Saved saved[ITEMS];
    auto step = [&](int s) {
        const int t = reversed ? layer.steps - 1 - s : s;
        return s < 0 ? Step{0, 0} : Step{layer.sizes[t] - row0, layer.offsets[t] + row0};
    };
    Step next = step(layer.steps - 1), after = step(layer.steps - 2);  // `after` tells where c before `next` lies
    auto prefetch_saved = [&] {  // of `next`, with the state before it
        const Step last = after;
        const int rows = next.rows, at = next.at;
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i >= ROWS * UNITS || row >= rows) continue;
            const size_t here = (size_t)(at + row) * D + d;
            saved[n].gates = *reinterpret_cast<const float4 *>(a.gates + (here * H + unit) * 4);
            saved[n].d_out = unit < real_h ? a.d_out[here * real_h + unit] : 0.f;
#if LSTM
            saved[n].cell = a.cell[here * H + unit];
            saved[n].before = row < last.rows ? a.cell[((size_t)(last.at + row) * D + d) * H + unit]
                             : unit < real_h ? a.c0[d][(size_t)(row0 + row) * real_h + unit] : 0.f;
#else
            saved[n].before = a.before[here * H + unit];
#endif
        }
    };
    prefetch_saved();
    cluster_sync();

    for (int s = layer.steps - 1; s >= 0; --s) {
        const int rows = next.rows, at = next.at;
        next = after;
        after = step(s - 2);
        if (rows <= 0) {
            if (s) prefetch_saved();
            continue;
        }
        float4 slopes_here[ITEMS];
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS;
            if (i >= ROWS * UNITS) continue;
            float4 slope = make_float4(0.f, 0.f, 0.f, 0.f);
            if (row < rows) {
                const float4 v = saved[n].gates;
                const float g = dh[n] + saved[n].d_out;
#if LSTM
                const float tanh_c = fast_tanh(saved[n].cell), gc = dc[n] + g * v.w * (1.f - tanh_c * tanh_c);
                slope.x = gc * v.z * v.x * (1.f - v.x);
                slope.y = gc * saved[n].before * v.y * (1.f - v.y);
                slope.z = gc * v.x * (1.f - v.z * v.z);
                slope.w = g * tanh_c * v.w * (1.f - v.w);
                dc[n] = gc * v.y;
                dh[n] = 0.f;
#else
                slope.w = g * (1.f - v.y) * (1.f - v.w * v.w);
                slope.x = slope.w * v.z * v.x * (1.f - v.x);
                slope.y = g * (saved[n].before - v.w) * v.y * (1.f - v.y);
                slope.z = slope.w * v.x;
                dh[n] = g * v.y;
#endif
            }
            slopes_here[n] = slope;
            const unsigned low = floats2half2(clamp_to_half(slope.x * scale), clamp_to_half(slope.y * scale));
            const unsigned high = floats2half2(clamp_to_half(slope.z * scale), clamp_to_half(slope.w * scale));
            const int u = i % UNITS;
#if LSTM
            *reinterpret_cast<uint2 *>(slope_gather.mine(row, u / 2) + u % 2 * 4) = make_uint2(low, high);
#else
            const unsigned short gates[] = {(half)high, (half)low, (half)(low >> 16), (half)(high >> 16)};
#pragma unroll
            for (int gate = 0; gate < 4; ++gate) slope_gather.mine(row, gate * TILES_H + u / 8)[u % 8] = gates[gate];
#endif
        }
        slope_gather.send();
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i < ROWS * UNITS && row < rows)
                *reinterpret_cast<float4 *>(a.d_gates + (((size_t)(at + row) * D + d) * H + unit) * 4) = slopes_here[n];
        }
        if (N) {  // attention of absent rows is left over, or 0, and is multiplied with gradients that are 0
            attention_ready.expect(min(rows, ROWS) * own * sizeof(float));
            const int row = threadIdx.x;
            const float *from = a.attention + ((size_t)(at + row) * D + d) * N + slot0;
            if (row < min(rows, ROWS))
                bulk_copy(smem_addr(attention + row * own), from, own * sizeof(float), attention_ready.addr);
        }
        if (s) prefetch_saved();
        float mean[ITEMS];
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i < ROWS * UNITS && N && row < rows && unit < real_h)
                mean[n] = a.mean_key[((size_t)d * layer.offsets[layer.steps] + at + row) * real_h + unit];
        }
        slope_gather.wait();
        if (N) attention_ready.wait();
        float *logits = a.d_logits + ((size_t)(at + my_row) * D + d) * N + slot0;
        float sum = 0.f;
        auto weigh = [&](int j, float gradient) {  // `gradient` of attention to an own slot
            const float v = attention[my_row * own + j] * gradient;
            if (my_row < rows) logits[j] = v;  // to be completed at the end of the step
            const half rounded = float2half(clamp_to_half(v * EXTRA));
#if DIMS
            weights.data[my_row * ss + j] = rounded;
#else
            weights.mine(my_row, j / 8)[j % 8] = rounded;
#endif
            sum += v;
        };
        auto to_units = [&](int base) {
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS, u = i % UNITS - 8 * base;
                if (i < ROWS * UNITS && row < rows && u >= 0 && u < 8 * WARPS_N * NT_B)
                    dh[n] += unscale * sum_partials<NT_B>(sums, row, u);
            }
        };
        auto to_slots = [&](int base) {  // or to contents
#if DIMS
            for (int i = threadIdx.x; i < ROWS * DIMS / 2; i += THREADS) {
                const int row = i / (DIMS / 2), dim = i % (DIMS / 2) * 2, column = 8 * (AHEAD - base) + dim;
                if (column < 0 || column >= 8 * WARPS_N * NT_B) continue;
                const float2 v = make_float2(sum_partials<NT_B>(sums, row, column), sum_partials<NT_B>(sums, row, column + 1));
                reinterpret_cast<unsigned *>(content_gather.mine())[i] = floats2half2(clamp_to_half(v.x), clamp_to_half(v.y));
                if (row < rows)
                    *reinterpret_cast<float2 *>(a.d_content + ((size_t)(at + row) * D + d) * CONTENT + me * DIMS + dim) =
                        make_float2(unscale * v.x, unscale * v.y);
            }
#else
            for OWN_SLOTS (j, base) weigh(j, sum_partials<NT_B>(sums, my_row, 8 * (AHEAD - base) + j));
#endif
        };
#if LSTM
        multiply<NT_B>(sums, slope_gather.rows(0, TILES_U), slopes, stream, K_SLOPES, [&](int base) {
            to_units(base);
            to_slots(base);
        }, held);
#else
        multiply<NT_B>(sums, slope_gather.rows(0, TILES_ONE), slopes, stream, K_SLOPES, to_units, held);
        __syncthreads();
        multiply<NT_B>(sums, slope_gather.rows(TILES_H, TILES_ONE), reads, stream, K_SLOPES, to_slots);
#endif
#if DIMS
        content_gather.send();
        content_gather.wait();
        content_gather.concatenate<DIMS>(contents);
        multiply<NT_S>(sums, contents, values, stream, kc, [&](int base) {
            for OWN_SLOTS (j, base) weigh(j, sum_partials<NT_S>(sums, my_row, j - 8 * base));
        });
#endif
        if (N) {
            sum = row_total(sum);
#if DIMS
            weights_ready.expect(MEMBERS * ROWS * (UNITS * sizeof(half) + sizeof(float)));
            for (int peer = sub; peer < peers; peer += LANES)
                st_async(mapa(smem_addr(partial_sums + me * ROWS + my_row), peer), __float_as_uint(sum),
                         mapa(weights_ready.addr, peer));
            __syncthreads();
            scatter_partials<NT_H, UNITS>(weights, keys, stream, ks, partial_dh, me, weights_ready.addr);
#else
            if (sub == 0 && my_row < ROWS) weights.trailer<float>(weights.mine(), my_row) = sum;
            weights.send();
#endif
        } else {  // the next step may send only when all blocks are done with this one
            cluster_sync();
            continue;
        }
        weights_ready.wait();
        sum = 0.f;
        for (int peer = sub; peer < peers; peer += LANES) sum += sum_of(peer);
        sum = row_total(sum);
        if (sub == 0 && my_row < ROWS) row_sum[my_row] = sum;
#if DIMS
        __syncthreads();
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS;
            if (i >= ROWS * UNITS || row >= rows || unit0 + i % UNITS >= real_h) continue;
            float from_slots = 0.f;
#pragma unroll 4  // unrolled as a whole it would take too many registers
            for (int peer = 0; peer < MEMBERS; ++peer) {
                const float2 two = half22float2(partial_dh[(peer * ROWS * UNITS + i) / 2]);
                from_slots += i % 2 ? two.y : two.x;
            }
            dh[n] += unscale * (from_slots / EXTRA - row_sum[row] * mean[n]);
        }
#else
        multiply<NT_H>(sums, weights.rows(0, own / 8), keys, stream, ks, [&](int base) {
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS, u = i % UNITS - 8 * base;
                if (i < ROWS * UNITS && row < rows && unit0 + i % UNITS < real_h && u >= 0 && u < 8 * WARPS_N * NT_H)
                    dh[n] += unscale * (sum_partials<NT_H>(sums, row, u) / EXTRA - row_sum[row] * mean[n]);
            }
        });
#endif
        if (my_row < rows)
            for (int base = 0; base < SLOT_TILES; base += SLOTS_AT_ONCE)
                for OWN_SLOTS (j, base) logits[j] = unscale * (logits[j] - attention[my_row * own + j] * sum);
    }
    cluster_sync();
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        if (i >= ROWS * UNITS || row >= layer.batch || unit >= real_h) continue;
        a.d_h0[d][(size_t)row * real_h + unit] = dh[n];
        if (LSTM) a.d_c0[d][(size_t)row * real_h + unit] = dc[n];
    }
}
