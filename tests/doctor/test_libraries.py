"""Advice in a library's own words, at the user's own line."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from record_maker import LIBRARIES, Maker

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.advise import find_library, list_libraries, speak_library
from flashdqn.doctor.report.contents import Finding

INSTALLED = f"{LIBRARIES}/stable_baselines3/dqn/dqn.py"


def examine(folder: Path, text: str, arguments: tuple[str, ...] = ()) -> Evidence:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    maker = Maker(path, arguments=arguments)
    maker.train({maker.stack(maker.own(1)): 1.0}, transitions=100, vector_steps=100, updates=100)
    return maker.evidence()


def advise(evidence: Evidence, name: str, file: str = INSTALLED) -> Finding:
    finding = Finding(name, "title", file, 228, 0.5, 1.5, ("seen",), "the usual advice", "usual()")
    (found,) = speak_library(evidence, (finding,))
    return found


SB3 = """
    import gymnasium as gym
    from stable_baselines3 import DQN

    env = gym.make("CartPole-v1", max_episode_steps=99)
    model = DQN("MlpPolicy", env, train_freq=1)
    model.learn(10_000)
"""


def test_stable_baselines3_gets_more_environments(tmp_path: Path) -> None:
    found = advise(examine(tmp_path, SB3), "single-env-acting")
    assert (Path(found.file).name, found.line) == ("train.py", 6)
    assert found.example.splitlines() == [
        "from stable_baselines3.common.env_util import make_vec_env",
        "env = make_vec_env('CartPole-v1', n_envs=8, env_kwargs={'max_episode_steps': 99})",
        "model = DQN('MlpPolicy', env, train_freq=1, gradient_steps=8)",
    ]
    assert found.advice.startswith("With Stable-Baselines3: ")
    assert any("dqn.py:228" in sentence for sentence in found.evidence)


@pytest.mark.parametrize(
    ("name", "part", "line"),
    [
        ("train-every-step", "train_freq=4, gradient_steps=1", 6),
        ("unfused-optimizer", "policy_kwargs=dict(optimizer_kwargs=dict(fused=True))", 6),
        ("logging", "model.learn(10000, log_interval=100)", 7),
        ("launch-bound", "device='cpu'", 6),
        ("float-replay", "optimize_memory_usage=True", 6),
    ],
)
def test_stable_baselines3_settings_in_the_users_own_line(
    tmp_path: Path, name: str, part: str, line: int
) -> None:
    found = advise(examine(tmp_path, SB3), name)
    assert part in found.example
    assert (Path(found.file).name, found.line) == ("train.py", line)


def test_what_a_library_cannot_change_is_said(tmp_path: Path) -> None:
    found = advise(examine(tmp_path, SB3), "host-syncs")
    assert found.advice.startswith("This line is Stable-Baselines3's own")
    assert found.line == 228


CLEANRL = """
    from dataclasses import dataclass

    @dataclass
    class Args:
        exp_name: str = "dqn"
        torch_deterministic: bool = True
        total_timesteps: int = 500000
        num_envs: int = 1
        buffer_size: int = 10000
        train_frequency: int = 1

    assert args.num_envs == 1
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
"""


def test_cleanrl_gets_flags(tmp_path: Path) -> None:
    evidence = examine(tmp_path, CLEANRL, ("--seed", "3", "--train-frequency", "1"))
    own = evidence.record.script
    found = advise(evidence, "train-every-step", own)
    assert found.example == "python train.py --seed 3 --train-frequency 10"
    assert any("train.py:11" in sentence for sentence in found.evidence)
    assert "fused=True" in advise(evidence, "unfused-optimizer", own).example
    assert "assert args.num_envs == 1" in advise(evidence, "single-env-acting", own).advice


@pytest.mark.parametrize(
    ("text", "name", "library", "part"),
    [
        (
            "import tianshou as ts\ntrainer = OffpolicyTrainer(policy, update_per_step=1)\n",
            "train-every-step",
            "Tianshou",
            "update_per_step=0.25",
        ),
        (
            "from tianshou.algorithm.optim import AdamOptimizerFactory\noptim = AdamOptimizerFactory(lr=1)\n",
            "unfused-optimizer",
            "Tianshou",
            "optim = TorchOptimizerFactory(torch.optim.Adam",
        ),
        (
            "from torchrl.envs import GymEnv\nenv = GymEnv('CartPole-v1')\n",
            "single-env-acting",
            "TorchRL",
            "env = GymEnv('CartPole-v1', num_envs=8)",
        ),
        (
            "from ray.rllib.algorithms.dqn import DQNConfig\nconfig = DQNConfig()\n",
            "few-envs",
            "RLlib",
            "num_envs_per_env_runner=8",
        ),
        (
            "import lightning as L\ntrainer = L.Trainer(max_epochs=3)\n",
            "half-unused",
            "Lightning",
            "precision='bf16-mixed'",
        ),
        (
            "import torch\noptimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)\n",
            "unfused-optimizer",
            "PyTorch",
            "optimizer = torch.optim.AdamW(net.parameters(), lr=0.001, fused=True)",
        ),
    ],
)
def test_each_library_has_its_own_words(
    tmp_path: Path, text: str, name: str, library: str, part: str
) -> None:
    evidence = examine(tmp_path, text)
    assert find_library(evidence).name == library
    assert part in advise(evidence, name).example


def test_examples_are_python_or_a_command(tmp_path: Path) -> None:
    texts = [
        SB3,
        CLEANRL,
        "import tianshou\nDummyVectorEnv(x)\n",
        "import torchrl\nReplayBuffer(x)\nCollector(x)\n",
    ]
    texts += ["import ray\nPPOConfig()\n", "import lightning\nTrainer(x=1)\nDataLoader(y)\nAdam(p)\n"]
    for number, text in enumerate(texts):
        folder = tmp_path / str(number)  # a file is parsed once
        folder.mkdir()
        evidence = examine(folder, text)
        for name in find_library(evidence).advisers:
            example = advise(evidence, name).example
            if not example.startswith("python "):
                ast.parse(example.replace("…", "x"))


def test_scripts_without_a_library_keep_the_usual_advice(tmp_path: Path) -> None:
    evidence = examine(tmp_path, "import torch\n")
    for file in (INSTALLED, evidence.record.script):
        found = advise(evidence, "printing", file)
        assert (found.file, found.advice, found.example) == (file, "the usual advice", "usual()")


def test_all_libraries_of_the_manual_are_known() -> None:
    names = {library.name for library in list_libraries()}
    assert names == {"Stable-Baselines3", "CleanRL", "Tianshou", "TorchRL", "RLlib", "Lightning", "PyTorch"}
