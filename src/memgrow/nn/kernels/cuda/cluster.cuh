// The recurrence with memory, by clusters of thread blocks that exchange data through distributed shared memory (DSMEM).
//
// A cluster works on one direction and ROWS rows (sequences). Each block owns UNITS hidden units, `own` slots and DIMS
// of the content. Each mbarrier counts the bytes that arrive in a block. One step of one block, time running downwards:
//
//   few slots (DIMS 0), P = V W' in place of the values       many slots (DIMS > 0), the content is read first
//
//   FORWARD
//   scores of own slots = all h * own keys                    scores of own slots = all h * own keys
//   --- all-gather attention, max, sum (multicast) --->       --- st.async max, sum to all, partials to owners --->
//   gates of own units += all h * weights       (overlaps)    gates of own units += all h * weights      (overlaps)
//   <== mbarrier: attention of all blocks                     <== mbarrier: partials of own content; add them
//                                                             --- all-gather content (multicast) --->
//                                                             <== mbarrier: all content
//   gates of own units += all attention * P                   gates of own units += all content * weights
//   --- all-gather h (multicast) --->                         --- all-gather h (multicast) --->
//   write the trace, load the next inputs       (overlaps)    write the trace, load the next inputs      (overlaps)
//   <== mbarrier: all h                                       <== mbarrier: all h
//
//   BACKWARD
//   slopes: d of own gates' preactivations                    slopes: d of own gates' preactivations
//   --- all-gather slopes (multicast) --->                    --- all-gather slopes (multicast) --->
//   load attention, the next step's trace       (overlaps)    load attention, the next step's trace      (overlaps)
//   <== mbarrier: all slopes                                  <== mbarrier: all slopes
//   dh of own units, d of own slots = slopes * weights        dh of own units, d of own content = slopes * weights
//                                                             --- all-gather d of content (multicast) --->
//                                                             <== mbarrier: all d of content; d of own slots
//   --- all-gather weighted d of slots, sums --->             --- st.async sums to all, partial dh to owners --->
//   <== mbarrier: d of all slots                              <== mbarrier: partials of own dh; add them
//   dh of own units += all d of slots * keys; d of logits     d of logits
//
//   all-gather   fence.proxy.async, __syncthreads; a block's piece lies in global memory (its mailbox), and one
//                cp.async.bulk.multicast copies it from L2 into the DSMEM of all blocks of the cluster. With TEAM > 1
//                clusters of one layer, blocks count in global memory (`arrivals`) that their pieces are written, wait
//                for all, and each block multicasts its share of all pieces to its own cluster.
//   st.async     partial sums go straight into the DSMEM of the block that owns their column, as they are computed.
//   reuse        whoever has received from every block knows that all are done with what they received before, so that
//                its buffer is free. Where nothing comes between two sends of the same (forward without slots) there
//                are two buffers with an mbarrier each; backward without slots ends each step with cluster_sync.
//
// Softmax: each block's attention is relative to its own largest score; max and sum travel with it, and the receiver
// rescales. Precision: weights and messages are halves, with the 10 bits of TF32; gradients are scaled by a power of two
// so that they lie well within the range. Weights stay on the chip as far as they fit; the rest streams in from L2 in
// each step. Columns: outside of these kernels a unit has four columns in a row, an LSTM's gates, or a GRU's r, z and the
// candidate's parts from h and from the rest. An LSTM keeps that order here. A GRU's columns stand gate by gate, the
// candidate's part from h first and that from the rest last: h does not reach the last, what is read not the first.
// A pack holds weights in order of use: [32 of k][8 of n][lane][8 of k], with n = lane / 4 and k = 8 * (lane % 4) + 0..7.
//
// Compile-time (cluster_plan.py): LSTM and SLOTS (0 or 1: there are some), CLUSTER (blocks) and TEAM (clusters; above 1
// only with slots and DIMS 0), ROWS (16, 24 or 32), UNITS and DIMS (of a block, even), and the tiles of 8 columns that a
// warp has at once: NT_U of gates, NT_S of slots, NT_B of units and slots or contents backward, NT_P of contents from
// slots, NT_H of units from slots, MOST_U of any forward and MOST_B of any backward. HELD_U, HELD_S, HELD_B: blocks of k
// that each warp holds in registers, of gates from h, of slots, of units (and more) backward; above 0 only where all tiles
// come in one pass. cluster_packing.cu needs LSTM, CLUSTER, TEAM, UNITS and DIMS alone. Each source is compiled when it is
// first needed: prediction compiles no backward kernel.

#pragma once

#include "machine.cuh"

#define MEMBERS (CLUSTER * TEAM)  // blocks that work on the same rows
#define WARPS 8
#define THREADS (32 * WARPS)
#define TILES_M ((ROWS + 15) / 16)  // tiles of 16 rows; the last may be half empty
#define LANES (ROWS > 16 ? 8 : 16)  // threads that share a row
#define WARPS_N 2                   // warps along the columns of a product
#define WARPS_K (WARPS / WARPS_N)   // warps along the dimension that is summed over
#define ITEMS ((ROWS * UNITS + THREADS - 1) / THREADS)
#define TILES_H ((UNITS + 7) / 8)
#define TILES_U (LSTM ? UNITS / 2 : 4 * TILES_H)     // of own gates
#define TILES_ONE (LSTM ? TILES_U : 3 * TILES_H)     // of own gates that h, or what is read, contributes to
#define TILES_SKIPPED (TILES_U - TILES_ONE)          // of own gates that what is read does not contribute to
#define K_SLOPES ((MEMBERS * TILES_ONE + 3) / 4)     // blocks of k that the slopes of all units make
#define TILES_D ((DIMS + 7) / 8)
#define CONTENT (MEMBERS * DIMS)
#define CONTENT_TILES ((CONTENT + 7) / 8)
#define UNITS_FROM_SLOTS (DIMS ? (MEMBERS * UNITS + 7) / 8 : TILES_H)  // tiles of that product: of all units, or of own ones
#define WIDTH(NT) (8 * (WARPS_N * (NT) + 1))  // of a row of partial sums; odd in eights: rows begin in different banks
#define SEGMENTS 16             // of a stream's plan, at most
#define EXTRA 256.f             // further scale of what attention has been multiplied with: it is small
#define SECTOR 8                // words of memory that are read at once
#define ARRIVAL_WORDS (2 * SECTOR)  // of a team: a counter for each of its two all-gathers, in a sector of its own
#define INFINITE __int_as_float(0x7f800000)

struct Layer {
    int directions, batch, steps, reversed;      // reversed: bit d is set if direction d runs backwards in time
    int real_hidden, hidden, slots, real_slots;  // real ones, and padded to a multiple of the blocks
    int own;                                     // slots of a block
    int fit_first, fit_second, fit_third, fit_fourth;  // blocks of k of each pack that are kept on the chip
    int mailbox_bytes;                           // of a block
    int depth;                                   // chunks of streamed weights in flight for each warp; 0: all weights fit
    const int *sizes, *offsets;                  // rows of each step, and where they begin
    unsigned *arrivals;                          // ARRIVAL_WORDS for each team of several clusters; 0 at first
};

__device__ __forceinline__ int blocks_of(int k) { return (k + 31) / 32; }
