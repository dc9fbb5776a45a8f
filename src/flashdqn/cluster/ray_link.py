"""The way to Ray: whether it is installed and can be reached, in one sentence and within seconds."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.text import clean_line

#: Seconds in which a port must answer, and in which Ray must after that.
PORT_SECONDS, CONNECT_SECONDS = 3.0, 30.0
#: What Ray is told before it is imported, unless the user has said otherwise: Train's second version, no news about
#: its users, no banners, and signals that are ours.
SETTINGS = {
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}


def import_ray() -> Any:
    """Ray, or a sentence that says how to install it."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
            import ray.train.torch
            import ray.tune
    except ImportError:
        raise ConfigError("--launcher ray needs Ray: pip install 'flashdqn[ray]'.") from None
    return ray


def find_address(asked: str) -> str:
    """The cluster that is meant: the flag's, or the environment's; empty: none, and one is started here."""
    return asked or os.environ.get("RAY_ADDRESS", "")


def check_reachable(address: str) -> None:
    """Refuse an address that nothing answers at, before Ray waits for it."""
    if address in ("", "auto", "local"):
        return
    found = re.fullmatch(r"(?:ray://)?(\[[^\]]+\]|[^:/]+):(\d{1,5})", address)
    if found is None or int(found[2]) > 65535:
        raise ConfigError(f"--ray-address is written HOST:PORT, and {describe_value(address)} is not.")
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), PORT_SECONDS).close()
    except OSError as error:
        reason = clean_line(str(error.strerror or error), 100)
        raise ConfigError(
            f"There is no Ray at {address}: {reason}. Start one with `ray start --head`."
        ) from None


@contextmanager
def connect_ray(asked: str, cpus: int | None = None) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one that is started on this machine and ends with the context."""
    ray = import_ray()
    address = find_address(asked)
    check_reachable(address)
    logging.getLogger("ray").setLevel(logging.ERROR)
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if not address or address == "local":
        # Not in another thread: the processes that it starts would end with that thread.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address="local", include_dashboard=False, num_cpus=cpus, **options)
    else:
        _call_within(CONNECT_SECONDS, address, lambda: ray.init(address=address, **options))
    try:
        yield ray
    finally:
        ray.shutdown()


def _call_within(seconds: float, address: str, function: Any) -> None:
    """Call a function that may wait for ever, in a thread that may be left behind."""
    problem: list[BaseException] = []

    def call() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function()
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise ConfigError(f"Ray at {address} has not answered for {seconds:g} s.")
    if problem:
        reason = clean_line(str(problem[0]), 200).rstrip(".")
        raise ConfigError(f"Ray at {address} cannot be reached: {reason}.") from None
