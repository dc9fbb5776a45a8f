"""Ask the public database of vulnerabilities about every version in the two locks: `make audit`.

Needs the network and pip-audit. Exit code 0: every package was asked about, and nothing is known. 1: something is.
2: not every package could be asked about, so that nothing can be said; pip-audit itself would leave with 0 there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-cuda.lock")


def ask_database() -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package, and its complaints. The list is empty if it could not ask."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format", "json"]
    for lock in LOCKS:
        command += ["--requirement", lock]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["dependencies"], done.stderr
    except (ValueError, KeyError):
        return [], done.stderr


def judge(packages: list[dict[str, Any]], complaints: str = "") -> tuple[int, str]:
    """The exit code, and what to say."""
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, fixed in {', '.join(found['fix_versions'])}"
        for package in packages
        for found in package.get("vulns", [])
    ]
    if lines:
        return 1, "\n".join([*lines, "Choose other versions in constraints.txt, then make lock."])
    if not packages:
        reason = (complaints.strip().splitlines() or ["it said nothing"])[-1]
        return 2, f"The database of vulnerabilities cannot be reached, so nothing was checked: {reason}"
    if skipped:
        which = ", ".join(skipped[:3]) + (", …" if len(skipped) > 3 else "")
        return 2, (
            f"{len(skipped)} of {len(packages)} packages are not known where pip-audit asked ({which}). Nothing "
            "can be said of them: run this where the public database can be reached, not through a mirror."
        )
    return 0, f"No known vulnerability in {len(packages)} packages."


def main() -> None:
    """Ask, say, leave."""
    code, text = judge(*ask_database())
    print(text)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
