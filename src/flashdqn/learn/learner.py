"""The learner: online and target network, optimiser, and one update."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.build import build_bootstrap
from flashdqn.learn.divergence import DivergenceWatch
from flashdqn.learn.heads import Head
from flashdqn.learn.loss import td_loss
from flashdqn.networks.noisy import Noise, is_noisy
from flashdqn.networks.roles import draw_fractions_from, make_policy, make_target
from flashdqn.types import Batch


class Learner:
    """Applies `td_loss`. Sums of loss, Q and gradient norm stay on the device until a report reads them."""

    def __init__(
        self,
        config: LearnConfig,
        network: nn.Module,
        head: Head,
        device: torch.device,
        generators: Mapping[str, torch.Generator] | None = None,
    ) -> None:
        """`generators` has what the network's own randomness comes from: "noise" and "fractions", where needed."""
        self.config, self.head, self.device = config, head, device
        self.generators = dict(generators or {})
        self.bootstrap = build_bootstrap(config)
        self.online = network.to(device)
        self.target = self.online  # PQN has no other
        if config.method == "replay":
            self.target = make_target(self.online, chooses=config.bootstrap != "double")
        self.policy: Net = make_policy(self.online)
        self.noise = self._start_randomness()
        self.parameters: list[Tensor] = list(self.online.parameters())
        self._target_parameters: list[Tensor] = list(self.target.parameters())
        self.lr = torch.tensor(config.lr, device=device)
        self.optimizer = make_optimizer(config, self.parameters, self.lr)
        self.watch = DivergenceWatch(device)
        self.sums = torch.zeros(3, device=device)  # loss, Q, gradient norm
        self.updates = 0

    def _start_randomness(self) -> Noise | None:
        if "fractions" in self.generators:
            draw_fractions_from(self.generators["fractions"], self.online, self.target)
        if not is_noisy(self.online):
            return None
        networks = [self.online] if self.target is self.online else [self.online, self.target]
        noise = Noise(networks, self.generators["noise"])
        noise.resample()
        return noise

    def update(self, batch: Batch) -> Tensor:
        """One gradient step; returns the samples' priorities, [B]."""
        if self.noise is not None:
            self.noise.resample()
        result = td_loss(self.online, self.target, batch, self.head, self.bootstrap)
        self.watch.observe(result.loss, batch, self.updates)
        self.optimizer.zero_grad(set_to_none=True)
        result.loss.backward()  # type: ignore[no-untyped-call]
        limit = self.config.grad_clip or float("inf")
        norm = nn.utils.clip_grad_norm_(self.parameters, limit)
        self.optimizer.step()
        self.updates += 1
        self._move_target()
        self.sums += torch.stack((result.loss.detach(), result.q, norm))
        return result.priority

    @torch.no_grad()
    def _move_target(self) -> None:
        every = self.config.target_every
        if self.target is self.online:
            return
        if every == 0:
            torch._foreach_lerp_(self._target_parameters, self.parameters, self.config.target_tau)
        elif self.updates % every == 0:
            torch._foreach_copy_(self._target_parameters, self.parameters)

    def read_sums(self) -> dict[str, float]:
        """Sums since the last call; the one place that asks the device."""
        self.watch.check()
        loss, q, norm = self.sums.tolist()
        self.sums.zero_()
        return {"loss": loss, "q": q, "grad_norm": norm}

    def weights(self) -> dict[str, Tensor]:
        """The online network's weights: all that is needed to act."""
        return {name: tensor.detach() for name, tensor in self.online.state_dict().items()}

    def state_dict(self) -> dict[str, Tensor]:
        """What resuming needs besides the weights."""
        state: dict[str, Tensor] = {}
        if self.target is not self.online:
            state = {f"target.{name}": tensor for name, tensor in self.target.state_dict().items()}
        for i, parameter in enumerate(self.parameters):
            for name, tensor in self.optimizer.state[parameter].items():
                state[f"optimizer.{i}.{name}"] = tensor
        return state | {"lr": self.lr, "sums": self.sums}

    def load_state_dict(
        self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor], updates: int
    ) -> None:
        """Go on from a checkpoint."""
        self.online.load_state_dict(weights)
        if self.target is not self.online:
            self.target.load_state_dict(_part(state, "target."))
        for i, parameter in enumerate(self.parameters):
            moments = _part(state, f"optimizer.{i}.")
            self.optimizer.state[parameter].clear()  # a checkpoint from before the first update has none
            for name, tensor in moments.items():
                device = "cpu" if name == "step" and not self._steps_on_device else self.device
                self.optimizer.state[parameter][name] = tensor.to(device, copy=True)
        self.lr.copy_(state["lr"])
        self.sums.copy_(state["sums"])
        self.updates = updates

    @property
    def _steps_on_device(self) -> bool:
        group = self.optimizer.param_groups[0]
        return bool(group.get("fused") or group["capturable"])


def make_optimizer(config: LearnConfig, parameters: list[Tensor], lr: Tensor) -> torch.optim.Optimizer:
    """Fused Adam or AdamW, or RAdam; the learning rate is a tensor, so that it can change inside a graph."""
    if config.optimizer == "radam":  # PyTorch has no fused one
        on_cuda = lr.device.type == "cuda"
        return torch.optim.RAdam(parameters, lr=lr, eps=config.adam_eps, foreach=on_cuda, capturable=on_cuda)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, lr=lr, eps=config.adam_eps, weight_decay=config.weight_decay, fused=True)


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
