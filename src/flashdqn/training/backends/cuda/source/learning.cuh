// From action values to the errors, the deltas of the block's units, and the gradient of its weights.

// Everybody adds the parts of all action values in the same order, so all blocks know all errors.
DEVICE void add_values(const float* scratch, float* shared) {
  for (int e = 4 * thread_index(); e < VALUE_SIZE; e += 4 * THREADS) {
    float4 sum = load4(scratch + SC_VALUES + e);
#pragma unroll 16
    for (int block = 1; block < LAST_BLOCKS; block++) {
      sum = add4(sum, load4(scratch + SC_VALUES + block * VALUE_SIZE + e));
    }
    store4(shared + SH_PART + e, sum);
  }
}

DEVICE bool is_legal(const int* meta, int row, int a) {
  return !MASKED || (unsigned(meta[(META_MASK + a / 32) * ROWS + row]) >> (a % 32)) & 1;
}

// error = Q(s, a) − (r + γ Q_target(s', argmax Q(s'))): ∂loss/∂Q(s, a), the loss and Q(s, a) of each row over B.
DEVICE void find_errors(const Arguments& given, int update, float* shared) {
  const float *meta = shared + SH_META, *values = shared + SH_PART, *bias = shared + SH_BIAS + first_bias(OUTPUT);
  const int* words = reinterpret_cast<const int*>(meta);
  for (int row = thread_index(); row < ROWS; row += THREADS) {
    const float *chooser = values + row * VALUES, *judge = values + ((STREAMS - 2) * ROWS + row) * VALUES;
    const float* choosing = bias + (STREAMS == 2 ? ALL_BIASES : 0);
    int best = 0;
    float most = -INFINITY;
    for (int a = 0; a < ACTIONS; a++) {
      float value = chooser[a] + choosing[a];
      if (is_legal(words, row, a) && value > most) most = value, best = a;
    }
    const int action = words[META_ACTION * ROWS + row];
    const float value = values[(STREAMS - 1) * ROWS * VALUES + row] + bias[action];
    const float following = judge[best] + bias[ALL_BIASES + best];
    const float error = value - (meta[META_REWARD * ROWS + row] + meta[META_DISCOUNT * ROWS + row] * following);
    const float size = fabsf(error), scale = row < BATCH ? meta[META_WEIGHT * ROWS + row] / BATCH : 0.0f;
    float loss = 0.5f * error * error, slope = error;
    if (HUBER > 0.0f && size > HUBER) loss = HUBER * (size - 0.5f * HUBER), slope = error > 0.0f ? HUBER : -HUBER;
    const bool inside = row < BATCH;
    shared[SH_SLOPE + row] = inside ? scale * slope : 0.0f;
    shared[SH_LOSS + row] = inside ? scale * loss : 0.0f;
    shared[SH_LOSS + ROWS + row] = inside ? value / BATCH : 0.0f;
    if (inside && block_index() == 0) given.priority[update * BATCH + row] = size;
  }
}

// The deltas of four units in a row: for the block's own gradient, and for everybody's layer below.
template <int l>
DEVICE void leave_delta(float* scratch, float* shared, int row, int u, float4 delta) {
  const float4 h = load4(shared + shared_hidden(l) + row * units(l) + u);
  delta.x = h.x > 0.0f ? round_tf32(delta.x) : 0.0f, delta.y = h.y > 0.0f ? round_tf32(delta.y) : 0.0f;
  delta.z = h.z > 0.0f ? round_tf32(delta.z) : 0.0f, delta.w = h.w > 0.0f ? round_tf32(delta.w) : 0.0f;
  float* own = shared + SH_DELTA + u * DELTA_ROW + row;
  own[0] = delta.x, own[DELTA_ROW] = delta.y, own[2 * DELTA_ROW] = delta.z, own[3 * DELTA_ROW] = delta.w;
  const int unit = block_index() * units(l) + u;
  if (l > 1 && unit < stride(l)) store4(scratch + scratch_delta(l) + row * stride(l) + unit, delta);
}

DEVICE void leave_last_deltas(float* scratch, float* shared) {
  constexpr int QUARTERS = units(LAYERS) / 4;
  const int* action = reinterpret_cast<const int*>(shared + SH_META) + META_ACTION * ROWS;
  for (int e = thread_index(); is_busy<LAYERS>() && e < ROWS * QUARTERS; e += THREADS) {
    const int row = e / QUARTERS, u = e % QUARTERS * 4;
    const float slope = shared[SH_SLOPE + row];
    const float4 w = load4(shared + shared_weight(OUTPUT) + action[row] * weight_row(OUTPUT) + u);
    leave_delta<LAYERS>(scratch, shared, row, u, {slope * w.x, slope * w.y, slope * w.z, slope * w.w});
  }
  for (int e = thread_index(); e < outputs(OUTPUT) * ROWS; e += THREADS) {
    const int a = e / ROWS, row = e % ROWS;
    shared[SH_OUTPUT_DELTA + a * DELTA_ROW + row] = action[row] == a ? round_tf32(shared[SH_SLOPE + row]) : 0.0f;
  }
}

template <int l>
DEVICE void finish_backward(float* scratch, float* shared) {
  constexpr int QUARTERS = units(l) / 4, UNITS_ROW = units(l) + 4;
  for (int e = thread_index(); e < ROWS * QUARTERS; e += THREADS) {
    const int row = e / QUARTERS, u = e % QUARTERS * 4;
    float4 sum = load4(shared + SH_PART + row * UNITS_ROW + u);
#pragma unroll
    for (int cut = 1; cut < backward_cuts(l); cut++) {
      sum = add4(sum, load4(shared + SH_PART + (cut * ROWS + row) * UNITS_ROW + u));
    }
    leave_delta<l>(scratch, shared, row, u, sum);
  }
}

// Piece number `slot` of this warp of layer l: 32 inputs from `input`, 8 outputs from `output`.
template <int l>
DEVICE bool find_piece(int slot, int warp, int& input, int& output) {
  constexpr int TILES = outputs(l) / 8, SHIFT = l == OUTPUT ? WARPS / 2 : 0;
  const int piece = slot * WARPS + (warp + WARPS - SHIFT) % WARPS;
  input = piece / TILES * 32, output = piece % TILES * 8;
  return piece < pieces(l);
}

// Where four neighbors of a matrix lie, and how many of them exist.
struct Place {
  int shared, count;
  long long flat;
};
template <int l>
DEVICE Place find_place(int input, int output) {
  constexpr bool LAST = l == OUTPUT;
  const int first = block_index() * units(LAST ? LAYERS : l);
  const int row = LAST ? output : first + output, column = LAST ? first + input : input;
  const bool inside = row < width(l) && input < depth(l);
  const int left = width(l - 1) - column;
  return {shared_weight(l) + output * weight_row(l) + input, !inside || left < 0 ? 0 : left > 4 ? 4 : left,
          weight_start(l) + (long long)row * width(l - 1) + column};
}

template <int l>
DEVICE void read_flat(const float* flat, const Place& place, float* to) {
  if (width(l - 1) % 4 == 0) {
    float4 value = {};
    if (place.count) value = load4(flat + place.flat);
    to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
  } else {
#pragma unroll
    for (int c = 0; c < 4; c++) to[c] = c < place.count ? flat[place.flat + c] : 0.0f;
  }
}

template <int l>
DEVICE void write_flat(float* flat, const Place& place, const float* from) {
  if (width(l - 1) % 4 == 0) {
    if (place.count) store4(flat + place.flat, {from[0], from[1], from[2], from[3]});
  } else {
#pragma unroll
    for (int c = 0; c < 4; c++) {
      if (c < place.count) flat[place.flat + c] = from[c];
    }
  }
}

// One piece of Σ_rows x[row, input] δ[row, output]: for each of two outputs the four inputs of this lane.
template <int l>
DEVICE void multiply_gradient(const float* x, const float* delta, int input, int output, float (&sum)[8]) {
  constexpr int ROW = l == OUTPUT ? units(LAYERS) : stride(l - 1);
  const Lane lane = get_lane();
  x += 4 * lane.t * ROW + input + 4 * lane.g;
  delta += (output + lane.g) * DELTA_ROW + 4 * lane.t;
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
    const Place place = find_place<l>(input + 4 * lane.g, output + 2 * lane.t + k);
    const float all[4] = {even[k], even[2 + k], odd[k], odd[2 + k]};
#pragma unroll
    for (int c = 0; c < 4; c++) sum[4 * k + c] = c < place.count ? all[c] : 0.0f;
  }
}

// Σ_rows δ[row, unit], one warp for each unit.
template <int l>
DEVICE void add_bias_gradients(const float* delta, float* gradients) {
  constexpr int COUNT = l == OUTPUT ? ACTIONS : units(l);
  const int warp = thread_index() / 32, lane = thread_index() % 32;
  for (int u = WARPS - 1 - warp; u < COUNT; u += WARPS) {
    float sum = 0.0f;
#pragma unroll 4
    for (int row = lane; row < ROWS; row += 32) sum += delta[u * DELTA_ROW + row];
    sum = sum_over_warp(sum);
    if (lane == 0) gradients[first_bias(l) + u] = sum;
  }
}
