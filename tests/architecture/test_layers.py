"""Imports point downwards: every import in the source, lazy ones too, against the layers of docs/design.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import (
    SourceTree,
    find_cycles,
    find_unknown_packages,
    find_upward_arrows,
    read_own_source,
)

#: Low to high; packages of one layer may need each other, but not in a circle.
LAYERS: list[tuple[str, ...]] = [
    ("core",),
    ("compute",),
    ("envs", "replay"),
    ("config",),
    ("runs", "networks"),
    ("learn",),
    ("training",),
    ("agent",),
    ("export",),
    ("show",),
    ("profile", "doctor", "sweep", "cluster", "planning"),
    ("as_gymnasium", "api", "cli"),
]
#: The script doctor could ship alone.
ALLOWED = {"doctor": {"show", "core"}}


@pytest.fixture
def tree() -> SourceTree:
    return read_own_source()


def test_every_package_has_a_layer(tree: SourceTree) -> None:
    assert find_unknown_packages(tree, LAYERS) == set(), "add it to LAYERS and to docs/design.md"


def test_no_import_points_upwards(tree: SourceTree) -> None:
    assert len(list(tree.arrows())) > 1000
    assert find_upward_arrows(tree, LAYERS, ALLOWED) == []


def test_no_two_packages_need_each_other(tree: SourceTree) -> None:
    assert find_cycles(tree.package_edges()) == []


def test_only_the_version_is_taken_from_the_root(tree: SourceTree) -> None:
    """`import flashdqn` leads to everything: a lower layer that asks it for more points upwards."""
    users = {tree.package_of(arrow.module) for arrow in tree.arrows() if arrow.needs == tree.name}
    assert users <= {"cli", "export", "training"}


def test_the_function_train_and_the_package_training_do_not_share_a_name() -> None:
    program = """
        import flashdqn.training.loop as loop
        import flashdqn
        assert loop.__name__ == "flashdqn.training.loop"
        assert callable(flashdqn.train) and not hasattr(flashdqn.train, "__path__")
        assert flashdqn.training.loop is loop
    """
    lines = "\n".join(line.strip() for line in program.splitlines())
    subprocess.run([sys.executable, "-c", lines], check=True)


@pytest.mark.parametrize("words", [["-c", "import flashdqn"], ["-m", "flashdqn", "--version"]], ids=" ".join)
def test_no_torch_is_imported(words: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True
    )
    modules = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "flashdqn" in modules
    assert "torch" not in modules


# ------------------------------------------------------------------------------- the reader on made-up packages


def made_up(folder: Path, files: dict[str, str]) -> SourceTree:
    root = folder / "shop"
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for parent in file.relative_to(root).parents:
            (root / parent / "__init__.py").touch()
    return SourceTree(root)


SHOP = [("goods",), ("store", "till"), ("front",)]


@pytest.mark.parametrize(
    "text",
    [
        "import shop.front.door",
        "from shop.front import door",
        "from shop import front",
        "from shop.front.door import bell",
        "def later():\n    from shop.front import door",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import shop.front.door",
        "from ..front import door",
        "from ..front.door import bell",
        "import importlib\nimportlib.import_module('shop.front.door')",
        "NAMES = {'door': 'shop.front.door:bell'}",
        "name = 'door'\nmodule = f'shop.front.{name}'",
        "try:\n    import shop.front\nexcept ImportError:\n    pass",
    ],
)
def test_every_kind_of_import_is_seen(text: str, tmp_path: Path) -> None:
    tree = made_up(tmp_path, {"goods/bread.py": text, "front/door.py": "def bell(): ..."})
    wrong = find_upward_arrows(tree, SHOP, {})
    assert len(wrong) == 1
    assert wrong[0].startswith("shop.goods.bread:")


@pytest.mark.parametrize(
    "text",
    ["import os", "from shop.goods import bread", "from . import bread", "'a text of shop.front.door'"],
)
def test_what_points_down_or_outside_is_allowed(text: str, tmp_path: Path) -> None:
    files = {"front/door.py": "", "goods/bread.py": "", "goods/rolls.py": text}
    assert find_upward_arrows(made_up(tmp_path, files), SHOP, {}) == []


def test_a_package_may_be_held_to_a_short_list(tmp_path: Path) -> None:
    tree = made_up(tmp_path, {"front/door.py": "import shop.goods.bread", "goods/bread.py": ""})
    assert find_upward_arrows(tree, SHOP, {"front": {"goods"}}) == []
    assert len(find_upward_arrows(tree, SHOP, {"front": {"store"}})) == 1


def test_unknown_packages_and_cycles_are_found(tmp_path: Path) -> None:
    files = {
        "store/shelf.py": "def find():\n    import shop.till.drawer",
        "till/drawer.py": "import shop.store.shelf",
        "cellar.py": "",
    }
    tree = made_up(tmp_path, files)
    assert find_unknown_packages(tree, SHOP) == {"cellar"}
    assert find_cycles(tree.package_edges()) == [["store", "till"]]
    assert find_upward_arrows(tree, SHOP, {}) == []  # one layer: only the circle is wrong


def test_longer_cycles_are_found_whole() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert find_cycles(edges) == [["a", "b", "c"]]
