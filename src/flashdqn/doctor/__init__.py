"""`flashdqn doctor`: watch any PyTorch training script, or a notebook's cell, and say why it is slow."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext flashdqn.doctor`: makes `%%doctor` known."""
    from flashdqn.doctor.notebook import register  # imported here: the watch and the trials need none of it

    register(shell)
