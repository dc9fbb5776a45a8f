"""The whole export: write the file, then measure how good it is."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import flashdqn
from flashdqn.agent.agent import Agent, load_agent
from flashdqn.agent.description import Description
from flashdqn.agent.onnx import OnnxAgent
from flashdqn.compute.seeds import purpose_seed
from flashdqn.compute.threads import limit_threads
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.files import check_writable_file, write_output
from flashdqn.core.ranges import describe_value
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.export.int8 import WAYS, Way, quantize_onnx
from flashdqn.export.measure import (
    Agreement,
    Latency,
    PolicyPlayer,
    TorchPlayer,
    measure_agreement,
    measure_latencies,
    play_games,
)
from flashdqn.export.observations import Observations, collect_observations
from flashdqn.export.policy import GreedyPolicy
from flashdqn.export.to_onnx import write_onnx
from flashdqn.export.to_torchscript import TorchScriptPlayer, write_torchscript
from flashdqn.runs import checkpoint
from flashdqn.runs.checkpoint import hash_weights
from flashdqn.runs.folder import RunFolder, find_named_checkpoint
from flashdqn.runs.records import SUMMARY_FILE, read_record_or_nothing
from flashdqn.runs.rows import float_or_nan
from flashdqn.training.evaluate import Evaluation
from flashdqn.training.memory import Need, check_needs

Target = Literal["onnx", "torchscript"]
#: How the name of a file may end.
SUFFIXES: dict[Target, tuple[str, ...]] = {
    "onnx": (".onnx",),
    "torchscript": (".pt", ".pth", ".ts", ".torchscript"),
}
CALIBRATION = 2048
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What to export, where to, and how thoroughly to check it."""

    run: Path
    to: Target = "onnx"
    int8: bool = False
    out: Path | None = None
    checkpoint: str = "best"
    observations: int = 10_000
    episodes: int = 100
    permission: Permission = NO_PERMISSION  # to import the code that the run names

    def __post_init__(self) -> None:
        if self.int8 and self.to != "onnx":
            raise ConfigError("--int8 is made for ONNX: leave it out, or use --to onnx.")
        check_suffix(self.out, self.to)
        for name in ("observations", "episodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} must be at least 1, and is {getattr(self, name)}.")


def check_suffix(out: Path | None, to: Target) -> None:
    """Refuse a file name that says something else than what will lie in the file."""
    suffix = "" if out is None else out.suffix.lower()
    if suffix in ("", *SUFFIXES[to]):
        return
    other = next((target for target, known in SUFFIXES.items() if suffix in known), None)
    hint = f"add --to {other}, or " if other else ""
    ends = " or ".join(SUFFIXES[to])
    raise ConfigError(
        f"--out {describe_value(str(out))} is no name for a file of {to}: {hint}end it in {ends}."
    )


@dataclass(frozen=True)
class Measured:
    """Results of one file, or of PyTorch itself, in the same tests."""

    name: str
    agreement: Agreement
    games: Evaluation
    latency: dict[int, Latency]  # by batch
    size: int | None  # bytes; None for PyTorch

    def to_json(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "name": self.name,
            **self.agreement.to_dict(),
            "games": self.games.to_json(),
            "latency_us": {str(batch): round(1e6 * x.median, 2) for batch, x in self.latency.items()},
            "fastest_us": {str(batch): round(1e6 * x.fastest, 2) for batch, x in self.latency.items()},
            "bytes": self.size,
        }


@dataclass(frozen=True)
class Exported:
    """The file, its description, and the comparison; the first of `rows` is PyTorch."""

    file: Path
    description: Description
    rows: list[Measured]
    why: str  # how the int8 way was chosen; empty without int8


def export_policy(wanted: Wanted, say: Say = lambda text: None) -> Exported:
    """Write the file and compare it with PyTorch on the agent's own games."""
    folder, point = find_checkpoint(wanted)
    file = wanted.out or folder.path / default_name(wanted)
    check_writable_file(file)
    agent = load_agent(point, "cpu", wanted.permission)
    size = wanted.observations * (agent.obs_spec.nbytes + 9 * agent.num_actions)
    check_needs([Need(f"{wanted.observations:,} observations", size, "lower --observations")], agent.device)
    with limit_threads(1, 1):  # small networks are fastest with one, and all players get the same
        description = describe_policy(agent, point, folder.path)
        say(f"Playing {wanted.observations:,} observations with the agent itself")
        observations = collect_observations(
            agent, wanted.observations, purpose_seed(agent.config.seed, "export")
        )
        policy = GreedyPolicy(agent.network, agent.head)
        contest = ExportComparison(wanted, agent, observations, TorchPlayer(policy))
        say(f"Writing {file}")
        if wanted.to == "torchscript":
            write_torchscript(policy, observations, file, description.to_texts())
            contest.enter("TorchScript", TorchScriptPlayer(file), file)
            return Exported(file, description, contest.results(), "")
        if not wanted.int8:
            write_onnx(policy, observations, file, description.to_texts())
            contest.enter("ONNX", OnnxAgent(file), file)
            return Exported(file, description, contest.results(), "")
        return export_quantized(contest, policy, file, description, say)


def export_quantized(
    contest: ExportComparison, policy: GreedyPolicy, file: Path, description: Description, say: Say
) -> Exported:
    """Quantize in both ways, compare them with float32, and keep the better one."""
    agent = contest.agent
    calibration = collect_observations(agent, CALIBRATION, purpose_seed(agent.config.seed, "calibration"))
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "float32.onnx"
        made: dict[Way, Path] = {way: Path(folder) / f"{way}.onnx" for way in WAYS}
        write_onnx(policy, contest.observations, plain, description.to_texts())
        contest.enter("ONNX", OnnxAgent(plain), plain)
        for way, path in made.items():
            say(f"Quantizing, {way}")
            texts = replace(description, precision=f"int8 {way}").to_texts()
            quantize_onnx(plain, path, way, calibration, texts)
            contest.enter(f"int8 {way}", OnnxAgent(path), path)
        rows = contest.results()
        way, why = choose_quantization(rows)
        write_output(file, made[way].read_bytes())
    return Exported(file, replace(description, precision=f"int8 {way}"), rows, why)


def choose_quantization(rows: list[Measured]) -> tuple[Way, str]:
    """The way that agrees more often with PyTorch; where they agree equally often, the faster at batch 1."""
    by_way = {way: next(row for row in rows if row.name == f"int8 {way}") for way in WAYS}
    dynamic, static = by_way["dynamic"], by_way["static"]
    shares = [round(row.agreement.actions, 3) for row in (dynamic, static)]
    if shares[0] != shares[1]:
        way: Way = "dynamic" if shares[0] > shares[1] else "static"
        other = "static" if way == "dynamic" else "dynamic"
        return way, f"{way}: it chooses as PyTorch does more often than {other}"
    way = "dynamic" if dynamic.latency[1].median <= static.latency[1].median else "static"
    return way, f"{way}: both agree equally often with PyTorch, and it answers faster"


class ExportComparison:
    """PyTorch and the files, under the same tests."""

    def __init__(
        self, wanted: Wanted, agent: Agent, observations: Observations, reference: TorchPlayer
    ) -> None:
        self.wanted, self.agent, self.observations, self.reference = wanted, agent, observations, reference
        self.players: dict[str, PolicyPlayer] = {"PyTorch": reference}
        self.sizes: dict[str, int | None] = {"PyTorch": None}

    def enter(self, name: str, player: PolicyPlayer, file: Path) -> None:
        """Add a file to the comparison."""
        self.players[name], self.sizes[name] = player, file.stat().st_size

    def results(self) -> list[Measured]:
        """The results of all players."""
        taken = measure_latencies(self.players, self.observations)
        seed = purpose_seed(self.agent.config.seed, "judgement")
        return [
            Measured(
                name,
                measure_agreement(player, self.reference, self.observations, branches=self.agent.branches),
                play_games(self.agent, player, self.wanted.episodes, seed),
                taken[name],
                self.sizes[name],
            )
            for name, player in self.players.items()
        ]


def find_checkpoint(wanted: Wanted) -> tuple[RunFolder, Path]:
    """The run, and the checkpoint in it: best, last, or one by its step."""
    folder = RunFolder.open(wanted.run)
    if (named := find_named_checkpoint(wanted.run)) is not None:
        return folder, named
    if wanted.checkpoint == "best":
        return folder, folder.play_point(wanted.run)
    there = checkpoint.list_checkpoints(folder.checkpoints)
    if wanted.checkpoint == "last" and there:
        return folder, there[-1]
    digits = wanted.checkpoint.replace(",", "").replace("_", "")
    for path in there:
        if path.name == digits.zfill(12):
            return folder, path
    steps = ", ".join(str(int(path.name)) for path in there) or "none"
    raise CheckpointError(
        f"{wanted.run} has no checkpoint '{wanted.checkpoint}'; there are best, last, and these steps: {steps}."
    )


def default_name(wanted: Wanted) -> str:
    """The default file name in the run folder."""
    if wanted.to == "torchscript":
        return "policy.pt"
    return "policy-int8.onnx" if wanted.int8 else "policy.onnx"


def describe_policy(agent: Agent, point: Path, run: Path) -> Description:
    """The description of a checkpoint's policy. It has the run's score if the run was judged by this checkpoint."""
    summary = read_record_or_nothing(run / SUMMARY_FILE)
    judged, games = summary.get("best_checkpoint") == point.name, summary.get("evaluation")
    score = float_or_nan(games.get("mean_score")) if judged and isinstance(games, dict) else math.nan
    config, decoder = agent.config, getattr(agent.network, "decoder", None)
    shape, dtype = agent.obs_spec.shape, str(agent.obs_spec.dtype).removeprefix("torch.")
    if decoder is not None:
        shape, dtype = decoder.shape, "float32"
    return Description(
        task=config.env.task,
        preset=config.preset,
        env=dataclasses.asdict(config.env),
        observation_shape=tuple(shape),
        observation_dtype=dtype,
        actions=agent.action_names,
        first_action=agent.first_action,
        masked=agent.masked,
        head=config.learn.head,
        precision="float32",
        score=score if math.isfinite(score) else None,
        steps=int(point.name),
        weights=hash_weights(agent.network.state_dict()),
        version=flashdqn.__version__,
        branches=agent.branches,
    )
