"""A problem from the user's files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flashdqn.planning.read_problem import ProblemRequest, read_problem


@pytest.fixture
def forest(tmp_path: Path) -> Path:
    """A folder of Cell2Fire with weather and ignitions."""
    header = "ncols 3\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 30\n"
    (tmp_path / "fuels.asc").write_text(header + "101 101 102\n102 102 101\n")
    (tmp_path / "spain_lookup_table.csv").write_text("grid_value,fuel_type\n101,GR1\n102,GR2\n")
    (tmp_path / "Weather.csv").write_text(
        "Instance,datetime,WS,WD,FireScenario\na,1,30,225,1\na,2,30,225,1\na,3,10,90,2\n"
    )
    (tmp_path / "Ignitions.csv").write_text("Year,Ncell\n1,1\n2,6\n")
    return tmp_path


def test_the_weather_and_the_ignitions_of_a_cell2fire_folder_are_used(forest: Path) -> None:
    notes: list[str] = []
    problem = read_problem(ProblemRequest(forest), notes.append)
    assert [scenario.weather.wind_speed for scenario in problem.scenarios] == [30.0, 10.0]
    assert [scenario.weight for scenario in problem.scenarios] == pytest.approx([2 / 3, 1 / 3])
    assert problem.stakes.ignition is not None
    assert np.flatnonzero(problem.stakes.ignition).tolist() == [0, 5]
    assert f"{forest} has its own weather" in notes[0]
    assert f"{forest / 'Ignitions.csv'} says where fires start" in notes[1]


def test_flags_come_before_what_lies_in_the_folder(forest: Path) -> None:
    (forest / "starts.csv").write_text("Year,Ncell\n1,3\n")
    notes: list[str] = []
    request = ProblemRequest(forest, weather=("dry@90",), ignition_map=forest / "starts.csv")
    problem = read_problem(request, notes.append)
    assert [scenario.name for scenario in problem.scenarios] == ["dry@90"]
    assert problem.stakes.ignition is not None
    assert np.flatnonzero(problem.stakes.ignition).tolist() == [2]
    assert not any("own weather" in note or "says where fires start" in note for note in notes)
