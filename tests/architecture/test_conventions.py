"""Names that say what they mean, and no function that is put into another object from outside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from source_tree import (
    SourceTree,
    count_words,
    find_double_classes,
    find_slots,
    find_type_checks,
    module_functions,
    read_own_source,
)

#: Where a sampler's kind may be asked for.
MAY_ASK = ("flashdqn.replay", "flashdqn.training.backends")
#: The doctor puts its stand-ins into a stranger's libraries: that is its work. Numba cannot be told in another way
#: to compile a kernel's functions once.
MAY_PUT_IN = ("flashdqn.doctor", "flashdqn.compute.link_once")
#: Values, not functions, although methods of the same name are called elsewhere.
VALUES = {
    "flashdqn.core.signals": "sys.unraisablehook",  # Python's own place for such a function, restored afterwards
    "flashdqn.export.int8": "root.manager.disable",  # logging's level
    "flashdqn.learn.flat": "parameter.grad",  # a tensor
    "flashdqn.networks.build": "network.decoder",  # a module of PyTorch's
    "flashdqn.networks.fused.fit": "module.fused_on",  # the name of a device
    "flashdqn.training.backends.cpu.update": "parameter.grad",
    "flashdqn.training.warmup": "parts.collector.env",  # other games, while the own ones must not be touched
}


@pytest.fixture
def tree() -> SourceTree:
    return read_own_source()


def test_at_most_a_quarter_of_the_functions_are_named_by_one_word(tree: SourceTree) -> None:
    names = module_functions(tree)
    assert len(names) > 500
    assert sum(count_words(name) == 1 for name in names) / len(names) <= 0.25


def test_no_two_classes_have_one_name(tree: SourceTree) -> None:
    assert find_double_classes(tree) == {}


def test_only_the_replay_and_the_backends_ask_for_a_samplers_kind(tree: SourceTree) -> None:
    samplers = {
        node.name
        for module, syntax in tree.modules.items()
        if tree.package_of(module) == "replay"
        for node in ast.walk(syntax)
        if isinstance(node, ast.ClassDef) and "Sampler" in node.name
    }
    assert len(samplers) > 2
    assert find_type_checks(tree, samplers, MAY_ASK) == []


def test_no_function_is_put_into_another_object(tree: SourceTree) -> None:
    found = [text for text in find_slots(tree, MAY_PUT_IN) if VALUES.get(_module(text)) != text.split()[-1]]
    assert found == []


def _module(text: str) -> str:
    return text.partition(":")[0]


def made_up(folder: Path, text: str) -> SourceTree:
    root = folder / "shop"
    root.mkdir()
    (root / "till.py").write_text(text)
    return SourceTree(root)


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, PaperBag)",
        "isinstance(x, (int, bags.PaperBag))",
        "isinstance(x, int | PaperBag)",
        "issubclass(x, PaperBag)",
        "type(x) is PaperBag",
        "match x:\n    case PaperBag():\n        pass",
    ],
)
def test_every_kind_of_type_check_is_seen(text: str, tmp_path: Path) -> None:
    tree = made_up(tmp_path, text)
    assert find_type_checks(tree, {"PaperBag"}, ()) == ["shop.till:1 asks for PaperBag"] or "match" in text
    assert len(find_type_checks(tree, {"PaperBag"}, ())) == 1
    assert find_type_checks(tree, {"PlasticBag"}, ()) == []
    assert find_type_checks(tree, {"PaperBag"}, ("shop.till",)) == []


CALLS = "def ring(): ...\ndef use(bell):\n    bell.play()\n"


@pytest.mark.parametrize(
    "line",
    [
        "bell.play = ring",
        "bell.play = lambda: None",
        "bell.play = Chime(bell)",
        "bell.play = bell.play_softly",
        "bell.play = compile(ring)",
        "door.bell.play = make()",
        "bell.play, bell.size = ring, 3",
        "bell.anything = ring",
    ],
)
def test_every_way_to_put_a_function_in_is_seen(line: str, tmp_path: Path) -> None:
    tree = made_up(tmp_path, f"{CALLS}{line}\n")
    assert len(find_slots(tree)) == 1
    assert find_slots(tree, ("shop",)) == []


@pytest.mark.parametrize(
    "line",
    [
        "bell.size = 3",
        "bell.play = 3",
        "bell.size = measure()",
        "play = ring",
        "class Bell:\n    def set(self):\n        self.play = ring",
    ],
)
def test_what_is_not_a_slot(line: str, tmp_path: Path) -> None:
    assert find_slots(made_up(tmp_path, f"{CALLS}{line}\n")) == []


def test_words_and_double_classes_are_counted(tmp_path: Path) -> None:
    tree = made_up(
        tmp_path,
        "def ring(): ...\ndef _open_door(): ...\nclass Bell: ...\nclass Door:\n    def ring(self): ...\n",
    )
    assert [count_words(name) for name in module_functions(tree)] == [1, 2]
    assert find_double_classes(tree) == {}
    (tree.root / "door.py").write_text("def make():\n    class Bell: ...\n")
    assert find_double_classes(SourceTree(tree.root)) == {"Bell": ["shop.door", "shop.till"]}
