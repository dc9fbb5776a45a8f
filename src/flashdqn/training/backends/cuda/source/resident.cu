// A whole group of gradient steps in one launch. Every block keeps the weights of its units in shared memory, and Adam's
// moments in registers. Blocks exchange activations, deltas and sums of squares through the L2 cache; a barrier follows
// every exchange: one for each hidden layer forward, one for each but the last backward, one for the gradient's norm.

template <int l>
DEVICE void load_weights(const Arguments& given, float* shared) {
  constexpr int ROW = weight_row(l), QUARTERS = ROW / 4;
  for (int e = thread_index(); e < outputs(l) * QUARTERS; e += THREADS) {
    Place place = find_place<l>(e % QUARTERS * 4, e / QUARTERS);
    float *to = shared + place.shared, row[4];
    read_flat<l>(given.online, place, row);
    store4(to, {row[0], row[1], row[2], row[3]});
    read_flat<l>(given.target, place, row);
    store4(to + weight_size(l), {row[0], row[1], row[2], row[3]});
    if (KEEP != IN_SHARED) continue;
    read_flat<l>(given.first, place, row);
    store4(to + 2 * weight_size(l), {row[0], row[1], row[2], row[3]});
    read_flat<l>(given.second, place, row);
    store4(to + 3 * weight_size(l), {row[0], row[1], row[2], row[3]});
  }
}

template <int l>
DEVICE void load_layers(const Arguments& given, float* shared, State& state) {
  load_weights<l>(given, shared);
  state.load<l>(given);
  if constexpr (l < OUTPUT) load_layers<l + 1>(given, shared, state);
}

// Hidden layer l and those above, and parts of the action values.
template <int l>
DEVICE void go_forward(const Arguments& given, int update, float* shared, Barrier& barrier) {
  if (is_busy<l>()) {
    multiply_forward<l>(given.scratch, update, shared);
    sync_block();
    barrier.clock.mark(10 * l);
    finish_forward<l>(given.scratch, shared);
    if (l == LAYERS) {
      sync_block();
      barrier.clock.mark(10 * l + 1);
      leave_values(given.scratch, shared);
    }
  }
  barrier.clock.mark(10 * l + (l == LAYERS ? 2 : 1));
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(10 * l + 3);
  if constexpr (l < LAYERS) go_forward<l + 1>(given, update, shared, barrier);
}

// The gradient of layer l and those below; the block's deltas of layer l are in shared memory. Returns the squares' sum.
template <int l>
DEVICE float go_backward(const Arguments& given, int update, float* shared, State& state, Barrier& barrier) {
  if (l > 1) barrier.arrive();  // the others may read these deltas; the gradient below is the block's own work
  const float* x = given.scratch + scratch_hidden(l - 1) + (l == 1 ? (long long)update * X_SIZE : 0);
  float squares = 0.0f;
  if (is_busy<l>()) {
    squares = state.template find_gradient<l>(given, x, shared + SH_DELTA);
    add_bias_gradients<l>(shared + SH_DELTA, shared + SH_BIAS + 4 * ALL_BIASES);
  }
  if (l == LAYERS) {
    squares += state.template find_gradient<OUTPUT>(given, shared + shared_hidden(LAYERS), shared + SH_OUTPUT_DELTA);
    add_bias_gradients<OUTPUT>(shared + SH_OUTPUT_DELTA, shared + SH_BIAS + 4 * ALL_BIASES);
  }
  barrier.clock.mark(10 * l + 4);
  if constexpr (l > 1) {
    barrier.wait();
    barrier.clock.mark(10 * l + 5);
    if (is_busy<l - 1>()) {
      multiply_backward<l - 1>(given.online, given.scratch, shared);
      sync_block();
      barrier.clock.mark(10 * l + 6);
      finish_backward<l - 1>(given.scratch, shared);
    }
    sync_block();
    barrier.clock.mark(10 * l + 7);
    squares += go_backward<l - 1>(given, update, shared, state, barrier);
  }
  return squares;
}

// The sum of the squares of the block's part of the gradient, for all to read.
DEVICE void leave_squares(const Arguments& given, float squares, float* shared) {
  sync_block();
  for (int e = thread_index(); e < ALL_BIASES; e += THREADS) {
    const float g = shared[SH_BIAS + 4 * ALL_BIASES + e];
    if (owns_bias(e)) squares += g * g;
  }
  squares = sum_over_warp(squares);
  if (thread_index() % 32 == 0) shared[SH_SQUARES + thread_index() / 32] = squares;
  sync_block();
  if (thread_index() == 0) {
    float sum = 0.0f;
    for (int warp = 0; warp < WARPS; warp++) sum += shared[SH_SQUARES + warp];
    given.scratch[SC_SQUARES + block_index()] = sum;
  }
}

DEVICE float read_norm(const float* squares) {
  float sum = 0.0f;
#pragma unroll 16
  for (int block = 0; block < BLOCKS; block++) sum += squares[block];
  return sqrtf(sum);
}

// Sums of loss and Q(s, a) of this update, by the first warp of the first block.
DEVICE void add_statistics(const Arguments& given, float step, const float* shared, float norm) {
  float loss = 0.0f, value = 0.0f;
  const int lane = thread_index() % 32;
  for (int row = lane; row < ROWS; row += 32) loss += shared[SH_LOSS + row], value += shared[SH_LOSS + ROWS + row];
  loss = sum_over_warp(loss), value = sum_over_warp(value);
  if (lane != 0) return;
  given.sums[0] += loss, given.sums[1] += value, given.sums[2] += norm;
  if (!(loss - loss == 0.0f) && *given.first_bad < 0) *given.first_bad = (long long)step;
}

template <int l>
DEVICE void move_layers(const Arguments& given, float* shared, State& state, const Rule& rule) {
  state.template move<l>(given, shared, rule);
  if constexpr (l < OUTPUT) move_layers<l + 1>(given, shared, state, rule);
}

DEVICE Rule make_rule(float step, float rate, float norm, bool last) {
  const float clipped = CLIP / (norm + 1e-6f);
  Rule rule;
  rule.scale = CLIP > 0.0f && clipped < 1.0f ? clipped : 1.0f;
  rule.rate = rate / -expm1f(step * -0.105360515657826301f);                     // log 0.9
  rule.correction = 1.0f / sqrtf(-expm1f(step * -0.00100050033358353350f));      // log 0.999
  rule.decay = rate * DECAY;
  rule.copy = TARGET_EVERY > 0 && (long long)step % larger(TARGET_EVERY, 1) == 0;
  rule.last = last;
  return rule;
}

DEVICE void do_update(const Arguments& given, int update, float step, float rate, bool last, float* shared, State& state, Barrier& barrier) {
  const float* meta = given.scratch + SC_META + (long long)update * META_SIZE;
  for (int e = thread_index(); e < META_SIZE; e += THREADS) shared[SH_META + e] = meta[e];
  go_forward<1>(given, update, shared, barrier);
  add_values(given.scratch, shared);
  sync_block();
  barrier.clock.mark(60);
  find_errors(given, update, shared);
  sync_block();
  barrier.clock.mark(61);
  leave_last_deltas(given.scratch, shared);
  sync_block();
  barrier.clock.mark(62);
  const float squares = go_backward<LAYERS>(given, update, shared, state, barrier);
  leave_squares(given, squares, shared);
  barrier.clock.mark(63);
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(64);
  const float norm = read_norm(given.scratch + SC_SQUARES);
  if (block_index() == 0 && thread_index() < 32) add_statistics(given, step - 1.0f, shared, norm);
  const Rule rule = make_rule(step, rate, norm, last);
  barrier.clock.mark(65);
  move_layers<1>(given, shared, state, rule);
  move_biases(given, shared, rule);
  sync_block();
  barrier.clock.mark(66);
}

KERNEL update_resident(const Arguments given) {
  float* shared = shared_memory();
  const int due = *given.due, updates = due < MOST ? due : MOST;
  if (updates <= 0) return;
  const float steps = *given.steps, rate = *given.rate;
  Barrier barrier = {given.counter, 0, {given.times, 0}};
  barrier.clock.start();
  State state;
  gather_samples(given, updates, reinterpret_cast<long long*>(shared + SH_PART));
  barrier.clock.mark(0);
  load_layers<1>(given, shared, state);
  load_biases(given, shared);
  barrier.clock.mark(1);
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(2);
  for (int update = 0; update < updates; update++) {
    do_update(given, update, steps + update + 1, rate, update == updates - 1, shared, state, barrier);
  }
  if (block_index() == 0 && thread_index() == 0) *given.steps = steps + updates;
}
