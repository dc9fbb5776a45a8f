"""RLlib: everything is a method of `AlgorithmConfig`."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import Adviser, Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import find_calls, imports_package
from flashdqn.doctor.report.contents import Finding

CONFIGS = ("DQNConfig", "PPOConfig", "SACConfig", "IMPALAConfig", "APPOConfig", "AlgorithmConfig")


def configure(method: str, keywords: dict[str, str], words: str) -> Adviser:
    """Advice to call a method of the configuration; the user's own call of it, if there is one."""

    def advise(evidence: Evidence, _: Finding) -> LibraryAdvice:
        given = ", ".join(f"{name}={value}" for name, value in keywords.items())
        made = [call for call in find_calls(evidence, *CONFIGS) if not call.call.args]
        own = [call for call in find_calls(evidence, method) if call.call.keywords]
        first = (own or made)[:1]
        place = (first[0].file, first[0].line) if first else None
        return LibraryAdvice(words, f"config.{method}({given})", place)

    return advise


MORE_ENVS = configure(
    "env_runners",
    {"num_env_runners": "2", "num_envs_per_env_runner": "8"},
    "each runner asks the network once for all of its environments; more runners use more cores.",
)
RATIO = configure(
    "training",
    {"training_intensity": "1"},
    "`training_intensity` is the number of samples trained for each one collected.",
)
EVALUATION = configure(
    "evaluation",
    {"evaluation_interval": "50", "evaluation_parallel_to_training": "True"},
    "evaluate rarely, and beside the training.",
)
LEARNER = configure(
    "learners",
    {"num_learners": "1", "num_gpus_per_learner": "1"},
    "let a learner own the GPU, and compile it with `config.framework('torch', torch_compile_learner=True)`.",
)

add_library(
    Library(
        "RLlib",
        lambda evidence: imports_package(evidence, "ray") and bool(find_calls(evidence, *CONFIGS)),
        {
            "single-env-acting": MORE_ENVS,
            "few-envs": MORE_ENVS,
            "python-env": MORE_ENVS,
            "slow-worker": MORE_ENVS,
            "waiting-for-workers": MORE_ENVS,
            "costly-messages": MORE_ENVS,
            "train-every-step": RATIO,
            "many-updates": RATIO,
            "evaluation-share": EVALUATION,
            "starved-device": LEARNER,
            "launch-bound": LEARNER,
        },
    )
)
