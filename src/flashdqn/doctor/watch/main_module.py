"""Run a file or a module as Python itself would, with one addition: the watch looks at each class it defines.

The addition is a call after the class statement, in the parsed code. No frame comes between the class's body and
its module, because some libraries look up the stack from inside a class's body.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

from .on_import import Followed

LOOK = "__doctor_looks_at_class__"
replaced: dict[str, bytes] = {}
"""Texts to run in the place of some files, by the file's real path; a trial of a patch sets them."""


class MissingError(Exception):
    """There is no such module to run."""


class AfterClasses(ast.NodeTransformer):
    """Adds the call after each class statement."""

    def visit_ClassDef(self, node: ast.ClassDef) -> list[ast.stmt]:
        """Return the class, and the call after it."""
        self.generic_visit(node)
        call = ast.Call(ast.Name(LOOK, ast.Load()), [ast.Name(node.name, ast.Load())], [])
        return [node, ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))]


def install_class_callback(look: Callable[[type], None]) -> None:
    """Have `look` called with every class."""
    setattr(builtins, LOOK, look)


def compile_with_callbacks(source: bytes, path: str) -> CodeType:
    """The code of a file with the calls in it."""
    return compile(AfterClasses().visit(ast.parse(source, path)), path, "exec", dont_inherit=True)


def read_source(path: str) -> bytes:
    """The text of a file, or what replaces it."""
    text = replaced.get(str(Path(path).resolve()))
    return Path(path).read_bytes() if text is None else text


def run_file(path: str) -> None:
    """Run a file as `python path` would."""
    module = make_main_module(path)
    exec(compile_with_callbacks(read_source(path), path), vars(module))


def run_module(name: str) -> None:
    """Run a module as `python -m name` would."""
    spec = find_module(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_module(f"{name}.__main__")
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise MissingError(name)
    module = make_main_module(spec.origin)
    if isinstance(spec.loader, Followed):
        spec.loader = spec.loader.loader
    module.__spec__, module.__package__, module.__loader__ = spec, spec.parent, spec.loader
    sys.argv[0] = spec.origin
    exec(compile_with_callbacks(read_source(spec.origin), spec.origin), vars(module))


def find_module(name: str) -> ModuleSpec | None:
    """The spec of a module, or None; an error in a parent package is raised."""
    if name.startswith("."):
        return None
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a module without a spec
        return None
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


def make_main_module(path: str) -> ModuleType:
    """Make an empty `__main__` module."""
    module = ModuleType("__main__")
    module.__file__ = path
    vars(module)["__builtins__"] = builtins
    sys.modules["__main__"] = module
    return module
