"""CleanRL: one file whose settings are a class of arguments, so that most cures are flags."""

from __future__ import annotations

import shlex

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import Adviser, Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import find_calls, find_field, imports_package, list_own_files
from flashdqn.doctor.report.contents import Finding

#: Fields that every script of CleanRL has in its class of arguments.
TYPICAL = ("exp_name", "torch_deterministic", "total_timesteps")


def is_cleanrl(evidence: Evidence) -> bool:
    """Whether the script imports CleanRL's helpers, or has its class of arguments."""
    if imports_package(evidence, "cleanrl", "cleanrl_utils"):
        return True
    return all(find_field(evidence, name) is not None for name in TYPICAL)


def write_command(evidence: Evidence, *flags: str) -> str:
    """The command with other flags."""
    record = evidence.record
    name = list_own_files(evidence)[0].rpartition("/")[2]
    kept = list(record.arguments)
    for flag in flags[::2]:
        while flag in kept:
            at = kept.index(flag)
            del kept[at : at + 2]
    return f"python {name} {shlex.join([*kept, *flags])}".rstrip()


def set_flag(field: str, value: str, words: str) -> Adviser:
    """Advice to give another value to a field of the arguments."""

    def advise(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
        place = find_field(evidence, field)
        if place is None:
            return None
        return LibraryAdvice(words, write_command(evidence, f"--{field.replace('_', '-')}", value), place)

    return advise


def advise_more_envs(evidence: Evidence, finding: Finding) -> LibraryAdvice | None:
    """More environments: a flag for PPO; CleanRL's DQN refuses more than one."""
    place = find_field(evidence, "num_envs")
    if place is None:
        return None
    if find_field(evidence, "buffer_size") is not None and refuses_many(evidence):
        return LibraryAdvice(
            "this script takes one environment only (`assert args.num_envs == 1`). Its buffer can hold several: "
            "remove the assertion, give `n_envs=args.num_envs` to ReplayBuffer, and divide `train_frequency` by "
            "their number, so that the ratio stays. `pqn.py` is CleanRL's own Q-learning for many environments.",
            "rb = ReplayBuffer(args.buffer_size, …, n_envs=args.num_envs, handle_timeout_termination=False)",
            place,
        )
    return set_flag("num_envs", "16", "`--num-envs`: the network is asked once for all of them.")(
        evidence, finding
    )


def refuses_many(evidence: Evidence) -> bool:
    """Whether the script asserts that there is one environment."""
    file = list_own_files(evidence)[0]
    module = source.parse_file(file)
    return module is not None and any(
        "num_envs" in source.read_line(file, number) and "assert" in source.read_line(file, number)
        for number in range(1, 1 + max((node.end_lineno or 0 for node in module.body), default=0))
    )


def advise_fused(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """The optimizer's own line."""
    made = [call for call in find_calls(evidence, "Adam", "AdamW") if call.call.args]
    if not made:
        return None
    return LibraryAdvice(
        "the script makes its optimizer itself.", made[0].rewrite(fused="True"), (made[0].file, made[0].line)
    )


def advise_logging(evidence: Evidence, finding: Finding) -> LibraryAdvice | None:
    """TensorBoard is written every hundred steps; make it rarer at the line."""
    return LibraryAdvice(
        "losses are written every 100 steps: every 1,000 are enough. `--track` and `--capture-video` cost more.",
        'if global_step % 1000 == 0:\n    writer.add_scalar("losses/td_loss", loss, global_step)',
        (finding.file, finding.line),
    )


add_library(
    Library(
        "CleanRL",
        is_cleanrl,
        {
            "train-every-step": set_flag(
                "train_frequency", "10", "`--train-frequency` is how many steps lie between two updates."
            ),
            "single-env-acting": advise_more_envs,
            "few-envs": advise_more_envs,
            "unfused-optimizer": advise_fused,
            "many-updates": set_flag(
                "update_epochs",
                "2",
                "`--update-epochs` and `--num-minibatches` say how often a batch is used.",
            ),
            "logging": advise_logging,
        },
    )
)
