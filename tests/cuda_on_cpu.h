// Enough of CUDA C++ to run a kernel on the CPU: blocks one after the other, a block's threads as coroutines that take
// turns at barriers and shuffles. Slow, but the same source, and an index out of range can be seen by a sanitizer.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

using std::fmaf;
using std::pow;

#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct Index { unsigned x, y, z; };
struct __align__(16) float4 { float x, y, z, w; };

static Index threadIdx, blockIdx, blockDim, gridDim;

namespace cpu {

constexpr int STACK = 1 << 16, WARP = 32, MOST_THREADS = 1024;

struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
};

static std::vector<Thread> threads;
static ucontext_t scheduler;
static void (*body)();
static int current, alive;
static int arrived[MOST_THREADS / WARP + 1], round_of[MOST_THREADS / WARP + 1];  // the last place is the whole block
static int warp_size[MOST_THREADS / WARP + 1];
static double values[MOST_THREADS];
static int flags;

inline void run_body() {
    body();
    threads[current].done = true;
}

// Wait until all threads of a warp, or of the block, are here.
inline void meet(int place) {
    const int round = round_of[place];
    if (++arrived[place] == warp_size[place]) {
        arrived[place] = 0;
        round_of[place]++;
        return;
    }
    while (round_of[place] == round) {
        const int me = current;
        swapcontext(&threads[me].context, &scheduler);
    }
}

inline void run_block(int count) {
    if ((int)threads.size() < count) threads.resize(count);
    alive = count;
    std::memset(arrived, 0, sizeof arrived);
    for (int place = 0; place < MOST_THREADS / WARP; place++) warp_size[place] = WARP;
    warp_size[MOST_THREADS / WARP] = count;
    for (int t = 0; t < count; t++) {
        Thread& thread = threads[t];
        thread.stack.resize(STACK);
        thread.done = false;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = STACK;
        thread.context.uc_link = &scheduler;
        makecontext(&thread.context, run_body, 0);
    }
    for (bool busy = true; busy;) {
        busy = false;
        for (int t = 0; t < count; t++) {
            if (threads[t].done) continue;
            current = t;
            threadIdx.x = t;
            swapcontext(&scheduler, &threads[t].context);
            busy = true;
        }
    }
}

inline void run_grid(int blocks, int count, void (*kernel)()) {
    body = kernel;
    gridDim = {(unsigned)blocks, 1, 1};
    blockDim = {(unsigned)count, 1, 1};
    for (int b = 0; b < blocks; b++) {
        blockIdx.x = b;
        run_block(count);
    }
}

}  // namespace cpu

inline void __syncthreads() { cpu::meet(cpu::MOST_THREADS / cpu::WARP); }

inline int __syncthreads_count(int yes) {
    cpu::flags += yes != 0;
    __syncthreads();
    const int count = cpu::flags;
    __syncthreads();
    cpu::flags = 0;
    __syncthreads();
    return count;
}

template <typename T>
inline T __shfl_xor_sync(unsigned, T value, int mask) {
    const int me = threadIdx.x;
    cpu::values[me] = (double)value;
    cpu::meet(me / cpu::WARP);
    const T other = (T)cpu::values[me ^ mask];
    cpu::meet(me / cpu::WARP);
    return other;
}

template <typename T>
inline T atomicAdd(T* place, T value) {
    const T before = *place;
    *place += value;
    return before;
}

inline void __threadfence() {}
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
