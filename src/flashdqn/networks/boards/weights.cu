// The gradient of the weights: every block of threads adds up one layer over its slice of the boards.


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
