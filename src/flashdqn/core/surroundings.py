"""What an environment may change in the whole process and our own code relies on: signal handlers, streams, and
settings of PyTorch and NumPy. All are set again after its calls."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from flashdqn.core.signals import STOP_SIGNALS, Interrupt

#: Our handlers of the signals that stop a run.
HANDLERS: dict[signal.Signals, Any] = {}


def note_handlers() -> None:
    """Remember our handlers, before an environment's code runs."""
    for name in STOP_SIGNALS:
        handler = signal.getsignal(name)
        if isinstance(getattr(handler, "__self__", None), Interrupt):
            HANDLERS[name] = handler


def list_lost_handlers() -> list[signal.Signals]:
    """Signals whose handler an environment has replaced, while ours should answer."""
    return [
        name
        for name, ours in HANDLERS.items()
        if ours.__self__.is_open
        and not isinstance(getattr(signal.getsignal(name), "__self__", None), Interrupt)
    ]


def restore_handlers() -> None:
    """Set our handlers again; only the main thread can."""
    if threading.current_thread() is threading.main_thread():
        for name in list_lost_handlers():
            signal.signal(name, HANDLERS[name])


def open_closed_streams() -> None:
    """Let standard streams that were closed lead nowhere: the next file that is opened would take their place, and
    what is printed would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


class Surroundings:
    """Settings of the whole process that an environment may change and that our own code relies on."""

    def __init__(self) -> None:
        note_handlers()
        self.recursion = sys.getrecursionlimit()
        torch, numpy = (sys.modules.get(name) for name in ("torch", "numpy"))
        self.torch: tuple[Any, bool, Any] | None = None
        if torch is not None:
            self.torch = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_default_device()
        self.numpy: dict[str, Any] | None = None if numpy is None else numpy.geterr()

    def restore(self) -> None:
        """Set them as they were."""
        restore_handlers()
        open_closed_streams()
        if sys.getrecursionlimit() < self.recursion:
            sys.setrecursionlimit(self.recursion)
        if self.torch is not None:
            torch = sys.modules["torch"]
            torch.set_default_dtype(self.torch[0])
            torch.set_grad_enabled(self.torch[1])
            if torch.get_default_device() != (device := self.torch[2]):
                torch.set_default_device(None if device.type == "cpu" else device)
        if self.numpy is not None:
            sys.modules["numpy"].seterr(**self.numpy)


def restore_streams() -> None:
    """Set Python's own streams again where there is none: else results would be printed to nobody."""
    sys.stdout = sys.stdout or sys.__stdout__
    sys.stderr = sys.stderr or sys.__stderr__


def read_torch_defaults() -> tuple[Any, int] | None:
    """What a step may change and our own code relies on at once: the default dtype, and the number of modes such as
    a default device. This takes nanoseconds, `Surroundings` microseconds."""
    torch: Any = sys.modules.get("torch")
    return None if torch is None else (torch.get_default_dtype(), torch._C._len_torch_function_stack())


def restore_torch_defaults(before: tuple[Any, int]) -> None:
    """Set them as they were."""
    torch: Any = sys.modules["torch"]
    torch.set_default_dtype(before[0])
    if not before[1]:
        torch.set_default_device(None)
