"""Scale bars of a round length."""

from __future__ import annotations

from flashdqn.show.chart_axis import choose_round_limit


def choose_scale_bar(columns: int, cell_size: float, share: float = 0.16) -> tuple[float, str]:
    """A round length of between a sixth and about half of the map's width: in cells, and in words."""
    meters = choose_round_limit(share * columns * cell_size)
    words = f"{meters / 1000:g} km" if meters >= 1000 else f"{meters:g} m"
    return meters / cell_size, words
