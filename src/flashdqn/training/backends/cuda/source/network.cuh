// Sizes. Layer 0 is the observation, layers 1 to LAYERS are hidden, layer OUTPUT gives the action values.

constexpr int pick(int l, int a, int b, int c, int d, int e, int f) {
  return l == 0 ? a : l == 1 ? b : l == 2 ? c : l == 3 ? d : l == 4 ? e : f;
}
constexpr int OUTPUT = LAYERS + 1;
constexpr int THREADS = 32 * WARPS;
constexpr int width(int l) { return pick(l, WIDTH_0, WIDTH_1, WIDTH_2, WIDTH_3, WIDTH_4, WIDTH_5); }
// from one row of a layer's activations to the next: a multiple of 16
constexpr int stride(int l) { return pick(l, STRIDE_0, STRIDE_1, STRIDE_2, STRIDE_3, STRIDE_4, STRIDE_5); }
// where a layer's matrix and bias begin in the flat vector
constexpr int weight_start(int l) { return pick(l, 0, WEIGHT_1, WEIGHT_2, WEIGHT_3, WEIGHT_4, WEIGHT_5); }
constexpr int bias_start(int l) { return pick(l, 0, BIAS_1, BIAS_2, BIAS_3, BIAS_4, BIAS_5); }
// in the scratch memory: activations [STREAMS, ROWS, stride], deltas [ROWS, stride], and for the online network, then
// for the target, weights [padded(l), stride(l − 1)] and biases [padded(l)]
constexpr int scratch_hidden(int l) { return pick(l, SC_X, SC_H_1, SC_H_2, SC_H_3, SC_H_4, 0); }
constexpr int scratch_delta(int l) { return pick(l, 0, SC_D_1, SC_D_2, SC_D_3, SC_D_4, 0); }
constexpr int scratch_weight(int l) { return pick(l, 0, SC_W_1, SC_W_2, SC_W_3, SC_W_4, SC_W_5); }
constexpr int scratch_bias(int l) { return pick(l, 0, SC_B_1, SC_B_2, SC_B_3, SC_B_4, SC_B_5); }
constexpr int padded(int l) { return pick(l, 0, PADDED_1, PADDED_2, PADDED_3, PADDED_4, PADDED_5); }
// units of one task of the forward pass: a multiple of 8, at most 32
constexpr int group(int l) { return pick(l, 0, GROUP_1, GROUP_2, GROUP_3, GROUP_4, 0); }

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int groups(int l) { return divide_up(width(l), group(l)); }
constexpr int weight_size(int l) { return padded(l) * stride(l - 1); }
constexpr int ALL_ROWS = STREAMS * ROWS;
constexpr int VALUES = divide_up(ACTIONS, 4) * 4;
// the stream of target(next_obs) is the last one; online(obs) is the first
constexpr int TARGET_STREAM = STREAMS - 1;
// Rows of shared matrices are 16 mod 32 floats apart: then eight lanes that read 16 bytes each hit all banks once.
constexpr int pad_row(int n) { return (n + 15) / 32 * 32 + 16; }
constexpr int DELTA_ROW = pad_row(ROWS);

// Eight outputs of a layer and all its inputs are a tile, which one block owns: its gradient and Adam's moments. Tiles
// of all layers are numbered; block b owns tiles b, b + BLOCKS, … A warp has 32 inputs of a tile at a time (a piece).
constexpr int tiles(int l) { return divide_up(width(l), 8); }
constexpr int first_tile(int l) { return l <= 1 ? 0 : first_tile(l - 1) + tiles(l - 1); }
constexpr int ALL_TILES = first_tile(OUTPUT) + tiles(OUTPUT);
constexpr int OWN_TILES = divide_up(ALL_TILES, BLOCKS);
constexpr int pieces(int l) { return divide_up(divide_up(width(l - 1), 32), WARPS); }
constexpr int most_pieces(int l) { return l == 0 ? 1 : larger(pieces(l), most_pieces(l - 1)); }
constexpr int TILE_PIECES = most_pieces(OUTPUT);

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
