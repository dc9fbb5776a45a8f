// The residual torso on small boards, for the tensor cores of Hopper GPUs (sm_90a). See boards/__init__.py.
//
// One board is a matrix "image" in shared memory: [8 planes of 8 channels][positions][8 channels], bfloat16. A position
// is a cell; each row of cells is followed by one position of zeros, and a row of zeros lies above and below. So the
// neighbor of a cell in any of the 3x3 directions is a fixed number of positions away, and a convolution is nine
// products of [64, 64] weights with the same image, read from shifted addresses. The layout is the tensor cores' own
// one without swizzle: eight positions of a plane are one core matrix, and a shift by a position is 16 bytes.
//
// A warp group (4 warps) carries its board through the whole torso. A normalization covers one board, so its sums
// never leave the warp group. The accumulators' layout: a thread has rows (channels) 16 warp + lane / 4 and 8 more, and
// of every eight columns (positions) the pair 2 (lane % 4) and the next. Residuals stay in registers, as bfloat16.
//
// The compiler's command line sets ROWS, COLS, INPUTS (planes of the observation), BLOCKS, FORWARD_GROUPS.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int CHANNELS = 64;
constexpr int CELLS = ROWS * COLS;
constexpr int PITCH = COLS + 1;
constexpr int N = (ROWS * PITCH + 15) / 16 * 16;  // positions that are computed
constexpr int START = PITCH + 1;                  // the position of the first cell
constexpr int LEAST = START + N + PITCH + 1;
constexpr int POSITIONS = LEAST + (9 - LEAST % 8) % 8;  // 1 more than a multiple of 8: planes begin in different banks
constexpr int PLANE = POSITIONS * 16;                   // bytes
constexpr int IMAGE = 8 * PLANE;
constexpr int MIDDLE = N * 16;  // bytes of a plane without its zeros above and below
constexpr int LAYERS = 2 * BLOCKS;
constexpr int NORMS = LAYERS + 1;
constexpr int TAP = CHANNELS * CHANNELS * 2;  // bytes of the weights of one direction
constexpr int SLOTS = 18;                     // directions of two layers
constexpr int STEM = 6 * 2048;
constexpr float SHARE = 1.0f / (CELLS * CHANNELS);  // of one number of a board; a division would be a slow call
constexpr float EPSILON = 1e-5f;
constexpr int WORDS = N / 4;  // pairs of numbers that a thread has of one board
constexpr int BACK_GROUPS = 3;
constexpr int STAGES = 4;
constexpr int STAGE = IMAGE + 8 * MIDDLE;
static_assert(N <= 112 && INPUTS <= 8, "this board is too large");

//WGMMA//

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// ---- barriers and copies ----

__device__ __forceinline__ void init_barrier(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void expect_bytes(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void wait_barrier(u32 bar, u32 parity) {
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void load_bulk(u32 to, const void* from, u32 bytes, u32 bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void store_bulk(void* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void show_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void sync_group(int group) {
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
__device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
// The number of the warp group, which the compiler then knows to be the same for all its threads.
__device__ __forceinline__ int find_group() { return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); }
template <int LEFT>
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// A matrix in shared memory, as the tensor cores want it described; both offsets in bytes.
__device__ __forceinline__ u64 describe(u32 address, u32 leading, u32 stride) {
    return static_cast<u64>((address & 0x3ffff) >> 4) | static_cast<u64>(leading >> 4) << 16 |
           static_cast<u64>(stride >> 4) << 32;
}

// ---- numbers ----

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
__device__ __forceinline__ u32 pack_relu(float low, float high) {
    u32 word;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
__device__ __forceinline__ float low(u32 word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(u32 word) { return __uint_as_float(word & 0xffff0000u); }

__device__ constexpr bool is_padding(int column) { return column % PITCH == COLS || column >= ROWS * PITCH; }
// Which bits of the pair in column block j, quarter q, belong to cells.
__device__ constexpr u32 cell_bits(int j, int q) {
    return (is_padding(8 * j + 2 * q) ? 0u : 0xffffu) | (is_padding(8 * j + 2 * q + 1) ? 0u : 0xffff0000u);
}
__device__ __forceinline__ u32 keep_cells(u32 word, int j, int q) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (cell_bits(j, k) != 0xffffffffu)
            if (q == k) word &= cell_bits(j, k);
    return word;
}

__device__ __forceinline__ float keep_cell(float number, int j, int q, int e) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (is_padding(8 * j + 2 * k + e))
            if (q == k) number = 0;
    return number;
}

__device__ __forceinline__ void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
                 "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void load_matrices(u32 address, u32& a, u32& b, u32& c, u32& d) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address) : "memory");
}

// ---- what the kernels share ----

// Where a thread stands in its warp group.
struct Place {
    int group, thread, warp, lane, quarter, row;  // row: the first of its two channels; the other is 8 more
    u32 image;                                    // shared-memory address of the group's board
    u32 matrix;                                   // this lane's row of the 8x8 matrices that it stores and loads

    __device__ __forceinline__ Place(u32 images) {
        group = find_group();
        thread = threadIdx.x % 128;
        warp = __shfl_sync(0xffffffffu, thread / 32, 0);
        lane = thread % 32;
        quarter = lane % 4;
        row = 16 * warp + lane / 4;
        image = images + group * IMAGE;
        const int which = lane / 8;
        matrix = image + (2 * warp + (which & 1)) * PLANE + (START + 8 * (which >> 1) + lane % 8) * 16;
    }
};

// The weights that stream by: one slot for each direction of two layers.
struct Ring {
    u32 weights, full, empty;

    __device__ __forceinline__ void start(int consumers) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            init_barrier(full + 8 * slot, 1);
            init_barrier(empty + 8 * slot, consumers);
        }
    }
    // One thread: bring the layers' weights again and again.
    __device__ __forceinline__ void feed(const char* from, int rounds) {
        int layer = 0;
        for (int round = 0; round < rounds; ++round)
            for (int k = 0; k < LAYERS; ++k, ++layer)
                for (int tap = 0; tap < 9; ++tap) {
                    const int slot = (layer & 1) * 9 + tap;
                    wait_barrier(empty + 8 * slot, ((layer >> 1) & 1) ^ 1);
                    expect_bytes(full + 8 * slot, TAP);
                    load_bulk(weights + slot * TAP, from + (k * 9 + tap) * TAP, TAP, full + 8 * slot);
                }
    }
};

// acc = the convolution of the group's image with the layer's weights; on return all four warps may still read it.
__device__ __forceinline__ void convolve(float (&acc)[N / 2], const Place& my, const Ring& ring, int layer) {
    const int first = (layer & 1) * 9;
    const u32 parity = (layer >> 1) & 1;
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
        const int slot = first + tap;
        wait_barrier(ring.full + 8 * slot, parity);
        begin_products();
        const u32 shifted = my.image + (START + (tap / 3 - 1) * PITCH + tap % 3 - 1) * 16;
        const u64 left = describe(ring.weights + slot * TAP, 1024, 128), right = describe(shifted, PLANE, 128);
#pragma unroll
        for (int k = 0; k < 4; ++k) multiply(acc, left + k * (2048 / 16), right + k * (2 * PLANE / 16), tap + k > 0);
        commit_products();
        if (tap > 0) {
            wait_products<1>();
            if (my.lane == 0) arrive(ring.empty + 8 * (slot - 1));
        }
    }
    wait_products<0>();
    if (my.lane == 0) arrive(ring.empty + 8 * (first + 8));
}

// The sums of two numbers over a warp group. `scratch`: 16 float2 of the group; the caller alternates `turn`.
__device__ __forceinline__ float2 sum_group(float a, float b, const Place& my, float2* scratch, int turn) {
#pragma unroll
    for (int away = 16; away > 0; away >>= 1) {
        a += __shfl_xor_sync(0xffffffffu, a, away);
        b += __shfl_xor_sync(0xffffffffu, b, away);
    }
    float2* mine = scratch + 4 * (turn & 1);
    if (my.lane == 0) mine[my.warp] = make_float2(a, b);
    sync_group(my.group);
    const float2 p = mine[0], q = mine[1], r = mine[2], s = mine[3];
    return make_float2((p.x + q.x) + (r.x + s.x), (p.y + q.y) + (r.y + s.y));
}

// The middle of the image, without the zeros above and below, to device memory.
__device__ __forceinline__ void save_image(char* to, const Place& my) {
    if (my.thread < 8) store_bulk(to + my.thread * MIDDLE, my.image + my.thread * PLANE + START * 16, MIDDLE);
}

__device__ __forceinline__ void clear(u32 address, int bytes) {
    for (int at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address + at), "r"(0) : "memory");
}

// ---- forward ----

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

// ---- the gradient of the boards ----

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

// ---- the gradient of the weights ----

// A thread's part of the gradient as rows of a product: 7 pieces of 16 positions.
__device__ __forceinline__ void load_rows(u32 (&left)[N / 16][4], u32 image, const Place& my) {
    const int which = my.lane / 8;
    const u32 at = image + (2 * my.warp + (which & 1)) * MIDDLE + (8 * (which >> 1) + my.lane % 8) * 16;
#pragma unroll
    for (int k = 0; k < N / 16; ++k) load_matrices(at + k * 256, left[k][0], left[k][1], left[k][2], left[k][3]);
}

// The gradient of the biases: the sums of the rows, a third of the pieces in each group.
__device__ __forceinline__ void add_rows(float (&bias)[2], const u32 (&left)[N / 16][4], const Place& my) {
#pragma unroll
    for (int piece = 0; piece < N / 16; ++piece)
        if (piece % 3 == my.group)
#pragma unroll
            for (int k = 0; k < 4; ++k) bias[k & 1] += low(left[piece][k]) + high(left[piece][k]);
}

__device__ __forceinline__ void write_rows(float* out, float (&bias)[2], const Place& my) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        bias[half] += __shfl_xor_sync(0xffffffffu, bias[half], 1);
        bias[half] += __shfl_xor_sync(0xffffffffu, bias[half], 2);
        if (my.quarter == 0) out[my.group * CHANNELS + my.row + 8 * half] = bias[half];
    }
}

struct Stages {
    u32 base, full, empty;
    __device__ __forceinline__ u32 stage(int k) const { return base + k % STAGES * STAGE; }
    __device__ __forceinline__ u32 filled(int k) const { return full + 8 * (k % STAGES); }
    __device__ __forceinline__ u32 used(int k) const { return empty + 8 * (k % STAGES); }
};

// One warp: bring what the convolution read and its output's gradient, board by board.
template <bool IS_STEM>
__device__ __forceinline__ void feed_stages(const Stages& ring, const char* read, const char* gradient, int begin,
                                            int step, int boards, int lane) {
    constexpr int PLANES = IS_STEM ? 1 : 8;
    for (int board = begin, k = 0; board < boards; board += step, ++k) {
        if (lane == 0) {
            wait_barrier(ring.used(k), (k / STAGES & 1) ^ 1);
            expect_bytes(ring.filled(k), (PLANES + 8) * MIDDLE);
        }
        __syncwarp();
        const u32 to = ring.stage(k);
        if (lane < PLANES)
            load_bulk(to + lane * PLANE + START * 16, read + (static_cast<u64>(board) * PLANES + lane) * MIDDLE, MIDDLE,
                      ring.filled(k));
        else if (lane == 8)
            load_bulk(to + IMAGE, gradient + static_cast<u64>(board) * (8 * MIDDLE), 8 * MIDDLE, ring.filled(k));
    }
}

__device__ __forceinline__ void add_layer(const Stages& ring, const Place& my, float* out, float* rows, int begin, int step,
                                          int boards) {
    float acc[3][32], bias[2] = {0, 0};
#pragma unroll
    for (int tap = 0; tap < 3; ++tap)
#pragma unroll
        for (int k = 0; k < 32; ++k) acc[tap][k] = 0;
#pragma unroll 1
    for (int board = begin, k = 0; board < boards; board += step, ++k) {
        u32 left[N / 16][4];
        wait_barrier(ring.filled(k), k / STAGES & 1);
        load_rows(left, ring.stage(k) + IMAGE, my);
        begin_products();
#pragma unroll
        for (int piece = 0; piece < N / 16; ++piece)
#pragma unroll
            for (int tap = 0; tap < 3; ++tap) {
                const int shift = START + (my.group - 1) * PITCH + tap - 1 + 16 * piece;
                multiply_rows(acc[tap], left[piece], describe(ring.stage(k) + shift * 16, 128, PLANE));
            }
        commit_products();
        add_rows(bias, left, my);
        wait_products<0>();
        if (my.lane == 0) arrive(ring.used(k));
    }
    write_rows(rows, bias, my);
#pragma unroll
    for (int tap = 0; tap < 3; ++tap)
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            const int row = my.row + 8 * (k & 1), column = 8 * (k / 2) + 2 * my.quarter;
            *reinterpret_cast<float2*>(out + (row * 9 + 3 * my.group + tap) * CHANNELS + column) =
                make_float2(acc[tap][2 * k], acc[tap][2 * k + 1]);
        }
}

__device__ __forceinline__ void add_stem(const Stages& ring, const Place& my, float* out, float* rows, int begin, int step,
                                         int boards) {
    float acc[12], bias[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < 12; ++k) acc[k] = 0;
#pragma unroll 1
    for (int board = begin, k = 0; board < boards; board += step, ++k) {
        u32 left[N / 16][4];
        wait_barrier(ring.filled(k), k / STAGES & 1);
        load_rows(left, ring.stage(k) + IMAGE, my);
        begin_products();
#pragma unroll
        for (int piece = 0; piece < N / 16; ++piece) {
            const int shift = START + (my.group - 1) * PITCH - 1 + 16 * piece;
            multiply_stem_rows(acc, left[piece], describe(ring.stage(k) + shift * 16, 128, 16));
        }
        commit_products();
        add_rows(bias, left, my);
        wait_products<0>();
        if (my.lane == 0) arrive(ring.used(k));
    }
    write_rows(rows, bias, my);
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        const int row = my.row + 8 * (k & 1), column = 8 * (k / 2) + 2 * my.quarter;
        *reinterpret_cast<float2*>(out + (row * 3 + my.group) * 24 + column) = make_float2(acc[2 * k], acc[2 * k + 1]);
    }
}

// Grid: `slices` for each layer, and the rest for the stem. `parts`: [LAYERS][slices][64][9][64]; `stem_parts`:
// [the rest][64][3][24]; `rows`: [grid][3][64], the biases.
extern "C" __global__ void __launch_bounds__(128 * 3 + 128, 1)
    boards_weights(const char* inputs, const char* after, const char* gradients, float* parts, float* stem_parts,
                   float* rows, int slices, int boards) {
    const u32 base = shared_address(memory);
    const Stages ring{base, base + STAGES * STAGE, base + STAGES * STAGE + 8 * STAGES};
    clear(base, STAGES * STAGE);
    if (threadIdx.x == 0)
        for (int k = 0; k < STAGES; ++k) {
            init_barrier(ring.full + 8 * k, 1);
            init_barrier(ring.empty + 8 * k, 12);
        }
    show_to_async();
    __syncthreads();
    const int layer = blockIdx.x / slices;
    const bool is_stem = layer >= LAYERS;
    const int begin = is_stem ? blockIdx.x - LAYERS * slices : blockIdx.x % slices;
    const int step = is_stem ? gridDim.x - LAYERS * slices : slices;
    const u64 tensor = static_cast<u64>(boards) * (8 * MIDDLE);
    if (find_group() == 3) {
        give_registers();
        const int lane = threadIdx.x % 32;
        if (threadIdx.x >= 416) return;
        if (is_stem)
            feed_stages<true>(ring, inputs, gradients, begin, step, boards, lane);
        else
            feed_stages<false>(ring, after + layer * tensor, gradients + (layer + 1) * tensor, begin, step, boards, lane);
        return;
    }
    take_registers<160>();
    const Place my(base);
    if (is_stem)
        add_stem(ring, my, stem_parts + begin * (64 * 72), rows + blockIdx.x * 192, begin, step, boards);
    else
        add_layer(ring, my, parts + static_cast<u64>(blockIdx.x) * (64 * 576), rows + blockIdx.x * 192, begin, step, boards);
}
