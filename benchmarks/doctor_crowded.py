"""Watch scripts on a crowded machine, again and again: does one crash that would not crash without the watch?

    python benchmarks/doctor_crowded.py [SCRIPT …] [--minutes 5] [--at-once 6] [--hard]

Without scripts, the doctor's patients are drawn at random. Several run on each core at once. With --hard the watch
looks and writes many times as often as usual: a fault that shows once in an hour then shows in half a minute.
The output of a crash is kept beside the results.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from flashdqn.compute.core_count import cores
from flashdqn.doctor import run
from flashdqn.doctor.watch.kinds import Ending

HERE = Path(__file__).parent
SIGNS = ("Fatal Python error", "was ended by SIG", "ended without warning")
HARD = {"interval": 0.0005, "window": 0.02, "flush": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--hard", action="store_true")
    parser.add_argument(
        "--once", type=float, help="watch one script hard, for this number of seconds, and end"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    if arguments.once is not None:
        watch_hard(arguments.scripts[0], arguments.once)
        return
    scripts = arguments.scripts or sorted((HERE.parent / "tests" / "doctor" / "patients").glob("*.py"))
    end, lock = time.monotonic() + 60 * arguments.minutes, threading.Lock()
    counts = {"runs": 0, "crashed": 0, "rc": 0}

    def work(number: int) -> None:
        lots = random.Random(number)
        while time.monotonic() < end:
            script, core = str(lots.choice(scripts)), str(number % cores())
            command = watching(script, lots.choice([20, 30] if arguments.hard else [3, 5, 8]), arguments.hard)
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


def watching(script: str, seconds: int, hard: bool) -> list[str]:
    """The command that watches a script once."""
    if hard:
        return [sys.executable, __file__, script, "--once", str(seconds)]
    return [sys.executable, "-m", "flashdqn", "doctor", "--seconds", str(seconds), script]


def watch_hard(script: Path, seconds: float) -> None:
    """In this process's child, with a plan of our own."""
    make_plan = run.make_watch_plan
    run.make_watch_plan = lambda *given: replace(make_plan(*given), **HARD)
    record = run.watch_patient(run.Patient(str(script), (), seconds=seconds, probe=0.01))
    print(f"ended without warning at {seconds} s" if record.ended is Ending.KILLED else record.ended)


if __name__ == "__main__":
    main()
