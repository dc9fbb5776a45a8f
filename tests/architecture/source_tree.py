"""Reads a package's source with `ast` alone: what imports what, names, and what is assigned where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import flashdqn


@dataclass(frozen=True)
class Arrow:
    """One import: a module that needs another, and the line that says so."""

    module: str
    needs: str
    line: int


@dataclass
class SourceTree:
    """All modules below a package's folder."""

    root: Path
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.root.name

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        """Every module's dotted name and its syntax tree."""
        files = sorted(self.root.rglob("*.py"))
        return {self._module_name(file): ast.parse(file.read_text(encoding="utf-8")) for file in files}

    @cached_property
    def packages_of_modules(self) -> set[str]:
        """Modules that are packages: relative imports start from them, not from their parent."""
        return {self._module_name(file) for file in self.root.rglob("__init__.py")}

    def _module_name(self, file: Path) -> str:
        parts = [self.name, *file.relative_to(self.root).with_suffix("").parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def package_of(self, module: str) -> str:
        """The part of a module's name below the root: `flashdqn.envs.snake` lies in `envs`; the root in itself."""
        parts = module.split(".")
        return self.name if len(parts) == 1 or parts[1] == "__main__" else parts[1]

    def arrows(self) -> Iterator[Arrow]:
        """Every import of the package's own modules: in functions, for types and by their names as text, too."""
        for module, tree in self.modules.items():
            for node in ast.walk(tree):
                for name in self._imported_names(module, node):
                    needs = self._resolve(name)
                    if needs is not None and needs != module:
                        yield Arrow(module, needs, getattr(node, "lineno", 0))

    def _imported_names(self, module: str, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            start = self._relative_start(module, node)
            return [f"{start}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.fullmatch(rf"({self.name}(\.\w+)+)(:\w+)?", node.value)
            return [found[1]] if found else []
        # f"flashdqn.cli.{name}": at least the part that is known
        if isinstance(node, ast.JoinedStr) and node.values:
            first = node.values[0]
            text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
            return [text.rstrip(".")] if re.fullmatch(rf"{self.name}(\.\w+)*\.", text) else []
        return []

    def _relative_start(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        up = node.level - (1 if module in self.packages_of_modules else 0)
        base = ".".join(parts[: len(parts) - up])
        return f"{base}.{node.module}" if node.module else base

    def _resolve(self, name: str) -> str | None:
        """The module that a dotted name leads to: `flashdqn.core.types.Batch` is in `flashdqn.core.types`."""
        while name and name not in self.modules:
            name = name.rpartition(".")[0]
        return name or None

    def package_edges(self) -> dict[str, set[str]]:
        """Which packages each package needs; the root, which only gathers names, is left out."""
        edges: dict[str, set[str]] = {}
        for arrow in self.arrows():
            here, there = self.package_of(arrow.module), self.package_of(arrow.needs)
            if here != there and self.name not in (here, there):
                edges.setdefault(here, set()).add(there)
        return edges


@cache
def read_own_source() -> SourceTree:
    """The project's own source, read once."""
    return SourceTree(Path(flashdqn.__file__).parent)


def find_cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Packages that reach each other, as sorted groups."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in edges.get(waiting.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return seen

    reached = {name: reach(name) for name in edges}
    groups = {
        tuple(sorted({name} | {other for other in reached[name] if name in reached.get(other, ())}))
        for name in edges
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def find_upward_arrows(
    tree: SourceTree, layers: list[tuple[str, ...]], allowed: dict[str, set[str]]
) -> list[str]:
    """Imports that point to a higher layer, to a package outside a short list of `allowed` ones, or to the root."""
    height = {name: level for level, names in enumerate(layers) for name in names}
    wrong = []
    for arrow in tree.arrows():
        here, there = tree.package_of(arrow.module), tree.package_of(arrow.needs)
        if here in (there, tree.name):
            continue
        too_high = there != tree.name and height.get(there, -1) > height.get(here, len(layers))
        outside = here in allowed and there not in allowed[here] | {tree.name}
        if too_high or outside:
            wrong.append(f"{arrow.module}:{arrow.line} needs {arrow.needs}")
    return wrong


def find_unknown_packages(tree: SourceTree, layers: list[tuple[str, ...]]) -> set[str]:
    """Packages of the source that no layer names."""
    known = {name for names in layers for name in names} | {tree.name}
    return {tree.package_of(module) for module in tree.modules} - known


def module_functions(tree: SourceTree) -> list[str]:
    """Names of the functions that stand in modules themselves."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for module in tree.modules.values() for node in module.body if isinstance(node, kinds)]


def count_words(name: str) -> int:
    """Words of a name between underscores."""
    return len([word for word in name.split("_") if word])


def find_double_classes(tree: SourceTree) -> dict[str, list[str]]:
    """Classes of one name, with the modules that define them."""
    homes: dict[str, list[str]] = {}
    for module, syntax in tree.modules.items():
        for node in ast.walk(syntax):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def find_type_checks(tree: SourceTree, classes: set[str], allowed: tuple[str, ...]) -> list[str]:
    """`isinstance`, `type(x) is …` and `case …()` on some classes, outside the modules that may."""
    found = []
    for module, syntax in tree.modules.items():
        if module.startswith(allowed):
            continue
        for node in ast.walk(syntax):
            names = {part.id for part in _checked_types(node) if isinstance(part, ast.Name)}
            names |= {part.attr for part in _checked_types(node) if isinstance(part, ast.Attribute)}
            if names & classes:
                found.append(
                    f"{module}:{getattr(node, 'lineno', 0)} asks for {', '.join(sorted(names & classes))}"
                )
    return found


def _checked_types(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("isinstance", "issubclass"):
            return [part for argument in node.args[1:] for part in ast.walk(argument)]
    elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
        if isinstance(node.left.func, ast.Name) and node.left.func.id == "type":
            return [part for other in node.comparators for part in ast.walk(other)]
    elif isinstance(node, ast.MatchClass):
        return list(ast.walk(node.cls))
    return []


def find_slots(tree: SourceTree, skipped: tuple[str, ...] = ()) -> list[str]:
    """Attributes of another object that are assigned from outside and called somewhere: functions that were put in.

    A called name alone is not enough where what is assigned is plainly a value: a constant, a number, a comparison.
    """
    called = {
        node.func.attr
        for syntax in tree.modules.values()
        for node in ast.walk(syntax)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    own = {
        node.name
        for syntax in tree.modules.values()
        for node in ast.walk(syntax)
        if isinstance(node, ast.FunctionDef | ast.Lambda) and hasattr(node, "name")
    }
    found = []
    for module, syntax in tree.modules.items():
        if module.startswith(skipped):
            continue
        for node in ast.walk(syntax):
            for target, value in _assignments(node):
                if isinstance(target, ast.Attribute) and not _is_self(target.value):
                    slot = target.attr in called and not _is_plain_value(value)
                    if slot or _is_function(value, own):
                        found.append(f"{module}:{target.lineno} assigns {ast.unparse(target)}")
    return found


def _assignments(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(node.target, node.value)]
    if not isinstance(node, ast.Assign):
        return []
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs += list(zip(target.elts, node.value.elts, strict=False))
        elif isinstance(target, ast.Tuple):
            pairs += [(part, node.value) for part in target.elts]
        else:
            pairs.append((target, node.value))
    return pairs


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_plain_value(node: ast.expr) -> bool:
    return isinstance(
        node, ast.Constant | ast.BinOp | ast.Compare | ast.JoinedStr | ast.List | ast.Dict | ast.Set
    )


def _is_function(node: ast.expr, own: set[str]) -> bool:
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in own)
