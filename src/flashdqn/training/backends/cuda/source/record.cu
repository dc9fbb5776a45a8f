// Recording a step of every environment: the ring's row, running returns, sums over finished episodes in a fixed order,
// the totals, and how many updates are due then.
//
// Constants: ENVS boards, INPUTS numbers of an observation (OBS_T), FRAME of them stored in a row; ACTION_T, type of a
// stored action; ACTIONS; MASKED, whether some can be illegal, STORED_MASKS, whether the ring keeps that; RING_ROWS;
// STACK frames of an observation; OUTCOMES of an episode.

typedef long long int64;
typedef unsigned char byte;
typedef unsigned __int128 wide;

enum Kind { STEP = 0, TERMINATED = 1, TRUNCATED = 2, RESET = 3 };

struct RingColumns {
    OBS_T* obs;         // [RING_ROWS, ENVS, FRAME]
    ACTION_T* action;   // [RING_ROWS, ENVS]
    float* reward;      // [RING_ROWS, ENVS]
    byte* kind;         // [RING_ROWS, ENVS]
    byte* age;          // [RING_ROWS, ENVS], if STACK > 1
    byte* mask;         // [RING_ROWS, ENVS, ACTIONS], if STORED_MASKS
    int64* head;        // [1]
    int64* filled;      // [1]
    byte* ended;        // [ENVS]
};

struct Answer {  // of the environments
    const int64* action;
    const OBS_T* obs;  // [ENVS, INPUTS]
    const float* reward;
    const byte* terminated;
    const byte* truncated;
    const byte* mask;  // [ENVS, ACTIONS]
    const float* outcomes;  // [ENVS, OUTCOMES]
};

struct Tally {
    float* running;  // [ENVS, FIGURES]: 1, return and length of the running episode, its outcomes
    float* sums;     // [FIGURES]
    int64* totals;   // [3]: transitions, episodes, updates
    float* parts;    // [blocks, FIGURES]: sums of each block
    unsigned* notes; // [2]: blocks that are done, episodes that ended; both 0 between two calls
};

struct Decision {
    int64 starts, most;
    unsigned long long times_high, times_low, per_high, per_low;  // a transition earns times / per updates
    int* due;  // the updates to do now; null: nothing is decided here
};

constexpr int FIGURES = 3 + OUTCOMES;
constexpr int RECORDERS = 256;  // threads of a recording block

// In whole numbers, as `TrainRatio` counts.
__device__ inline void decide(Decision d, volatile int64* totals) {
    const int64 counted = totals[0] - d.starts;
    const wide times = (wide)d.times_high << 64 | d.times_low, per = (wide)d.per_high << 64 | d.per_low;
    int64 due = (counted > 0 ? (int64)(counted * times / per) : 0) - totals[2];
    due = due < 0 ? 0 : due > d.most ? d.most : due;
    totals[2] += due;
    d.due[0] = (int)due;
}

// Complete the newest row with what the environments answered, open the next one, and count.
extern "C" __global__ void __launch_bounds__(RECORDERS) record(
    RingColumns ring, Answer answer, Tally tally, Decision decision, OBS_T* seen, byte* seen_mask) {
    __shared__ float warps[RECORDERS / 32];
    __shared__ int last;
    const int64 row = ring.head[0], after = row + 1 < RING_ROWS ? row + 1 : 0;
    const int at = blockIdx.x * RECORDERS + threadIdx.x, all = gridDim.x * RECORDERS;
    for (int64 k = at; k < (int64)ENVS * INPUTS; k += all) {
        const OBS_T number = answer.obs[k];
        const int64 i = k / INPUTS, place = k % INPUTS - (INPUTS - FRAME);
        seen[k] = number;
        if (place >= 0) ring.obs[(after * ENVS + i) * FRAME + place] = number;
    }
    if (MASKED) {
        for (int64 k = at; k < (int64)ENVS * ACTIONS; k += all) {
            seen_mask[k] = answer.mask[k];
            if (STORED_MASKS) ring.mask[after * ENVS * ACTIONS + k] = answer.mask[k];
        }
    }
    float figures[FIGURES];
    bool over = false, counts = false;
    if (at < ENVS) {
        const int64 slot = row * ENVS + at;
        const bool reset = ring.ended[at], terminated = answer.terminated[at], truncated = answer.truncated[at];
        over = terminated || truncated;
        counts = !reset;
        ring.action[slot] = (ACTION_T)answer.action[at];
        ring.reward[slot] = answer.reward[at];
        ring.kind[slot] = reset ? RESET : terminated ? TERMINATED : truncated ? TRUNCATED : STEP;
        if (STACK > 1) {
            const int age = ring.age[slot] + 1;
            ring.age[after * ENVS + at] = reset ? 0 : age < STACK - 1 ? age : STACK - 1;
        }
        ring.ended[at] = over;
        float* running = tally.running + (int64)at * FIGURES;
        figures[0] = running[0];
        figures[1] = running[1] + answer.reward[at];
        figures[2] = running[2] + (counts ? 1.0f : 0.0f);
        running[1] = over ? 0.0f : figures[1];
        running[2] = over ? 0.0f : figures[2];
        for (int k = 0; k < OUTCOMES; k++) {
            figures[3 + k] = over ? answer.outcomes[(int64)at * OUTCOMES + k] : 0.0f;
            running[3 + k] = figures[3 + k];
        }
    }
    const int steps = __syncthreads_count(counts), ends = __syncthreads_count(over);
    for (int k = 0; ends && k < FIGURES; k++) {  // in a fixed order: lanes, then warps, then blocks
        float sum = over ? figures[k] : 0.0f;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < RECORDERS / 32; w++) sum += warps[w];
            tally.parts[(int64)blockIdx.x * FIGURES + k] = sum;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        if (!ends)
            for (int k = 0; k < FIGURES; k++) tally.parts[(int64)blockIdx.x * FIGURES + k] = 0.0f;
        if (steps) atomicAdd((unsigned long long*)tally.totals, (unsigned long long)steps);
        if (ends) atomicAdd(tally.notes + 1, (unsigned)ends);
        __threadfence();
        last = atomicAdd(tally.notes, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    const unsigned ended = ((volatile unsigned*)tally.notes)[1];
    const int lane = threadIdx.x % 32;
    for (int k = threadIdx.x / 32; ended && k < FIGURES; k += RECORDERS / 32) {
        float sum = 0.0f;
        for (int b = lane; b < (int)gridDim.x; b += 32) sum += ((volatile float*)tally.parts)[(int64)b * FIGURES + k];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) tally.sums[k] += sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tally.totals[1] += ended;
        tally.notes[0] = tally.notes[1] = 0;
        const int64 filled = ring.filled[0] + 1;
        ring.filled[0] = filled < RING_ROWS - 1 ? filled : RING_ROWS - 1;
        ring.head[0] = after;
        if (decision.due) decide(decision, tally.totals);
    }
}
