"""What an environment leaves running does not keep the command from ending."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAVE_THREAD = "threading.Thread(target=time.sleep, args=(300,), name='worker 1').start()"
LEAVE_PROCESS = (
    "multiprocessing.get_context('fork').Process(target=time.sleep, args=(300,), name='worker 1').start()"
)
USED_POOL = "pool = concurrent.futures.ThreadPoolExecutor(1); pool.submit(int).result()"


@pytest.mark.parametrize(
    ("left", "said"), [(LEAVE_THREAD, "worker 1"), (LEAVE_PROCESS, "worker 1"), (USED_POOL, "")]
)
def test_the_process_ends_with_its_code(left: str, said: str) -> None:
    program = f"""
import concurrent.futures, multiprocessing, sys, threading, time
from flashdqn.core.stragglers import end_stragglers
{left}
end_stragglers(75, 0.5)
sys.exit(75)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 75
    assert said in done.stderr
    assert bool(done.stderr) == bool(said)
