"""Settings of a GPU that cost nothing to change: precision, where tensors are made, and how they travel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, Place, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import LEAST_CALLS, compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import EventKind, Phase
from flashdqn.doctor.watch.rows import CallSite

COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.DATA_MOVEMENT)
BUSY = 0.6
"""A GPU that is less busy than this is not waiting for its products."""
WITH_TF32, WITH_HALF = 2.0, 2.5
"""How much faster products are, cautiously: the hardware promises more, memory allows less."""
AMPERE = 8
ALIGNED = 8
OVERHANG = 2.0
MAKERS = re.compile(
    r"torch\.(tensor|zeros|ones|rand|randn|randint|arange|full|empty|eye|linspace|as_tensor|from_numpy)\("
)


@finding_rule
def detect_precision(evidence: Evidence) -> Iterator[Finding]:
    """Products in full precision on a GPU whose fast units stand idle."""
    settings, busy = evidence.record.settings, evidence.record.utilization
    if settings.capability < AMPERE or settings.dtypes != ("float32",) or busy is None or busy < BUSY:
        return
    place = evidence.update_call()
    share = evidence.share(*COMPUTE)
    if not settings.tf32:
        yield Finding(
            name="tf32-off",
            title="Products are computed in full float32, although this GPU has TF32",
            file=place[0],
            line=place[1],
            share=share,
            speedup=estimate_speedup(share * busy, WITH_TF32),
            evidence=(f"The GPU was busy {busy:.0%} of the time, and TF32 is off for matrix products.",),
            advice="Allow TF32: products with 10 bits of mantissa, sums in float32. Rewards and targets do not "
            "notice.",
            example='torch.set_float32_matmul_precision("high")',
            cure="tf32",
            limit=Limit.COMPUTE,
            certainty=compute_certainty(evidence, share, 0.3),
        )
    yield Finding(
        name="half-unused",
        title="A network in float32 keeps the GPU busy: half precision is not used",
        file=place[0],
        line=place[1],
        share=share,
        speedup=estimate_speedup(share * busy, WITH_HALF if not settings.tf32 else 1.5),
        evidence=(
            f"The GPU was busy {busy:.0%} of the time, and all parameters of {settings.network} are float32.",
        ),
        advice="Compute the forward pass and the loss in bfloat16 (autocast); parameters and optimizer stay "
        "float32.",
        example='with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = compute_loss(batch)',
        cure="bf16",
        limit=Limit.COMPUTE,
        certainty=compute_certainty(evidence, share, 0.3),
    )


@finding_rule
def detect_unaligned_products(evidence: Evidence) -> Iterator[Finding]:
    """Layers whose sizes keep a GPU's fast units from being used."""
    settings, busy = evidence.record.settings, evidence.record.utilization
    odd = [
        pair
        for pair in settings.widths
        if pair[0] >= 64 and pair[1] >= 64 and (pair[0] % ALIGNED or pair[1] % ALIGNED)
    ]
    if not settings.capability or not odd or busy is None or busy < BUSY:
        return
    place = evidence.update_call()
    sizes = ", ".join(f"{a} to {b}" for a, b in odd[:3])
    yield Finding(
        name="unaligned-products",
        title="Layers with sizes that are not multiples of 8 run on the slow paths of this GPU",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(f"Linear layers from {sizes} features.", f"The GPU was busy {busy:.0%} of the time."),
        advice="Round hidden sizes and vocabularies up to multiples of 8, better of 64.",
        example="hidden = (hidden + 63) // 64 * 64",
        certainty=1.0,
    )


def list_moves(evidence: Evidence) -> list[CallSite]:
    """Lines that bring tensors to the GPU, again and again."""
    kinds = (EventKind.TO, EventKind.CUDA)
    return [site for site in evidence.record.kinds(*kinds) if site.on_device and site.count >= LEAST_CALLS]


@finding_rule
def detect_made_on_cpu(evidence: Evidence) -> Iterator[Finding]:
    """Tensors that are made on the host only to be moved."""
    sites = [site for site in list_moves(evidence) if MAKERS.search(source.read_line(site.file, site.line))]
    if evidence.record.device != "cuda" or not sites:
        return
    share = evidence.at({(site.file, site.line) for site in sites})
    worst = max(sites, key=lambda site: site.seconds)
    yield Finding(
        name="made-on-cpu",
        title="Tensors are made on the host and then moved to the GPU",
        file=worst.file,
        line=worst.line,
        share=share,
        speedup=estimate_speedup(share, 2.0),
        evidence=tuple(
            f"Line {site.line}: {site.count:,} times, {1e6 * site.each:,.0f} µs each for the move."
            for site in sorted(sites, key=lambda site: -site.seconds)[:3]
        ),
        advice="Make it where it is used.",
        example="noise = torch.randn(n, device=device)      # not torch.randn(n).to(device)",
        limit=Limit.COPIES,
        certainty=compute_certainty(evidence, share, 0.05),
    )


@finding_rule
def detect_pageable_copies(evidence: Evidence) -> Iterator[Finding]:
    """Batches of a DataLoader that travel from memory which the GPU cannot read itself."""
    loaders = [use for use in evidence.record.loaders if not use.pinned]
    sites = list_moves(evidence)
    if evidence.record.device != "cuda" or not loaders or not sites:
        return
    share = compute_share(
        sum(site.steady for site in sites), evidence.record.counted.seconds or evidence.watched
    )
    worst = max(sites, key=lambda site: site.seconds)
    yield Finding(
        name="pageable-copies",
        title="Batches are copied to the GPU from pageable memory, and the host waits",
        file=worst.file,
        line=worst.line,
        share=share,
        speedup=estimate_speedup(share, 2.0),
        evidence=(f"The DataLoader has pin_memory=False; its copies take {share:.0%} of the time.",),
        advice="Pin the loader's memory and copy without blocking: the copy then runs beside the computing.",
        example="DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)",
        limit=Limit.COPIES,
        certainty=compute_certainty(evidence, share, 0.05),
    )


@finding_rule
def detect_memory_overhang(evidence: Evidence) -> Iterator[Finding]:
    """Memory of the GPU that torch keeps without using it."""
    settings = evidence.record.settings
    if settings.allocated < 2**30 or settings.reserved < OVERHANG * settings.allocated:
        return
    yield Finding(
        name="device-memory",
        title=f"torch keeps {settings.reserved / 2**30:.1f} GB of the GPU, of which at most "
        f"{settings.allocated / 2**30:.1f} were used",
        file=evidence.record.script,
        line=0,
        share=0.0,
        speedup=1.0,
        evidence=("Blocks of many sizes were kept: shapes change from step to step.",),
        advice="Keep shapes the same, or let blocks grow.",
        example="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
        certainty=1.0,
    )


@finding_rule
def detect_data_parallel(evidence: Evidence) -> Iterator[Finding]:
    """`nn.DataParallel`: one process for all GPUs, which copies the network at every step."""
    found = [f for f in evidence.record.forwards if f.network == "DataParallel"]
    if not found:
        return
    place: Place = max(((f.file, f.line) for f in found), key=lambda p: evidence.at([p]))
    yield Finding(
        name="data-parallel",
        title="nn.DataParallel copies the network to every GPU at every step, from one Python process",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(f"{sum(f.count for f in found):,} calls of a network in DataParallel.",),
        advice="One process for each GPU, with DistributedDataParallel; with one GPU, leave it out.",
        example="torchrun --nproc-per-node=2 train.py      # model = DistributedDataParallel(model)",
        certainty=1.0,
    )
