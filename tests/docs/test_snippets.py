"""Every command and every program in README.md and docs/ does what a reader would have it do.

Whoever adds a block to a page need not come here: it is found, and tested. A block that cannot be run says why in a
comment directly above it, `<!-- not run: needs a GPU -->`.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doc_commands import check, fill_in
from doc_desk import lay_out
from doc_pages import ROOT, Block, blocks, commands, pages

import flashdqn
from flashdqn import Config, Run
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.export.flow import Wanted, export_policy
from flashdqn.training.session import SessionEnd, start_run

#: What a program on a page may take as imported.
GIVEN = (
    "import math\nimport gymnasium\nimport numpy as np\nimport torch\nfrom torch import nn\nimport flashdqn\n"
)

#: Changed about a training that a page starts, so that it ends in a second.
SMALL: dict[str, Any] = {
    "steps": 1500,
    "episodes": None,
    "max_time": None,
    "envs": 16,
    "device": "cpu",
    "learn.starts": 200,
    "replay.capacity": 2000,
    "eval.every": 0,
    "eval.episodes": 4,
    "log.every": 500,
    "log.tensorboard": False,
    "runtime.threads": 1,
    "runtime.mode": "eager",
    "runtime.warmup": False,
}

PAGES = pages()
PROGRAMS = [block for page in PAGES for block in blocks(page) if block.is_program]
EXCUSED = [block for page in PAGES for block in blocks(page) if block.not_run]


@pytest.fixture(scope="session")
def cartpole_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on a Gymnasium environment; copy it before you change it."""
    out = str(tmp_path_factory.mktemp("cartpole"))
    return flashdqn.train(apply_settings(base_config("cartpole"), SMALL | {"out": out}), progress=False)


@pytest.fixture(scope="session")
def cartpole_onnx(cartpole_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file."""
    out = tmp_path_factory.mktemp("exported") / "cartpole.onnx"
    export_policy(Wanted(run=cartpole_run.path, out=out, observations=100, episodes=2), lambda text: None)
    return out


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the examples and a reader's own files in it, which we stand in."""
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:  # the next desk has a my_module of its own
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def small_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings that a program starts are over in a second."""

    def small(config: Config, *parts: Any) -> SessionEnd:
        return start_run(apply_settings(config, SMALL), *parts)

    monkeypatch.setattr("flashdqn.api.start_run", small)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_understood(page: Path, finished_run: Run, desk: Path) -> None:
    wrong = {
        f"{command.where} {' '.join(command.words)}": said
        for command in commands(page)
        if (said := check(command, finished_run.path))
    }
    assert not wrong, "\n".join(f"{command}\n    {said}" for command, said in wrong.items())


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.where)
@pytest.mark.usefixtures("desk", "small_trainings")
def test_every_program_runs(block: Block, request: pytest.FixtureRequest, finished_run: Run) -> None:
    if block.not_run:
        pytest.skip(block.not_run)
    text = f"{GIVEN}{block.before}\n{block.text}"
    if "cartpole" in text.lower():
        run = request.getfixturevalue("cartpole_run").path
        if "cartpole.onnx" in block.text:
            shutil.copy(request.getfixturevalue("cartpole_onnx"), "cartpole.onnx")
    else:
        run = finished_run.path
    text = re.sub(r'"(runs/[^"]*|RUN[^"]*)"', lambda name: f'"{fill_in((name[1],), run)[0]}"', text)
    exec(compile(text, block.where, "exec"), {"__name__": "docs"})


def test_a_block_that_is_not_run_says_why() -> None:
    """Listed here, so that somebody reads the reasons now and then: pytest -rP shows them."""
    for block in EXCUSED:
        print(f"{block.where}: {block.not_run}")  # noqa: T201
        assert len(block.not_run.split()) >= 2, f"{block.where}: why is it not run? Say it in a few words."


PAGE = ROOT / "docs" / "page.md"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("flashdqn train snake --lern.lr 1e-3", "did you mean '--learn.lr'"),
        ("flashdqn train snaek", "did you mean 'snake'"),
        ("flashdqn train snake --learn.lr fast", "'fast' is not"),
        ("flashdqn train snake --algo rainbows", "did you mean 'rainbow'"),
        ("flashdqn watch RUN --wide 3", "Unknown flag '--wide'"),
        ("flashdqn doctor --second 3 train.py", "did you mean '--seconds'"),
        ("flashdqn train snake --network my_module:HerTorso", "HerTorso"),
        ("flashdqn train own_game:Coinz", "Coinz"),
        ("flashdqn train sfc-paper --env.tables my_network.toml", "branches"),
        ("flashdqn traim snake", "Unknown command"),
        ("python benchmarks/update.py --wrong 3", "unrecognized arguments"),
        ("python benchmarks/updates.py", "there is no file"),
        ("python examples/own_game.py --fast", "takes no arguments"),
        ("make trian", "trian"),
        ("pip install -e '.[gymn]'", "no extra gymn"),
        ("torchrun train.py", "does not start flashdqn"),
        ("tensorboard --log runs", "no test knows"),
    ],
)
def test_a_wrong_command_is_found(line: str, says: str, finished_run: Run, desk: Path) -> None:
    for text in (f"```\n{line}    # so\n```\n", f"```bash\n$ {line}\n```\n"):
        (command,) = commands(PAGE, text)
        assert says in str(check(command, finished_run.path))


def test_what_is_a_command_and_what_is_not() -> None:
    text = """
        `make train` and `flashdqn train snake
        --steps 5`, but `flashdqn doctor` is a name.
        ```
        flashdqn train a \\
            --steps 1   # comment
        CI=1 make test && make clean
        ```
        ```
        flashdqn  │ 0.1
        ```
        <!-- not run: it takes a GPU -->
        ```bash
        flashdqn train b
        ```
        ```text
        flashdqn train c
        ```
        ```
        $ flashdqn eval d
        score 3
        ```
        """
    found = commands(PAGE, textwrap.dedent(text))
    assert [" ".join(command.words) for command in found] == [
        "flashdqn train a --steps 1",
        "make test",
        "make clean",
        "flashdqn eval d",
        "make train",
        "flashdqn train snake --steps 5",
    ]
    assert [command.line for command in found] == [5, 7, 7, 20, 2, 2]
