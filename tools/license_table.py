"""The table of docs/dependencies.md: every package, its license, and why it is needed."""

from __future__ import annotations

import re
import sys
from email.message import Message
from pathlib import Path

from package_index import read_metadata
from packaging.version import Version

START, END = "<!-- made by tools/lock.py -->", "<!-- end -->"

#: Why we need what pyproject.toml names.
REASONS = {
    "alembic": "MLflow's and Optuna's storage",
    "ale-py": "Atari games",
    "gymnasium": "other people's environments",
    "hypothesis": "tests that choose their own cases",
    "ipykernel": "the notebook in examples/, in a test",
    "matplotlib": "curves in reports",
    "mkdocs-material": "the docs as a site",
    "mkdocstrings-python": "the page of the Python API",
    "mlflow-skinny": "metrics in MLflow",
    "mypy": "types",
    "nbclient": "the notebook in examples/, in a test",
    "numba": "games, replay and updates as compiled loops",
    "numba-cuda": "your own games on a GPU",
    "numpy": "arrays",
    "onnx": "exported policies",
    "onnxruntime": "checking exported policies",
    "onnxscript": "exported policies",
    "optuna": "samplers and pruners of `flashdqn sweep`",
    "pandas": "tests of tables as a DataFrame",
    "pillow": "pictures and GIFs",
    "playwright": "tests of the pages in a browser",
    "pygame-ce": "tests of environments that draw",
    "pyogrio": "maps of points and polygons",
    "pytest": "tests",
    "pytest-xdist": "tests in two processes",
    "rasterio": "landscapes from GeoTIFF",
    "ray": "trainings and sweeps on a cluster",
    "rich": "the terminal display",
    "ruff": "lint and format",
    "safetensors": "checkpoints without pickle",
    "setuptools": "building the package",
    "shapely": "maps of points and polygons",
    "sqlalchemy": "MLflow's and Optuna's storage",
    "tensorboard": "event files",
    "torch": "networks and gradients",
    "triton": "kernels for the GPU",
    "tyro": "the command line",
    "wandb": "metrics in Weights & Biases",
}
#: Where a package's metadata says less than its license file.
READ_BY_HAND = {
    "appnope": "BSD-2-Clause",
    "cligj": "BSD-3-Clause",
    "click-plugins": "BSD-3-Clause",
    "colorama": "BSD-3-Clause",
    "contourpy": "BSD-3-Clause",
    "cuda-toolkit": "none: it holds no files",
    "cycler": "BSD-3-Clause",
    "gitdb": "BSD-3-Clause",
    "ipython-pygments-lexers": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
    "matplotlib": "LicenseRef-matplotlib (like PSF-2.0)",
    "mpmath": "BSD-3-Clause",
    "nest-asyncio2": "BSD-2-Clause",
    "numba": "BSD-2-Clause",
    "pexpect": "ISC",
    "prompt-toolkit": "BSD-3-Clause",
    "ptyprocess": "ISC",
    "pyasn1-modules": "BSD-2-Clause",
    "rasterio": "BSD-3-Clause",
    "sqlparse": "BSD-3-Clause",
    "sympy": "BSD-3-Clause",
}
#: How packages write it in `License:` or in their classifiers, and its SPDX name.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-2.1-only",
    "LGPL v2.1": "LGPL-2.1-only",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "NVIDIA Proprietary Software": "LicenseRef-NVIDIA-Proprietary",
    "PSFL": "PSF-2.0",
}
SPDX_EXPRESSION = re.compile(r"(?:[A-Z0-9][\w.+-]*)(?: (?:AND|OR|WITH) [A-Z0-9][\w.+-]*)*")


def describe_license(metadata: Message) -> str:
    """The SPDX name of a package's license, by its metadata."""
    name = re.sub(r"[-_.]+", "-", str(metadata["Name"])).lower()
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    if name in READ_BY_HAND:
        return READ_BY_HAND[name]
    classifiers = [
        text.split(" :: ")[-1] for text in metadata.get_all("Classifier", []) if text.startswith("License")
    ]
    written = str(metadata["License"] or "").strip().splitlines()[:1]
    for text in (*written, *classifiers):
        if text in SPDX:
            return SPDX[text]
        if SPDX_EXPRESSION.fullmatch(text) and text not in ("BSD", "UNKNOWN"):
            return text
    sys.exit(f"What license has {name}? It says {written or classifiers}: add it to tools/license_table.py.")


def write_table(
    page: Path,
    pins: dict[str, Version],
    runtime: set[str],
    locked: set[str],
    for_cuda: set[str],
    optional: dict[str, set[str]],
) -> None:
    """Put the table between its two marks on the page."""
    rows = [("package", "version", "license", "part of", "why"), ("---",) * 5]
    for name in sorted(runtime | locked | for_cuda | set().union(*optional.values())):
        metadata = read_metadata(name, pins[name])
        extras = [extra for extra, names in optional.items() if name in names]
        part = (
            ["runtime"]
            if name in runtime
            else ["dev"]
            if name in locked
            else [f"extra {extra}" for extra in extras]
            if extras and name not in for_cuda
            else ["torch for CUDA"]
        )
        rows.append(
            (name, str(pins[name]), describe_license(metadata), ", ".join(part), REASONS.get(name, ""))
        )
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{START}\n{table}{END}{after}", encoding="utf-8")
