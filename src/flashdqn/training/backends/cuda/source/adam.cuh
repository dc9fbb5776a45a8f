// Adam on the tiles that a block owns. Weights, target, moments and gradient stay in registers (KEEP), or in memory where
// they are too many. The scratch memory always has the newest weights, with padded rows, for everybody to read.

struct Rule {
  float scale, rate, correction, decay;  // of the gradient; lr / (1 − 0.9ᵗ); 1 / √(1 − 0.999ᵗ); lr · weight decay
  bool copy, last;                       // the target becomes the online network now; nothing follows in this launch
};

DEVICE void move_weight(float gradient, float& m, float& v, float& w, float& target, const Rule& rule) {
  const float g = gradient * rule.scale;
  if (DECAY > 0.0f) w -= rule.decay * w;
  m += 0.1f * (g - m);
  v += 0.001f * (g * g - v);
  w -= divide(rule.rate * m, take_root(v) * rule.correction + EPSILON);
  if (TARGET_EVERY == 0) {
    target += TAU * (w - target);
  } else if (rule.copy) {
    target = w;
  }
}

// Four neighbors in a row of a matrix, of which `count` exist: where they lie in the flat vector and in the scratch memory.
struct Place {
  int count, scratch;
  long long flat;
};
template <int l>
DEVICE Place find_place(int output, int input) {
  const int left = output < width(l) ? width(l - 1) - input : 0;
  const int inside = input < stride(l - 1) ? scratch_weight(l) + output * stride(l - 1) + input : -1;
  return {left < 0 ? 0 : left > 4 ? 4 : left, inside, weight_start(l) + (long long)output * width(l - 1) + input};
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

DEVICE void read_row(float* to, const float* from) {
  const float4 value = load4(from);
  to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
}

// What a lane knows of one piece: for two outputs, four inputs each.
struct Piece {
  float w[8], target[8], m[8], v[8], g[8];
};

template <int l>
DEVICE int find_input(int piece) { return 32 * (piece * WARPS + thread_index() / 32) + thread_index() % 32 / 4 * 4; }
DEVICE int find_output(int tile, int k) { return 8 * tile + thread_index() % 4 * 2 + k; }

// From the flat vectors to registers.
template <int l>
DEVICE void load_piece(const Arguments& given, int tile, int piece, Piece& to) {
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const Place place = find_place<l>(find_output(tile, k), find_input<l>(piece));
    read_flat<l>(given.online, place, to.w + 4 * k), read_flat<l>(given.target, place, to.target + 4 * k);
    if (KEEP) read_flat<l>(given.first, place, to.m + 4 * k), read_flat<l>(given.second, place, to.v + 4 * k);
  }
}

// Weights and target for everybody.
template <int l>
DEVICE void share_piece(const Arguments& given, int tile, int piece, const Piece& at) {
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const Place place = find_place<l>(find_output(tile, k), find_input<l>(piece));
    const float *w = at.w + 4 * k, *t = at.target + 4 * k;
    if (place.scratch < 0) continue;
    store4(given.scratch + place.scratch, {w[0], w[1], w[2], w[3]});
    store4(given.scratch + place.scratch + weight_size(l), {t[0], t[1], t[2], t[3]});
  }
}

template <int l>
DEVICE void move_piece(const Arguments& given, int tile, int piece, Piece& at, const Rule& rule) {
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const Place place = find_place<l>(find_output(tile, k), find_input<l>(piece));
    float *w = at.w + 4 * k, *t = at.target + 4 * k, *m = at.m + 4 * k, *v = at.v + 4 * k;
    if (!KEEP) {
      if (place.scratch < 0) continue;
      read_row(w, given.scratch + place.scratch), read_row(t, given.scratch + place.scratch + weight_size(l));
      read_flat<l>(given.first, place, m), read_flat<l>(given.second, place, v);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) move_weight(at.g[4 * k + c], m[c], v[c], w[c], t[c], rule);
    if (place.scratch >= 0) {
      store4(given.scratch + place.scratch, {w[0], w[1], w[2], w[3]});
      store4(given.scratch + place.scratch + weight_size(l), {t[0], t[1], t[2], t[3]});
    }
    if (rule.last) write_flat<l>(given.online, place, w), write_flat<l>(given.target, place, t);
    if (rule.last || !KEEP) write_flat<l>(given.first, place, m), write_flat<l>(given.second, place, v);
  }
}

// The biases of a tile: online, target, moments and gradient, [5, 8] in shared memory.
template <int l>
DEVICE void load_biases(const Arguments& given, int tile, float* bias) {
  const int u = thread_index(), unit = 8 * tile + u, place = bias_start(l) + unit;
  if (u >= 8) return;
  const bool inside = unit < width(l);
  bias[u] = inside ? given.online[place] : 0.0f, bias[8 + u] = inside ? given.target[place] : 0.0f;
  bias[16 + u] = inside ? given.first[place] : 0.0f, bias[24 + u] = inside ? given.second[place] : 0.0f;
  given.scratch[scratch_bias(l) + unit] = bias[u], given.scratch[scratch_bias(l) + padded(l) + unit] = bias[8 + u];
}

template <int l>
DEVICE void move_biases(const Arguments& given, int tile, float* bias, const Rule& rule) {
  const int u = thread_index(), unit = 8 * tile + u, place = bias_start(l) + unit;
  if (u >= 8 || unit >= width(l)) return;
  move_weight(bias[32 + u], bias[16 + u], bias[24 + u], bias[u], bias[8 + u], rule);
  given.scratch[scratch_bias(l) + unit] = bias[u], given.scratch[scratch_bias(l) + padded(l) + unit] = bias[8 + u];
  if (!rule.last) return;
  given.online[place] = bias[u], given.target[place] = bias[8 + u];
  given.first[place] = bias[16 + u], given.second[place] = bias[24 + u];
}
