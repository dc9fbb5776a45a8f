"""A DQN in purejaxrl's style, written from its description: environments, replay and updates in one jitted scan.

CartPole in JAX with the equations and limits of Gymnasium's CartPole-v1, all environments by `vmap`; a flat replay
on the device; the network and Adam in plain JAX. The scan runs `CHUNK` iterations without the host: a step of every
environment and the updates that it earns. What fills the replay before learning is a scan of its own, so that the
measured one has no branch for it.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peers import task

CHUNK = 5_000
STEPS, EDGE, LEAN = 500, 2.4, 12 * 2 * math.pi / 360


class Replay(NamedTuple):
    obs: Any
    action: Any
    reward: Any
    going_on: Any
    next_obs: Any


class State(NamedTuple):
    """Everything that the loop carries."""

    online: Any
    target: Any
    means: Any
    squares: Any
    updates: Any
    replay: Replay
    place: Any
    filled: Any
    obs: Any
    clock: Any
    key: Any


def start_episode(key: Any) -> Any:
    return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)


def step_cart(obs: Any, action: Any) -> Any:
    """One step of 0.02 s: the next observation."""
    x, speed, angle, turn = obs
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (jnp.where(action == 1, 10.0, -10.0) + 0.05 * turn * turn * sine) / 1.1
    bend = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
    pull = push - 0.05 * bend * cosine / 1.1
    return jnp.stack([x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * bend])


def make_network(key: Any) -> list[tuple[Any, Any]]:
    sizes = (4, *task.HIDDEN, 2)
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        key, own = jax.random.split(key)
        limit = 1.0 / math.sqrt(inputs)
        weight = jax.random.uniform(own, (inputs, outputs), minval=-limit, maxval=limit)
        layers.append((weight, jnp.zeros(outputs)))
    return layers


def values(layers: list[tuple[Any, Any]], x: Any) -> Any:
    """Q(s, ·)."""
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def act(state: State, key: Any, envs: int) -> Any:
    coin, other = jax.random.split(key)
    greedy = values(state.online, state.obs).argmax(1)
    random = jax.random.randint(other, (envs,), 0, 2)
    return jnp.where(jax.random.uniform(coin, (envs,)) < task.EPS, random, greedy)


def collect(state: State, envs: int) -> State:
    """A step of every environment into the replay; an ended one starts again in the same step."""
    key, choice, fresh = jax.random.split(state.key, 3)
    action = act(state, choice, envs)
    following = jax.vmap(step_cart)(state.obs, action)
    clock = state.clock + 1
    terminated = (jnp.abs(following[:, 0]) > EDGE) | (jnp.abs(following[:, 2]) > LEAN)
    over = terminated | (clock >= STEPS)
    row = Replay(state.obs, action, jnp.ones(envs), 1.0 - terminated, following)
    replay = jax.tree.map(
        lambda all_, new: jax.lax.dynamic_update_slice_in_dim(all_, new.astype(all_.dtype), state.place, 0),
        state.replay,
        row,
    )
    started = jax.vmap(start_episode)(jax.random.split(fresh, envs))
    return state._replace(
        replay=replay,
        place=(state.place + envs) % task.REPLAY,
        filled=jnp.minimum(state.filled + envs, task.REPLAY),
        obs=jnp.where(over[:, None], started, following),
        clock=jnp.where(over, 0, clock),
        key=key,
    )


def update(state: State, _: Any) -> tuple[State, Any]:
    """A gradient step by Adam, and at intervals a copy into the target."""
    key, draw = jax.random.split(state.key)
    rows = jax.random.randint(draw, (task.BATCH,), 0, state.filled)
    batch = jax.tree.map(lambda column: column[rows], state.replay)
    goal = batch.reward + task.GAMMA * batch.going_on * values(state.target, batch.next_obs).max(1)

    def loss_of(layers: Any) -> Any:
        q = jnp.take_along_axis(values(layers, batch.obs), batch.action[:, None], 1)[:, 0]
        return jnp.square(q - goal).mean()

    loss, slope = jax.value_and_grad(loss_of)(state.online)
    count = state.updates + 1
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.means, slope)
    squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state.squares, slope)
    rate = task.LR * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    online = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), state.online, means, squares)
    copied = count % task.TARGET_EVERY == 0
    target = jax.tree.map(lambda new, old: jnp.where(copied, new, old), online, state.target)
    return State(online, target, means, squares, count, *state[5:-1], key), loss


def make_state(envs: int) -> State:
    key, weights, start = jax.random.split(jax.random.key(0), 3)
    network = make_network(weights)
    nothing, size = jax.tree.map(jnp.zeros_like, network), task.REPLAY
    replay = Replay(
        jnp.zeros((size, 4)),
        jnp.zeros(size, jnp.int32),
        jnp.zeros(size),
        jnp.zeros(size),
        jnp.zeros((size, 4)),
    )
    obs = jax.vmap(start_episode)(jax.random.split(start, envs))
    zero = jnp.zeros((), jnp.int32)
    return State(
        network, network, nothing, nothing, zero, replay, zero, zero, obs, jnp.zeros(envs, jnp.int32), key
    )


def main() -> None:
    asked = task.arguments()
    envs, window = asked.envs, task.Window(asked.seconds)
    assert task.REPLAY % envs == 0
    assert envs % task.EVERY == 0
    per_step = envs // task.EVERY

    @jax.jit
    def fill(state: State) -> State:
        return jax.lax.fori_loop(0, task.STARTS // envs, lambda _, one: collect(one, envs), state)

    @jax.jit
    def train(state: State) -> tuple[State, Any]:
        def iterate(one: State, _: Any) -> tuple[State, Any]:
            return jax.lax.scan(update, collect(one, envs), None, per_step)

        return jax.lax.scan(iterate, state, None, CHUNK)

    if asked.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    assert jax.default_backend() == ("gpu" if asked.device == "cuda" else "cpu"), jax.default_backend()
    state, steps, updates = fill(make_state(envs)), task.STARTS, 0
    while not window.over(steps, updates):
        state, losses = train(state)
        assert bool(jnp.isfinite(losses[-1]).all())  # waits for the device
        steps, updates = steps + CHUNK * envs, updates + CHUNK * per_step
    assert int(state.updates) == updates
    task.report(window.result(), algorithm="DQN", envs=envs, version=f"JAX {jax.__version__}")


if __name__ == "__main__":
    main()
