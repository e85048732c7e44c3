// PTX instructions that the cluster kernels use: half precision, mma, and what blocks of a cluster do to each other.
//
// An address is a 32-bit number in the shared window; `mapa` gives the same address in another block of the cluster
// (distributed shared memory, DSMEM). An mbarrier completes a phase when its one arrival has announced how many bytes
// are due and that many bytes have come; it then begins the next phase. tests/nn/kernels/cuda/machine.cuh is the same
// surface in plain C++.

#pragma once

typedef unsigned short half;

__device__ __forceinline__ unsigned floats2half2(float low, float high) {
    unsigned y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

__device__ __forceinline__ half float2half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned hmul2(unsigned a, unsigned b) {
    unsigned y;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

__device__ __forceinline__ float2 half22float2(unsigned two) {
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

// Needed at the beginning (nobody may write into a block that has not started), at the end, and where no message orders
// the steps.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ __forceinline__ unsigned smem_addr(const void *local) { return (unsigned)__cvta_generic_to_shared(local); }

__device__ __forceinline__ unsigned mapa(unsigned local, int peer) {  // the same address in another block
    unsigned remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(peer));
    return remote;
}

// A store into another block, which its mbarrier counts.
#define ST_ASYNC "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"

__device__ __forceinline__ void st_async(unsigned remote, uint2 v, unsigned mbarrier) {
    asm volatile(ST_ASYNC ".v2.b32 [%0], {%1, %2}, [%3];" ::"r"(remote), "r"(v.x), "r"(v.y), "r"(mbarrier) : "memory");
}

__device__ __forceinline__ void st_async(unsigned remote, unsigned v, unsigned mbarrier) {
    asm volatile(ST_ASYNC ".b32 [%0], %1, [%2];" ::"r"(remote), "r"(v), "r"(mbarrier) : "memory");
}

__device__ __forceinline__ void mbarrier_init(unsigned mbarrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" ::"r"(mbarrier) : "memory");
}

__device__ __forceinline__ void mbarrier_expect_tx(unsigned mbarrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_wait(unsigned mbarrier, unsigned phase) {
    unsigned complete;
    do {
        asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(complete) : "r"(mbarrier), "r"(phase) : "memory");
    } while (!complete);
}

// An asynchronous copy from global memory into the block's own shared memory.
__device__ __forceinline__ void bulk_copy(unsigned to, const void *from, unsigned bytes, unsigned mbarrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(mbarrier)
                 : "memory");
}

// As `bulk_copy`, but to the same address in the first `blocks` of the cluster; the mbarrier of each counts the bytes.
__device__ __forceinline__ void bulk_copy_multicast(unsigned to, const void *from, unsigned bytes, unsigned mbarrier,
                                                    int blocks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
            to),
        "l"(from), "r"(bytes), "r"(mbarrier), "h"((unsigned short)((1u << blocks) - 1))
        : "memory");
}

// Orders this thread's writes before the asynchronous copies that are issued next.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Blocks of different clusters synchronise by a counter in global memory. `arrivals_add` releases what was written
// before it, also by threads that have synchronised with this one; `arrivals_wait` acquires it.
__device__ __forceinline__ void arrivals_add(unsigned *arrivals) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrivals) : "memory");
}

__device__ __forceinline__ void arrivals_wait(const unsigned *arrivals, unsigned due) {
    unsigned seen;
    do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    } while (seen < due);
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
