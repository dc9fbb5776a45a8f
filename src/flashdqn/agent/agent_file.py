"""An agent in one file: `agent.json` with its settings and checksums, and `weights.safetensors`, in a zip file.

The file may come from a stranger. Nothing in it is code, nothing is unpickled, and code that its settings name is
imported only where the user permits it (docs/trust.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from flashdqn.compute.device import free_bytes
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings, list_remaining_code, to_dict
from flashdqn.core.archive import read_archive, write_archive
from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import (
    CHECKSUM,
    check_writable_file,
    compute_checksum,
    make_write_error,
    parse_json,
)
from flashdqn.core.user_code import Permission

if TYPE_CHECKING:
    from flashdqn.agent.agent import Agent

FORMAT = "flashdqn-agent-1"
ABOUT, WEIGHTS = "agent.json", "weights.safetensors"
#: The largest file, and the largest settings in it, in bytes.
MOST_BYTES, MOST_SETTINGS = 16 * 2**30, 10 * 2**20
#: How often a file lies in memory while it is read: as it is, as its parts, as tensors.
COPIES = 3


def write_agent_file(agent: Agent, path: Path) -> Path:
    """Write the agent's settings and weights; the same agent makes the same file."""
    check_writable_file(path)
    weights = {
        name: tensor.detach().cpu().contiguous() for name, tensor in agent.network.state_dict().items()
    }
    data = save(weights)
    settings = to_dict(agent.config) | {
        "out": Config.out
    }  # a folder of this machine is nobody else's business
    about: dict[str, Any] = {
        "format": FORMAT,
        "steps": agent.steps,
        "weights": hashlib.sha256(data).hexdigest(),
        "config": json.loads(json.dumps(settings)),
    }
    text = json.dumps(about | {CHECKSUM: compute_checksum(about)}, indent=2)
    try:
        write_archive(path, {ABOUT: text.encode(), WEIGHTS: data})
    except OSError as error:
        raise make_write_error(str(path), error) from None
    return path


def read_agent_file(
    path: Path, permission: Permission, change: Callable[[Config], Config] | None = None
) -> tuple[Config, dict[str, Tensor], int]:
    """The settings, the weights, and the transitions that they were trained on. Code that the settings name must be
    permitted, unless the user's `change` replaces it."""
    try:
        require_memory(path)
        parts = read_archive(path, (ABOUT, WEIGHTS), MOST_BYTES)
        about = parse_about(parts[ABOUT])
        if hashlib.sha256(parts[WEIGHTS]).hexdigest() != about["weights"]:
            raise ValueError(f"{WEIGHTS} in it does not match its checksum: it was changed or damaged")
        config = apply_settings(Config(), about["config"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(f"{path} is not an agent that can be read: {reason}.") from None
    changed = config if change is None else change(config)
    permission.require(list_remaining_code(config, changed), path)
    try:
        return changed, load(parts[WEIGHTS]), about["steps"]
    except (SafetensorError, KeyError, RuntimeError, ValueError, TypeError) as error:  # an unknown type, …
        raise CheckpointError(f"{path} cannot be read: {WEIGHTS} in it: {error}.") from None


def require_memory(path: Path) -> None:
    """Refuse a file that would fill the memory: a stranger can make one of any size that takes no space on disk."""
    size, free = path.stat().st_size, free_bytes(torch.device("cpu"))
    if COPIES * size > free:
        raise ValueError(f"it has {size:,} bytes, and with {free:,} bytes of free memory that is too much")


def parse_about(data: bytes) -> dict[str, Any]:
    """What agent.json says; ValueError if it cannot be believed."""
    if len(data) > MOST_SETTINGS:
        raise ValueError(f"{ABOUT} in it has more than {MOST_SETTINGS:,} bytes")
    about = parse_json(data.decode("utf-8"), unique=True)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        given = about.get("format") if isinstance(about, dict) else None
        raise ValueError(f"{ABOUT} in it must say format {FORMAT}, and says {str(given)[:60]!r}")
    if about.pop(CHECKSUM, None) != compute_checksum(about):
        raise ValueError(f"{ABOUT} in it does not match its own checksum: it was changed or damaged")
    steps = about.get("steps")
    if not isinstance(about.get("config"), dict) or type(steps) is not int or not 0 <= steps < 2**63:
        raise ValueError(f"{ABOUT} in it lacks a part")
    return about
