"""Ranks: the processes of one training, and what they tell each other.

Every rank runs the whole loop on its own share of the boards. `torchrun` starts them and says in the environment
who is who; where `torch.distributed` is initialized already, as in a worker of Ray Train, they join that group. A
single process is `ALONE`: it has no group, and nothing here costs it anything.

All ranks must make the same calls in the same order. Objects travel as JSON, so nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.errors import RankLostError
from flashdqn.core.rank_place import RankPlace

#: A rank that says nothing for this long is given up. One whose process ends is noticed at once.
PATIENCE = timedelta(minutes=30)
#: Seconds in which a rank looks for the one that has ended.
LOOK_SECONDS = 1.0
#: Bytes that are sent at a time.
PIECE = 2**26


@dataclass
class Waiting:
    """Seconds that this rank has spent in exchanges, most of them waiting for slower ranks."""

    gradients: float = 0.0
    counts: float = 0.0
    exchanges: int = 0

    @property
    def total(self) -> float:
        """All of them."""
        return self.gradients + self.counts


class Ranks:
    """This process among the ranks of its training."""

    def __init__(
        self,
        place: RankPlace,
        group: Any = None,
        host: Any = None,
        owned: bool = False,
        device: torch.device | None = None,
    ) -> None:
        """`group` is for tensors of the learner's `device`, `host` for those of the CPU; None: no exchange."""
        self.rank, self.world, self.local_rank, self.local_world = place
        self.device = device
        self._group, self._host, self._owned = group, host or group, owned
        self.waited = Waiting()
        self._muted = False
        self._members: list[tuple[str, int]] = []  # machine and process of every rank
        if group is not None:
            self._members = self.gather([socket.gethostname(), os.getpid()])

    @property
    def many(self) -> bool:
        """Whether there is an exchange with others at all."""
        return self._group is not None

    @property
    def leads(self) -> bool:
        """Whether this rank writes: run folder, checkpoints, progress."""
        return self.rank == 0

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can hold an exchange: NCCL's, but not gloo's."""
        return not self.many or self.captures

    @property
    def captures(self) -> bool:
        """Whether CUDA graphs will hold exchanges."""
        return self.many and self.backend == "nccl"

    @property
    def backend(self) -> str:
        """What carries the exchange of the learner's device: nccl or gloo; empty if nothing does."""
        return "" if not self.many else name_backend(self._group)

    def sum_(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all ranks, in place."""
        self._reduce(tensor, "SUM")

    def average_(self, tensor: Tensor) -> None:
        """Replace a tensor by its mean over all ranks, in place."""
        if self.many:
            self._reduce(tensor, "SUM")
            tensor.div_(1 if self._muted else self.world)

    def minimum_(self, tensor: Tensor) -> None:
        """Replace a tensor by its smallest values over all ranks, in place."""
        self._reduce(tensor, "MIN")

    def exchange_gradient(self, gradient: Tensor) -> None:
        """Average the flat gradient, [P], in place: `Parts.exchange`. The host's time in it is counted."""
        start = time.perf_counter()
        self.average_(gradient)
        self.waited.gradients += time.perf_counter() - start
        self.waited.exchanges += 1

    def share(self, value: Any) -> Any:
        """The leader's value, on every rank. It must be JSON; alone, it is returned as it is."""
        if not self.many:
            return value
        data = encode(value) if self.leads else torch.empty(0, dtype=torch.uint8)
        size = torch.tensor([len(data)])
        self._broadcast(size)
        data = data if self.leads else torch.empty(int(size), dtype=torch.uint8)
        self._broadcast(data)
        return decode(data)

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on every rank, as JSON."""
        if not self.many:
            return [value]
        data = encode(value)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        with self._noticing_losses():
            torch.distributed.all_gather(sizes, torch.tensor([len(data)]), group=self._host)
        most = int(max(int(size) for size in sizes))
        padded = torch.zeros(most, dtype=torch.uint8)
        padded[: len(data)] = data
        answers = [torch.zeros(most, dtype=torch.uint8) for _ in range(self.world)]
        with self._noticing_losses():
            torch.distributed.all_gather(answers, padded, group=self._host)
        return [decode(answer[: int(size)]) for answer, size in zip(answers, sizes, strict=True)]

    def any(self, flag: bool) -> bool:
        """Whether it is true on one of the ranks."""
        if not self.many:
            return flag
        said = torch.tensor([int(flag)])
        self._reduce(said, "MAX")
        return bool(said)

    def send(self, tensor: Tensor, to: int) -> None:
        """Send the bytes of a tensor to one rank, which calls `receive`."""
        for piece in torch.split(as_bytes(tensor.cpu()), PIECE):
            with self._noticing_losses():
                torch.distributed.send(piece, group_dst=to, group=self._host)

    def receive(self, like: Tensor, sender: int) -> Tensor:
        """A new tensor on the CPU, of the shape and type of `like`, that one rank sends."""
        found = torch.empty(like.shape, dtype=like.dtype)
        for piece in torch.split(as_bytes(found), PIECE):
            with self._noticing_losses():
                torch.distributed.recv(piece, group_src=sender, group=self._host)
        return found

    def end(self) -> None:
        """Leave the group, if it was made here."""
        if self._owned:
            self._owned = False
            self._group = self._host = None  # a group that outlives this call would abort the process
            torch.distributed.destroy_process_group()

    def _reduce(self, tensor: Tensor, by: str) -> None:
        if not self.many or self._muted:
            return
        operation = getattr(torch.distributed.ReduceOp, by)
        group = self._host if tensor.device.type == "cpu" else self._group
        with self._noticing_losses():
            torch.distributed.all_reduce(tensor, op=operation, group=group)

    def _broadcast(self, tensor: Tensor) -> None:
        with self._noticing_losses():
            torch.distributed.broadcast(tensor, group_src=0, group=self._host)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Sums, means and minima are this rank's own in here: for trials, which other ranks do not make."""
        before, self._muted = self._muted, True
        try:
            yield
        finally:
            self._muted = before

    @contextmanager
    def _noticing_losses(self) -> Iterator[None]:
        """A broken connection means that another rank has ended."""
        try:
            yield
        except RuntimeError as error:
            if is_capturing():  # what cannot be captured is not a lost rank
                raise
            raise RankLostError(self.describe_loss()) from error

    def describe_loss(self) -> str:
        """Which rank has ended, as far as this machine knows."""
        here = socket.gethostname()
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until:
            for rank, (host, process) in enumerate(self._members):
                if rank != self.rank and host == here and has_ended(process):
                    return f"Rank {rank} (process {process}) has ended, and rank {self.rank} with it"
            time.sleep(0.05)
        return f"Rank {self.rank} has lost another rank, which cannot be reached any more"


#: A single process.
ALONE = Ranks(RankPlace(0, 1))


def has_ended(process: int) -> bool:
    """Whether a process of this machine has ended; perhaps nobody has asked for its exit code yet."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return True
    return state.split()[:1] in (["Z"], ["X"])


def is_capturing() -> bool:
    """Whether a CUDA graph is being recorded."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def start_ranks(place: RankPlace, device: torch.device, patience: timedelta = PATIENCE) -> Ranks:
    """Join the others by the launcher's environment variables: NCCL where every rank has a GPU of its own, else
    gloo."""
    own_gpu = device.type == "cuda" and place.local_world <= torch.cuda.device_count()
    backend = "cpu:gloo,cuda:nccl" if own_gpu else "gloo"
    try:
        torch.distributed.init_process_group(
            backend,
            store=connect_store(place, patience),
            rank=place.rank,
            world_size=place.world,
            timeout=patience,
            device_id=device if own_gpu else None,
        )
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RankLostError(
            f"Rank {place.rank} of {place.world} cannot meet the others at {where}: {first_line(error)}"
        ) from None
    return Ranks(place, torch.distributed.group.WORLD, owned=True, device=device)


def connect_store(place: RankPlace, patience: timedelta) -> Any:
    """Where the ranks find each other: at MASTER_ADDR and MASTER_PORT, which torchrun or rank 0 serves. After a
    restart by torchrun, what the ranks before have left there must not be read."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    serves = place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    distributed: Any = torch.distributed  # its stubs do not list the stores
    store = distributed.TCPStore(address, port, place.world, is_master=serves, timeout=patience)
    return distributed.PrefixStore(f"flashdqn/attempt {attempt}", store)


def adopt_ranks(device: torch.device | None = None) -> Ranks:
    """The ranks of the process group that somebody else, such as Ray Train, has initialized; alone if there is
    none, or only one rank. `device` is this rank's."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() < 2:
        return ALONE
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")
    local = (int(os.environ.get(name, str(k))) for k, name in enumerate(names))
    place = RankPlace(distributed.get_rank(), distributed.get_world_size(), *local)
    group = distributed.group.WORLD
    host = None if "gloo" in name_backend(group, "cpu") else distributed.new_group(backend="gloo")
    return Ranks(place, group, host, device=device)


def name_backend(group: Any, device: str = "") -> str:
    """What carries a group's tensors of one kind of device: of CUDA, if it can, or else of the CPU."""
    config = str(torch.distributed.get_backend_config(group))  # "cpu:gloo,cuda:nccl"
    by_device = dict(part.split(":") for part in config.split(",") if ":" in part)
    if device:
        return by_device.get(device, "")
    return by_device.get("cuda", "") or by_device.get("cpu", "")


def choose_rank_device(name: str, place: RankPlace) -> torch.device:
    """The device of a rank: the GPUs of a machine are dealt out in turn."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()) or torch.cuda.device_count() == 0:
        return torch.device("cpu")
    return torch.device("cuda", place.local_rank % torch.cuda.device_count())


def time_exchange(ranks: Ranks, tensor: Tensor, rounds: int = 10) -> float:
    """Median seconds of averaging such a tensor over the ranks; all of them measure together."""
    times = []
    synchronize: Callable[[], object] = torch.cuda.synchronize if tensor.is_cuda else lambda: None
    for _ in range(rounds + 2):
        synchronize()
        start = time.perf_counter()
        ranks.average_(tensor)
        synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times[2:])[rounds // 2]


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor, [bytes] uint8, in the same memory."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def encode(value: Any) -> Tensor:
    """JSON as bytes, [n] uint8."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def decode(data: Tensor) -> Any:
    """What `encode` has encoded."""
    return json.loads(bytes(data.numpy()).decode())


def first_line(error: BaseException) -> str:
    """The first line of an error, without the C++ stack that may follow."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
