"""Which thread reads what: a backward pass works on gradients without the interpreter's lock, and another thread
that reads one meanwhile gets memory that is just being freed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from watching import watch_script, write_script

from flashdqn.doctor import run
from flashdqn.doctor.watch.schema import ProbeResults

NETWORK = """
    import json, pathlib, signal, sys, threading, time
    import torch

    asked = set()


    class Weight(torch.nn.Parameter):
        @property
        def grad(self):
            asked.add(threading.get_ident())
            return torch._C.TensorBase.grad.__get__(self)

        @grad.setter
        def grad(self, value):
            torch._C.TensorBase.grad.__set__(self, value)


    network, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    network.weight = Weight(network.weight.detach())
    optimizer = torch.optim.SGD(network.parameters(), 0.01)


    def update():
        wanted = target(torch.ones(3, 4)).detach()
        loss = (network(torch.ones(3, 4)) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


    def time_is_up():
        sys.modules["_flashdqn_watch.counters"].started -= 1000.0


    def tell(**what):
        pathlib.Path(__file__).with_name("told.json").write_text(json.dumps(what))
"""
#: Long enough that the record is written several times while it trains.
HERE = """
    record = pathlib.Path(sys.orig_argv[-1]).with_name("record.json")
    for _ in range(5):
        record.unlink(missing_ok=True)
        while not record.exists():
            update()
    tell(alone=asked == {threading.get_ident()})
"""
ELSEWHERE = """
    def train():
        while True:
            update()


    threading.Thread(target=train, daemon=True).start()
    while optimizer not in sys.modules["_flashdqn_watch.torch_hooks"].optimizers.held.values():
        time.sleep(0.01)
    time_is_up()
    time.sleep(60)
"""
WITH_AN_ALARM_OF_ITS_OWN = """
    signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        update()
        time_is_up()
        while True:
            update()
    finally:
        tell(cleaned=True)
"""


@pytest.fixture(autouse=True)
def _written_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    make_plan = run.make_watch_plan
    quick = partial(replace, window=0.02, flush=0.0)
    monkeypatch.setattr(run, "make_watch_plan", lambda *given: quick(make_plan(*given)))


def test_gradients_are_read_by_the_thread_that_trains(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, NETWORK + HERE))
    assert record.failures == ()
    assert json.loads((tmp_path / "told.json").read_text(encoding="utf-8")) == {"alone": True}
    assert [forward.given_gradients for forward in record.forwards] == [False, True]
    assert record.probes.optimizer is not None


def test_what_another_thread_still_trains_is_not_copied(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, NETWORK + ELSEWHERE))
    assert record.ended == "stopped"
    assert record.totals.updates > 0
    assert record.probes == ProbeResults()


def test_without_the_timer_it_is_stopped_before_it_is_probed(tmp_path: Path) -> None:
    record = watch_script(write_script(tmp_path, NETWORK + WITH_AN_ALARM_OF_ITS_OWN))
    assert record.ended == "stopped"
    assert record.timer_taken
    assert record.probes.optimizer is not None
    assert json.loads((tmp_path / "told.json").read_text(encoding="utf-8")) == {"cleaned": True}
