"""No task's name stands in generic code: only in its own package, in the list, and where a table says why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import flashdqn
from flashdqn.envs.tasks import TASKS, iterate_tasks

ROOT = Path(flashdqn.__file__).parent

#: Where a task may be named, and why.
ALLOWED = {
    "envs/tasks.py": "the list of tasks",
    "envs/__init__.py": "public names: `from flashdqn.envs import SnakeConfig`",
    "envs/user_env.py": "the task `own` itself; its message says how a Gymnasium environment is written",
    "cli/landscapes.py": "a command about the files of one task",
    "cli/fuelbreaks.py": "commands about plans for one task",
    "cli/fuelbreaks_common.py": "what these commands share",
    "cli/fuelbreaks_plan.py": "one of them",
    "cli/fuelbreaks_score.py": "one of them",
    "cli/main.py": "the lines about these commands",
    "cli/other_tools.py": "names that users of other trainers know",
    "cli/train.py": "the default preset of the command",
    "cli/arguments.py": "a command to try, in a message",
    "cli/sweep.py": "commands to try, on its page of help",
    "cli/profile.py": "commands to try, on its page of help",
    "api/__init__.py": "the default preset of the function `train`",
    "config/given_env.py": "a name without a prefix is Gymnasium's; a message gives names to try",
    "envs/live_env.py": "an environment that the user passes is one of Gymnasium's",
}
#: Packages in which a task may be named: its own, that of fuel-break plans, and the doctor, which knows other
#: people's Gymnasium.
PACKAGES = ("envs/snake/", "envs/sfc/", "envs/fuelbreaks/", "envs/gymnasium/", "planning/", "doctor/")


def task_words() -> re.Pattern[str]:
    """The tasks' names, those of their classes and modules, and of their presets. `gym` and `own` are words of
    other meanings too, and so is Gymnasium: for these the classes, the modules and the prefixes stand."""
    names = {name for name in TASKS if name not in ("gym", "own")}
    names |= {task.config.__name__ for task in iterate_tasks()}
    names |= {preset for task in iterate_tasks() for preset in task.presets}
    return re.compile(
        "|".join([*sorted(names), "gym:", "own:", "fuel.breaks?", r"envs\.gymnasium", r"envs\.user_env"]),
        re.I,
    )


def words_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name and every text of a module, with its line; docstrings and comments may give examples."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import | ast.FunctionDef | ast.ClassDef):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.name]
            yield from ((node.lineno, name) for name in names)


def named_in(source: str) -> list[str]:
    """The lines of a module that name a task."""
    pattern = task_words()
    return [f"{line}: {word}" for line, word in words_of(ast.parse(source)) if pattern.search(word)]


def test_generic_code_names_no_task() -> None:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in ALLOWED and not name.startswith(PACKAGES):
            found[name] = named_in(path.read_text(encoding="utf-8"))
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_every_exception_is_needed() -> None:
    idle = [name for name in ALLOWED if not named_in((ROOT / name).read_text(encoding="utf-8"))]
    assert idle == []


def test_a_name_in_code_is_found_and_one_in_prose_is_not() -> None:
    assert named_in("def f(env):\n    return isinstance(env, SnakeConfig)\n") == ["2: SnakeConfig"]
    assert named_in("from flashdqn.envs.sfc import layout\n") == ["1: flashdqn.envs.sfc"]
    assert named_in("name = 'fuelbreaks-small'\n") == ["1: fuelbreaks-small"]
    assert named_in('"""For example: flashdqn train snake."""\n# snake\n') == []
