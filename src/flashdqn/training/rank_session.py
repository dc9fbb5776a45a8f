"""A session on several ranks: the same mode on all of them, and one that says what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from flashdqn.compute.ranks import Ranks
from flashdqn.config import Config
from flashdqn.core.errors import ConfigError, FlashDQNError, RankLostError
from flashdqn.training.autotune import Note
from flashdqn.training.prepared import Session
from flashdqn.training.rank_share import (
    agree_on_failures,
)
from flashdqn.training.rank_times import weigh_ranks


@contextmanager
def open_session(config: Config, note: Note, ranks: Ranks) -> Iterator[Session]:
    """`Session.open`, with several ranks in the same mode on all of them. Where a trial decides, the leader makes
    it and the others follow. Where graphs hold the exchange, all capture at the same time. An error on one of them
    ends all."""
    if not ranks.many:
        with Session.open(config, note) as session:
            yield session
        return
    with ExitStack() as stack:
        opened, failure = None, None
        if ranks.captures or ranks.leads:
            opened, failure = enter_session(stack, config, note, ranks)
        if not ranks.captures:
            agree_on_failures(ranks, failure)
            plan = ranks.share(None if opened is None else [opened.choice.plan.mode, opened.choice.threads])
            if not ranks.leads:
                runtime = replace(config.runtime, mode=plan[0], threads=plan[1])
                opened, failure = enter_session(stack, replace(config, runtime=runtime), note, ranks)
        agree_on_failures(ranks, failure)
        assert opened is not None
        check_same_plan(ranks, str(opened.choice.plan))
        weigh_ranks(opened.parts, opened.choice, note)
        yield opened


def enter_session(
    stack: ExitStack, config: Config, note: Note, ranks: Ranks
) -> tuple[Session | None, FlashDQNError | None]:
    """An open session, or what went wrong."""
    try:
        return stack.enter_context(Session.open(config, note, ranks=ranks)), None
    except RankLostError:
        raise
    except FlashDQNError as error:
        return None, error


def check_same_plan(ranks: Ranks, plan: str) -> None:
    """Refuse ranks that run their updates in different ways: their weights would drift apart."""
    plans = ranks.gather(plan)
    if len(set(plans)) > 1:
        text = ", ".join(f"{plan} on rank {rank}" for rank, plan in enumerate(plans))
        agree_on_failures(
            ranks, ConfigError(f"All ranks need the same mode, and have {text}: set --runtime.mode.")
        )
