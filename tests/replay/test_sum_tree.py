"""Both sum trees against a list of weights and exact sums."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_twin import TreeTwin

from flashdqn.replay.sum_tree import SumTree, TorchSumTree, cuda_width, level_sizes, tree_bytes
from flashdqn.replay.sum_tree_cpu import NumbaSumTree

CPU = torch.device("cpu")
#: Rounding in float64, in shares of the total.
TOLERANCE = Fraction(1, 10**11)

BUILDERS: dict[str, Callable[[int], SumTree]] = {
    "torch-2": lambda slots: TorchSumTree(slots, CPU, 2),
    "torch-8": lambda slots: TorchSumTree(slots, CPU, 8),
    "torch": lambda slots: TorchSumTree(slots, CPU),
    "numba-2": lambda slots: NumbaSumTree(slots, 2),
    "numba": lambda slots: NumbaSumTree(slots),
}
trees = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WEIGHTS = st.one_of(
    st.just(0.0),
    st.integers(1, 5).map(float),
    st.floats(-8, 8).map(lambda exponent: 10.0**exponent),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[list[int], list[float]]]]:
    """Slots, and batches of (index, weight) with many duplicates."""
    slots = draw(st.integers(1, 100))
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 24))
        index = draw(st.lists(st.integers(0, slots - 1), min_size=size, max_size=size))
        batches.append((index, draw(st.lists(WEIGHTS, min_size=size, max_size=size))))
    return slots, batches


def apply(tree: SumTree, twin: TreeTwin, index: list[int], weight: list[float]) -> None:
    tree.set(torch.tensor(index), torch.tensor(weight, dtype=torch.float32))
    twin.set(index, weight)


def assert_same(tree: SumTree, twin: TreeTwin) -> None:
    levels = tree.levels
    assert levels.leaves[: levels.slots].tolist() == twin.weights
    assert not levels.leaves[levels.slots :].any()
    assert float(levels.total) == pytest.approx(float(twin.total), rel=1e-13, abs=0)


def borders(twin: TreeTwin) -> list[float]:
    """Masses just before, at and just after every border, and beyond the end."""
    masses = [0.0]
    for edge in map(float, sorted(set(twin.edges()))):
        masses += [math.nextafter(edge, 0), edge, math.nextafter(edge, math.inf)]
    return [*masses, 2 * masses[-1]]


def assert_finds(tree: SumTree, twin: TreeTwin, masses: list[float]) -> None:
    """Each mass lies in its leaf's interval but for rounding, and no leaf without a weight is ever found."""
    found = tree.find(torch.tensor(masses, dtype=torch.float64)).tolist()
    edges = twin.edges()
    rounding = TOLERANCE * edges[-1]
    for mass, leaf in zip(masses, found, strict=True):
        assert twin.weights[leaf] > 0
        wanted = min(Fraction(mass), edges[-1])
        assert edges[leaf] - rounding <= wanted <= edges[leaf + 1] + rounding


@trees
@settings(max_examples=40, deadline=None)
@given(history=histories(), shares=st.lists(st.floats(0, 1), max_size=20))
def test_any_history_of_weights(
    build: Callable[[int], SumTree],
    history: tuple[int, list[tuple[list[int], list[float]]]],
    shares: list[float],
) -> None:
    slots, batches = history
    tree, twin = build(slots), TreeTwin(slots)
    for index, weight in batches:
        apply(tree, twin, index, weight)
        assert_same(tree, twin)
        if twin.total > 0:
            assert_finds(tree, twin, borders(twin) + [share * float(twin.total) for share in shares])


@trees
@pytest.mark.parametrize("slots", [1, 2, 15, 16, 17, 255, 257, 1000])
def test_whole_numbers_are_found_exactly(build: Callable[[int], SumTree], slots: int) -> None:
    """Small whole weights have exact sums in every order, so nothing may be off by even one leaf."""
    dice = random.Random(slots)
    tree, twin = build(slots), TreeTwin(slots)
    weight = [float(dice.choice([0, 0, 1, 2, 7])) for _ in range(slots - 1)] + [3.0]
    apply(tree, twin, list(range(slots)), weight)
    masses = [k / 2 for k in range(2 * int(twin.total))]
    found = tree.find(torch.tensor(masses, dtype=torch.float64)).tolist()
    edges = [leaf for leaf, w in enumerate(weight) for _ in range(2 * int(w))]
    assert found == edges
    assert [twin.find(mass) for mass in masses[:50]] == edges[:50]


@trees
def test_an_empty_tree_answers_within_its_bounds(build: Callable[[int], SumTree]) -> None:
    tree = build(100)
    assert float(tree.levels.total) == 0
    assert tree.find(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist() == [0, 0]


@trees
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_rows_are_set_as_their_leaves_would_be(build: Callable[[int], SumTree], data: st.DataObject) -> None:
    rows, span = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 20))
    tree, twin = build(rows * span), TreeTwin(rows * span)
    for _ in range(data.draw(st.integers(1, 4))):
        chosen = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=2, unique=True))
        weight = data.draw(st.lists(WEIGHTS, min_size=2 * span, max_size=2 * span))
        first = torch.tensor(chosen) * span
        tree.set_rows(first, torch.tensor(weight, dtype=torch.float32).view(2, span))
        twin.set([r * span + j for r in chosen for j in range(span)], weight)
        assert_same(tree, twin)


@trees
def test_sums_do_not_drift(build: Callable[[int], SumTree]) -> None:
    """A huge weight that comes and goes a hundred times leaves no trace among tiny ones."""
    tree = build(300)
    small = torch.full((300,), 1e-8)
    tree.set(torch.arange(300), small)
    before = tree.levels.all_sums.clone()
    for k in range(100):
        tree.set(torch.tensor([k]), torch.tensor([1e8]))
        tree.set(torch.tensor([k]), small[:1])
    assert torch.equal(tree.levels.all_sums, before)


@trees
def test_rebuilding_gives_the_tree_that_was(build: Callable[[int], SumTree]) -> None:
    generator = torch.Generator().manual_seed(0)
    tree, other = build(777), build(777)
    for _ in range(20):
        index = torch.randint(777, (64,), generator=generator)
        tree.set(index, torch.rand(64, generator=generator) ** 9)
    other.set(torch.arange(777), torch.ones(777))
    other.levels.leaves.copy_(tree.levels.leaves)
    other.rebuild()
    assert torch.equal(other.levels.all_sums, tree.levels.all_sums)


@settings(max_examples=40, deadline=None)
@given(history=histories(), width=st.sampled_from([2, 4, 16]))
def test_numba_is_torch(history: tuple[int, list[tuple[list[int], list[float]]]], width: int) -> None:
    slots, batches = history
    one, other, twin = NumbaSumTree(slots, width), TorchSumTree(slots, CPU, width), TreeTwin(slots)
    for index, weight in batches:
        one.set(torch.tensor(index), torch.tensor(weight, dtype=torch.float32))
        apply(other, twin, index, weight)
    assert torch.equal(one.levels.leaves, other.levels.leaves)
    torch.testing.assert_close(one.levels.all_sums, other.levels.all_sums, rtol=1e-13, atol=0)
    other.levels.all_sums.copy_(one.levels.all_sums)  # from the same sums the search must go the same way
    mass = torch.tensor(borders(twin), dtype=torch.float64)
    assert torch.equal(one.find(mass), other.find(mass))


def test_every_leaf_of_ten_million_is_in_reach() -> None:
    """Neighbors beyond 2^23, where float32 masses would skip leaves."""
    slots = 10_000_019
    tree = NumbaSumTree(slots)
    tree.levels.leaves[:slots] = 1 / 3
    tree.rebuild()
    third = float(tree.levels.leaves[0])
    for start in (0, 2**23 + 1, slots - 1000):
        leaves = torch.arange(start, start + 1000)
        mass = (leaves.to(torch.float64) + 0.5) * third
        assert torch.equal(tree.find(mass), leaves)
    assert float(tree.levels.total) == pytest.approx(slots * third, rel=1e-12)


@pytest.mark.parametrize(
    ("slots", "width", "sizes"),
    [(1, 2, [2, 1]), (2, 2, [2, 1]), (3, 2, [4, 2, 1]), (16, 16, [16, 1]), (17, 16, [32, 16, 1])],
)
def test_levels_are_whole_blocks(slots: int, width: int, sizes: list[int]) -> None:
    assert level_sizes(slots, width) == sizes
    levels = TorchSumTree(slots, CPU, width).levels
    tensors = (levels.leaves, levels.all_sums)
    assert sum(x.untyped_storage().nbytes() for x in tensors) == tree_bytes(slots, width)


def test_a_wide_tree_has_few_levels() -> None:
    assert [len(level_sizes(n, cuda_width(n))) - 1 for n in (10**4, 10**6, 10**7, 10**8)] == [2, 2, 3, 3]
    assert [cuda_width(n) for n in (10**4, 10**6, 10**7, 10**8)] == [128, 1024, 256, 512]
    with pytest.raises(ValueError, match="power of 2"):
        TorchSumTree(10, CPU, 12)


# ---- CUDA


@needs_cuda
@pytest.mark.parametrize("slots", [1, 1000, 300_001, 3_000_001])
def test_cuda_is_the_cpu(slots: int) -> None:
    generator = torch.Generator().manual_seed(slots)
    device = torch.device("cuda")
    cpu, cuda = TorchSumTree(slots, CPU), TorchSumTree(slots, device)
    rows = max(1, slots // 3)
    for _ in range(5):
        index = torch.randint(slots, (512,), generator=generator)
        weight = torch.randint(0, 9, (512,), generator=generator).float()  # sums are exact in any order
        first, row = torch.randint(slots - rows + 1, (1,), generator=generator), torch.ones(1, rows)
        for tree in (cpu, cuda):
            where = tree.levels.leaves.device
            tree.set_rows(first.to(where), row.to(where))
            tree.set(index.to(where), weight.to(where))
    for name in ("leaves", "all_sums"):
        assert torch.equal(getattr(cpu.levels, name), getattr(cuda.levels, name).cpu()), name
    mass = torch.rand(4096, generator=generator, dtype=torch.float64) * cpu.levels.total
    assert torch.equal(cpu.find(mass), cuda.find(mass.to(device)).cpu())


@needs_cuda
def test_cuda_never_finds_a_leaf_without_weight() -> None:
    """Weights whose sums round differently in every order, with holes between; masses at all borders."""
    device = torch.device("cuda")
    tree = TorchSumTree(200_000, device)
    generator = torch.Generator(device).manual_seed(0)
    exponent = torch.rand(200_000, generator=generator, device=device) * 16 - 8
    weight = 10**exponent * (torch.rand(200_000, generator=generator, device=device) < 0.3)
    tree.set(torch.arange(200_000, device=device), weight)
    edge = tree.levels.leaves[:200_000].cumsum(0, dtype=torch.float64)
    for mass in (edge, edge * (1 - 2**-52), edge * (1 + 2**-52)):
        found = torch.cat([tree.find(part) for part in mass.split(4096)])
        assert bool((tree.levels.leaves[found] > 0).all())


@needs_cuda
def test_a_tree_lives_in_a_cuda_graph() -> None:
    device = torch.device("cuda")
    tree, other = TorchSumTree(5000, device), TorchSumTree(5000, device)
    index, weight = torch.arange(64, device=device), torch.ones(64, device=device)
    first, row = torch.tensor([1000], device=device), torch.ones(1, 300, device=device)
    share = torch.rand(128, dtype=torch.float64, device=device)

    def step(tree: SumTree) -> torch.Tensor:
        tree.set_rows(first, row)
        tree.set(index, weight)
        return tree.find(share * tree.levels.total)

    step(tree)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(tree)
    for k in range(3):
        index.copy_(torch.randint(5000, (64,)))
        weight.fill_(k + 1.0)
        first.fill_(1700 * k)
        graph.replay()
        if k == 0:
            step(other)
            other.levels.leaves.copy_(tree.levels.leaves)
            other.rebuild()
        expected = step(other)
        assert torch.equal(found, expected)
        assert torch.equal(tree.levels.leaves, other.levels.leaves)
