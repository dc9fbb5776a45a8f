# mypy: ignore-errors
"""Last kernel of an update: clipping, Adam or AdamW, the soft target network, and the statistics."""

from __future__ import annotations

import triton
import triton.language as tl

from flashdqn.training.backends.cuda.kernel_layers import wait_for_previous


@triton.jit
def _add_statistics(norm, work, step, statistics, rules: tl.constexpr):
    """Add loss, mean Q(s, a) and norm to the sums; note the step of the first loss that is not finite."""
    part = tl.arange(0, rules.padded_parts)
    inside = part < rules.parts
    loss = tl.sum(tl.load(work.part_sums + 2 * part, mask=inside, other=0.0), axis=0)
    value = tl.sum(tl.load(work.part_sums + 2 * part + 1, mask=inside, other=0.0), axis=0)
    tl.store(statistics.sums, tl.load(statistics.sums) + loss)
    tl.store(statistics.sums + 1, tl.load(statistics.sums + 1) + value)
    tl.store(statistics.sums + 2, tl.load(statistics.sums + 2) + norm)
    finite = (loss - loss) == 0.0
    if (tl.load(statistics.first_bad) < 0) & (finite == 0):
        tl.store(statistics.first_bad, (tl.load(step) - 1.0).to(tl.int64))


@triton.jit
def adam_kernel(flat, target, state, work, statistics, rules: tl.constexpr, PDL: tl.constexpr):
    """g ← g · min(1, clip / (‖g‖ + 10⁻⁶)); p ← p − lr · decay · p; m ← m + 0.1 (g − m); v ← v + 0.001 (g² − v);

    p ← p − lr / (1 − 0.9ᵗ) · m / (√v / √(1 − 0.999ᵗ) + ε); target ← target + τ (p − target), unless τ = 0.
    The first program also adds up the statistics.
    """
    block = tl.program_id(0)
    index = block * rules.size + tl.arange(0, rules.size)
    inside = index < rules.parameters
    p = tl.load(flat + index, mask=inside, other=0.0)
    m = tl.load(state.exp_avg + index, mask=inside, other=0.0)
    v = tl.load(state.exp_avg_sq + index, mask=inside, other=0.0)
    rate = tl.load(state.lr)
    t = p
    if rules.tau > 0:
        t = tl.load(target + index, mask=inside, other=0.0)
    wait_for_previous(PDL)  # all of the above was written before this update began
    g = tl.load(work.gradient + index, mask=inside, other=0.0)
    which = tl.arange(0, rules.padded_squares)
    norm = tl.sqrt(tl.sum(tl.load(work.squares + which, mask=which < rules.squares, other=0.0), axis=0))
    if rules.clip > 0:
        scale = rules.clip / (norm + 1e-6)
        g *= tl.where(scale > 1.0, 1.0, scale)
    if rules.decay > 0:
        p -= rate * rules.decay * p
    m += 0.1 * (g - m)
    v += 0.001 * (g * g - v)
    p -= rate / tl.load(work.corrections) * m / (tl.sqrt(v) / tl.load(work.corrections + 1) + rules.eps)
    tl.store(flat + index, p, mask=inside)
    tl.store(state.exp_avg + index, m, mask=inside)
    tl.store(state.exp_avg_sq + index, v, mask=inside)
    if rules.tau > 0:
        tl.store(target + index, t + rules.tau * (p - t), mask=inside)
    if block == 0:
        _add_statistics(norm, work, state.step, statistics, rules)
