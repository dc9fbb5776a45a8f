"""A network as text, to look at."""

from __future__ import annotations

from flashdqn.envs.sfc import layout
from flashdqn.envs.sfc.env import ServiceChains


def render_network(env: ServiceChains, i: int) -> str:
    """Data centres with what they have installed (busy / all), links in use, and requests.

    It reads the device: for people, not for training.
    """
    net, tables = env.net, env.tables
    state = net.state[i].tolist()
    dcs = state[layout.DCS]
    names = [site.name for site in tables.sites] or [f"DC {d}" for d in range(dcs)]
    lines = [
        f"{state[layout.NOW] * env.config.slot_us / 1000:g} ms, bundle {state[layout.ARRIVED]} of "
        f"{state[layout.BUNDLES]}, {state[layout.LEFT]} requests pending"
    ]
    for d in range(dcs):
        turn = ">" if d == state[layout.DC] else " "
        free, all_ = (int(x[i, d, layout.CPU]) for x in (net.free, net.capacity))
        counts = zip(tables.vnfs, net.installed[i, d].tolist(), net.idle[i, d].tolist(), strict=True)
        inside = "  ".join(f"{vnf.name} {n - idle}/{n}" for vnf, n, idle in counts if n)
        lines.append(f"{turn} {names[d]:<10} CPU {all_ - free:>3} of {all_:<3}  {inside}")
    for a in range(dcs):
        for b in range(a + 1, dcs):
            if used := int(net.wire[i, a, b] - net.link[i, a, b]):
                lines.append(
                    f"  {names[a]} – {names[b]}: {used / 1000:g} of {net.wire[i, a, b] / 1000:g} Mbit/s"
                )
    for chain, row in zip(tables.chains, net.tally[i].tolist(), strict=True):
        asked, good, dropped = row[layout.ASKED], row[layout.SATISFIED], row[layout.DROPPED]
        lines.append(f"  {chain.name:<8} {asked:>4} asked, {good} satisfied, {dropped} dropped")
    return "\n".join(lines)
