"""What may be on a disk after a power cut: a model of a file system that has only partly written what it was told.

A log of operations is read twice: as what programs see, and as what is safe. Content is safe after an fsync of its
file; a name (made, renamed or removed) after an fsync of its folder. Of everything else, chance decides:

posix    each change of a name comes alone, in any combination; a rename within one folder is one change
ext4     changes of names come in their order, and any fsync makes all before it safe, as in a journal

Content that was not synced is lost, cut, zeros, or there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fault_kinds.shim import Kind, Operation

Model = Literal["posix", "ext4"]
Change = Callable[[bytearray], None]


@dataclass(eq=False)
class Node:
    """A file or a folder, whatever its name."""

    is_folder: bool
    inode: int = 0
    content: bytes = b""  # safe
    changes: list[Change] = field(default_factory=list)  # not safe yet
    entries: dict[str, Node] = field(default_factory=dict)  # as programs see them
    safe_entries: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False)
class Naming:
    """Names that change together; `None` removes one."""

    parts: list[tuple[Node, str, Node | None]]
    safe: bool = False


class Disk:
    """A folder on a disk, while a log of operations is played."""

    def __init__(self, root: Path, begin: Path) -> None:
        """`root` is how the log calls the folder; `begin` holds what was safe in it before."""
        self.root_path = root
        self.root = read_node(begin)
        self.namings: list[Naming] = []

    def play(self, operation: Operation) -> None:
        """Do one operation."""
        if operation.kind == Kind.MARK:
            return
        path = self._relative(operation.path)
        self._find_hidden_rename(operation, path)
        if operation.kind == Kind.OPEN:
            self._open(path, operation.inode)
        elif operation.kind == Kind.MKDIR:
            self._name([(self._folder(path), path.name, Node(is_folder=True))])
        elif operation.kind in (Kind.UNLINK, Kind.RMDIR):
            self._name([(self._folder(path), path.name, None)])
        elif operation.kind == Kind.RENAME:
            self._rename(path, self._relative(operation.second))
        elif operation.kind == Kind.SYNC:
            self._sync(path)
        elif operation.kind in (Kind.WRITE, Kind.TRUNCATE):
            self._change(path, operation)
        else:
            raise NotImplementedError(operation.kind.name)

    def cut_power(self, chance: random.Random, model: Model) -> Node:
        """What is found after the cut: one of many possible folders."""
        kept = choose_namings(self.namings, chance, model)
        found: dict[int, Node] = {}
        root = copy_safe(self.root, found, chance)
        for naming in kept:
            for folder, name, node in naming.parts:
                entries = copy_safe(folder, found, chance).entries
                entries.pop(name, None)
                if node is not None:
                    entries[name] = copy_safe(node, found, chance)
        return root

    def _relative(self, path: str) -> Path:
        return Path(path).relative_to(self.root_path)

    def _folder(self, path: Path) -> Node:
        node = self.root
        for part in path.parent.parts:
            node = node.entries[part]
        return node

    def _find(self, path: Path) -> Node | None:
        return self._folder(path).entries.get(path.name) if path.parts else self.root

    def _name(self, parts: list[tuple[Node, str, Node | None]]) -> None:
        for folder, name, node in parts:
            folder.entries.pop(name, None)
            if node is not None:
                folder.entries[name] = node
        self.namings.append(Naming(parts))

    def _open(self, path: Path, inode: int) -> None:
        node = self._find(path)
        if node is None:
            self._name([(self._folder(path), path.name, Node(is_folder=False, inode=inode))])
        else:
            node.inode = inode
            node.changes.append(make_truncation(0))

    def _rename(self, path: Path, to: Path) -> None:
        node = self._find(path)
        assert node is not None, path
        if path.parent == to.parent:
            self._name([(self._folder(path), path.name, None), (self._folder(to), to.name, node)])
        else:
            self._name([(self._folder(to), to.name, node)])
            self._name([(self._folder(path), path.name, None)])

    def _find_hidden_rename(self, operation: Operation, path: Path) -> None:
        """Rust may rename by a system call that the shim does not see: the next operation shows the new name."""
        if operation.kind not in (Kind.WRITE, Kind.SYNC, Kind.TRUNCATE) or self._find(path) is not None:
            return
        siblings = self._folder(path).entries
        old = next(name for name, node in siblings.items() if node.inode == operation.inode)
        self._rename(path.with_name(old), path)

    def _sync(self, path: Path) -> None:
        node = self._find(path)
        assert node is not None, path
        if not node.is_folder:
            node.content, node.changes = apply_changes(node.content, node.changes), []
        for naming in self.namings:
            naming.safe = naming.safe or any(folder is node for folder, _, _ in naming.parts)
        self.namings.append(Naming([], safe=True))  # a journal is written up to here

    def _change(self, path: Path, operation: Operation) -> None:
        node = self._find(path)
        assert node is not None, path
        change = (
            make_truncation(operation.length)
            if operation.kind == Kind.TRUNCATE
            else make_write(operation.offset, operation.data)
        )
        node.changes.append(change)


def choose_namings(namings: list[Naming], chance: random.Random, model: Model) -> list[Naming]:
    """The changes of names that have come to the disk."""
    if model == "ext4":
        synced = max((k for k, naming in enumerate(namings) if not naming.parts), default=0)
        return namings[: chance.randint(synced, len(namings))]
    share = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    return [naming for naming in namings if naming.safe or chance.random() < share]


def copy_safe(node: Node, found: dict[int, Node], chance: random.Random) -> Node:
    """A node as it may be found after the cut; names that were changed since are added by the caller."""
    if id(node) not in found:
        found[id(node)] = copy = Node(node.is_folder)
        copy.content = choose_content(node, chance)
        copy.entries = {name: copy_safe(one, found, chance) for name, one in node.safe_entries.items()}
    return found[id(node)]


def choose_content(node: Node, chance: random.Random) -> bytes:
    """The safe content, and some of what was not synced."""
    if not node.changes:
        return node.content
    how, whole = chance.choice(("lost", "cut", "zeros", "kept")), apply_changes(node.content, node.changes)
    if how == "cut":  # a byte that was safe and that nothing has changed since stays
        some = apply_changes(node.content, node.changes[: chance.randint(0, len(node.changes))])
        pairs = enumerate(zip(node.content, whole, strict=False))
        safe = next((k for k, (old, new) in pairs if old != new), min(len(node.content), len(whole)))
        return some[: chance.randint(min(safe, len(some)), max(safe, len(some)))]
    if how == "zeros":
        return node.content[: len(whole)] + bytes(max(0, len(whole) - len(node.content)))
    return whole if how == "kept" else node.content


def apply_changes(content: bytes, changes: list[Change]) -> bytes:
    data = bytearray(content)
    for change in changes:
        change(data)
    return bytes(data)


def make_truncation(length: int) -> Change:
    def change(data: bytearray) -> None:
        data[length:] = bytes(max(0, length - len(data)))

    return change


def make_write(offset: int, new: bytes) -> Change:
    def change(data: bytearray) -> None:
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : offset + len(new)] = new

    return change


def read_node(path: Path) -> Node:
    """A folder that is safe on the disk."""
    if not path.is_dir():
        return Node(is_folder=False, inode=path.stat().st_ino, content=path.read_bytes())
    node = Node(is_folder=True)
    node.entries = {one.name: read_node(one) for one in path.iterdir()}
    node.safe_entries = dict(node.entries)
    return node


def write_node(node: Node, path: Path) -> None:
    """Put a node into the real file system."""
    if not node.is_folder:
        path.write_bytes(node.content)
        return
    path.mkdir()
    for name, one in node.entries.items():
        write_node(one, path / name)


def list_contents(node: Node, name: str = "") -> list[tuple[str, bytes]]:
    """All files below a node, to compare two of them."""
    if not node.is_folder:
        return [(name, node.content)]
    inner = [list_contents(one, f"{name}/{key}") for key, one in sorted(node.entries.items())]
    return [(f"{name}/", b""), *(line for lines in inner for line in lines)]
