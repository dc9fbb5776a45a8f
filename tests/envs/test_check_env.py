"""Every toy passes the checker; for every rule of the contract, an environment that breaks it is caught."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor
from toy_envs import Chain, Crossing, MaskedBandit

from flashdqn.core.contract import ObsSpec, VecEnv
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.types import Step
from flashdqn.envs.check import check_env

STEPS = 40  # enough for every toy to end some episodes


def expect_breach(env: VecEnv, *parts: str, steps: int = STEPS) -> None:
    """`check_env` raises, names the environment first, and says each of `parts`."""
    with pytest.raises(EnvError) as caught:
        check_env(env, steps=steps)
    message = str(caught.value)
    assert message.startswith(f"{env.name}: ")
    for part in parts:
        assert part in message


# ---- environments that keep the contract


class ReusedBuffers(Chain):
    """Answers with the same tensors every time, as the contract allows."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "reused-buffers"
        self.buffers: list[Tensor] = []

    def step(self, action: Tensor) -> Step:
        fresh = super().step(action)[:4]
        self.buffers = self.buffers or [tensor.clone() for tensor in fresh]
        for buffer, tensor in zip(self.buffers, fresh, strict=True):
            buffer.copy_(tensor)
        return Step(*self.buffers)


class BareWhenTerminated(Chain):
    """Has no legal action, and no outcome either, once it terminated; both are allowed."""

    outcome_names = ()

    def __init__(self) -> None:
        super().__init__()
        self.name = "bare-when-terminated"

    @property
    def mask(self) -> Tensor:  # type: ignore[override]
        return (self.position < self.num_states - 1)[:, None].expand(-1, 2)

    @property
    def outcomes(self) -> Tensor:
        return torch.zeros(self.num_envs, 0)

    def step(self, action: Tensor) -> Step:
        return super().step(action)._replace(mask=self.mask)


@pytest.mark.parametrize(
    "env",
    [
        Chain(),
        Chain(num_envs=1, num_states=2, time_limit=None),
        Crossing("terminated"),
        Crossing("truncated"),
        MaskedBandit(),
        MaskedBandit(num_contexts=5, num_actions=4),
        ReusedBuffers(),
        BareWhenTerminated(),
    ],
    ids=lambda env: env.name,
)
@pytest.mark.parametrize("seed", [0, 7])
def test_correct_environments_pass(env: VecEnv, seed: int) -> None:
    report = check_env(env, steps=STEPS, seed=seed)
    assert report.steps == STEPS
    assert report.terminated + report.truncated > 0
    assert report.notes == ()


def test_report_counts_ends_by_kind() -> None:
    # Every other step starts a new episode.
    terminated = check_env(Crossing("terminated", num_envs=3), steps=10)
    truncated = check_env(Crossing("truncated", num_envs=3), steps=10)
    assert (terminated.terminated, terminated.truncated) == (15, 0)
    assert (truncated.terminated, truncated.truncated) == (0, 15)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_suffice_for_a_report(steps: int) -> None:
    assert check_env(MaskedBandit(), steps=steps).steps == steps


def test_report_says_that_no_episode_ended() -> None:
    (note,) = check_env(Chain(num_states=50, time_limit=None), steps=20).notes
    assert "Autoreset was not tried" in note


def test_report_says_that_a_single_action_proves_nothing() -> None:
    env = Crossing("truncated")
    env.num_actions = 1
    (note,) = check_env(env, steps=4).notes
    assert "single action" in note


def test_steps_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="`steps` must be at least 1, but it is 0"):
        check_env(Chain(), steps=0)


# ---- attributes


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("num_envs", 0),
        ("num_envs", 4.0),
        ("num_envs", True),
        ("num_actions", 0),
        ("obs_spec", ((5,), torch.float32)),
        ("obs_spec", ObsSpec((0,), torch.float32)),
        ("obs_spec", ObsSpec([5], torch.float32)),  # type: ignore[arg-type]
        ("obs_spec", ObsSpec((5,), "float32")),  # type: ignore[arg-type]
        ("device", "cpu"),
        ("outcome_names", ("score", "score")),
        ("outcome_names", ("score", 1)),
        ("outcome_names", ["score", "steps"]),
        ("step", None),
    ],
)
def test_attributes_have_sensible_values(attribute: str, value: object) -> None:
    env = Chain()
    setattr(env, attribute, value)
    expect_breach(env, f"`{attribute}` must be", repr(value))


@pytest.mark.parametrize("strange", ["score", "wall"])
def test_a_cause_is_an_outcome_other_than_the_score(strange: str) -> None:
    env = Chain()
    env.cause_names = ("steps",)  # type: ignore[attr-defined]
    check_env(env)
    env.cause_names = ("steps", strange)  # type: ignore[attr-defined]
    expect_breach(env, "`cause_names`", repr(strange))


@pytest.mark.parametrize("value", ["", 3])
def test_name_is_a_string(value: object) -> None:
    env = Chain()
    env.name = value  # type: ignore[assignment]
    with pytest.raises(EnvError, match=r"^Chain: `name` must be a string"):
        check_env(env)


@pytest.mark.parametrize(
    "attribute", ["num_envs", "num_actions", "outcome_names", "reset", "load_state_dict"]
)
def test_missing_attribute(attribute: str) -> None:
    whole = Chain()
    kept = ["name", "num_envs", "num_actions", "obs_spec", "device", "outcome_names", "mask", "outcomes"]
    kept += ["reset", "step", "state_dict", "load_state_dict"]
    parts = {key: getattr(whole, key) for key in kept if key != attribute}
    expect_breach(type("Partial", (), parts)(), f"`{attribute}` must be", "missing")


@pytest.mark.parametrize("attribute", ["mask", "outcomes"])
def test_missing_property(attribute: str) -> None:
    def absent(self: Chain) -> Tensor:
        raise AttributeError

    env = type("Partial", (Chain,), {attribute: property(absent)})()
    expect_breach(env, f"`{attribute}` must be there after reset", "missing")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda outcomes: outcomes[:, :1], "its shape is [4, 1]"),
        (lambda outcomes: outcomes.double(), "its dtype is torch.float64"),
        (lambda outcomes: outcomes.tolist(), "it is a list"),
        (lambda outcomes: outcomes.to("meta"), "it is on meta"),
        (lambda outcomes: outcomes / 0, "of an ended episode must be finite"),
    ],
)
def test_outcomes(change: Callable[[Tensor], Tensor], part: str) -> None:
    class Broken(Chain):
        @property
        def outcomes(self) -> Tensor:
            return change(super().outcomes)

    expect_breach(Broken(), "`env.outcomes`", part)


def test_outcomes_of_running_episodes_are_free() -> None:
    class Careless(Chain):
        @property
        def outcomes(self) -> Tensor:
            return super().outcomes.where(self.episodes.over[:, None], torch.nan)

    check_env(Careless(), steps=STEPS)


# ---- reset


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda obs: obs[:2], "its shape is [2, 5]"),
        (lambda obs: obs.flatten(), "its shape is [20]"),
        (lambda obs: obs.half(), "its dtype is torch.float16"),
        (lambda obs: obs.to("meta"), "it is on meta"),
        (lambda obs: obs.numpy(), "it is a ndarray"),
        (lambda obs: (obs, {}), "it is a tuple"),
        (lambda obs: obs.log(), "must be finite, but it holds -inf in environment 0"),
    ],
)
def test_observation_of_reset(change: Callable[[Tensor], Tensor], part: str) -> None:
    class Broken(Chain):
        def reset(self, seed: int) -> Tensor:
            return change(super().reset(seed))

    expect_breach(Broken(), "reset", part)


# ---- a step


def altered(change: Callable[[Step], Step], base: type[Chain | MaskedBandit] = Chain) -> Chain | MaskedBandit:
    """A toy whose every answer is changed on its way out."""

    class Altered(base):  # type: ignore[misc, valid-type]
        def step(self, action: Tensor) -> Step:
            return change(super().step(action))

    return Altered()


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda step: tuple(step), ["flashdqn.core.types.Step", "a tuple"]),
        (lambda step: step._replace(obs=step.obs.int()), ["`obs` of a step", "torch.int32"]),
        (lambda step: step._replace(obs=step.obs[:, :4]), ["`obs` of a step", "its shape is [4, 4]"]),
        (lambda step: step._replace(obs=step.obs.to("meta")), ["`obs` of a step", "it is on meta"]),
        (lambda step: step._replace(obs=step.obs / 0), ["`obs` of step 1 must be finite"]),
        (
            lambda step: step._replace(reward=step.reward[:, None]),
            ["`reward` of a step", "its shape is [4, 1]"],
        ),
        (lambda step: step._replace(reward=step.reward.double()), ["`reward` of a step", "torch.float64"]),
        (lambda step: step._replace(reward=0.0), ["`reward` of a step", "it is a float"]),
        (lambda step: step._replace(reward=step.reward / 0), ["`reward` of step", "must be finite"]),
        (lambda step: step._replace(terminated=step.terminated.float()), ["`terminated`", "torch.float32"]),
        (lambda step: step._replace(terminated=step.terminated[0]), ["`terminated`", "its shape is []"]),
        (lambda step: step._replace(truncated=step.truncated.int()), ["`truncated`", "torch.int32"]),
        (lambda step: step._replace(truncated=step.truncated[1:]), ["`truncated`", "its shape is [3]"]),
        (lambda step: step._replace(truncated=step.terminated), ["never by both", "set both in step"]),
    ],
)
def test_step(change: Callable[[Step], Step], parts: list[str]) -> None:
    expect_breach(altered(change), *parts)


def test_step_leaves_the_actions_alone() -> None:
    class Broken(Chain):
        def step(self, action: Tensor) -> Step:
            return super().step(action.clamp_(max=0))

    expect_breach(Broken(), "the caller's action tensor", "changed it")


def test_step_takes_every_legal_action() -> None:
    class Broken(Chain):
        def step(self, action: Tensor) -> Step:
            if (self.position == 2).any():
                raise ValueError("no way")
            return super().step(action)

    expect_breach(Broken(), "every legal action", "raised ValueError: no way")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.bfloat16])
def test_observations_may_have_any_dtype(dtype: torch.dtype) -> None:
    class Typed(Chain):
        def _observe(self) -> Tensor:
            return super()._observe().to(dtype)

    env = Typed()
    env.obs_spec = ObsSpec((5,), dtype)
    check_env(env, steps=STEPS)


# ---- masks


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda mask: mask.float(), "its dtype is torch.float32"),
        (lambda mask: mask[:, :2], "its shape is [4, 2]"),
        (lambda mask: mask & False, "at least one legal action"),
    ],
)
def test_mask_after_reset(change: Callable[[Tensor], Tensor], part: str) -> None:
    class Broken(MaskedBandit):
        @property
        def mask(self) -> Tensor:
            return change(super().mask)

    expect_breach(Broken(), "`env.mask` after reset", part)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda mask: mask.int(), "its dtype is torch.int32"),
        (lambda mask: mask[:2], "its shape is [2, 3]"),
        (lambda mask: mask & False, "at least one legal action unless the episode terminated"),
        (lambda mask: None, "must be None always or never"),
        (lambda mask: ~mask, "`env.mask` must equal the mask of the last step"),
    ],
)
def test_mask_of_a_step(change: Callable[[Tensor | None], Tensor | None], part: str) -> None:
    expect_breach(altered(lambda step: step._replace(mask=change(step.mask)), MaskedBandit), "mask` ", part)


def test_a_truncated_episode_still_has_a_legal_action() -> None:
    def bare(step: Step) -> Step:
        return step._replace(mask=step.mask & ~step.truncated[:, None])

    expect_breach(altered(bare, MaskedBandit), "`mask` of step 10 must leave at least one legal action")


# ---- autoreset


class Forgetful(Chain):
    """Knows which rows started anew in the last step, so that subclasses can treat them wrongly."""

    def step(self, action: Tensor) -> Step:
        fresh = self.episodes.over
        return self.treat(super().step(action), fresh, action)

    def treat(self, step: Step, fresh: Tensor, action: Tensor) -> Step:
        raise NotImplementedError


def test_the_step_after_an_end_has_no_reward() -> None:
    class Broken(Forgetful):
        def treat(self, step: Step, fresh: Tensor, action: Tensor) -> Step:
            return step._replace(reward=step.reward - 2.5 * fresh)

    expect_breach(Broken(), "the step after an end", "must have reward 0", "got -2.5")


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_the_step_after_an_end_ends_nothing(flag: str) -> None:
    class Broken(Forgetful):
        def treat(self, step: Step, fresh: Tensor, action: Tensor) -> Step:
            return step._replace(**{flag: getattr(step, flag) | fresh})

    expect_breach(Broken(), "the step after an end", f"must not be `{flag}`")


def test_the_step_after_an_end_ignores_its_action() -> None:
    class Broken(Forgetful):
        def treat(self, step: Step, fresh: Tensor, action: Tensor) -> Step:
            self.position = torch.where(fresh, action, self.position)  # already takes a step
            return step._replace(obs=self._observe())

    expect_breach(Broken(), "the step after an end must ignore its action", "`obs` differs")


def test_the_step_after_an_end_takes_illegal_actions() -> None:
    class Broken(MaskedBandit):
        def step(self, action: Tensor) -> Step:
            if not self.mask.gather(1, action[:, None]).all():
                raise EnvError("an illegal action")
            return super().step(action)

    expect_breach(Broken(), "any action in a row whose episode has just ended", "EnvError: an illegal action")


def test_same_step_autoreset_is_caught() -> None:
    """Gymnasium's other mode: the next episode is already on its way in the step after an end."""

    class Broken(Chain):
        def step(self, action: Tensor) -> Step:
            step = super().step(action)
            self.position = self.position.where(~self.episodes.over, 0)
            self.episodes.length = self.episodes.length.where(~self.episodes.over, 0)
            self.episodes.over = torch.zeros_like(self.episodes.over)
            return step._replace(obs=self._observe())

    expect_breach(Broken(), "the step after an end must ignore its action")


# ---- seeds


def test_reset_seeds_the_start() -> None:
    class Broken(MaskedBandit):
        def reset(self, seed: int) -> Tensor:
            self.episodes.reset()
            self._draw_contexts()
            return self._observe()

    expect_breach(Broken(), "reset(0) must give the same start every time", "`obs` differs")


def test_reset_forgets_the_steps_before() -> None:
    class Broken(Chain):
        def reset(self, seed: int) -> Tensor:
            self.episodes.reset()
            return self._observe()

    expect_breach(Broken(), "also after steps in between", "`obs` differs")


def test_reset_seeds_the_whole_game() -> None:
    class Broken(MaskedBandit):
        def reset(self, seed: int) -> Tensor:
            obs = super().reset(seed)
            self.generator.seed()
            return obs

    expect_breach(Broken(), "reset(0) and the same actions must give the same game", "differs in environment")


def test_reset_resets_the_clock() -> None:
    class Broken(Chain):
        def reset(self, seed: int) -> Tensor:
            length = self.episodes.length.clone()
            obs = super().reset(seed)
            self.episodes.length = length
            return obs

    expect_breach(Broken(num_envs=1, num_states=50), "must give the same game", "in step", steps=30)


def test_the_sign_of_zero_counts() -> None:
    """Bit by bit: −0 is not 0, though they compare equal."""

    class Broken(Chain):
        resets = 0

        def reset(self, seed: int) -> Tensor:
            self.resets += 1
            return super().reset(seed)

        def step(self, action: Tensor) -> Step:
            step = super().step(action)
            return step._replace(reward=-step.reward if self.resets == 2 else step.reward)

    expect_breach(
        Broken(num_states=50), "must give the same game bit by bit", "`reward` differs in environment 0"
    )


# ---- states


@pytest.mark.parametrize("key", ["context", "generator", "over", "length"])
def test_state_is_whole(key: str) -> None:
    """Whatever is left out of the state shows in the continuation."""

    class Broken(MaskedBandit):
        def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
            super().load_state_dict({**super().state_dict(), **state})

        def state_dict(self) -> dict[str, Tensor]:
            return {name: value for name, value in super().state_dict().items() if name != key}

    part = "must bring back `env.mask`" if key == "context" else "the game must go on bit by bit"
    expect_breach(Broken(), "load_state_dict", part, "Save all that changes")


def test_state_keeps_the_outcome_of_running_episodes() -> None:
    class Broken(Chain):
        def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
            super().load_state_dict({**state, "score": state["score"] + 1})

    expect_breach(Broken(), "the game must go on bit by bit", "`outcomes` differs")


def test_state_remembers_who_is_due_to_start_anew() -> None:
    """With one environment, nothing but a state taken right after an end shows this."""

    class Broken(Chain):
        def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
            super().load_state_dict({**state, "over": torch.zeros_like(state["over"])})

    expect_breach(
        Broken(num_envs=1, time_limit=7), "the game must go on bit by bit", "from a state taken after step"
    )


class LiveState(Chain):
    """Works in place on its position, which makes a forgotten copy dangerous."""

    def step(self, action: Tensor) -> Step:
        position = self.position
        step = super().step(action)
        self.position = position.copy_(self.position)
        return step


def test_state_is_made_of_copies() -> None:
    class Broken(LiveState):
        def state_dict(self) -> dict[str, Tensor]:
            return {**super().state_dict(), "position": self.position}

    expect_breach(Broken(), "state_dict must return copies", "changed 'position'")


def test_loading_copies() -> None:
    class Broken(LiveState):
        def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
            super().load_state_dict(state)
            self.position = state["position"]

    check_env(LiveState(), steps=STEPS)
    expect_breach(Broken(), "load_state_dict must copy what it is given", "changed 'position'")


def test_taking_a_state_leaves_no_trace() -> None:
    class Broken(MaskedBandit):
        def state_dict(self) -> dict[str, Tensor]:
            torch.rand(1, generator=self.generator)
            return super().state_dict()

    expect_breach(Broken(), "state_dict must only read", "after a call of it")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda state: list(state.values()), "it returned a list"),
        (lambda state: {**state, "clock": 3}, "'clock' holds a int"),
        (lambda state: {"all": state}, "'all' holds a dict"),
        (lambda state: {**state, 7: torch.zeros(1)}, "7 is a int"),
    ],
)
def test_state_is_a_flat_dict(change: Callable[[object], dict[str, Tensor]], part: str) -> None:
    class Broken(Chain):
        def state_dict(self) -> dict[str, Tensor]:
            return change(super().state_dict())

    expect_breach(Broken(), "a flat dict of str to Tensor", part)


def test_states_may_hold_anything_in_a_tensor() -> None:
    class Rich(Chain):
        def state_dict(self) -> dict[str, Tensor]:
            rich = {
                "nan": torch.tensor(math.nan),
                "empty": torch.zeros(0, 3),
                "wide": torch.ones(1).expand(6),
            }
            return {**super().state_dict(), **rich}

    check_env(Rich(), steps=STEPS)


# ---- the toys' own answers


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99])
def test_chain_q_star_is_the_discounted_distance(gamma: float) -> None:
    q = Chain(num_states=4).q_star(gamma)
    right = [gamma**2, gamma, 1.0]
    left = [gamma * right[0], gamma * right[0], gamma * right[1]]
    torch.testing.assert_close(q, torch.tensor([*zip(left, right, strict=True), (0.0, 0.0)]))


def tabular_q(env: Chain | Crossing | MaskedBandit, gamma: float, steps: int, masked: bool = True) -> Tensor:
    """Q-learning with a table over contract 1's transitions; cells never tried keep their 0."""
    q = torch.zeros(env.obs_spec.shape[0], env.num_actions)
    tries = torch.zeros_like(q)
    generator = torch.Generator().manual_seed(0)
    state, mask = env.reset(0).argmax(dim=1), env.mask
    over = torch.zeros(env.num_envs, dtype=torch.bool)
    for _ in range(steps):
        weight = torch.ones(env.num_envs, env.num_actions) if mask is None else mask.float()
        action = torch.multinomial(weight, 1, generator=generator).squeeze(1)
        step = env.step(action)
        reached = step.obs.argmax(dim=1)
        value = q[reached]
        if masked and step.mask is not None:
            value = value.masked_fill(~step.mask, -torch.inf)
        target = step.reward + gamma * (~step.terminated) * value.amax(dim=1)
        for i in (~over).nonzero().flatten().tolist():
            cell = (state[i], action[i])
            tries[cell] += 1
            q[cell] += (target[i] - q[cell]) / tries[cell] ** 0.6
        state, mask, over = reached, step.mask, step.terminated | step.truncated
    return q


@pytest.mark.parametrize(
    "env",
    [Chain(num_states=4), Crossing("terminated"), Crossing("truncated"), MaskedBandit()],
    ids=lambda e: e.name,
)
def test_q_learning_finds_q_star(env: Chain | Crossing | MaskedBandit) -> None:
    q, q_star = tabular_q(env, gamma=0.5, steps=800), env.q_star(0.5)
    known = q_star.isfinite()
    torch.testing.assert_close(q[known], q_star[known], atol=0.1, rtol=0)


def test_bootstrapping_over_illegal_actions_misses_q_star() -> None:
    env = MaskedBandit()
    q, q_star = tabular_q(env, gamma=0.5, steps=800, masked=False), env.q_star(0.5)
    known = q_star.isfinite()
    assert ((q - q_star)[known] > 0.5).all()


def test_illegal_actions_name_the_bandit() -> None:
    env = MaskedBandit()
    env.reset(0)
    with pytest.raises(EnvError, match=r"^masked-bandit: environment 0 expected a legal action"):
        env.step((~env.mask).int().argmax(dim=1))
