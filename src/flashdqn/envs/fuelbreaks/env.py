"""Fuel break placement as a vectorized environment."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType

import torch
from torch import Tensor

from flashdqn.compute.kernels import BlockKernel, Kernel, board_tensor
from flashdqn.compute.random_bits import board_keys
from flashdqn.core.errors import EnvError
from flashdqn.core.saved import require_range
from flashdqn.core.types import Step
from flashdqn.envs.fuelbreaks import rules
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts.draws import draw_ignitions
from flashdqn.envs.fuelbreaks.fire.downstream import observe_flow
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.envs.fuelbreaks.observation import HEADER, count_break_bytes, stored_obs_spec
from flashdqn.envs.fuelbreaks.scenes import Scenes, check_breaks_fit, check_ignitions, make_scenes
from flashdqn.envs.kernel_env import copy_actions, copy_state, resolve_kernel_device, restore_state

# The work besides the fires takes a microsecond.
PARALLEL_FROM = 1024
#: Where scouts start in given episodes.
SCOUT_SEED = 5


class FuelBreaks:
    """`num_envs` landscapes on one device; a step places a break on each, and burns all fires again.

    An action is the flat index of a cell. An illegal action places nothing, and costs its share of the budget.
    Outputs are static buffers, overwritten by the next step. The reward is the drop in burned area, a mean over the
    fires, in percent of the landscape (of all value, where there is a map of it). So an episode's return is the
    sum of what its breaks saved. Or it is in percent of what still burned before the break (`config.reward`).
    """

    name = "fuelbreaks"
    outcome_names: tuple[str, ...] = rules.OUTCOMES
    first_board = 0

    def __init__(
        self,
        config: FuelBreaksConfig,
        num_envs: int,
        device: torch.device | str = "cpu",
        held_out: bool = False,
        scenes: Scenes | None = None,
    ) -> None:
        """`held_out`: play on the landscapes that training never sees. `scenes`: play on these instead of the
        configuration's own."""
        if num_envs < 1:
            raise EnvError(f"Fuel breaks need at least one landscape; num_envs is {num_envs}.")
        self.config, self.num_envs = config, num_envs
        self.device = resolve_kernel_device(torch.device(device), "Fuel breaks")
        self.capturable = self.device.type == "cuda"
        self.scenes = make_scenes(config, self.device) if scenes is None else scenes
        check_breaks_fit(config, self.scenes)
        check_ignitions(config, self.scenes)
        self.decoder = self.scenes.planes.with_flow() if config.scouts else self.scenes.planes
        self.num_actions = self.decoder.cells
        self.obs_spec = stored_obs_spec(self.num_actions, config.scouts > 0)
        self.spread = Spread(self.scenes.spread, num_envs, config.fires, config.duration)
        self.scouts = self._place_scouts()
        self._allocate()
        self._bind(held_out)
        self.reset(0)

    def _place_scouts(self) -> Spread | None:
        """Fires beside those that judge, whose paths the agent sees."""
        config = self.config
        if not config.scouts:
            return None
        return Spread(self.scenes.spread, self.num_envs, config.scouts, config.duration, self.spread)

    def _allocate(self) -> None:
        n, device = self.num_envs, self.device
        self._action = self.action_buffer = torch.zeros(n, dtype=torch.int64, device=device)
        self._state = board_tensor(n, (rules.STATE,), torch.int64, device)
        self._rng = board_tensor(n, (2,), torch.int64, device)
        self._step = Step(
            obs=torch.zeros(n, *self.obs_spec.shape, dtype=torch.uint8, device=device),
            reward=torch.zeros(n, device=device),
            terminated=torch.zeros(n, dtype=torch.bool, device=device),
            truncated=torch.zeros(n, dtype=torch.bool, device=device),
            mask=torch.zeros(n, self.num_actions, dtype=torch.bool, device=device),
        )
        self.outcomes = torch.zeros(n, len(self.outcome_names), device=device)

    def _bind(self, held_out: bool) -> None:
        config, scenes, spread, n = self.config, self.scenes, self.spread, self.num_envs
        cells = [row * config.size + column for row, column in config.read_ignitions()]
        first, end = scenes.split(held_out)
        numbers = [first, end, config.fewest_breaks, config.most_breaks, len(cells), config.scouts]
        numbers.append(int(config.reward == "remaining"))
        params = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        given = torch.tensor(cells or [0], dtype=torch.int32, device=self.device)
        obs, reward, terminated, _, mask = self._step[:5]
        assert mask is not None
        self._place = Kernel(rules.place_break, PARALLEL_FROM, skippable=True).bind(
            n, self._action, params, given, scenes.places, scenes.counts, self._state, self._rng, mask,
            spread.table, spread.ignition, (self.scouts or spread).ignition, spread.breaks, spread.command,
        )  # fmt: skip
        self._settle = Kernel(rules.finish_step, PARALLEL_FROM, skippable=True).bind(
            n, params, scenes.placeable, scenes.worth, self._state, mask, spread.table, spread.command,
            spread.burned, obs, reward, terminated, self.outcomes,
        )  # fmt: skip

        self._observe = None if self.scouts is None else self._bind_flow(self.scouts, obs)

    def _bind_flow(self, scouts: Spread, obs: Tensor) -> Callable[[], None]:
        n, cells, device = self.num_envs, self.num_actions, self.device
        total = torch.zeros((n, cells), dtype=torch.int64, device=device)
        first = torch.tensor([HEADER + count_break_bytes(cells)], device=device)
        if device.type == "cuda":
            blocks = importlib.import_module("flashdqn.envs.fuelbreaks.fire.flow_blocks")
            if cells <= blocks.MOST_CELLS:
                return _bind_flow_blocks(blocks, scouts, self.scenes.worth, total, first, obs)
        work = [torch.zeros((n, cells), dtype=torch.int32, device=device) for _ in range(2)]
        return Kernel(observe_flow, 2, skippable=True).bind(
            n, scouts.table, scouts.ignition, scouts.arrival, scouts.parent, scouts.step, scouts.tables.worth,
            self.scenes.worth, *work, total, first, obs,
        )  # fmt: skip

    @property
    def mask(self) -> Tensor:
        """Cells where a break may lie and none does, [N, cells]."""
        mask = self._step.mask
        assert mask is not None
        return mask

    def reset(self, seed: int) -> Tensor:
        """Start an episode on every board."""
        self._rng[:, 0] = board_keys(seed, self.num_envs, self.first_board).to(self.device)
        self._rng[:, 1] = 0
        self._state[:, rules.OVER] = 1  # the step after an end starts an episode
        self.outcomes.zero_()
        self._play()
        return self._step.obs

    def begin(self, scene: Tensor, ignition: Tensor, budget: int) -> Tensor:
        """Start given episodes instead of random ones, for comparisons: scenes [N], ignitions [N, fires], one
        budget for all. Return the observations."""
        self.spread.table.copy_(scene)
        self.spread.ignition.copy_(ignition)
        self.spread.breaks.zero_()
        self.spread.command.fill_(BURN)
        self._state[:, rules.OVER] = 1
        self._state[:, rules.LEFT] = budget
        self._state[:, rules.PLACED] = 0
        if self.scouts is not None:
            generator = torch.Generator(self.device).manual_seed(SCOUT_SEED)
            self.scouts.ignition.copy_(
                draw_ignitions(self.scenes, scene.to(self.device), self.config.scouts, generator)
            )
        self._burn()
        return self._step.obs

    def step(self, action: Tensor) -> Step:
        """Place one break, [N] of any integer dtype, on every board."""
        copy_actions(self._action, action, "Fuel breaks")
        self._play()
        return self._step

    def _play(self) -> None:
        self._place()
        self._burn()

    def _burn(self) -> None:
        """The fires after a command, and what follows from them."""
        self.spread.launch()
        self._settle()
        if self.scouts is not None and self._observe is not None:
            self.scouts.launch()
            self._observe()

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to continue from here, as copies; the fires follow from it."""
        return copy_state(self._tensors())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken, on any device."""
        settings = "size, fires, number of boards"
        restore_state(self._tensors(), state, "fuel breaks", settings, self._check)
        self.spread.command.fill_(BURN)
        for fires in (self.spread, self.scouts):
            if fires is not None:
                fires.launch()

    def _check(self, state: Mapping[str, Tensor]) -> None:
        require_range("a scene", state["scene"], 0, len(self.scenes.burnable) - 1)
        for name in ("ignition", *(() if self.scouts is None else ("scouted",))):
            require_range("a cell on fire", state[name], 0, self.num_actions - 1)
        self.decoder.check(state["obs"])
        require_range("an end", state["state"][:, rules.OVER], 0, 1)
        require_range("a budget", state["state"][:, rules.LEFT], 0, 2**31)

    def _tensors(self) -> dict[str, Tensor]:
        fire = {
            "scene": self.spread.table,
            "ignition": self.spread.ignition,
            "breaks": self.spread.breaks,
            **({} if self.scouts is None else {"scouted": self.scouts.ignition}),
        }
        names = ("obs", "reward", "terminated", "truncated")
        outputs = dict(zip(names, self._step[:4], strict=True)) | {"mask": self.mask}
        return {"state": self._state, "rng": self._rng} | fire | outputs | {"outcomes": self.outcomes}


def _bind_flow_blocks(
    blocks: ModuleType, scouts: Spread, whole: Tensor, total: Tensor, first: Tensor, obs: Tensor
) -> Callable[[], None]:
    """`observe_flow` by a block of threads for each fire, and then for each board."""
    board = scouts.table, scouts.ignition
    fire = *board, scouts.arrival, scouts.parent, scouts.step, scouts.tables.worth, total
    add = BlockKernel(blocks.add_fire, blocks.THREADS).bind(scouts.num_boards * scouts.fires, *fire)
    write = BlockKernel(blocks.write_flow, blocks.THREADS).bind(
        scouts.num_boards, *board, whole, total, first, obs
    )

    def observe() -> None:
        add()
        write()

    return observe
