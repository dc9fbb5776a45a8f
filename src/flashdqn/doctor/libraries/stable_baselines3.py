"""Stable-Baselines3: `make_vec_env`, `train_freq`, `policy_kwargs` and the others."""

from __future__ import annotations

import ast

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import Adviser, Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import UserCall, find_calls, imports_package
from flashdqn.doctor.report.contents import Finding

OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG", "QRDQN", "TQC", "CrossQ")
ON_POLICY = ("PPO", "A2C", "TRPO", "RecurrentPPO", "MaskablePPO")
ENVS = 8
IMPORT = "from stable_baselines3.common.env_util import make_vec_env\n"


def find_model(evidence: Evidence) -> UserCall | None:
    """Where the user makes the model."""
    found = [call for call in find_calls(evidence, *OFF_POLICY, *ON_POLICY) if len(call.call.args) >= 2]
    return found[0] if found else None


def place_of(call: UserCall | None) -> tuple[str, int] | None:
    """A call's place."""
    return None if call is None else (call.file, call.line)


def set_keywords(words: str, **keywords: str) -> Adviser:
    """Advice to give the model other keywords, in the user's own line."""

    def advise(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
        model = find_model(evidence)
        if model is None:
            return None
        return LibraryAdvice(words, model.rewrite(**keywords), place_of(model))

    return advise


def advise_more_envs(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Several environments in one process, with the ratio of updates as it was."""
    model = find_model(evidence)
    if model is None:
        return None
    made = find_calls(evidence, "make_vec_env")
    if made:
        env = made[0].rewrite(n_envs=str(ENVS))
    else:
        single = [call for call in find_calls(evidence, "make") if call.call.args]
        env = write_vec_env(single[0]) if single else f"env = make_vec_env(make_env, n_envs={ENVS})"
    words = (
        f"play {ENVS} games at once with `make_vec_env(…, n_envs={ENVS})`: one call of the network for all."
    )
    example = env if made else IMPORT + env
    if model.name in OFF_POLICY:
        steps = read_number(model.read_keyword("gradient_steps"), 1)
        if steps > 0:
            words += (
                " Each `train_freq` then counts steps of all of them: `gradient_steps` has to grow with the number "
                "of games, or it learns from less."
            )
            example += "\n" + model.rewrite(gradient_steps=str(ENVS * steps))
    return LibraryAdvice(words, example, place_of(made[0] if made else None) or place_of(model))


def write_vec_env(call: UserCall) -> str:
    """`env = make_vec_env("CartPole-v1", n_envs=8)` from the user's own `gym.make`."""
    name = ast.unparse(call.call.args[0])
    kwargs = ", ".join(f"{k.arg!r}: {ast.unparse(k.value)}" for k in call.call.keywords if k.arg)
    more = f", env_kwargs={{{kwargs}}}" if kwargs else ""
    return call.replace_with(f"make_vec_env({name}, n_envs={ENVS}{more})")


def read_number(value: ast.expr | None, default: int) -> int:
    """A number that the source gives."""
    if isinstance(value, ast.Constant) and isinstance(value.value, int):
        return value.value
    return default


def advise_slow_env(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Environments in other processes, if a step costs more than its message."""
    return LibraryAdvice(
        "a game that is slow in Python can be played in several processes: `SubprocVecEnv`. A step must cost more "
        "than about 100 µs, or its messages cost more than it.",
        "from stable_baselines3.common.vec_env import SubprocVecEnv\n"
        + f"env = make_vec_env(make_env, n_envs={ENVS}, vec_env_cls=SubprocVecEnv)",
        place_of(next(iter(find_calls(evidence, "make_vec_env", "make")), None)),
    )


def advise_waiting(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Environments in this process, if their messages cost more than their steps."""
    made = find_calls(evidence, "SubprocVecEnv", "make_vec_env")
    return LibraryAdvice(
        "these games are cheaper than their messages: play them in one process, with `DummyVecEnv`.",
        f"env = make_vec_env(make_env, n_envs={ENVS}, vec_env_cls=DummyVecEnv)",
        place_of(made[0] if made else None),
    )


def advise_many_updates(evidence: Evidence, finding: Finding) -> LibraryAdvice | None:
    """Fewer or larger gradient steps."""
    model = find_model(evidence)
    if model is None:
        return None
    if model.name in ON_POLICY:
        return LibraryAdvice(
            "fewer and larger minibatches: `batch_size` times four, and fewer `n_epochs`.",
            model.rewrite(batch_size="256", n_epochs="4"),
            place_of(model),
        )
    return LibraryAdvice(
        "`train_freq` and `gradient_steps` are the ratio: `train_freq=4, gradient_steps=1` is an update for every "
        "fourth step.",
        model.rewrite(train_freq="4", gradient_steps="1"),
        place_of(model),
    )


def advise_logging(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Rarer logs."""
    learns = find_calls(evidence, "learn")
    if not learns:
        return None
    return LibraryAdvice(
        "`log_interval` counts episodes (rollouts for PPO and A2C): log every hundredth.",
        learns[0].rewrite(log_interval="100"),
        place_of(learns[0]),
    )


def advise_evaluation(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Rarer and shorter evaluations."""
    calls = find_calls(evidence, "EvalCallback", "evaluate_policy")
    if not calls:
        return None
    if calls[0].name == "evaluate_policy":
        return LibraryAdvice("fewer episodes.", calls[0].rewrite(n_eval_episodes="5"), place_of(calls[0]))
    return LibraryAdvice(
        "`eval_freq` counts calls of the callback, one for each step of all environments together.",
        calls[0].rewrite(eval_freq="max(50_000 // n_envs, 1)", n_eval_episodes="5"),
        place_of(calls[0]),
    )


def advise_threads(evidence: Evidence, finding: Finding) -> LibraryAdvice | None:
    """The number of threads, before the model is made."""
    model = find_model(evidence)
    line = finding.example.splitlines()[0] if finding.example else "torch.set_num_threads(1)"
    if model is None:
        return None
    return LibraryAdvice(
        "set the number of threads before the model is made.", f"import torch\n{line}", place_of(model)
    )


def advise_frames(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Frames as bytes."""
    model = find_model(evidence)
    if model is None:
        return None
    return LibraryAdvice(
        "keep frames as uint8: the policy divides by 255 itself (`normalize_images`, its default), and "
        "`optimize_memory_usage` keeps each frame once.",
        model.rewrite(
            optimize_memory_usage="True", replay_buffer_kwargs="dict(handle_timeout_termination=False)"
        ),
        place_of(model),
    )


FUSED = set_keywords(
    "the policy makes its own optimizer, and hands `optimizer_kwargs` on to it.",
    policy_kwargs="dict(optimizer_kwargs=dict(fused=True))",
)
ON_DEVICE = set_keywords("a network this small is faster on the CPU.", device="'cpu'")

add_library(
    Library(
        "Stable-Baselines3",
        lambda evidence: imports_package(evidence, "stable_baselines3", "sb3_contrib"),
        {
            "single-env-acting": advise_more_envs,
            "few-envs": advise_more_envs,
            "python-env": advise_slow_env,
            "slow-worker": advise_slow_env,
            "waiting-for-workers": advise_waiting,
            "costly-messages": advise_waiting,
            "train-every-step": advise_many_updates,
            "many-updates": advise_many_updates,
            "unfused-optimizer": FUSED,
            "too-many-threads": advise_threads,
            "logging": advise_logging,
            "printing": advise_logging,
            "evaluation-share": advise_evaluation,
            "starved-device": ON_DEVICE,
            "launch-bound": ON_DEVICE,
            "float-replay": advise_frames,
            "frames-kept-k-times": advise_frames,
        },
    )
)
