// Recording a step of every environment: the ring's row, running returns, sums over finished episodes in a fixed order,
// the totals, and how many updates are due then.
//
// Constants: ENVS boards, INPUTS numbers of an observation (OBS_T), FRAME of them stored in a row; ACTION_T, type of a
// stored action; ACTIONS; MASKED, whether some can be illegal, STORED_MASKS, whether the ring keeps that; RING_ROWS;
// STACK frames of an observation; OUTCOMES of an episode; BLOCKS of RECORDERS threads.

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
    unsigned* notes; // [3]: blocks that are done, their transitions and ended episodes; all 0 between two calls
};

struct Decision {
    int64 starts, most;
    unsigned long long times_high, times_low, per_high, per_low;  // a transition earns times / per updates
    int* due;  // the updates to do now; null: nothing is decided here
};

constexpr int FIGURES = 3 + OUTCOMES, WARPS = RECORDERS / 32;
constexpr bool ALONE = BLOCKS == 1;
constexpr int64 NUMBERS = (int64)ENVS * INPUTS;  // of all observations
constexpr bool QUICK = FRAME == INPUTS && NUMBERS * sizeof(OBS_T) % 16 == 0;  // 16 bytes at a time

struct __align__(16) Piece {
    int parts[4];
};

// In whole numbers, as `TrainRatio` counts.
__device__ inline int64 count_earned(Decision d, int64 counted) {
    if (counted <= 0) return 0;
    const wide times = (wide)d.times_high << 64 | d.times_low, per = (wide)d.per_high << 64 | d.per_low;
    const wide product = counted * times;
    if (!d.per_high && !(unsigned long long)(product >> 64)) return (unsigned long long)product / d.per_low;
    return (int64)(product / per);
}

// The next row's observations and masks, and the collector's copies.
__device__ inline void copy_answer(RingColumns ring, Answer answer, int64 after, OBS_T* seen, byte* seen_mask) {
    const int at = blockIdx.x * RECORDERS + threadIdx.x;
    constexpr int all = BLOCKS * RECORDERS;
    if constexpr (QUICK) {
        constexpr int pieces = NUMBERS * sizeof(OBS_T) / 16;
        Piece* to = reinterpret_cast<Piece*>(ring.obs + after * NUMBERS);
        #pragma unroll 4
        for (int k = at; k < pieces; k += all) {
            const Piece piece = reinterpret_cast<const Piece*>(answer.obs)[k];
            reinterpret_cast<Piece*>(seen)[k] = piece;
            to[k] = piece;
        }
    } else {
        for (int64 k = at; k < NUMBERS; k += all) {
            const OBS_T number = answer.obs[k];
            const int64 i = k / INPUTS, place = k % INPUTS - (INPUTS - FRAME);
            seen[k] = number;
            if (place >= 0) ring.obs[(after * ENVS + i) * FRAME + place] = number;
        }
    }
    for (int64 k = at; MASKED && answer.mask && k < (int64)ENVS * ACTIONS; k += all) {
        seen_mask[k] = answer.mask[k];
        if (STORED_MASKS) ring.mask[after * ENVS * ACTIONS + k] = answer.mask[k];
    }
}

__device__ inline float sum_over_warp(float number) {
    for (int step = 16; step > 0; step /= 2) number += __shfl_xor_sync(0xffffffffu, number, step);
    return number;
}

// Complete the newest row with what the environments answered, open the next one, and count.
extern "C" __global__ void __launch_bounds__(RECORDERS) record(
    RingColumns ring, Answer answer, Tally tally, Decision decision, OBS_T* seen, byte* seen_mask) {
    __shared__ float sums[WARPS][FIGURES];
    __shared__ int last;
    const int64 row = ring.head[0], after = row + 1 < RING_ROWS ? row + 1 : 0;
    const int at = blockIdx.x * RECORDERS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float figures[FIGURES];
    bool over = false, counts = false;
    if (at < ENVS) {
        const int64 slot = row * ENVS + at;
        const bool reset = ring.ended[at], terminated = answer.terminated[at], truncated = answer.truncated[at];
        const float reward = answer.reward[at];
        float* running = tally.running + (int64)at * FIGURES;
        over = terminated || truncated;
        counts = !reset;
        figures[0] = running[0];
        figures[1] = running[1] + reward;
        figures[2] = running[2] + (counts ? 1.0f : 0.0f);
        for (int k = 0; k < OUTCOMES; k++) figures[3 + k] = answer.outcomes[(int64)at * OUTCOMES + k];
        ring.action[slot] = (ACTION_T)answer.action[at];
        ring.reward[slot] = reward;
        ring.kind[slot] = reset ? RESET : terminated ? TERMINATED : truncated ? TRUNCATED : STEP;
        if (STACK > 1) {
            const int age = ring.age[slot] + 1;
            ring.age[after * ENVS + at] = reset ? 0 : age < STACK - 1 ? age : STACK - 1;
        }
        ring.ended[at] = over;
        running[1] = over ? 0.0f : figures[1];
        running[2] = over ? 0.0f : figures[2];
        for (int k = 0; k < OUTCOMES; k++) running[3 + k] = figures[3 + k] = over ? figures[3 + k] : 0.0f;
    }
    copy_answer(ring, answer, after, seen, seen_mask);
    const int steps = __syncthreads_count(counts), ends = __syncthreads_count(over);
    if (ends) {  // sums in a fixed order: lanes, then warps, then blocks
        for (int k = 0; k < FIGURES; k++) {
            const float sum = sum_over_warp(over ? figures[k] : 0.0f);
            if (lane == 0) sums[warp][k] = sum;
        }
        __syncthreads();
    }
    float sum = 0.0f;
    if (threadIdx.x < FIGURES) {
        for (int w = 0; ends && w < WARPS; w++) sum += sums[w][threadIdx.x];
        if (!ALONE) tally.parts[(int64)blockIdx.x * FIGURES + threadIdx.x] = sum;
    }
    int64 transitions = steps, episodes = ends;
    if (!ALONE) {  // the block that comes last goes on
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(tally.notes + 1, (unsigned)steps);
            atomicAdd(tally.notes + 2, (unsigned)ends);
            __threadfence();
            last = atomicAdd(tally.notes, 1u) == BLOCKS - 1;
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        transitions = ((volatile unsigned*)tally.notes)[1];
        episodes = ((volatile unsigned*)tally.notes)[2];
        for (int k = warp; episodes && k < FIGURES; k += WARPS) {
            float part = 0.0f;
            for (int b = lane; b < BLOCKS; b += 32) part += ((volatile float*)tally.parts)[(int64)b * FIGURES + k];
            part = sum_over_warp(part);
            if (lane == 0) tally.sums[k] += part;
        }
    } else if (ends && threadIdx.x < FIGURES) {
        tally.sums[threadIdx.x] += sum;
    }
    if (threadIdx.x == 0) {
        const int64 all = tally.totals[0] + transitions, filled = ring.filled[0] + 1;
        if (!ALONE) tally.notes[0] = tally.notes[1] = tally.notes[2] = 0;
        tally.totals[0] = all;
        tally.totals[1] += episodes;
        ring.filled[0] = filled < RING_ROWS - 1 ? filled : RING_ROWS - 1;
        ring.head[0] = after;
        if (decision.due) {
            int64 due = count_earned(decision, all - decision.starts) - tally.totals[2];
            due = due < 0 ? 0 : due > decision.most ? decision.most : due;
            tally.totals[2] += due;
            decision.due[0] = (int)due;
        }
    }
}
