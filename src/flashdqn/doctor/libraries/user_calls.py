"""The calls in a user's own files that set up a library: where they are, and how they read with other values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence

FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class UserCall:
    """A call in a user's own file."""

    file: str
    call: ast.Call
    statement: ast.stmt | None
    """The simple statement that it is a part of."""

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.call.lineno

    @property
    def name(self) -> str:
        """What is called."""
        return source.get_called_name(self.call)

    def read_keyword(self, name: str) -> ast.expr | None:
        """The value of a keyword, if it is given."""
        return next((k.value for k in self.call.keywords if k.arg == name), None)

    def rewrite(self, **keywords: str) -> str:
        """The user's own line with these keywords set: the text of each value by name."""
        call = ast.Call(self.call.func, list(self.call.args), list(self.call.keywords))
        for name, text in keywords.items():
            value = ast.parse(text, mode="eval").body
            call.keywords = [k for k in call.keywords if k.arg != name] + [ast.keyword(name, value)]
        return self.replace_with(ast.unparse(call))

    def replace_with(self, text: str) -> str:
        """The user's own statement with another call in the place of this one."""
        if self.statement is None:
            return text
        before = ast.unparse(self.call)
        return ast.unparse(self.statement).replace(before, text, 1)


def list_own_files(evidence: Evidence) -> list[str]:
    """The user's own files, the script first: not those of installed packages."""
    record = evidence.record
    seen = {frame.file for frame in record.frames if not frame.plumbing} | {
        site.file for site in record.sites
    }
    own = {file for file in seen if not is_installed(file) and file.endswith(".py")}
    return sorted({*own, record.script}, key=lambda file: (file != record.script, file))


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(f"/{folder}/" in file for folder in FOLDERS)


def find_calls(evidence: Evidence, *names: str) -> list[UserCall]:
    """The calls of these names in the user's own files, in the order of files and lines."""
    found = []
    for file in list_own_files(evidence):
        module = source.parse_file(file)
        if module is not None:
            found += [call for call in iterate_calls(file, module) if call.name in names]
    return found


def iterate_calls(file: str, module: ast.Module) -> Iterator[UserCall]:
    """Every call in a file, by line."""
    parents = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
    for call in sorted(source.iterate_calls(module), key=lambda call: (call.lineno, call.col_offset)):
        node: ast.AST | None = call
        while node is not None and not (isinstance(node, ast.stmt) and not hasattr(node, "body")):
            node = parents.get(node)
        yield UserCall(file, call, node)


def imports_package(evidence: Evidence, *packages: str) -> bool:
    """Whether one of the user's own files imports one of these packages."""
    for file in list_own_files(evidence):
        module = source.parse_file(file)
        for node in ast.walk(module) if module is not None else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            if {name.partition(".")[0] for name in names} & set(packages):
                return True
    return False


def find_field(evidence: Evidence, name: str) -> tuple[str, int] | None:
    """Where a class of settings has this field, as in `train_frequency: int = 10`."""
    for file in list_own_files(evidence):
        module = source.parse_file(file)
        for node in ast.walk(module) if module is not None else ():
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == name
            ):
                return file, node.lineno
    return None
