"""The current folder may be a stranger's: what lies there must not pass for a package, or steer one.

Python and some packages look into the current folder by themselves. Each way is closed here; code in the current
folder that the user names is found again through `user_code.Permission.allow_working_folder`.
"""

# ruff: noqa: PTH109, PTH120
from __future__ import annotations

import os  # this and sys are loaded when Python starts; all others must wait for `drop_working_folder`
import sys

#: Files in the current folder from which packages take settings when they are imported. Numba's can lead it to
#: another cache, from which it executes machine code; Matplotlib's can make it call LaTeX.
SETTINGS_FILES = {".numba_config.yaml": "numba", "matplotlibrc": "matplotlib"}


#: The value of PYTHONSAFEPATH that is ours, and not the user's; Python takes any.
OURS = "flashdqn"


def drop_working_folder() -> None:
    """Undo what `python -m flashdqn` does before anything else: it puts the current folder first among the places
    of modules. If this package itself is found there, the folder stays."""
    try:
        here = os.getcwd()
    except OSError:  # the folder was removed: nothing can be found there
        return
    inside = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) == here
    started = sys.argv[:1] == ["-m"] and find_started_module(sys.orig_argv) == "flashdqn"
    if started and sys.path and sys.path[0] in ("", here) and not inside:
        del sys.path[0]


def find_started_module(words: list[str]) -> str | None:
    """The module that Python's own command line starts, however it is written: -m NAME, -mNAME, -um NAME."""
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--check-hash-based-pycs":
            del rest[:1]
        elif not word.startswith("--"):
            _, option, value = _split_at_option(word[1:])
            if option in ("m", "W", "X") and not value:
                value = rest.pop(0) if rest else ""
            if option in ("m", "c"):
                return value if option == "m" else None
    return None


def _split_at_option(letters: str) -> tuple[str, str, str]:
    """Letters such as `um`: those before the first option that takes a value, that option, and its value."""
    for option in letters:
        if option in "cmWX":
            return letters.partition(option)
    return letters, "", ""


def ignore_settings_files() -> None:
    """Import the packages that would take settings from the current folder from another folder. Nothing happens
    where there is no such file."""
    found = [module for file, module in SETTINGS_FILES.items() if os.path.lexists(file)]
    if not found:
        return
    import importlib
    import tempfile

    here = os.getcwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            for module in found:
                importlib.import_module(module)
        finally:
            os.chdir(here)
    if "numba" in found:
        # Numba reads its file again before every compilation.
        sys.modules["numba.core.config"]._config_fname = ""  # type: ignore[attr-defined]


def protect_children() -> None:
    """Keep Python from putting the current folder first in processes that this one starts, as it does for
    `python -c`, which is how multiprocessing starts its own."""
    if not os.environ.get("PYTHONSAFEPATH"):
        os.environ["PYTHONSAFEPATH"] = OURS


def release_children() -> None:
    """Undo `protect_children`: the user's own code may start scripts that need the modules beside them."""
    if os.environ.get("PYTHONSAFEPATH") == OURS:
        del os.environ["PYTHONSAFEPATH"]
