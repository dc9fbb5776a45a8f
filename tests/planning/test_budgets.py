"""Budgets as people write them."""

from __future__ import annotations

import numpy as np
import pytest
from plan_report_data import make_problem

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.budgets import choose_budgets, find_allowed_cells, parse_budget


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("9ha", 100),  # a cell of 30 m has 0.09 ha
        ("0.09 ha", 1),
        ("0.26ha", 2),
        ("5%", 20),
        ("0.3%", 1),
        ("0.9km", 30),
        ("9 HA", 100),
        ("17", 17),
        (" 17 ", 17),
    ],
)
def test_every_form(text: str, cells: int) -> None:
    budget = parse_budget(text, make_problem())
    assert budget.amount == cells
    assert budget.text == text.strip()
    assert f"{cells:,} cell" in budget.meaning
    assert ("one cell (30 m) wide" in budget.meaning) == text.endswith("km")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is written as"),
        ("ha", "is written as"),
        ("-5", "is written as"),
        ("5 acres", "is written as"),
        ("nan", "is written as"),
        ("1e3", "is written as"),
        ("0", "less than one cell"),
        ("0.05ha", "less than one cell"),
        ("12.5", "whole number of cells"),
        ("401", "is 401 cells"),
        ("100%", "lower it"),
    ],
)
def test_what_cannot_be_spent_is_refused_in_one_sentence(text: str, words: str) -> None:
    value = np.zeros((20, 20), dtype=np.bool_)
    value[3, 4] = True
    with pytest.raises(ConfigError, match=words) as error:
        parse_budget(text, make_problem(stakes=Stakes(forbidden=value)))
    assert str(error.value).count(". ") == 0


def test_with_a_map_of_costs_a_budget_has_its_units() -> None:
    cost = np.full((20, 20), 2.5, dtype=np.float32)
    problem = make_problem(cost=cost)
    assert parse_budget("12.5", problem).amount == 12.5
    for text, words in (
        ("5%", "in its units"),
        ("2", "buys no break"),
        ("1e9", "written"),
        ("1001", "lower"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_budget(text, problem)


def test_forbidden_cells_take_no_breaks() -> None:
    forbidden = np.zeros((20, 20), dtype=np.bool_)
    forbidden[:10] = True
    problem = make_problem(stakes=Stakes(forbidden=forbidden))
    allowed = find_allowed_cells(problem)
    assert not allowed[:10].any()
    assert (allowed[10:] == problem.landscape.burnable[10:]).all()
    most = int(allowed.sum())
    assert parse_budget(str(most), problem).amount == most
    with pytest.raises(ConfigError, match=f"in {most:,} cells"):
        parse_budget(str(most + 1), problem)


def test_a_landscape_without_a_place_for_a_break_is_refused() -> None:
    everywhere = np.ones((20, 20), dtype=np.bool_)
    with pytest.raises(EnvError, match="no cell that burns and where a break may lie"):
        parse_budget("5%", make_problem(stakes=Stakes(forbidden=everywhere)))


def test_the_curve_ends_at_the_full_budget() -> None:
    problem = make_problem()
    assert choose_budgets(parse_budget("100", problem), (), problem) == (10, 20, 40, 60, 80, 100)
    assert choose_budgets(parse_budget("2", problem), (), problem) == (1, 2)
    assert choose_budgets(parse_budget("100", problem), ("5%", "1"), problem) == (1, 20, 100)
    with pytest.raises(ConfigError, match="more than --budget"):
        choose_budgets(parse_budget("10", problem), ("5%",), problem)
