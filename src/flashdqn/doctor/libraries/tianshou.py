"""Tianshou: vector environments, the trainer's steps, and its optimizer factories."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import UserCall, find_calls, imports_package
from flashdqn.doctor.report.contents import Finding

VECTORS = ("DummyVectorEnv", "SubprocVectorEnv", "ShmemVectorEnv", "RayVectorEnv")


def place_of(calls: list[UserCall]) -> tuple[str, int] | None:
    """The first call's place."""
    return (calls[0].file, calls[0].line) if calls else None


def advise_more_envs(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """More environments in one vector."""
    made = find_calls(evidence, *VECTORS) or find_calls(evidence, "make")
    return LibraryAdvice(
        "collect with a vector of environments, and let `update_per_step` (in version 2 "
        "`update_step_num_gradient_steps_per_sample`) keep the ratio of updates.",
        "train_envs = ts.env.DummyVectorEnv([lambda: gym.make(task) for _ in range(16)])",
        place_of(made),
    )


def advise_ratio(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """The trainer's ratio."""
    for name, keyword in (
        ("OffPolicyTrainerParams", "update_step_num_gradient_steps_per_sample"),
        ("OffpolicyTrainer", "update_per_step"),
        ("offpolicy_trainer", "update_per_step"),
    ):
        made = find_calls(evidence, name)
        if made:
            words = f"`{keyword}` is the number of updates for each transition."
            return LibraryAdvice(words, made[0].rewrite(**{keyword: "0.25"}), place_of(made))
    return None


def advise_fused(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """The optimizer or its factory."""
    factories = find_calls(evidence, "AdamOptimizerFactory")
    if factories:
        return LibraryAdvice(
            "`AdamOptimizerFactory` has no such flag; `TorchOptimizerFactory` hands everything on to torch.",
            factories[0].replace_with("TorchOptimizerFactory(torch.optim.Adam, lr=1e-3, fused=True)"),
            place_of(factories),
        )
    made = [call for call in find_calls(evidence, "Adam", "AdamW") if call.call.args]
    return (
        LibraryAdvice("you make the optimizer.", made[0].rewrite(fused="True"), place_of(made))
        if made
        else None
    )


def advise_workers(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """The kind of vector."""
    made = find_calls(evidence, *VECTORS)
    return LibraryAdvice(
        "cheap games go into `DummyVectorEnv`, in this process; expensive ones into `ShmemVectorEnv`, whose "
        "observations need no pickles.",
        "train_envs = ts.env.ShmemVectorEnv([make_env for _ in range(8)])",
        place_of(made),
    )


def advise_evaluation(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Fewer test episodes."""
    for name, keyword in (
        ("OffPolicyTrainerParams", "test_step_num_episodes"),
        ("OnPolicyTrainerParams", "test_step_num_episodes"),
        ("OffpolicyTrainer", "episode_per_test"),
        ("OnpolicyTrainer", "episode_per_test"),
    ):
        made = find_calls(evidence, name)
        if made:
            words = f"every epoch ends with `{keyword}` games: fewer, and longer epochs."
            return LibraryAdvice(words, made[0].rewrite(**{keyword: "5"}), place_of(made))
    return None


add_library(
    Library(
        "Tianshou",
        lambda evidence: imports_package(evidence, "tianshou"),
        {
            "single-env-acting": advise_more_envs,
            "few-envs": advise_more_envs,
            "train-every-step": advise_ratio,
            "many-updates": advise_ratio,
            "unfused-optimizer": advise_fused,
            "python-env": advise_workers,
            "waiting-for-workers": advise_workers,
            "costly-messages": advise_workers,
            "evaluation-share": advise_evaluation,
        },
    )
)
