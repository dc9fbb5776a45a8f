"""Work done row by row in Python that tensors could do at once."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, Place, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule, format_frequency
from flashdqn.doctor.phases import OFTEN
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import COPIES, EventKind, Phase
from flashdqn.doctor.watch.rows import CallSite

LEAST_SHARE = 0.05
BATCHED = 50.0
"""How many times cheaper the same work is in one call: a cautious estimate for a few dozen rows or more."""
MAKERS = {
    "tensor",
    "as_tensor",
    "FloatTensor",
    "LongTensor",
    "Tensor",
    "BoolTensor",
    "stack",
    "cat",
    "array",
    "asarray",
}

Range = tuple[str, int, int]


@finding_rule
def detect_row_copies(evidence: Evidence) -> Iterator[Finding]:
    """Values taken out of tensors one by one: `.item()`, `.cpu()`, `.numpy()` in a loop over rows."""
    record = evidence.record
    groups: dict[Range, list[CallSite]] = {}
    for site in record.kinds(*COPIES):
        loop = find_row_loop(evidence, site.file, site.line)
        if loop is not None and record.per_step(site) >= OFTEN:
            groups.setdefault(loop, []).append(site)
    for (file, first, last), sites in groups.items():
        share = evidence.inside(file, first, last)
        count = sum(site.count for site in sites)
        rate = sum(record.per_step(site) for site in sites)
        by_kind: Counter[str] = Counter()
        for site in sites:
            by_kind[f".{site.kind}()"] += site.count
        line = max(sites, key=lambda site: (evidence.at([(site.file, site.line)]), site.count)).line
        yield Finding(
            name="per-row-copies",
            title=f"{format_frequency(rate)} values a step are taken out of tensors one by one, in a Python loop",
            file=file,
            line=line,
            share=share,
            speedup=estimate_speedup(share, BATCHED),
            evidence=(
                f"{', '.join(f'{name} {n:,} times' for name, n in by_kind.most_common())} in the loop of lines "
                f"{first} to {last}, while they were counted: {format_frequency(rate)} "
                "for each step of the environments.",
                f"The loop takes {share:.0%} of the time; the copies themselves move "
                f"{sum(site.elements for site in sites) / max(count, 1):.0f} elements each on average.",
            ),
            advice="Keep the whole batch as one tensor and write it into the replay at once. Where the host needs "
            "numbers, copy them once for all rows.",
            example="correct += (logits.argmax(1) == y).sum()       # a tensor; .item() once, at the end"
            if evidence.supervised
            else "index = torch.arange(position, position + n) % capacity\n"
            "observations[index] = obs      # [n, features], one copy for all environments\n"
            "actions[index] = action\nrewards[index] = reward",
            limit=Limit.COPIES,
            certainty=compute_certainty(evidence, share, LEAST_SHARE),
        )


@finding_rule
def detect_row_loops(evidence: Evidence) -> Iterator[Finding]:
    """A loop over rows around tensor operations that could be one operation."""
    copied = {(f.file, f.line) for f in detect_row_copies(evidence)}
    seen: set[Range] = set()
    for file, line in find_hot_places(evidence):
        loop = find_row_loop(evidence, file, line)
        if loop is None or loop in seen or not touches_tensors(file, loop):
            continue
        seen.add(loop)
        _, first, last = loop
        if any(where == file and first <= at <= last for where, at in copied):
            continue
        if repeats_little(evidence, file, first, last):
            continue
        phases = evidence.phase_inside(file, first, last)
        share = compute_share(sum(phases.values()), evidence.seconds)
        if phases[Phase.ENVIRONMENT] + phases[Phase.LOADING] > 0.5 * sum(phases.values()):
            continue  # `python-env` or `slow-loader` reports that
        yield Finding(
            name="row-loop",
            title="A Python loop goes over rows that tensors could handle at once",
            file=file,
            line=evidence.hottest(file, first, last),
            share=share,
            speedup=estimate_speedup(share, BATCHED),
            evidence=(
                f"Lines {first} to {last} take {share:.0%} of the time.",
                f"The loop: {source.read_line(file, first)}",
            ),
            advice="Stack the rows once and do the operation for all of them: indexing, arithmetic, `gather`, "
            "`where` and the network handle a whole batch at the cost of a few rows.",
            example="losses = criterion(model(x), y)                # the whole batch, one call"
            if evidence.supervised
            else "q = network(next_obs)                       # [batch, actions], one call\n"
            "target = reward + discount * q.max(1).values  # no loop over the batch",
            limit=Limit.PYTHON,
            certainty=compute_certainty(evidence, share, LEAST_SHARE),
        )


@finding_rule
def detect_list_batches(evidence: Evidence) -> Iterator[Finding]:
    """Batches built from Python lists of single transitions."""
    groups: dict[str, list[Place]] = {}
    for file, line in evidence.by_line:
        if builds_from_list(file, line):
            groups.setdefault(file, []).append((file, line))
    for file, places in groups.items():
        worst = max(places, key=lambda place: evidence.at([place]))
        share = evidence.at([*places, *find_sampling_lines(evidence, worst)])
        updates = max(evidence.counts.updates, 1)
        yield Finding(
            name="list-batches",
            title="Every batch is built from Python lists, one transition after the other",
            file=file,
            line=worst[1],
            share=share,
            speedup=estimate_speedup(share, BATCHED),
            evidence=(
                f"Making tensors and arrays from lists takes {share:.0%} of the time, "
                f"{1e6 * share * evidence.watched / updates:,.0f} µs for each of {updates:,} updates.",
                f"The most expensive line: {source.read_line(*worst)}",
            ),
            advice="Keep the replay as preallocated arrays or tensors and index them with a vector of row numbers.",
            example="rows = torch.randint(size, (batch_size,))\n"
            "obs, action, reward = observations[rows], actions[rows], rewards[rows]",
            limit=Limit.PYTHON,
            certainty=compute_certainty(evidence, share, LEAST_SHARE),
        )


def repeats_little(evidence: Evidence, file: str, first: int, last: int) -> bool:
    """Whether a loop runs only a few times for each update: it calls a network, and that is called as rarely."""
    calls = [f for f in evidence.record.forwards if f.file == file and first < f.line <= last]
    updates = max(evidence.record.called.updates, 1)
    return bool(calls) and max(f.count for f in calls) / updates < 4


def find_sampling_lines(evidence: Evidence, place: Place) -> list[Place]:
    """Lines of the same function that draw the transitions: with arrays, indexing replaces them."""
    function = source.find_function(*place)
    return [
        (file, line)
        for (file, line), phases in evidence.by_line.items()
        if file == place[0]
        and function is not None
        and source.covers_line(function, line)
        and phases.longest() is Phase.REPLAY
        and not builds_from_list(file, line)
    ]


def find_hot_places(evidence: Evidence) -> list[Place]:
    """The script's own lines that take at least one percent, the hottest first."""
    spent = {place: sum(phases.values()) for place, phases in evidence.by_line.items()}
    return [p for p in sorted(spent, key=lambda p: -spent[p]) if spent[p] > 0.01 * evidence.seconds]


def find_row_loop(evidence: Evidence, file: str, line: int) -> Range | None:
    """The outermost loop around a line that is not a training loop: no environment steps and no updates in it."""
    chain = source.find_nodes_in_function(file, line)
    kinds = (EventKind.ENV_STEP, EventKind.OPTIMIZER, EventKind.BACKWARD)
    busy = [site for site in evidence.record.kinds(*kinds) if site.file == file]
    for node in chain:
        if not isinstance(node, source.Loop | source.Comprehension):
            continue
        first, last = source.first_line_number(node), source.last_line_number(node)
        trains = any(first <= site.line <= last for site in busy)
        if not trains and not evidence.leads_to_training(file, first, last):
            return file, first, last
    return None


def touches_tensors(file: str, loop: Range) -> bool:
    """Whether a for loop indexes something by its own variable, or calls torch, in its body."""
    for node in source.find_enclosing_nodes(file, loop[1]):
        if (
            isinstance(node, ast.For)
            and (source.first_line_number(node), source.last_line_number(node)) == loop[1:]
        ):
            names = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
            return any(
                is_row_operation(part, names) for statement in node.body for part in ast.walk(statement)
            )
    return False


def is_row_operation(part: ast.AST, names: set[str]) -> bool:
    """Whether this is x[i] with the loop's variable, or torch.something(…)."""
    if isinstance(part, ast.Subscript):
        return any(isinstance(index, ast.Name) and index.id in names for index in ast.walk(part.slice))
    return (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id == "torch"
    )


def builds_from_list(file: str, line: int) -> bool:
    """Whether a statement makes a tensor or an array from a comprehension, a list of parts or a zip."""
    first, last = source.find_statement_lines(file, line)
    nodes = [
        n
        for n in source.find_enclosing_nodes(file, line)
        if isinstance(n, ast.stmt) and not hasattr(n, "body")
    ]
    if not nodes or last - first > 12:
        return False
    for call in source.iterate_calls(nodes[-1]):
        if source.get_called_name(call) in MAKERS and any(
            is_list_expression(argument) or is_filled_list(file, line, argument) for argument in call.args
        ):
            return True
    return False


def is_filled_list(file: str, line: int, argument: ast.expr) -> bool:
    """Whether an argument is the name of a list that the same function fills element by element, or that comes
    from a `zip(*…)`."""
    function = source.find_function(file, line)
    if function is None or not isinstance(argument, ast.Name):
        return False
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == argument.id
        ):
            return True
        if isinstance(node, ast.Assign) and is_unzipped(node.value):
            names = {
                part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)
            }
            if argument.id in names:
                return True
    return False


def is_unzipped(value: ast.expr) -> bool:
    """Whether this is `zip(*rows)`, alone or in `map(np.stack, zip(*rows))`."""
    return any(
        source.get_called_name(call) == "zip" and any(isinstance(part, ast.Starred) for part in call.args)
        for call in source.iterate_calls(value)
    )


def is_list_expression(argument: ast.expr) -> bool:
    """Whether an argument loops over single elements in Python."""
    if isinstance(argument, source.Comprehension):
        return True
    return isinstance(argument, ast.Call) and source.get_called_name(argument) in (
        "list",
        "tuple",
        "map",
        "zip",
    )
