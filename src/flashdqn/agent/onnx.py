"""An exported policy, ready to act, with NumPy and onnxruntime alone: PyTorch is neither needed nor imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flashdqn.agent.description import Description
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError
from flashdqn.core.files import describe_problem, read_plain_file
from flashdqn.core.text import clean_line

Array = npt.NDArray[Any]
#: The largest file: the format holds no more.
MOST_BYTES = 2**31


class OnnxAgent:
    """A policy from an ONNX file: greedy, as `Agent` is."""

    def __init__(self, file: str | Path, threads: int = 1) -> None:
        """`threads` compute one call together; small networks are fastest with one."""
        self._session = open_session(Path(file), threads)
        self.description = Description.from_texts(read_texts(self._session, file), str(file))
        check_graph(self._session, self.description, file)

    @property
    def num_actions(self) -> int:
        """The number of actions; of choices in all parts, where an action has several."""
        return len(self.description.actions)

    def q(self, obs: Any) -> Array:
        """Action values, [B, A] (or [A] for a single observation)."""
        batch, single = self._batch(obs)
        q = self.answer(batch, None)[1]
        return q[0] if single else q

    def act(self, obs: Any, mask: Any = None) -> Any:
        """The best legal action: an int for one observation, an array of them for a batch. Where an action has
        several parts, it is an array with the choice in each, from 0."""
        batch, single = self._batch(obs)
        action = self.answer(batch, mask)[0]
        if not single:
            return action
        return action[0] if self.description.branches else int(action[0])

    def answer(self, batch: Array, mask: Any) -> tuple[Array, Array]:
        """Actions [B] (with D parts, [B, D]) and values [B, A] of a batch of the right shape and dtype."""
        inputs = {"obs": batch}
        if self.description.masked:
            shape = (len(batch), self.num_actions)
            legal = np.ones(shape, np.bool_) if mask is None else np.asarray(mask, np.bool_).reshape(shape)
            inputs["mask"] = legal
        elif mask is not None:
            raise EnvError(
                f"The task {self.description.task} has no illegal actions, and the file has no input for a "
                "mask: leave it out."
            )
        action, q = self._session.run(["action", "q"], inputs)
        return action, q

    def _batch(self, obs: Any) -> tuple[Array, bool]:
        shape = self.description.observation_shape
        array = np.asarray(obs)
        batch = np.ascontiguousarray(array, dtype=self.description.observation_dtype)
        single = batch.shape == shape
        if single:
            batch = batch[None]
        if batch.shape[1:] != shape or batch.ndim == 0:
            raise EnvError(
                f"This agent reads observations of shape {list(shape)}, alone or in a batch, "
                f"and got {list(array.shape)}."
            )
        return batch, single


def load_onnx(file: str | Path, threads: int = 1) -> OnnxAgent:
    """The agent in an ONNX file that `flashdqn export` wrote."""
    return OnnxAgent(file, threads)


def open_session(file: Path, threads: int) -> Any:
    """Open onnxruntime's session on the CPU."""
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError("onnxruntime is not installed: pip install onnxruntime") from None
    if threads < 1:
        raise ConfigError(f"threads must be at least 1, and is {threads}.")
    try:
        data = read_plain_file(file, follow=True, most=MOST_BYTES)
    except FileNotFoundError:
        raise CheckpointError(f"{file} does not exist: `flashdqn export RUN` writes one.") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} {describe_problem(error)}.") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # nothing: errors are raised, too
    # A graph may ask for weights from other files: where it may look, there are none.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    try:
        return onnxruntime.InferenceSession(
            data, options, providers=["CPUExecutionProvider"], enable_fallback=False
        )
    except Exception as error:  # its error classes share no other base
        reason = clean_line(str(error), 300)
        raise CheckpointError(f"{file} cannot be opened as an ONNX file: {reason}") from None


def read_texts(session: Any, file: str | Path) -> dict[str, str]:
    """The metadata of an open file."""
    try:
        return dict(session.get_modelmeta().custom_metadata_map)
    except ValueError:  # it is not UTF-8
        raise CheckpointError(f"The metadata of {file} cannot be read: they are damaged.") from None


def check_graph(session: Any, about: Description, file: str | Path) -> None:
    """Refuse a graph whose inputs and outputs are not those that its description tells of."""
    kinds = {"float32": "tensor(float)", "uint8": "tensor(uint8)"}
    count = len(about.actions)
    wanted = {
        "obs": (kinds[about.observation_dtype], about.observation_shape),
        "q": ("tensor(float)", (count,)),
        "action": ("tensor(int64)", (len(about.branches),) if about.branches else ()),
    }
    if about.masked:
        wanted["mask"] = ("tensor(bool)", (count,))
    try:
        ends = (*session.get_inputs(), *session.get_outputs())
        found = {x.name: (x.type, tuple(x.shape[1:])) for x in ends}
    except ValueError:  # a name is not UTF-8
        raise CheckpointError(f"{file} cannot be played: its graph is damaged.") from None
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            raise CheckpointError(
                f"{file} cannot be played: its description and its graph differ in {clean_line(name, 60)!r}."
            )
