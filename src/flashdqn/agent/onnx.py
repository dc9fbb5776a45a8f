"""An exported policy, ready to act, with NumPy and onnxruntime alone: PyTorch is neither needed nor imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flashdqn.agent.description import Description
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError

Array = npt.NDArray[Any]


class OnnxAgent:
    """A policy from an ONNX file: greedy, as `Agent` is."""

    def __init__(self, file: str | Path, threads: int = 1) -> None:
        """`threads` compute one call together; small networks are fastest with one."""
        self._session = open_session(Path(file), threads)
        texts = self._session.get_modelmeta().custom_metadata_map
        self.description = Description.from_texts(texts, str(file))

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
    if not file.is_file():
        raise CheckpointError(f"{file} does not exist: `flashdqn export RUN` writes one.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: notes about its own optimizations do not help users
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its error classes share no other base
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{file} cannot be opened as an ONNX file: {reason}") from None
