"""TorchRL's DQN (plain, not double), put together as in its own DQN example, with a native batched environment.

As there, it collects 1000 transitions at a time and then takes all their gradient steps: 250 of them here. With
--compile, which the example has as an option, policy and update go through torch.compile.
"""

from __future__ import annotations

from typing import Any

import torch
import torchrl
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import Tensor
from torchrl.collectors import Collector
from torchrl.data import Binary, Composite, LazyTensorStorage, OneHot, TensorDictReplayBuffer, Unbounded
from torchrl.envs import EnvBase
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate

from peers import task
from peers.snake_env import Boards

FRAMES = 1_000  # per collection


class SnakeEnv(EnvBase):
    """All boards in one kernel call, as an environment with a batch of its own."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(device="cpu", batch_size=torch.Size([num_envs]))
        self.boards = Boards(num_envs)
        column = (num_envs, 1)
        self.observation_spec = Composite(observation=Unbounded((num_envs, 11)), shape=(num_envs,))
        self.action_spec = OneHot(3, shape=(num_envs, 3), dtype=torch.int64)
        self.reward_spec = Unbounded(column)
        flags = {name: Binary(1, column, dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags, shape=(num_envs,))

    def _flags(self, terminated: Tensor, truncated: Tensor) -> dict[str, Tensor]:
        return {"done": terminated | truncated, "terminated": terminated, "truncated": truncated}

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        rows = None if tensordict is None else tensordict.get("_reset", None)
        if rows is None:
            self.boards.restart(list(range(self.boards.num_boards)))
            obs = self.boards.obs
        else:  # exactly those that ended
            obs = self.boards.restart_ended()
        never = torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        return TensorDict(
            {"observation": torch.from_numpy(obs), **self._flags(never, never)}, self.batch_size
        )

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict["action"].argmax(-1).numpy()
        obs, *others = (torch.from_numpy(x) for x in self.boards.step(action))
        reward, terminated, truncated = (x.unsqueeze(-1) for x in others)
        return TensorDict(
            {"observation": obs, "reward": reward, **self._flags(terminated, truncated)}, self.batch_size
        )

    def _set_seed(self, seed: int | None) -> None:
        """The boards have their own."""


def make_actor(env: SnakeEnv) -> QValueActor:
    net = MLP(in_features=11, out_features=3, num_cells=list(task.HIDDEN), activation_class=torch.nn.ReLU)
    spec = Composite(action=OneHot(3, dtype=torch.int64))
    return QValueActor(net, in_keys=["observation"], spec=spec)


def main() -> None:
    asked = task.arguments()
    window = task.Window(asked.seconds)
    env = SnakeEnv(asked.envs)
    actor = make_actor(env)
    greedy = EGreedyModule(
        annealing_num_steps=task.REPLAY, eps_init=task.EPS, eps_end=task.EPS, spec=actor.spec
    )
    explore = TensorDictSequential(actor, greedy).to(asked.device)
    frames = FRAMES // asked.envs * asked.envs
    collector = Collector(
        env,
        explore,
        frames_per_batch=frames,
        total_frames=-1,
        init_random_frames=task.STARTS,
        compile_policy=asked.compile,
        auto_register_policy_transforms=False,
    )
    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(task.REPLAY), batch_size=task.BATCH, prefetch=None
    )
    loss_module = DQNLoss(value_network=actor, loss_function="l2", delay_value=True)
    loss_module.make_value_estimator(gamma=task.GAMMA)
    loss_module = loss_module.to(asked.device)
    target_updater = HardUpdate(loss_module, value_network_update_interval=task.TARGET_EVERY)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=task.LR)

    def update(batch: TensorDictBase) -> Tensor:
        loss = loss_module(batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if asked.compile:
        update = torch.compile(update)
    steps = updates = 0
    for data in collector:
        replay.extend(data.reshape(-1))
        steps += data.numel()
        greedy.step(data.numel())
        if steps > task.STARTS:
            for _ in range(frames // task.EVERY):
                update(replay.sample().to(asked.device))
                target_updater.step()
                updates += 1
        collector.update_policy_weights_()
        if window.over(steps, updates):
            break
    collector.shutdown()
    about = {"envs": asked.envs, "version": torchrl.__version__}
    task.report(window.result(), algorithm="DQN", **about)


if __name__ == "__main__":
    main()
