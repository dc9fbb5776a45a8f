// Forward: from observations to features, a board in each warp group.


enum Kind { AFTER_STEM, INSIDE, END_OF_BLOCK };

struct Forward {
    const float* constants;  // [NORMS][3][64]: the bias of the convolution before, scale, shift
    uint4* before;           // [NORMS][boards][N / 16][128]: what is normalized, in the threads' layout
    char* after;             // [LAYERS][boards][8][N][8]: what the convolutions read
    float2* stats;           // [NORMS][boards]: mean, 1 / standard deviation
    int boards;
};

// Bias, residual, normalization, ReLU: from the accumulators to the image.
template <bool SAVE, int KIND>
__device__ __forceinline__ void finish(float (&acc)[N / 2], u32 (&residual)[WORDS], const Place& my, const Forward& to,
                                       float2* scratch, int norm, int board, bool live) {
    const float* c = to.constants + norm * 3 * CHANNELS + my.row;
    const float bias0 = c[0], bias1 = c[8], scale0 = c[64], scale1 = c[72], shift0 = c[128], shift1 = c[136];
    u32 word[WORDS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
        float v[4] = {acc[4 * j] + bias0, acc[4 * j + 1] + bias0, acc[4 * j + 2] + bias1, acc[4 * j + 3] + bias1};
        if (KIND == END_OF_BLOCK) {
            v[0] += low(residual[2 * j]), v[1] += high(residual[2 * j]);
            v[2] += low(residual[2 * j + 1]), v[3] += high(residual[2 * j + 1]);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 w = keep_cells(pack(v[2 * half], v[2 * half + 1]), j, my.quarter);
            word[2 * j + half] = w;
            sum += low(w) + high(w);
            squares = fmaf(low(w), low(w), fmaf(high(w), high(w), squares));
        }
        if (KIND != INSIDE) residual[2 * j] = word[2 * j], residual[2 * j + 1] = word[2 * j + 1];
    }
    const u64 place = static_cast<u64>(norm) * to.boards + board;
    if (SAVE && live) {
        uint4* out = to.before + place * (N / 16 * 128) + my.thread;
#pragma unroll
        for (int k = 0; k < N / 16; ++k)
            out[k * 128] = make_uint4(word[4 * k], word[4 * k + 1], word[4 * k + 2], word[4 * k + 3]);
    }
    if (SAVE && my.thread < 8) wait_stores_read();
    const float2 total = sum_group(sum, squares, my, scratch, norm);
    const float mean = total.x * SHARE;
    const float scale = rsqrtf(fmaxf(total.y * SHARE - mean * mean, 0.0f) + EPSILON);
    if (SAVE && live && my.thread == 0) to.stats[place] = make_float2(mean, scale);
    const float a0 = scale * scale0, a1 = scale * scale1, b0 = shift0 - mean * a0, b1 = shift1 - mean * a1;
#pragma unroll
    for (int j = 0; j < N / 8; j += 2) {
        u32 out[4];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const u32 first = word[2 * (j + k)], second = word[2 * (j + k) + 1];
            out[2 * k] = pack_relu(fmaf(low(first), a0, b0), fmaf(high(first), a0, b0));
            out[2 * k + 1] = pack_relu(fmaf(low(second), a1, b1), fmaf(high(second), a1, b1));
            out[2 * k] = keep_cells(out[2 * k], j + k, my.quarter);
            out[2 * k + 1] = keep_cells(out[2 * k + 1], j + k, my.quarter);
        }
        store_matrices(my.matrix + j * 128, out[0], out[1], out[2], out[3]);
    }
    show_to_async();
    sync_group(my.group);
    if (SAVE && live && norm < LAYERS) save_image(to.after + place * (8 * MIDDLE), my);
}

// The observation's planes as the image's first plane.
__device__ __forceinline__ uint4 read_cell(const float* obs, int board, int position) {
    u32 word[4] = {0, 0, 0, 0};
    const int row = position / PITCH, col = position % PITCH;
    if (position < N && row < ROWS && col < COLS) {
        const float* from = obs + static_cast<u64>(board) * (INPUTS * CELLS) + row * COLS + col;
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < INPUTS; ++k) v[k] = from[k * CELLS];
#pragma unroll
        for (int k = 0; k < 4; ++k) word[k] = pack(v[2 * k], v[2 * k + 1]);
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// Two neighboring directions are the two halves of a product's inner axis; the sixth has weights of zero.
__device__ __forceinline__ void convolve_stem(float (&acc)[N / 2], const Place& my, u32 stem) {
    begin_products();
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        const u32 shifted = my.image + (START + (k / 2 - 1) * PITCH + 2 * (k % 2) - 1) * 16;
        multiply(acc, describe(stem + k * 2048, 1024, 128), describe(shifted, 16, 128), k > 0);
    }
    commit_products();
    wait_products<0>();
}

extern __shared__ __align__(128) char memory[];

template <bool SAVE>
__device__ __forceinline__ void run_forward(const float* obs, const char* stem_weights, const char* weights,
                                            char* features, uint4* inputs, const Forward& to) {
    constexpr int G = FORWARD_GROUPS;
    const u32 base = shared_address(memory);
    const u32 stem = base + G * IMAGE;
    Ring ring;
    ring.weights = stem + STEM;
    ring.full = ring.weights + SLOTS * TAP;
    ring.empty = ring.full + 8 * SLOTS;
    float2* scratch = reinterpret_cast<float2*>(memory + (ring.empty + 8 * SLOTS - base));
    clear(base, G * IMAGE);
    for (int at = threadIdx.x; at < STEM / 16; at += blockDim.x)
        reinterpret_cast<uint4*>(memory + G * IMAGE)[at] = reinterpret_cast<const uint4*>(stem_weights)[at];
    if (threadIdx.x == 0) ring.start(4 * G);
    show_to_async();
    __syncthreads();
    const int step = gridDim.x * G, begin = blockIdx.x * G;
    const int rounds = begin < to.boards ? (to.boards - begin + step - 1) / step : 0;
    if (find_group() == G) {
        give_registers();
        if (threadIdx.x == 128 * G) ring.feed(weights, rounds);
        return;
    }
    take_registers<G == 4 ? 112 : 160>();  // of what the block was launched with: 640 times 96, or 512 times 128
    const Place my(base);
    scratch += 8 * my.group;
    float acc[N / 2];
    u32 residual[WORDS];
    int layer = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        const int wanted = round * step + begin + my.group;
        const bool live = wanted < to.boards;
        const int board = live ? wanted : to.boards - 1;
        const uint4 cell = read_cell(obs, board, my.thread);
        sync_group(my.group);  // the features of the board before are read
        if (my.thread < N) {
            *reinterpret_cast<uint4*>(memory + (my.image - base) + (START + my.thread) * 16) = cell;
            if (SAVE && live) inputs[static_cast<u64>(board) * N + my.thread] = cell;
        }
        show_to_async();
        sync_group(my.group);
        convolve_stem(acc, my, stem);
        finish<SAVE, AFTER_STEM>(acc, residual, my, to, scratch, 0, board, live);
#pragma unroll 1
        for (int block = 0; block < BLOCKS; ++block) {
            convolve(acc, my, ring, layer++);
            finish<SAVE, INSIDE>(acc, residual, my, to, scratch, 2 * block + 1, board, live);
            convolve(acc, my, ring, layer++);
            finish<SAVE, END_OF_BLOCK>(acc, residual, my, to, scratch, 2 * block + 2, board, live);
        }
        if (live)
            for (int unit = my.thread; unit < CELLS * 8; unit += 128) {
                const int cell_at = unit / 8, position = START + cell_at / COLS * PITCH + cell_at % COLS;
                reinterpret_cast<uint4*>(features)[static_cast<u64>(board) * (CELLS * 8) + unit] =
                    *reinterpret_cast<const uint4*>(memory + (my.image - base) + unit % 8 * PLANE + position * 16);
            }
    }
    if (SAVE && my.thread < 8) wait_stores();
}

extern "C" __global__ void __launch_bounds__(128 * FORWARD_GROUPS + 128, 1)
    boards_act(const float* obs, const char* stem, const char* weights, const float* constants, char* features,
               int boards) {
    run_forward<false>(obs, stem, weights, features, nullptr, Forward{constants, nullptr, nullptr, nullptr, boards});
}

extern "C" __global__ void __launch_bounds__(128 * FORWARD_GROUPS + 128, 1)
    boards_forward(const float* obs, const char* stem, const char* weights, const float* constants, char* features,
                   uint4* inputs, uint4* before, char* after, float2* stats, int boards) {
    run_forward<true>(obs, stem, weights, features, inputs, Forward{constants, before, after, stats, boards});
}
