"""`flashdqn profile` of a preset, kept as a result: what it measured, with commit, command and machine.

python benchmarks/own_profile.py --preset snake-flood --json benchmarks/results/profile-2cores.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from flashdqn.cli import main as cli
from measure import context, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="snake-flood")
    parser.add_argument("--seconds", default="120s")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    measured = context("cpu")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "profile.json"
        words = ["profile", arguments.preset, "--device", "cpu", "--seconds", arguments.seconds]
        if cli.dispatch_command([*words, "--json", str(file)]):
            raise SystemExit("the profile did not end well")
        profile = json.loads(file.read_text(encoding="utf-8"))
    if arguments.json:
        write_json(arguments.json, {**measured, "profile": profile})


if __name__ == "__main__":
    main()
