// A whole group of gradient steps in one launch. Blocks exchange everything through the L2 cache, and a barrier follows every
// exchange: activations of each hidden layer (the last as parts of action values), deltas where there are more than two
// hidden layers, the norm, and the new weights. In the forward pass a block has some rows and some units at a time; in the
// backward pass it owns tiles of the weights, whose gradient and moments never leave its registers.

// What a block owns.
struct State {
#if KEEP
  Piece pieces[OWN_TILES][TILE_PIECES];
#endif

  // Calls visit.run<l>(own, tile) for every tile of layers FROM to TO that the block owns.
  template <int FROM, int TO, class Visit>
  DEVICE static void for_each_tile(Visit& visit) {
#if KEEP
#pragma unroll
#endif
    for (int own = 0; own < OWN_TILES; own++) visit_tile<FROM, TO>(visit, own, block_index() + own * BLOCKS);
  }
  template <int l, int TO, class Visit>
  DEVICE static void visit_tile(Visit& visit, int own, int number) {
    if (number >= first_tile(l) && number < first_tile(l) + tiles(l)) visit.template run<l>(own, number - first_tile(l));
    if constexpr (l < TO) visit_tile<l + 1, TO>(visit, own, number);
  }

  // Calls use(piece) with what is known of a tile's piece; without KEEP the gradient waits in the scratch memory.
  template <int l, class Use>
  DEVICE void for_each_piece(const Arguments& given, int own, Use use) {
#if KEEP
#pragma unroll
#endif
    for (int piece = 0; piece < pieces_of<l>(); piece++) {
      if (32 * (piece * WARPS + thread_index() / 32) >= width(l - 1)) continue;
#if KEEP
      use(piece, pieces[own][piece]);
#else
      float* spill = given.scratch + SC_GRADIENT;
      spill += ((long long)((block_index() * OWN_TILES + own) * TILE_PIECES + piece) * THREADS + thread_index()) * 8;
      Piece at;
      read_row(at.g, spill), read_row(at.g + 4, spill + 4);
      use(piece, at);
      store4(spill, {at.g[0], at.g[1], at.g[2], at.g[3]}), store4(spill + 4, {at.g[4], at.g[5], at.g[6], at.g[7]});
#endif
    }
  }
  template <int l>
  static constexpr int pieces_of() { return ::pieces(l); }
};

// What registers keep is loaded before the samples are gathered: both wait for memory at the same time.
struct LoadTile {
  const Arguments& given;
  State& state;
  template <int l>
  DEVICE void run(int own, int tile) {
    const Arguments& to = given;
    if (KEEP) state.for_each_piece<l>(given, own, [&](int piece, Piece& at) { load_piece<l>(to, tile, piece, at); });
  }
};

struct ShareTile {
  const Arguments& given;
  float* shared;
  State& state;
  template <int l>
  DEVICE void run(int own, int tile) {
    const Arguments& to = given;
    state.for_each_piece<l>(given, own, [&](int piece, Piece& at) {
      if (!KEEP) load_piece<l>(to, tile, piece, at);
      share_piece<l>(to, tile, piece, at);
    });
    load_biases<l>(given, tile, shared + SH_OWN_BIAS + 40 * own);
  }
};

DEVICE const float* find_inputs(const float* scratch, int l, int update, int place) {
  return scratch + place + (l == 1 ? (long long)update * X_SIZE : 0);
}

// Begin to copy what the gradient of a tile reads.
struct StageTile {
  const Arguments& given;
  int update;
  float* shared;
  template <int l>
  DEVICE void run(int own, int tile) {
    if constexpr (is_ahead(l)) {
      const float* x = find_inputs(given.scratch, l, update, scratch_hidden(l - 1));
      if constexpr (l < LAYERS) {
        Backward<l>::stage_columns(given.scratch, tile, shared + SH_COLUMNS);
        Backward<l>::stage_deltas(given.scratch, 0, ROWS, shared + SH_DELTAS);
      }
      if constexpr (l <= LAYERS) {
        const int from = l < LAYERS ? scratch_hidden(l) : scratch_delta(l);
        stage_rows(shared + SH_OWN_UNITS, 8, given.scratch + from + 8 * tile, stride(l), ROWS, 8);
      }
      stage_rows(shared + ahead_inputs(l), input_row(l), x, stride(l - 1), ROWS, stride(l - 1));
      close_copies();
    }
  }
};

struct FindGradient {
  const Arguments& given;
  int update;
  float* shared;
  State& state;
  Clock& clock;
  float squares;
  template <int l>
  DEVICE void run(int own, int tile) {
    leave_deltas<l>(given.scratch, shared, tile);
    clock.mark(70);
    const float* x = is_ahead(l) ? shared + ahead_inputs(l) : find_inputs(given.scratch, l, update, scratch_hidden(l - 1));
    const float* delta = shared + SH_DELTA;
    float sum = 0.0f;
    state.for_each_piece<l>(given, own, [&](int piece, Piece& at) {
      multiply_gradient<l>(x, delta, 32 * (piece * WARPS + thread_index() / 32), tile, at.g);
#pragma unroll
      for (int c = 0; c < 8; c++) sum += at.g[c] * at.g[c];
    });
    clock.mark(71);
    float* bias = shared + SH_OWN_BIAS + 40 * own;
    add_bias_gradients(delta, bias + 32);
    sync_block();
    if (thread_index() < 8) sum += bias[32 + thread_index()] * bias[32 + thread_index()];
    squares += sum;
  }
};

struct MoveTile {
  const Arguments& given;
  float* shared;
  State& state;
  const Rule& rule;
  template <int l>
  DEVICE void run(int own, int tile) {
    const Arguments& to = given;
    const Rule& by = rule;
    state.for_each_piece<l>(given, own, [&](int piece, Piece& at) { move_piece<l>(to, tile, piece, at, by); });
    move_biases<l>(given, tile, shared + SH_OWN_BIAS + 40 * own, rule);
  }
};

template <int l>
DEVICE void go_forward(const Arguments& given, int update, float* shared, Barrier& barrier) {
  run_layer<l>(given.scratch, update, shared, barrier.clock);
  wait_for_copies();  // of a block without a task
  barrier.clock.mark(10 * l);
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(10 * l + 1);
  if constexpr (l < LAYERS) go_forward<l + 1>(given, update, shared, barrier);
}

// The last layers first: their deltas follow from the errors alone. Then one layer after the other.
template <int l>
DEVICE void go_backward(FindGradient& find, Barrier& barrier) {
  if constexpr (l >= 1) {
    barrier.arrive();
    barrier.wait();
    State::for_each_tile<l, l>(find);
    go_backward<l - 1>(find, barrier);
  }
}

// The sum of the squares of the block's part of the gradient, for all to read.
DEVICE void leave_squares(const Arguments& given, float squares, float* shared) {
  squares = sum_over_warp(squares);
  if (thread_index() % 32 == 0) shared[SH_SQUARES + thread_index() / 32] = squares;
  sync_block();
  if (thread_index() == 0) {
    float sum = 0.0f;
    for (int warp = 0; warp < WARPS; warp++) sum += shared[SH_SQUARES + warp];
    given.scratch[SC_SQUARES + block_index()] = sum;
  }
}

// Every warp adds the blocks' sums alike.
DEVICE float read_norm(const float* squares) {
  float sum = 0.0f;
#pragma unroll
  for (int block = thread_index() % 32; block < divide_up(BLOCKS, 32) * 32; block += 32) sum += block < BLOCKS ? squares[block] : 0.0f;
  return sqrtf(sum_over_warp(sum));
}

// Sums of loss and Q(s, a) of this update, by the last warp of the last block.
DEVICE void add_statistics(const Arguments& given, float step, const float* shared, float norm) {
  float loss = 0.0f, value = 0.0f;
  const int lane = thread_index() % 32;
  for (int row = lane; row < ROWS; row += 32) loss += shared[SH_LOSS + row], value += shared[SH_LOSS + ROWS + row];
  loss = sum_over_warp(loss), value = sum_over_warp(value);
  if (lane != 0) return;
  given.sums[0] += loss, given.sums[1] += value, given.sums[2] += norm;
  if (!(loss - loss == 0.0f) && *given.first_bad < 0) *given.first_bad = (long long)step;
}

DEVICE Rule make_rule(float step, float rate, bool last) {
  Rule rule;
  rule.scale = 1.0f;
  rule.rate = rate / -expm1f(step * -0.105360515657826301f);                 // log 0.9
  rule.correction = 1.0f / sqrtf(-expm1f(step * -0.00100050033358353350f));  // log 0.999
  rule.decay = rate * DECAY;
  rule.copy = TARGET_EVERY > 0 && (long long)step % larger(TARGET_EVERY, 1) == 0;
  rule.last = last;
  return rule;
}

DEVICE void do_update(const Arguments& given, int update, float step, float rate, bool last, float* shared, State& state,
                      Barrier& barrier) {
  const float* meta = given.scratch + SC_META + (long long)update * META_SIZE;
  for (int e = 4 * thread_index(); e < META_SIZE; e += 4 * THREADS) copy_async(shared + SH_META + e, meta + e);
  for (int e = 4 * thread_index(); e < 2 * padded(OUTPUT); e += 4 * THREADS) {
    copy_async(shared + SH_OUTPUT_BIAS + e, given.scratch + scratch_bias(OUTPUT) + e);
  }
  Rule rule = make_rule(step, rate, last);
  close_copies();
  go_forward<FUSE ? 2 : 1>(given, update, shared, barrier);
  FindGradient find = {given, update, shared, state, barrier.clock, 0.0f};
  StageTile stage = {given, update, shared};
  State::for_each_tile<larger(LAYERS - 1, 1), OUTPUT>(stage);
  const bool counts = block_index() == BLOCKS - 1 || block_index() == 0;
  if (block_index() < ALL_TILES || counts) {
    add_values(given.scratch, shared);
    sync_block();
    barrier.clock.mark(60);
    find_errors(given, update, shared);
    sync_block();
    barrier.clock.mark(61);
  }
  State::for_each_tile<larger(LAYERS - 1, 1), OUTPUT>(find);
  go_backward<LAYERS - 2>(find, barrier);
  barrier.clock.mark(62);
  leave_squares(given, find.squares, shared);
  barrier.clock.mark(63);
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(64);
  const float norm = read_norm(given.scratch + SC_SQUARES), clipped = CLIP / (norm + 1e-6f);
  barrier.clock.mark(67);
  if (CLIP > 0.0f && clipped < 1.0f) rule.scale = clipped;
  MoveTile move = {given, shared, state, rule};
  State::for_each_tile<1, OUTPUT>(move);
  if (block_index() == BLOCKS - 1 && thread_index() / 32 == WARPS - 1) add_statistics(given, step - 1.0f, shared, norm);
  barrier.clock.mark(65);
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(66);
}

KERNEL update_resident(const Arguments given) {
  float* shared = shared_memory();
  const int due = *given.due, updates = due < MOST ? due : MOST;
  if (updates <= 0) return;
  const float steps = *given.steps, rate = *given.rate;
  Barrier barrier = {given.counter, *given.counter, {given.times, 0}};
  barrier.clock.start();
  State state;
  LoadTile load = {given, state};
  State::for_each_tile<1, OUTPUT>(load);
  gather_samples(given, updates, reinterpret_cast<long long*>(shared + SH_PART));
  barrier.clock.mark(0);
  ShareTile share = {given, shared, state};
  State::for_each_tile<1, OUTPUT>(share);
  barrier.clock.mark(1);
  barrier.arrive();
  barrier.wait();
  barrier.clock.mark(2);
  for (int update = 0; update < updates; update++) {
    do_update(given, update, steps + update + 1, rate, update == updates - 1, shared, state, barrier);
  }
  if (block_index() == 0 && thread_index() == 0) *given.steps = steps + updates;
}
