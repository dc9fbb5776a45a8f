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

// 16 rows of activations times 8 rows of weights over chunks of 16 inputs. The order of the inputs within a chunk is free as
// long as both sides agree: a lane takes four neighbors with one load.
template <int CHUNKS, int ROW>  // ROW: from one row of activations to the next
DEVICE void multiply_rows(const float* a, const float* w, float (&even)[4], float (&odd)[4]) {
  constexpr int BURST = smaller(CHUNKS, MOST_LOADS);
#pragma unroll
  for (int q = 0; q < CHUNKS; q += BURST) {
    float4 x0[BURST], x1[BURST], y[BURST];
#pragma unroll
    for (int k = 0; k < BURST; k++) {
      if (q + k >= CHUNKS) continue;
      x0[k] = load4(a + 16 * (q + k)), x1[k] = load4(a + 8 * ROW + 16 * (q + k)), y[k] = load4(w + 16 * (q + k));
    }
#pragma unroll
    for (int k = 0; k < BURST; k++) {
      if (q + k >= CHUNKS) continue;
      multiply_add(even, x0[k].x, x1[k].x, x0[k].y, x1[k].y, round_tf32(y[k].x), round_tf32(y[k].y));
      multiply_add(odd, x0[k].z, x1[k].z, x0[k].w, x1[k].w, round_tf32(y[k].z), round_tf32(y[k].w));
    }
  }
}

DEVICE float activate(float sum) { return sum > 0.0f ? round_tf32(sum) : (sum == sum ? 0.0f : sum); }

// Where the first layer is small, every task of the second one computes it again for its 16 rows, and saves a barrier.
constexpr int FIRST_ROW = pad_row(stride(1));

DEVICE void leave_first(float* to, float a, float b, bool all, float* everybody) {
  to[0] = activate(a), to[1] = activate(b);
  if (all) everybody[0] = to[0], everybody[1] = to[1];
}

// The first hidden layer of 16 rows into shared memory, [16, FIRST_ROW]; if `all`, also for everybody.
DEVICE void run_first_layer(float* scratch, const float* x, int row, bool all, float* hidden) {
  constexpr int CHUNKS = stride(0) / 16, COLUMNS = stride(1) / 8, EACH = 4;
  const Lane lane = get_lane();
  const bool target = row / ROWS == TARGET_STREAM;
  const float* weights = scratch + scratch_weight(1) + (target ? weight_size(1) : 0) + lane.g * stride(0) + 4 * lane.t;
  const float* biases = scratch + scratch_bias(1) + (target ? padded(1) : 0) + 2 * lane.t;
  float4 x0[CHUNKS], x1[CHUNKS];
#pragma unroll
  for (int q = 0; q < CHUNKS; q++) {
    x0[q] = load4(x + lane.g * stride(0) + 16 * q + 4 * lane.t), x1[q] = load4(x + (lane.g + 8) * stride(0) + 16 * q + 4 * lane.t);
  }
  for (int start = lane.warp; start < COLUMNS; start += EACH * WARPS) {
    float4 y[EACH][CHUNKS] = {};
    float even[EACH][4] = {}, odd[EACH][4] = {};
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      const int n = start + k * WARPS;
      if (8 * n >= padded(1)) continue;
#pragma unroll
      for (int q = 0; q < CHUNKS; q++) y[k][q] = load4(weights + 8 * n * stride(0) + 16 * q);
      even[k][0] = even[k][2] = biases[8 * n], even[k][1] = even[k][3] = biases[8 * n + 1];
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      const int n = start + k * WARPS;
      if (n >= COLUMNS) continue;
#pragma unroll
      for (int q = 0; q < CHUNKS; q++) {
        multiply_add(even[k], x0[q].x, x1[q].x, x0[q].y, x1[q].y, round_tf32(y[k][q].x), round_tf32(y[k][q].y));
        multiply_add(odd[k], x0[q].z, x1[q].z, x0[q].w, x1[q].w, round_tf32(y[k][q].z), round_tf32(y[k][q].w));
      }
      float *to = hidden + lane.g * FIRST_ROW + 8 * n + 2 * lane.t;
      float* out = scratch + scratch_hidden(1) + (row + lane.g) * stride(1) + 8 * n + 2 * lane.t;
      leave_first(to, even[k][0] + odd[k][0], even[k][1] + odd[k][1], all, out);
      leave_first(to + 8 * FIRST_ROW, even[k][2] + odd[k][2], even[k][3] + odd[k][3], all, out + 8 * stride(1));
    }
  }
}

// One task of a hidden layer, by a whole block: 16 rows of one stream and `group(l)` units. Its warps have 8 units each, and
// cut the inputs into parts.
template <int l>
struct Forward {
  static constexpr int UNITS = group(l), COLUMNS = UNITS / 8, ROW = stride(l - 1), CHUNKS = ROW / 16;
  static constexpr int CUTS = smaller(larger(WARPS / COLUMNS, 1), CHUNKS), EACH = divide_up(CHUNKS, CUTS);
  static constexpr int INPUT_ROW = FUSE && l == 2 ? FIRST_ROW : ROW;  // of the activations below
  static constexpr int PART_ROW = UNITS + 4, PART = 16 * PART_ROW, TASKS = ALL_ROWS / 16 * groups(l);

  DEVICE static const float* find_rows(const float* scratch, int update, int row) {
    if (l > 1) return scratch + scratch_hidden(l - 1) + row * ROW;
    const int place = row / ROWS > 1 ? row - ROWS : row;  // both streams of next_obs read the same observations
    return scratch + SC_X + (long long)update * X_SIZE + place * ROW;
  }

  DEVICE static void multiply(const float* scratch, const float* rows, int row, int unit, float* part) {
    const Lane lane = get_lane();
    for (int task = lane.warp; task < COLUMNS * CUTS; task += WARPS) {
      const int n = task % COLUMNS, cut = task / COLUMNS, start = 16 * EACH * cut + 4 * lane.t;
      const float* a = rows + lane.g * INPUT_ROW + start;
      const float* w = scratch + scratch_weight(l) + (row / ROWS == TARGET_STREAM ? weight_size(l) : 0);
      w += (unit + 8 * n + lane.g) * ROW + start;
      float even[4] = {}, odd[4] = {};
      constexpr int LAST = larger(CHUNKS - EACH * (CUTS - 1), 0);
      if (EACH * (cut + 1) <= CHUNKS) {
        multiply_rows<EACH, INPUT_ROW>(a, w, even, odd);
      } else if (LAST > 0 && cut == CUTS - 1) {
        multiply_rows<larger(LAST, 1), INPUT_ROW>(a, w, even, odd);
      } else {  // a part in between may have fewer chunks, or none
        for (int q = EACH * cut; q < CHUNKS; q++) multiply_rows<1, INPUT_ROW>(a + 16 * (q - EACH * cut), w + 16 * (q - EACH * cut), even, odd);
      }
      leave_sums(part + cut * PART + 8 * n, PART_ROW, lane, even, odd);
    }
  }

  // Bias and ReLU; the result goes to everybody.
  DEVICE static void finish(float* scratch, int row, int unit, float* part, const float* bias) {
    constexpr int QUARTERS = UNITS / 4;
    for (int e = thread_index(); e < 16 * QUARTERS; e += THREADS) {
      const int r = e / QUARTERS, u = e % QUARTERS * 4;
      float4 sum = load4(bias + u);
#pragma unroll
      for (int cut = 0; cut < CUTS; cut++) sum = add4(sum, load4(part + cut * PART + r * PART_ROW + u));
      const float4 value = {activate(sum.x), activate(sum.y), activate(sum.z), activate(sum.w)};
      if (l == LAYERS) store4(part + r * PART_ROW + u, value);
      const bool wanted = (l < LAYERS || row < ROWS) && unit + u < stride(l);
      if (wanted) store4(scratch + scratch_hidden(l) + (row + r) * stride(l) + unit + u, value);
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
DEVICE void run_layer(float* scratch, int update, float* shared) {
  using F = Forward<l>;
  float *bias = shared + SH_BIAS, *weights = shared + SH_VALUE_WEIGHTS, *part = shared + SH_PART;
  for (int task = block_index(); task < F::TASKS; task += BLOCKS) {
    const int index = task % groups(l), row = task / groups(l) * 16, unit = index * F::UNITS;
    const bool target = row / ROWS == TARGET_STREAM;
    for (int e = 4 * thread_index(); e < F::UNITS; e += 4 * THREADS) {
      copy_async(bias + e, scratch + scratch_bias(l) + (target ? padded(l) : 0) + unit + e);
    }
    for (int e = thread_index(); l == LAYERS && e < ACTIONS * (F::UNITS / 4); e += THREADS) {
      const int a = e / (F::UNITS / 4), u = e % (F::UNITS / 4) * 4;
      const float* from = scratch + scratch_weight(OUTPUT) + (target ? weight_size(OUTPUT) : 0) + a * stride(LAYERS) + unit + u;
      if (unit + u < stride(LAYERS)) copy_async(weights + a * (F::UNITS + 4) + u, from);
      else store4(weights + a * (F::UNITS + 4) + u, {0.0f, 0.0f, 0.0f, 0.0f});
    }
    const float* rows = FUSE && l == 2 ? shared + SH_FIRST : F::find_rows(scratch, update, row);
    if constexpr (FUSE && l == 2) {
      run_first_layer(scratch, Forward<1>::find_rows(scratch, update, row), row, row < ROWS && index == 0, shared + SH_FIRST);
      sync_block();
    }
    F::multiply(scratch, rows, row, unit, part);
    wait_for_copies();
    sync_block();
    F::finish(scratch, row, unit, part, bias);
    sync_block();
    if (l == LAYERS) {
      leave_values(scratch, row, index, part, weights, reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS);
      sync_block();
    }
  }
}
