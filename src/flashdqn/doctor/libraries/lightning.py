"""Lightning: the Trainer's flags, the DataLoader's workers, `configure_optimizers`."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import Adviser, Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import find_calls, imports_package
from flashdqn.doctor.report.contents import Finding


def set_keywords(name: str, words: str, **keywords: str) -> Adviser:
    """Advice to call the Trainer, the DataLoader or the optimizer with other keywords, in the user's own line."""

    def advise(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
        calls = [
            call for call in find_calls(evidence, *name.split("|")) if call.call.args or call.call.keywords
        ]
        if not calls:
            return None
        return LibraryAdvice(words, calls[0].rewrite(**keywords), (calls[0].file, calls[0].line))

    return advise


LOADER = set_keywords(
    "DataLoader",
    "let workers load ahead, and keep them from one epoch to the next.",
    num_workers="4",
    persistent_workers="True",
    pin_memory="True",
)

add_library(
    Library(
        "Lightning",
        lambda evidence: imports_package(evidence, "lightning", "pytorch_lightning"),
        {
            "slow-loader": LOADER,
            "list-batches": LOADER,
            "pageable-copies": LOADER,
            "logging": set_keywords("Trainer", "log rarely; the default is 50.", log_every_n_steps="200"),
            "printing": set_keywords("Trainer", "turn the progress bar off.", enable_progress_bar="False"),
            "evaluation-share": set_keywords(
                "Trainer", "validate rarely.", check_val_every_n_epoch="5", limit_val_batches="0.2"
            ),
            "unfused-optimizer": set_keywords("Adam|AdamW|SGD", "in `configure_optimizers`.", fused="True"),
            "half-unused": set_keywords("Trainer", "mixed precision is a flag.", precision="'bf16-mixed'"),
            "tf32-off": set_keywords(
                "Trainer",
                'with `torch.set_float32_matmul_precision("high")` before it.',
                precision="'32-true'",
            ),
        },
    )
)
