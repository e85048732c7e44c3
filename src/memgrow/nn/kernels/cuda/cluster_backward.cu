// The walk back: see cluster.cuh.

#include "walk.cuh"

struct Backward {
    Walk walk;
    const float *d_out, *d_hn[2], *d_cn[2];  // (T, D * real H), (B, real H) for each direction
    const float *before, *cell, *c0[2], *gates, *attention, *mean_key;  // mean_key: (D, T, real H)
    const half *slope_pack, *back_pack, *back_value_pack, *back_read_pack;  // the last: GRU's; LSTM's is in the first
    const unsigned *largest;      // bits of the largest gradient that comes in
    float *d_gates, *d_logits, *d_content;  // (T, D, 4 H), (T, D, N), (T, D, CONTENT)
    float *d_h0[2], *d_c0[2];     // (B, real H) for each direction
    char *post;                   // of each block: what it sends to all
};

// Backward the own slots, or contents, stand behind the own units, or in a product of their own.
#define AHEAD (LSTM ? TILES_H : 0)
#define SLOTS_AHEAD (DIMS ? 0 : AHEAD)
#define SLOT_TILES (SLOTS_AHEAD + own / 8)
#define SLOTS_AT_ONCE (WAYS * (DIMS ? NT_S : NT_B))
// Those whose columns a pass from tile `base` on has, shared out among the lanes of a row.
#define OWN_SLOTS(j, base)                                                                                       \
    (int j = max(0, 8 * ((base) - SLOTS_AHEAD)) + sub; j < min(share, 8 * ((base) + SLOTS_AT_ONCE - SLOTS_AHEAD)); j += LANES)

struct Step {
    int rows, at;  // of this cluster
};

struct Past {  // what a step back needs of one row and unit, read before it is its turn
    float4 gates;
    float given, cell, before;
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) backward(const Backward a) {
    extern __shared__ uint4 shared[];
    const Walk w = a.walk;
    const int me = member(), team = blockIdx.x / MEMBERS, d = team % w.directions;
    const int row0 = team / w.directions * ROWS, my_row = threadIdx.x / LANES, sub = threadIdx.x % LANES;
    const int D = w.directions, H = w.hidden, N = w.slots, own = w.own, unit0 = me * UNITS, slot0 = me * own;
    const int share = my_row < ROWS ? own : 0, peers = my_row < ROWS ? MEMBERS : 0;  // of the row that this lane has a part in
    const int ks = blocks_of(DIMS ? own : N), kc = blocks_of(CONTENT), wide = w.real_hidden;
    const int ss = stride_of(own), cs = stride_of(CONTENT);
    const int tiles_r = DIMS ? TILES_D : own / 8, tiles = LSTM ? TILES_H + tiles_r : TILES_H;
    const bool reversed = w.reversed >> d & 1;

    char *room = reinterpret_cast<char *>(shared);
    const size_t number = (size_t)d * MEMBERS + me;
    const Pack slopes =
        bring(room, a.slope_pack + number * K_SLOPES * tiles * 256, K_SLOPES, tiles, w.fit_first, HELD_B * PARTS);
    const Pack keys =
        bring(room, a.back_pack + number * ks * UNITS_FROM_SLOTS * 256, ks, N ? UNITS_FROM_SLOTS : 0, w.fit_second);
    const Pack values = bring(room, a.back_value_pack + number * kc * own * 32, kc, DIMS ? own / 8 : 0, w.fit_third);
    const int tiles_apart = LSTM ? 0 : tiles_r;
    const Pack reads =
        bring(room, a.back_read_pack + number * K_SLOPES * tiles_apart * 256, K_SLOPES, tiles_apart, w.fit_fourth);
    unsigned long long *counters = take<unsigned long long>(room, 4);
    float *row_sum = take<float>(room, ROWS), *attention = take<float>(room, ROWS * own);
    float *sums = take<float>(room, PARTS * ROWS * WIDTH(MOST_B));
    uint4 *ring = take<uint4>(room, WARPS * w.depth * 32 * MOST_B);
    unsigned long long *full = take<unsigned long long>(room, WARPS * w.depth);
    Feed<MOST_B> feed(take<Segment>(room, w.depth ? WARPS * SEGMENTS : 0), ring, full, w.depth);
    Post post(a.post, w);
    Exchange<> sloped(post, room, counters, apart(TILES_U));
    Box attends(counters + 3);
    for (int i = threadIdx.x; i < ROWS * own; i += THREADS) attention[i] = 0.f;
#if DIMS
    const Whole weights = {take<half>(room, ROWS * ss), ss}, contents = {take<half>(room, ROWS * cs), cs};
    unsigned *added = take<unsigned>(room, MEMBERS * ROWS * UNITS / 2);  // by the slots of each block, two halves each
    float *parts = take<float>(room, MEMBERS * ROWS);
    Exchange<> known(post, room, counters + 2, DIMS);
    Box weighed(counters + 1);
    auto sum_of = [&](int peer) { return parts[peer * ROWS + my_row]; };
#else
    Exchange<> weights(post, room, counters + 1, apart(own / 8), N ? sizeof(float) : 0);
    Exchange<> &weighed = weights;
    auto sum_of = [&](int peer) { return weights.behind<float>(weights.of(peer), my_row); };
#endif
    plan_multiply<NT_B>(feed, slopes, K_SLOPES);
    plan_multiply<NT_B>(feed, reads, K_SLOPES);
    plan_multiply<NT_S>(feed, values, kc);
    if (DIMS) plan_spread<NT_H>(feed, keys, ks);
    else plan_multiply<NT_H>(feed, keys, ks);
    feed.begin(steps_of(w, row0));
#if DIMS
    wipe(weights);
    wipe(contents);
#endif

    const auto held = hold<NT_B, HELD_B>(slopes);
    // The largest gradient that comes in becomes about 8: there is room for what grows on the way, and for small ones.
    const int exponent = max(-100, min(100, (int)(*a.largest >> 23 & 255) - 127));
    const float scale = exp2f(3.f - exponent), back = exp2f(exponent - 3.f);

    float dh[ITEMS], dc[ITEMS];
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        const bool there = i < ROWS * UNITS && row < w.batch && unit < wide;
        dh[n] = there ? a.d_hn[d][(size_t)row * wide + unit] : 0.f;
        dc[n] = there && LSTM ? a.d_cn[d][(size_t)row * wide + unit] : 0.f;
    }
    Past past[ITEMS];
    auto step = [&](int s) {
        const int t = reversed ? w.steps - 1 - s : s;
        return s < 0 ? Step{0, 0} : Step{w.sizes[t] - row0, w.offsets[t] + row0};
    };
    Step next = step(w.steps - 1), after = step(w.steps - 2);  // two ahead, as the one tells where to look for the other
    auto recall = [&] {  // of the next one, and of that which forward walked before it
        const Step last = after;
        const int rows = next.rows, at = next.at;
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i >= ROWS * UNITS || row >= rows) continue;
            const size_t here = (size_t)(at + row) * D + d;
            past[n].gates = *reinterpret_cast<const float4 *>(a.gates + (here * H + unit) * 4);
            past[n].given = unit < wide ? a.d_out[here * wide + unit] : 0.f;
#if LSTM
            past[n].cell = a.cell[here * H + unit];
            past[n].before = row < last.rows ? a.cell[((size_t)(last.at + row) * D + d) * H + unit]
                             : unit < wide ? a.c0[d][(size_t)(row0 + row) * wide + unit] : 0.f;
#else
            past[n].before = a.before[here * H + unit];
#endif
        }
    };
    recall();
    meet();

    for (int s = w.steps - 1; s >= 0; --s) {
        const int rows = next.rows, at = next.at;
        next = after;
        after = step(s - 2);
        if (rows <= 0) {
            if (s) recall();
            continue;
        }
        float4 slopes_here[ITEMS];
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS;
            if (i >= ROWS * UNITS) continue;
            float4 slope = make_float4(0.f, 0.f, 0.f, 0.f);
            if (row < rows) {
                const float4 v = past[n].gates;
                const float g = dh[n] + past[n].given;
#if LSTM
                const float bent = bend(past[n].cell), gc = dc[n] + g * v.w * (1.f - bent * bent);
                slope.x = gc * v.z * v.x * (1.f - v.x);
                slope.y = gc * past[n].before * v.y * (1.f - v.y);
                slope.z = gc * v.x * (1.f - v.z * v.z);
                slope.w = g * bent * v.w * (1.f - v.w);
                dc[n] = gc * v.y;
                dh[n] = 0.f;
#else
                slope.w = g * (1.f - v.y) * (1.f - v.w * v.w);
                slope.x = slope.w * v.z * v.x * (1.f - v.x);
                slope.y = g * (past[n].before - v.w) * v.y * (1.f - v.y);
                slope.z = slope.w * v.x;
                dh[n] = g * v.y;
#endif
            }
            slopes_here[n] = slope;
            const unsigned low = halves(bounded(slope.x * scale), bounded(slope.y * scale));
            const unsigned high = halves(bounded(slope.z * scale), bounded(slope.w * scale));
            const int u = i % UNITS;
#if LSTM
            *reinterpret_cast<uint2 *>(sloped.mine(row, u / 2) + u % 2 * 4) = make_uint2(low, high);
#else
            const unsigned short gates[] = {(half)high, (half)low, (half)(low >> 16), (half)(high >> 16)};
#pragma unroll
            for (int gate = 0; gate < 4; ++gate) sloped.mine(row, gate * TILES_H + u / 8)[u % 8] = gates[gate];
#endif
        }
        sloped.send();
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i < ROWS * UNITS && row < rows)
                *reinterpret_cast<float4 *>(a.d_gates + (((size_t)(at + row) * D + d) * H + unit) * 4) = slopes_here[n];
        }
        if (N) {  // what rows that are not there had last, or nothing, meets gradients that are 0
            attends.expect(min(rows, ROWS) * own * sizeof(float));
            const int row = threadIdx.x;
            const float *from = a.attention + ((size_t)(at + row) * D + d) * N + slot0;
            if (row < min(rows, ROWS)) fetch(place(attention + row * own), from, own * sizeof(float), attends.at);
        }
        if (s) recall();
        float mean[ITEMS];
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i < ROWS * UNITS && N && row < rows && unit < wide)
                mean[n] = a.mean_key[((size_t)d * w.offsets[w.steps] + at + row) * wide + unit];
        }
        sloped.wait();
        if (N) attends.wait();
        float *logits = a.d_logits + ((size_t)(at + my_row) * D + d) * N + slot0;
        float sum = 0.f;
        auto weigh = [&](int j, float gradient) {  // of attention to an own slot
            const float v = attention[my_row * own + j] * gradient;
            if (my_row < rows) logits[j] = v;  // to be completed at the end of the step
            const half rounded = to_half(bounded(v * EXTRA));
#if DIMS
            weights.at[my_row * ss + j] = rounded;
#else
            weights.mine(my_row, j / 8)[j % 8] = rounded;
#endif
            sum += v;
        };
        auto to_units = [&](int base) {
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS, u = i % UNITS - 8 * base;
                if (i < ROWS * UNITS && row < rows && u >= 0 && u < 8 * WAYS * NT_B) dh[n] += back * total<NT_B>(sums, row, u);
            }
        };
        auto to_read = [&](int base) {  // slots or contents
#if DIMS
            for (int i = threadIdx.x; i < ROWS * DIMS / 2; i += THREADS) {
                const int row = i / (DIMS / 2), dim = i % (DIMS / 2) * 2, column = 8 * (AHEAD - base) + dim;
                if (column < 0 || column >= 8 * WAYS * NT_B) continue;
                const float2 v = make_float2(total<NT_B>(sums, row, column), total<NT_B>(sums, row, column + 1));
                reinterpret_cast<unsigned *>(known.mine())[i] = halves(bounded(v.x), bounded(v.y));
                if (row < rows)
                    *reinterpret_cast<float2 *>(a.d_content + ((size_t)(at + row) * D + d) * CONTENT + me * DIMS + dim) =
                        make_float2(back * v.x, back * v.y);
            }
#else
            for OWN_SLOTS (j, base) weigh(j, total<NT_B>(sums, my_row, 8 * (AHEAD - base) + j));
#endif
        };
#if LSTM
        multiply<NT_B>(sums, sloped.sent(0, TILES_U), slopes, feed, K_SLOPES, [&](int base) {
            to_units(base);
            to_read(base);
        }, held);
#else
        multiply<NT_B>(sums, sloped.sent(0, TILES_ONE), slopes, feed, K_SLOPES, to_units, held);
        __syncthreads();
        multiply<NT_B>(sums, sloped.sent(TILES_H, TILES_ONE), reads, feed, K_SLOPES, to_read);
#endif
#if DIMS
        known.send();
        known.wait();
        known.put_together<DIMS>(contents);
        multiply<NT_S>(sums, contents, values, feed, kc, [&](int base) {
            for OWN_SLOTS (j, base) weigh(j, total<NT_S>(sums, my_row, j - 8 * base));
        });
#endif
        if (N) {
            sum = row_total(sum);
#if DIMS
            weighed.expect(MEMBERS * ROWS * (UNITS * sizeof(half) + sizeof(float)));
            for (int peer = sub; peer < peers; peer += LANES)
                push(at_peer(place(parts + me * ROWS + my_row), peer), __float_as_uint(sum), at_peer(weighed.at, peer));
            __syncthreads();
            push_to_owners<NT_H, UNITS>(weights, keys, feed, ks, added, me, weighed.at);
#else
            if (sub == 0 && my_row < ROWS) weights.behind<float>(weights.mine(), my_row) = sum;
            weights.send();
#endif
        } else {  // the next step may push only when all are done with this one
            meet();
            continue;
        }
        weighed.wait();
        sum = 0.f;
        for (int peer = sub; peer < peers; peer += LANES) sum += sum_of(peer);
        sum = row_total(sum);
        if (sub == 0 && my_row < ROWS) row_sum[my_row] = sum;
#if DIMS
        __syncthreads();
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS;
            if (i >= ROWS * UNITS || row >= rows || unit0 + i % UNITS >= wide) continue;
            float through = 0.f;
#pragma unroll 4  // all at once would take registers that others need
            for (int peer = 0; peer < MEMBERS; ++peer) {
                const float2 two = floats(added[(peer * ROWS * UNITS + i) / 2]);
                through += i % 2 ? two.y : two.x;
            }
            dh[n] += back * (through / EXTRA - row_sum[row] * mean[n]);
        }
#else
        multiply<NT_H>(sums, weights.sent(0, own / 8), keys, feed, ks, [&](int base) {
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS, u = i % UNITS - 8 * base;
                if (i < ROWS * UNITS && row < rows && unit0 + i % UNITS < wide && u >= 0 && u < 8 * WAYS * NT_H)
                    dh[n] += back * (total<NT_H>(sums, row, u) / EXTRA - row_sum[row] * mean[n]);
            }
        });
#endif
        if (my_row < rows)
            for (int base = 0; base < SLOT_TILES; base += SLOTS_AT_ONCE)
                for OWN_SLOTS (j, base) logits[j] = back * (logits[j] - attention[my_row * own + j] * sum);
    }
    meet();
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        if (i >= ROWS * UNITS || row >= w.batch || unit >= wide) continue;
        a.d_h0[d][(size_t)row * wide + unit] = dh[n];
        if (LSTM) a.d_c0[d][(size_t)row * wide + unit] = dc[n];
    }
}
