"""Settings of torch that are put into a script from outside."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from .injection import Injection

NEAR = 4
"""Frames between a network's call and the line that a finding names."""


class Threads(Injection):
    """Another number of threads, also where the script sets it itself."""

    def begin(self) -> None:
        """Libraries with threads of their own read these variables once."""
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(self.settings["number"])

    def change(self, module: Any) -> None:
        """Set it, and keep it."""
        number = int(self.settings["number"])
        original = module.set_num_threads
        original(number)
        module.set_num_threads = functools.wraps(original)(lambda _: original(number))
        self.note(f"torch.set_num_threads({number})")


class OptimizerFlag(Injection):
    """Optimizers are made with `fused=True` or `foreach=True`, where the script says nothing about it."""

    def change(self, module: Any) -> None:
        """Change the constructors of all optimizers that know the flag."""
        for made in vars(module.optim).values():
            if isinstance(made, type) and issubclass(made, module.optim.Optimizer):
                changed: Any = made
                code = getattr(vars(made).get("__init__"), "__code__", None)
                if code is not None and self.settings["flag"] in code.co_varnames:
                    changed.__init__ = self.flagged(made, changed.__init__)

    def flagged(self, made: type, original: Callable[..., None]) -> Callable[..., None]:
        """The same constructor with the flag; without it where torch refuses it for these parameters."""
        flag = self.settings["flag"]

        @functools.wraps(original)
        def construct(optimizer: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            said = {"fused", "foreach", "differentiable"} & set(kwargs)
            if said or type(optimizer) is not made:
                return original(optimizer, params, *args, **kwargs)
            params = [dict(part) if isinstance(part, dict) else part for part in params]
            try:
                original(optimizer, params, *args, **{**kwargs, flag: True})
            except RuntimeError as error:
                self.failures.append(f"{made.__name__}: {error}"[:200])
                return original(optimizer, params, *args, **kwargs)
            self.note(f"{made.__name__}(…, {flag}=True)")
            return None

        return construct


class Flush(Injection):
    """Numbers too small for full precision are zero."""

    def change(self, module: Any) -> None:
        """One call, on the main thread."""
        if module.set_flush_denormal(True):
            self.note("torch.set_flush_denormal(True)")
        else:
            self.failures.append("this processor cannot flush subnormal numbers")


class Tf32(Injection):
    """Matrix products on a GPU in TF32."""

    def change(self, module: Any) -> None:
        """Set it, for products and convolutions."""
        module.set_float32_matmul_precision("high")
        module.backends.cudnn.allow_tf32 = True
        self.note('torch.set_float32_matmul_precision("high")')


class OutermostCall(Injection):
    """Something around each outermost call of a network."""

    def change(self, module: Any) -> None:
        """Replace `nn.Module.__call__`."""
        original = module.nn.Module.__call__
        inside = [False]

        @functools.wraps(original)
        def call(network: Any, *args: Any, **kwargs: Any) -> Any:
            if inside[0]:
                return original(network, *args, **kwargs)
            inside[0] = True
            try:
                return self.around(module, functools.partial(original, network), args, kwargs)
            finally:
                inside[0] = False

        module.nn.Module.__call__ = call

    def around(self, torch: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """The outermost call."""
        return call(*args, **kwargs)


class NoGrad(OutermostCall):
    """No graph for the network's calls at some lines."""

    def begin(self) -> None:
        """Read the lines."""
        self.places = {(str(file), int(line)) for file, line in self.settings["places"]}

    def around(self, torch: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """Without gradients if one of the lines calls."""
        if not self.is_called_there(sys._getframe(2)):
            return call(*args, **kwargs)
        if not self.applied:
            self.note("torch.no_grad() around the call")
        with torch.no_grad():
            return call(*args, **kwargs)

    def is_called_there(self, frame: FrameType | None) -> bool:
        """Whether one of the lines calls, directly or through a network's own `forward`."""
        for _ in range(NEAR):
            if frame is None:
                return False
            if (frame.f_code.co_filename, frame.f_lineno) in self.places:
                return True
            frame = frame.f_back
        return False


class Bfloat16(OutermostCall):
    """The networks' calls in bfloat16 where torch finds that safe; their results are float32 again."""

    def around(self, torch: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """Under autocast."""
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        if not self.applied:
            self.note(f'torch.autocast("{device}", torch.bfloat16)')
        with torch.autocast(device, dtype=torch.bfloat16):
            return widen(torch, call(*args, **kwargs))


def widen(torch: Any, result: Any) -> Any:
    """A network's result with float32 in the place of bfloat16."""
    if isinstance(result, torch.Tensor):
        return result.float() if result.dtype is torch.bfloat16 else result
    if type(result) in (tuple, list):
        return type(result)(widen(torch, part) for part in result)
    return result


class Compile(Injection):
    """Networks are compiled at their first call."""

    def change(self, module: Any) -> None:
        """Compile the outermost network of each call."""
        original = module.nn.Module.__call__
        seen: set[int] = set()
        kept: list[Any] = []
        inside = [False]

        @functools.wraps(original)
        def call(network: Any, *args: Any, **kwargs: Any) -> Any:
            if inside[0] or module.compiler.is_compiling():
                return original(network, *args, **kwargs)
            if id(network) not in seen:
                seen.add(id(network))
                kept.append(network)
                if next(network.parameters(), None) is not None and len(list(network.children())):
                    network.compile()
                    self.note(f"{type(network).__name__}.compile()")
            inside[0] = True
            try:
                return original(network, *args, **kwargs)
            finally:
                inside[0] = False

        module.nn.Module.__call__ = call


class SetToNone(Injection):
    """Gradients are let go between updates, not filled with zeros."""

    def change(self, module: Any) -> None:
        """For optimizers and networks."""
        for made in (module.optim.Optimizer, module.nn.Module):
            made.zero_grad = self.letting_go(made.zero_grad)

    def letting_go(self, original: Callable[..., None]) -> Callable[..., None]:
        """The same method with `set_to_none=True`."""

        @functools.wraps(original)
        def zero_grad(what: Any, set_to_none: bool = True) -> None:
            if not set_to_none and not self.applied:
                self.note("zero_grad(set_to_none=True)")
            original(what, set_to_none=True)

        return zero_grad
