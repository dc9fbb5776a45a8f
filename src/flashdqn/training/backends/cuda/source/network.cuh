// Sizes. Layer 0 is the observation, layers 1 to LAYERS are hidden, layer LAYERS + 1 is the output. Every block owns
// UNITS_l units of each hidden layer, and the columns of the output layer that read its units of the last one.

constexpr int pick(int l, int a, int b, int c, int d, int e, int f) {
  return l == 0 ? a : l == 1 ? b : l == 2 ? c : l == 3 ? d : l == 4 ? e : f;
}
constexpr int width(int l) { return pick(l, WIDTH_0, WIDTH_1, WIDTH_2, WIDTH_3, WIDTH_4, WIDTH_5); }
// from one row of a layer's activations to the next: a multiple of 16
constexpr int stride(int l) { return pick(l, STRIDE_0, STRIDE_1, STRIDE_2, STRIDE_3, STRIDE_4, 0); }
constexpr int units(int l) { return pick(l, 0, UNITS_1, UNITS_2, UNITS_3, UNITS_4, 0); }
// where a layer's matrix and bias begin in the flat vector
constexpr int weight_start(int l) { return pick(l, 0, WEIGHT_1, WEIGHT_2, WEIGHT_3, WEIGHT_4, WEIGHT_5); }
constexpr int bias_start(int l) { return pick(l, 0, BIAS_1, BIAS_2, BIAS_3, BIAS_4, BIAS_5); }
// where things lie in shared memory, counted in floats: weights of a layer (online, then target), and so on
constexpr int shared_weight(int l) { return pick(l, 0, SH_W_1, SH_W_2, SH_W_3, SH_W_4, SH_W_5); }
constexpr int shared_hidden(int l) { return pick(l, 0, SH_H_1, SH_H_2, SH_H_3, SH_H_4, 0); }
// in the scratch memory: activations [STREAMS, ROWS, stride] and gradients of them [ROWS, stride]
constexpr int scratch_hidden(int l) { return pick(l, SC_X, SC_H_1, SC_H_2, SC_H_3, SC_H_4, 0); }
constexpr int scratch_delta(int l) { return pick(l, 0, SC_D_1, SC_D_2, SC_D_3, SC_D_4, 0); }
// into how many parts a layer's inner products are cut, so that all warps have work
constexpr int forward_cuts(int l) { return pick(l, 0, CUTS_1, CUTS_2, CUTS_3, CUTS_4, 0); }
constexpr int backward_cuts(int l) { return pick(l, 0, BACK_1, BACK_2, BACK_3, BACK_4, 0); }

constexpr int OUTPUT = LAYERS + 1;
constexpr int THREADS = 32 * WARPS;
// Rows of shared matrices are 16 mod 32 floats apart: then eight lanes that read 16 bytes each hit all banks once.
constexpr int pad_row(int n) { return (n + 15) / 16 * 16 % 32 == 16 ? (n + 15) / 16 * 16 : (n + 31) / 32 * 32 + 16; }
constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }
// inputs of a layer that a block multiplies: all of them, or those that it owns for the output layer
constexpr int depth(int l) { return l == OUTPUT ? units(LAYERS) : stride(l - 1); }
constexpr int outputs(int l) { return l == OUTPUT ? divide_up(ACTIONS, 8) * 8 : units(l); }
constexpr int weight_row(int l) { return l == OUTPUT ? units(LAYERS) : pad_row(stride(l - 1)); }
constexpr int weight_size(int l) { return outputs(l) * weight_row(l); }
constexpr int DELTA_ROW = pad_row(ROWS);
constexpr int ALL_ROWS = STREAMS * ROWS;
constexpr int VALUES = divide_up(ACTIONS, 4) * 4;
// blocks that own units of the last hidden layer
constexpr int LAST_BLOCKS = divide_up(width(LAYERS), units(LAYERS));
// the stream of target(next_obs) is the last one; online(obs) is the first
constexpr int TARGET_STREAM = STREAMS - 1;

// The gradient of a layer's matrix is cut into pieces of 32 inputs and 8 outputs; a warp keeps its pieces in registers.
constexpr int pieces(int l) { return divide_up(depth(l), 32) * (outputs(l) / 8); }
constexpr int slots(int l) { return divide_up(pieces(l), WARPS); }
constexpr int first_slot(int l) { return l <= 1 ? 0 : first_slot(l - 1) + slots(l - 1); }
constexpr int ALL_SLOTS = first_slot(OUTPUT) + slots(OUTPUT);
// biases: those of the units that the block owns, layer by layer, then those of the output
constexpr int first_bias(int l) { return l <= 1 ? 0 : first_bias(l - 1) + units(l - 1); }
constexpr int ALL_BIASES = first_bias(OUTPUT) + ACTIONS;

struct Arguments {
  float *online, *target, *first, *second;  // flat: parameters, target's parameters, Adam's moments
  float *steps, *rate, *sums;
  long long* first_bad;
  float* priority;  // [updates, BATCH]
  // the ring, or a batch that was gathered already
  const void *obs, *next_obs, *action;
  const float *reward, *discount, *weight, *powers;
  const unsigned char *kind, *mask;
  const long long *head, *filled, *bits, *index;
  const int* due;
  float* scratch;
  unsigned* counter;
  long long* times;  // see Clock
};
