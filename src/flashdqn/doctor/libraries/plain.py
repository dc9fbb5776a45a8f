"""Plain PyTorch: no library around the loop, but its own lines can be named."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import PLAIN, Adviser, Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import find_calls
from flashdqn.doctor.report.contents import Finding


def rewrite_call(names: tuple[str, ...], words: str, **keywords: str) -> Adviser:
    """Advice to give other keywords to the user's own call."""

    def advise(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
        calls = [call for call in find_calls(evidence, *names) if call.call.args]
        if not calls:
            return None
        return LibraryAdvice(words, calls[0].rewrite(**keywords), (calls[0].file, calls[0].line))

    return advise


def is_never_chosen(_: Evidence) -> bool:
    """It is what remains, where no library is used."""
    return False


ADVISERS: dict[str, Adviser] = {
    "unfused-optimizer": rewrite_call(("Adam", "AdamW", "SGD", "Adagrad"), "", fused="True"),
    "slow-loader": rewrite_call(
        ("DataLoader",), "", num_workers="4", persistent_workers="True", pin_memory="True"
    ),
}

add_library(Library(PLAIN, is_never_chosen, ADVISERS))
