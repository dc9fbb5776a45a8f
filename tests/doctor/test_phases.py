"""What a stack says: each rule by itself, and which of them comes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library, stand_in, standard
from watching import line_of, write_script

from flashdqn.doctor.phases import Namer
from flashdqn.doctor.watch.kinds import Owner, Phase
from flashdqn.doctor.watch.rows import Frame

SOURCE = """
    def main():
        for step in range(100):
            action = network(obs)  # act
            obs, reward, done = env.step(action)  # step
            x = 1 + 1  # plain
            for i in range(64):
                push(obs[i].item())  # copy
            learn()


    def learn():
        rows = pick()  # pick
        loss = network(rows)  # forward
        loss.backward()  # backward
        optimizer.step()  # optimizer


    def train():
        while True:
            env.step(0)  # steps in train
            y = 2  # in train


    def update():
        z = 3  # in update
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


@pytest.fixture
def maker(script: Path) -> Maker:
    maker = Maker(script)
    maker.forward(line_of(script, "# act"), 100, 1.0)
    maker.forward(line_of(script, "# forward"), 100, 1.0, acting=0, learning=100)
    maker.site("env step", line_of(script, "env.step(action)  # step"), 100)
    maker.site("env step", line_of(script, "# steps in train"), 10)
    maker.site("backward", line_of(script, "# backward"), 100)
    maker.site("optimizer", line_of(script, "# optimizer"), 100)
    maker.site("item", line_of(script, "# copy"), 6400)
    maker.raw["counted"] = {"vector_steps": 100.0, "updates": 100.0, "seconds": 10.0}
    return maker


def name(maker: Maker, *frames: Frame) -> str:
    return Namer(maker.record()).name(frames)


LINEAR = library("torch/nn/modules/linear.py")
MODULE = [
    library("torch/nn/modules/module.py", f"Module.{name}") for name in ("_wrapped_call_impl", "_call_impl")
]


def test_networks_are_known_by_torchs_own_frames_while_counting_rests(maker: Maker, script: Path) -> None:
    for mark, phase in (("# act", "acting"), ("# forward", "forward")):
        caller = maker.own(line_of(script, mark))
        assert name(maker, caller, *MODULE, LINEAR) == phase
        assert name(maker, caller, *MODULE, maker.own(1, "Net.forward"), *MODULE, LINEAR) == phase
        assert name(maker, caller, *MODULE, library("torch/nn/functional.py")) == phase


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ([library("torch/optim/adam.py")], "optimizer"),
        ([library("torch/optim/lr_scheduler.py")], "learning (rest)"),
        ([library("torch/autograd/__init__.py")], "backward"),
        ([library("torch/autograd/grad_mode.py")], "python (rest)"),
        ([library("torch/nn/functional.py")], "forward"),
        ([library("torch/utils/data/dataloader.py")], "loading"),
        ([library("torch/utils/tensorboard/writer.py")], "logging"),
        ([library("torch/serialization.py")], "logging"),
        ([library("matplotlib/figure.py")], "logging"),
        ([library("wandb/sdk/run.py")], "logging"),
        ([standard("logging/__init__.py", "info")], "logging"),
        ([library("tqdm/std.py")], "printing"),
        ([library("gymnasium/core.py")], "environment"),
        ([library("ale_py/env.py")], "environment"),
        ([standard("random.py", "Random.sample")], "replay"),
        ([standard("random.py", "Random.random")], "python (rest)"),
        ([standard("threading.py", "wait")], "waiting"),
        ([standard("multiprocessing/connection.py", "recv")], "waiting"),
        ([library("torch/_dynamo/convert_frame.py"), library("torch/optim/adam.py")], "compilation"),
        ([library("numba/core/compiler.py")], "compilation"),
        ([Frame("<frozen importlib._bootstrap>", "_find_and_load", 1, Owner.PLUMBING), LINEAR], "start-up"),
        ([stand_in(Phase.DATA_MOVEMENT)], "data movement"),
        ([stand_in(Phase.BACKWARD)], "backward"),
        ([stand_in(Phase.ENVIRONMENT)], "environment"),
        ([stand_in(Phase.REPLAY)], "replay"),
        ([stand_in(Phase.PRINTING)], "printing"),
        ([stand_in(None)], "python (rest)"),
        ([], "python (rest)"),
    ],
)
def test_what_a_frame_says(maker: Maker, frames: list[Frame], phase: str) -> None:
    assert name(maker, *frames) == phase


@pytest.mark.parametrize(
    ("mark", "function", "phase"),
    [
        ("# act", "main", "acting"),
        ("# forward", "learn", "forward"),
        ("# plain", "main", "forward"),  # a call that was never noted
    ],
)
def test_a_network_acts_or_learns_by_who_called_it(
    maker: Maker, script: Path, mark: str, function: str, phase: str
) -> None:
    own = maker.own(line_of(script, mark), function)
    assert name(maker, own, stand_in(Phase.FORWARD), LINEAR) == phase
    # The loss inside a network, and a network inside a network, belong to the outermost one.
    functional = library("torch/nn/functional.py")
    assert name(maker, own, stand_in(Phase.FORWARD), maker.own(1, "forward"), functional) == phase
    assert name(maker, own, stand_in(Phase.FORWARD), LINEAR, stand_in(Phase.FORWARD), LINEAR) == phase


@pytest.mark.parametrize(
    ("mark", "function", "phase"),
    [
        ("# plain", "main", "python (rest)"),
        ("# copy", "main", "data movement"),  # even while copies are not being counted
        ("# plain", "Agent.act", "acting"),
        ("# plain", "select_action", "acting"),
        ("# plain", "Replay.sample", "replay"),
        ("# plain", "Env.reset", "environment"),
        ("# pick", "learn", "learning (rest)"),
        ("# pick", "anything", "learning (rest)"),  # beside the backward pass and the optimizer
        ("# in update", "update", "learning (rest)"),
        ("# in train", "train", "python (rest)"),  # the whole loop, as it steps an environment
        ("# in update", "helper", "python (rest)"),
    ],
)
def test_the_scripts_own_code_by_its_place_and_name(
    maker: Maker, script: Path, mark: str, function: str, phase: str
) -> None:
    assert name(maker, maker.own(line_of(script, mark), function)) == phase


def test_the_innermost_that_says_something_decides(maker: Maker, script: Path) -> None:
    step, copy = line_of(script, "env.step(action)  # step"), line_of(script, "# copy")
    env = stand_in(Phase.ENVIRONMENT)
    assert name(maker, maker.own(step), env, maker.own(1, "play"), library("numpy/core.py")) == "environment"
    assert name(maker, maker.own(step), env, maker.own(1, "f"), library("torch/optim/sgd.py")) == "optimizer"
    assert name(maker, maker.own(step, "act"), stand_in(Phase.PRINTING)) == "printing"
    assert name(maker, maker.own(copy), maker.own(1, "helper")) == "python (rest)"  # not the innermost line


@pytest.mark.parametrize("folder", ["gym", "rich", "wandb", "tensorboard", "torch/optim", "envpool"])
def test_a_folder_of_the_users_is_no_library(tmp_path: Path, folder: str) -> None:
    maker = Maker(tmp_path / folder / "train.py")
    home = f"/home/me/{folder}"
    assert name(maker, Frame(f"{home}/train.py", "main", 3, Owner.SCRIPT)) == "python (rest)"
    inside = f"{home}/.venv/lib/python3.11/site-packages/torch/nn/modules/linear.py"
    assert name(maker, Frame(inside, "forward", 3, Owner.PLUMBING)) == "python (rest)"
    assert name(maker, Frame(f"{home}/queue.py", "get", 3, Owner.SCRIPT)) == "python (rest)"


def test_a_block_that_steps_environments_is_not_the_learning(tmp_path: Path) -> None:
    text = """
        for step in range(10):
            env.step(0)  # step
            x = 1  # plain
            loss.backward()  # backward
            optimizer.step()  # optimizer
    """
    script = write_script(tmp_path, text)
    maker = Maker(script)
    for kind, mark in {"env step": "# step", "backward": "# backward", "optimizer": "# optimizer"}.items():
        maker.site(kind, line_of(script, mark), 10)
    assert name(maker, maker.own(line_of(script, "# plain"), "<module>")) == "python (rest)"
