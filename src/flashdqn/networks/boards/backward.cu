// The gradient of the boards: from that of the features back to that of every convolution's output.


struct Backward {
    const float* constants;  // as in Forward
    const uint4* before;
    const float2* stats;
    char* gradients;  // [NORMS][boards][8][N][8]: of what is normalized, which the convolution before it gave
    int boards;
};

// Back through ReLU and normalization `norm`: acc is the gradient of its output. The gradient of its input goes to
// `words`, with the residual's added if there is one, and to the image. `sums`: [2][64], this group's scale, shift.
template <bool ADD, bool KEEP>
__device__ __forceinline__ void go_back(float (&acc)[N / 2], u32 (&residual)[WORDS], const u32 (&v)[WORDS],
                                        const Place& my, const Backward& to, float2* scratch, float* sums, int norm,
                                        int board, bool live) {
    const float* c = to.constants + norm * 3 * CHANNELS + my.row;
    const float scale[2] = {c[64], c[72]}, shift[2] = {c[128], c[136]};
    const u64 place = static_cast<u64>(norm) * to.boards + board;
    const float2 stat = to.stats[place];
    const float mean = stat.x, inverse = stat.y;
    const float a[2] = {inverse * scale[0], inverse * scale[1]};
    const float b[2] = {shift[0] - mean * a[0], shift[1] - mean * a[1]};
    float plain[2] = {0, 0}, weighted[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float x[2] = {low(v[2 * j + half]), high(v[2 * j + half])};
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float& g = acc[4 * j + 2 * half + e];
                g = keep_cell(fmaf(x[e], a[half], b[half]) > 0 ? g : 0.0f, j, my.quarter, e);
                plain[half] += g;
                weighted[half] = fmaf(g, x[e], weighted[half]);
            }
        }
#pragma unroll
    for (int away = 1; away < 4; away <<= 1)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            plain[half] += __shfl_xor_sync(0xffffffffu, plain[half], away);
            weighted[half] += __shfl_xor_sync(0xffffffffu, weighted[half], away);
        }
#pragma unroll
    for (int half = 0; half < 2; ++half) weighted[half] = inverse * (weighted[half] - mean * plain[half]);
    const bool counts = my.quarter == 0;
    if (counts && live) {
        sums[my.row] += weighted[0], sums[8 + my.row] += weighted[1];
        sums[64 + my.row] += plain[0], sums[72 + my.row] += plain[1];
    }
    if (my.thread < 8) wait_stores_read();
    const float2 total = sum_group(counts ? fmaf(plain[0], scale[0], plain[1] * scale[1]) : 0.0f,
                                   counts ? fmaf(weighted[0], scale[0], weighted[1] * scale[1]) : 0.0f, my, scratch,
                                   norm);
    const float slope = -inverse * inverse * (total.y * SHARE);
    const float level = -mean * slope - inverse * (total.x * SHARE);
#pragma unroll
    for (int j = 0; j < N / 8; j += 2) {
        u32 out[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int at = 2 * j + k, half = k & 1;
            float first = fmaf(acc[2 * at], a[half], fmaf(low(v[at]), slope, level));
            float second = fmaf(acc[2 * at + 1], a[half], fmaf(high(v[at]), slope, level));
            if (ADD) first += low(residual[at]), second += high(residual[at]);
            out[k] = keep_cells(pack(first, second), j + k / 2, my.quarter);
            if (KEEP) residual[at] = out[k];
        }
        store_matrices(my.matrix + j * 128, out[0], out[1], out[2], out[3]);
    }
    show_to_async();
    sync_group(my.group);
    if (live) save_image(to.gradients + place * (8 * MIDDLE), my);
}

__device__ __forceinline__ void load_before(u32 (&v)[WORDS], const Backward& to, const Place& my, int norm, int board) {
    const uint4* from = to.before + (static_cast<u64>(norm) * to.boards + board) * (N / 16 * 128) + my.thread;
#pragma unroll
    for (int k = 0; k < N / 16; ++k) {
        const uint4 w = from[k * 128];
        v[4 * k] = w.x, v[4 * k + 1] = w.y, v[4 * k + 2] = w.z, v[4 * k + 3] = w.w;
    }
}

// `weights`: of the last layer first, transposed and turned around. `sums`: [blocks · 3][NORMS][2][64].
extern "C" __global__ void __launch_bounds__(128 * BACK_GROUPS + 128, 1)
    boards_backward(const char* feature_gradients, const char* weights, const float* constants, const uint4* before,
                    const float2* stats, char* gradients, float* sums, int boards) {
    constexpr int G = BACK_GROUPS;
    const u32 base = shared_address(memory);
    Ring ring;
    ring.weights = base + G * IMAGE;
    ring.full = ring.weights + SLOTS * TAP;
    ring.empty = ring.full + 8 * SLOTS;
    float2* scratch = reinterpret_cast<float2*>(memory + (ring.empty + 8 * SLOTS - base));
    float* all_sums = reinterpret_cast<float*>(scratch + 8 * G);
    clear(base, G * IMAGE);
    for (int at = threadIdx.x; at < G * NORMS * 2 * CHANNELS; at += blockDim.x) all_sums[at] = 0;
    if (threadIdx.x == 0) ring.start(4 * G);
    show_to_async();
    __syncthreads();
    const Backward to{constants, before, stats, gradients, boards};
    const int step = gridDim.x * G, begin = blockIdx.x * G;
    const int rounds = begin < boards ? (boards - begin + step - 1) / step : 0;
    if (find_group() == G) {
        give_registers();
        if (threadIdx.x == 128 * G) ring.feed(weights, rounds);
        return;
    }
    take_registers<160>();
    const Place my(base);
    scratch += 8 * my.group;
    float* my_sums = all_sums + my.group * NORMS * 2 * CHANNELS;
    float acc[N / 2];
    u32 residual[WORDS], v[WORDS];
    int layer = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        const int wanted = round * step + begin + my.group;
        const bool live = wanted < boards;
        const int board = live ? wanted : boards - 1;
        load_before(v, to, my, LAYERS, board);
        if (my.thread < 8) wait_stores_read();
        sync_group(my.group);
        for (int unit = my.thread; unit < CELLS * 8; unit += 128) {
            const int cell_at = unit / 8, position = START + cell_at / COLS * PITCH + cell_at % COLS;
            *reinterpret_cast<uint4*>(memory + (my.image - base) + unit % 8 * PLANE + position * 16) =
                reinterpret_cast<const uint4*>(feature_gradients)[static_cast<u64>(board) * (CELLS * 8) + unit];
        }
        sync_group(my.group);
#pragma unroll
        for (int j = 0; j < N / 8; j += 2) {
            u32 w[4];
            load_matrices(my.matrix + j * 128, w[0], w[1], w[2], w[3]);
#pragma unroll
            for (int k = 0; k < 4; ++k) acc[4 * j + 2 * k] = low(w[k]), acc[4 * j + 2 * k + 1] = high(w[k]);
        }
        go_back<false, true>(acc, residual, v, my, to, scratch, my_sums + LAYERS * 128, LAYERS, board, live);
#pragma unroll 1
        for (int block = BLOCKS - 1; block >= 0; --block) {
            int norm = 2 * block + 1;
            load_before(v, to, my, norm, board);
            convolve(acc, my, ring, layer++);
            go_back<false, false>(acc, residual, v, my, to, scratch, my_sums + norm * 128, norm, board, live);
            norm = 2 * block;
            load_before(v, to, my, norm, board);
            convolve(acc, my, ring, layer++);
            go_back<true, true>(acc, residual, v, my, to, scratch, my_sums + norm * 128, norm, board, live);
        }
    }
    sync_group(my.group);
    float* out = sums + static_cast<u64>(blockIdx.x * G + my.group) * (NORMS * 2 * CHANNELS);
    for (int at = my.thread; at < NORMS * 2 * CHANNELS; at += 128) out[at] = my_sums[at];
    if (my.thread < 8) wait_stores();
}
