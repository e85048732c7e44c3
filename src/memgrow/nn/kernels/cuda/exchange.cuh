// Messages between the blocks of a cluster or a team: mbarriers, all-gather by multicast, and the rows that arrive.

#pragma once

#include "cluster.cuh"

// An mbarrier in shared memory, and the parity of the phase that is waited for next.
struct Mbarrier {
    unsigned addr, phase;
    __device__ __forceinline__ Mbarrier(unsigned long long *storage) : addr(smem_addr(storage)), phase(0) {
        if (threadIdx.x == 0) mbarrier_init(addr);
    }
    __device__ __forceinline__ void expect(unsigned bytes) {
        if (threadIdx.x == 0) mbarrier_expect_tx(addr, bytes);
    }
    __device__ __forceinline__ void wait() {
        mbarrier_wait(addr, phase);
        phase ^= 1;
    }
};

// Rows of halves in shared memory, which products read in chunks of eight: here each row is contiguous.
struct DenseRows {
    half *data;
    int stride;
    __device__ __forceinline__ const half *chunk(int c) const { return data + 8 * c; }
    __device__ __forceinline__ bool has(int) const { return true; }
};

// Halves from one row of a piece to the next. Two neighbouring rows must not begin in the same banks: where they would,
// `swizzle` moves the chunks of every other row.
__device__ __forceinline__ int row_stride(int chunks) { return (chunks + 3) / 4 * 32; }
__device__ __forceinline__ int swizzle(int stride, int row) { return stride % 64 ? 0 : row % 2 * 4; }

// Rows as the blocks sent them: (MEMBERS, ROWS, stride), with a trailer after the ROWS of each block. Of each row, `chunks`
// chunks from `first` on are read.
struct GatheredRows {
    const half *data;
    int stride, block_stride, first, chunks;
    float inverse;  // 1 / chunks
    __device__ __forceinline__ const half *chunk(int c) const {
        const int owner = (c + 0.5f) * inverse;
        return data + owner * block_stride + 8 * ((first + c - owner * chunks) ^ swizzle(stride, threadIdx.x % 32 / 4));
    }
    __device__ __forceinline__ bool has(int c) const { return c < MEMBERS * chunks; }
};

// The number of this block among those that work on the same rows.
__device__ __forceinline__ unsigned member_rank() { return TEAM > 1 ? blockIdx.x % MEMBERS : cluster_rank(); }

static_assert(TEAM == 1 || SLOTS && !DIMS, "st.async and cluster_sync reach the own cluster alone");

// The part of global memory where the blocks of a team write what they send, and the counters of their arrivals.
struct Mailbox {
    char *data;
    unsigned *arrivals;
    __device__ __forceinline__ Mailbox(char *all, const Layer &layer)
        : data(all + (size_t)(blockIdx.x / MEMBERS) * MEMBERS * layer.mailbox_bytes),
          arrivals(layer.arrivals + blockIdx.x / MEMBERS * ARRIVAL_WORDS) {}
};

// All-gather: every block sends rows that are `stride` halves apart, then `trailer_bytes` for each row, and receives those of
// all blocks. A piece is written by turns to two places of the mailbox. It arrives in one buffer, or by turns in two with an
// mbarrier each, where a block that is a step ahead would otherwise complete another's phase.
template <int BUFFERS = 1>
struct AllGather {
    char *out, *in;
    unsigned *arrivals;
    int stride;
    unsigned bytes, mbarrier, count;  // count: completed waits
    __device__ __forceinline__ AllGather(Mailbox &mailbox, char *&smem, unsigned long long *storage, int stride,
                                         int trailer_bytes = 0)
        : out(mailbox.data + member_rank() * ROWS * (2 * stride + trailer_bytes)), in(smem), arrivals(mailbox.arrivals),
          stride(stride), bytes(ROWS * (2 * stride + trailer_bytes)), mbarrier(smem_addr(storage)), count(0) {
        mailbox.data += 2 * MEMBERS * bytes;
        mailbox.arrivals += SECTOR;
        smem += BUFFERS * MEMBERS * bytes;
        for (int n = 0; n < 2; ++n)
            for (int i = threadIdx.x; i < bytes / 16; i += THREADS)
                reinterpret_cast<uint4 *>(outgoing(n))[i] = make_uint4(0, 0, 0, 0);
        if (threadIdx.x == 0)
            for (int n = 0; n < BUFFERS; ++n) mbarrier_init(mbarrier + 8 * n);
    }
    __device__ __forceinline__ char *outgoing(unsigned n) const { return out + n % 2 * MEMBERS * bytes; }
    __device__ __forceinline__ half *mine() const { return reinterpret_cast<half *>(outgoing(count)); }
    __device__ __forceinline__ half *mine(int row, int chunk) const {
        return mine() + row * stride + 8 * (chunk ^ swizzle(stride, row));
    }
    template <typename T>
    __device__ __forceinline__ T &trailer(half *piece, int row) const {
        return reinterpret_cast<T *>(piece + ROWS * stride)[row];
    }
    __device__ __forceinline__ unsigned buffer(unsigned n) const { return BUFFERS > 1 ? n % 2 : 0; }
    __device__ __forceinline__ char *incoming(unsigned n) const { return in + buffer(n) * MEMBERS * bytes; }
    __device__ __forceinline__ void send() const {
        fence_proxy_async();
        __syncthreads();
        if (threadIdx.x) return;
        const unsigned current = mbarrier + 8 * buffer(count);
        mbarrier_expect_tx(current, MEMBERS * bytes);
        if (TEAM > 1) {  // each block of a cluster multicasts its share of all pieces
            arrivals_add(arrivals);
            arrivals_wait(arrivals, MEMBERS * (count + 1));
            fence_proxy_async();
        }
        const int first = cluster_rank() * TEAM, offset = TEAM > 1 ? first - (int)member_rank() : 0;
        bulk_copy_multicast(smem_addr(incoming(count) + first * bytes), outgoing(count) + offset * (int)bytes, TEAM * bytes,
                            current, CLUSTER);
    }
    __device__ __forceinline__ void wait() {
        mbarrier_wait(mbarrier + 8 * buffer(count), (BUFFERS > 1 ? count / 2 : count) % 2);
        ++count;
    }
    // After `wait`:
    __device__ __forceinline__ half *from(int peer) const {
        return reinterpret_cast<half *>(incoming(count - 1) + peer * bytes);
    }
    __device__ __forceinline__ GatheredRows rows(int first, int chunks) const {
        return {from(0), stride, (int)bytes / 2, first, chunks, 1.f / chunks};
    }
    // Copies rows that are no whole chunks, WIDTH halves of each block, into contiguous rows.
    template <int WIDTH>
    __device__ __forceinline__ void concatenate(const DenseRows &dense) {
        constexpr int words = WIDTH % 4 ? WIDTH / 2 : WIDTH / 4, size = WIDTH / words;
        for (int i = threadIdx.x; i < MEMBERS * ROWS * words; i += THREADS) {
            half *to = dense.data + i / words % ROWS * dense.stride + i / (ROWS * words) * WIDTH + i % words * size;
            if (size == 4) *reinterpret_cast<uint2 *>(to) = reinterpret_cast<const uint2 *>(from(0))[i];
            else *reinterpret_cast<unsigned *>(to) = reinterpret_cast<const unsigned *>(from(0))[i];
        }
        __syncthreads();
    }
};

// Halves from one contiguous row to the next: rows begin in different banks.
__device__ __forceinline__ int padded_stride(int width) { return (width + 63) / 64 * 64 + 32; }

// The padding of a row is multiplied with zeros, so that it must hold numbers.
__device__ __forceinline__ void zero_fill(const DenseRows &rows) {
    for (int i = threadIdx.x; i < ROWS * rows.stride / 2; i += THREADS) reinterpret_cast<unsigned *>(rows.data)[i] = 0;
}
