"""Cures that are put into a running script from outside: what all of them share, and their list.

Each injection acts before the script's first line, or as soon as a module is imported. It notes what it changed,
so that a trial in which nothing was changed is not mistaken for a cure without an effect.
"""

from __future__ import annotations

from .injection import Injection, Keep
from .injections_output import Awake, FirstResult, NoLogger, RareCollector, SilentPrints
from .injections_torch import Bfloat16, Compile, Flush, NoGrad, OptimizerFlag, SetToNone, Tf32, Threads

INJECTIONS: dict[str, type[Injection]] = {
    "threads": Threads,
    "optimizer-flag": OptimizerFlag,
    "flush": Flush,
    "tf32": Tf32,
    "no-grad": NoGrad,
    "bfloat16": Bfloat16,
    "compile": Compile,
    "set-to-none": SetToNone,
    "silent": SilentPrints,
    "awake": Awake,
    "first-result": FirstResult,
    "rare-collector": RareCollector,
    "no-logger": NoLogger,
    "patched": Keep,
}
