// A GPU of one core: what the cluster kernels and layout.cu expect of CUDA and of the kernels' machine.cuh, in plain C++.
//
// Every thread of a team of clusters is a fiber; a fiber that has to wait lets the next one run. What goes to another block or
// comes from far away arrives a round later, or, with a chance of `late` in a hundred each round, later still and in another
// order; copies read their source only then. So little works by luck that would have to be waited for.

#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)

using std::max;
using std::min;

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <typename To, typename From>
inline To as(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __int_as_float(int x) { return as<float>(x); }
inline unsigned __float_as_uint(float x) { return as<unsigned>(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline void atomicMax(unsigned *at, unsigned value) { *at = max(*at, value); }

namespace machine {

inline constexpr int SHOWN = 12;

struct Dim { unsigned x; };

struct Barrier {  // of `size` fibers
    int size = 0, waiting = 0, turn = 0, count = 0, counted = 0;
};

struct Fiber {
    ucontext_t context;  // where it begins; from then on jumps are cheaper, as they leave signals alone
    jmp_buf here;
    bool begun = false;
    Dim thread, block;
    Barrier *warp, *all, *cluster;
    Barrier *held = nullptr;  // where it waits, in which turn
    int turn = 0;
    float *lanes;  // what the 32 of a warp show each other, SHOWN numbers each
    char *shared;
    bool ended = false;
};

struct Delivery { int block; unsigned offset; const char *from; unsigned count; std::vector<char> bytes; unsigned mbarrier; };

inline std::vector<Fiber> fibers;
inline std::vector<std::vector<char>> memories;  // the blocks' shared memory
inline std::vector<Delivery> under_way;
inline Fiber *now = nullptr;
inline jmp_buf home;
inline std::function<void()> work;
inline Dim grid, block;
inline int cluster;  // blocks of it
inline std::minstd_rand chance;
inline unsigned late = 0;

inline void yield() {
    if (!_setjmp(now->here)) _longjmp(home, 1);
}

__attribute__((noinline)) inline void resume(Fiber &f) {
    now = &f;
    if (_setjmp(home)) return;
    if (f.begun) _longjmp(f.here, 1);
    f.begun = true;
    setcontext(&f.context);
}

inline int sync(Barrier &barrier, bool vote = false) {
    const int turn = barrier.turn;
    barrier.counted += vote;
    if (++barrier.waiting == barrier.size) {
        barrier.count = barrier.counted;
        barrier.waiting = barrier.counted = 0;
        ++barrier.turn;
    } else {
        now->held = &barrier;
        now->turn = turn;
        yield();  // it is not resumed before all are there
        now->held = nullptr;
    }
    return barrier.count;
}

struct Mbarrier { int due; short missing; short phase; };  // lies in shared memory

inline void settle(Mbarrier &mbarrier) {
    if (mbarrier.missing == 0 && mbarrier.due == 0) {
        mbarrier.phase ^= 1;
        mbarrier.missing = 1;
    }
}

inline constexpr int GUARD = 4096;  // bytes after a block's shared memory that nobody may touch
inline constexpr unsigned SPACE = 1u << 20;  // an address is (block + 1) * SPACE + offset

inline char *where(unsigned address) { return memories[address / SPACE - 1].data() + address % SPACE; }

inline void deliver() {
    std::vector<Delivery> some;
    some.swap(under_way);
    for (Delivery &one : some) {
        if (chance() % 100 < late) {
            under_way.push_back(std::move(one));
            continue;
        }
        std::memcpy(memories[one.block].data() + one.offset, one.from ? one.from : one.bytes.data(), one.count);
        Mbarrier &mbarrier = *reinterpret_cast<Mbarrier *>(where(one.mbarrier));
        mbarrier.due -= (int)one.count;
        settle(mbarrier);
    }
}

inline Delivery to(unsigned there, unsigned count, unsigned mbarrier) {
    return {(int)(there / SPACE) - 1, there % SPACE, nullptr, count, {}, mbarrier};
}

inline void send(unsigned there, const void *value, unsigned count, unsigned mbarrier) {
    const char *first = static_cast<const char *>(value);
    Delivery one = to(there, count, mbarrier);
    one.bytes.assign(first, first + count);
    under_way.push_back(std::move(one));
}

inline void copy(unsigned there, const void *from, unsigned count, unsigned mbarrier) {
    Delivery one = to(there, count, mbarrier);
    one.from = static_cast<const char *>(from);
    under_way.push_back(std::move(one));
}

inline void begin() {
    work();
    now->ended = true;
    _longjmp(home, 1);
}

// All blocks of a launch, team after team.
inline void run(int blocks, int threads, int shared, int size, int team, std::function<void()> kernel) {
    work = std::move(kernel);
    cluster = size;
    grid.x = blocks;
    block.x = threads;
    const size_t stack = 1 << 16;
    const int members = cluster * team, count = members * threads;
    std::unique_ptr<char[]> stacks(new char[stack * count]);
    for (int first = 0; first < blocks; first += members) {
        std::vector<Barrier> barriers(team + members * (1 + threads / 32));
        std::vector<float> lanes(count * SHOWN);
        // What was left over by others must not matter: it is not a number, in any of the formats.
        memories.assign(members, std::vector<char>(shared + GUARD, (char)0xff));
        under_way.clear();
        fibers.assign(count, Fiber());
        for (int i = 0; i < count; ++i) {
            Fiber &f = fibers[i];
            const int b = i / threads, t = i % threads;
            f.thread.x = t;
            f.block.x = first + b;
            f.cluster = &barriers[b / cluster];
            f.all = &barriers[team + b];
            f.warp = &barriers[team + members + i / 32];
            f.cluster->size = cluster * threads;
            f.all->size = threads;
            f.warp->size = 32;
            f.lanes = lanes.data() + i / 32 * 32 * SHOWN;
            f.shared = memories[b].data();
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = stacks.get() + stack * i;
            f.context.uc_stack.ss_size = stack;
            f.context.uc_link = nullptr;
            makecontext(&f.context, begin, 0);
        }
        for (long rounds = 0;; ++rounds) {
            bool alive = false;
            for (Fiber &f : fibers) {
                if (f.ended) continue;
                alive = true;
                if (!f.held || f.held->turn != f.turn) resume(f);
            }
            if (!alive) break;
            deliver();
            if (rounds > 2000000) {
                std::fprintf(stderr, "the kernel waits for what never comes\n");
                std::abort();
            }
        }
        for (const std::vector<char> &memory : memories)
            if (std::any_of(memory.end() - GUARD, memory.end(), [](char x) { return x != (char)0xff; })) {
                std::fprintf(stderr, "the kernel writes after its shared memory\n");
                std::abort();
            }
    }
}

inline float *mine() { return now->lanes + now->thread.x % 32 * SHOWN; }
inline float half_to_float(unsigned short x) { return (float)as<_Float16>(x); }

}  // namespace machine

extern "C" void be_late(unsigned chance) { machine::late = chance; }

#define threadIdx (machine::now->thread)
#define blockIdx (machine::now->block)
#define gridDim (machine::grid)
#define blockDim (machine::block)
#define __shared__

inline void __syncthreads() { machine::sync(*machine::now->all); }
inline int __syncthreads_count(bool vote) { return machine::sync(*machine::now->all, vote); }
inline void __syncwarp() { machine::sync(*machine::now->warp); }
inline float __shfl_xor_sync(unsigned, float x, int step) {
    machine::mine()[0] = x;
    __syncwarp();
    const float other = machine::now->lanes[((threadIdx.x % 32) ^ step) * machine::SHOWN];
    __syncwarp();
    return other;
}

typedef unsigned short half;

inline half float2half(float x) { return as<half>((_Float16)x); }
inline unsigned floats2half2(float low, float high) { return float2half(low) | (unsigned)float2half(high) << 16; }
inline unsigned hmul2(unsigned a, unsigned b) {
    auto one = [](unsigned x, unsigned y) { return float2half(machine::half_to_float(x) * machine::half_to_float(y)); };
    return one(a & 0xffff, b & 0xffff) | (unsigned)one(a >> 16, b >> 16) << 16;
}
inline float2 half22float2(unsigned two) { return {machine::half_to_float(two & 0xffff), machine::half_to_float(two >> 16)}; }

inline void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    const unsigned words[6] = {a0, a1, a2, a3, b0, b1};
    for (int i = 0; i < 6; ++i) {
        machine::mine()[2 * i] = machine::half_to_float(words[i] & 0xffff);
        machine::mine()[2 * i + 1] = machine::half_to_float(words[i] >> 16);
    }
    __syncwarp();
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    // The word of a fragment that has k, and which half of it: lane t has k = 2t, 2t + 1 and 2t + 8, 2t + 9.
    auto entry = [](int lane_row, int word, int k) {
        return machine::now->lanes[(lane_row * 4 + k % 8 / 2) * machine::SHOWN + 2 * word + k % 2];
    };
    for (int i = 0; i < 4; ++i) {
        const int low = i >= 2, column = 2 * t + i % 2;
        for (int k = 0; k < 16; ++k) c[i] += entry(g, (k >= 8 ? 2 : 0) + low, k) * entry(column, 4 + (k >= 8), k);
    }
    __syncwarp();
}

inline unsigned cluster_rank() { return machine::now->block.x % machine::cluster; }
inline void cluster_sync() { machine::sync(*machine::now->cluster); }
inline unsigned smem_addr(const void *local) {
    const unsigned block = (machine::now - machine::fibers.data()) / machine::block.x;
    return (block + 1) * machine::SPACE + (unsigned)(static_cast<const char *>(local) - machine::now->shared);
}
inline unsigned mapa(unsigned local, int peer) {
    const unsigned block = local / machine::SPACE - 1, first = block / machine::cluster * machine::cluster;
    return (first + peer + 1) * machine::SPACE + local % machine::SPACE;
}
template <typename Word>
inline void st_async(unsigned remote, Word v, unsigned mbarrier) { machine::send(remote, &v, sizeof v, mbarrier); }
inline void bulk_copy(unsigned local, const void *from, unsigned bytes, unsigned mbarrier) { machine::copy(local, from, bytes, mbarrier); }
inline void bulk_copy_multicast(unsigned local, const void *from, unsigned bytes, unsigned mbarrier, int blocks) {
    for (int peer = 0; peer < blocks; ++peer) machine::copy(mapa(local, peer), from, bytes, mapa(mbarrier, peer));
}
inline void fence_proxy_async() {}
inline void arrivals_add(unsigned *arrivals) { ++*arrivals; }
inline void arrivals_wait(const unsigned *arrivals, unsigned due) {
    while (*arrivals < due) machine::yield();
}
inline void mbarrier_init(unsigned mbarrier) { *reinterpret_cast<machine::Mbarrier *>(machine::where(mbarrier)) = {0, 1, 0}; }
inline void mbarrier_expect_tx(unsigned mbarrier, unsigned bytes) {
    machine::Mbarrier &b = *reinterpret_cast<machine::Mbarrier *>(machine::where(mbarrier));
    b.due += (int)bytes;
    --b.missing;
    machine::settle(b);
}
inline void mbarrier_wait(unsigned mbarrier, unsigned phase) {
    while (reinterpret_cast<machine::Mbarrier *>(machine::where(mbarrier))->phase == (short)phase) machine::yield();
}
