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
