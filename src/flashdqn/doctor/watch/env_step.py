"""What the result of an environment's step says: how many transitions it made, and which episodes ended.

Nothing here waits for a GPU: results there are counted by their shape, and their ends stay unknown.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from .counters import counters, local, note_event, note_failure, note_training_start, widths
from .kinds import EventKind
from .torch_hooks import methods

#: (environment, index) → the number of its vector steps when its episode began
began_at: dict[tuple[int, int], int] = {}
steps_of: dict[int, int] = {}


class Resets:
    """Who resets the environments: the script, or they themselves within their steps."""

    def __init__(self) -> None:
        self.by_hand: dict[int, int] = {}
        """By an environment's id, how often the script has reset it."""
        self.ended: set[int] = set()
        """Those whose episode has ended since."""
        self.inside = 0


resets = Resets()
OVER: list[Any] = [True]
NOT_OVER: list[Any] = []


autoreset = [""]
"""How a vector of environments resets itself, once one was seen."""


def describe_autoreset(env: Any) -> str:
    """The mode of a vector of Gymnasium's environments, in its own word; empty for everything else."""
    if type(env).__module__.partition(".")[0] != "gymnasium" or not hasattr(env, "num_envs"):
        return ""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode", "")
    return str(getattr(mode, "value", mode))


def is_step_result(result: Any) -> bool:
    """Whether this is what an environment's step returns; other classes have a `step` too."""
    if not issubclass(type(result), tuple):
        return is_tensordict(result)
    return len(result) >= 3 or is_reward_and_end(result)


def is_reward_and_end(result: tuple[Any, ...]) -> bool:
    """Whether these are two values, a number and a flag: the observation is asked for elsewhere."""
    return len(result) == 2 and type(result[1]) is bool and type(result[0]) in (int, float)


def is_tensordict(result: Any) -> bool:
    """Whether this is a tensordict, which TorchRL's environments return."""
    return type(result).__module__.partition(".")[0] == "tensordict"


def note_step(env: Any, result: Any, seconds: float, frame: FrameType) -> None:
    """Count one step of an environment."""
    try:
        number, ends = read_step_result(result)
        counters.vector_steps += 1
        counters.transitions += number
        widths[number] = widths.get(number, 0) + 1
        note_training_start()
        note_event(EventKind.ENV_STEP, frame, seconds, number)
        pending = local.pending
        if pending:
            for forward in pending:
                forward.acting += 1
            pending.clear()
        methods.settle()
        if id(env) not in steps_of and not autoreset[0]:
            autoreset[0] = describe_autoreset(env)
        over = find_ended_envs(number, ends) if ends else NOT_OVER
        if resets.ended and id(env) in resets.ended:
            counters.late_steps += 1
            over = NOT_OVER  # of an episode that has ended before
        elif over and is_reset_by_hand(env, result):
            resets.ended.add(id(env))
        count_ended_episodes(id(env), over)
    except Exception as error:
        note_failure(note_step, error)


def is_reset_by_hand(env: Any, result: Any) -> bool:
    """Whether the script must reset this environment: it has done so more than once, no environment was ever reset
    inside a step, and the flags are not those of a vector, which resets itself."""
    if type(result) is not tuple:
        return False
    end = result[1] if len(result) == 2 else result[2]
    if hasattr(end, "__len__"):
        return False
    return not resets.inside and resets.by_hand.get(id(env), 0) > 1


def note_reset(env: Any, inside: bool) -> None:
    """An environment begins an episode: because the script says so, or inside a step."""
    if inside:
        resets.inside += 1
        resets.ended.clear()
    else:
        resets.by_hand[id(env)] = resets.by_hand.get(id(env), 0) + 1
        resets.ended.discard(id(env))


def read_step_result(result: Any) -> tuple[int, list[Any]]:
    """How many transitions were made, and the flags that say which episodes ended. The simplest result, a tuple of
    four or five with a number and bool flags, may come a million times in a run, so it is read right here."""
    if type(result) is tuple and len(result) > 3 and type(result[2]) is bool:
        # Compared by `is`: a metaclass may define its own `==`.
        number, second = type(result[1]), type(result[3])
        if (number is float or number is int) and (second is bool or second is dict):
            return 1, OVER if result[2] or result[3] is True else NOT_OVER
    reward, ends = read_rewards_and_ends(result)
    return count_transitions(reward), ends


def read_rewards_and_ends(result: Any) -> tuple[Any, list[Any]]:
    """The rewards and the flags of ended episodes: from Gymnasium's five values, the older four, or three."""
    if is_tensordict(result):
        return result, []
    if len(result) == 2:
        return result[0], [result[1]]
    if isinstance(result[1], bool) and not isinstance(result[2], bool):
        return result[0], [result[1]]  # reward, done and something else, without an observation
    ends = list(result[2:4])
    if len(ends) == 2 and isinstance(ends[1], (dict, list, tuple)):
        ends.pop()  # the older four: infos
    return result[1], [end for end in ends if is_readable_flag(end)]


def is_readable_flag(end: Any) -> bool:
    """Whether flags can be read without waiting: they are not on a GPU, and not a tracer of JAX."""
    if isinstance(end, (bool, int, list)):
        return True
    home = type(end).__module__.partition(".")[0]
    return home == "numpy" or (home == "torch" and str(end.device) == "cpu")


def count_transitions(values: Any) -> int:
    """How many transitions these rewards are for."""
    if hasattr(values, "numel"):
        return max(int(values.numel()), 1)
    if isinstance(getattr(values, "size", None), int):
        return max(int(values.size), 1)
    return max(len(values), 1) if isinstance(values, (list, tuple)) else 1


def count_ended_episodes(env: int, indexes: list[int]) -> None:
    """Count the episodes that ended, and their lengths."""
    now = steps_of[env] = steps_of.get(env, 0) + 1
    for index in indexes:
        began = began_at.get((env, index), 0)
        began_at[env, index] = now
        counters.episodes += 1
        counters.episode_steps += now - began


def find_ended_envs(number: int, ends: list[Any]) -> list[int]:
    """The indexes of the environments whose episode ended."""
    if number == 1:
        return [0] if any(is_any_true(end) for end in ends) else []
    indexes: set[int] = set()
    for end in ends:
        if hasattr(end, "any") and not is_any_true(end.any()):
            continue
        flags = end.reshape(-1).tolist() if hasattr(end, "tolist") else end
        if isinstance(flags, list):
            indexes.update(i for i, flag in enumerate(flags) if flag is True or flag == 1)
    return sorted(indexes)


def is_any_true(value: Any) -> bool:
    """Whether a bool or a number is true, or anything in a list, an array or a tensor."""
    if isinstance(value, list):
        return any(map(is_any_true, value))
    return value is True or (value is not False and bool(value.any() if hasattr(value, "any") else value))
