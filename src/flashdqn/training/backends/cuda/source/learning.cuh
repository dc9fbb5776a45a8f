// From action values to errors, deltas, and the gradient of a tile.

// Every block adds the parts of all action values in the same order, so all blocks know all errors.
DEVICE void add_values(const float* scratch, float* shared) {
  for (int e = 4 * thread_index(); e < VALUE_SIZE; e += 4 * THREADS) {
    float4 sum = load4(scratch + SC_VALUES + e);
#pragma unroll 16
    for (int part = 1; part < groups(LAYERS); part++) {
      sum = add4(sum, load4(scratch + SC_VALUES + part * VALUE_SIZE + e));
    }
    store4(shared + SH_VALUES + e, sum);
  }
}

DEVICE bool is_legal(const int* meta, int row, int a) {
  return !MASKED || (unsigned(meta[(META_MASK + a / 32) * ROWS + row]) >> (a % 32)) & 1;
}

// error = Q(s, a) − (r + γ Q_target(s', argmax Q(s'))): ∂loss/∂Q(s, a), the loss and Q(s, a) of each row over B.
DEVICE void find_errors(const Arguments& given, int update, float* shared) {
  const float *meta = shared + SH_META, *values = shared + SH_VALUES;
  const float *online = shared + SH_OUTPUT_BIAS, *target = online + padded(OUTPUT);
  const int* words = reinterpret_cast<const int*>(meta);
  for (int row = thread_index(); row < ROWS; row += THREADS) {
    const float *chooser = values + row * VALUES, *judge = values + ((STREAMS - 2) * ROWS + row) * VALUES;
    const float* choosing = STREAMS == 2 ? target : online;
    int best = 0;
    float most = -INFINITY;
    for (int a = 0; a < ACTIONS; a++) {
      const float value = chooser[a] + choosing[a];
      if (is_legal(words, row, a) && value > most) most = value, best = a;
    }
    const int action = words[META_ACTION * ROWS + row];
    const bool inside = row < BATCH;
    const float value = values[(STREAMS - 1) * ROWS * VALUES + row] + online[action];
    const float following = judge[best] + target[best];
    const float error = value - (meta[META_REWARD * ROWS + row] + meta[META_DISCOUNT * ROWS + row] * following);
    const float size = fabsf(error), scale = meta[META_WEIGHT * ROWS + row] / BATCH;
    float loss = 0.5f * error * error, slope = error;
    if (HUBER > 0.0f && size > HUBER) loss = HUBER * (size - 0.5f * HUBER), slope = error > 0.0f ? HUBER : -HUBER;
    shared[SH_SLOPE + row] = inside ? scale * slope : 0.0f;
    shared[SH_LOSS + row] = inside ? scale * loss : 0.0f;
    shared[SH_LOSS + ROWS + row] = inside ? value / BATCH : 0.0f;
    if (inside && block_index() == 0) given.priority[update * BATCH + row] = size;
  }
}

// ∂loss/∂z of four units of the last hidden layer in one row: known from the errors, without an exchange.
DEVICE float4 find_last_delta(const float* scratch, const float* shared, int row, int unit) {
  const int action = reinterpret_cast<const int*>(shared + SH_META)[META_ACTION * ROWS + row];
  const float slope = shared[SH_SLOPE + row];
  const float4 w = load4(scratch + scratch_weight(OUTPUT) + action * stride(LAYERS) + unit);
  const float4 h = load4(scratch + scratch_hidden(LAYERS) + row * stride(LAYERS) + unit);
  return {h.x > 0.0f ? round_tf32(slope * w.x) : 0.0f, h.y > 0.0f ? round_tf32(slope * w.y) : 0.0f,
          h.z > 0.0f ? round_tf32(slope * w.z) : 0.0f, h.w > 0.0f ? round_tf32(slope * w.w) : 0.0f};
}

// ∂loss/∂h of the eight units of a tile of layer l, from the deltas of layer l + 1: sums in parts, [CUTS, ROWS, 12].
template <int l>
struct Backward {
  static constexpr int ROW = stride(l + 1), CHUNKS = ROW / 16, TASK_ROWS = ROWS / 16;
  static constexpr int CUTS = smaller(smaller(larger(WARPS / TASK_ROWS, 1), CHUNKS), 8), EACH = divide_up(CHUNKS, CUTS);
  static constexpr int BURST = smaller(EACH, larger(MOST_LOADS / 2, 1));

  DEVICE static float4 read_delta(const float* scratch, const float* shared, int row, int unit) {
    if (l + 1 == LAYERS) return find_last_delta(scratch, shared, row, unit);
    return load4(scratch + scratch_delta(l + 1) + row * ROW + unit);
  }

  DEVICE static void multiply(const float* scratch, const float* shared, int tile, float* part) {
    const Lane lane = get_lane();
    for (int task = lane.warp; task < TASK_ROWS * CUTS; task += WARPS) {
      const int cut = task / TASK_ROWS, row = task % TASK_ROWS * 16;
      const int end = EACH * (cut + 1) < CHUNKS ? EACH * (cut + 1) : CHUNKS;
      const float* w = scratch + scratch_weight(l + 1) + 4 * lane.t * stride(l) + 8 * tile + lane.g;
      float even[4] = {}, odd[4] = {};
      for (int q = EACH * cut; q < end; q += BURST) {
        float4 x0[BURST], x1[BURST];
        float y[BURST][4];
#pragma unroll
        for (int k = 0; k < BURST; k++) {
          if (q + k >= end) continue;
          x0[k] = read_delta(scratch, shared, row + lane.g, 16 * (q + k) + 4 * lane.t);
          x1[k] = read_delta(scratch, shared, row + 8 + lane.g, 16 * (q + k) + 4 * lane.t);
#pragma unroll
          for (int c = 0; c < 4; c++) y[k][c] = w[(16 * (q + k) + c) * stride(l)];
        }
#pragma unroll
        for (int k = 0; k < BURST; k++) {
          if (q + k >= end) continue;
          multiply_add(even, x0[k].x, x1[k].x, x0[k].y, x1[k].y, round_tf32(y[k][0]), round_tf32(y[k][1]));
          multiply_add(odd, x0[k].z, x1[k].z, x0[k].w, x1[k].w, round_tf32(y[k][2]), round_tf32(y[k][3]));
        }
      }
      leave_sums(part + (cut * ROWS + row) * 12, 12, lane, even, odd);
    }
  }

  DEVICE static float4 add_parts(const float* scratch, const float* part, int row, int unit, int u) {
    float4 sum = load4(part + row * 12 + u);
#pragma unroll
    for (int cut = 1; cut < CUTS; cut++) sum = add4(sum, load4(part + (cut * ROWS + row) * 12 + u));
    const float4 h = load4(scratch + scratch_hidden(l) + row * stride(l) + unit + u);
    return {h.x > 0.0f ? round_tf32(sum.x) : 0.0f, h.y > 0.0f ? round_tf32(sum.y) : 0.0f,
            h.z > 0.0f ? round_tf32(sum.z) : 0.0f, h.w > 0.0f ? round_tf32(sum.w) : 0.0f};
  }
};

// The deltas of a tile's eight outputs, [8, DELTA_ROW] in shared memory; for layers below also for everybody.
template <int l>
DEVICE void leave_deltas(float* scratch, float* shared, int tile) {
  float* delta = shared + SH_DELTA;
  if constexpr (l == OUTPUT) {
    const int* action = reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS;
    for (int e = thread_index(); e < 8 * ROWS; e += THREADS) {
      const int a = e / ROWS, row = e % ROWS;
      delta[a * DELTA_ROW + row] = action[row] == 8 * tile + a ? round_tf32(shared[SH_SLOPE + row]) : 0.0f;
    }
  } else {
    if constexpr (l < LAYERS) {
      Backward<l>::multiply(scratch, shared, tile, shared + SH_PART);
      sync_block();
    }
    for (int e = thread_index(); e < 2 * ROWS; e += THREADS) {
      const int row = e / 2, u = e % 2 * 4;
      float4 d;
      if constexpr (l < LAYERS) {
        d = Backward<l>::add_parts(scratch, shared + SH_PART, row, 8 * tile, u);
      } else {
        d = find_last_delta(scratch, shared, row, 8 * tile + u);
      }
      float* own = delta + u * DELTA_ROW + row;
      own[0] = d.x, own[DELTA_ROW] = d.y, own[2 * DELTA_ROW] = d.z, own[3 * DELTA_ROW] = d.w;
      if (l > 1 && l < LAYERS) store4(scratch + scratch_delta(l) + row * stride(l) + 8 * tile + u, d);
    }
  }
  sync_block();
}

// One piece of Σ_rows x[row, input] δ[row, output]: for each of two outputs the four inputs of this lane.
template <int l>
DEVICE void multiply_gradient(const float* x, const float* delta, int input, int tile, float (&sum)[8]) {
  constexpr int ROW = stride(l - 1);
  const Lane lane = get_lane();
  x += 4 * lane.t * ROW + input + 4 * lane.g;
  delta += lane.g * DELTA_ROW + 4 * lane.t;
  float even[4] = {}, odd[4] = {};
#pragma unroll 4
  for (int q = 0; q < ROWS / 16; q++) {
    float4 a[4];
#pragma unroll
    for (int c = 0; c < 4; c++) a[c] = load4(x + (16 * q + c) * ROW);
    const float4 d = load4(delta + 16 * q);
    multiply_add(even, a[0].x, a[0].y, a[1].x, a[1].y, d.x, d.y);
    multiply_add(odd, a[0].z, a[0].w, a[1].z, a[1].w, d.x, d.y);
    multiply_add(even, a[2].x, a[2].y, a[3].x, a[3].y, d.z, d.w);
    multiply_add(odd, a[2].z, a[2].w, a[3].z, a[3].w, d.z, d.w);
  }
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const int left = 8 * tile + 2 * lane.t + k < width(l) ? width(l - 1) - input - 4 * lane.g : 0;
    const float all[4] = {even[k], even[2 + k], odd[k], odd[2 + k]};
#pragma unroll
    for (int c = 0; c < 4; c++) sum[4 * k + c] = c < left ? all[c] : 0.0f;
  }
}

// Σ_rows δ[row, output], one warp for each output.
DEVICE void add_bias_gradients(const float* delta, float* gradients) {
  const int lane = thread_index() % 32;
  for (int u = thread_index() / 32; u < 8; u += WARPS) {
    float sum = 0.0f;
#pragma unroll 4
    for (int row = lane; row < ROWS; row += 32) sum += delta[u * DELTA_ROW + row];
    sum = sum_over_warp(sum);
    if (lane == 0) gradients[u] = sum;
  }
}
