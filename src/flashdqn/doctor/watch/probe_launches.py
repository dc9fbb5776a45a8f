"""Updates that are limited by starting small operations on a GPU: what they take when they are started otherwise.

The update of a copy, three ways against the script's own: captured as a CUDA graph, compiled, and on the CPU.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from .counters import Forward, describe_failure
from .probe_copies import copy_inputs, copy_network, copy_optimizer, sum_outputs, time_in_turns
from .schema import LaunchTimes

WARM_UP = 3
BLOCK = 10


class GraphTools:
    """What a GPU needs; a test may do without one."""

    device = "cuda"
    changes: ClassVar[dict[str, Any]] = {"capturable": True}
    """Settings without which an optimizer's step cannot be captured."""

    def warm_up(self, action: Callable[[], object]) -> None:
        """Run something beside the main stream a few times, as capturing demands."""
        torch = sys.modules["torch"]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                action()
        torch.cuda.current_stream().wait_stream(stream)

    def capture(self, action: Callable[[], object]) -> Callable[[], object]:
        """The same work as one graph."""
        torch = sys.modules["torch"]
        self.warm_up(action)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            action()
        replay: Callable[[], object] = graph.replay
        return replay

    def compile(self, network: Any) -> Any:
        """The same network, compiled, with its kernels in graphs."""
        return sys.modules["torch"].compile(network, mode="reduce-overhead")


def is_launch_case(forward: Forward | None, optimizer: Any, tools: GraphTools) -> bool:
    """Whether there is an update on the device to try."""
    if forward is None or optimizer is None:
        return False
    return bool(next(iter(forward.module.parameters())).device.type == tools.device)


def make_update(
    forward: Forward,
    optimizer: Any,
    device: Any = None,
    wrap: Callable[[Any], Any] | None = None,
    **changes: Any,
) -> Callable[[], object]:
    """An update of copies: forward, backward, the optimizer's step; `wrap` may replace the network's call."""
    network = copy_network(forward.module)
    data = copy_inputs(forward)
    if device is not None:
        network, data = network.to(device), data.to(device)
    made_of = {id(old): new for old, new in zip(forward.module.parameters(), network.parameters())}  # noqa: B905
    mine = copy_optimizer(optimizer, made_of, **changes)
    if device is not None:
        move_state(mine, device)
    if not any(group["params"] for group in mine.param_groups):
        raise ValueError("the optimizer does not train this network")

    call = network if wrap is None else wrap(network)

    def update() -> None:
        mine.zero_grad(set_to_none=True)
        sum_outputs(call(data)).backward()
        mine.step()

    return update


def move_state(optimizer: Any, device: Any) -> None:
    """Move an optimizer's state to where its parameters are."""
    for state in optimizer.state.values():
        for key, value in state.items():
            if hasattr(value, "to"):
                state[key] = value.to(device)


def probe_launches(
    forward: Forward | None, optimizer: Any, actor: Forward | None, tools: GraphTools
) -> LaunchTimes | None:
    """The update as it is, as a graph, and on the CPU; and acting on both devices."""
    if forward is None or not is_launch_case(forward, optimizer, tools):
        return None
    times = LaunchTimes(time_block(make_update(forward, optimizer)))
    ways: dict[str, Callable[[], float]] = {
        "graph": lambda: time_block(tools.capture(make_update(forward, optimizer, **tools.changes))),
        "cpu": lambda: time_block(make_update(forward, optimizer, "cpu", fused=None, capturable=False)),
        "small": lambda: time_block(make_small_operation(tools.device)),
        "small_cpu": lambda: time_block(make_small_operation("cpu")),
        "acting": lambda: time_in_turns(make_acting(actor, None))[0],
        "acting_cpu": lambda: time_in_turns(make_acting(actor, "cpu"))[0],
    }
    return try_ways(times, ways)


def add_compiled(times: LaunchTimes, forward: Forward, optimizer: Any, tools: GraphTools) -> LaunchTimes:
    """The same with the compiled update: apart, because compiling may take a minute."""
    logging.disable(logging.WARNING)  # the compiler's remarks are not about the script
    try:
        update = {"compiled": lambda: time_block(make_update(forward, optimizer, wrap=tools.compile))}
        return try_ways(times, update)
    finally:
        logging.disable(logging.NOTSET)


def time_block(action: Callable[[], object]) -> float:
    """Seconds of one of several in a row: a GPU is not waited for after each, as in a script."""

    def block() -> None:
        for _ in range(BLOCK):
            action()

    return time_in_turns(block)[0] / BLOCK


def make_small_operation(device: str) -> Callable[[], object]:
    """The smallest operation: what it takes is its start."""
    torch = sys.modules["torch"]
    tensor = torch.ones(64, device=device)

    def operate() -> None:
        torch.add(tensor, tensor)

    return operate


def try_ways(times: LaunchTimes, ways: dict[str, Callable[[], float]]) -> LaunchTimes:
    """Add what each way takes; one that does not work is noted."""
    for name, way in ways.items():
        try:
            times = replace(times, **{name: way()})  # type: ignore[arg-type]
        except Exception as error:
            failure = describe_failure(f"launches: {name}", error)
            times = replace(times, failed=(*times.failed, failure))
    return times


def make_acting(actor: Forward | None, device: Any) -> Callable[[], object]:
    """A call for acting, with its result on the host, where the environment is."""
    if actor is None:
        raise ValueError("no network was seen to act")
    torch = sys.modules["torch"]
    network, data = copy_network(actor.module), copy_inputs(actor)
    if device is not None:
        network, data = network.to(device), data.to(device)

    def act() -> None:
        with torch.no_grad():
            sum_outputs(network(data)).item()

    return act
