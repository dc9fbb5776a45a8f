"""Run a script under the watch: `python __main__.py PLAN.json`; see `schema.WatchPlan`.

`python __main__.py PLAN.json trial` runs it for a trial instead; see `trial_rows.TrialPlan`.

The package is loaded under another name, so its modules cannot hide the script's.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import sys
from pathlib import Path

NAME = "_flashdqn_watch"


def load() -> None:
    """Make this folder importable as `_flashdqn_watch`, and nothing else of flashdqn."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 (the script's Python, not ours)
        sys.exit("The doctor needs Python 3.9 or newer for the script.")
    if sys.stderr is not None and not faulthandler.is_enabled():
        faulthandler.enable()  # a crash in compiled code says where the script was
    load()
    entry = "script" if len(sys.argv) < 3 else sys.argv[2]
    importlib.import_module(f"{NAME}.{entry}").main(sys.argv[1])
