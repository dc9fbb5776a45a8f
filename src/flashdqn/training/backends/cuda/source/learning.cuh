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

// Whether all that the gradient of a tile reads is copied to shared memory while the errors are found: inputs, deltas above,
// and the tile's own units. The layers below the last two need deltas that come later.
constexpr bool is_ahead(int l) { return AHEAD && l >= LAYERS - 1; }
constexpr int ahead_inputs(int l) { return l < LAYERS ? SH_AHEAD : SH_COLUMNS; }
constexpr int input_row(int l) { return is_ahead(l) ? pad_row(stride(l - 1)) : stride(l - 1); }

// Four of the tile's own units in a row: activations, or for the last hidden layer ∂Q(s, a)/∂z.
template <int l>
DEVICE float4 read_own(const float* scratch, const float* shared, int row, int tile, int u) {
  if (is_ahead(l)) return load4(shared + SH_OWN_UNITS + row * 8 + u);
  return load4(scratch + (l < LAYERS ? scratch_hidden(l) : scratch_delta(l)) + row * stride(l) + 8 * tile + u);
}

// ∂loss/∂h of the eight units of a tile of layer l, from the deltas of layer l + 1: sums in parts, [CUTS, ROWS, 12]. The last
// hidden layer's deltas come without the slope of their row, which is applied to the sum.
template <int l>
struct Backward {
  static constexpr int WIDE = stride(l + 1), ROW = pad_row(WIDE), TASK_ROWS = BACK_ROWS / 16, CHUNKS = WIDE / 16;
  static constexpr int CUTS = smaller(smaller(larger(WARPS / TASK_ROWS, 1), CHUNKS), 8);

  // Columns of W, [8, ROW], each with the weights to all units above.
  DEVICE static void stage_columns(const float* scratch, int tile, float* to) {
    const float* from = scratch + scratch_weight(l + 1) + 8 * tile;
    for (int e = thread_index(); e < 8 * WIDE; e += THREADS) {
      const int u = e % 8, j = e / 8;
      if (j < padded(l + 1)) copy_one_async(to + u * ROW + j, from + j * stride(l) + u);
      else to[u * ROW + j] = 0.0f;
    }
  }

  DEVICE static void stage_deltas(const float* scratch, int start, int rows, float* to) {
    stage_rows(to, ROW, scratch + scratch_delta(l + 1) + start * WIDE, WIDE, rows, WIDE);
  }

  DEVICE static void multiply(const float* scratch, float* shared, int tile) {
    const Lane lane = get_lane();
    if (!is_ahead(l)) stage_columns(scratch, tile, shared + SH_COLUMNS);
    for (int start = 0; start < ROWS; start += BACK_ROWS) {
      const int rows = smaller(BACK_ROWS, ROWS - start);
      if (!is_ahead(l)) stage_deltas(scratch, start, rows, shared + SH_DELTAS);
      close_copies();
      wait_for_copies();
      sync_block();
      for (int task = lane.warp; task < TASK_ROWS * CUTS; task += WARPS) {
        const int cut = task / TASK_ROWS, row = task % TASK_ROWS * 16;
        if (row >= rows) continue;
        const float *a = shared + SH_DELTAS + (row + lane.g) * ROW + 4 * lane.t, *w = shared + SH_COLUMNS + lane.g * ROW + 4 * lane.t;
        float even[4] = {}, odd[4] = {};
        multiply_cut<CHUNKS, CUTS, ROW>(a, w, cut, even, odd);
        leave_sums(shared + SH_PART + (cut * ROWS + start + row) * 12, 12, lane, even, odd);
      }
      sync_block();
    }
  }

  DEVICE static float4 add_parts(const float* scratch, const float* shared, int row, int tile, int u) {
    const float* part = shared + SH_PART + row * 12 + u;
    float4 sum = load4(part);
#pragma unroll
    for (int cut = 1; cut < CUTS; cut++) sum = add4(sum, load4(part + cut * ROWS * 12));
    const float slope = l + 1 == LAYERS ? shared[SH_SLOPE + row] : 1.0f;
    return pass_active(read_own<l>(scratch, shared, row, tile, u), {slope * sum.x, slope * sum.y, slope * sum.z, slope * sum.w});
  }
};

// The deltas of a tile's eight outputs, [8, DELTA_ROW] in shared memory; for layers below also for everybody.
template <int l>
DEVICE void leave_deltas(float* scratch, float* shared, int tile) {
  float* delta = shared + SH_DELTA;
  if (is_ahead(l) && l >= LAYERS) {
    wait_for_copies();
    sync_block();
  }
  if constexpr (l == OUTPUT) {
    const int* action = reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS;
    for (int e = thread_index(); e < 8 * ROWS; e += THREADS) {
      const int a = e / ROWS, row = e % ROWS;
      delta[a * DELTA_ROW + row] = action[row] == 8 * tile + a ? round_tf32(shared[SH_SLOPE + row]) : 0.0f;
    }
  } else {
    if constexpr (l < LAYERS) {
      Backward<l>::multiply(scratch, shared, tile);
    }
    for (int e = thread_index(); e < 2 * ROWS; e += THREADS) {
      const int row = e / 2, u = e % 2 * 4;
      float4 d;
      if constexpr (l < LAYERS) {
        d = Backward<l>::add_parts(scratch, shared, row, tile, u);
      } else {
        const float slope = shared[SH_SLOPE + row];
        d = read_own<l>(scratch, shared, row, tile, u);
        d = {round_tf32(slope * d.x), round_tf32(slope * d.y), round_tf32(slope * d.z), round_tf32(slope * d.w)};
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
  constexpr int ROW = input_row(l);
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
