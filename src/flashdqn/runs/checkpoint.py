"""Checkpoints: weights and, if the run can be resumed from there, everything else. Nothing is unpickled.

    checkpoints/000001000000/
        weights.safetensors     the online network: enough to play
        state.safetensors       target, optimizer, ring, environments, generators (the newest two have it)
        manifest.json           counters, and a checksum of each file and of itself
    checkpoints/best.json       which one evaluated best

A checkpoint is written under a temporary name, synced, and renamed: it is either whole or not there.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import sync_to_disk, write_json_atomically

WEIGHTS, STATE, MANIFEST = "weights.safetensors", "state.safetensors", "manifest.json"
KEEP_STATES = 2


def save(
    folder: Path, weights: Mapping[str, Tensor], state: Mapping[str, Tensor] | None, counters: dict[str, Any]
) -> Path:
    """Write the checkpoint of `counters["transitions"]`; with `state` it can be resumed from."""
    path = folder / f"{counters['transitions']:012d}"
    temporary = folder / f".writing-{path.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    parts = {WEIGHTS: weights} if state is None else {WEIGHTS: weights, STATE: state}
    try:
        for name, tensors in parts.items():
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, temporary / name)
            sync_to_disk(temporary / name)
        files = {name: _hash_file(temporary / name) for name in parts}
        manifest = {"format": 1, "counters": counters, "files": files}
        write_json_atomically(temporary / MANIFEST, manifest | {"checksum": _compute_checksum(manifest)})
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(f"The checkpoint {path} cannot be written: {error}.") from error
    replaced = folder / f".replaced-{path.name}"
    if path.exists():
        path.rename(replaced)
    temporary.rename(path)
    sync_to_disk(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    _prune_states(folder)
    return path


def recover_interrupted_save(folder: Path) -> None:
    """Clean up after a crash in the middle of `save`; no other process may be saving."""
    for replaced in folder.glob(".replaced-*"):
        path = folder / replaced.name.removeprefix(".replaced-")
        if path.exists():
            shutil.rmtree(replaced)
        else:
            replaced.rename(path)
    for temporary in folder.glob(".writing-*"):
        shutil.rmtree(temporary)


def load_checkpoint(
    path: Path, with_state: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Weights, state (empty unless asked for) and counters, checked against their checksums."""
    manifest = read_manifest(path)
    names = [WEIGHTS, STATE] if with_state else [WEIGHTS]
    tensors = []
    for name in names:
        if name not in manifest["files"] or not (path / name).exists():
            raise CheckpointError(f"The checkpoint {path} is incomplete: {name} is missing.")
        if _hash_file(path / name) != manifest["files"][name]:
            raise CheckpointError(f"The checkpoint {path} is damaged: {name} does not match its checksum.")
        try:
            tensors.append(load_file(path / name))
        except SafetensorError as error:
            raise CheckpointError(f"The checkpoint {path} cannot be read: {name}: {error}.") from None
    return tensors[0], tensors[1] if with_state else {}, manifest["counters"]


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
    """The manifest, checked against its own checksum."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        checksum = manifest.pop("checksum")
    except OSError:
        raise CheckpointError(f"{path} is not a checkpoint: it has no readable {MANIFEST}.") from None
    except (ValueError, KeyError, AttributeError):
        raise CheckpointError(f"The checkpoint {path} is damaged: {MANIFEST} cannot be read.") from None
    if checksum != _compute_checksum(manifest):
        raise CheckpointError(f"The checkpoint {path} is damaged: {MANIFEST} does not match its checksum.")
    return manifest  # type: ignore[no-any-return]


def list_checkpoints(folder: Path, with_state: bool = False) -> list[Path]:
    """Oldest first; with `with_state` only those that can be resumed from."""
    paths = sorted(path for path in folder.glob("[0-9]*") if path.is_dir())
    return [path for path in paths if not with_state or (path / STATE).exists()]


def mark_best_checkpoint(folder: Path, path: Path, score: float) -> None:
    """Point best.json at a checkpoint."""
    write_json_atomically(folder / "best.json", {"checkpoint": path.name, "score": score})


def best(folder: Path) -> tuple[Path, float] | None:
    """The checkpoint that evaluated best, and its score."""
    try:
        data = json.loads((folder / "best.json").read_text(encoding="utf-8"))
        path, score = folder / str(data["checkpoint"]), float(data["score"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (path, score) if math.isfinite(score) and path in list_checkpoints(folder) else None


def hash_weights(weights: Mapping[str, Tensor]) -> str:
    """Sixteen hex digits that change when any weight changes."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _prune_states(folder: Path) -> None:
    """Weights are small and stay; the large state stays in the newest checkpoints only."""
    for path in list_checkpoints(folder, with_state=True)[:-KEEP_STATES]:
        (path / STATE).unlink()


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compute_checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
