"""Checkpoints: weights and, if the run can be resumed from there, everything else. Nothing is unpickled.

    checkpoints/000001000000/
        weights.safetensors     the online network: enough to play
        state.safetensors       target, optimizer, ring, environments, generators (the newest two have it)
        manifest.json           what belongs to it: see below
    checkpoints/best.json       which one evaluated best, and a checksum of its weights: see best.py

A checkpoint is written under a temporary name, synced, and renamed: it is either whole or not there.

The manifest has the step, the counters, a checksum of each file and of itself, the run's id and settings, the last
evaluation, and how long the run's tables were, with their checksums. So neither files of another checkpoint, nor a
checkpoint of another run, nor other settings are taken for the right ones. Files that it does not name are ignored.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, load_file, save_file
from torch import Tensor

from flashdqn.core.errors import CheckpointError, StorageError
from flashdqn.core.files import (
    RefusedFileError,
    describe_problem,
    hash_plain_file,
    is_hollow_file,
    is_plain_folder,
    read_plain_file,
    read_signed_json,
    remove_anything,
    sync_to_disk,
    write_signed_json,
)
from flashdqn.runs.origin import Origin, check_origin
from flashdqn.runs.records import FORMAT

WEIGHTS, STATE, MANIFEST = "weights.safetensors", "state.safetensors", "manifest.json"
KEEP_STATES = 2
#: Files of up to this many bytes are read into memory at once.
SMALL = 2**28
#: A sparse file above this size is not read: that would take hours. A file system that compresses saves some space.
MOST_HOLLOW = 2**36
#: A checkpoint's folder is named by its step.
NAME = re.compile(r"[0-9]{12,19}")
#: Unfinished folders, and those that were replaced.
UNFINISHED, REPLACED = ".writing-", ".replaced-"
COUNTERS = ("transitions", "episodes", "updates", "reported_step", "reported_updates")


def save(
    folder: Path,
    weights: Mapping[str, Tensor],
    state: Mapping[str, Tensor] | None,
    counters: dict[str, Any],
    origin: Origin | None = None,
) -> Path:
    """Write the checkpoint of `counters["transitions"]`; with `state` it can be resumed from."""
    path = folder / f"{counters['transitions']:012d}"
    temporary = folder / f"{UNFINISHED}{path.name}-{secrets.token_hex(8)}"
    parts = {WEIGHTS: weights} if state is None else {WEIGHTS: weights, STATE: state}
    try:
        temporary.mkdir(parents=True)
        for name, tensors in parts.items():
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, temporary / name)
            sync_to_disk(temporary / name)
        manifest = {
            "format": FORMAT,
            "step": counters["transitions"],
            "counters": counters,
            "files": {name: hash_plain_file(temporary / name) for name in parts},
            "bytes": {name: (temporary / name).stat().st_size for name in parts},
            **(origin or Origin()).to_json(),
        }
        write_signed_json(temporary / MANIFEST, manifest)  # which syncs the folder, too
        _put_in_place(temporary, path)
    except (OSError, SafetensorError) as error:
        _remove_quietly(temporary)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StorageError(f"The checkpoint {path} cannot be written: {reason}.") from error
    _prune_states(folder)
    return path


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename a finished checkpoint. One that is already there is removed only once the new one is on disk; if that
    fails, it is put back."""
    replaced = path.with_name(f"{REPLACED}{path.name}")
    if os.path.lexists(path):
        remove_anything(replaced)
        path.rename(replaced)
    try:
        temporary.rename(path)
        sync_to_disk(path.parent)
    except OSError:
        if os.path.lexists(replaced):
            if os.path.lexists(path):
                path.rename(temporary)
            replaced.rename(path)
        raise
    _remove_quietly(replaced)


def _remove_quietly(path: Path) -> None:
    with suppress(OSError):  # what is left is removed when the run is resumed
        remove_anything(path)


def recover_interrupted_save(folder: Path) -> None:
    """Clean up after a crash in the middle of `save`; no other process may be saving."""
    for replaced in folder.glob(f"{REPLACED}*"):
        path = folder / replaced.name.removeprefix(REPLACED)
        if NAME.fullmatch(path.name) and not os.path.lexists(path) and is_plain_folder(replaced):
            replaced.rename(path)
        else:
            remove_anything(replaced)
    for temporary in folder.glob(f"{UNFINISHED}*"):
        remove_anything(temporary)


def load_checkpoint(
    path: Path, with_state: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Weights, state (empty unless asked for) and counters, checked against their checksums and their run."""
    manifest = read_manifest(path)
    check_origin(path, manifest)
    names = [WEIGHTS, STATE] if with_state else [WEIGHTS]
    loaded = [_load_tensors(path, name, manifest) for name in names]
    return loaded[0], loaded[1] if with_state else {}, manifest["counters"]


def _load_tensors(path: Path, name: str, manifest: Mapping[str, Any]) -> dict[str, Tensor]:
    checksum, size = manifest["files"].get(name), manifest.get("bytes", {}).get(name)
    try:
        if checksum is None:
            raise FileNotFoundError
        file = _find_files(path) / name
        if file.lstat().st_size <= SMALL:  # the same bytes are checked and loaded
            data = read_plain_file(file)
            _require_checksum(path, name, hashlib.sha256(data).hexdigest(), checksum)
            return load(data)
        if is_hollow_file(file, more_than=MOST_HOLLOW):
            raise _make_damage_error(path, f"{name} is almost empty, and as large as {MOST_HOLLOW:,} bytes")
        _require_checksum(path, name, hash_plain_file(file, size), checksum)
        return load_file(file)
    except FileNotFoundError:
        raise CheckpointError(f"The checkpoint {path} is incomplete: {name} is missing.") from None
    except OSError as error:
        raise _make_damage_error(path, f"{name} {describe_problem(error)}") from None
    except (SafetensorError, KeyError, RuntimeError, ValueError, TypeError) as error:
        # PyTorch's part of the library also raises others: for an unknown type, or a shape that overflows
        raise CheckpointError(f"The checkpoint {path} cannot be read: {name}: {error}.") from None


def _require_checksum(path: Path, name: str, found: str | None, wanted: str) -> None:
    if found != wanted:
        raise _make_damage_error(path, f"{name} does not match its checksum")


def load_or_suggest_older(
    path: Path, with_state: bool, command: str
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """As `load_checkpoint`; if the checkpoint is damaged, the error offers the newest whole one before it."""
    try:
        return load_checkpoint(path, with_state)
    except CheckpointError as error:
        for older in reversed([p for p in list_checkpoints(path.parent, with_state) if p < path]):
            try:
                load_checkpoint(older, with_state)
            except CheckpointError:
                continue
            raise CheckpointError(
                f"{error} The one before it is whole: {command} {shlex.quote(str(older))}"
            ) from None
        raise CheckpointError(f"{error} There is no other before it.") from None


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest, checked against its own checksum and the folder's name."""
    try:
        manifest = read_signed_json(_find_files(path) / MANIFEST, required=True, newest=FORMAT)
    except (RefusedFileError, ValueError) as error:
        raise _make_damage_error(path, f"{MANIFEST} {describe_problem(error)}") from None
    except OSError:
        raise CheckpointError(f"{path} is not a checkpoint: it has no readable {MANIFEST}.") from None
    if not _has_all_fields(manifest):
        raise _make_damage_error(path, f"{MANIFEST} lacks a part")
    step = manifest["counters"]["transitions"]
    if path.name != f"{step:012d}" or manifest.get("step", step) != step:
        raise _make_damage_error(path, f"its files are those of step {step:,}, from another folder")
    return manifest


def _make_damage_error(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"The checkpoint {path} is damaged: {what}.")


def _has_all_fields(manifest: Mapping[str, Any]) -> bool:
    counters, files = manifest.get("counters"), manifest.get("files")
    if not isinstance(counters, dict) or not isinstance(files, dict):
        return False
    numbers = [counters.get(name, 0) for name in COUNTERS]
    seconds = counters.get("seconds", 0.0)
    return (
        "transitions" in counters
        and all(type(number) is int and 0 <= number < 2**63 for number in numbers)
        and isinstance(seconds, int | float)
        and math.isfinite(seconds)
        and all(isinstance(checksum, str) for checksum in files.values())
        and all(isinstance(manifest.get(name, {}), dict) for name in ("tables", "bytes"))
    )


def list_checkpoints(folder: Path, with_state: bool = False) -> list[Path]:
    """Oldest first; with `with_state` only those that can be resumed from."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder} is a link, and links in a run folder are not followed: remove it.")
    names = {
        path.name.removeprefix(REPLACED) for path in (*folder.glob("[0-9]*"), *folder.glob(f"{REPLACED}*"))
    }
    paths = [
        folder / name for name in sorted(names, key=lambda name: (len(name), name)) if NAME.fullmatch(name)
    ]
    for path in paths:
        if not is_plain_folder(path) and os.path.lexists(path):
            what = (
                "a link, and links in a run folder are not followed" if path.is_symlink() else "not a folder"
            )
            raise CheckpointError(f"The checkpoint {path} is {what}: remove it.")
    return [path for path in paths if not with_state or os.path.lexists(_find_files(path) / STATE)]


def _find_files(path: Path) -> Path:
    """The folder with a checkpoint's files: for a moment, while it is being replaced, it has another name."""
    replaced = path.with_name(f"{REPLACED}{path.name}")
    return replaced if not os.path.lexists(path) and is_plain_folder(replaced) else path


def hash_weights(weights: Mapping[str, Tensor]) -> str:
    """Sixteen hex digits that change when any weight changes."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint: its name goes first, so that nobody meets half of one."""
    gone = path.with_name(f"{UNFINISHED}{path.name}-{secrets.token_hex(8)}")
    path.rename(gone)
    remove_anything(gone)


def _prune_states(folder: Path) -> None:
    """Weights are small and stay; the large state stays in the newest checkpoints only."""
    with suppress(CheckpointError):  # something foreign lies there: the checkpoint itself is saved
        for path in list_checkpoints(folder, with_state=True)[:-KEEP_STATES]:
            _remove_quietly(path / STATE)
