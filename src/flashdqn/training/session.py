"""A training session: check, create the parts, warm up, run the loop, summarize."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from flashdqn.compute.device import choose_device, describe_hardware
from flashdqn.compute.precision import allow_tf32
from flashdqn.compute.seeds import purpose_seed
from flashdqn.compute.threads import cores, limit_threads, threads_for_network
from flashdqn.config import Config
from flashdqn.config.settings import resume_flag
from flashdqn.core.contract import VecEnv, close_env
from flashdqn.core.errors import ConfigError, DivergedError, EnvError
from flashdqn.core.files import write_json_atomically
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.runs import checkpoint
from flashdqn.runs.folder import RunFolder, check_output_folder
from flashdqn.training.assemble import Parts, assemble_parts, check_memory_fits, describe_replay_memory
from flashdqn.training.autotune import Choice, Note, prepare_engine
from flashdqn.training.budget import Budget
from flashdqn.training.counts import Counts
from flashdqn.training.demonstrate import check_expert_source
from flashdqn.training.engine import Engine
from flashdqn.training.evaluate import Evaluation, evaluate
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Progress
from flashdqn.training.sinks import check_installed
from flashdqn.training.warm_times import WarmUp

#: What is drawn of a finished run: from its name in messages to a function of the run's folder.
Pages = Mapping[str, Callable[[Path], object]]
NO_PAGES: Pages = {}


@dataclass(frozen=True)
class Run:
    """What a session leaves behind: the folder, and how it ended."""

    path: Path
    config: Config
    finished: bool  # False: stopped by Ctrl-C
    summary: dict[str, Any]

    @property
    def score(self) -> float:
        """Mean score of the best checkpoint over new games (NaN if the run was stopped before)."""
        return float(self.summary.get("evaluation", {}).get("mean_score", float("nan")))


@dataclass(frozen=True)
class Session:
    """A training that is ready: checked, created and warm, before its first step."""

    config: Config  # including what `auto` chose
    parts: Parts
    engine: Engine
    choice: Choice
    warm_up_seconds: float

    @classmethod
    @contextmanager
    def open(
        cls, config: Config, note: Note, limits: AbstractContextManager[None] | None = None
    ) -> Iterator[Session]:
        """Check the settings, create the parts and warm them up; threads and precision apply while it is open.

        `limits` sets threads that were chosen before. The environments stay open: the caller closes them.
        """
        start, device = time.perf_counter(), choose_device(config.device)
        compute = check_settings(config, device)
        with limits or use_run_threads(config, compute), allow_tf32(device):
            env = build_env(config.env, config.envs, device)
            try:
                if said := describe_replay_memory(config, env):
                    note(said)
                parts = assemble_parts(config, env)
                engine, choice = prepare_engine(config, parts, note)
            except BaseException:
                close_env(env)
                raise
            seconds = time.perf_counter() - start
            yield cls(apply_choice(config, choice), parts, engine, choice, seconds)

    def make_loop(self, folder: RunFolder, progress: Progress, games: VecEnv | None = None) -> Loop:
        """The loop that trains it and writes into a folder; `games` are for evaluation."""
        if games is None:
            device = self.parts.learner.device
            games = build_evaluation_env(self.config.env, self.config.eval.episodes, device)
        return Loop(self.config, self.parts, folder, progress, games, self.engine)


def start_run(config: Config, progress: Progress, pages: Pages = NO_PAGES) -> Run:
    """Start a new run from its first step; `pages` are drawn of it when it ends."""
    if config.steps is None and config.episodes is None and config.max_time is None:
        raise ConfigError("Say when to stop: --steps, --episodes or --max-time.")
    check_output_folder(config.out)
    _announce_warm_up(progress)
    with Session.open(config, progress.note) as session:
        device = session.parts.learner.device
        hardware = describe_hardware(device) | {"mode": session.choice.why}
        folder = RunFolder.create(session.config, hardware)
        loop = session.make_loop(folder, progress)
        loop.start()
        with folder.locked():
            return _run_and_summarize(loop, session, pages)


def resume_run(config: Config, path: Path, progress: Progress, pages: Pages = NO_PAGES) -> Run:
    """Continue a run; `config` is its own, except for the budget."""
    folder = RunFolder.open(path)
    with folder.locked():
        return _resume_locked(config, folder, path, progress, pages)


def _resume_locked(config: Config, folder: RunFolder, path: Path, progress: Progress, pages: Pages) -> Run:
    checkpoint.recover_interrupted_save(folder.checkpoints)
    point = folder.resume_point(path)
    counters = checkpoint.load_or_suggest_older(point, with_state=True, command="flashdqn train --resume")[2]
    check_budget_left(config, folder, counters)
    check_output_folder(str(folder.path))
    _announce_warm_up(progress)
    with Session.open(config, progress.note) as session:
        loop = session.make_loop(folder, progress)
        loop.resume(point)
        (folder.path / "summary.json").unlink(missing_ok=True)
        data = json.loads((folder.path / "config.json").read_text(encoding="utf-8"))
        data["config"] |= {name: getattr(config, name) for name in ("steps", "episodes", "max_time")}
        write_json_atomically(folder.path / "config.json", data)
        return _run_and_summarize(loop, session, pages)


def apply_choice(config: Config, choice: Choice) -> Config:
    """The configuration with what `auto` chose, so a resumed run continues in the same way."""
    return replace(config, runtime=replace(config.runtime, mode=choice.plan.mode, threads=choice.threads))


def check_settings(config: Config, device: torch.device) -> int:
    """Find what cannot work before anything is written: the task's own rules, the network, the memory.

    Returns the number of threads for the network.
    """
    probe = build_evaluation_env(config.env, 1, device)
    learner = build_learner(config, probe, torch.device("cpu"))
    probe.num_envs = config.envs
    check_memory_fits(config, probe)
    check_expert_source(config, probe)
    check_installed(config.log)
    return threads_for_network(learner.online, probe.obs_spec, config.update_size)


def use_run_threads(config: Config, compute: int) -> AbstractContextManager[None]:
    """The configured threads, or those that the rule chooses."""
    asked = config.runtime.threads
    return limit_threads(asked or compute, asked or cores())


def check_budget_left(config: Config, folder: RunFolder, counters: dict[str, Any]) -> None:
    """Refuse to resume a finished run that has nothing left to do, before anything is changed."""
    done = Counts(torch.device("cpu"))
    done.load(counters["transitions"], counters["episodes"])
    if Budget.of(config).share(done, counters["seconds"]) >= 1.0 and folder.finished():
        raise ConfigError(
            f"{folder.path} has used its budget ({done.transitions:,} steps, {done.episodes:,} episodes, "
            f"{counters['seconds']:.0f} s): give a larger --steps, --episodes or --max-time to go on."
        )


def _announce_warm_up(progress: Progress) -> None:
    progress.note("Warming up: compiling and allocating, before the clock starts")


def _run_and_summarize(loop: Loop, session: Session, pages: Pages) -> Run:
    config, folder, parts = loop.config, loop.folder, loop.parts
    warm_up = WarmUp.took(config, session.warm_up_seconds, session.choice)
    device = parts.learner.device
    title = f"{config.preset} on {device.type}, {config.envs:,} boards, train ratio {loop.ratio.asked:g}"
    loop.progress.note(f"Warm after {warm_up}; mode {warm_up.choice.why}")
    loop.progress.begin(title, loop.ratio.asked)
    finished: bool | None = None  # while an error may still come
    try:
        finished = loop.run()
    except DivergedError as error:
        whole = checkpoint.list_checkpoints(folder.checkpoints)
        last = f"the last good checkpoint is {whole[-1]}" if whole else "there is no checkpoint before it"
        raise DivergedError(
            f"{error}, at step {parts.counts.transitions:,}; {last}. A smaller --learn.lr may help."
        ) from None
    except EnvError as error:
        loop.save()
        again = f"flashdqn train --resume {shlex.quote(str(folder.path))}{resume_flag(config)}"
        raise EnvError(f"{error} What was learned before is saved; go on with: {again}") from error
    finally:
        close_env(parts.env)
        close_env(loop.games)
        loop.progress.end()
        if finished is None:
            loop.reporter.close()
    summary = summarize_run(loop, warm_up, finished)
    loop.reporter.close(summary)
    write_json_atomically(folder.path / "summary.json", summary)
    write_pages(folder.path, pages, loop.progress)
    return Run(folder.path, config, finished, summary)


def write_pages(path: Path, pages: Pages, progress: Progress) -> None:
    """Write the curve and the report. An error here is only a note: the run itself is complete."""
    for what, write in pages.items():
        try:
            write(path)
        except Exception as error:  # a drawing library, an environment's own pictures, a full disk
            progress.note(f"The {what} could not be written: {type(error).__name__}: {error}")


def summarize_run(loop: Loop, warm_up: WarmUp, finished: bool) -> dict[str, Any]:
    """The run in figures. The best checkpoint is evaluated again on new games, because it was partly chosen by
    chance."""
    parts, config = loop.parts, loop.config
    summary: dict[str, Any] = {
        "finished": finished,
        "steps": parts.counts.transitions,
        "episodes": parts.counts.episodes,
        "updates": parts.learner.updates,
        "seconds": round(loop.seconds, 3),
        "warm_up_seconds": round(warm_up.seconds, 3),
        "first_warm_up_seconds": round(warm_up.first, 3),
        "mode": str(warm_up.choice.plan),
        "train_ratio_asked": loop.ratio.asked,
        "train_ratio": loop.ratio.achieved(parts.counts.transitions, parts.learner.updates),
        "weights": checkpoint.hash_weights(parts.learner.weights()),
    }
    if (demos := loop.folder.path / "demos.json").exists():
        summary["demonstrations"] = json.loads(demos.read_text(encoding="utf-8"))
    best = checkpoint.best(loop.folder.checkpoints)
    if finished and best is not None:
        result = evaluate_checkpoint(config, parts, best[0])
        summary["best_checkpoint"] = best[0].name
        if math.isfinite(result.mean_score):
            summary["evaluation"] = result.to_json()
    return summary


def evaluate_checkpoint(config: Config, parts: Parts, path: Path, episodes: int = 100) -> Evaluation:
    """Play with a checkpoint's weights on seeds that no evaluation in the run has used."""
    device = parts.learner.device
    env = build_evaluation_env(config.env, episodes, device)
    learner = build_learner(config, env, device)
    learner.online.load_state_dict(checkpoint.load_checkpoint(path, with_state=False)[0])
    return evaluate(env, learner.online, learner.head, purpose_seed(config.seed, "judgement"))
