// Before the first update: which transitions are learned from, gathered into the scratch memory for all updates.
// The twins are choose_uniform_slots and gather_transitions in flashdqn.replay.

// numbers of a sample beside its observations, each [ROWS], for every update
enum Meta { META_ACTION, META_REWARD, META_DISCOUNT, META_WEIGHT, META_MASK };
constexpr int MASK_WORDS = MASKED ? divide_up(ACTIONS, 32) : 0;
constexpr int META_SIZE = (META_MASK + MASK_WORDS) * ROWS;
constexpr int X_SIZE = 2 * ROWS * STRIDE_0;
enum Kind { STEP, TERMINATED, TRUNCATED, RESET };

DEVICE long long floor_modulo(long long number, long long by) {
  long long rest = number % by;
  return rest < 0 ? rest + by : rest;
}

DEVICE int read_action(const Arguments& given, long long place) {
  if (ACTION_BYTES == 1) return static_cast<const unsigned char*>(given.action)[place];
  if (ACTION_BYTES == 4) return static_cast<const int*>(given.action)[place];
  return int(static_cast<const long long*>(given.action)[place]);
}

#if SOURCE == 0
// The first draw that is a transition; if none is, the last draw with weight 0.
DEVICE long long choose_slot(const Arguments& given, long long sample, long long samples, float& weight) {
  constexpr long long SLOTS = (long long)RING_ROWS * ENVS;
  long long candidates = (*given.filled - (N_STEP - 1)) * ENVS;
  long long newest = (*given.head - N_STEP) * ENVS, slot[TRIES];
  bool valid[TRIES];
#pragma unroll
  for (int k = 0; k < TRIES; k++) {
    long long number = given.bits[k * samples + sample] % candidates;
    slot[k] = floor_modulo(newest - number / ENVS * ENVS, SLOTS) + number % ENVS;
    valid[k] = given.kind[slot[k]] != RESET;
  }
  long long chosen = slot[TRIES - 1];
  weight = valid[TRIES - 1];
#pragma unroll
  for (int k = TRIES - 2; k >= 0; k--) {
    if (valid[k]) chosen = slot[k], weight = 1.0f;
  }
  return chosen;
}
#endif

// One sample's numbers, and where its two observations lie.
DEVICE void read_sample(const Arguments& given, long long sample, float* meta, int row, long long& here, long long& next) {
  float reward, discount, weight;
#if SOURCE == 2
  here = next = sample;
  reward = given.reward[sample], discount = given.discount[sample], weight = given.weight[sample];
#else
  constexpr long long SLOTS = (long long)RING_ROWS * ENVS;
#if SOURCE == 0
  here = choose_slot(given, sample, (long long)MOST * BATCH, weight);
#else
  here = given.index[sample], weight = given.weight[sample];
#endif
  bool alive = true, ended = false;
  int taken = 0;
  reward = 0.0f;
  for (int k = 0; k < N_STEP; k++) {
    long long slot = (here + (long long)k * ENVS) % SLOTS;
    int kind = given.kind[slot];
    float step = given.reward[slot] * given.powers[k];
    if (!alive) continue;
    reward += step;
    taken = k + 1;
    ended = kind == TERMINATED;
    alive = kind != TERMINATED && kind != TRUNCATED;
  }
  discount = ended ? 0.0f : given.powers[taken];
  next = (here + (long long)taken * ENVS) % SLOTS;
#endif
  int* words = reinterpret_cast<int*>(meta);
  words[META_ACTION * ROWS + row] = read_action(given, here);
  meta[META_REWARD * ROWS + row] = reward;
  meta[META_DISCOUNT * ROWS + row] = discount;
  meta[META_WEIGHT * ROWS + row] = weight;
  for (int word = 0; word < MASK_WORDS; word++) {
    unsigned bits = 0;
    for (int a = 32 * word; a < 32 * word + 32 && a < ACTIONS; a++) {
      if (given.mask[next * ACTIONS + a]) bits |= 1u << (a % 32);
    }
    words[(META_MASK + word) * ROWS + row] = int(bits);
  }
}

DEVICE float read_obs(const Arguments& given, int which, long long place) {
  const void* from = SOURCE == 2 && which ? given.next_obs : given.obs;
  if (BYTES) return static_cast<const unsigned char*>(from)[place] / 255.0f;
  return static_cast<const float*>(from)[place];
}

// Every block gathers a part of the samples of all updates. `places` is shared memory for 2 · THREADS numbers.
DEVICE void gather_samples(const Arguments& given, int updates, long long* places) {
  const int tid = thread_index(), share = divide_up(updates * BATCH, BLOCKS);
  const int begin = block_index() * share, end = begin + share < updates * BATCH ? begin + share : updates * BATCH;
  for (int start = begin; start < end; start += THREADS) {
    const int count = end - start < THREADS ? end - start : THREADS;
    if (tid < count) {
      int sample = start + tid;
      float* meta = given.scratch + SC_META + (long long)(sample / BATCH) * META_SIZE;
      read_sample(given, sample, meta, sample % BATCH, places[2 * tid], places[2 * tid + 1]);
    }
    sync_block();
    const int numbers = 2 * count * WIDTH_0;
#pragma unroll 8
    for (int e = tid; e < numbers; e += THREADS) {
      int which = e / WIDTH_0, column = e % WIDTH_0, sample = start + which / 2;
      float value = read_obs(given, which % 2, places[which] * WIDTH_0 + column);
      float* x = given.scratch + SC_X + (long long)(sample / BATCH) * X_SIZE;
      x[((which % 2) * ROWS + sample % BATCH) * STRIDE_0 + column] = round_tf32(value);
    }
    sync_block();
  }
}
