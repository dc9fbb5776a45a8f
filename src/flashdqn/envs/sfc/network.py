"""Drawing a network, its shortest paths, and the bandwidth along them; scalar kernel code."""

from __future__ import annotations

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.random_bits import below, random_bits
from flashdqn.envs.sfc.layout import (
    CPU,
    CPU_HIGH,
    CPU_LOW,
    DCS,
    GIVEN,
    LINK_KBPS,
    MESH,
    RAM,
    RANDOM,
    SITE_RAM,
    SITE_STORAGE,
    SPAN_KM,
    STORAGE,
    TOPOLOGY,
    X_KM,
    Y_KM,
    Net,
)
from flashdqn.envs.sfc.tables import US_PER_KM

FAR = 1 << 28
_SQUARE = US_PER_KM * US_PER_KM


@inner
def draw_network_number(i: Scalar, n: Scalar, rng: Array) -> Scalar:
    """A random number below `n` from network `i`'s stream."""
    bits = random_bits(rng[i, 0], rng[i, 1])
    rng[i, 1] += 1
    return below(bits, n)


@inner
def integer_root(square: Scalar) -> Scalar:
    """⌊√square⌋ by Newton's steps on whole numbers, so all devices agree."""
    if square < 2:
        return square
    guess = square
    better = (guess + 1) >> 1
    while better < guess:
        guess = better
        better = (guess + square // guess) >> 1
    return guess


@inner
def draw_sites(i: Scalar, net: Net) -> None:
    """Draw capacities and positions of the data centers; the diagonals of `delay` and `hop` hold the positions
    for now."""
    dcs, given = net.state[i, DCS], net.params[TOPOLOGY] == GIVEN
    for d in range(dcs):
        low = net.sites[d, CPU_LOW]
        net.capacity[i, d, CPU] = low + draw_network_number(i, net.sites[d, CPU_HIGH] - low + 1, net.rng)
        net.capacity[i, d, STORAGE] = net.sites[d, SITE_STORAGE]
        net.capacity[i, d, RAM] = net.sites[d, SITE_RAM]
        for k in range(3):
            net.free[i, d, k] = net.capacity[i, d, k]
        if given:
            net.delay[i, d, d] = net.sites[d, X_KM]
            net.hop[i, d, d] = net.sites[d, Y_KM]
        else:
            net.delay[i, d, d] = draw_network_number(i, net.params[SPAN_KM] + 1, net.rng)
            net.hop[i, d, d] = draw_network_number(i, net.params[SPAN_KM] + 1, net.rng)


@inner
def has_link(i: Scalar, a: Scalar, b: Scalar, parent: Scalar, net: Net) -> Scalar:
    """Whether a drawn topology has a link between a < b; `parent` is b's in the random tree."""
    kind, dcs = net.params[TOPOLOGY], net.state[i, DCS]
    if kind == MESH:
        return True
    if kind == RANDOM:
        return a == parent or draw_network_number(i, 2, net.rng) == 1
    return b == a + 1 or (a == 0 and b == dcs - 1)


@inner
def draw_links(i: Scalar, net: Net) -> None:
    """Links with their bandwidth and delay; between data centers without one the delay is FAR."""
    given = net.params[TOPOLOGY] == GIVEN
    for b in range(1, net.state[i, DCS]):
        parent = draw_network_number(i, b, net.rng) if net.params[TOPOLOGY] == RANDOM else 0
        for a in range(b):
            if given:
                kbps, delay = net.wires[a, b, 0], net.wires[a, b, 1]
            else:
                kbps, delay = 0, FAR
                if has_link(i, a, b, parent, net):
                    east = net.delay[i, a, a] - net.delay[i, b, b]
                    north = net.hop[i, a, a] - net.hop[i, b, b]
                    kbps, delay = net.params[LINK_KBPS], integer_root(_SQUARE * (east * east + north * north))
            net.wire[i, a, b] = kbps
            net.wire[i, b, a] = kbps
            net.link[i, a, b] = kbps
            net.link[i, b, a] = kbps
            net.delay[i, a, b] = delay
            net.delay[i, b, a] = delay


@inner
def find_shortest_paths(i: Scalar, net: Net) -> None:
    """Shortest paths by delay between all data centers (Floyd and Warshall), as delays and next hops."""
    dcs = net.state[i, DCS]
    for a in range(dcs):
        for b in range(dcs):
            net.hop[i, a, b] = b
        net.delay[i, a, a] = 0
    for middle in range(dcs):
        for a in range(dcs):
            for b in range(dcs):
                through = net.delay[i, a, middle] + net.delay[i, middle, b]
                if through < net.delay[i, a, b]:
                    net.delay[i, a, b] = through
                    net.hop[i, a, b] = net.hop[i, a, middle]


@inner
def path_has_bandwidth(i: Scalar, a: Scalar, b: Scalar, kbps: Scalar, net: Net) -> Scalar:
    """Whether every link of the path from a to b has `kbps` of bandwidth free."""
    while a != b:
        onward = net.hop[i, a, b]
        if net.link[i, a, onward] < kbps:
            return False
        a = onward
    return True


@inner
def reserve_bandwidth(i: Scalar, a: Scalar, b: Scalar, kbps: Scalar, net: Net) -> None:
    """Take bandwidth along the path from a to b; a negative amount gives it back."""
    while a != b:
        onward = net.hop[i, a, b]
        net.link[i, a, onward] -= kbps
        net.link[i, onward, a] -= kbps
        a = onward


@inner
def paths_have_bandwidth(i: Scalar, a: Scalar, b: Scalar, c: Scalar, kbps: Scalar, net: Net) -> Scalar:
    """Whether the paths from a to b and on to c have `kbps` of bandwidth free, also where they share a link."""
    if not path_has_bandwidth(i, a, b, kbps, net):
        return False
    reserve_bandwidth(i, a, b, kbps, net)
    enough = path_has_bandwidth(i, b, c, kbps, net)
    reserve_bandwidth(i, a, b, -kbps, net)
    return enough
