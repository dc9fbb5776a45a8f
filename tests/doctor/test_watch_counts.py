"""What the watch counts, exactly: by line, by kind, and by purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import line_of, site_at, watch_script, write_script

from flashdqn.doctor.watch.rows import ForwardSite
from flashdqn.doctor.watch.schema import WatchRecord

PATIENTS = Path(__file__).parent / "patients"

SCRIPT = """
    import numpy as np
    import torch
    from torch import nn


    class Three:  # steps of three values; an episode of five steps
        def __init__(self):
            self.t = 0

        def reset(self):
            self.t = 0
            return 0

        def step(self, action):
            self.t += 1
            return self.t, 1.0, self.t % 5 == 0


    class Four(Three):  # the older four
        def step(self, action):
            obs, reward, done = super().step(action)
            return obs, reward, done, {"not": "an end"}


    class Five(Three):  # Gymnasium's: here episodes are cut off after five steps
        def step(self, action):
            obs, reward, done = super().step(action)
            return obs, reward, False, done, {}


    class Wrapper:
        def __init__(self, env):
            self.env = env

        def reset(self):
            return self.env.reset()

        def step(self, action):
            return self.env.step(action)


    class Arrays:  # eight boards; board i ends at every (i + 1)-th step
        def __init__(self, convert):
            self.t, self.convert = 0, convert

        def reset(self):
            return None

        def step(self, action):
            self.t += 1
            ends = (self.t % np.arange(1, 9)) == 0
            return None, self.convert(np.zeros(8, np.float32)), self.convert(ends), self.convert(ends & False), {}


    class Clock:  # a step, but no environment's; and it steps one
        def __init__(self, env):
            self.env = env

        def reset(self):
            pass

        def step(self, times):
            for _ in range(times):
                self.env.step(0)  # inner


    class Replay:
        def __init__(self):
            self.rows = []

        def push(self, row):
            self.rows.append(row)

        def sample(self, count):
            return self.rows[:count]


    class Agent:
        def __init__(self):
            self.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
            self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)

        def act(self, obs):
            with torch.no_grad():
                return self.network(obs).argmax(1)  # greedy

        def act_with_graph(self, obs):
            return self.network(obs).argmax(1)  # careless

        def learn(self, obs):
            loss = self.network(obs).square().mean()  # forward
            self.optimizer.zero_grad()
            loss.backward()  # backward
            self.optimizer.step()  # optimizer
            return loss


    def main():
        agent, replay = Agent(), Replay()
        three, four, five = Three(), Four(), Wrapper(Wrapper(Five()))
        for _ in range(11):
            three.step(0)  # three
        for _ in range(7):
            four.step(0)  # four
        for _ in range(10):
            five.step(0)  # five
        arrays, tensors = Arrays(lambda x: x), Arrays(torch.from_numpy)
        for _ in range(8):
            arrays.step(0)  # arrays
        for _ in range(3):
            tensors.step(0)  # tensors
        clock = Clock(Three())
        clock.step(2)
        clock.step(2)
        obs = torch.ones(6, 4)
        for _ in range(9):
            agent.act(obs)
            replay.push(1)  # push
            three.step(0)  # after acting
        for _ in range(4):
            agent.act_with_graph(obs[:1])
            three.step(0)  # acted carelessly
        for _ in range(5):
            replay.sample(3)  # sample
            agent.learn(obs)
        for row in obs:
            row.cpu().numpy()  # copies
            float(row[0])  # float
            if row[1] > 0:  # bool
                pass
            print(row.tolist())  # print
        for _ in range(13):
            obs.sum().item()  # item


    main()
    print("12,345 steps/s", 3)  # claim
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_script(tmp_path_factory.mktemp("counts"), SCRIPT)


@pytest.fixture(scope="module")
def record(script: Path) -> WatchRecord:
    return watch_script(script)


@pytest.mark.parametrize(
    ("kind", "mark", "count", "elements"),
    [
        ("env step", "# three", 11, 11),
        ("env step", "# four", 7, 7),
        ("env step", "# five", 10, 10),
        ("env step", "# arrays", 8, 64),
        ("env step", "# tensors", 3, 24),
        ("env step", "# inner", 2, 2),
        ("env step", "# after acting", 9, 9),
        ("backward", "# backward", 5, 0),
        ("optimizer", "# optimizer", 5, 0),
        ("cpu", "# copies", 6, 24),
        ("numpy", "# copies", 6, 24),
        ("float", "# float", 6, 6),
        ("bool", "# bool", 6, 6),
        ("tolist", "# print", 6, 24),
        ("print", "# print", 6, 0),
        ("item", "# item", 13, 13),
    ],
)
def test_every_line_is_counted_exactly(
    record: WatchRecord, script: Path, kind: str, mark: str, count: int, elements: int
) -> None:
    site = site_at(record, kind, script, mark)
    assert (site.count, site.elements) == (count, elements)


def test_only_the_scripts_own_lines_are_named(record: WatchRecord, script: Path) -> None:
    assert {site.file for site in record.sites} == {str(script)}
    assert {site.file for site in record.forwards} == {str(script)}
    assert site_at(record, "optimizer", script, "# optimizer").function == "Agent.learn"


def test_transitions_and_steps_add_up(record: WatchRecord) -> None:
    steps = 11 + 7 + 10 + 8 + 3 + 2 + 9 + 4
    assert record.totals.vector_steps == steps
    assert record.totals.transitions == steps + 7 * (8 + 3)
    assert record.widths == {1: steps - 11, 8: 11}
    assert record.totals.updates == 5
    assert record.counted.vector_steps == steps
    assert record.counted.updates == 5


def test_episodes_and_their_lengths(record: WatchRecord) -> None:
    three, four, five = (24 // 5, 7 // 5, 10 // 5)
    arrays = [8 // board for board in range(1, 9)]
    tensors = [3 // board for board in range(1, 9)]
    assert record.totals.episodes == three + four + five + sum(arrays) + sum(tensors)
    boards = sum(n * board for counts in (arrays, tensors) for board, n in enumerate(counts, 1))
    assert record.totals.episode_steps == 5 * (three + four + five) + boards


def forward_at(record: WatchRecord, script: Path, mark: str) -> ForwardSite:
    (found,) = [site for site in record.forwards if site.line == line_of(script, mark)]
    return found


def test_networks_are_known_by_what_follows_their_calls(record: WatchRecord, script: Path) -> None:
    acting, careless, learning = (
        forward_at(record, script, f"# {m}") for m in ("greedy", "careless", "forward")
    )
    assert (acting.role, acting.count, acting.acting, acting.graded, acting.batch) == ("acting", 9, 9, 0, 6)
    assert (careless.role, careless.count, careless.graded, careless.batch) == ("acting", 4, 4, 1)
    assert (learning.role, learning.count, learning.learning, learning.graded) == ("forward", 5, 5, 5)
    assert learning.shape == (6, 4)
    assert learning.network == "Sequential"
    assert learning.parameters == 58
    assert learning.trained


def test_the_rest_of_the_record(record: WatchRecord, script: Path) -> None:
    assert record.ended == "finished"
    assert record.failures == ()
    (claim,) = record.claims
    assert (claim.value, claim.line) == (12_345.0, line_of(script, "# claim"))
    assert claim.transitions == record.totals.transitions
    (optimizer,) = record.optimizers
    assert (optimizer.name, optimizer.steps, optimizer.tensors) == ("SGD", 5, 4)
    assert optimizer.elements == 58
    probes = record.probes
    assert None not in (probes.threads, probes.optimizer, probes.flush, probes.no_grad, probes.flops)
    assert probes.failed == ()


def test_a_patients_copies_are_counted_on_its_lines() -> None:
    path = PATIENTS / "per_row_copies.py"
    record = watch_script(path, "--iterations", "3")
    width, counts = record.width, set()
    for mark, kinds in {
        " states[i].cpu()": ("cpu", "numpy"),
        "next_states[i].cpu()": ("cpu", "numpy"),
        "actions[i].item()": ("item",),
        "rewards[i].item()": ("item",),
        "dones[i].item()": ("item",),
    }.items():
        for kind in kinds:
            counts.add(site_at(record, kind, path, mark).count)
    (count,) = counts  # of whole steps: on a slow machine the counting may rest for one of the three
    assert count in (width, 2 * width, 3 * width)
    assert record.totals.transitions == 3 * width


ENDS = """
    import torch


    class Game:  # it is over after five steps, and stays so
        def __init__(self, resets_itself=False):
            self.t, self.resets_itself = 0, resets_itself

        def reset(self):
            self.t = 0
            return 0

        def step(self, action):
            if self.resets_itself and self.t == 5:
                self.reset()
            self.t += 1
            return self.t, 1.0, False, self.t >= 5, {}


    def play(game, rounds, steps):
        for _ in range(rounds):
            game.reset()
            for _ in range(steps):
                game.step(0)


    play(Game(WAY), 4, 12)
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()  # no optimizer
"""


def test_steps_after_an_end_are_no_episodes(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, ENDS.replace("WAY", "False")))
    # In the first round nobody knows yet who resets the game.
    assert (record.totals.vector_steps, record.late_steps) == (48, 3 * 7)
    assert record.totals.episodes == 8 + 3


def test_a_game_that_resets_itself_may_go_on(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, ENDS.replace("WAY", "True")))
    assert record.late_steps == 0
    assert record.totals.episodes == 4 * 2


def test_training_begins_with_a_backward_pass(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import time
        import torch
        weight = torch.ones(3, requires_grad=True)
        for _ in range(20):
            weight.square().sum().backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            time.sleep(0.05)
        """,
    )
    record = watch_script(script)
    assert record.totals.updates == 0
    assert record.began < record.seconds - 0.8


def test_a_step_may_return_reward_and_end_alone(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import torch

        class Game:
            def __init__(self):
                self.t = 0

            def reset(self):
                self.t = 0

            def step(self, action):
                self.t += 1
                return 1.0, self.t == 5


        class Schedule:  # no game
            def reset(self):
                pass

            def step(self, value):
                return value, value


        game, test, schedule = Game(), Game(), Schedule()
        for _ in range(20):
            game.reset()
            for _ in range(5):
                game.step(0)
                schedule.step(1)
        for _ in range(30):
            test.step(0)
        """,
    )
    record = watch_script(script)
    assert (record.totals.transitions, record.totals.episodes) == (130, 21)
    assert record.environments == 1, "the other one is stepped seldom: for evaluation"
