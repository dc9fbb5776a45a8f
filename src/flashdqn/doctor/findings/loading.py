"""Training from data: a DataLoader that takes longer than the network."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import (
    Evidence,
    Place,
    SecondsBy,
    compute_share,
    estimate_speedup,
    is_library_file,
)
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.phases import is_in_loader
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.rows import Frame, LoaderUse
from flashdqn.doctor.workers import Activity, WorkerProcess, find_workers

LEAST_SHARE = 0.15
STACKED = 20.0
"""How many times faster indexing a whole tensor is than stacking its rows: a cautious estimate."""
OVERLAP = 0.9
"""How much of the ideal overlap workers reach: batches travel between processes."""


@finding_rule
def detect_slow_loader(evidence: Evidence) -> Iterator[Finding]:
    """A DataLoader on whose batches the training waits."""
    share = evidence.share(Phase.LOADING)
    if share < LEAST_SHARE:
        return
    loader = find_main_loader(evidence)
    lines, iterating = SecondsBy[Place](), SecondsBy[Place]()
    for number, seconds in evidence.by_stack.items():
        if evidence.names[number] is Phase.LOADING:
            stack = evidence.frames(number)
            inside, outside = split_at_loader(stack)
            if inside:
                lines[inside] += seconds
            if outside:
                iterating[outside] += seconds
    workers = [worker for worker in find_workers(evidence) if worker.loads]
    if loader is not None and loader.workers and workers:
        yield report_busy_workers(evidence, loader, workers, share, iterating)
    elif loader is not None and loader.dataset == "TensorDataset" and not lines:
        yield report_stacked_rows(evidence, loader, share, iterating)
    else:
        yield report_no_workers(evidence, loader, share, lines, iterating)


def find_main_loader(evidence: Evidence) -> LoaderUse | None:
    """The loader with the most examples gone through."""
    return max(evidence.record.loaders, key=lambda use: use.epochs * max(use.length, 1), default=None)


def split_at_loader(stack: tuple[Frame, ...]) -> tuple[Place | None, Place | None]:
    """The user's innermost line inside a DataLoader, and the line outside that asks it for a batch."""
    first = next((i for i in range(len(stack)) if is_in_loader(stack[i : i + 1])), len(stack))
    inside = [f for f in stack[first:] if not f.plumbing and not is_library_file(f.file)]
    outside = [f for f in stack[:first] if not f.plumbing and not is_library_file(f.file)]
    return tuple((part[-1].file, part[-1].line) if part else None for part in (inside, outside))  # type: ignore[return-value]


def describe_loader(evidence: Evidence, loader: LoaderUse | None, share: float) -> tuple[str, ...]:
    """What the loader takes."""
    updates = max(evidence.counts.updates, 1)
    network = evidence.share(Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    found = [
        f"Loading takes {share:.0%} of the time, {1e3 * share * evidence.watched / updates:,.2f} ms for each of "
        f"{updates:,} updates; the network takes "
        f"{1e3 * network * evidence.watched / updates:,.2f} ms."
    ]
    if loader is not None:
        found.append(
            f"The DataLoader goes over {loader.length:,} examples of `{loader.dataset}` in batches of "
            f"{loader.batch}, "
            f"with num_workers={loader.workers}."
        )
    return tuple(found)


def report_no_workers(
    evidence: Evidence,
    loader: LoaderUse | None,
    share: float,
    lines: SecondsBy[Place],
    iterating: SecondsBy[Place],
) -> Finding:
    """The training itself makes each example, while the network waits."""
    place = lines.longest() if lines else iterating.longest() if iterating else (evidence.record.script, 0)
    cores = evidence.record.cores
    workers = max(1, min(4, cores if evidence.record.device == "cuda" else cores - 1))
    # Loading and training at the same time, each on cores of its own; the batches have to travel.
    together = max(1.0 - share, share / workers, 1.0 / cores) / OVERLAP
    inside = compute_share(sum(lines.values()), evidence.seconds)
    return Finding(
        name="slow-loader",
        title="Every example is made by the training's own process, while the network waits",
        file=place[0],
        line=place[1],
        share=share,
        speedup=max(1.0 / together, 1.0),
        least=max(1.0 / min(together * 1.3, 1.0), 1.0),
        most=max(1.0 / max(1.0 - share, share / max(cores, 1)), 1.0),
        evidence=(
            *describe_loader(evidence, loader, share),
            f"{inside:.0%} is in the dataset's own code; its most expensive line: {source.read_line(*place)}"
            if lines
            else "Most of it is the DataLoader's own work: collecting and stacking rows.",
            f"The gain above is that of {workers} worker{'s' * (workers != 1)} on {cores} cores.",
        ),
        advice=f"Let workers make the next batches: `num_workers={workers}, persistent_workers=True`. Or do the "
        "work of "
        "that line once, before training, and keep the result: then it costs nothing at all.",
        example=f"loader = DataLoader(dataset, batch_size={loader.batch if loader else 64}, shuffle=True,\n"
        f"                    num_workers={workers}, persistent_workers=True)",
        limit=Limit.LOADING,
        certainty=compute_certainty(evidence, share, LEAST_SHARE),
    )


def report_stacked_rows(
    evidence: Evidence, loader: LoaderUse, share: float, iterating: SecondsBy[Place]
) -> Finding:
    """Tensors in memory that the loader takes apart and puts together again."""
    place = iterating.longest() if iterating else (loader.file, loader.line)
    return Finding(
        name="slow-loader",
        title="The DataLoader takes tensors apart into rows, and stacks them again",
        file=place[0],
        line=place[1],
        share=share,
        speedup=estimate_speedup(share, STACKED),
        evidence=describe_loader(evidence, loader, share),
        advice="The data is in memory already: draw row numbers, and index the whole tensor. Workers would not "
        "help: "
        "they would send what is already here.",
        example="for rows in torch.randperm(len(x)).split(batch_size):\n    loss = criterion(model(x[rows]), "
        "y[rows])",
        limit=Limit.LOADING,
        certainty=compute_certainty(evidence, share, LEAST_SHARE),
    )


def report_busy_workers(
    evidence: Evidence,
    loader: LoaderUse,
    workers: list[WorkerProcess],
    share: float,
    iterating: SecondsBy[Place],
) -> Finding:
    """Workers that cannot keep up, or that are started again for every epoch."""
    working = sum(worker.share(Activity.WORK) for worker in workers) / len(workers)
    starting = compute_share(loader.starting, evidence.watched)
    restarts = not loader.persistent and loader.epochs > 2 and starting > 0.3 * share
    lines = max(workers, key=lambda worker: worker.activities[Activity.WORK]).work_lines()
    own = {place: seconds for place, seconds in lines.items() if not is_library_file(place[0])}
    place = iterating.longest() if iterating else (loader.file, loader.line)
    if own and not restarts:
        place = max(own, key=lambda p: own[p])
    spare = max(evidence.record.cores - len(workers), 0)
    gain = estimate_speedup(starting) if restarts else estimate_speedup(share * working, 2.0)
    return Finding(
        name="slow-loader",
        title="The DataLoader's workers are started again for every epoch"
        if restarts
        else f"{loader.workers} workers cannot make batches as fast as they are used",
        file=place[0],
        line=place[1],
        share=share,
        speedup=gain,
        evidence=(
            *describe_loader(evidence, loader, share),
            f"{loader.epochs} epochs began, in {loader.starting:.1f} s."
            if restarts
            else f"The workers are busy {working:.0%} of the time; {spare} of {evidence.record.cores} cores are "
            "left.",
        ),
        advice="Keep the workers: `persistent_workers=True`."
        if restarts
        else "Make an example cheaper: read, decode and transform once, and keep the result; or more workers, if "
        "cores "
        "are left. The gain above assumes twice as many examples a second.",
        example="loader = DataLoader(dataset, num_workers=4, persistent_workers=True)",
        limit=Limit.LOADING,
        certainty=compute_certainty(evidence, share, LEAST_SHARE),
    )
