// Products of activations and weights. All inner products are cut in the same order on every run.

struct Lane {
  int warp, g, t;  // a lane of a matrix instruction: row and column, see multiply_add
};
DEVICE Lane get_lane() {
  int tid = thread_index();
  return {tid / 32, tid % 32 / 4, tid % 4};
}

// Whether the block has units of layer l.
template <int l>
DEVICE bool is_busy() { return block_index() * units(l) < width(l); }

// Rows [16 · tile, +16) of activations times 8 · TILES rows of weights, over `chunks` chunks of 16 inputs. The order of the
// inputs within a chunk is free as long as both sides agree: a lane takes four neighbors with one load.
template <int TILES, int CHUNKS>
DEVICE void multiply_rows(const float* a0, const float* a1, const float* weights, int row, float (&sum)[TILES][2][4]) {
  constexpr int BURST = CHUNKS < MOST_LOADS ? CHUNKS : MOST_LOADS;
#pragma unroll
  for (int q = 0; q < CHUNKS; q += BURST) {
    float4 x0[BURST], x1[BURST];
#pragma unroll
    for (int k = 0; k < BURST; k++) {
      if (q + k < CHUNKS) x0[k] = load4(a0 + 16 * (q + k)), x1[k] = load4(a1 + 16 * (q + k));
    }
#pragma unroll
    for (int k = 0; k < BURST; k++) {
      if (q + k >= CHUNKS) continue;
#pragma unroll
      for (int n = 0; n < TILES; n++) {
        float4 w = load4(weights + n * 8 * row + 16 * (q + k));
        multiply_add(sum[n][0], x0[k].x, x1[k].x, x0[k].y, x1[k].y, round_tf32(w.x), round_tf32(w.y));
        multiply_add(sum[n][1], x0[k].z, x1[k].z, x0[k].w, x1[k].w, round_tf32(w.z), round_tf32(w.w));
      }
    }
  }
}

// Leave a tile's sums in shared memory, [rows, units + 4].
template <int TILES>
DEVICE void leave_sums(float* part, int row, int units_row, const Lane& lane, const float (&sum)[TILES][2][4]) {
#pragma unroll
  for (int n = 0; n < TILES; n++) {
    float* to = part + (row + lane.g) * units_row + 8 * n + 2 * lane.t;
    to[0] = sum[n][0][0] + sum[n][1][0], to[1] = sum[n][0][1] + sum[n][1][1];
    to[8 * units_row] = sum[n][0][2] + sum[n][1][2], to[8 * units_row + 1] = sum[n][0][3] + sum[n][1][3];
  }
}

// The block's units of hidden layer l, of all streams: sums into shared memory (`part`, one [ALL_ROWS, units + 4] per cut).
template <int l>
DEVICE void multiply_forward(float* scratch, int update, float* shared) {
  constexpr int TILES = units(l) / 8, CHUNKS = stride(l - 1) / 16, CUTS = forward_cuts(l), EACH = divide_up(CHUNKS, CUTS);
  constexpr int TASKS = ALL_ROWS / 16 * CUTS, UNITS_ROW = units(l) + 4;
  const Lane lane = get_lane();
  for (int task = lane.warp; task < TASKS; task += WARPS) {
    const int cut = task % CUTS, row = task / CUTS * 16, stream = row / ROWS;
    const float* from = scratch + scratch_hidden(l - 1);
    if (l == 1) {  // both streams of next_obs read the same observations
      from += (long long)update * X_SIZE + (row - (stream > 1 ? ROWS : 0)) * stride(0);
    } else {
      from += row * stride(l - 1);
    }
    from += lane.g * stride(l - 1) + 4 * lane.t + 16 * EACH * cut;
    const float* weights = shared + shared_weight(l) + (stream == TARGET_STREAM ? weight_size(l) : 0);
    weights += lane.g * weight_row(l) + 4 * lane.t + 16 * EACH * cut;
    float sum[TILES][2][4] = {};
    constexpr int LAST = CHUNKS - EACH * (CUTS - 1);
    if (cut < CUTS - 1) {
      multiply_rows<TILES, EACH>(from, from + 8 * stride(l - 1), weights, weight_row(l), sum);
    } else {
      multiply_rows<TILES, LAST>(from, from + 8 * stride(l - 1), weights, weight_row(l), sum);
    }
    leave_sums<TILES>(shared + SH_PART + cut * ALL_ROWS * UNITS_ROW, row, UNITS_ROW, lane, sum);
  }
}

DEVICE float activate(float sum) { return sum > 0.0f ? round_tf32(sum) : (sum == sum ? 0.0f : sum); }

// Bias, ReLU; the result goes to everybody through the scratch memory, except for the last layer, which only its owner reads.
template <int l>
DEVICE void finish_forward(float* scratch, float* shared) {
  constexpr int UNITS_ROW = units(l) + 4, QUARTERS = units(l) / 4, CUTS = forward_cuts(l);
  const int first = block_index() * units(l);
  float* part = shared + SH_PART;
  for (int e = thread_index(); e < ALL_ROWS * QUARTERS; e += THREADS) {
    const int row = e / QUARTERS, u = e % QUARTERS * 4, stream = row / ROWS;
    const float* bias = shared + SH_BIAS + (stream == TARGET_STREAM ? ALL_BIASES : 0) + first_bias(l) + u;
    float4 sum = {bias[0], bias[1], bias[2], bias[3]};
#pragma unroll
    for (int cut = 0; cut < CUTS; cut++) sum = add4(sum, load4(part + (cut * ALL_ROWS + row) * UNITS_ROW + u));
    float4 value = {activate(sum.x), activate(sum.y), activate(sum.z), activate(sum.w)};
    if (l == LAYERS) store4(part + row * UNITS_ROW + u, value);
    if (stream == 0) store4(shared + shared_hidden(l) + row * units(l) + u, value);
    if (l < LAYERS && first + u < stride(l)) store4(scratch + scratch_hidden(l) + row * stride(l) + first + u, value);
  }
}

// Parts of the action values, from the block's units of the last hidden layer: all of next_obs, one of obs.
DEVICE void leave_values(float* scratch, float* shared) {
  constexpr int UNITS_ROW = units(LAYERS) + 4, ROW = weight_row(OUTPUT);
  const float* part = shared + SH_PART;
  const int* action = reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS;
  float* values = scratch + SC_VALUES + block_index() * VALUE_SIZE;
  constexpr int OTHERS = (STREAMS - 1) * ROWS * ACTIONS;
  for (int e = thread_index(); e < OTHERS + ROWS; e += THREADS) {
    const bool taken = e >= OTHERS;
    const int row = taken ? e - OTHERS : ROWS + e / ACTIONS, a = taken ? action[e - OTHERS] : e % ACTIONS;
    const float* weights = shared + shared_weight(OUTPUT) + (row / ROWS == TARGET_STREAM ? weight_size(OUTPUT) : 0);
    float4 sum = {};
#pragma unroll
    for (int u = 0; u < units(LAYERS); u += 4) {
      float4 h = load4(part + row * UNITS_ROW + u), w = load4(weights + a * ROW + u);
      sum.x += h.x * w.x, sum.y += h.y * w.y, sum.z += h.z * w.z, sum.w += h.w * w.w;
    }
    values[taken ? (STREAMS - 1) * ROWS * VALUES + row : (row - ROWS) * VALUES + a] = sum.x + sum.y + (sum.z + sum.w);
  }
}

// ∂loss/∂h of the block's units of layer l, before the ReLU's derivative, from everybody's deltas of layer l + 1.
template <int l>
DEVICE void multiply_backward(const float* online, const float* scratch, float* shared) {
  constexpr int CHUNKS = stride(l + 1) / 16, CUTS = backward_cuts(l), EACH = divide_up(CHUNKS, CUTS);
  constexpr int TASKS = ROWS / 16 * (units(l) / 8) * CUTS, UNITS_ROW = units(l) + 4, K = width(l);
  constexpr int BURST = 2 * EACH < MOST_LOADS ? EACH : MOST_LOADS / 2;
  const Lane lane = get_lane();
  for (int task = lane.warp; task < TASKS; task += WARPS) {
    const int cut = task % CUTS, n = task / CUTS % (units(l) / 8), row = task / (CUTS * (units(l) / 8)) * 16;
    const float* a0 = scratch + scratch_delta(l + 1) + (row + lane.g) * stride(l + 1) + 4 * lane.t;
    const float* a1 = a0 + 8 * stride(l + 1);
    const int unit = block_index() * units(l) + 8 * n + lane.g;
    const float* weights = online + weight_start(l + 1) + 4 * lane.t * K + unit;
    float sum[1][2][4] = {};
    for (int q = EACH * cut; q < EACH * (cut + 1) && q < CHUNKS; q += BURST) {
      float4 x0[BURST], x1[BURST];
      float w[BURST][4];
#pragma unroll
      for (int k = 0; k < BURST; k++) {
        if (q + k >= EACH * (cut + 1) || q + k >= CHUNKS) continue;
        x0[k] = load4(a0 + 16 * (q + k)), x1[k] = load4(a1 + 16 * (q + k));
#pragma unroll
        for (int c = 0; c < 4; c++) {
          const bool inside = unit < K && 16 * (q + k) + 4 * lane.t + c < width(l + 1);
          w[k][c] = inside ? weights[(16 * (q + k) + c) * K] : 0.0f;
        }
      }
#pragma unroll
      for (int k = 0; k < BURST; k++) {
        if (q + k >= EACH * (cut + 1) || q + k >= CHUNKS) continue;
        multiply_add(sum[0][0], x0[k].x, x1[k].x, x0[k].y, x1[k].y, round_tf32(w[k][0]), round_tf32(w[k][1]));
        multiply_add(sum[0][1], x0[k].z, x1[k].z, x0[k].w, x1[k].w, round_tf32(w[k][2]), round_tf32(w[k][3]));
      }
    }
    leave_sums<1>(shared + SH_PART + cut * ROWS * UNITS_ROW + 8 * n, row, UNITS_ROW, lane, sum);
  }
}
