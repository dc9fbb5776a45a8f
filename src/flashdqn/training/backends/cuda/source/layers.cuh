// Products of activations and weights. All sums have a fixed order.

struct Lane {
  int warp, g, t;  // a lane of a matrix instruction: row and column, see multiply_add
};
DEVICE Lane get_lane() {
  int tid = thread_index();
  return {tid / 32, tid % 32 / 4, tid % 4};
}

// Leave the sums of 16 rows and 8 columns in shared memory.
DEVICE void leave_sums(float* to, int row, const Lane& lane, const float (&even)[4], const float (&odd)[4]) {
  to += lane.g * row + 2 * lane.t;
  to[0] = even[0] + odd[0], to[1] = even[1] + odd[1];
  to[8 * row] = even[2] + odd[2], to[8 * row + 1] = even[3] + odd[3];
}

// Copy rows of a matrix to shared memory, without waiting for them.
DEVICE void stage_rows(float* to, int to_row, const float* from, int from_row, int rows, int columns) {
  const int quarters = columns / 4;
  for (int e = thread_index(); e < rows * quarters; e += THREADS) {
    const int r = e / quarters, c = e % quarters * 4;
    copy_async(to + r * to_row + c, from + r * from_row + c);
  }
}

// 16 rows of activations times 8 rows of weights over chunks of 16 inputs, all in shared memory. The order of the inputs
// within a chunk is free as long as both sides agree: a lane takes four neighbors with one load.
template <int CHUNKS, int ROW>
DEVICE void multiply_rows(const float* a, const float* w, float (&even)[4], float (&odd)[4]) {
#pragma unroll MOST_LOADS
  for (int q = 0; q < CHUNKS; q++) {
    const float4 x0 = load4(a + 16 * q), x1 = load4(a + 8 * ROW + 16 * q), y = load4(w + 16 * q);
    multiply_add(even, x0.x, x1.x, x0.y, x1.y, round_tf32(y.x), round_tf32(y.y));
    multiply_add(odd, x0.z, x1.z, x0.w, x1.w, round_tf32(y.z), round_tf32(y.w));
  }
}

// Part number `cut` of CUTS of such a product.
template <int CHUNKS, int CUTS, int ROW>
DEVICE void multiply_cut(const float* a, const float* w, int cut, float (&even)[4], float (&odd)[4]) {
  constexpr int EACH = divide_up(CHUNKS, CUTS);
  a += 16 * EACH * cut, w += 16 * EACH * cut;
  if (CHUNKS % CUTS == 0 || EACH * (cut + 1) <= CHUNKS) {
    multiply_rows<EACH, ROW>(a, w, even, odd);
  } else {
    for (int q = 0; q < CHUNKS - EACH * cut; q++) multiply_rows<1, ROW>(a + 16 * q, w + 16 * q, even, odd);
  }
}

// Numbers where the unit is active, rounded; 0 elsewhere.
DEVICE float4 pass_active(float4 h, float4 d) {
  return {h.x > 0.0f ? round_tf32(d.x) : 0.0f, h.y > 0.0f ? round_tf32(d.y) : 0.0f, h.z > 0.0f ? round_tf32(d.z) : 0.0f,
          h.w > 0.0f ? round_tf32(d.w) : 0.0f};
}

DEVICE float activate(float sum) { return sum > 0.0f ? round_tf32(sum) : (sum == sum ? 0.0f : sum); }

// Where the first layer is small, every task of the second one computes it again for its 16 rows, and saves a barrier.
constexpr int X_ROW = pad_row(stride(0)), FIRST_ROW = pad_row(stride(1));

// The first hidden layer of 16 rows, [16, FIRST_ROW], from observations and weights in shared memory; if `everybody` is not
// null, it goes there, too.
DEVICE void run_first_layer(const float* x, const float* weights, const float* bias, float* hidden, float* everybody) {
  const Lane lane = get_lane();
  for (int n = lane.warp; n < stride(1) / 8; n += WARPS) {
    const int unit = 8 * n + 2 * lane.t;
    float even[4] = {}, odd[4] = {};
    if (8 * n < padded(1)) {
      even[0] = even[2] = bias[unit], even[1] = even[3] = bias[unit + 1];
      multiply_rows<stride(0) / 16, X_ROW>(x + lane.g * X_ROW + 4 * lane.t, weights + (8 * n + lane.g) * X_ROW + 4 * lane.t, even, odd);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int row = lane.g + k / 2 * 8, column = unit + k % 2;
      const float value = activate(even[k] + odd[k]);
      hidden[row * FIRST_ROW + column] = value;
      if (everybody) everybody[row * stride(1) + column] = value;
    }
  }
}

// One task of a hidden layer, by a whole block: 16 rows of one stream and `group(l)` units. Its warps have 8 units each, and
// cut the inputs into parts.
template <int l>
struct Forward {
  static constexpr int UNITS = group(l), COLUMNS = UNITS / 8, WIDE = stride(l - 1), ROW = pad_row(WIDE);
  static constexpr int CHUNKS = WIDE / 16, CUTS = smaller(larger(WARPS / COLUMNS, 1), CHUNKS);
  static constexpr int PART_ROW = UNITS + 4, PART = 16 * PART_ROW, TASKS = ALL_ROWS / 16 * groups(l);
  static constexpr bool FUSED = FUSE && l == 2;

  DEVICE static const float* find_rows(const float* scratch, int update, int row) {
    if (l > 1) return scratch + scratch_hidden(l - 1) + row * WIDE;
    const int place = row / ROWS > 1 ? row - ROWS : row;  // both streams of next_obs read the same observations
    return scratch + SC_X + (long long)update * X_SIZE + place * WIDE;
  }

  // Begin to copy what the task reads: first the rows (or what they are computed from), then weights and biases.
  DEVICE static void stage(const float* scratch, int update, int row, int unit, bool target, float* shared) {
    if constexpr (FUSED) {
      stage_rows(shared + SH_X, X_ROW, Forward<1>::find_rows(scratch, update, row), stride(0), 16, stride(0));
      stage_rows(shared + SH_FIRST_WEIGHTS, X_ROW, scratch + scratch_weight(1) + (target ? weight_size(1) : 0), stride(0), padded(1), stride(0));
      stage_rows(shared + SH_FIRST_BIAS, 0, scratch + scratch_bias(1) + (target ? padded(1) : 0), 0, 1, padded(1));
    } else {
      stage_rows(shared + SH_INPUTS, ROW, find_rows(scratch, update, row), WIDE, 16, WIDE);
    }
    close_copies();
    const float* weights = scratch + scratch_weight(l) + (target ? weight_size(l) : 0) + unit * WIDE;
    stage_rows(shared + SH_WEIGHTS, ROW, weights, WIDE, UNITS, WIDE);
    stage_rows(shared + SH_BIAS, 0, scratch + scratch_bias(l) + (target ? padded(l) : 0) + unit, 0, 1, UNITS);
    if (l == LAYERS) stage_output(scratch, unit, target, shared + SH_VALUE_WEIGHTS);
    close_copies();
  }

  // The weights from these units to the action values, [ACTIONS, UNITS + 4].
  DEVICE static void stage_output(const float* scratch, int unit, bool target, float* to) {
    const float* from = scratch + scratch_weight(OUTPUT) + (target ? weight_size(OUTPUT) : 0) + unit;
    for (int e = thread_index(); e < ACTIONS * (UNITS / 4); e += THREADS) {
      const int a = e / (UNITS / 4), u = e % (UNITS / 4) * 4;
      if (unit + u < stride(LAYERS)) copy_async(to + a * PART_ROW + u, from + a * stride(LAYERS) + u);
      else store4(to + a * PART_ROW + u, {0.0f, 0.0f, 0.0f, 0.0f});
    }
  }

  DEVICE static void multiply(const float* shared, float* part) {
    const Lane lane = get_lane();
    for (int task = lane.warp; task < COLUMNS * CUTS; task += WARPS) {
      const int n = task % COLUMNS, cut = task / COLUMNS;
      const float* a = shared + SH_INPUTS + lane.g * ROW + 4 * lane.t;
      const float* w = shared + SH_WEIGHTS + (8 * n + lane.g) * ROW + 4 * lane.t;
      float even[4] = {}, odd[4] = {};
      multiply_cut<CHUNKS, CUTS, ROW>(a, w, cut, even, odd);
      leave_sums(part + cut * PART + 8 * n, PART_ROW, lane, even, odd);
    }
  }

  // Bias and ReLU; the result goes to everybody. Of the last layer of online(obs) also ∂Q(s, a)/∂z.
  DEVICE static void finish(float* scratch, int row, int unit, const float* shared, float* part) {
    constexpr int QUARTERS = UNITS / 4;
    const int* action = reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS;
    for (int e = thread_index(); e < 16 * QUARTERS; e += THREADS) {
      const int r = e / QUARTERS, u = e % QUARTERS * 4, place = (row + r) * stride(l) + unit + u;
      float4 sum = load4(shared + SH_BIAS + u);
#pragma unroll
      for (int cut = 0; cut < CUTS; cut++) sum = add4(sum, load4(part + cut * PART + r * PART_ROW + u));
      const float4 value = {activate(sum.x), activate(sum.y), activate(sum.z), activate(sum.w)};
      if (l == LAYERS) store4(part + r * PART_ROW + u, value);
      if ((l == LAYERS && row >= ROWS) || unit + u >= stride(l)) continue;
      store4(scratch + scratch_hidden(l) + place, value);
      if (l < LAYERS) continue;
      const float4 w = load4(shared + SH_VALUE_WEIGHTS + action[row + r] * PART_ROW + u);
      store4(scratch + scratch_delta(l) + place, pass_active(value, w));
    }
  }
};

// Parts of the action values, from a group of units of the last hidden layer: all of next_obs, one of obs.
DEVICE void leave_values(float* scratch, int row, int group_index, const float* hidden, const float* weights, const int* action) {
  constexpr int UNITS = group(LAYERS), ROW = Forward<LAYERS>::PART_ROW;
  float* values = scratch + SC_VALUES + group_index * VALUE_SIZE;
  const bool taken = row < ROWS;
  for (int e = thread_index(); e < (taken ? 16 : 16 * ACTIONS); e += THREADS) {
    const int r = taken ? e : e / ACTIONS, a = taken ? action[row + r] : e % ACTIONS;
    float4 sum = {};
#pragma unroll
    for (int u = 0; u < UNITS; u += 4) {
      const float4 h = load4(hidden + r * ROW + u), w = load4(weights + a * (UNITS + 4) + u);
      sum.x += h.x * w.x, sum.y += h.y * w.y, sum.z += h.z * w.z, sum.w += h.w * w.w;
    }
    const int place = taken ? (STREAMS - 1) * ROWS * VALUES + row + r : (row - ROWS + r) * VALUES + a;
    values[place] = sum.x + sum.y + (sum.z + sum.w);
  }
}

// All of the block's tasks of hidden layer l.
template <int l>
DEVICE void run_layer(float* scratch, int update, float* shared, Clock& clock) {
  using F = Forward<l>;
  float* part = shared + SH_PART;
  for (int task = block_index(); task < F::TASKS; task += BLOCKS) {
    const int index = task % groups(l), row = task / groups(l) * 16, unit = index * F::UNITS;
    F::stage(scratch, update, row, unit, row / ROWS == TARGET_STREAM, shared);
    if constexpr (F::FUSED) {
      wait_for_copies<1>();
      sync_block();
      clock.mark(10 * l + 2);
      float* everybody = row < ROWS && index == 0 ? scratch + scratch_hidden(1) + row * stride(1) : nullptr;
      run_first_layer(shared + SH_X, shared + SH_FIRST_WEIGHTS, shared + SH_FIRST_BIAS, shared + SH_INPUTS, everybody);
    }
    wait_for_copies();
    sync_block();
    clock.mark(10 * l + 3);
    F::multiply(shared, part);
    sync_block();
    clock.mark(10 * l + 4);
    F::finish(scratch, row, unit, shared, part);
    sync_block();
    clock.mark(10 * l + 5);
    if (l == LAYERS) {
      const int* action = reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS;
      leave_values(scratch, row, index, part, shared + SH_VALUE_WEIGHTS, action);
      sync_block();
    }
  }
}
