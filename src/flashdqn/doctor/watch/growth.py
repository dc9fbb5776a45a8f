"""What grows: the lists, dicts and graphs that a script holds, by name, over time.

They are found by walking from the script's global and local variables through its own objects. Only sizes are
noted, nothing is copied. To limit its cost, the walk rests a hundred times as long as it took.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from time import perf_counter
from types import FrameType, ModuleType
from typing import Any

from . import counters as tally
from .counters import catch_failures
from .frames import is_plumbing
from .holdings import is_large_array, note_array, note_elements
from .rows import Container

SMALLEST = 64
MOST_OBJECTS = 2000
DEEPEST = 4
REST = 100
EVERY = 1.0
GRAPH_STEPS = 20_000
OPTIMIZED = 1
"""The flag of a function's code: it has its own variables."""
PEEKING = {"locals", "vars", "dir", "eval", "exec"}


class Census:
    """The sizes of containers over time."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[tuple[float, int]]] = {}
        self.latest: dict[str, Container] = {}
        """Each as it was last seen, without its sizes."""
        self.names: dict[int, str] = {}
        """The name of each object, by its id: the first under which it was found."""
        self.seconds = 0.0
        self._next = 0.0

    def due(self) -> bool:
        """Whether it is time to count again."""
        return perf_counter() >= self._next

    def take(self, frame: FrameType | None) -> None:
        """Count on the script's own thread: objects that it drops meanwhile must not end on another one."""
        start = perf_counter()
        count_all(self, frame)
        spent = perf_counter() - start
        self.seconds += spent
        self._next = start + max(EVERY, REST * spent)

    def add(self, name: str, where: str, value: Any) -> None:
        """Note the size of a container, if it is large enough; of arrays, what they are."""
        if is_large_array(value):
            note_array(name, value)
            return
        note_elements(name, value)
        if is_bounded(value):
            return
        size = measure_object_size(value)
        if size < SMALLEST:
            return
        self.sizes.setdefault(name, []).append((perf_counter() - tally.started, size))
        self.latest[name] = describe_container(name, where, value)

    def describe(self) -> tuple[Container, ...]:
        """The containers that were seen more than once."""
        return tuple(
            replace(self.latest[name], sizes=tuple(sizes))
            for name, sizes in list(self.sizes.items())
            if len(sizes) > 1
        )


@catch_failures
def count_all(census: Census, frame: FrameType | None) -> None:
    """Count everything that can be reached."""
    taken: set[str] = set()
    seen: set[int] = set()
    for name, value, where in roots(frame):
        for path, found in walk_containers(name, value):
            if id(found) not in seen:  # a list that has two names is one list
                seen.add(id(found))
                known = census.names.get(id(found), path)
                path = known if known not in taken else path
                if path not in taken:
                    taken.add(path)
                    census.names[id(found)] = path
                    census.add(path, where, found)


def roots(frame: FrameType | None) -> Iterator[tuple[str, Any, str]]:
    """The variables of the script's running functions, and of its modules."""
    while frame is not None:
        code = frame.f_code
        if not is_plumbing(code.co_filename) and code.co_flags & OPTIMIZED:
            for name, value in read_local_variables(frame):
                yield name, value, f"{code.co_name}()"
        frame = frame.f_back
    for module, content in iterate_script_modules():
        for name, value in list(content.items()):
            if not name.startswith("__"):
                yield name, value, module


def read_local_variables(frame: FrameType) -> list[tuple[str, Any]]:
    """A function's local variables.

    Before Python 3.13 they are read through a dict that stays with the frame. It would keep what the function has
    dropped since, so it is emptied again. `locals()` returns the same dict, so functions that use it are skipped.
    """
    if not PEEKING.isdisjoint(frame.f_code.co_names):
        return []
    content = frame.f_locals
    found = list(content.items())
    if sys.version_info < (3, 13):
        content.clear()
    return found


def iterate_script_modules() -> Iterator[tuple[str, dict[str, Any]]]:
    """The script's module, and those outside the libraries' folders."""
    for name, module in list(sys.modules.items()):
        if not issubclass(type(module), ModuleType) or name == "__mp_main__":  # the same as __main__
            continue
        content = ModuleType.__getattribute__(module, "__dict__")  # a lazy module must not import anything
        file = content.get("__file__")
        if name == "__main__" or (
            isinstance(file, str) and "-packages" not in file and not is_plumbing(file)
        ):
            yield name, content


def walk_containers(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All containers that can be reached through the attributes of the script's own objects."""
    seen: set[int] = set()
    rest = deque([(name, value, 0)])
    while rest and len(seen) < MOST_OBJECTS:
        path, value, depth = rest.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_container(value) or is_tensor_with_graph(value) or is_large_array(value) or is_bounded(value):
            yield path, value
        elif depth < DEEPEST and is_script_object(value):
            parts = islice(read_attributes(value).items(), MOST_OBJECTS)
            rest.extend((f"{path}.{key}", part, depth + 1) for key, part in list(parts))


# The functions below ask only the types, never the script's objects, which may answer with anything.


def is_container(value: Any) -> bool:
    """Whether this may grow without end."""
    kind = type(value)
    return issubclass(kind, (list, dict, set)) or (
        issubclass(kind, deque) and deque.maxlen.__get__(value) is None
    )


def is_bounded(value: Any) -> bool:
    """Whether this is a deque that does not grow beyond its limit."""
    return issubclass(type(value), deque) and deque.maxlen.__get__(value) is not None


def measure_object_size(value: Any) -> int:
    """Elements of a container, or operations behind a tensor, as their own types count them."""
    if is_tensor(value):
        return measure_graph_length(value)
    return next(kind.__len__(value) for kind in (list, dict, set, deque) if issubclass(type(value), kind))


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor; torch may be missing or only half imported."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and issubclass(type(value), tensor)


def is_tensor_with_graph(value: Any) -> bool:
    """Whether this is a tensor with a graph behind it."""
    return is_tensor(value) and value.grad_fn is not None


def is_script_object(value: Any) -> bool:
    """Whether this is an instance with attributes, of a class that is not a library's plumbing."""
    kind = type(value)
    if issubclass(kind, (type, ModuleType)) or callable(value) or not read_attributes(value):
        return False
    home = kind.__module__
    file = getattr(sys.modules.get(home), "__file__", None)
    return home == "__main__" or bool(file and not is_plumbing(file))


def read_attributes(value: Any) -> dict[str, Any]:
    """An instance's attributes, read without its own `__getattribute__`; empty if it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except Exception:  # slots, or a property that raises
        return {}
    return found if type(found) is dict else {}


def measure_graph_length(tensor: Any) -> int:
    """How many operations lie behind a tensor, along the first input of each."""
    node, length = tensor.grad_fn, 0
    while node is not None and length < GRAPH_STEPS:
        length += 1
        node = node.next_functions[0][0] if node.next_functions else None
    return length


def describe_container(name: str, where: str, value: Any) -> Container:
    """What it is, and what its newest element is; for a tensor, what grows is the graph behind it."""
    if is_tensor(value):
        return Container(name, where, "graph", "", is_graph=True, holds_graph=True, sizes=())
    elements, holds_graph = "", False
    kind = next((kind for kind in (list, deque) if issubclass(type(value), kind)), None)
    if kind is not None and kind.__len__(value):
        last = kind.__getitem__(value, -1)
        elements, holds_graph = type(last).__name__, is_tensor_with_graph(last)
    return Container(
        name, where, type(value).__name__, elements, is_graph=False, holds_graph=holds_graph, sizes=()
    )
