"""TorchRL: collectors, environments in batches, replay buffers that work ahead."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import Library, LibraryAdvice, add_library
from flashdqn.doctor.libraries.user_calls import UserCall, find_calls, imports_package
from flashdqn.doctor.report.contents import Finding

COLLECTORS = ("SyncDataCollector", "Collector", "MultiSyncDataCollector", "MultiaSyncDataCollector")
BUFFERS = ("ReplayBuffer", "TensorDictReplayBuffer", "TensorDictPrioritizedReplayBuffer")


def place_of(calls: list[UserCall]) -> tuple[str, int] | None:
    """The first call's place."""
    return (calls[0].file, calls[0].line) if calls else None


def advise_more_envs(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Many environments for each call of the policy."""
    made = find_calls(evidence, "GymEnv", "ParallelEnv", "SerialEnv")
    return LibraryAdvice(
        "give the collector a batch of environments: `ParallelEnv` for expensive ones, `SerialEnv` or a vectorized "
        "`GymEnv(…, num_envs=8)` for cheap ones.",
        made[0].rewrite(num_envs="8")
        if made and made[0].name == "GymEnv"
        else "env = ParallelEnv(8, make_env)",
        place_of(made),
    )


def advise_collector(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Fewer updates for each frame, by larger collections."""
    made = find_calls(evidence, *COLLECTORS)
    if not made:
        return None
    return LibraryAdvice(
        "`frames_per_batch` frames are collected between two rounds of updates: more of them, or fewer updates in "
        "your loop over the collector.",
        made[0].rewrite(frames_per_batch="1000"),
        place_of(made),
    )


def advise_replay(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """Storage on the device, and batches that are drawn ahead."""
    made = find_calls(evidence, *BUFFERS)
    if not made:
        return None
    return LibraryAdvice(
        "keep the storage where the network is (`LazyTensorStorage(n, device=device)`), give the buffer its "
        "`batch_size`, and let it draw ahead with `prefetch`.",
        made[0].rewrite(prefetch="3"),
        place_of(made),
    )


def advise_fused(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """The user's own optimizer."""
    made = [call for call in find_calls(evidence, "Adam", "AdamW") if call.call.args]
    return (
        LibraryAdvice("you make the optimizer.", made[0].rewrite(fused="True"), place_of(made))
        if made
        else None
    )


def advise_launches(evidence: Evidence, _: Finding) -> LibraryAdvice | None:
    """One launch for the whole update."""
    return LibraryAdvice(
        "put loss, backward and step into one function; `torch.compile` and tensordict's `CudaGraphModule` make "
        "few launches of it.",
        "update = CudaGraphModule(torch.compile(update))   # from tensordict.nn import CudaGraphModule",
    )


add_library(
    Library(
        "TorchRL",
        lambda evidence: imports_package(evidence, "torchrl"),
        {
            "single-env-acting": advise_more_envs,
            "few-envs": advise_more_envs,
            "python-env": advise_more_envs,
            "train-every-step": advise_collector,
            "many-updates": advise_collector,
            "list-batches": advise_replay,
            "pageable-copies": advise_replay,
            "unfused-optimizer": advise_fused,
            "launch-bound": advise_launches,
            "starved-device": advise_launches,
        },
    )
)
