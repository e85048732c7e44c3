// From torch's layout of weights to that of the kernels, where every unit has its four columns in a row and sizes are padded,
// and from their gradients back to torch's.
//
// LSTM i, f, g, o; GRU r, z, and the candidate's part from h and from the input. Compile-time: LSTM (0 or 1).

struct Spreading {
    int directions, real_hidden, hidden, real_slots, slots, inputs, slot_size;
    const float *ih[2], *bias_ih[2], *bias_hh[2], *slot_bias[2];
    float *w_x, *w_c, *x_bias, *bias;  // (D, 4 H, I), (D, 4 H, M), (D, 4 H), (D, N)
};

struct Collecting {
    int directions, real_hidden, hidden, inputs, slot_size;
    const float *d_wx, *d_wc, *d_wh, *sums;                  // (D, 4 H, I), (D, 4 H, M), (D, 4 H, real H), (D, 4 H)
    float *d_ih[2], *d_hh[2], *d_bias_ih[2], *d_bias_hh[2];
};

// The gate of torch's weights in a column of a unit, of those for h (inner) and those for the input (outer); -1: none.
__device__ __forceinline__ int inner_gate(int column) { return LSTM || column < 3 ? column : -1; }
__device__ __forceinline__ int outer_gate(int column) { return LSTM || column < 2 ? column : column == 3 ? 2 : -1; }

#define EACH(i, count) (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < (unsigned)(count); i += gridDim.x * blockDim.x)

// One of two pointers: an index that is not constant would put all arguments into local memory.
template <typename T>
__device__ __forceinline__ T *of(T *const (&two)[2], int d) { return d ? two[1] : two[0]; }

// Loops over a warp's share of the parts of rows.
#define EACH_WARP(i, count) \
    (unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < (unsigned)(count); i += gridDim.x * blockDim.x / 32)

// A warp copies a part of a row, or fills it with zeros where `from` is null; it has several words in flight at once.
template <typename Word>
__device__ __forceinline__ void copy_words(Word *to, const Word *from, int count) {
#pragma unroll 1
    for (int first = threadIdx.x % 32; first < count; first += 32 * 4) {
        Word v[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) v[n] = from && first + 32 * n < count ? from[first + 32 * n] : Word();
#pragma unroll
        for (int n = 0; n < 4; ++n)
            if (first + 32 * n < count) to[first + 32 * n] = v[n];
    }
}

__device__ __forceinline__ void copy(float *to, const float *from, int count) {
    const bool aligned = ((size_t)to | (size_t)from | count * sizeof(float)) % sizeof(float4) == 0;
    if (aligned) copy_words(reinterpret_cast<float4 *>(to), reinterpret_cast<const float4 *>(from), count / 4);
    else copy_words(to, from, count);
}

// Torch's weights with the columns of a unit side by side, and padded. 8 blocks of a multiprocessor, as many as are launched.
extern "C" __global__ void __launch_bounds__(256, 8) spread(const Spreading a) {
    const int H = a.hidden, h = a.real_hidden, I = a.inputs, M = a.slot_size;
    for EACH_WARP (i, (size_t)a.directions * 4 * H * 2) {
        const unsigned row = i / 2;
        const int d = row / (4 * H), unit = row % (4 * H) / 4, gate = outer_gate(row % 4);
        const float *from = unit < h && gate >= 0 ? of(a.ih, d) + ((size_t)gate * h + unit) * (I + M) : nullptr;
        const bool content = i % 2;
        copy(content ? a.w_c + (size_t)row * M : a.w_x + (size_t)row * I, content && from ? from + I : from, content ? M : I);
    }
    for EACH (row, (size_t)a.directions * 4 * H) {
        const int d = row / (4 * H), unit = row % (4 * H) / 4, inner = inner_gate(row % 4), outer = outer_gate(row % 4);
        float value = 0.f;
        if (unit < h && of(a.bias_ih, d)) {
            if (outer >= 0) value += of(a.bias_ih, d)[outer * h + unit];
            if (inner >= 0) value += of(a.bias_hh, d)[inner * h + unit];
        }
        a.x_bias[row] = value;
    }
    if (a.bias)
        for EACH (i, (size_t)a.directions * a.slots) {
            const int d = i / a.slots, slot = i % a.slots;
            a.bias[i] = slot < a.real_slots ? of(a.slot_bias, d)[slot] : 0.f;
        }
}

// The inverse of `spread`, for gradients.
extern "C" __global__ void __launch_bounds__(256, 8) collect(const Collecting a) {
    const int H = a.hidden, h = a.real_hidden, I = a.inputs, M = a.slot_size;
    for EACH_WARP (i, (size_t)a.directions * 4 * H * 3) {
        const unsigned row = i / 3;
        const int d = row / (4 * H), unit = row % (4 * H) / 4, part = i % 3;
        const int gate = part == 2 ? inner_gate(row % 4) : outer_gate(row % 4);
        if (unit >= h || gate < 0) continue;
        const size_t row_of_gate = (size_t)gate * h + unit;
        const int width = part == 0 ? I : part == 1 ? M : h;
        float *to = part == 2 ? of(a.d_hh, d) + row_of_gate * h : of(a.d_ih, d) + row_of_gate * (I + M) + part * I;
        copy(to, (part == 0 ? a.d_wx : part == 1 ? a.d_wc : a.d_wh) + (size_t)row * width, width);
    }
    for EACH (row, (size_t)a.directions * 4 * H) {
        const int d = row / (4 * H), unit = row % (4 * H) / 4, inner = inner_gate(row % 4), outer = outer_gate(row % 4);
        if (unit >= h || !of(a.d_bias_ih, d)) continue;
        if (outer >= 0) of(a.d_bias_ih, d)[outer * h + unit] = a.sums[row];
        if (inner >= 0) of(a.d_bias_hh, d)[inner * h + unit] = a.sums[row];
    }
}

// Does nothing: the occupancy of clusters is asked of it.
extern "C" __global__ void probe() {}
