"""A watched script is a program like any other: started the usual way, ended in every way that programs end."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from watching import line_of, watch_script, write_script

from flashdqn.core.errors import ConfigError
from flashdqn.doctor import run
from flashdqn.doctor.examine import build_report
from flashdqn.doctor.run import Patient, watch_patient

ENV = """
    import torch


    class Env:
        def __init__(self):
            self.t = 0

        def reset(self):
            return 0

        def step(self, action):
            self.t += 1
            return self.t, 0.0, self.t % 10 == 0


    env = Env()
    for _ in range(25):
        env.step(0)
"""


@pytest.fixture
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    make_plan = run.make_watch_plan
    quick = partial(replace, window=0.05, flush=0.0)
    monkeypatch.setattr(run, "make_watch_plan", lambda *given: quick(make_plan(*given)))


def told(folder: Path) -> dict[str, Any]:
    """What a script wrote about itself."""
    return json.loads((folder / "told.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


STARTED = """
    import dataclasses, json, os, pathlib, pickle, sys
    import torch, neighbor


    @dataclasses.dataclass
    class Point:
        x: int


    def told():
        return {
            "name": __name__,
            "argv": sys.argv,
            "path": sys.path[0],
            "file": __file__,
            "neighbor": neighbor.VALUE,
            "data": pathlib.Path(__file__).with_name("data.txt").read_text(),
            "type": str(Point.__dataclass_fields__["x"].type),
            "pickled": pickle.loads(pickle.dumps(Point(3))).x,
            "builtins": type(__builtins__).__name__,
            "main": sys.modules["__main__"].Point is Point,
            "package": __package__ or "",
        }


    if __name__ == "__main__":
        pathlib.Path(__file__).with_name("told.json").write_text(json.dumps(told()))
"""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "neighbor.py").write_text("VALUE = 17\n", encoding="utf-8")
    (tmp_path / "data.txt").write_text("from a file", encoding="utf-8")
    return tmp_path


def test_a_script_starts_as_python_starts_it(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_script(beside, STARTED, "start.py", hollow=True)
    monkeypatch.chdir(beside)
    record = watch_script(Path("start.py"), "--seed", "3", "-m", "x")
    assert told(beside) == {
        "name": "__main__",
        "argv": ["start.py", "--seed", "3", "-m", "x"],
        "path": str(beside),
        "file": str(beside / "start.py"),
        "neighbor": 17,
        "data": "from a file",
        "type": "<class 'int'>",  # not a string, which `from __future__ import annotations` would make of it
        "pickled": 3,
        "builtins": "module",
        "main": True,
        "package": "",
    }
    assert record.ended == "finished"
    assert record.script == str(beside / "start.py")
    assert record.arguments == ("--seed", "3", "-m", "x")


def test_a_module_starts_as_python_starts_it(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = beside / "package"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    for name in ("train.py", "__main__.py"):
        write_script(package, STARTED, name)
    write_script(beside, "", hollow=True)
    (beside / "data.txt").rename(package / "data.txt")
    monkeypatch.chdir(beside)
    for name, file in (("package.train", "train.py"), ("package", "__main__.py")):
        record = watch_patient(Patient(name, ("--seed", "3"), module=True, seconds=60.0))
        found = told(package)
        assert record.ended == "finished", record.error
        assert found["argv"] == [str(package / file), "--seed", "3"]
        assert (found["name"], found["path"], found["package"]) == ("__main__", str(beside), "package")
        assert (found["main"], found["pickled"]) == (True, 3)


@pytest.mark.parametrize(
    ("end", "ended", "code", "error"),
    [
        ("", "finished", 0, ""),
        ("raise SystemExit", "finished", 0, ""),
        ("sys.exit(3)", "finished", 3, ""),
        ("sys.exit('no such level')", "finished", 1, "no such level"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", "interrupted", 130, ""),
    ],
)
def test_how_a_script_ends(tmp_path: Path, end: str, ended: str, code: int, error: str) -> None:
    path = write_script(tmp_path, ENV + f"    import os, signal, sys, time\n    {end}\n", hollow=True)
    record = watch_script(path)
    assert (record.ended, record.code, record.error) == (ended, code, error)
    assert (record.totals.transitions, record.totals.episodes) == (25, 2)


@pytest.mark.parametrize("end", ["os._exit(5)", "os.kill(os.getpid(), signal.SIGKILL)"])
@pytest.mark.usefixtures("_short_windows")
def test_a_sudden_end_leaves_what_was_known(tmp_path: Path, end: str) -> None:
    # It ends itself as soon as it sees that something was written.
    text = (
        ENV
        + f"""
    import os, pathlib, signal, sys, time
    record = pathlib.Path(sys.orig_argv[-1]).with_name("record.json")
    while not (record.exists() and '"transitions": 25' in record.read_text()):
        time.sleep(0.01)
    {end}
    """
    )
    record = watch_script(write_script(tmp_path, text, hollow=True))
    assert record.ended == "killed"
    assert record.totals.transitions == 25
    assert any("without warning" in note for note in build_report(record).notes)


def test_one_that_ends_before_anything_was_written(tmp_path: Path) -> None:
    path = write_script(tmp_path, "import os\nos._exit(7)\n")
    with pytest.raises(ConfigError, match="ended with code 7 before it could be watched"):
        watch_script(path)


def test_one_that_crashes_says_where(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_script(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    with pytest.raises(ConfigError, match="was ended by SIGSEGV before it could be watched"):
        watch_script(path)
    said = capfd.readouterr().err
    assert "Segmentation fault" in said
    assert f'"{path}", line 2' in said


FAILING = (
    ENV
    + """
    def inner():
        print(1, nonsense=2)  # inner


    class Careful(Env):
        def step(self, action):
            try:
                inner()  # careful
            except TypeError as error:
                raise ValueError("level 7") from error  # raised


    Careful().step(0)  # outer
"""
)


def test_a_failure_shows_the_scripts_frames_alone(tmp_path: Path) -> None:
    path = write_script(tmp_path, FAILING, hollow=True)
    record = watch_script(path)
    error = record.error
    assert (record.ended, record.code) == ("failed", 1)
    assert record.totals.transitions == 25
    assert "TypeError" in error
    assert error.endswith("ValueError: level 7\n")
    for mark in ("# inner", "# careful", "# raised", "# outer"):
        assert f'File "{path}", line {line_of(path, mark)}' in error
    assert error.count("  File ") == 4
    assert "watch" not in error
    report = build_report(record)
    assert (report.ended, report.error, report.transitions) == ("failed", error, 25)


def test_a_hook_for_failures_is_called(tmp_path: Path) -> None:
    text = """
    import pathlib, sys, torch
    def hook(kind, error, trace):
        pathlib.Path(__file__).with_name("told.json").write_text('{"kind": "%s"}' % kind.__name__)
    sys.excepthook = hook
    1 / 0
    """
    assert watch_script(write_script(tmp_path, text, hollow=True)).ended == "failed"
    assert told(tmp_path) == {"kind": "ZeroDivisionError"}


LOOP = (
    ENV
    + """
    import pathlib, time
    cleaned = pathlib.Path(__file__).with_name("cleaned")
    try:
        while True:
            time.sleep(0.001)
    finally:
        cleaned.touch()
"""
)


@pytest.mark.usefixtures("_short_windows")
def test_its_time_is_up(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, LOOP, hollow=True), seconds=1.0)
    assert record.ended == "stopped"
    assert record.totals.transitions == 25
    assert (tmp_path / "cleaned").exists()


@pytest.mark.usefixtures("_short_windows")
def test_one_that_does_not_let_itself_be_stopped(tmp_path: Path) -> None:
    text = (
        ENV
        + """
    import time
    while True:
        try:
            time.sleep(0.001)
        except BaseException:
            pass
    """
    )
    record = watch_script(write_script(tmp_path, text, hollow=True), seconds=0.5, grace=2.5)
    assert record.ended == "stopped"
    assert record.totals.transitions == 25


def test_training_on_a_thread_is_waited_for(tmp_path: Path) -> None:
    text = (
        ENV
        + """
    import threading, time


    def train():
        time.sleep(0.2)
        for _ in range(5):
            env.step(0)


    threading.Thread(target=train).start()
    """
    )
    record = watch_script(write_script(tmp_path, text, hollow=True))
    assert record.ended == "finished"
    assert record.totals.transitions == 30


ALARMS = """
    import json, pathlib, signal, time
    import torch
    told, rang = {}, []
    told["before"] = str(signal.signal(signal.SIGALRM, lambda *_: rang.append(1)))
    time.sleep(0.1)  # nobody else's alarm rings here
    told["early"] = len(rang)
    told["left"] = signal.setitimer(signal.ITIMER_REAL, 0.01)[0]
    while not rang:
        time.sleep(0.001)
    told["late"] = len(rang)
    pathlib.Path(__file__).with_name("told.json").write_text(json.dumps(told))
    while True:
        time.sleep(0.001)
"""


@pytest.mark.usefixtures("_short_windows")
def test_a_script_may_have_the_alarm_for_itself(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, ALARMS, hollow=True), seconds=2.0)
    before = "Handlers.SIG_DFL" if sys.version_info < (3, 11) else "0"
    assert told(tmp_path) == {"before": before, "early": 0, "left": 0.0, "late": 1}
    assert record.ended == "stopped"  # without the alarm, too
    assert any("alarm timer itself" in note for note in build_report(record).notes)


def test_a_script_may_become_another_program(tmp_path: Path) -> None:
    text = """
    import os, pathlib, sys, time
    import torch
    if len(sys.argv) < 2:
        os.execl(sys.executable, sys.executable, __file__, "again")
    time.sleep(0.3)
    pathlib.Path(__file__).with_name("told.json").write_text("{}")
    """
    with pytest.raises(ConfigError, match="before it could be watched"):
        watch_script(write_script(tmp_path, text, hollow=True))
    assert told(tmp_path) == {}  # an alarm did not end it


CHILDREN = """
    import json, multiprocessing, os, pathlib, signal, sys
    import torch


    class Env:
        def reset(self):
            return 0

        def step(self, action):
            return action, 0.0, False


    def work(queue):
        env = Env()
        for _ in range(100):
            env.step(0)
        queue.put(env.step(5)[0])


    if __name__ == "__main__":
        told = {}
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            told[method] = [queue.get()]
            process.join()
            told[method].append(process.exitcode)
        child = os.fork()
        if not child:
            raise SystemExit(4)  # through everything that a script's end goes through
        told["forked"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        pathlib.Path(__file__).with_name("told.json").write_text(json.dumps(told))
        for _ in range(3):
            Env().step(0)
"""


def test_other_processes_are_followed_and_work_as_they_would_alone(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, CHILDREN, hollow=True))
    assert record.ended == "finished", record.error
    assert told(tmp_path) == {"fork": [5, 0], "spawn": [5, 0], "forkserver": [5, 0], "forked": 4}
    assert record.totals.transitions == 3
    workers = {child.process.name: child for child in record.children if child.totals.transitions}
    assert {name: child.totals.transitions for name, child in workers.items()} == {
        "ForkProcess-1": 101,
        "SpawnProcess-2": 101,
        "ForkServerProcess-3": 101,
    }
    assert {child.process.how for child in record.children} == {"fork", "spawn"}
    assert all(
        0.0 <= child.windows[0].start < record.seconds for child in workers.values()
    )  # one clock for all


VECTOR = """
    import json, pathlib
    import gymnasium
    import numpy as np
    import torch


    class Walk(gymnasium.Env):  # pickled by value: the other process cannot import it from here
        observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.t += 1
            return np.full(2, self.t, np.float32), 1.0, self.t == 3, False, {}


    if __name__ == "__main__":
        make = lambda: gymnasium.wrappers.RecordEpisodeStatistics(Walk())
        envs = gymnasium.vector.AsyncVectorEnv([make, make], context="spawn")
        envs.reset(seed=0)
        told = [envs.step(np.zeros(2, int))[0][:, 0].tolist() for _ in range(4)]
        envs.close()
        pathlib.Path(__file__).with_name("told.json").write_text(json.dumps({"seen": told}))
"""


def test_environments_in_processes_of_their_own(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, VECTOR, hollow=True))
    assert record.ended == "finished", record.error
    assert told(tmp_path) == {"seen": [[1, 1], [2, 2], [3, 3], [0, 0]]}
    assert record.widths == {2: 4}  # steps of both, seen from here
    assert (record.totals.episodes, record.totals.episode_steps) == (2, 6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "There is no script"),
        ("import json\n", "never imported torch"),
        ("import sys\nsys.exit(2)\n", "ended with code 2 before it imported torch"),
        ("def f(:\n", "is not a Python script: .*, line 1"),
        ("\0\0\0", "is not a Python script"),
        ('print("\xff")'.encode("latin-1"), "is not a Python script"),
    ],
)
def test_what_is_no_training_gets_a_sentence(tmp_path: Path, text: str | bytes | None, sentence: str) -> None:
    path = tmp_path / "script.py"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError, match=sentence):
        watch_script(path)


@pytest.mark.parametrize("name", ["no_such_module_here", "json.no_such_part", "json", "..", "sys"])
def test_a_module_that_is_none_gets_a_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"There is no module '.*' that .* can run"):
        watch_patient(Patient(name, module=True))


def test_a_python_that_is_none_and_no_time_at_all(tmp_path: Path) -> None:
    path = write_script(tmp_path, "import torch", hollow=True)
    with pytest.raises(ConfigError, match="There is no Python at 'no/python'"):
        watch_script(path, python="no/python")
    with pytest.raises(ConfigError, match="--seconds must be above zero"):
        watch_script(path, seconds=0.0)
