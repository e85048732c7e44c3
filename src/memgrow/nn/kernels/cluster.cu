// The recurrence with memory, walked by clusters of blocks that talk through each other's shared memory.
//
// A cluster works on one direction and ROWS rows (sequences). Every block of it owns a few hidden units and a few slots,
// and keeps their weights in half precision on the chip, as far as they fit; the rest streams in from L2 in every step.
// What a block needs of the others is pushed into its shared memory, and it waits for that; there is no barrier, but for a
// step back without slots. What all blocks need of each, they lay out in memory, from where the copy engine brings it to
// all of them at once. Clusters know nothing of each other, unless TEAM of them share out a layer that is large: then they
// count in memory how many have laid something out, and wait for all before they bring it. A step of the forward pass:
//     attention to the own slots from all of h | push it | gates of the own units from all of h and all slots | push h
// and a step back:
//     gradients of the own gates | push | of the own units and slots from all gates | push slots' | of the own units
// Each block's attention is relative to its own largest score; the statistics of the scores are pushed along. As in
// grid.cu, P = V W' stands for the values there: what a slot adds to the gates.
//
// With many slots that is too much to stream in, and the content is read first (DIMS, of it a block owns so many):
//     attention to the own slots from all of h | push what they add to the content to its owners | push the content |
//     gates of the own units from all of h and of the content | push h
//     gradients of the own gates | push | of the own units and content from all gates | push content's | of the own slots |
//     push what they add to the units' to their owners
//
// Who has received a push from every block knows that all of them are done with what they had received before, so that
// its place is free again; where nothing comes between two pushes of the same, each of them has its own place and box.
//
// Half precision has the 10 bits of TF32; gradients are scaled by a power of two, so that they lie well within its range.
// Outside a unit has four columns in a row, LSTM's gates, or GRU's r, z and the candidate's parts from h and from the rest.
// Here that is so for LSTM. GRU's stand gate by gate, the part from h first and the one from the rest last, since h has
// nothing to do with the last and what is read nothing with the first. Packs of weights are in the order of use:
// [32 of k][8 of n][lane][8 of k], the lane's n being lane / 4 and its k being 8 * (lane % 4) + 0..7.
//
// Compile-time: LSTM and SLOTS (0 or 1: there are some), CLUSTER (blocks) and TEAM (clusters; more than one only with slots
// and without contents), ROWS (16, 24 or 32), UNITS and DIMS (of a block, even numbers; no DIMS: there is no content), and
// how many tiles of 8 columns a warp has at once: NT_U of gates, NT_S of
// slots, NT_B of units and slots or contents backward, NT_P of contents from slots, NT_H of units from slots, MOST_U of any
// there and MOST_B back. HELD_U, HELD_S and HELD_B: of the gates from h, of the slots, and of the units (and more) backward,
// so many of each warp's blocks of k are held in registers; more than 0 only where all tiles come in one pass. PART: which
// kernels.

#include "machine.cuh"

#define ALL 0  // kernels, by PART: each is compiled when it is first needed, and what only predicts needs no way back
#define FORWARD 1
#define BACKWARD 2
#define AROUND 3

#define MEMBERS (CLUSTER * TEAM)  // blocks that work on the same rows
#define WARPS 8
#define THREADS (32 * WARPS)
#define TALL ((ROWS + 15) / 16)  // tiles of 16 rows; the last may be half empty
#define LANES (ROWS > 16 ? 8 : 16)  // that have a row together
#define WAYS 2                  // the warps share out columns in so many ways,
#define PARTS (WARPS / WAYS)    // and what is summed over in so many
#define ITEMS ((ROWS * UNITS + THREADS - 1) / THREADS)
#define TILES_H ((UNITS + 7) / 8)
#define TILES_U (LSTM ? UNITS / 2 : 4 * TILES_H)     // of the own gates
#define TILES_ONE (LSTM ? TILES_U : 3 * TILES_H)     // of those that h, or what is read, has to do with
#define PASSED (TILES_U - TILES_ONE)                 // of those that what is read passes over
// A GRU's gates, where they take two passes: first those that both h and what is read have to do with, then the part from h
// beside that from the rest. So all warps have equally much to do.
#define PAIRED (!LSTM && TILES_U > WAYS * NT_U && TILES_U <= 2 * WAYS * NT_U)
#define K_SLOPES ((MEMBERS * TILES_ONE + 3) / 4)     // blocks of k that these make backward, of all units
#define TILES_D ((DIMS + 7) / 8)
#define CONTENT (MEMBERS * DIMS)
#define CONTENT_TILES ((CONTENT + 7) / 8)
#define UNITS_FROM_SLOTS (DIMS ? (MEMBERS * UNITS + 7) / 8 : TILES_H)  // tiles of that product: of all units, or of the own
#define WIDTH(NT) (8 * (WAYS * (NT) + 1))  // of a row of sums; odd in eights, so that rows begin in other banks
#define SEGMENTS 16             // of a plan, at most
#define EXTRA 256.f             // further scale of what attention has been multiplied with: it is small
#define SECTOR 8                // words of memory that are read at once
#define TELLING (2 * SECTOR)    // words of a team: a count for each of its exchanges
#define INFINITE __int_as_float(0x7f800000)

struct Walk {
    int directions, batch, steps, reversed;      // reversed: bit d is set if direction d walks backwards
    int real_hidden, hidden, slots, real_slots;  // as they are, and as many as the blocks have
    int own;                                     // slots of a block
    int fit_first, fit_second, fit_third, fit_fourth;  // of the packs' blocks of k, so many are kept in shared memory
    int post;                                    // bytes that a block has for what it sends to all
    int depth;                                   // chunks of the rest that are on their way to each warp; 0: all fit
    const int *sizes, *offsets;                  // of each step
    unsigned *told;                              // of each team TELLING: how often its blocks have sent something; 0 at first
};

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

__device__ __forceinline__ float bounded(float x) { return fminf(fmaxf(x, -65000.f), 65000.f); }

// Counts the bytes that come in; full when as many are there as are due, and then begins anew.
struct Box {
    unsigned at, turn;
    __device__ __forceinline__ Box(unsigned long long *room) : at(place(room)), turn(0) {
        if (threadIdx.x == 0) found(at);
    }
    __device__ __forceinline__ void expect(unsigned bytes) {
        if (threadIdx.x == 0) announce(at, bytes);
    }
    __device__ __forceinline__ void wait() {
        await(at, turn);
        turn ^= 1;
    }
};

// Rows of halves, of which products take chunks of eight. Here each row lies in one piece:
struct Whole {
    half *at;
    int stride;
    __device__ __forceinline__ const half *chunk(int c) const { return at + 8 * c; }
    __device__ __forceinline__ bool has(int) const { return true; }
};

// From one row of a piece to the next, in halves. Two rows beside each other must not begin in the same banks: where they
// would, the chunks of every other one change places.
__device__ __forceinline__ int apart(int chunks) { return (chunks + 3) / 4 * 32; }
__device__ __forceinline__ int moved(int stride, int row) { return stride % 64 ? 0 : row % 2 * 4; }

// Here as the blocks have sent it, (MEMBERS, ROWS, stride) with something behind each ROWS; `many` chunks from the first
// are meant.
struct Sent {
    const half *at;
    int stride, piece, first, many;
    float share;  // 1 / many
    __device__ __forceinline__ const half *chunk(int c) const {
        const int owner = (c + 0.5f) * share;
        return at + owner * piece + 8 * ((first + c - owner * many) ^ moved(stride, threadIdx.x % 32 / 4));
    }
    __device__ __forceinline__ bool has(int c) const { return c < MEMBERS * many; }
};

__device__ __forceinline__ unsigned member() { return TEAM > 1 ? blockIdx.x % MEMBERS : rank(); }  // of those of the same rows

// Where the blocks of a team lay out what they send, and count how often they have.
struct Post {
    char *at;
    unsigned *told;
    __device__ __forceinline__ Post(char *all, const Walk &w)
        : at(all + (size_t)(blockIdx.x / MEMBERS) * MEMBERS * w.post), told(w.told + blockIdx.x / MEMBERS * TELLING) {}
};

// Sends what all blocks need of each: rows that are `stride` halves apart, and behind them `more` bytes for each row. It is
// laid out by turns in two places, and arrives in one, or by turns in two with a box each: a block that is a step ahead
// would otherwise fill the box in another's stead.
template <int PLACES = 1>
struct Exchange {
    char *out, *in;
    unsigned *told;
    int stride;
    unsigned bytes, box, count;  // count: how often it has been waited for
    __device__ __forceinline__ Exchange(Post &post, char *&room, unsigned long long *counters, int stride, int more = 0)
        : out(post.at + member() * ROWS * (2 * stride + more)), in(room), told(post.told), stride(stride), bytes(ROWS * (2 * stride + more)), box(place(counters)),
          count(0) {
        post.at += 2 * MEMBERS * bytes;
        post.told += SECTOR;
        room += PLACES * MEMBERS * bytes;
        for (int n = 0; n < 2; ++n)
            for (int i = threadIdx.x; i < bytes / 16; i += THREADS)
                reinterpret_cast<uint4 *>(laid_out(n))[i] = make_uint4(0, 0, 0, 0);
        if (threadIdx.x == 0)
            for (int n = 0; n < PLACES; ++n) found(box + 8 * n);
    }
    __device__ __forceinline__ char *laid_out(unsigned n) const { return out + n % 2 * MEMBERS * bytes; }
    __device__ __forceinline__ half *mine() const { return reinterpret_cast<half *>(laid_out(count)); }
    __device__ __forceinline__ half *mine(int row, int chunk) const {
        return mine() + row * stride + 8 * (chunk ^ moved(stride, row));
    }
    template <typename T>
    __device__ __forceinline__ T &behind(half *piece, int row) const { return reinterpret_cast<T *>(piece + ROWS * stride)[row]; }
    __device__ __forceinline__ unsigned which(unsigned n) const { return PLACES > 1 ? n % 2 : 0; }
    __device__ __forceinline__ char *landing(unsigned n) const { return in + which(n) * MEMBERS * bytes; }
    __device__ __forceinline__ void send() const {
        publish();
        __syncthreads();
        if (threadIdx.x) return;
        const unsigned current = box + 8 * which(count);
        announce(current, MEMBERS * bytes);
        if (TEAM > 1) {  // each block of a cluster brings its share of all there is
            tell(told);
            heed(told, MEMBERS * (count + 1));
            publish();
        }
        const int first = rank() * TEAM, away = TEAM > 1 ? first - (int)member() : 0;
        fetch_for_all(place(landing(count) + first * bytes), laid_out(count) + away * (int)bytes, TEAM * bytes, current, CLUSTER);
    }
    __device__ __forceinline__ void wait() {
        await(box + 8 * which(count), (PLACES > 1 ? count / 2 : count) % 2);
        ++count;
    }
    // After it has been waited for:
    __device__ __forceinline__ half *of(int peer) const { return reinterpret_cast<half *>(landing(count - 1) + peer * bytes); }
    __device__ __forceinline__ Sent sent(int first, int many) const {
        return {of(0), stride, (int)bytes / 2, first, many, 1.f / many};
    }
    // Rows that are no whole chunks are put together: WIDTH of each block.
    template <int WIDTH>
    __device__ __forceinline__ void put_together(const Whole &room) {
        constexpr int words = WIDTH % 4 ? WIDTH / 2 : WIDTH / 4, size = WIDTH / words;
        for (int i = threadIdx.x; i < MEMBERS * ROWS * words; i += THREADS) {
            half *there = room.at + i / words % ROWS * room.stride + i / (ROWS * words) * WIDTH + i % words * size;
            if (size == 4) *reinterpret_cast<uint2 *>(there) = reinterpret_cast<const uint2 *>(of(0))[i];
            else *reinterpret_cast<unsigned *>(there) = reinterpret_cast<const unsigned *>(of(0))[i];
        }
        __syncthreads();
    }
};

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

static_assert(TEAM == 1 || SLOTS && !DIMS, "others are pushed to, or met, in the own cluster alone");
static_assert(!PAIRED || WAYS == 2 && NT_U == TILES_H, "each way has one gate in a pass");
static_assert(!HELD_U || TILES_U <= WAYS * NT_U, "further passes would need other tiles of these blocks");

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
        accumulate<NT>(acc, a, pack, feed, k_blocks, threadIdx.x / 32 / WAYS, PARTS, base + threadIdx.x / 32 % WAYS * NT, Plain(),
                       held);
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

// Steps in which rows from `row0` on are there at all.
__device__ __forceinline__ int steps_of(const Walk &w, int row0) {
    int count = 0;
    for (int from = 0; from < w.steps; from += THREADS)
        count += __syncthreads_count(from + threadIdx.x < w.steps && w.sizes[from + threadIdx.x] > row0);
    return count;
}

// The lanes that have a row together are neighbours.
__device__ __forceinline__ float row_max(float x) {
    for (int d = LANES / 2; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

__device__ __forceinline__ float row_total(float x) {
    for (int d = LANES / 2; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float bend(float x) { return __fdividef(2.f, 1.f + __expf(-2.f * x)) - 1.f; }  // tanh

__device__ __forceinline__ int blocks_of(int k) { return (k + 31) / 32; }
__device__ __forceinline__ int stride_of(int width) { return (width + 63) / 64 * 64 + 32; }  // halves; rows in other banks

// What lies behind the last of what is sent is multiplied with zeros, and must not be anything but numbers.
__device__ __forceinline__ void wipe(const Whole &rows) {
    for (int i = threadIdx.x; i < ROWS * rows.stride / 2; i += THREADS) reinterpret_cast<unsigned *>(rows.at)[i] = 0;
}

template <typename T>
__device__ __forceinline__ T *take(char *&room, size_t count) {
    T *mine = reinterpret_cast<T *>(room);
    room += (count * sizeof(T) + 15) / 16 * 16;
    return mine;
}

#if PART == ALL || PART == FORWARD

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
            spread<NT_P>(weights, values, feed, ks, [&](int row, int column, float first, float second) {
                const int owner = column / DIMS;
                if (owner >= MEMBERS) return;  // behind the last
                const unsigned there = place(added + (me * ROWS + row) * (DIMS / 2) + (column - owner * DIMS) / 2);
                push(at_peer(there, owner), halves(bounded(first), bounded(second)), at_peer(attended.at, owner));
            });
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

#endif
#if PART == ALL || PART == BACKWARD

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
    const Pack slopes = bring(room, a.slope_pack + number * K_SLOPES * tiles * 256, K_SLOPES, tiles, w.fit_first, HELD_B * PARTS);
    const Pack keys = bring(room, a.back_pack + number * ks * UNITS_FROM_SLOTS * 256, ks, N ? UNITS_FROM_SLOTS : 0, w.fit_second);
    const Pack values = bring(room, a.back_value_pack + number * kc * own * 32, kc, DIMS ? own / 8 : 0, w.fit_third);
    const int tiles_apart = LSTM ? 0 : tiles_r;
    const Pack reads = bring(room, a.back_read_pack + number * K_SLOPES * tiles_apart * 256, K_SLOPES, tiles_apart, w.fit_fourth);
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
            spread<NT_H>(weights, keys, feed, ks, [&](int row, int column, float first, float second) {
                const int owner = column / UNITS;
                if (owner >= MEMBERS) return;  // behind the last
                const unsigned there = place(added + (me * ROWS + row) * (UNITS / 2) + (column - owner * UNITS) / 2);
                push(at_peer(there, owner), halves(bounded(first), bounded(second)), at_peer(weighed.at, owner));
            });
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

#endif
#if PART == ALL || PART == AROUND

// One of two pointers: an index that is not known beforehand would put all arguments into slow memory.
__device__ __forceinline__ const float *of(const float *const (&two)[2], int d) { return d ? two[1] : two[0]; }

struct Packing {
    int directions, real_hidden, hidden, real_slots, slots, own, slot_size, backward;
    const float *hh[2], *keys[2], *values[2];
    const float *gate_values, *w_c;  // (D, real N, 4 H), or (D, 4 H, M)
    half *key_pack, *gate_pack, *read_pack, *value_pack, *slope_pack, *back_pack, *back_value_pack, *back_read_pack;
};

struct Place {  // where an entry of a pack belongs: its k, its column among those of the block
    unsigned d, block, k, n;
};

struct Tiles {  // of a pack: `count` of them from `first` on, out of `all`, in each of its blocks of k
    half *pack;
    int k_blocks, all, first, count;
};

// Fills tiles with what `value` gives for each place. A warp has a tile, [8 of n][32 of k], and a lane eight entries of
// it: divisions are made once for these, and all eight are read before the first is waited for. Neighbouring lanes have
// what is side by side in the source, neighbours in k if ALONG_K and otherwise in n, so that they read whole sectors.
// `turn` is the warp's next tile; it counts on from call to call, so that all warps have equally many.
template <bool ALONG_K, typename Value>
__device__ __forceinline__ void lay_out(const Tiles &tiles, int directions, unsigned &turn, Value value) {
    const unsigned lane = threadIdx.x % 32, count = directions * MEMBERS * tiles.k_blocks * tiles.count;
    for (; turn < count; turn += gridDim.x * blockDim.x / 32) {
        const unsigned row = turn / tiles.count, tile = tiles.first + turn % tiles.count, number = row / tiles.k_blocks;
        const unsigned d = number / MEMBERS, block = number % MEMBERS, k = row % tiles.k_blocks * 32, n = tile * 8;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            v[i] = value(ALONG_K ? Place{d, block, k + lane, n + i} : Place{d, block, k + lane / 8 * 8 + i, n + lane % 8});
        half *here = tiles.pack + (size_t)(row * tiles.all + tile) * 256;
        if (ALONG_K) {
#pragma unroll
            for (int i = 0; i < 8; ++i) here[32 * i + lane] = to_half(v[i]);
        } else {
            reinterpret_cast<uint4 *>(here)[lane % 8 * 4 + lane / 8] =
                make_uint4(halves(v[0], v[1]), halves(v[2], v[3]), halves(v[4], v[5]), halves(v[6], v[7]));
        }
    }
    turn -= count;
}

// The unit and the gate of a column, LSTM's unit by unit, GRU's gate by gate.
struct Gate {
    int unit, gate;
    __device__ static Gate of_block(int column) {
        return LSTM ? Gate{column / 4, column % 4} : Gate{column % (8 * TILES_H), column / (8 * TILES_H)};
    }
    __device__ static Gate of_all(int column) {  // far behind the last unit where there is none
        const int width = 8 * TILES_ONE;
        const Gate g = of_block(column % width);
        return {g.unit < UNITS ? column / width * UNITS + g.unit : 1 << 28, g.gate};
    }
    __device__ int torchs() const { return LSTM ? gate : (gate + 2) % 3; }  // GRU: the part from h, r, z are n, r, z there
    __device__ int outside(int unit) const { return 4 * unit + (LSTM ? gate : gate + gate / 2); }  // r, z and the rest's part
};

// Weights in the order in which the lanes of `forward` and `backward` read them.
extern "C" __global__ void __launch_bounds__(THREADS, 8) pack(const Packing a) {
    const int D = a.directions, H = a.hidden, h = a.real_hidden, n = a.real_slots, own = a.own;
    const int kh = blocks_of(H), ks = blocks_of(DIMS ? own : a.slots), kr = blocks_of(DIMS ? CONTENT : a.slots);
    unsigned turn = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    lay_out<true>({a.gate_pack, kh, TILES_ONE, 0, TILES_ONE}, D, turn, [&](const Place &p) {
        const Gate g = Gate::of_block(p.n);
        const int unit = p.block * UNITS + g.unit;
        return g.unit < UNITS && unit < h && p.k < h ? of(a.hh, p.d)[(g.torchs() * h + unit) * h + p.k] : 0.f;
    });
    lay_out<true>({a.key_pack, kh, own / 8, 0, own / 8}, D, turn, [&](const Place &p) {
        const int slot = p.block * own + p.n;
        return p.k < h && slot < n ? of(a.keys, p.d)[slot * h + p.k] : 0.f;
    });
    const int read_tiles = n ? TILES_ONE : 0;
    lay_out<DIMS != 0>({a.read_pack, kr, read_tiles, 0, read_tiles}, D, turn, [&](const Place &p) {
        const Gate g = Gate::of_block(p.n);
        const int column = g.outside(p.block * UNITS + g.unit);
        if (g.unit >= UNITS) return 0.f;
#if DIMS
        return p.k < a.slot_size ? a.w_c[(p.d * 4 * H + column) * a.slot_size + p.k] : 0.f;
#else
        return p.k < n ? a.gate_values[(p.d * n + p.k) * 4 * H + column] : 0.f;
#endif
    });
#if DIMS
    lay_out<false>({a.value_pack, ks, CONTENT_TILES, 0, CONTENT_TILES}, D, turn, [&](const Place &p) {
        const int slot = p.block * own + p.k;
        const bool there = p.k < own && slot < n && p.n < a.slot_size;
        return there ? of(a.values, p.d)[slot * a.slot_size + p.n] : 0.f;
    });
#endif
    if (!a.backward) return;
    const int tiles_r = DIMS ? TILES_D : own / 8, tiles = LSTM ? TILES_H + tiles_r : TILES_H;
    lay_out<false>({a.slope_pack, K_SLOPES, tiles, 0, TILES_H}, D, turn, [&](const Place &p) {
        const Gate g = Gate::of_all(p.k);
        const int unit = p.block * UNITS + p.n;
        return p.n < UNITS && unit < h && g.unit < h ? of(a.hh, p.d)[(g.torchs() * h + g.unit) * h + unit] : 0.f;
    });
    const Tiles reads = LSTM ? Tiles{a.slope_pack, K_SLOPES, tiles, TILES_H, tiles_r}
                             : Tiles{a.back_read_pack, K_SLOPES, tiles_r, 0, tiles_r};
    lay_out<!DIMS>(reads, D, turn, [&](const Place &p) {
        const Gate g = Gate::of_all(p.k);
        const int column = g.outside(g.unit), one = p.n - 8 * reads.first;
        if (g.unit >= H) return 0.f;
#if DIMS
        const int dim = p.block * DIMS + one;
        return one < DIMS && dim < a.slot_size ? a.w_c[(p.d * 4 * H + column) * a.slot_size + dim] : 0.f;
#else
        const int slot = p.block * own + one;
        return slot < n ? a.gate_values[(p.d * n + slot) * 4 * H + column] : 0.f;
#endif
    });
    lay_out<false>({a.back_pack, ks, UNITS_FROM_SLOTS, 0, UNITS_FROM_SLOTS}, D, turn, [&](const Place &p) {
        const int slot = DIMS ? p.block * own + p.k : p.k, unit = DIMS ? p.n : p.block * UNITS + p.n;
        const bool there = slot < n && unit < h && (DIMS ? p.k < own : p.n < UNITS);
        return there ? of(a.keys, p.d)[slot * h + unit] : 0.f;
    });
#if DIMS
    lay_out<true>({a.back_value_pack, blocks_of(CONTENT), own / 8, 0, own / 8}, D, turn, [&](const Place &p) {
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

// The largest of a warp's share of some numbers, 256 at a time; `turn` counts on as in `lay_out`. Behind the end, the last
// one is read again.
__device__ __forceinline__ float largest_of(const float *from, size_t count, size_t &turn) {
    const size_t chunks = (count + 255) / 256;
    float high = 0.f;
    for (; turn < chunks; turn += gridDim.x * blockDim.x / 32) {
        float v[8];
#pragma unroll
        for (int n = 0; n < 8; ++n) v[n] = from[min(turn * 256 + 32 * n + threadIdx.x % 32, count - 1)];
#pragma unroll
        for (int n = 0; n < 8; ++n) high = fmaxf(high, fabsf(v[n]));
    }
    turn -= chunks;
    return high;
}

// The largest of all gradients that come in, as bits: these are in the order of the numbers.
extern "C" __global__ void largest(const Gradients a) {
    extern __shared__ uint4 shared[];
    float *of_warps = reinterpret_cast<float *>(shared);
    size_t turn = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    float high = largest_of(a.d_out, a.outputs, turn);
    for (int d = 0; d < a.directions; ++d) {
        high = fmaxf(high, largest_of(of(a.d_hn, d), a.states, turn));
        if (LSTM) high = fmaxf(high, largest_of(of(a.d_cn, d), a.states, turn));
    }
    for (int step = 16; step; step /= 2) high = fmaxf(high, __shfl_xor_sync(~0u, high, step));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = high;
    __syncthreads();
    if (threadIdx.x) return;  // one for all warps: what goes to the same place in memory is done one after another
    for (int warp = 1; warp < WARPS; ++warp) high = fmaxf(high, of_warps[warp]);
    if (high > 0.f) atomicMax(a.largest, __float_as_uint(high));
}

#endif
