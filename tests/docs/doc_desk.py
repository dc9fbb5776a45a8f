"""The folder that a reader would stand in: the examples, and the files of their own that pages speak of."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

from doc_pages import ROOT, blocks

#: a training that is over in a few seconds, whatever its arguments
SCRIPT = """
    import torch

    class Env:
        def reset(self):
            return torch.zeros(4)

        def step(self, action):
            return torch.randn(4), 1.0, False, {}

    torch.set_num_threads(1)
    env, network = Env(), torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(network.parameters())
    obs = env.reset()
    for _ in range(2000):
        obs, reward, done, info = env.step(int(network(obs).argmax()))
        loss = network(torch.randn(32, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

FILES = {
    "train.py": SCRIPT,
    "your_script.py": SCRIPT,
    "my_package/__init__.py": "",
    "my_package/train.py": SCRIPT,
    "my_package/envs.py": """
        import gymnasium

        def make_env():
            return gymnasium.make("CartPole-v1")
        """,
    "my_module.py": """
        import math

        import gymnasium
        from torch import nn

        def make_env(level=1):
            return gymnasium.make("CartPole-v1")

        class MyTorso(nn.Module):
            def __init__(self, shape, width=128):
                super().__init__()
                self.features = width
                self.layers = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU())

            def forward(self, obs):
                return self.layers(obs)
        """,
    # four chains over the paper's six functions
    "my_network.toml": "".join(
        f'[[chain]]\nname = "{name}"\nvnfs = ["NAT", "FW"]\nmbps = 1\ndelay_ms = 50\nbundle = [1, 2]\n'
        for name in "ABCD"
    ),
}


def lay_out(folder: Path) -> None:
    """Put everything there."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
    for example in (ROOT / "examples").glob("*.py"):
        shutil.copy(example, folder)
    shutil.copy(ROOT / "examples" / "own_game.py", folder / "my_game.py")
    variant = next(block for block in blocks(ROOT / "CONTRIBUTING.md") if "class Cautious" in block.text)
    (folder / "my_variant.py").write_text(variant.text, encoding="utf-8")
    shutil.copy(ROOT / "tests" / "learn" / "own_variants.py", folder / "my_variants.py")
