"""What to do: flags that change nothing about learning, and separately those that trade learning for speed."""

from __future__ import annotations

from collections.abc import Sequence

from flashdqn.profile.compare import ENOUGH
from flashdqn.profile.result import Advice, Outcome, RoundSpread, Suggestion

#: A smaller gain is not worth a flag.
WORTH = 1.05
#: More learning is a bargain if at least this speed is left.
CHEAP = 0.8

NO_PRODUCT = "Speed-ups of several flags do not multiply"


def select_safe_gains(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The best of each group that is faster and changes nothing about learning, the fastest first."""
    best: dict[str, Outcome] = {}
    for one in outcomes:
        if one.role == "same" and is_worthwhile_gain(one) and one.name != "recommended":
            other = best.get(one.group)
            if other is None or median_speed_up(one) > median_speed_up(other):
                best[one.group] = one
    return sorted(best.values(), key=median_speed_up, reverse=True)


def make_advice(outcomes: Sequence[Outcome], complete: bool = True) -> Advice:
    """Advice in words and in flags, only from what was measured."""
    same = select_safe_gains(outcomes)
    together = next((one for one in outcomes if one.name == "recommended"), None)
    trades = sorted(
        (one for one in outcomes if one.role == "trade" and is_worthwhile_gain(one)),
        key=median_speed_up,
        reverse=True,
    )
    bargains = [one for one in outcomes if one.role == "more" and is_bargain(one)]
    measured = [one for one in outcomes if one.role != "baseline"]
    return Advice(
        same=tuple(map(make_suggestion, same)),
        together=make_suggestion(together) if together is not None and together.speed_up else None,
        trades=tuple(map(make_suggestion, trades)),
        bargains=tuple(map(make_suggestion, bargains)),
        words=tuple(write_advice_sentences(same, together, outcomes, complete)) if measured else (),
    )


def write_advice_sentences(
    same: Sequence[Outcome], together: Outcome | None, outcomes: Sequence[Outcome], complete: bool
) -> list[str]:
    """The advice in sentences."""
    sentences = [recommend_flags(same, together) if same else explain_no_gain(outcomes)]
    if len(same) > 1 and together is None:
        sentences.append(f"{NO_PRODUCT}, and all of them together were not measured: take the first.")
    bound = next((one for one in outcomes if one.role == "bound" and one.verdict == "faster"), None)
    if bound is not None:
        sentences.append(
            f"Without any training it collects {format_speed_up(bound)} as fast: "
            "fewer updates cannot give more than that."
        )
    elif any(one.role == "bound" and one.verdict == "no difference" for one in outcomes):
        sentences.append(
            "Without any training it is not faster: the time goes into collecting, not into updates."
        )
    if not complete:
        sentences.append("It was stopped before the end: this uses what was measured until then.")
    return sentences


def recommend_flags(same: Sequence[Outcome], together: Outcome | None) -> str:
    """Name the best flags of those that leave learning as it is."""
    best = same[0]
    if together is None or together.speed_up is None:
        return f"Use {best.flags}: {format_speed_up(best)} as fast; {best.learning}."
    if together.verdict == "faster" and median_speed_up(together) > median_speed_up(best):
        return (
            f"Use {together.flags}: {format_speed_up(together)} as fast, measured together. {NO_PRODUCT}: "
            f"the best of them alone gives {format_speed_up(best)}."
        )
    return (
        f"Use {best.flags}: {format_speed_up(best)} as fast. All of them together gave "
        f"{format_speed_up(together)}, not more: "
        f"{NO_PRODUCT.lower()}."
    )


def explain_no_gain(outcomes: Sequence[Outcome]) -> str:
    """Why no flag is recommended: none is faster, or it is too early to say."""
    if all(one.role != "same" or one.verdict == "too few rounds" for one in outcomes):
        return "No flag that leaves learning as it is was measured for long enough to judge it."
    return "Nothing to gain without changing what is learned: it already runs as fast as with any of these."


def make_suggestion(one: Outcome) -> Suggestion:
    """An outcome as advice."""
    return Suggestion(one.flags, one.speed_up or RoundSpread(1.0, 1.0, 1.0), one.learning)


def is_worthwhile_gain(one: Outcome) -> bool:
    """Whether it is faster by enough to be worth a flag."""
    return one.verdict == "faster" and median_speed_up(one) >= WORTH


def is_bargain(one: Outcome) -> bool:
    """Whether it learns from more at little cost, in every round."""
    return one.speed_up is not None and one.rounds >= ENOUGH and one.speed_up.low >= CHEAP


def median_speed_up(one: Outcome) -> float:
    """Its median speed-up; 1.0 if there is none."""
    return one.speed_up.median if one.speed_up is not None else 1.0


def format_speed_up(one: Outcome) -> str:
    """The speed-up as 1.42 times, with its spread."""
    found = one.speed_up or RoundSpread(1.0, 1.0, 1.0)
    return f"{found.median:.2f} times ({found.low:.2f} … {found.high:.2f})"
