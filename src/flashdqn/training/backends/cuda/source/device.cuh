// What the kernel needs from the hardware: indices, barriers, shuffles and one matrix instruction.
// tests/training/cuda_on_host.h has the same names for a C++ compiler, so that the kernel runs on any machine.
#ifndef HOST_SHIM

#define DEVICE __device__ __forceinline__
#if CLUSTER
#define KERNEL extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(32 * WARPS, 1)
#else
#define KERNEL extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
#endif

#define INFINITY __int_as_float(0x7f800000)

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int block_index() { return blockIdx.x; }
DEVICE float* shared_memory() {
  extern __shared__ float4 memory[];
  return reinterpret_cast<float*>(memory);
}
DEVICE void sync_block() { __syncthreads(); }
DEVICE float shuffle_xor(float value, int lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }

// The nearest number with ten bits after the point, as the matrix units read it.
DEVICE float round_tf32(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

// Within two units of the last place; the exact forms cost a branch and many registers.
DEVICE float divide(float a, float b) { return __fdividef(a, b); }
DEVICE float take_root(float value) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
  return root;
}

// c += a b for a [16, 8] and b [8, 8]. With g = lane / 4 and t = lane % 4 a lane holds rows g and g + 8 of a in columns
// t (a0, a1) and t + 4 (a2, a3), rows t and t + 4 of b in column g, and of c rows g and g + 8 in columns 2t and 2t + 1.
DEVICE void multiply_add(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
        "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

// Copy 16 bytes, or 4, to shared memory without waiting for them. Copies that were issued between two calls of
// close_copies are a group; wait_for_copies<N> waits for all groups but the last N.
DEVICE void copy_async(float* shared, const float* from) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void copy_one_async(float* shared, const float* from) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N = 0>
DEVICE void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Cycles that the first thread spent in each phase, if PROFILE is set: benchmarks/resident.py shows them.
struct Clock {
  long long *times, last;

  DEVICE void start() {
#if PROFILE
    last = clock64();
#endif
  }
  DEVICE void mark(int phase) {
#if PROFILE
    const long long now = clock64();
    if (blockIdx.x == 0 && threadIdx.x == 0) times[phase] += now - last;
    last = now;
#endif
  }
};

// A barrier of all blocks in two halves: what a block wrote before it arrived, every block sees after it has waited.
struct Barrier {
  unsigned* counter;
  unsigned seen;
  Clock clock;

#if CLUSTER
  DEVICE void arrive() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  }
  DEVICE void wait() {
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
#else
  // The highest bit of the counter changes when all blocks have arrived; nobody has to reset it. `seen` is its value
  // before the kernel: it cannot change until this block arrives, too.
  DEVICE void arrive() {
    sync_block();
    if (threadIdx.x == 0) {
      const unsigned more = blockIdx.x == 0 ? 0x80000000u - (BLOCKS - 1) : 1u;
      asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(more) : "memory");
    }
  }
  DEVICE void wait() {
    if (threadIdx.x == 0) {
      unsigned now;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
      } while (!((now ^ seen) & 0x80000000u));
    }
    seen ^= 0x80000000u;
    sync_block();
  }
#endif
};

#endif

DEVICE float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
DEVICE void store4(float* to, float4 value) { *reinterpret_cast<float4*>(to) = value; }
DEVICE float4 add4(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
DEVICE float sum_over_warp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += shuffle_xor(value, lanes);
  return value;
}
