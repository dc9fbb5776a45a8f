"""The learner: online and target network, optimiser, and one update."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from flashdqn.compute.precision import Precision, with_precision
from flashdqn.compute.seeds import make_generator
from flashdqn.config import Config, LearnConfig
from flashdqn.config.axes import has_trait
from flashdqn.core.contract import VecEnv, get_decoder
from flashdqn.core.errors import CheckpointError
from flashdqn.core.types import Batch
from flashdqn.learn.adam import Adam
from flashdqn.learn.adam_cpu import NativeAdam
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.build import build_bootstrap, build_head, build_optimizer, check_variants
from flashdqn.learn.divergence import DivergenceWatch
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import Head
from flashdqn.learn.loss import Margin, TDLoss, td_loss
from flashdqn.networks import build_network
from flashdqn.networks.noisy import Noise, is_noisy
from flashdqn.networks.roles import make_policy, make_target, set_fraction_generator


class Learner:
    """Applies `td_loss`. Sums of loss, Q and gradient norm stay on the device until a report reads them."""

    def __init__(
        self,
        config: LearnConfig,
        network: nn.Module,
        head: Head,
        device: torch.device,
        generators: Mapping[str, torch.Generator] | None = None,
        precision: Precision = "fp32",
        margin: Margin | None = None,
    ) -> None:
        """`generators` has what the network's own randomness comes from: "noise" and "fractions", where needed.
        `margin`: how demonstrations teach, where batches hold some."""
        self.config, self.head, self.device, self.precision = config, head, device, precision
        self.margin = margin
        self.generators = dict(generators or {})
        self.bootstrap = build_bootstrap(config)
        self.online = network.to(device)
        self.target = self.online  # PQN has no other
        if config.method == "replay":
            self.target = make_target(self.online, chooses=not has_trait(self.bootstrap, "online_chooses"))
        self.policy: Net = with_precision(make_policy(self.online), precision, device)
        self.noise = self._start_randomness()
        self.flat = Flat(self.online)
        self.target_flat = self.flat if self.target is self.online else Flat(self.target)
        self.lr = torch.tensor(config.lr, device=device)
        self.adam = build_optimizer(config, self.flat, self.lr)
        self.watch = DivergenceWatch(device)
        self.sums = torch.zeros(3, device=device)  # loss, Q, gradient norm
        self.updates = 0
        self._step: Callable[[Batch], Tensor] = self.step_eagerly

    def _start_randomness(self) -> Noise | None:
        if "fractions" in self.generators:
            set_fraction_generator(self.generators["fractions"], self.online, self.target)
        if not is_noisy(self.online):
            return None
        networks = [self.online] if self.target is self.online else [self.online, self.target]
        noise = Noise(networks, self.generators["noise"])
        noise.resample()
        return noise

    def update(self, batch: Batch) -> Tensor:
        """One gradient step; returns the samples' priorities, [B]."""
        priority = self.step(batch)
        self.counted(1)
        return priority

    def step(self, batch: Batch) -> Tensor:
        """What the device does in a gradient step; a CUDA graph can hold it. The host must call `counted`."""
        if self.noise is not None:
            self.noise.resample()
        return self._step(batch)

    def counted(self, updates: int) -> None:
        """What the host does after gradient steps: count them, and copy into the target when it is time.

        No more of them may go by at once than `until_copy`.
        """
        self.updates += updates
        every = self.config.target_every
        if every and self.target is not self.online and self.updates % every == 0:
            self.target_flat.values.copy_(self.flat.values)

    @property
    def until_copy(self) -> int:
        """Gradient steps until the next hard copy into the target, or very many."""
        every = self.config.target_every
        return every - self.updates % every if every and self.target is not self.online else 1 << 30

    def compute_by(self, step: Callable[[Batch], Tensor]) -> None:
        """Choose how gradient steps are computed: `step_eagerly`, or what another way made of it."""
        self._step = step

    def step_eagerly(self, batch: Batch) -> Tensor:
        """By autograd, operation by operation."""
        result = self.loss(batch)
        self._watch(result, batch)
        self.flat.gradient.zero_()
        result.loss.backward()  # type: ignore[no-untyped-call]
        return self.apply(result)

    def loss(self, batch: Batch) -> TDLoss:
        """The TD loss of a batch with the present parameters."""
        online, target = (
            with_precision(net, self.precision, self.device) for net in (self.online, self.target)
        )
        return td_loss(online, target, batch, self.head, self.bootstrap, self.margin)

    @torch.no_grad()
    def apply(self, result: TDLoss) -> Tensor:
        """Clip the gradient and move the parameters, and the target towards them; returns the priorities."""
        norm = torch.linalg.vector_norm(self.flat.gradient)
        if self._one_pass is not None:
            self._one_pass(norm.item())
        else:
            if self.config.grad_clip:
                self.flat.gradient.mul_((self.config.grad_clip / (norm + 1e-6)).clamp_(max=1.0))
            self.adam.step()
            if self._soft:
                self.target_flat.values.lerp_(self.flat.values, self.config.target_tau)
        self.sums.add_(torch.stack((result.loss.detach(), result.q, norm)))
        return result.priority

    def step_whole(self, batch: Batch) -> Tensor:
        """The same as one function of flat tensors, without `backward()`: what a compiler can see through."""
        flat, online, target = self.flat, self.online, self.target
        frozen = self.target_flat.split(self.target_flat.values)

        def call(net: nn.Module, parameters: dict[str, Tensor]) -> Net:
            return with_precision(
                lambda obs: functional_call(net, parameters, (obs,)), self.precision, self.device
            )

        def loss_of(parameters: dict[str, Tensor]) -> tuple[Tensor, TDLoss]:
            nets = call(online, parameters), call(target, parameters if target is online else frozen)
            result = td_loss(*nets, batch, self.head, self.bootstrap, self.margin)
            return result.loss, result

        gradients, (_, result) = grad_and_value(loss_of, has_aux=True)(flat.split(flat.values))
        with torch.no_grad():
            gradient = flat.join(gradients)
            norm = torch.linalg.vector_norm(gradient)
            if self.config.grad_clip:
                gradient = gradient * (self.config.grad_clip / (norm + 1e-6)).clamp(max=1.0)
            if not self.watch.on_host:
                self.watch.mark(result.loss, self.adam.steps)
            self.adam.step_by_formula(gradient)
            if self._soft:
                self.target_flat.values.lerp_(flat.values, self.config.target_tau)
            self.sums.add_(torch.stack((result.loss.detach(), result.q.detach(), norm)))
        priority: Tensor = result.priority.detach()
        return priority

    def _watch(self, result: TDLoss, batch: Batch) -> None:
        if self.watch.on_host:
            self.watch.look(result.loss, batch, self.adam.steps)
        else:
            self.watch.mark(result.loss, self.adam.steps)

    def look_back(self, batch: Batch) -> None:
        """On the CPU, after a step whose loss nobody saw: the sums show whether it was bad."""
        if not self.sums[0].isfinite():
            self.watch.look(self.sums[0], batch, self.adam.steps - 1)

    @functools.cached_property
    def _one_pass(self) -> NativeAdam | None:
        """Made at the first update: whoever only acts has no use for it."""
        if self.device.type != "cpu" or not isinstance(self.adam, Adam) or not self.adam.fused:
            return None
        return NativeAdam(self.adam, self.target_flat.values, self.tau)

    @property
    def tau(self) -> float:
        """By how much the target follows after every step; 0: it is copied now and then, or there is none."""
        return self.config.target_tau if self._soft else 0.0

    @property
    def _soft(self) -> bool:
        return self.config.target_every == 0 and self.target is not self.online

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
        state |= {f"optimizer.{name}": tensor for name, tensor in self.adam.state_dict().items()}
        return state | {"lr": self.lr, "sums": self.sums}

    def load_state_dict(
        self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor], updates: int
    ) -> None:
        """Go on from a checkpoint; every tensor stays where it is, for graphs know their addresses."""
        self.online.load_state_dict(weights)
        if self.target is not self.online:
            self.target.load_state_dict(_strip_prefix(state, "target."))
        moments = _strip_prefix(state, "optimizer.")
        if moments.keys() != self.adam.state_dict().keys():
            raise CheckpointError(
                "This checkpoint's optimiser state was written by an earlier flashdqn: resume with that version, "
                "or start a new run; its weights can still be played and evaluated."
            )
        self.adam.load_state_dict(moments)
        self.lr.copy_(state["lr"])
        self.sums.copy_(state["sums"])
        self.watch.first_bad.fill_(-1)
        self.updates = updates


def _strip_prefix(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def build_learner(config: Config, env: VecEnv, device: torch.device) -> Learner:
    """Head, network and optimiser."""
    head = build_head(config.learn, device)
    check_variants(config, head, env.num_actions, device)
    weights = make_generator(config.seed, "weights")
    sizes = env.num_actions, weights, head.size, head.fractions
    network = build_network(config.network, env.obs_spec, *sizes, decoder=get_decoder(env))
    used = {"noise": config.network.noisy, "fractions": head.fractions is not None}
    generators = {name: make_generator(config.seed, name, device) for name, needed in used.items() if needed}
    demos = config.demos
    margin = Margin(demos.margin, demos.margin_weight) if demos.kept and demos.margin_weight else None
    return Learner(config.learn, network, head, device, generators, config.runtime.precision, margin)
