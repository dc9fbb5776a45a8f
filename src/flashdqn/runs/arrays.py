"""A run's tables as NumPy arrays, a column each, or as a pandas DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flashdqn.core.errors import ConfigError
from flashdqn.runs.columns import ColumnKind
from flashdqn.runs.rows import float_or_nan, int_or_zero
from flashdqn.runs.tables import read_columns, read_table

Arrays = dict[str, npt.NDArray[Any]]

#: Columns of these units are whole numbers.
WHOLE = ("transitions", "updates", "episodes", "games")


def read_arrays(path: Path) -> Arrays:
    """The columns of a table by name: int64 for counts, float64 for the others. What cannot be read is left out."""
    rows = read_table(path)
    found: Arrays = {}
    for column in read_columns(path, rows).all:
        whole = column.kind in (ColumnKind.COUNTER, ColumnKind.COUNT) and column.unit in WHOLE
        cells = [row.get(column.name) for row in rows]
        if whole:
            found[column.name] = np.array([int_or_zero(cell) for cell in cells], dtype=np.int64)
        else:
            found[column.name] = np.array([float_or_nan(cell) for cell in cells], dtype=np.float64)
    return found


def make_frame(arrays: Arrays) -> Any:
    """The same as a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise ConfigError("pandas is not installed: pip install pandas, or leave out as_frame.") from None
    return pandas.DataFrame(arrays)
