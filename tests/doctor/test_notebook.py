"""`%%doctor` in a real IPython shell, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from flashdqn.core.errors import ConfigError
from flashdqn.doctor.notebook import CellOptions, read_options

PROGRAM = """
import builtins, json, signal, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "flashdqn.doctor")
shell.run_cell('''
import torch
class Env:
    def reset(self):
        return torch.zeros(1, 4)
    def step(self, action):
        return torch.zeros(1, 4), 0.0, False, False, {}
env, network = Env(), torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
start = [parameter.detach().clone() for parameter in network.parameters()]
def learn(steps):
    for _ in range(steps):
        env.step(0)
        optimizer.zero_grad()
        network(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    return 7
''')
torch = sys.modules["torch"]
def places():
    env = shell.user_ns["Env"]
    tensor, hooks = torch.Tensor, sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
    methods = [tensor.backward, tensor.item, torch.nn.Module.__call__, env.step, builtins.print, signal.signal]
    return [*methods, len(hooks), len(sys.meta_path), signal.getsignal(signal.SIGALRM)]
before = places()
found = []
for steps in (5, 8):
    result = shell.run_cell(f"%%doctor --json report.json\\nanswer = learn({steps})")
    assert result.success, result
    assert places() == before
    report = json.load(open("report.json"))
    found.append([report["transitions"], report["updates"], report["ended"], shell.user_ns["answer"]])
failed = shell.run_cell("%%doctor --json report.json\\nlearn(2)\\nraise ValueError('mine')")
found.append([repr(failed.error_in_exec), json.load(open("report.json"))["ended"]])
assert places() == before
stopped = shell.run_cell("%%doctor --seconds 1 --json report.json\\nwhile True:\\n    learn(1)")
found.append([stopped.success, json.load(open("report.json"))["ended"]])
assert places() == before
print("FOUND", json.dumps(found))
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_cell_is_watched_and_everything_is_put_back(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")] or [done.stderr]
    found: list[list[Any]] = json.loads(line.removeprefix("FOUND "))
    assert found == [
        [5, 5, "finished", 7],
        [8, 8, "finished", 7],
        ["ValueError('mine')", "failed"],
        [True, "stopped"],
    ]


def test_the_words_behind_the_magic() -> None:
    assert read_options("") == CellOptions()
    assert read_options("--seconds 2m --html 'a b.html'") == CellOptions(seconds=120.0, html=Path("a b.html"))


@pytest.mark.parametrize("line", ["--fix", "--seconds", "--seconds soon", "--seconds -1", "train.py"])
def test_what_is_not_understood_is_one_sentence(line: str) -> None:
    with pytest.raises(ConfigError, match=r"takes"):
        read_options(line)
