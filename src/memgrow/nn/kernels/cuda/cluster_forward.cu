// The walk forward: see cluster.cuh.

#include "walk.cuh"

// A GRU's gates, where they take two passes: first those that both h and what is read have to do with, then the part from h
// beside that from the rest. So all warps have equally much to do.
#define PAIRED (!LSTM && TILES_U > WAYS * NT_U && TILES_U <= 2 * WAYS * NT_U)

static_assert(!PAIRED || WAYS == 2 && NT_U == TILES_H, "each way has one gate in a pass");
static_assert(!HELD_U || TILES_U <= WAYS * NT_U, "further passes would need other tiles of these blocks");

struct Forward {
    Walk walk;
    const float *x;              // (T, D, 4 H)
    const float *h0[2], *c0[2];  // (B, real H) for each direction
    const half *key_pack, *gate_pack, *read_pack, *value_pack;  // read: of gates from slots, or from contents
    const float *bias;
    float *output, *hn[2], *cn[2];             // (T, D * real H), (B, real H) for each direction
    float *before, *cell, *gates, *attention;  // (T, D, H) twice, (T, D, 4 H), (T, D, N)
    float *content;                            // (T, D, CONTENT)
    char *post;                                // of each block: what it sends to all
};

// The first tile of gates of a warp, in the pass from `base` on.
__device__ __forceinline__ int first_gate(int base) {
    const int way = threadIdx.x / 32 % WAYS;
    return !PAIRED ? base + way * NT_U : base ? way * 3 * TILES_H : (1 + way) * TILES_H;
}

// What such a pass has found for the gates of an own unit.
__device__ __forceinline__ void add_gates(float4 &v, const float *sums, int row, int unit, int base) {
#if LSTM
    const int column = 4 * unit - 8 * base;
    if (column < 0 || column >= 8 * WAYS * NT_U) return;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const float4 one = *reinterpret_cast<const float4 *>(sums + (part * ROWS + row) * WIDTH(NT_U) + column);
        v = make_float4(v.x + one.x, v.y + one.y, v.z + one.z, v.w + one.w);
    }
#else
    auto of = [&](int gate) {
        const bool alone = gate % 3 == 0;  // of those that stand first and last
        const int tile = !PAIRED ? gate * TILES_H - base : alone == (base > 0) ? gate / 2 * TILES_H : -TILES_H;
        const int column = 8 * tile + unit;
        return column < 0 || column >= 8 * WAYS * NT_U ? 0.f : total<NT_U>(sums, row, column);
    };
    v = make_float4(v.x + of(1), v.y + of(2), v.z + of(0), v.w + of(3));
#endif
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) forward(const Forward a) {
    extern __shared__ uint4 shared[];
    const Walk w = a.walk;
    const int me = member(), team = blockIdx.x / MEMBERS, d = team % w.directions;
    const int row0 = team / w.directions * ROWS, my_row = threadIdx.x / LANES, sub = threadIdx.x % LANES;
    const int D = w.directions, H = w.hidden, N = w.slots, own = w.own, unit0 = me * UNITS, slot0 = me * own;
    const int share = my_row < ROWS ? own : 0, peers = my_row < ROWS ? MEMBERS : 0;  // of the row that this lane has a part in
    const int kh = blocks_of(H), ks = blocks_of(own), kr = blocks_of(DIMS ? CONTENT : N), wide = w.real_hidden;
    const int part = threadIdx.x / 32 / WAYS;
    const int hs = stride_of(H), ss = stride_of(own), rs = stride_of(CONTENT);
    const bool reversed = w.reversed >> d & 1;

    char *room = reinterpret_cast<char *>(shared);
    const size_t number = (size_t)d * MEMBERS + me;
    const Pack keys = bring(room, a.key_pack + number * kh * own * 32, kh, own / 8, w.fit_first, HELD_S * PARTS);
    const Pack gates = bring(room, a.gate_pack + number * kh * TILES_ONE * 256, kh, TILES_ONE, w.fit_second, HELD_U * PARTS);
    const Pack reads = bring(room, a.read_pack + number * kr * TILES_ONE * 256, kr, N ? TILES_ONE : 0, w.fit_third);
    const Pack values = bring(room, a.value_pack + number * ks * CONTENT_TILES * 256, ks, CONTENT_TILES, w.fit_fourth);
    unsigned long long *counters = take<unsigned long long>(room, 4);
    const Whole h_all = {take<half>(room, ROWS * hs), hs};
    float *factor = take<float>(room, MEMBERS * ROWS), *top = take<float>(room, ROWS), *inverse = take<float>(room, ROWS);
    float *mine = take<float>(room, ROWS * own);
    float *sums = take<float>(room, PARTS * ROWS * WIDTH(MOST_U));
    uint4 *ring = take<uint4>(room, WARPS * w.depth * 32 * MOST_U);
    unsigned long long *full = take<unsigned long long>(room, WARPS * w.depth);
    Feed<MOST_U> feed(take<Segment>(room, w.depth ? WARPS * SEGMENTS : 0), ring, full, w.depth);
    Post post(a.post, w);
    Exchange<SLOTS ? 1 : 2> states(post, room, counters, UNITS);  // without slots, a block may be a step ahead of another
#if DIMS
    const Whole content = {take<half>(room, ROWS * rs), rs};
    const Whole weights = {take<half>(room, ROWS * ss), ss};  // attention to the own slots
    unsigned *added = take<unsigned>(room, CONTENT * ROWS / 2);  // to the content by the slots of each block, two halves each
    float2 *stats = take<float2>(room, MEMBERS * ROWS);
    Exchange<> known(post, room, counters + 1, DIMS);
    Box attended(counters + 2);
    auto scores_of = [&](int peer) { return stats[peer * ROWS + my_row]; };  // the largest, and the sum of all, relative to it
#else
    Exchange<> attention(post, room, counters + 2, apart(own / 8), N ? sizeof(float2) : 0);
    Exchange<> &attended = attention;
    auto scores_of = [&](int peer) { return attention.behind<float2>(attention.of(peer), my_row); };
#endif
    plan_multiply<NT_S>(feed, keys, kh);
    if (DIMS) plan_spread<NT_P>(feed, values, ks);
    feed.add(gates, kh, part, PARTS, first_gate(0), NT_U);
    for (int base = 0; base < TILES_U; base += WAYS * NT_U) {
        if (base) feed.add(gates, kh, part, PARTS, first_gate(base), NT_U);
        feed.add(reads, kr, part, PARTS, first_gate(base) - PASSED, NT_U);
    }
    feed.begin(steps_of(w, row0));
    const auto held = hold<NT_U, HELD_U>(gates);
    const auto held_keys = hold<NT_S, HELD_S>(keys);
    wipe(h_all);
#if DIMS
    wipe(content);
    wipe(weights);
#endif

    float h[ITEMS], c[ITEMS];
    auto send_state = [&] {
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS;
            if (i < ROWS * UNITS) states.mine()[i] = to_half(h[n]);
        }
        states.send();
    };
    auto receive_states = [&] {
        states.wait();
        states.put_together<UNITS>(h_all);
    };
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        const bool there = i < ROWS * UNITS && row < w.batch && unit < wide;
        h[n] = there ? a.h0[d][(size_t)row * wide + unit] : 0.f;
        c[n] = there && LSTM ? a.c0[d][(size_t)row * wide + unit] : 0.f;
    }
    meet();
    send_state();
    receive_states();

    int rows, at;
    float4 given[ITEMS];
    auto look = [&](int s) {  // at a step ahead: how many rows it has, and what comes in for the own units
        rows = 0;
        if (s >= w.steps) return;
        const int t = reversed ? w.steps - 1 - s : s;
        rows = w.sizes[t] - row0;
        at = w.offsets[t] + row0;
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i < ROWS * UNITS && row < rows)
                given[n] = *reinterpret_cast<const float4 *>(a.x + (((size_t)(at + row) * D + d) * H + unit) * 4);
        }
    };
    look(0);
    for (int s = 0; s < w.steps; ++s) {
        if (rows <= 0) {
            look(s + 1);
            continue;
        }
        if (N) {
            float high = -INFINITE, sum = 0.f;
            multiply<NT_S>(sums, h_all, keys, feed, kh, [&](int base) {
                const int until = min(share, 8 * (base + WAYS * NT_S));
                for (int j = 8 * base + sub; j < until; j += LANES) {
                    float score = -INFINITE;
                    if (slot0 + j < w.real_slots) {
                        score = total<NT_S>(sums, my_row, j - 8 * base);
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
                weights.at[my_row * ss + j] = to_half(p);
#else
                attention.mine(my_row, j / 8)[j % 8] = to_half(p);
#endif
                sum += p;
            }
            sum = row_total(sum);
#if DIMS
            attended.expect(MEMBERS * ROWS * (DIMS * sizeof(half) + sizeof(float2)));
            for (int peer = sub; peer < peers; peer += LANES)
                push(at_peer(place(stats + me * ROWS + my_row), peer),
                     make_uint2(__float_as_uint(high), __float_as_uint(sum)), at_peer(attended.at, peer));
            __syncthreads();
            push_to_owners<NT_P, DIMS>(weights, values, feed, ks, added, me, attended.at);
#else
            if (sub == 0 && my_row < ROWS) attention.behind<float2>(attention.mine(), my_row) = make_float2(high, sum);
            attention.send();
#endif
        }
        // What does not depend on the slots, while what comes from those of the others arrives.
        float from_h[TALL][NT_U][4];
        clear(from_h);
        accumulate<NT_U>(from_h, h_all, gates, feed, kh, part, PARTS, first_gate(0), Plain(), held);
        if (N) {
            attended.wait();
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
                const float2 one = floats(added[peer * ROWS * (DIMS / 2) + i]);
                const float f = factor[peer * ROWS + row];
                sum = make_float2(sum.x + f * one.x, sum.y + f * one.y);
            }
            sum = make_float2(sum.x * inverse[row], sum.y * inverse[row]);
            reinterpret_cast<unsigned *>(known.mine())[i] = halves(bounded(sum.x), bounded(sum.y));
            float *there = a.content + ((size_t)(at + row) * D + d) * CONTENT + me * DIMS + i % (DIMS / 2) * 2;
            if (row < rows) *reinterpret_cast<float2 *>(there) = sum;
        }
        known.send();
        known.wait();
        known.put_together<DIMS>(content);
#endif
        float before[ITEMS];
        for (int base = 0; base < TILES_U; base += WAYS * NT_U) {
            if (base) {
                __syncthreads();
                clear(from_h);
                accumulate<NT_U>(from_h, h_all, gates, feed, kh, part, PARTS, first_gate(base), Plain());
            }
#if DIMS
            accumulate<NT_U>(from_h, content, reads, feed, kr, part, PARTS, first_gate(base) - PASSED, Plain());
#else
            if (N) {
                // As large as if it were attention that is not normalized yet: both sums then share their registers.
                scale(from_h, [&](int row) { return 1.f / inverse[row]; });
                const Weighed weighed = {factor, 8.f / own};
                accumulate<NT_U>(from_h, attention.sent(0, own / 8), reads, feed, kr, part, PARTS, first_gate(base) - PASSED,
                                 weighed);
                scale(from_h, [&](int row) { return inverse[row]; });
            }
#endif
            lay_down<NT_U>(sums, from_h);
            __syncthreads();
#pragma unroll
            for (int n = 0; n < ITEMS; ++n) {
                const int i = threadIdx.x + n * THREADS, row = i / UNITS;
                if (i < ROWS * UNITS && row < rows) add_gates(given[n], sums, row, i % UNITS, base);
            }
        }
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            if (threadIdx.x + n * THREADS >= min(rows, ROWS) * UNITS) continue;
            float4 v = given[n];
            before[n] = h[n];
#if LSTM
            v = make_float4(sigmoid(v.x), sigmoid(v.y), bend(v.z), sigmoid(v.w));
            c[n] = v.y * c[n] + v.x * v.z;
            h[n] = v.w * bend(c[n]);
#else
            v.x = sigmoid(v.x);
            v.y = sigmoid(v.y);
            v.w = bend(v.w + v.x * v.z);
            h[n] = v.w + v.y * (h[n] - v.w);
#endif
            given[n] = v;
        }
        send_state();
        // What is left behind for the way back is written while the others' states arrive.
#pragma unroll
        for (int n = 0; n < ITEMS; ++n) {
            const int i = threadIdx.x + n * THREADS, row = i / UNITS, unit = unit0 + i % UNITS;
            if (i >= ROWS * UNITS || row >= rows) continue;
            const size_t here = (size_t)(at + row) * D + d;
            a.before[here * H + unit] = before[n];
            if (LSTM) a.cell[here * H + unit] = c[n];
            *reinterpret_cast<float4 *>(a.gates + (here * H + unit) * 4) = given[n];
            if (unit < wide) a.output[here * wide + unit] = h[n];
        }
        if (N)
            for (int j = sub; j < share; j += LANES)
                if (my_row < rows)
                    a.attention[((size_t)(at + my_row) * D + d) * N + slot0 + j] =
                        __expf(mine[my_row * own + j] - top[my_row]) * inverse[my_row];
        look(s + 1);
        receive_states();
    }
    meet();
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = row0 + i / UNITS, unit = unit0 + i % UNITS;
        if (i >= ROWS * UNITS || row >= w.batch || unit >= wide) continue;
        a.hn[d][(size_t)row * wide + unit] = h[n];
        if (LSTM) a.cn[d][(size_t)row * wide + unit] = c[n];
    }
}
