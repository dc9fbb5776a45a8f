"""Several whole iterations in one call, on the CPU: act, step, record, sample, update, again and again.

With few boards and a small network, a good part of an iteration was Python, and the threads' way into each call and
out of it. Here the threads stay together for many iterations. An iteration has these stages, each for parts that
threads take by counting (`mlp.take_next_part`):

    by everyone   the first layer of the network, for all boards
    rows          the other hidden layers, some rows at a time: a stage for each
    one thread    the last layer and the actions; the game's step; recording; ε, learning rate and due updates; the
                  random numbers, and the samples of all these updates
    updates       in groups, as `Engine.learn` does them

Random numbers come from PyTorch's generators, and everything is computed in the same order as by single calls: the
results are the same, bit by bit.

A thread that comes late must do no harm. It writes only its own memory until it gets a part. All that it reads to
find its way (tables, counters, how many groups there are) belongs to one iteration, and is not used for another.
"""

from __future__ import annotations

from flashdqn.compute.calls import call_address, read_cycles
from flashdqn.compute.gemm import (
    finish_stage,
    multiply_matrices,
    never_inlined,
    view_float_matrix,
    view_matrix_like,
)
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.mersenne import draw_integers, draw_uniform
from flashdqn.learn.adam_cpu import LR, STEPS
from flashdqn.training.backends.cpu.mlp import (
    APART,
    BIAS,
    IN,
    NO_LIMIT,
    OUT,
    SINGLE,
    WEIGHT,
    Y,
    load_observations,
    take_next_part,
)
from flashdqn.training.backends.cpu.policy import choose_actions

#: Rows of a hidden layer that are taken at a time.
BLOCK = 32

# Entries of `sizes`: the address of the counters; bytes of an iteration's counters; width of matrices of boards;
# boards, rounded up to whole vectors or to half of one; whether observations are bytes; draws for a sample, samples
# of an update, the largest group.
COUNTERS, SPAN, WIDTH, PADDED, BYTES, DRAWS, BATCH, LARGEST = range(8)

# Entries of `rates`: how ε changes, and from what to what over how many transitions; the learning rate likewise.
EPS_KIND, EPS_START, EPS_END, EPS_OVER, RATE_KIND, RATE_START, RATE_END, RATE_OVER = range(8)
CONSTANT, LINEAR, EXPONENTIAL = range(3)

# Entries of `ratio`: updates per transition as a fraction, and the transitions that earn none.
NUMERATOR, DENOMINATOR, STARTS = range(3)

# Entries of `progress`: iterations to do, iterations done, updates so far.
ASKED, DONE, UPDATES = range(3)

# Columns of a table of groups: the update and its table, where it reads how many batches there are, its settings,
# and how many it has done.
UPDATE, UPDATE_TABLE, UPDATE_COUNT, UPDATE_SETTINGS, UPDATE_DONE = range(5)
GROUP_COLUMNS = 5

# Entries of `cycles`.
ACTING, STEPPING, RECORDING, SAMPLING, UPDATING = range(5)


@never_inlined
def run_iterations(
    worker: Scalar,
    threads: Scalar,
    layers: Array,  # [L, LAYER_COLUMNS]: parameters of the online network; Y of the hidden layers but the first
    own: Array,  # [threads, 2]: the addresses of each worker's input and first hidden layer
    shares: Array,  # [L - 1, threads + 1]: of the hidden layers but the first, and of the stage of one thread
    sizes: Array,  # by COUNTERS … LARGEST
    obs: Array,  # [N, inputs], as seen now
    legal: Array,  # [N, A]
    eps: Array,  # [N]
    luck: Array,  # [2, N]
    action: Array,  # [N]
    lr: Array,  # [1]
    rates: Array,  # by EPS_KIND … RATE_OVER
    ratio: Array,  # by NUMERATOR … STARTS
    totals: Array,  # transitions and episodes so far
    exploring: Array,  # the state of a generator
    replaying: Array,  # the state of a generator
    bits: Array,  # room for the draws of the largest group
    game: Array,  # addresses: a step of the game and its table, recording and its table
    picks: Array,  # [slots, sizes of groups, 2]: addresses of picking and its table, for 1, 2, 4 … updates
    groups: Array,  # [iterations, slots, GROUP_COLUMNS]
    settings: Array,  # of Adam, as in `adam_step`: they are copied for every group
    plan: Array,  # [iterations, 1 + slots]: the number of groups, and of updates in each
    progress: Array,  # by ASKED … UPDATES
    cycles: Array,  # by ACTING … UPDATING: the processor's cycles are added
) -> None:
    """`progress[ASKED]` iterations, or fewer if a loss is not finite."""
    stage, begin = (threads + 1) * APART, read_cycles()
    for j in range(progress[ASKED]):
        counters = sizes[COUNTERS] + sizes[SPAN] * j
        hidden_layers(worker, threads, layers, own[worker], shares, sizes, obs, counters)
        last = len(layers) - 2
        counters += last * stage
        finished, first = 0, take_next_part(counters, shares[last], worker, threads)
        if first == 0:
            cycles[ACTING] += read_cycles() - begin
            set_rates(totals[0], rates, eps, lr)
            act(layers, own[worker], sizes, exploring, luck, legal, eps, action, cycles)
            play(game, cycles)
            plan_updates(
                j,
                totals[0],
                ratio,
                sizes,
                replaying,
                bits,
                picks,
                groups,
                settings,
                lr,
                plan,
                progress,
                cycles,
            )
            finished, begin = 1, read_cycles()
        finish_stage(counters, finished, 1)
        for g in range(plan[j, 0]):
            call_address(groups[j, g, UPDATE], worker, threads, groups[j, g, UPDATE_TABLE])
            if view_matrix_like(groups[j, g, UPDATE_DONE], 1, 1, progress)[0, 0] < plan[j, 1 + g]:
                return
        if first == 0:
            cycles[UPDATING] += read_cycles() - begin
        begin = read_cycles()


@never_inlined
def hidden_layers(
    worker: Scalar, threads: Scalar, layers: Array, mine: Array, shares: Array, sizes: Array, obs: Array,
    counters: Scalar,
) -> None:  # fmt: skip
    """The first layer, by this thread for itself; the other hidden layers, shared."""
    width, count = sizes[WIDTH], sizes[PADDED]
    load_observations(obs, 0, len(obs), view_float_matrix(mine[0], layers[0, IN], width), sizes[BYTES])
    multiply_rows(layers[0], mine[0], mine[1], 0, layers[0, OUT], width, count)
    x, stage = mine[1], (threads + 1) * APART
    for k in range(1, len(layers) - 1):
        finished, part = 0, take_next_part(counters, shares[k - 1], worker, threads)
        while part >= 0:
            first = part * BLOCK
            multiply_rows(layers[k], x, layers[k, Y], first, min(BLOCK, layers[k, OUT] - first), width, count)
            finished += 1
            part = take_next_part(counters, shares[k - 1], worker, threads)
        finish_stage(counters, finished, shares[k - 1, threads])
        counters += stage
        x = layers[k, Y]


@inner
def multiply_rows(
    layer: Array, x: Scalar, y: Scalar, first: Scalar, rows: Scalar, width: Scalar, count: Scalar
) -> None:
    """Some rows of a hidden layer."""
    inputs = layer[IN]
    multiply_matrices(
        layer[WEIGHT] + 4 * first * inputs, inputs, 1, x, width, y + 4 * first * width, width, rows, count, inputs,
        layer[BIAS] + 4 * first, 1, SINGLE(0.0), 0,
    )  # fmt: skip


@never_inlined
def act(
    layers: Array, mine: Array, sizes: Array, exploring: Array, luck: Array, legal: Array, eps: Array,
    action: Array, cycles: Array,
) -> None:  # fmt: skip
    """The last layer, and the actions."""
    begin, last, width = read_cycles(), len(layers) - 1, sizes[WIDTH]
    x = mine[1] if last == 1 else layers[last - 1, Y]
    actions, inputs = layers[last, OUT], layers[last, IN]
    multiply_matrices(
        layers[last, WEIGHT], inputs, 1, x, width, layers[last, Y], width, actions, sizes[PADDED], inputs,
        layers[last, BIAS], 1, NO_LIMIT, 0,
    )  # fmt: skip
    for k in range(len(luck)):
        draw_uniform(exploring, luck[k])
    choose_actions(
        view_float_matrix(layers[last, Y], actions, width), action, legal, eps, luck, 0, len(action)
    )
    cycles[ACTING] += read_cycles() - begin


@inner
def play(game: Array, cycles: Array) -> None:
    """A step of all boards, and its recording."""
    begin = read_cycles()
    call_address(game[0], 0, 1, game[1])
    between = read_cycles()
    call_address(game[2], 0, 1, game[3])
    cycles[STEPPING] += between - begin
    cycles[RECORDING] += read_cycles() - between


@never_inlined
def set_rates(transitions: Scalar, rates: Array, eps: Array, lr: Array) -> None:
    """ε and the learning rate, as `Schedules` computes them."""
    if rates[EPS_KIND] != CONSTANT:
        now = SINGLE(find_rate(transitions, rates, EPS_KIND))
        for i in range(len(eps)):
            eps[i] = now
    if rates[RATE_KIND] != CONSTANT:
        lr[0] = SINGLE(find_rate(transitions, rates, RATE_KIND))


@inner
def find_rate(transitions: Scalar, rates: Array, place: Scalar) -> Scalar:
    """A rate whose entries begin at a place."""
    kind, start, end = rates[place], rates[place + 1], rates[place + 2]
    share = min(1.0, transitions / rates[place + 3])
    if kind == EXPONENTIAL:
        return start * (end / start) ** share
    return start + (end - start) * share


@never_inlined
def plan_updates(
    j: Scalar, transitions: Scalar, ratio: Array, sizes: Array, replaying: Array, bits: Array, picks: Array,
    groups: Array, settings: Array, lr: Array, plan: Array, progress: Array, cycles: Array,
) -> None:  # fmt: skip
    """How many updates are due, in which groups; draws and gathers their samples."""
    begin = read_cycles()
    earned = max(0, transitions - ratio[STARTS]) * ratio[NUMERATOR] // ratio[DENOMINATOR]
    due, slot = max(0, earned - progress[UPDATES]), 0
    while due > 0:
        count, power = 1, 0
        while 2 * count <= min(due, sizes[LARGEST]):
            count, power = 2 * count, power + 1
        draw_integers(replaying, bits, sizes[DRAWS] * sizes[BATCH] * count)
        call_address(picks[slot, power, 0], 0, 1, picks[slot, power, 1])
        view_matrix_like(groups[j, slot, UPDATE_COUNT], 1, 1, progress)[0, 0] = count
        own = view_matrix_like(groups[j, slot, UPDATE_SETTINGS], 1, len(settings), settings)
        for k in range(len(settings)):
            own[0, k] = settings[k]
        own[0, LR] = lr[0]
        plan[j, 1 + slot] = count
        settings[STEPS] += count
        progress[UPDATES] += count
        due -= count
        slot += 1
    plan[j, 0] = slot
    progress[DONE] = j + 1
    cycles[SAMPLING] += read_cycles() - begin
