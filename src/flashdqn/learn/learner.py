"""The learner: online and target network, optimizer, and one update."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from flashdqn.compute.precision import Precision, with_precision
from flashdqn.compute.seeds import make_generator
from flashdqn.config import Config, LearnConfig
from flashdqn.config.axes import has_trait
from flashdqn.core.contract import VecEnv, get_branches, get_decoder, make_branches
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.types import Batch
from flashdqn.learn.adam import Adam
from flashdqn.learn.adam_cpu import NativeAdam
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.branching import wrap_bootstrap, wrap_head
from flashdqn.learn.build import build_bootstrap, build_head, build_optimizer, check_variants
from flashdqn.learn.distributional import CategoricalHead
from flashdqn.learn.divergence import DivergenceWatch
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import Head
from flashdqn.learn.loss import Margin, TDLoss, td_loss
from flashdqn.networks import build_network
from flashdqn.networks.boards.torso import use_kernels
from flashdqn.networks.fused.fit import use_fused
from flashdqn.networks.noisy import Noise, is_noisy
from flashdqn.networks.outputs import add_to_biases
from flashdqn.networks.roles import make_policy, make_target, set_fraction_generator

#: Changes the flat gradient, [P], in place, between backward and Adam.
Exchange = Callable[[Tensor], None]


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
        """`generators`: the generators of the network's own randomness, "noise" and "fractions", where needed.
        `margin`: how demonstrations teach, if batches contain some."""
        self.config, self.head, self.device, self.precision = config, head, device, precision
        self.margin = margin
        self.generators = dict(generators or {})
        self.bootstrap = wrap_bootstrap(build_bootstrap(config), head)
        self.online = network.to(device)
        if precision == "bf16":
            use_kernels(self.online, device)
        use_fused(self.online, device)
        self.target = self.online  # PQN has no separate one
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

    def step(self, batch: Batch, exchange: Exchange | None = None) -> Tensor:
        """One gradient step by autograd, operation by operation: the reference for every backend.

        This is the device's part, and a CUDA graph can hold it; the host must call `counted` afterwards.
        `exchange` changes the flat gradient before Adam sees it: several ranks average theirs.
        """
        self.resample_noise()
        result = self.loss(batch)
        self._watch(result, batch)
        self.flat.gradient.zero_()
        result.loss.backward()  # type: ignore[no-untyped-call]
        if exchange is not None:
            exchange(self.flat.gradient)
        return self.apply(result)

    def resample_noise(self) -> None:
        """Draw new noise for noisy layers; every gradient step begins with this."""
        if self.noise is not None:
            self.noise.resample()

    def counted(self, updates: int) -> None:
        """The host's part after gradient steps: count them, and copy into the target when it is due.

        One call may count at most `until_copy` steps.
        """
        self.updates += updates
        every = self.config.target_every
        if every and self.target is not self.online and self.updates % every == 0:
            self.target_flat.values.copy_(self.flat.values)

    def note_updates(self, updates: int) -> None:
        """Take over the number of gradient steps from a device that counts them and copies into the target."""
        self.updates = updates

    @property
    def until_copy(self) -> int:
        """Gradient steps until the next hard copy into the target; a very large number if there is none."""
        every = self.config.target_every
        return every - self.updates % every if every and self.target is not self.online else 1 << 30

    def loss(self, batch: Batch) -> TDLoss:
        """The TD loss of a batch with the current parameters."""
        online, target = (
            with_precision(net, self.precision, self.device) for net in (self.online, self.target)
        )
        return td_loss(online, target, batch, self.head, self.bootstrap, self.margin)

    @torch.no_grad()
    def apply(self, result: TDLoss) -> Tensor:
        """Clip the gradient, move the parameters, and move the target towards them; returns the priorities."""
        norm = torch.linalg.vector_norm(self.flat.gradient)
        if self._one_pass is not None:
            self._one_pass(norm.item())
        else:
            if self.config.grad_clip:
                self.flat.gradient.mul_((self.config.grad_clip / (norm + 1e-6)).clamp_(max=1.0))
            self.adam.step()
            if self.follows_softly:
                self.target_flat.values.lerp_(self.flat.values, self.config.target_tau)
        self.sums.add_(torch.stack((result.loss.detach(), result.q, norm)))
        return result.priority

    def _watch(self, result: TDLoss, batch: Batch) -> None:
        if self.watch.on_host:
            self.watch.look(result.loss, batch, self.adam.steps)
        else:
            self.watch.mark(result.loss, self.adam.steps)

    def look_back(self, batch: Batch) -> None:
        """On the CPU, after a step whose loss was not checked: the sums show whether it was bad."""
        if not self.sums[0].isfinite():
            self.watch.look(self.sums[0], batch, self.adam.steps - 1)

    @functools.cached_property
    def _one_pass(self) -> NativeAdam | None:
        """Created at the first update: a caller that only acts does not need it."""
        adam = self.own_adam
        if self.device.type != "cpu" or adam is None or not adam.has_native_step:
            return None
        return NativeAdam(adam, self.target_flat.values, self.tau)

    @property
    def own_adam(self) -> Adam | None:
        """The optimizer if it is one of ours; None if it is the user's own."""
        return self.adam if isinstance(self.adam, Adam) else None

    @property
    def tau(self) -> float:
        """How far the target follows after every step; 0: it is copied at intervals, or there is no target."""
        return self.config.target_tau if self.follows_softly else 0.0

    @property
    def follows_softly(self) -> bool:
        """Whether the target moves a little after every step, instead of being copied at intervals."""
        return self.config.target_every == 0 and self.target is not self.online

    def read_sums(self) -> dict[str, float]:
        """Sums since the last call; the only method that reads from the device."""
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
        """Continue from a checkpoint; every tensor stays at its address, because graphs use it."""
        self.online.load_state_dict(weights)
        if self.target is not self.online:
            self.target.load_state_dict(_strip_prefix(state, "target."))
        moments = _strip_prefix(state, "optimizer.")
        if moments.keys() != self.adam.state_dict().keys():
            raise CheckpointError(
                "This checkpoint's optimizer state was written by an earlier flashdqn: resume with that version, "
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
    """Build a learner: head, network and optimizer."""
    branches = get_branches(env)
    head = plain = build_head(config.learn, device)
    check_variants(config, head, max(branches, default=env.num_actions), device)
    if branches and config.demos.source != "none":
        raise ConfigError(
            "Demonstrations are for actions of one part: use --demos.source none with branches."
        )
    head = wrap_head(head, make_branches(env))
    weights = make_generator(config.seed, "weights")
    sizes = env.num_actions, weights, head.size, head.fractions
    network = build_network(config.network, env.obs_spec, *sizes, decoder=get_decoder(env), branches=branches)
    if isinstance(plain, CategoricalHead) and config.network.noisy:  # with ε it unlearns the middle by itself
        add_to_biases(network.output, plain.start_at_zero())
    used = {"noise": config.network.noisy, "fractions": head.fractions is not None}
    generators = {name: make_generator(config.seed, name, device) for name, needed in used.items() if needed}
    demos = config.demos
    margin = Margin(demos.margin, demos.margin_weight) if demos.kept and demos.margin_weight else None
    return Learner(config.learn, network, head, device, generators, config.runtime.precision, margin)
