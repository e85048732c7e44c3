// What the cluster kernels say in the machine's own words: half precision, products of a warp, and the other blocks of a
// cluster.
//
// A place in shared memory is a number; `at_peer` is the same place in another block. A box counts the bytes that come
// in: it is full when it was told how many are due and these are there, and then begins anew.

#pragma once

typedef unsigned short half;

__device__ __forceinline__ unsigned halves(float low, float high) {
    unsigned y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

__device__ __forceinline__ half to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned times(unsigned a, unsigned b) {
    unsigned y;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

__device__ __forceinline__ float2 floats(unsigned two) {
    float2 y;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(y.x), "=f"(y.y)
        : "r"(two));
    return y;
}

__device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                    unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// At the beginning, as nobody may write into a block that has not begun, at the end, and where nothing else is waited for.
__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ unsigned rank() {
    unsigned r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ __forceinline__ unsigned place(const void *mine) { return (unsigned)__cvta_generic_to_shared(mine); }

__device__ __forceinline__ unsigned at_peer(unsigned mine, int peer) {  // the same place in another block
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(peer));
    return there;
}

#define PUSH "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"

__device__ __forceinline__ void push(unsigned there, uint2 v, unsigned box) {
    asm volatile(PUSH ".v2.b32 [%0], {%1, %2}, [%3];" ::"r"(there), "r"(v.x), "r"(v.y), "r"(box) : "memory");
}

__device__ __forceinline__ void push(unsigned there, unsigned v, unsigned box) {
    asm volatile(PUSH ".b32 [%0], %1, [%2];" ::"r"(there), "r"(v), "r"(box) : "memory");
}

__device__ __forceinline__ void found(unsigned box) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" ::"r"(box) : "memory");
}

__device__ __forceinline__ void announce(unsigned box, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(box), "r"(bytes) : "memory");
}

__device__ __forceinline__ void await(unsigned box, unsigned turn) {
    unsigned full;
    do {
        asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(full) : "r"(box), "r"(turn) : "memory");
    } while (!full);
}

// Bytes from global memory into the own shared memory, while the warp goes on.
__device__ __forceinline__ void fetch(unsigned here, const void *from, unsigned bytes, unsigned box) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(here),
                 "l"(from), "r"(bytes), "r"(box)
                 : "memory");
}

// As `fetch`, but into the same place of the first `blocks` of the cluster, each of whose boxes counts the bytes.
__device__ __forceinline__ void fetch_for_all(unsigned here, const void *from, unsigned bytes, unsigned box, int blocks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
            here),
        "l"(from), "r"(bytes), "r"(box), "h"((unsigned short)((1u << blocks) - 1))
        : "memory");
}

// What this thread has written to memory is there for the copies that are asked for next.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async;" ::: "memory"); }

// To blocks of other clusters, by a count that all of them share: what has been written up to here, by all who have been
// met before, is there to be read.
__device__ __forceinline__ void tell(unsigned *count) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}

__device__ __forceinline__ void heed(const unsigned *count, unsigned due) {
    unsigned found;
    do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(count) : "memory");
    } while (found < due);
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
