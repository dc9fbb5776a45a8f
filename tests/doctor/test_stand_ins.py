"""The watch's stand-ins on a real script's stack, and what phases and evidence make of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from watching import line_of, watch_script, write_script

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.phases import is_network_call
from flashdqn.doctor.watch.kinds import Owner, Phase
from flashdqn.doctor.watch.rows import Frame
from flashdqn.doctor.watch.schema import WatchRecord

#: The script's own code runs inside every stand-in, and asks there for a look instead of waiting for one.
SCRIPT = """
    import signal
    import torch


    def look():
        signal.raise_signal(signal.SIGALRM)


    class Game:
        def reset(self):
            return 0

        def step(self, action):
            self.play()
            return 0, 0.0, False

        def play(self):
            look()  # in the game


    class Memory:
        def sample(self):
            return None

        def push(self, row):
            look()  # in the memory


    class Net(torch.nn.Linear):
        def forward(self, x):
            look()  # in the network
            return super().forward(x)


    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") == "item":
                look()  # in the method
            return super().__torch_function__(function, types, args, kwargs or {})


    class Page:
        def write(self, text):
            look()  # in the print


    def watch_gradient(gradient):
        look()  # in the backward pass


    def main():
        game, memory, net, page = Game(), Memory(), Net(2, 1), Page()
        number = torch.ones(1).as_subclass(Loud)
        for _ in range(3):
            with torch.no_grad():
                net(torch.ones(1, 2))  # act
            game.step(0)  # step
            memory.push(0)
            number.item()
            loss = net(torch.ones(4, 2)).sum()  # learn
            loss.register_hook(watch_gradient)
            loss.backward()
            print("loss", file=page)


    main()
"""
#: Where a look was taken → what the stand-in around it says, and the phase that the doctor names.
EXPECTED = {
    "# in the game": (Phase.ENVIRONMENT, {Phase.ENVIRONMENT}),
    "# in the memory": (Phase.REPLAY, {Phase.REPLAY}),
    "# in the network": (Phase.FORWARD, {Phase.ACTING, Phase.FORWARD}),
    "# in the method": (Phase.DATA_MOVEMENT, {Phase.DATA_MOVEMENT}),
    "# in the print": (Phase.PRINTING, {Phase.PRINTING}),
    "# in the backward pass": (Phase.BACKWARD, {Phase.BACKWARD}),
}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_script(tmp_path_factory.mktemp("stand_ins"), SCRIPT)


@pytest.fixture(scope="module")
def record(script: Path) -> WatchRecord:
    record = watch_script(script)
    assert (record.ended, record.error, record.failures) == ("finished", "", ())
    return record


def stacks_through(record: WatchRecord, script: Path, mark: str) -> list[int]:
    """The numbers of the stacks with the line of this mark in them."""
    place = str(script), line_of(script, mark)
    return [
        number
        for number, stack in enumerate(record.stacks)
        if place in {(record.frames[i].file, record.frames[i].line) for i in stack}
    ]


def called_frames(stack: tuple[Frame, ...]) -> list[Frame]:
    """The frames of the watch that the script's own code called. What `look` calls is the look itself: a timer may
    interrupt it."""
    return [
        frame
        for caller, frame in pairwise(stack)
        if (caller.owner, frame.owner) == (Owner.SCRIPT, Owner.WATCH) and caller.function != "look"
    ]


@pytest.mark.parametrize("mark", EXPECTED)
def test_each_says_its_phase_and_the_doctor_names_it(record: WatchRecord, script: Path, mark: str) -> None:
    said, named = EXPECTED[mark]
    evidence, numbers = Evidence(record), stacks_through(record, script, mark)
    assert numbers
    assert {called_frames(evidence.frames(number))[-1].phase for number in numbers} == {said}
    assert {evidence.names[number] for number in numbers} == named


def test_whatever_the_script_calls_of_the_watch_says_its_phase(record: WatchRecord) -> None:
    evidence = Evidence(record)
    stacks = [evidence.frames(number) for number in range(len(record.stacks))]
    looked = [stack for stack in stacks if any(frame.function == "look" for frame in stack)]  # not by a timer
    called = [frame for stack in looked for frame in called_frames(stack)]
    assert {frame.phase for frame in called} == {said for said, _ in EXPECTED.values()}


def test_no_other_frame_says_one(record: WatchRecord) -> None:
    assert all(frame.phase is None for frame in record.frames if frame.owner is not Owner.WATCH)


@pytest.mark.parametrize(("mark", "phase"), [("# act", Phase.ACTING), ("# learn", Phase.FORWARD)])
def test_a_network_acts_or_learns_by_the_line_that_called_it(
    record: WatchRecord, script: Path, mark: str, phase: Phase
) -> None:
    evidence = Evidence(record)
    numbers = [
        number
        for number in stacks_through(record, script, mark)
        if number in stacks_through(record, script, "# in the network")
    ]
    assert numbers
    for number in numbers:
        (stand_in,) = called_frames(evidence.frames(number))
        assert is_network_call(stand_in)
        assert evidence.names[number] == phase


def test_what_an_environment_calls_is_its_own_affair(record: WatchRecord, script: Path) -> None:
    evidence = Evidence(replace(record, training_began=-1.0))  # so that every window counts
    inner, outer = line_of(script, "# in the game"), line_of(script, "game.step(0)  # step")
    (number,) = stacks_through(record, script, "# in the game")
    frames = {frame.line: frame for frame in evidence.frames(number) if frame.owner is Owner.SCRIPT}
    assert evidence.inside_env(number, frames[inner])
    assert not evidence.inside_env(number, frames[outer])
    training = {line for file, line in evidence.training_frames if file == str(script)}
    assert outer in training
    assert inner not in training
