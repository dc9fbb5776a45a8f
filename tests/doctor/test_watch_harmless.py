"""The watch changes nothing that a script computes, and nothing that it does with torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watching import watch_script, write_script

from flashdqn.doctor.watch.schema import WatchRecord

SCRIPT = '''
    """Draws random numbers in three ways, trains, and does what odd scripts do. Writes down all that came out."""
    import copy, dataclasses, enum, importlib.util, inspect, json, pathlib, pickle, random, sys, typing

    assert importlib.util.find_spec("torch") is not None  # many ask before they import
    import cloudpickle
    import numpy as np
    import torch
    from torch import nn

    told = {}


    class Strict(type):  # a metaclass that answers everything, and hates comparisons
        def __getattr__(cls, name):
            raise RuntimeError(f"who asks for {name}?")

        def __eq__(cls, other):
            raise RuntimeError("not to be compared")

        __hash__ = None


    class Env(metaclass=Strict):
        """Has a source."""

        def reset(self):
            return torch.zeros(1, 4)

        def step(self, action: int, *, scale: float = 1.0):
            """Says what it does."""
            # a comment that getsource shows
            return torch.rand(1, 4) * scale, random.random(), np.random.rand() < 0.1, {}

        def __eq__(self, other):
            raise RuntimeError("not to be compared")

        def __bool__(self):
            raise RuntimeError("neither true nor false")

        def __len__(self):
            raise RuntimeError("no length")


    @dataclasses.dataclass(frozen=True)
    class Board:
        size: int = 3

        def reset(self): return 0
        def step(self, action): return self.size, 0.0, True, {}


    class Pair(typing.NamedTuple):
        a: int = 1

        def reset(self): return 0
        def step(self, action): return self.a, 0.0, True


    class Kind(enum.Enum):
        ONE = 1

        def reset(self): return 0
        def step(self, action): return self.value, 0.0, True


    class Slots:
        __slots__ = ("rows",)

        def push(self, row): return row
        def sample(self, count): return [count]


    class OddTensor(torch.Tensor):
        pass


    class Odd:  # rewards and ends that are nothing to be counted
        def reset(self): return 0
        def step(self, action): return None, Env(), Env(), Env()


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 2))

        def forward(self, x):
            return self.body(x)


    class Strange(Net):  # whose class cannot be hashed
        __hash__ = nn.Module.__hash__


    def train():
        torch.manual_seed(1)
        random.seed(2)
        np.random.seed(3)
        env, network = Env(), Strange()
        optimizer = torch.optim.Adam(network.parameters())
        obs = env.reset()
        for _ in range(300):
            if random.random() < 0.3:
                action = random.randrange(2)
            else:
                action = network(obs).argmax().item()
            obs, reward, done, _ = env.step(action, scale=2.0)
            loss = (network(torch.rand(8, 4)).mean() - reward).square()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [p.double().abs().sum().item() for p in network.parameters()]


    told["trained"] = train()
    told["drawn"] = [torch.rand(1).item(), random.random(), float(np.random.rand())]

    # What the classes look like, and where they go
    told["source"] = inspect.getsource(Env.step)
    told["signature"] = str(inspect.signature(Env.step))
    told["names"] = [Env.step.__name__, Env.step.__qualname__, Env.step.__module__, Env.step.__doc__]
    told["steps"] = [Board().step(0)[0], Pair().step(0)[0], Kind.ONE.step(0)[0], Slots().push(4), Slots().sample(2)]
    told["odd"] = type(Odd().step(0)).__name__
    told["copies"] = [copy.deepcopy(Board()).step(0)[0], pickle.loads(pickle.dumps(Pair())).step(0)[0]]
    by_value = cloudpickle.loads(cloudpickle.dumps([Board, Slots, Board(5).step]))
    told["by value"] = [by_value[0]().step(0)[0], by_value[1]().sample(1), by_value[2](0)[0]]

    # What torch does with functions and networks that have us in them
    network, x = Net().eval(), torch.ones(2, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    told["script"] = torch.jit.script(network)(x).sum().item() == network(x).sum().item()


    def update(obs):
        loss = network(obs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss


    compiled = torch.compile(network, fullgraph=True, backend="eager")
    told["compiled"] = [compiled(x).sum().item() == network(x).sum().item() for _ in range(3)]
    function = torch.compile(lambda y: network(y).to(torch.float64).sum(), fullgraph=True, backend="aot_eager")
    told["function"] = abs(function(x).item() - network(x).double().sum().item()) < 1e-9
    told["update"] = [round(torch.compile(update, backend="eager")(x).item(), 6) for _ in range(3)]
    told["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    told["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
    if hooks := sys.modules.get("_flashdqn_watch.torch_hooks"):
        hooks.methods.switch(on=False)  # counting rests, and nothing is compiled anew for that
    told["resting"] = [compiled(x).shape[0], function(x).dim()]
    told["graphs later"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    if hooks:
        hooks.methods.switch(on=True)
    parameters = dict(network.named_parameters())
    rows = torch.func.vmap(lambda row: torch.func.functional_call(network, parameters, (row,)))(x)
    told["vmap"] = torch.equal(rows, network(x))
    told["grad"] = list(torch.func.grad(lambda p: torch.func.functional_call(network, p, (x,)).sum())(parameters))
    told["traced"] = len(list(torch.fx.symbolic_trace(network).graph.nodes))
    told["parallel"] = torch.equal(nn.DataParallel(network)(x), network(x))
    told["subclass"] = type(torch.ones(2).as_subclass(OddTensor).to(torch.float64)).__name__
    told["meta"] = str(Net().to("meta")(torch.ones(1, 4, device="meta")).device)
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    told["defaults"] = [str(torch.zeros(1).device), str(torch.zeros(1).dtype)]
    told["methods"] = [torch.Tensor.item.__name__, callable(torch.Tensor.__bool__)]
    told["last"] = [torch.rand(1, device="cpu").item(), random.random(), float(np.random.rand())]
    pathlib.Path(sys.argv[1]).write_text(json.dumps(told))
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("harmless")
    write_script(folder, SCRIPT)
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", str(folder / "script.py"), str(folder / "alone.json")]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return json.loads((folder / "alone.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=[False, True], ids=["looking", "deep"])
def watched(folder: Path, request: pytest.FixtureRequest) -> tuple[WatchRecord, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONWARNINGS", "ignore")
        record = watch_script(folder / "script.py", str(folder / "watched.json"), deep=request.param)
    assert record.ended == "finished", record.error
    return record, json.loads((folder / "watched.json").read_text(encoding="utf-8"))


def test_everything_comes_out_the_same(
    alone: dict[str, Any], watched: tuple[WatchRecord, dict[str, Any]]
) -> None:
    assert watched[1] == alone


def test_and_it_was_watched(watched: tuple[WatchRecord, dict[str, Any]]) -> None:
    record, _ = watched
    assert record.totals.updates >= 300
    assert record.totals.vector_steps >= 300
    assert record.failures == ()
    assert bool(record.operations) == record.deep
