// What the blocks of a cluster, or of a team of clusters, bring to each other, and rows of halves as they are then read.

#pragma once

#include "cluster.cuh"

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

static_assert(TEAM == 1 || SLOTS && !DIMS, "others are pushed to, or met, in the own cluster alone");

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
        : out(post.at + member() * ROWS * (2 * stride + more)), in(room), told(post.told), stride(stride),
          bytes(ROWS * (2 * stride + more)), box(place(counters)), count(0) {
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
    __device__ __forceinline__ T &behind(half *piece, int row) const {
        return reinterpret_cast<T *>(piece + ROWS * stride)[row];
    }
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
        fetch_for_all(place(landing(count) + first * bytes), laid_out(count) + away * (int)bytes, TEAM * bytes, current,
                      CLUSTER);
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

__device__ __forceinline__ int stride_of(int width) { return (width + 63) / 64 * 64 + 32; }  // halves; rows in other banks

// What lies behind the last of what is sent is multiplied with zeros, and must not be anything but numbers.
__device__ __forceinline__ void wipe(const Whole &rows) {
    for (int i = threadIdx.x; i < ROWS * rows.stride / 2; i += THREADS) reinterpret_cast<unsigned *>(rows.at)[i] = 0;
}
