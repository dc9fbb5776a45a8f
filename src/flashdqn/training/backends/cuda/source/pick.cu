// Transitions that random numbers select from the ring, as one large batch: `UniformSampler.pick` in one kernel.
//
// Constants: ENVS boards, INPUTS numbers of an observation (OBS_T), ACTION_T, type of a stored action; ACTIONS and
// STORED_MASKS, whether the ring keeps the legal ones; RING_ROWS; STEPS of a return; TRIES numbers for a sample.

typedef long long int64;
typedef unsigned char byte;

enum Kind { STEP = 0, TERMINATED = 1, TRUNCATED = 2, RESET = 3 };

struct RingColumns {
    const OBS_T* obs;        // [RING_ROWS, ENVS, INPUTS]
    const ACTION_T* action;  // [RING_ROWS, ENVS]
    const float* reward;
    const byte* kind;
    const byte* mask;    // [RING_ROWS, ENVS, ACTIONS], if STORED_MASKS
    const int64* head;   // [1]
    const int64* filled; // [1]
};

struct Batch {
    OBS_T* obs;       // [count, INPUTS]
    int64* action;    // [count]
    float* reward;    // [count]
    float* discount;  // [count]
    OBS_T* next_obs;  // [count, INPUTS]
    byte* next_mask;  // [count, ACTIONS], if STORED_MASKS
    byte* mask;       // [count, ACTIONS], if STORED_MASKS
    float* weight;    // [count]
    int64* index;     // [count]
};

constexpr int64 SLOTS = (int64)RING_ROWS * ENVS;
constexpr int PICKERS = 256;  // threads of a block

// The slot where a window starts: they are numbered from the youngest complete one back.
__device__ inline int64 window_slot(int64 head, int64 number) {
    const int64 row = head - STEPS - number / ENVS;
    return (row < 0 ? row + RING_ROWS : row) * ENVS + number % ENVS;
}

// powers: [STEPS + 1], of gamma; samples: of a block, at most PICKERS
extern "C" __global__ void __launch_bounds__(PICKERS) pick(
    RingColumns ring, Batch batch, const int64* bits, const float* powers, int count, int samples) {
    __shared__ int64 starts[PICKERS], ends[PICKERS];
    const int first = blockIdx.x * samples, here = count - first < samples ? count - first : samples;
    if ((int)threadIdx.x < here) {
        const int b = first + threadIdx.x;
        const int64 head = ring.head[0], windows = (ring.filled[0] - (STEPS - 1)) * ENVS;
        int64 slots[TRIES], slot;
        byte kinds[TRIES];
        for (int t = 0; t < TRIES; t++) slots[t] = window_slot(head, bits[(int64)t * count + b] % windows);
        for (int t = 0; t < TRIES; t++) kinds[t] = ring.kind[slots[t]];
        slot = slots[TRIES - 1];
        bool found = kinds[TRIES - 1] != RESET;
        for (int t = TRIES - 2; t >= 0; t--) {  // the first that is a transition
            if (kinds[t] == RESET) continue;
            slot = slots[t];
            found = true;
        }
        float reward = 0.0f;
        bool terminated = false;
        int64 at = slot;
        int taken = 0;
        for (bool alive = true; alive && taken < STEPS; taken++) {
            const byte kind = ring.kind[at];
            reward = STEPS == 1 ? ring.reward[at] : __fadd_rn(reward, __fmul_rn(ring.reward[at], powers[taken]));
            terminated = kind == TERMINATED;
            alive = !terminated && kind != TRUNCATED;
            at = at + ENVS < SLOTS ? at + ENVS : at + ENVS - SLOTS;
        }
        batch.action[b] = (int64)ring.action[slot];
        batch.reward[b] = reward;
        batch.discount[b] = terminated ? 0.0f : powers[taken];
        batch.weight[b] = found ? 1.0f : 0.0f;
        batch.index[b] = slot;
        starts[threadIdx.x] = slot;
        ends[threadIdx.x] = at;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < here * INPUTS; k += PICKERS) {
        const int s = k / INPUTS, i = k % INPUTS;
        const int64 to = (int64)first * INPUTS + k;
        batch.obs[to] = ring.obs[starts[s] * INPUTS + i];
        batch.next_obs[to] = ring.obs[ends[s] * INPUTS + i];
    }
    if (STORED_MASKS) {
        for (int k = threadIdx.x; k < here * ACTIONS; k += PICKERS) {
            const int s = k / ACTIONS, a = k % ACTIONS;
            const int64 to = (int64)first * ACTIONS + k;
            batch.mask[to] = ring.mask[starts[s] * ACTIONS + a];
            batch.next_mask[to] = ring.mask[ends[s] * ACTIONS + a];
        }
    }
}
