// Between torch's weights and those of the kernels: every unit has its four columns in a row, and sizes are padded.
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

// Which gate of torch's weights stands in a column of a unit, for what comes from h and for what comes from the input.
__device__ __forceinline__ int inner_gate(int column) { return LSTM || column < 3 ? column : -1; }
__device__ __forceinline__ int outer_gate(int column) { return LSTM || column < 2 ? column : column == 3 ? 2 : -1; }

#define EACH(i, count) (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < (unsigned)(count); i += gridDim.x * blockDim.x)

// One of two pointers: an index that is not known beforehand would put all arguments into slow memory.
template <typename T>
__device__ __forceinline__ T *of(T *const (&two)[2], int d) { return d ? two[1] : two[0]; }

// Torch's weights with the columns of a unit side by side, and padded.
extern "C" __global__ void spread(const Spreading a) {
    const int H = a.hidden, h = a.real_hidden, I = a.inputs, M = a.slot_size;
    for EACH (i, (size_t)a.directions * 4 * H * (I + M)) {
        const int k = i % (I + M), row = i / (I + M), d = row / (4 * H), unit = row % (4 * H) / 4;
        const int gate = outer_gate(row % 4);
        const float value = unit < h && gate >= 0 ? of(a.ih, d)[((size_t)gate * h + unit) * (I + M) + k] : 0.f;
        if (k < I) a.w_x[(size_t)row * I + k] = value;
        else a.w_c[(size_t)row * M + k - I] = value;
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

// The way back from `spread`, for gradients.
extern "C" __global__ void collect(const Collecting a) {
    const int H = a.hidden, h = a.real_hidden, I = a.inputs, M = a.slot_size, width = I + M + h + 1;
    for EACH (i, (size_t)a.directions * 4 * H * width) {
        const int k = i % width, d = i / width / (4 * H), unit = i / width % (4 * H) / 4, column = i / width % 4;
        const size_t row = i / width;
        const int inner = inner_gate(column), outer = outer_gate(column);
        if (unit >= h) continue;
        if (k < I + M) {
            if (outer >= 0)
                of(a.d_ih, d)[((size_t)outer * h + unit) * (I + M) + k] = k < I ? a.d_wx[row * I + k] : a.d_wc[row * M + k - I];
        } else if (k < I + M + h) {
            if (inner >= 0) of(a.d_hh, d)[((size_t)inner * h + unit) * h + k - I - M] = a.d_wh[row * h + k - I - M];
        } else if (of(a.d_bias_ih, d)) {
            if (outer >= 0) of(a.d_bias_ih, d)[outer * h + unit] = a.sums[row];
            if (inner >= 0) of(a.d_bias_hh, d)[inner * h + unit] = a.sums[row];
        }
    }
}

// Does nothing: it is asked how many clusters of such blocks find room.
extern "C" __global__ void probe() {}
