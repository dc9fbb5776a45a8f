"""Reports made by hand: a full one, an empty one, a failed one, a hostile one, and one where nothing is known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashdqn.doctor.report.contents import (
    Finding,
    GrowingContainer,
    HotLine,
    Limit,
    PhaseShare,
    Report,
    Window,
)
from flashdqn.doctor.watch.kinds import Ending, Phase

NAN = float("nan")
NASTY = '</script><script>alert("&")</script> [bold]brackets[/bold] [/] \x1b[31m <b>'


def example(**changes: Any) -> Report:
    """A script about which a lot is known."""
    script = str(Path.cwd() / "scripts" / "train_dqn.py")
    report = Report(
        script=script,
        arguments=("--envs", "8", "--name", "two words"),
        ended=Ending.STOPPED,
        error="",
        seconds=60.4,
        python="3.11.7",
        torch="2.13.0",
        device="cuda (NVIDIA H200)",
        cores=16,
        threads=8,
        transitions=12_800,
        vector_steps=1_600,
        updates=51_200,
        episodes=41,
        batch_size=64,
        environments=8,
        bound=Limit.COPIES,
        bound_because="43% of the time goes into 25,600 copies of less than 1 KiB each.",
        overhead=0.031,
        samples=5_874,
        deep=False,
        phases=phases(),
        lines=lines(script),
        windows=windows(),
        findings=findings(script),
        notes=("The GPU's own time was not measured: that takes the deep mode.",),
        growth=(
            GrowingContainer(
                "losses", f"{script}:31", "list", tuple((float(k), 10 + 850 * k) for k in range(60))
            ),
        ),
    )
    return replace(report, **changes)


def phases() -> tuple[PhaseShare, ...]:
    seconds = {
        Phase.DATA_MOVEMENT: 25.9,
        Phase.BACKWARD: 10.2,
        Phase.ENVIRONMENT: 7.4,
        Phase.FORWARD: 6.1,
        Phase.OPTIMIZER: 3.9,
        Phase.REPLAY: 2.8,
        Phase.ACTING: 1.7,
        Phase.START_UP: 1.1,
        Phase.PYTHON_REST: 0.9,
        Phase.PRINTING: 0.3,
        Phase.LOGGING: 0.1,
    }
    return tuple(PhaseShare(name, value, value / 60.4) for name, value in seconds.items())


def windows(count: int = 60) -> tuple[Window, ...]:
    """Slow at first, then steady; episodes get longer, memory grows."""
    made = []
    for k in range(count):
        speed = 0.15 if k < 3 else 1 + 0.1 * math.sin(k)
        ended = 2 if k % 3 == 0 else 0
        parts = {
            Phase.DATA_MOVEMENT: 0.43,
            Phase.BACKWARD: 0.17,
            Phase.ENVIRONMENT: 0.12,
            Phase.FORWARD: 0.1,
            Phase.OPTIMIZER: 0.08,
        }
        parts |= {Phase.START_UP: 0.8} if k < 2 else {Phase.REPLAY: 0.05, Phase.ACTING: 0.05}
        made.append(
            Window(
                start=k * 1.0,
                seconds=1.0,
                transitions=round(216 * speed),
                vector_steps=round(27 * speed),
                updates=round(864 * speed),
                episodes=ended,
                episode_length=40 + 7.5 * k if ended else NAN,
                memory=(700 + 22 * k) * 2**20,
                device_memory=(400 + (k > 2) * 112) * 2**20,
                phases=parts,
            )
        )
    return tuple(made)


def lines(script: str) -> tuple[HotLine, ...]:
    source = [
        "    for i in range(self.num_envs):  # one by one",
        "        self.replay_buffer.push(",
        "            states[i].cpu().numpy(), actions[i].item(),",
        "            rewards[i].item(), next_states[i].cpu().numpy(),",
        "        )",
        '    self.log[f"step {step}"] = loss',
    ]
    around = tuple((350 + k, text) for k, text in enumerate(source))
    found = [(352, 0.27, "collect"), (353, 0.16, "collect"), (355, 0.04, "collect")]
    hot = [
        HotLine(script, n, name, source[n - 350].strip(), share, Phase.DATA_MOVEMENT, around)
        for n, share, name in found
    ]
    hot.append(HotLine("/elsewhere/torch/optim/adam.py", 247, "step", "adam(", 0.06, Phase.OPTIMIZER))
    hot.append(HotLine("<string>", 2, "<module>", "", 0.004, Phase.PYTHON_REST))
    return tuple(hot)


def findings(script: str) -> tuple[Finding, ...]:
    return (
        Finding(
            name="per-row-copies",
            title="Every transition is copied from the device on its own.",
            file=script,
            line=352,
            share=0.43,
            speedup=1.72,
            evidence=(
                "25,600 calls of .cpu() and 38,400 of .item() in 60 s, all of them for less than 1 KiB.",
                "Each waits for the device: 0.4 ms on average.",
            ),
            advice="Copy the whole batch once, and push its rows from there.",
            example="states_host = states.cpu().numpy()  # one copy for all\n"
            "for i in range(num_envs):\n    buffer.push(states_host[i], actions_host[i])\n",
        ),
        Finding(
            name="many-updates",
            title="32 gradient steps follow every vector step.",
            file=script,
            line=364,
            share=0.35,
            speedup=1.51,
            evidence=("51,200 updates for 12,800 transitions: 4 per transition.",),
            advice="Ask whether so many updates are meant. Fewer of larger batches learn from as much.",
            example="for _ in range(max(1, num_envs // 32)):\n    learn()\n",
            changes_learning=True,
            certainty=0.9,
        ),
        Finding(
            name="longer-episodes",
            title="Episodes get longer, so that episodes per second fall while nothing slows down.",
            file=script,
            line=0,
            share=0.0,
            speedup=1.0,
            evidence=("Mean length 40 at first, 480 at the end.", "Transitions per second are the same."),
            advice="Count transitions, not episodes.",
            example="",
        ),
    )


def healthy() -> Report:
    return example(
        bound=Limit.COMPUTE,
        bound_because="71% of the time is in matrix products of the network.",
        findings=(),
        growth=(),
        notes=(),
    )


def failed() -> Report:
    error = (
        'Traceback (most recent call last):\n  File "scripts/train_dqn.py", line 352, in collect\n'
        '    states[i].cpu()[bold]\nNameError: name "bold" is not defined. And this message goes on for '
        "much longer than eighty columns, as such messages do.\n"
    )
    return example(ended=Ending.FAILED, error=error)


def empty() -> Report:
    """A script that ended at its start."""
    return Report(
        script="empty.py", arguments=(), ended=Ending.FINISHED, error="", seconds=0.0, python="3.11.7", torch="",
        device="cpu", cores=1, threads=0, transitions=0, vector_steps=0, updates=0, episodes=0, batch_size=0,
        environments=0, bound=Limit.UNKNOWN, bound_because="", overhead=0.0, samples=0, deep=False, phases=(),
        lines=(), windows=(), findings=(), notes=(), growth=(),
    )  # fmt: skip


def nasty() -> Report:
    """Every text from the script tries to be markup or a control code."""
    finding = Finding(NASTY, NASTY, NASTY, 1, 0.5, 2.0, (NASTY,), NASTY, NASTY, True, 0.9)
    line = HotLine(
        NASTY, 3, NASTY, NASTY, 0.5, Phase.ACTING, ((2, "</pre>"), (3, NASTY), (4, "\udcff \0 '''"))
    )
    return example(
        script=NASTY,
        arguments=(NASTY, "\udcff"),
        ended=Ending.FAILED,
        error=NASTY,
        python=NASTY,
        device=NASTY,
        bound=Limit.UNKNOWN,
        bound_because=NASTY,
        windows=windows(5),
        lines=(line,),
        findings=(finding,),
        notes=(NASTY,),
        growth=(GrowingContainer(NASTY, NASTY, NASTY, ((0.0, 1), (1.0, 9))),),
    )


def unknown() -> Report:
    """NaN and infinity wherever a number may be one."""
    window = Window(0.0, 1.0, 0, 0, 0, 0, NAN, 0, 0, {Phase.ACTING: NAN})
    finding = replace(findings("train.py")[0], share=NAN, speedup=float("inf"), certainty=NAN)
    return example(
        seconds=NAN,
        overhead=NAN,
        phases=(PhaseShare(Phase.ACTING, NAN, NAN), PhaseShare(Phase.FORWARD, NAN, NAN)),
        lines=(HotLine("train.py", 1, "", "", NAN, Phase.ACTING),),
        windows=(window, replace(window, start=NAN, seconds=NAN), replace(window, start=2.0, seconds=0.0)),
        findings=(finding,),
    )


REPORTS = {
    "rich": example,
    "healthy": healthy,
    "failed": failed,
    "empty": empty,
    "nasty": nasty,
    "unknown": unknown,
}
