"""A stranger's run or file imports nothing: not in any command, not in Python, not through any setting; only what
the user names, or trusts."""

from __future__ import annotations

import ast
import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from conftest import forge_settings, start, tiny_config
from flashdqn import Config, Run
from flashdqn.cli import main as cli
from flashdqn.cli.arguments import read_permission
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings, list_named_code
from flashdqn.core.errors import ConfigError, UntrustedError
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.envs.tasks import TASKS
from flashdqn.export.flow import Wanted, export_policy
from flashdqn.runs.folder import RunFolder
from flashdqn.show.players import Players
from flashdqn.show.report import write_report

SOURCE = Path(flashdqn.__file__).parent

#: What leaves a mark when it is imported.
EVIL = "from pathlib import Path\nPath(__file__).with_name('IMPORTED').touch()\n"

#: Edits of a run's config.json, each of which would execute code; by the setting that does it.
ATTACKS: dict[str, dict[str, Any]] = {
    "a torso": {"network": {"torso": "evil:Torso"}},
    "a game": {"env": {"task": "own", "id": "evil:Game"}},
    "a function for Gymnasium": {"env": {"task": "gym", "id": "evil:make"}},
    "a name of Gymnasium's with its module": {"env": {"task": "gym", "id": "evil:Env-v0"}},
    "a command": {"env": {"task": "gym", "id": "os:system", "kwargs": {"command": "touch IMPORTED"}}},
    "a module that is no word": {"env": {"task": "gym", "id": "evil thing:make"}},
    "our own task for Gymnasium, with arguments": {
        "env": {
            "task": "gym",
            "id": "flashdqn/Snake-v0",
            "kwargs": {"task": "gym", "id": "os:system", "kwargs": {"command": "touch IMPORTED"}},
        }
    },
    "a head": {"learn": {"head": "evil:Head"}},
    "a bootstrap": {"learn": {"bootstrap": "evil:Bootstrap"}},
    "an optimizer": {"learn": {"optimizer": "evil:Optimizer"}},
    "a sampler": {"replay": {"sampler": "evil:Sampler"}},
}

#: Commands that read a run, with `RUN` for its folder.
COMMANDS: dict[str, list[str]] = {
    "eval": ["eval", "RUN", "--episodes", "2", "--device", "cpu"],
    "eval --json": ["eval", "RUN", "--json", "--episodes", "2", "--device", "cpu"],
    "watch": ["watch", "RUN", "--device", "cpu"],
    "watch --png": ["watch", "RUN", "--png", "moment.png"],
    "watch untrained": ["watch", "RUN", "--checkpoint", "untrained", "--device", "cpu"],
    "export": ["export", "RUN", "--to", "torchscript", "--observations", "20", "--episodes", "1"],
    "train --resume": ["train", "--resume", "RUN", "--steps", "6000"],
    "train --config": ["train", "--config", "RUN/config.json", "--steps", "300", "--out", "new"],
    "train PRESET --config": [
        "train",
        "snake",
        "--config",
        "RUN/config.json",
        "--steps",
        "300",
        "--out",
        "new",
    ],
    "profile": ["profile", "--config", "RUN/config.json", "--only", "phases"],
}

#: An attack that only acts when batches are drawn needs no import to evaluate or to look at.
ONLY_TRAINS = ("a sampler",)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the user stands in; evil lies there, and Python would find it."""
    place = tmp_path / "here"
    place.mkdir()
    for name in ("evil.py", "evil thing.py"):
        (place / name).write_text(EVIL)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    yield place
    for name in ("evil", "evil thing"):
        sys.modules.pop(name, None)


@pytest.fixture
def spoiled(run_copy: Path) -> Callable[..., Path]:
    """A run folder of a stranger's: a real one, whose config.json was edited."""

    def spoil(changes: dict[str, Any], run: Path = run_copy) -> Path:
        def change(data: dict[str, Any]) -> None:
            for group, values in changes.items():
                if not isinstance(values, dict):
                    data["config"][group] = values
                else:
                    old = {} if "task" in values else data["config"][group]
                    data["config"][group] = old | values

        forge_settings(run, change)
        return run

    return spoil


def call(words: list[str], run: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """`flashdqn …` in this process: exit code, standard output, standard error."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "500")
        patch.setattr(sys, "argv", ["flashdqn", *(word.replace("RUN", str(run)) for word in words)])
        patch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as stop:
            cli.main()
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err  # type: ignore[arg-type]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_strangers_run_imports_nothing(
    command: str, attack: str, here: Path, spoiled: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = call(COMMANDS[command], spoiled(ATTACKS[attack]), capsys)
    assert not (here / "IMPORTED").exists()
    assert code == 2
    assert said.startswith("flashdqn: ")
    assert said.count("\n") == 1
    assert "config.json asks to import '" in said
    assert "--trust" in said
    assert not {"evil", "evil thing"} & sys.modules.keys()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("command", ["eval", "watch", "export", "train --resume", "train --config"])
def test_with_trust_it_is_imported(
    command: str, attack: str, here: Path, spoiled: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """So the attacks are real: each of them would have done its work."""
    if attack in ONLY_TRAINS and not command.startswith("train"):
        pytest.skip("it is not needed to play")
    if attack.startswith("our own task"):
        pytest.skip("as_gymnasium refuses it in any case")
    code, _, said = call([*COMMANDS[command], "--trust"], spoiled(ATTACKS[attack]), capsys)
    assert (here / "IMPORTED").exists()
    assert code == 2  # there is nothing in evil that could be used
    assert "asks to import" not in said


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_report_does_without_the_game(
    attack: str, here: Path, spoiled: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = spoiled(ATTACKS[attack])
    (run / "report.html").unlink()
    code, out, _ = call(["report", "RUN"], run, capsys)
    assert code == 0
    assert not (here / "IMPORTED").exists()
    (line,) = [line for line in out.splitlines() if line.startswith("No game is recorded: ")]
    assert "asks to import" in line
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "No game could be recorded" in page
    assert "recorded-game" not in page


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_comparison_imports_nothing(
    attack: str,
    here: Path,
    spoiled: Callable[..., Path],
    finished_run: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["report", "RUN", str(finished_run.path), "--out", "comparison.html"]
    assert call(words, spoiled(ATTACKS[attack] | {"preset": "evil:Game"}), capsys)[0] == 0
    assert (here / "comparison.html").exists()
    assert not (here / "IMPORTED").exists()


def test_the_preset_of_a_run_is_a_word(
    here: Path, spoiled: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`flashdqn train evil:Game` would look into the module; a file's preset must not."""
    run = spoiled({"preset": "evil:Game"})
    assert call(["report", "RUN"], run, capsys)[0] == 0
    assert call(COMMANDS["eval"], run, capsys)[0] == 0
    for name in ("evil:Game", "gym:evil:make", "own:evil:Game", "own:gym:evil", "gym:own:evil"):
        spoiled({"preset": name})
        file = run / "only.json"
        file.write_text(json.dumps({"preset": name}))
        code, _, said = call(["train", "--config", "RUN/only.json", "--steps", "300"], run, capsys)
        assert (code, "asks to import" in said) == (2, True), name
    assert not (here / "IMPORTED").exists()


@pytest.mark.parametrize("attack", ATTACKS)
def test_python_imports_nothing(attack: str, here: Path, spoiled: Callable[..., Path]) -> None:
    run = spoiled(ATTACKS[attack])
    calls: list[Callable[[], object]] = [
        lambda: flashdqn.load(run),
        lambda: flashdqn.load(next((run / "checkpoints").glob("0*"))),
        lambda: flashdqn.train(resume=run, steps=6000, progress=False),
        lambda: Players(run),
        lambda: export_policy(Wanted(run, "torchscript")),
        lambda: RunFolder.open(run).config(),
    ]
    for one in calls:
        with pytest.raises(UntrustedError, match=r"config\.json asks to import"):
            one()
    write_report(run)
    assert not (here / "IMPORTED").exists()


def test_python_with_trust(here: Path, spoiled: Callable[..., Path]) -> None:
    run = spoiled(ATTACKS["a torso"])
    with pytest.raises(ConfigError, match="The module evil has no 'Torso'"):
        flashdqn.load(run, "cpu", trust=True)
    (here / "IMPORTED").unlink()
    sys.modules.pop("evil")
    with pytest.raises(ConfigError, match="The module evil has no 'Torso'"):
        flashdqn.train(resume=run, steps=6000, progress=False, trust=True)
    assert (here / "IMPORTED").exists()
    with pytest.raises(ConfigError, match="The module evil has no 'Torso'"):  # naming it is allowing it
        flashdqn.train(resume=run, steps=6000, progress=False, network={"torso": "evil:Torso"})


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["eval", "RUN", "--trust", "evil:Torso"], True),
        (["eval", "--trust=evil:Torso", "RUN"], True),
        (["eval", "--trust", "RUN"], True),
        (["eval", "RUN", "--trust", "evil:Other"], False),
        (["eval", "RUN", "--trust", "evil"], None),  # no name: one word too many
        (["train", "--resume", "RUN", "--network", "evil:Torso", "--steps", "6000"], True),
        (["train", "--resume", "RUN", "--network.torso=evil:Torso", "--steps", "6000"], True),
        (["train", "snake", "--config", "RUN/config.json", "--out", "evil:Torso"], False),
    ],
)
def test_what_the_command_line_names_is_allowed(
    words: list[str],
    allowed: bool | None,
    here: Path,
    spoiled: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, said = call(words, spoiled(ATTACKS["a torso"]), capsys)
    assert code == 2
    assert (here / "IMPORTED").exists() == bool(allowed)
    if allowed is not None:
        assert ("asks to import" in said) != allowed


def test_a_path_is_not_a_name(
    here: Path, spoiled: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = spoiled(ATTACKS["a torso"])
    shutil.copytree(run, here / "evil:Torso")
    for words in (
        ["eval", "evil:Torso"],
        ["watch", "evil:Torso"],
        ["export", "evil:Torso"],
        ["train", "--resume", "evil:Torso"],
        ["train", "--config", "evil:Torso/config.json"],
    ):
        code, _, said = call(words, run, capsys)
        assert (code, "asks to import" in said) == (2, True), words
    assert not (here / "IMPORTED").exists()


def test_names_are_shown_as_they_are_written(spoiled: Callable[..., Path], here: Path) -> None:
    """A stranger's name neither steers the terminal nor fills it."""
    for torso, error in (("evil\x1b[2J:Torso", ConfigError), ("evil:Torso" + "x" * 500, UntrustedError)):
        run = spoiled({"network": {"torso": torso}})
        with pytest.raises(error) as refused:
            flashdqn.load(run)
        assert "\x1b" not in str(refused.value)
        assert len(str(refused.value)) < 500 + len(str(run))


def test_a_plain_run_needs_no_trust_and_no_folder(
    here: Path, run_copy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is looked for where the user stands: what lies there could pass for a package."""
    looked: list[str] = []
    monkeypatch.setattr(Path, "cwd", lambda: looked.append("cwd") or here)  # type: ignore[func-returns-value]
    for words in (COMMANDS["eval --json"], ["report", "RUN"]):
        assert call(words, run_copy, capsys)[0] == 0
    assert not looked
    path = list(sys.path)
    NO_PERMISSION.allow_working_folder()
    assert sys.path == path
    monkeypatch.setattr(sys, "path", list(path))
    Permission(frozenset({"a:B"})).allow_working_folder()
    assert sys.path == [*path, str(here)]


def test_a_training_reports_on_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named on the command line: no --trust, and the report has its game. What to type next has --trust."""
    examples = Path(__file__).parents[2] / "examples"
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(examples)
    flags = ["--steps", "1200", "--envs", "8", "--learn.starts", "200", "--replay.capacity", "2000"]
    flags += ["--runtime.mode", "eager", "--runtime.no-warmup", "--eval.episodes", "4", "--eval.every", "0"]
    assert cli.dispatch_command(["train", "own_game:Coins", *flags, "--out", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    assert "recorded-game" in (run / "report.html").read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert f"eval {run} --trust" in said
    assert json.loads((run / "config.json").read_text())["config"]["env"]["id"] == "own_game:Coins"


@pytest.mark.parametrize("trust", [False, True])
def test_as_a_process_of_its_own(trust: bool, here: Path, spoiled: Callable[..., Path]) -> None:
    run = spoiled(ATTACKS["a command"])
    with start("eval", str(run), *["--trust"] * trust, cwd=here) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Traceback" not in said
    assert (here / "IMPORTED").exists() == trust


# ---- the rule itself


def test_the_words_of_a_command_line() -> None:
    read = read_permission
    assert read(["RUN", "--trust"]) == (Permission(everything=True), ["RUN", "--trust"])
    assert read(["--trust", "a:B", "RUN"]) == (Permission(frozenset({"a:B"})), ["--trust", "RUN"])
    assert read(["a:B"])[0] == NO_PERMISSION
    assert read(["gym:a:B"], preset=True)[0] == Permission(frozenset({"a:B"}))
    assert read(["snake", "--env.id=a:B"], preset=True)[0] == Permission(frozenset({"a:B"}))
    assert read(["--resume", "a:B", "--out", "c:D"], preset=True)[0] == NO_PERMISSION
    names = frozenset({"a:B", "c.d:E"})
    assert read(["--learn.head", "a:B", "--replay.sampler", "c.d:E"])[0] == Permission(names)


def text_settings(group: Any, prefix: str = "") -> Iterator[str]:
    """Every setting that is a text, by its dotted name."""
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if dataclasses.is_dataclass(value):
            yield from text_settings(value, f"{prefix}{field.name}.")
        elif isinstance(value, str):
            yield prefix + field.name


@pytest.mark.parametrize("task", TASKS)
def test_no_text_setting_slips_through(task: str) -> None:
    """Whatever text a later setting may take: if it can hold module:Name, the rule sees it."""
    config = apply_settings(Config(), {"env": {"task": task}})
    accepted = 0
    for name in text_settings(config):
        try:
            changed = apply_settings(config, {name: "evil:Name"})
        except ConfigError:
            continue  # it takes no such text
        accepted += 1
        harmless = name in ("preset", "out") or name.startswith("log.")
        assert ("evil:Name" in list_named_code(changed)) != harmless, name
    assert accepted >= 7


def test_plain_presets_name_no_code() -> None:
    for name in flashdqn.presets.PRESETS:
        assert list_named_code(base_config(name)) == (), name
    assert list_named_code(tiny_config(network__torso="a:B", network__kwargs={"c": ["d:E"]})) == (
        "a:B",
        "d:E",
    )


def test_modules_are_imported_by_name_in_few_places() -> None:
    """A new place that imports what a variable says must be looked at by somebody who knows the rule."""
    known = {
        "__init__.py": "the package's own modules",
        "cli/main.py": "the commands",
        "compute/compile_ahead.py": "a kernel's module, named by the process that started the helper",
        "compute/kernel_cache.py": "the source that was just written for a kernel",
        "core/lazy_names.py": "a package's own modules",
        "core/safe_path.py": "a table of packages",
        "core/user_code.py": "the user's own code",
        "envs/__init__.py": "the package's own modules",
        "envs/tasks.py": "the list of tasks",
        "envs/gymnasium/make.py": "the user's environments",
        "envs/gymnasium/old_api.py": "a module that make.py has imported, and its own entry point",
        "envs/gymnasium/plugins.py": "a table of packages, and a part of a module that make.py has imported",
        "export/to_onnx.py": "a table of packages",
        "compute/nvrtc.py": "two modules of cuda.bindings, named in the code",
    }
    found = set()
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith("doctor/"):  # which runs the user's own script, and reads no run
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Constant):
                name = ast.unparse(node.func)
                if name.endswith("import_module") or name in ("__import__", "exec", "eval", "runpy.run_path"):
                    found.add(place)
    assert found <= known.keys()
    assert {"core/user_code.py", "cli/main.py"} <= found


def test_gymnasium_arguments_cannot_choose_another_task() -> None:
    import gymnasium

    with pytest.raises(ConfigError, match="cannot make the task 'gym'"):
        gymnasium.make("flashdqn/Snake-v0", task="gym", vectorization="sync")
    assert gymnasium.make("flashdqn/Snake-v0", size=6).observation_space is not None


@pytest.mark.usefixtures("here")
def test_code_that_is_allowed_plays(tmp_path: Path, finished_run: Run) -> None:
    """A real own network: allowed by its name alone, it loads and plays."""
    examples = str(Path(__file__).parents[2] / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(examples)
        config = tiny_config(out=str(tmp_path), steps=600, network__torso="own_network:Gated", eval__every=0)
        run = flashdqn.train(config, progress=False)
        with pytest.raises(UntrustedError, match="own_network:Gated"):
            flashdqn.load(run.path)
        agent = flashdqn.load(run.path, "cpu", trust=True)
    assert agent.evaluate(2).episodes == 2
    assert isinstance(agent.network, torch.nn.Module)
    assert flashdqn.load(finished_run.path, "cpu").config == finished_run.config
