"""Asks fire_reference.py, which runs in `.venv-fire`, what pyretechnics says."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-fire" / "bin" / "python"


class Reference:
    """A process that answers until it is closed; use it in a `with` statement."""

    def __init__(self) -> None:
        if not PYTHON.exists():
            raise SystemExit("The reference has its own environment: run `make fire-reference` first.")
        self._process = subprocess.Popen(
            [str(PYTHON), str(Path(__file__).with_name("fire_reference.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def __enter__(self) -> Reference:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, data: dict[str, Any], kind: str) -> dict[str, np.ndarray]:
        """`cells` or `fires`: see fire_reference.py."""
        with tempfile.TemporaryDirectory() as folder:
            question, answer = Path(folder, "in.npz"), Path(folder, "out.npz")
            np.savez(question, **data)
            assert self._process.stdin is not None
            self._process.stdin.write(f"{question} {answer} {kind}\n")
            self._process.stdin.flush()
            self._expect("done")
            with np.load(answer) as file:
                return dict(file)

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != word:
            raise SystemExit(
                f"fire_reference.py should have said {word!r} and said {line!r}; see its traceback above."
            )
