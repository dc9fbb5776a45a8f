// Rates and actions: the learning rate and the share of random actions that follow from the transitions so far, and
// the actions of an MLP, in one kernel.
//
// Constants: ENVS boards, INPUTS numbers of an observation (OBS_T), ACTIONS; MASKED, whether some can be illegal; LAYERS
// matrices between W0 = INPUTS, W1, ... numbers, the last one ACTIONS; ROWS boards and THREADS of a block; AHEAD, how many
// parameters to ask for at once. LAYERS = 0: something else acts.

typedef long long int64;
typedef unsigned char byte;

// What follows from the number of transitions. Double precision without contraction, as the host computes it.
struct Rates {
    double eps_start, eps_end, eps_over, lr_start, lr_end, lr_over;
    int eps_kind;  // 0: eps stays as it is, 1: linear, 2: exponential
    int lr_falls;
};

__device__ inline double share_of(int64 transitions, double over) {
    double share = __ddiv_rn((double)transitions, over);
    return share < 1.0 ? share : 1.0;
}

__device__ inline float exploration_rate(Rates r, int64 transitions) {
    double share = share_of(transitions, r.eps_over);
    if (r.eps_kind == 2) return (float)__dmul_rn(r.eps_start, pow(__ddiv_rn(r.eps_end, r.eps_start), share));
    return (float)__dadd_rn(r.eps_start, __dmul_rn(__dsub_rn(r.eps_end, r.eps_start), share));
}

__device__ inline float learning_rate(Rates r, int64 transitions) {
    return (float)__dadd_rn(r.lr_start, __dmul_rn(__dsub_rn(r.lr_end, r.lr_start), share_of(transitions, r.lr_over)));
}

// eps and lr for the next step; for an acting kernel that knows nothing of them.
extern "C" __global__ void set_rates(Rates rates, const int64* totals, float* eps, float* lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (rates.eps_kind && i < ENVS) eps[i] = exploration_rate(rates, totals[0]);
    if (rates.lr_falls && i == 0) lr[0] = learning_rate(rates, totals[0]);
}

#if LAYERS > 0

constexpr int widths[] = {W0, W1, W2, W3, W4, W5};  // those after the last are 0
constexpr int SHARE = 8;  // threads that share an output

constexpr int widest() {
    int most = 0;
    for (int k = 0; k < 6; k++) most = widths[k] > most ? widths[k] : most;
    return (most + 3) / 4 * 4;
}

constexpr int WIDEST = widest();

struct Places {
    int weight[LAYERS], bias[LAYERS];  // where each begins in the flat parameters
};

// Ask for all weights at once, so that layers find them in the multiprocessor's cache. Nobody waits for the answers.
__device__ inline void fetch_ahead(const float* flat) {
#ifdef __CUDA_ARCH__
    constexpr int SECTOR = 8;  // numbers that come together
    for (int k = threadIdx.x * SECTOR; k < AHEAD; k += THREADS * SECTOR) {
        float number;
        asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(number) : "l"(flat + k));
    }
#endif
}

// out = W x + b for the block's rows, then ReLU. SHARE neighboring threads read a row of W together.
template <int IN, int OUT, bool RELU>
__device__ inline void apply_layer(const float* weight, const float* bias, const float* x, float* out) {
    constexpr int WIDE = IN % 4 == 0 ? 4 : 1;
    const int part = threadIdx.x % SHARE, first = threadIdx.x / SHARE;
    for (int j0 = 0; j0 < OUT; j0 += THREADS / SHARE) {  // all threads go round together: they shuffle below
        const int j = j0 + first;
        const float* row = weight + (j < OUT ? j : 0) * IN;
        float sum[ROWS];
        for (int r = 0; r < ROWS; r++) sum[r] = 0.0f;
        if constexpr (WIDE == 4) {
            #pragma unroll 8
            for (int k = 4 * part; k < IN; k += 4 * SHARE) {
                const float4 w = *reinterpret_cast<const float4*>(row + k);
                #pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float4 v = *reinterpret_cast<const float4*>(x + r * WIDEST + k);
                    sum[r] = fmaf(w.x, v.x, fmaf(w.y, v.y, fmaf(w.z, v.z, fmaf(w.w, v.w, sum[r]))));
                }
            }
        } else {
            #pragma unroll 8
            for (int k = part; k < IN; k += SHARE) {
                const float w = row[k];
                #pragma unroll
                for (int r = 0; r < ROWS; r++) sum[r] = fmaf(w, x[r * WIDEST + k], sum[r]);
            }
        }
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            for (int step = SHARE / 2; step > 0; step /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], step);
        }
        if (j < OUT && part == 0) {
            const float shift = bias[j];
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float y = sum[r] + shift;
                out[r * WIDEST + j] = RELU && !(y > 0.0f) && y == y ? 0.0f : y;
            }
        }
    }
    __syncthreads();
}

template <int LAYER>
__device__ inline float* apply_layers(const float* flat, Places places, float* x, float* out) {
    if constexpr (LAYER == LAYERS) {
        return x;
    } else {
        apply_layer<widths[LAYER], widths[LAYER + 1], (LAYER + 1 < LAYERS)>(
            flat + places.weight[LAYER], flat + places.bias[LAYER], x, out);
        return apply_layers<LAYER + 1>(flat, places, out, x);
    }
}

// The best legal action or, where coin < eps, the floor(luck * legal)-th legal one.
__device__ inline int choose_action(const float* q, const byte* mask, float coin, float luck, float eps) {
    int legal = ACTIONS;
    if (MASKED) {
        legal = 0;
        for (int a = 0; a < ACTIONS; a++) legal += mask[a] != 0;
    }
    if (coin < eps) {
        int nth = (int)(luck * (float)legal);
        nth = nth < legal - 1 ? nth : legal - 1;
        if (!MASKED || nth < 0) return nth < 0 ? 0 : nth;
        for (int a = 0; a < ACTIONS; a++)
            if (mask[a] && nth-- == 0) return a;
    }
    int best = -1;
    for (int a = 0; a < ACTIONS; a++) {
        if (MASKED && !mask[a]) continue;
        if (best < 0 || q[a] > q[best] || (q[a] != q[a] && q[best] == q[best])) best = a;
    }
    return best < 0 ? 0 : best;
}

// Rates, if they are given, then actions of ROWS boards. luck: [2, ENVS].
extern "C" __global__ void __launch_bounds__(THREADS) act(
    const float* flat, Places places, const OBS_T* obs, const byte* mask, float* eps, const float* luck,
    int64* action, int decides, Rates rates, const int64* totals, float* lr) {
    __shared__ __align__(16) float one[ROWS * WIDEST];
    __shared__ __align__(16) float other[ROWS * WIDEST];
    const int row0 = blockIdx.x * ROWS;
    fetch_ahead(flat);
    for (int k = threadIdx.x; k < ROWS * INPUTS; k += THREADS) {
        const int r = k / INPUTS, i = k % INPUTS;
        float number = row0 + r < ENVS ? (float)obs[(row0 + r) * INPUTS + i] : 0.0f;
        one[r * WIDEST + i] = sizeof(OBS_T) == 1 ? number / 255.0f : number;
    }
    __syncthreads();
    const float* q = apply_layers<0>(flat, places, one, other);
    const int r = threadIdx.x, i = row0 + r;
    if (r < ROWS && i < ENVS) {
        float chance;
        if (decides && rates.eps_kind) {
            eps[i] = chance = exploration_rate(rates, totals[0]);
        } else {
            chance = eps[i];
        }
        action[i] = choose_action(q + r * WIDEST, mask + (int64)i * ACTIONS, luck[i], luck[ENVS + i], chance);
    }
    if (decides && rates.lr_falls && blockIdx.x == 0 && threadIdx.x == 0) lr[0] = learning_rate(rates, totals[0]);
}

#endif
