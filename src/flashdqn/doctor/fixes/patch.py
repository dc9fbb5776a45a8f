"""A patch: changes of one file for one finding, and which patches are good enough to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashdqn.core.files import write_output
from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.same_numbers import Sameness
from flashdqn.doctor.fixes.edits import Edit, OverlapError, apply_edits, make_diff
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.report.cure_result import CureResult

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
    unit: str = ""
    """What counts as work; empty: transitions where they are counted."""

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
            unit=self.unit,
        )

    def diff(self, root: Path) -> str:
        """The unified diff."""
        return make_diff(Path(self.file), self.before, self.after, root)


def choose_patches(patches: Sequence[Patch], trials: tuple[CureResult, ...]) -> tuple[CureResult, ...]:
    """The trials with their diffs, and which patches are kept."""
    return tuple(
        replace(trial, kept=holds(patch, trial), patch=patch.diff(Path(patch.file).parent))
        for patch, trial in zip(patches, trials, strict=True)
    )


def holds(patch: Patch, trial: CureResult) -> bool:
    """Whether a patch is faster, and the same: or changes only what it says that it changes."""
    if not trial.pairs or trial.numbers == Sameness.UNKNOWN:
        return False
    if trial.numbers == Sameness.DIFFERENT and not patch.changes_learning:
        return False
    if trial.numbers == Sameness.ROUNDED and not patch.changes and not patch.changes_learning:
        return False
    if patch.finding.speedup == 1.0:
        return trial.measured > SLOWER
    return trial.is_faster


def select_compatible(patches: Sequence[Patch], trials: Sequence[CureResult]) -> list[Patch]:
    """The patches that hold, the largest gain first; one that wants the same place as a better one is left out."""
    pairs = [pair for pair in zip(patches, trials, strict=True) if pair[1].kept]
    chosen: list[Patch] = []
    for patch, _ in sorted(pairs, key=lambda pair: -pair[1].measured):
        mine = [other for other in chosen if other.file == patch.file]
        try:
            apply_edits(patch.before, [edit for other in (*mine, patch) for edit in other.edits])
        except OverlapError:
            continue
        chosen.append(patch)
    return chosen


def mark_kept(trials: Sequence[CureResult], kept: Sequence[Patch]) -> tuple[CureResult, ...]:
    """The trials, with those marked whose patches are in the written file."""
    names = {patch.name for patch in kept}
    return tuple(replace(trial, kept=trial.cure in names) for trial in trials)


def combine_patches(patches: Sequence[Patch]) -> dict[str, str]:
    """The patched text of each file."""
    files = dict.fromkeys(patch.file for patch in patches)
    return {
        file: apply_edits(mine[0].before, [edit for patch in mine for edit in patch.edits])
        for file in files
        for mine in ([patch for patch in patches if patch.file == file],)
    }


def combine_cures(patches: Sequence[Patch]) -> Cure:
    """All patches as one cure."""
    predicted = 1.0
    for patch in patches:
        predicted *= patch.finding.speedup
    return Cure(
        name="together",
        finding=" and ".join(dict.fromkeys(patch.finding.name for patch in patches)),
        what="all of them",
        predicted=predicted,
        injections=(("patched", {}),),
        replaced=combine_patches(patches),
        changes=", ".join(dict.fromkeys(patch.changes for patch in patches if patch.changes)),
        changes_learning=any(patch.changes_learning for patch in patches),
    )


def write_patches(patches: Sequence[Patch]) -> list[Path]:
    """Write one diff for each patched file beside that file; never over it. Returns the paths."""
    before = {patch.file: patch.before for patch in patches}
    written = []
    for file, after in combine_patches(patches).items():
        path = Path(file)
        written.append(path.with_name(f"{path.stem}.doctor.patch"))
        write_output(written[-1], make_diff(path, before[file], after, path.parent))
    return written
