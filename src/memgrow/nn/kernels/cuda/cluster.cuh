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
// how many tiles of 8 columns a warp has at once: NT_U of gates, NT_S of slots, NT_B of units and slots or contents backward,
// NT_P of contents from slots, NT_H of units from slots, MOST_U of any there and MOST_B back. HELD_U, HELD_S and HELD_B: of
// the gates from h, of the slots, and of the units (and more) backward, so many of each warp's blocks of k are held in
// registers; more than 0 only where all tiles come in one pass.
//
// There is a source for each of cluster_forward, cluster_backward and cluster_packing, as each is compiled when it is first
// needed, and what only predicts needs no way back. Packing knows of the blocks alone: LSTM, CLUSTER, TEAM, UNITS and DIMS.

#pragma once

#include "machine.cuh"

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
    unsigned *told;                              // of each team of several TELLING: how often its blocks have sent; 0 at first
};

__device__ __forceinline__ int blocks_of(int k) { return (k + 31) / 32; }
