"""One explicit random generator per purpose, all from the run's seed."""

from __future__ import annotations

import hashlib

import torch


def purpose_seed(seed: int, purpose: str) -> int:
    """A 63-bit seed that depends on the seed and the purpose; purposes do not overlap."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def make_generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator on a device, for one purpose."""
    return torch.Generator(device).manual_seed(purpose_seed(seed, purpose))
