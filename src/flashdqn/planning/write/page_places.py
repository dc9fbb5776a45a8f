"""Tables of places on the page: the breaks that save most, and the cells where a gap would cost most."""

from __future__ import annotations

import re
from string import ascii_uppercase

import numpy as np

from flashdqn.planning.estimates import Estimate, format_signed
from flashdqn.planning.frame import GridFrame, make_frame
from flashdqn.planning.report import PlanReport
from flashdqn.planning.worth import find_most_valuable
from flashdqn.show.page import escape, make_stacked_table

#: The name at the beginning of a coordinate system's well-known text.
SYSTEM_NAME = re.compile(r'[A-Z]+\["([^"]{1,60})"')


def make_valuable_section(report: PlanReport) -> str:
    """The ten breaks that save most, and where they are; empty where none was judged."""
    best, frame = find_most_valuable(report.groups), make_frame(report.problem.landscape)
    if not best:
        return ""
    head = ("break", "cells", "order", f"saves, {report.unit} a fire", *name_coordinates(frame))
    rows = []
    for group in best:
        order = (
            f"{group.first_order:,} – {group.last_order:,}"
            if group.first_order < group.last_order
            else f"{group.first_order:,}"
        )
        saves = "–" if group.worth is None else format_signed(group.worth)
        middle = int(group.cells[len(group.cells) // 2])
        name = f"{group.rank}. break {group.number}"
        rows.append((name, f"{len(group.cells):,}", order, saves, *describe_place(middle, frame)))
    note = (
        "A break is all cells that touch each other. It saves what the same fires would cost more if it alone were "
        "left out: breaks that only work together save little alone. The numbers on the first map are the ranks. "
        f"Coordinates are those of a cell in the break{describe_system(frame)}."
    )
    return f'<p class="soft">{escape(note)}</p>' + make_stacked_table(head, rows)


def make_gap_section(report: PlanReport) -> str:
    """The cells that must not be missed; empty where a single gap costs nothing."""
    if not report.gaps:
        return ""
    frame = make_frame(report.problem.landscape)
    head = ("cell", "order", f"costs, {report.unit} a fire", *name_coordinates(frame))
    rows = []
    for letter, gap in zip(ascii_uppercase, report.gaps, strict=False):
        costs = format_signed(Estimate(gap.saved.mean, gap.saved.error))
        rows.append((letter, f"{gap.place + 1:,}", costs, *describe_place(gap.cell, frame)))
    note = (
        "What the same fires would cost more if one of these cells alone were not cleared; of neighbors, only "
        "the worst is named. The letters are on the last map."
    )
    return f'<p class="soft">{escape(note)}</p>' + make_stacked_table(head, rows)


def name_coordinates(frame: GridFrame) -> tuple[str, ...]:
    """The heads of the columns of `describe_place`."""
    return ("row, column", "x", "y") if frame.is_placed else ("row, column", "x, m", "y, m")


def describe_place(cell: int, frame: GridFrame) -> tuple[str, str, str]:
    """Row and column of a cell, and the coordinates of its center."""
    row, column = divmod(cell, frame.shape[1])
    x, y = frame.locate_centers(np.array([cell]))[0]
    return f"{row}, {column}", f"{x:.0f}", f"{y:.0f}"


def describe_system(frame: GridFrame) -> str:
    """The coordinate system's name, after what it is of; the rest of a long description is not repeated."""
    if not frame.is_placed:
        return ""
    found = SYSTEM_NAME.match(frame.crs)
    name = found[1] if found else frame.crs if len(frame.crs) < 40 else "the landscape's own system"
    return f", in {name}"
