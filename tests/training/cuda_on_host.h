// The hardware part of the resident kernel (source/device.cuh) for a C++ compiler: every CUDA thread is a fiber, and a
// matrix instruction is done when all lanes of its warp have come to it. Shared memory begins as NaN.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#define HOST_SHIM
#define DEVICE inline
#define KERNEL void

struct alignas(16) float4 {
  float x, y, z, w;
};

namespace host {
struct Warp {
  int arrived = 0, turn = 0;
  float in[32][10], out[32][4];
};
struct Copy {
  float* to;
  const float* from;
  int bytes;
};
struct Fiber {
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> closed;
  ucontext_t start;
  jmp_buf here;
  int thread, block;
  bool begun = false, done = false;
  int cluster_turn = 0;
  std::vector<char> stack;
};
struct Block {
  std::vector<float> memory;
  std::vector<Warp> warps;
  int arrived = 0, turn = 0;
};
inline std::vector<Block> blocks;
inline std::vector<Fiber*> fibers;
inline Fiber* now;
inline jmp_buf scheduler;
inline int cluster_arrived, cluster_turn;
inline bool eager;
inline void (*entry)();

inline void yield() {
  if (!_setjmp(now->here)) _longjmp(scheduler, 1);
}
inline void begin() {
  entry();
  now->done = true;
  _longjmp(scheduler, 1);
}
// All lanes leave numbers; the last one to come does the work for all.
template <class Work>
void meet(Work work) {
  Warp& warp = blocks[now->block].warps[now->thread / 32];
  int turn = warp.turn;
  if (++warp.arrived == 32) {
    work(warp);
    warp.arrived = 0, warp.turn++;
  }
  while (warp.turn == turn) yield();
}
// Runs all fibers to their end, in an order that `seed` chooses for every round: results must not depend on it.
inline void run(int block_count, int threads, size_t floats, int seed, void (*work)()) {
  blocks.assign(block_count, {});
  eager = seed % 2, entry = work, cluster_arrived = cluster_turn = 0;
  for (auto& block : blocks) {
    block.memory.assign(floats + 4, std::numeric_limits<float>::quiet_NaN());
    block.warps.resize(threads / 32);
  }
  for (int i = 0; i < block_count * threads; i++) {
    Fiber* fiber = new Fiber;
    fiber->thread = i % threads, fiber->block = i / threads;
    fiber->stack.resize(64 * 1024);
    getcontext(&fiber->start);
    fiber->start.uc_stack = {fiber->stack.data(), 0, fiber->stack.size()};
    fiber->start.uc_link = nullptr;
    makecontext(&fiber->start, begin, 0);
    fibers.push_back(fiber);
  }
  std::mt19937 random(seed);
  std::vector<int> order(block_count * threads / 32);
  for (size_t i = 0; i < order.size(); i++) order[i] = int(i);
  static volatile bool left;
  do {
    left = false;
    if (seed) std::shuffle(order.begin(), order.end(), random);
    for (static volatile size_t w = 0; w < order.size() || (w = 0); w = w + 1) {
      for (static volatile int lane = 0; lane < 32 || (lane = 0); lane = lane + 1) {
        now = fibers[order[w] * 32 + lane];
        if (now->done) continue;
        left = true;
        if (_setjmp(scheduler)) continue;
        if (now->begun) _longjmp(now->here, 1);
        now->begun = true;
        setcontext(&now->start);
      }
    }
  } while (left);
  for (Fiber* fiber : fibers) {
    if (!fiber->open.empty() || !fiber->closed.empty()) std::fprintf(stderr, "copies were not waited for\n"), std::abort();
    delete fiber;
  }
  fibers.clear();
}
}  // namespace host

inline int thread_index() { return host::now->thread; }
inline int block_index() { return host::now->block; }
inline float* shared_memory() {
  float* start = host::blocks[block_index()].memory.data();
  return start + (16 - reinterpret_cast<uintptr_t>(start) % 16) % 16 / 4;
}
inline void sync_block() {
  auto& block = host::blocks[block_index()];
  int turn = block.turn;
  if (++block.arrived == 32 * WARPS) block.arrived = 0, block.turn++;
  while (block.turn == turn) host::yield();
}
inline float shuffle_xor(float value, int lanes) {
  int lane = thread_index() % 32;
  auto& warp = host::blocks[block_index()].warps[thread_index() / 32];
  warp.in[lane][0] = value;
  host::meet([lanes](host::Warp& w) {
    for (int i = 0; i < 32; i++) w.out[i][0] = w.in[i ^ lanes][0];
  });
  return warp.out[lane][0];
}
#if TF32
inline float round_tf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x1000) & 0xffffe000;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline float read_tf32(float value) {  // the matrix units ignore the low bits: nothing may be lost there
  if (STRICT && value == value && round_tf32(value) != value) std::fprintf(stderr, "a factor was not rounded: %a\n", value), std::abort();
  return value;
}
#else
inline float round_tf32(float value) { return value; }
inline float read_tf32(float value) { return value; }
#endif
inline float divide(float a, float b) { return a / b; }
inline float take_root(float value) { return std::sqrt(value); }
inline void multiply_add(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
  int lane = thread_index() % 32;
  auto& warp = host::blocks[block_index()].warps[thread_index() / 32];
  float in[10] = {a0, a1, a2, a3, b0, b1, c[0], c[1], c[2], c[3]};
  std::memcpy(warp.in[lane], in, sizeof in);
  host::meet([](host::Warp& w) {
    float a[16][8], b[8][8];
    for (int i = 0; i < 32; i++) {
      int g = i / 4, t = i % 4;
      a[g][t] = w.in[i][0], a[g + 8][t] = w.in[i][1], a[g][t + 4] = w.in[i][2], a[g + 8][t + 4] = w.in[i][3];
      b[t][g] = w.in[i][4], b[t + 4][g] = w.in[i][5];
    }
    for (int i = 0; i < 32; i++) {
      for (int k = 0; k < 4; k++) {
        int row = i / 4 + k / 2 * 8, column = i % 4 * 2 + k % 2;
        float sum = w.in[i][6 + k];
        for (int j = 0; j < 8; j++) sum += read_tf32(a[row][j]) * read_tf32(b[j][column]);
        w.out[i][k] = sum;
      }
    }
  });
  std::memcpy(c, warp.out[lane], 16);
}
// Copies happen as late as they may, when they are waited for, or (with an odd seed) at once: so a missing wait shows, and
// a copy over what others still read.
inline void copy_later(float* shared, const float* from, int bytes) {
  if (reinterpret_cast<uintptr_t>(shared) % bytes || reinterpret_cast<uintptr_t>(from) % bytes) std::abort();
  if (host::eager) std::memcpy(shared, from, bytes);
  else host::now->open.push_back({shared, from, bytes});
}
inline void copy_async(float* shared, const float* from) { copy_later(shared, from, 16); }
inline void copy_one_async(float* shared, const float* from) { copy_later(shared, from, 4); }
inline void close_copies() {
  host::now->closed.push_back(std::move(host::now->open));
  host::now->open.clear();
}
template <int N = 0>
void wait_for_copies() {
  auto& closed = host::now->closed;
  while (int(closed.size()) > N) {
    for (const auto& copy : closed.front()) std::memcpy(copy.to, copy.from, copy.bytes);
    closed.erase(closed.begin());
  }
}
struct Clock {
  long long *times, last;
  void start() {}
  void mark(int) {}
};
struct Barrier {
  unsigned* counter;
  unsigned seen;
  Clock clock;
  void arrive() {
    host::now->cluster_turn = host::cluster_turn;
    if (++host::cluster_arrived == BLOCKS * 32 * WARPS) host::cluster_arrived = 0, host::cluster_turn++;
  }
  void wait() {
    while (host::cluster_turn == host::now->cluster_turn) host::yield();
  }
};
