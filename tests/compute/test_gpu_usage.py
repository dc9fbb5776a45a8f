"""How busy the GPU is: with a library that stands in for the driver's."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any

import pytest
import torch

from flashdqn.compute import gpu_usage
from flashdqn.compute.gpu_usage import GpuUsage, find_gpu_usage, make_question, watch_gpu


class Driver:
    """NVML as far as we use it: it answers 0 for success, and writes into what it is given."""

    def __init__(self, busy: int = 87, refuses: str = "") -> None:
        self.busy, self.refuses = busy, refuses
        self.asked: list[bytes] = []

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return int(self.refuses == "init")

    def nvmlDeviceGetHandleByUUID(self, name: bytes, handle: Any) -> int:  # noqa: N802
        self.asked.append(name)
        return int(self.refuses == "handle")

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:  # noqa: N802
        rates._obj.gpu = self.busy
        return int(self.refuses == "rates")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A device that PyTorch says it has."""
    properties = type("Properties", (), {"uuid": "1234-5678"})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    return torch.device("cuda", 0)


def test_the_driver_is_asked_about_the_right_gpu(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    ask = find_gpu_usage(gpu)
    assert ask is not None
    assert ask() == 87.0
    assert driver.asked == [b"GPU-1234-5678"]


@pytest.mark.parametrize("refuses", ["init", "handle", "rates"])
def test_a_driver_that_refuses(gpu: torch.device, refuses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver(refuses=refuses))
    assert find_gpu_usage(gpu) is None


def test_without_the_library_or_a_gpu_nothing_is_said(
    gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_usage, "LIBRARY", "libnothing-of-that-name.so.1")
    assert watch_gpu(gpu) is None
    assert watch_gpu(torch.device("cpu")) is None


def test_the_mean_between_two_reads() -> None:
    answers, asked = iter([50.0, 100.0, None]), threading.Event()

    def ask() -> float | None:
        answer = next(answers, None)
        if answer is None:
            asked.set()
        return answer

    usage = GpuUsage(ask, seconds=0.001)
    assert asked.wait(60)
    assert usage.read() == 75.0
    assert math.isnan(usage.read())
    usage.close()
    assert not usage._thread.is_alive()


def test_a_question_that_fails_later_is_no_answer() -> None:
    driver: Any = Driver(busy=3)
    ask = make_question(driver, ctypes.c_void_p())
    assert ask() == 3.0
    driver.refuses = "rates"
    assert ask() is None
