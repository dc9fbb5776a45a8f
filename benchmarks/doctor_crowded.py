"""Watch scripts on a crowded machine, again and again: does one of them ever crash that would not by itself?

    python benchmarks/doctor_crowded.py [SCRIPT …] [--minutes 5] [--at-once 6]

Without scripts, the doctor's patients take turns by lot. Several run on each core at once. What a crash said is
kept beside the results; `rc` counts runs that ended with an error of their own.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from flashdqn.runtime.threads import cores

HERE = Path(__file__).parent
SIGNS = ("Fatal Python error", "was ended by SIG", "ended without warning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    scripts = arguments.scripts or sorted((HERE.parent / "tests" / "doctor" / "patients").glob("*.py"))
    end, lock = time.monotonic() + 60 * arguments.minutes, threading.Lock()
    counts = {"runs": 0, "crashed": 0, "rc": 0}

    def work(number: int) -> None:
        lots = random.Random(number)
        while time.monotonic() < end:
            script, core = str(lots.choice(scripts)), str(number % cores())
            seconds = str(lots.choice([3, 5, 8]))
            command = [sys.executable, "-m", "flashdqn", "doctor", "--seconds", seconds, script]
            done = subprocess.run(["taskset", "-c", core, *command], capture_output=True, text=True)
            said = done.stdout + done.stderr
            with lock:
                counts["runs"] += 1
                counts["rc"] += done.returncode != 0
                if any(sign in said for sign in SIGNS):
                    counts["crashed"] += 1
                    (arguments.out / f"crash-{counts['crashed']}.txt").write_text(f"{script}\n{said}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(arguments.at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{counts['runs']} runs, {counts['crashed']} crashed, {counts['rc']} ended with an error")


if __name__ == "__main__":
    main()
