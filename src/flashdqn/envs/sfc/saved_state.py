"""Whether a saved state of service chains can be one: every list of requests ends, and every count is right.

The kernels follow lists and paths, and use what they find as indices, without a look at where these lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.core.saved import require_everywhere, require_range
from flashdqn.envs.sfc import layout
from flashdqn.envs.sfc.layout import NOBODY, Net

Whole = NDArray[np.int64]
#: More parts of a step than any episode has.
LATEST = 2**30


def check_network_state(saved: Mapping[str, Tensor], net: Net) -> None:
    """Refuse a state that no episode has; `net` has the tables that it belongs to."""
    state = _read_all({name: x for name, x in saved.items() if name in Net._fields})
    tables = _read_all({name: getattr(net, name) for name in ("params", "stages", "chains")})
    check_numbers(state, tables)
    check_paths(state)
    network, number, places = follow_lists(state)
    check_counts(state, tables, network, number, places)


def _read_all(tensors: Mapping[str, Any]) -> dict[str, Whole]:
    return {name: x.cpu().numpy().astype(np.int64) for name, x in tensors.items()}


def _require(condition: Any, what: str) -> None:
    require_everywhere(torch.as_tensor(np.asarray(condition)), what)


def check_numbers(state: Mapping[str, Whole], tables: Mapping[str, Whole]) -> None:
    """Refuse numbers that lie outside of what they count."""
    params, chains, column = tables["params"], tables["chains"], state["state"]
    dcs, requests = state["head"].shape[2], state["request"].shape[1]
    most_bundles = int(params[layout.MAX_BUNDLES])
    for what, values, low, high in (
        ("a number of data centers", column[:, layout.DCS], 1, dcs),
        ("a number of bundles", column[:, layout.BUNDLES], 0, most_bundles),
        ("a bundle", column[:, layout.ARRIVED], 0, most_bundles),
        ("a time", column[:, layout.NOW], -1, LATEST),
        ("a number of actions", column[:, layout.ACTIONS], 0, LATEST),
        ("a number of waits", column[:, layout.WAITS], 0, LATEST),
        ("an end", column[:, layout.OVER], 0, 1),
        ("a list", state["head"], NOBODY, requests - 1),
        ("a list", state["tail"], NOBODY, requests - 1),
        ("a list", state["wheel"], NOBODY, requests - 1),
        ("a next request", state["request"][..., layout.NEXT], NOBODY, requests - 1),
        ("a chain", state["request"][..., layout.CHAIN], 0, len(chains) - 1),
        ("a request's bundle", state["request"][..., layout.BUNDLE], 0, most_bundles - 1),
        ("a bandwidth", state["request"][..., layout.BANDWIDTH], 0, 2**31 - 1),
        ("a place", state["places"], 0, dcs - 1),
        ("a place", state["request"][..., layout.PLACE], 0, dcs - 1),
        ("a source", state["request"][..., layout.SOURCE], 0, dcs - 1),
        ("a target", state["request"][..., layout.TARGET], layout.NOWHERE, dcs - 1),
        ("a number of idle instances", state["idle"], 0, 2**31 - 1),
    ):
        require_range(what, torch.from_numpy(values), low, high)
    here = column[:, layout.DCS]
    for name in (layout.TURN, layout.DC):
        _require((column[:, name] >= 0) & (column[:, name] < here), "a turn must be that of a data center")
    used = np.arange(dcs) < here[:, None]
    order = state["order"]
    _require(((order >= 0) & (order < here[:, None])) | ~used, "an order must be one of data centers")
    _require(column[:, layout.ARRIVED] <= column[:, layout.BUNDLES], "a bundle must have been planned")
    each = int(chains[:, layout.COUNT_HIGH].sum())
    asked = column[:, layout.REQUESTS]
    _require((asked >= 0) & (asked <= each * column[:, layout.ARRIVED]), "requests must come in bundles")
    kind = state["request"][..., layout.CHAIN]
    position = state["request"][..., layout.POSITION]
    _require((position >= 0) & (position < chains[kind, layout.LENGTH]), "a request must be in its chain")
    _require(state["installed"] >= state["idle"], "an idle instance must be installed")


def check_paths(state: Mapping[str, Whole]) -> None:
    """Refuse next hops that never arrive."""
    hop, dcs = state["hop"], state["state"][:, layout.DCS]
    n, most, _ = hop.shape
    used = np.arange(most) < dcs[:, None]
    pairs = used[:, :, None] & used[:, None, :]
    _require(((hop >= 0) & (hop < dcs[:, None, None])) | ~pairs, "a hop must lead to a data center")
    hop = np.where(pairs, hop, 0)
    target = np.broadcast_to(np.arange(most), hop.shape)
    at = np.broadcast_to(np.arange(most)[:, None], hop.shape)
    for _ in range(most):
        at = np.where(at == target, at, hop[np.arange(n)[:, None, None], at, target])
    _require((at == target) | ~pairs, "every path must arrive")


def follow_lists(state: Mapping[str, Whole]) -> tuple[Whole, Whole, Whole]:
    """All requests that are in a list, as three columns: the network, the request, and its list: a queue's place
    in `head`, or -1 in the wheel. Refuses lists that do not end, meet, or are not in order."""
    request, head, tail, wheel = (state[name] for name in ("request", "head", "tail", "wheel"))
    n, requests = request.shape[:2]
    first = np.concatenate([head.reshape(n, -1), wheel], 1)
    last = tail.reshape(n, -1)
    queues = last.shape[1]
    seen = np.zeros((n, requests), dtype=bool)
    _require((head == NOBODY) == (tail == NOBODY), "a queue must have both ends")
    network, queue = np.nonzero(first != NOBODY)
    number = first[network, queue]
    found: list[tuple[Whole, Whole, Whole]] = []
    while len(number):
        _require(~seen[network, number], "a request must be in one list")
        seen[network, number] = True
        _require(seen.sum() == sum(len(x[0]) for x in found) + len(number), "a request must be in one list")
        queued = queue < queues
        found.append((network, number, np.where(queued, queue, -1)))
        following = request[network, number, layout.NEXT]
        ends = following == NOBODY
        at = np.minimum(queue, queues - 1)
        _require(~queued | (ends == (last[network, at] == number)), "a queue must end with its last")
        _require(~queued | ends | (following > number), "a queue must be in order")
        network, queue, number = network[~ends], queue[~ends], following[~ends]
    columns = [np.concatenate([x[k] for x in found] or [np.zeros(0, np.int64)]) for k in range(3)]
    return columns[0], columns[1], columns[2]


def check_counts(
    state: Mapping[str, Whole],
    tables: Mapping[str, Whole],
    network: Whole,
    number: Whole,
    queue: Whole,
) -> None:
    """Refuse counts that are not those of the lists."""
    request, dcs = state["request"][network, number], state["head"].shape[2]
    here = state["state"][network, layout.DCS]
    _require(number < state["state"][network, layout.REQUESTS], "a listed request must have arrived")
    places = [request[:, field] for field in (layout.PLACE, layout.SOURCE, layout.TARGET)]
    for place in places:
        _require(place < here, "a request must be at a data center")
    stage = tables["chains"][request[:, layout.CHAIN], layout.FIRST] + request[:, layout.POSITION]
    queued = queue >= 0
    _require(~queued | (queue == stage * dcs + places[0]), "a request must wait where it is")
    served = np.arange(state["places"].shape[2]) < (request[:, layout.POSITION] + ~queued)[:, None]
    _require(
        (state["places"][network, number] < here[:, None]) | ~served, "a service must be at a data center"
    )
    cell = tables["stages"][stage, layout.STAGE_CELL]
    for name, which in (("waiting", queued), ("busy", ~queued)):
        count = np.zeros_like(state[name])
        np.add.at(count, (network[which], places[0][which], cell[which]), 1)
        used = np.arange(dcs)[:, None] < state["state"][:, layout.DCS, None, None]
        _require((count == state[name]) | ~used, f"`{name}` must be what the lists hold")
        if name == "waiting":
            _require(count.sum(1) == state["demand"], "`demand` must be what the lists hold")
    todo = np.zeros_like(state["todo"])
    unserved = stage + ~queued  # where a service goes on, the next stage is to be allocated
    open_ = queued | (tables["stages"][stage, layout.STAGE_LAST] == 0)
    np.add.at(todo, (network[open_], request[open_, layout.BUNDLE], unserved[open_]), 1)
    _require(todo == state["todo"], "`todo` must be what the lists hold")
    left = np.zeros_like(state["unfinished"])
    np.add.at(left, (network, request[:, layout.BUNDLE], request[:, layout.CHAIN]), 1)
    _require(left == state["unfinished"], "`unfinished` must be what the lists hold")
    _require(left.sum((1, 2)) == state["state"][:, layout.LEFT], "`left` must be what the lists hold")
