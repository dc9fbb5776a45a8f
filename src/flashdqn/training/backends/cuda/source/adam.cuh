// Adam on the block's weights. The gradient waits for its norm in registers, and moments stay in registers or in shared
// memory (IN_REGISTERS, IN_SHARED); where they are too many, both lie in memory (IN_MEMORY).

enum Keep { IN_MEMORY, IN_REGISTERS, IN_SHARED };

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

struct State {
#if KEEP != 0
  float g[ALL_SLOTS][8];
#endif
#if KEEP == 1
  float m[ALL_SLOTS][8], v[ALL_SLOTS][8];
#endif

  // Adam's moments, from the flat vectors.
  template <int l>
  DEVICE void load(const Arguments& given) {
#if KEEP == 1
#pragma unroll
    for (int slot = 0; slot < slots(l); slot++) {
      int input, output, lane = thread_index() % 32;
      const bool mine = find_piece<l>(slot, thread_index() / 32, input, output);
#pragma unroll
      for (int k = 0; k < 2; k++) {
        Place place = find_place<l>(input + lane / 4 * 4, output + lane % 4 * 2 + k);
        if (!mine) place.count = 0;
        read_flat<l>(given.first, place, m[first_slot(l) + slot] + 4 * k);
        read_flat<l>(given.second, place, v[first_slot(l) + slot] + 4 * k);
      }
    }
#endif
  }

  DEVICE float* spill(const Arguments& given, int slot) {
    return given.scratch + SC_GRADIENT + ((long long)(block_index() * ALL_SLOTS + slot) * THREADS + thread_index()) * 8;
  }

  // The gradient of layer l; returns the sum of its squares.
  template <int l>
  DEVICE float find_gradient(const Arguments& given, const float* x, const float* delta) {
    float squares = 0.0f;
#if KEEP
#pragma unroll
#endif
    for (int slot = 0; slot < slots(l); slot++) {
      int input, output;
      const bool mine = find_piece<l>(slot, thread_index() / 32, input, output);
      float sum[8] = {};
      if (mine) multiply_gradient<l>(x, delta, input, output, sum);
#pragma unroll
      for (int c = 0; c < 8; c++) squares += sum[c] * sum[c];
#if KEEP
#pragma unroll
      for (int c = 0; c < 8; c++) g[first_slot(l) + slot][c] = sum[c];
#else
      float* to = spill(given, first_slot(l) + slot);
      store4(to, {sum[0], sum[1], sum[2], sum[3]}), store4(to + 4, {sum[4], sum[5], sum[6], sum[7]});
#endif
    }
    return squares;
  }

  template <int l>
  DEVICE void move(const Arguments& given, float* shared, const Rule& rule) {
#if KEEP
#pragma unroll
#endif
    for (int slot = 0; slot < slots(l); slot++) {
      int input, output, lane = thread_index() % 32;
      if (!find_piece<l>(slot, thread_index() / 32, input, output)) continue;
      input += lane / 4 * 4, output += lane % 4 * 2;
      if (input >= depth(l)) continue;
#if KEEP == 0
      float gradient[8];
      const float* from = spill(given, first_slot(l) + slot);
      store_row(gradient, load4(from)), store_row(gradient + 4, load4(from + 4));
#else
      float(&gradient)[8] = g[first_slot(l) + slot];
#endif
#if KEEP == 1
      float(&first)[8] = m[first_slot(l) + slot], (&second)[8] = v[first_slot(l) + slot];
#else
      float first[8], second[8];
#endif
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const Place place = find_place<l>(input, output + k);
        float *own = shared + place.shared, w[4], target[4];
        store_row(w, load4(own)), store_row(target, load4(own + weight_size(l)));
        if (KEEP == IN_MEMORY) {
          read_flat<l>(given.first, place, first + 4 * k), read_flat<l>(given.second, place, second + 4 * k);
        } else if (KEEP == IN_SHARED) {
          store_row(first + 4 * k, load4(own + 2 * weight_size(l)));
          store_row(second + 4 * k, load4(own + 3 * weight_size(l)));
        }
#pragma unroll
        for (int c = 0; c < 4; c++) move_weight(gradient[4 * k + c], first[4 * k + c], second[4 * k + c], w[c], target[c], rule);
        store4(own, {w[0], w[1], w[2], w[3]});
        store4(own + weight_size(l), {target[0], target[1], target[2], target[3]});
        if (KEEP == IN_SHARED) {
          store4(own + 2 * weight_size(l), {first[4 * k], first[4 * k + 1], first[4 * k + 2], first[4 * k + 3]});
          store4(own + 3 * weight_size(l), {second[4 * k], second[4 * k + 1], second[4 * k + 2], second[4 * k + 3]});
        }
        // other blocks read columns of the matrices between hidden layers in their backward pass
        if (rule.last || (l > 1 && l < OUTPUT)) write_flat<l>(given.online, place, w);
        if (rule.last) write_flat<l>(given.target, place, target);
        if (rule.last || KEEP == IN_MEMORY) {
          write_flat<l>(given.first, place, first + 4 * k), write_flat<l>(given.second, place, second + 4 * k);
        }
      }
    }
  }

  DEVICE static void store_row(float* to, float4 value) { to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w; }
};

// Where bias number `e` of the block lies in the flat vector; −1 if there is none, or another block has it.
template <int l = 1>
DEVICE int find_bias(int e) {
  if constexpr (l == OUTPUT) {
    return bias_start(l) + e - first_bias(l);
  } else {
    if (e >= first_bias(l + 1)) return find_bias<l + 1>(e);
    const int unit = block_index() * units(l) + e - first_bias(l);
    return unit < width(l) ? bias_start(l) + unit : -1;
  }
}

DEVICE void load_biases(const Arguments& given, float* shared) {
  for (int e = thread_index(); e < ALL_BIASES; e += THREADS) {
    const int place = find_bias(e);
    const bool inside = place >= 0;
    shared[SH_BIAS + e] = inside ? given.online[place] : 0.0f;
    shared[SH_BIAS + ALL_BIASES + e] = inside ? given.target[place] : 0.0f;
    shared[SH_BIAS + 2 * ALL_BIASES + e] = inside ? given.first[place] : 0.0f;
    shared[SH_BIAS + 3 * ALL_BIASES + e] = inside ? given.second[place] : 0.0f;
    shared[SH_BIAS + 4 * ALL_BIASES + e] = 0.0f;  // the gradient
  }
}

// All blocks move the output's biases alike; the first one counts them, and writes them back.
DEVICE bool owns_bias(int e) { return e < first_bias(OUTPUT) || block_index() == 0; }

DEVICE void move_biases(const Arguments& given, float* shared, const Rule& rule) {
  for (int e = thread_index(); e < ALL_BIASES; e += THREADS) {
    float *w = shared + SH_BIAS + e, *target = w + ALL_BIASES, *m = target + ALL_BIASES, *v = m + ALL_BIASES;
    move_weight(v[ALL_BIASES], *m, *v, *w, *target, rule);
    const int place = find_bias(e);
    if (!rule.last || place < 0 || !owns_bias(e)) continue;
    given.online[place] = *w, given.target[place] = *target, given.first[place] = *m, given.second[place] = *v;
  }
}
