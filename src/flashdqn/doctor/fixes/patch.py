"""A patch: changes of one file for one finding, and which patches are good enough to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashdqn.core.files import write_output
from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.same_numbers import Sameness
from flashdqn.doctor.fixes.edits import Edit, OverlapError, apply_edits, make_diff
from flashdqn.doctor.report.contents import Finding, Trial
from flashdqn.doctor.run import Patient

SLOWER = 0.95
"""A patch that is not about speed may not cost more than this."""


@dataclass(frozen=True)
class Patch:
    """Changes of one file that answer one finding."""

    name: str
    finding: Finding
    file: str
    before: str
    edits: tuple[Edit, ...]
    what: str
    """What is changed, in a few words."""
    changes: str = ""
    """What may change in the numbers; empty: nothing."""
    changes_learning: bool = False

    @property
    def after(self) -> str:
        """The patched text."""
        return apply_edits(self.before, self.edits)

    def as_cure(self) -> Cure:
        """The same, to be tried on the script from outside."""
        return Cure(
            name=self.name,
            finding=self.finding.name,
            what=self.what,
            predicted=self.finding.speedup,
            injections=(("patched", {}),),
            replaced={self.file: self.after},
            changes=self.changes,
            changes_learning=self.changes_learning,
        )

    def diff(self, root: Path) -> str:
        """The unified diff."""
        return make_diff(Path(self.file), self.before, self.after, root)


def choose_patches(patches: Sequence[Patch], trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """The trials with their diffs, and which patches are kept."""
    return tuple(
        replace(trial, kept=holds(patch, trial), patch=patch.diff(Path(patch.file).parent))
        for patch, trial in zip(patches, trials, strict=True)
    )


def holds(patch: Patch, trial: Trial) -> bool:
    """Whether a patch is faster, and the same: or changes only what it says that it changes."""
    if not trial.pairs or trial.numbers == Sameness.UNKNOWN:
        return False
    if trial.numbers == Sameness.DIFFERENT and not patch.changes_learning:
        return False
    if trial.numbers == Sameness.ROUNDED and not patch.changes and not patch.changes_learning:
        return False
    if patch.finding.speedup == 1.0:
        return trial.measured > SLOWER
    return trial.measured > 1.0 and (trial.pairs == 1 or trial.low > 1.0)


def write_patches(patches: Sequence[Patch], patient: Patient) -> list[Path]:
    """Write one diff for each patched file beside that file; never over it. Returns the paths."""
    written = []
    for file in dict.fromkeys(patch.file for patch in patches):
        path = Path(file)
        mine = [patch for patch in patches if patch.file == file]
        text = make_diff(path, mine[0].before, combine_patches(mine), path.parent)
        written.append(path.with_name(f"{path.stem}.doctor.patch"))
        write_output(written[-1], text)
    return written


def combine_patches(patches: Sequence[Patch]) -> str:
    """The text with all patches of a file; one that wants the same place as an earlier one is left out."""
    edits: list[Edit] = []
    for patch in patches:
        try:
            apply_edits(patch.before, [*edits, *patch.edits])
        except OverlapError:
            continue
        edits += patch.edits
    return apply_edits(patches[0].before, edits)
