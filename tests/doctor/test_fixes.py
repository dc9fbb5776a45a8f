"""Patches on small texts: what fits exactly is changed, and what is in doubt gets no patch."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_maker import Maker

from flashdqn.doctor.fixes.edits import Edit, OverlapError, apply_edits, locate_node
from flashdqn.doctor.fixes.propose import propose_patches
from flashdqn.doctor.report.contents import Finding


def fix(folder: Path, name: str, text: str, title: str = "title", **record: Any) -> dict[str, str]:
    """The lines that each patch adds, by its name; the finding is at the line marked `# here`."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "# here" in text)
    maker = Maker(path, **record)
    maker.train({maker.stack(maker.own(line)): 1.0}, transitions=100, vector_steps=100, updates=100)
    for number, text in enumerate(lines, 1):
        if "env.step(" in text:
            maker.site("env step", number, 1000)
    finding = Finding(name, title, str(path), line, 0.5, 2.0, (), "", "")
    found = {}
    for patch in propose_patches(maker.evidence(), (finding,)):
        diff = patch.diff(folder).splitlines()
        found[patch.name] = "\n".join(row[1:] for row in diff if row[0] == "+" and row[:3] != "+++")
    return found


def test_fused_adam_goes_into_the_users_own_call(tmp_path: Path) -> None:
    use = {"fused": False, "can_fuse": True, "tensors": 6, "elements": 58, "steps": 9, "seconds": 2.0}
    text = """
        import torch
        optimizer = torch.optim.Adam(  # here
            network.parameters(),
            lr=1e-3,
        )
        other = torch.optim.Adam(more.parameters(), foreach=True)
    """
    found = fix(tmp_path, "unfused-optimizer", text, optimizers=[{"name": "Adam", **use}])
    assert found == {"fused-optimizer": "    lr=1e-3, fused=True,"}
    assert fix(tmp_path, "unfused-optimizer", text, optimizers=[{"name": "RMSprop", **use}]) == {}


def test_stable_baselines3_hands_the_flag_on(tmp_path: Path) -> None:
    use = {"fused": False, "can_fuse": True, "tensors": 6, "elements": 58, "steps": 9, "seconds": 2.0}
    text = """
        from stable_baselines3 import DQN
        model = DQN("MlpPolicy", env)  # here
    """
    found = fix(tmp_path, "unfused-optimizer", text, optimizers=[{"name": "Adam", **use}])
    line = 'model = DQN("MlpPolicy", env, policy_kwargs=dict(optimizer_kwargs=dict(fused=True)))  # here'
    assert found == {"fused-policy": line}
    taken = text.replace("env)", "env, policy_kwargs=mine)")
    assert fix(tmp_path, "unfused-optimizer", taken, optimizers=[{"name": "Adam", **use}]) == {}


def test_threads_are_set_after_the_imports(tmp_path: Path) -> None:
    text = '''
        """A script."""
        from torch import nn
        network = nn.Linear(3, 3)  # here
    '''
    title = "2 threads for work that is faster with 1"
    found = fix(tmp_path, "too-many-threads", text, title)
    assert found == {"threads": "import torch\ntorch.set_num_threads(1)"}
    twice = text + "nn.set_num_threads(2)\nnn.set_num_threads(3)\n"
    assert fix(tmp_path, "too-many-threads", textwrap.dedent(twice), title) == {}


def test_a_search_in_lists(tmp_path: Path) -> None:
    text = """
        import torch
        def reach(walls, start):
            seen = [start]
            queue = [start]
            while queue:
                cell = queue.pop(0)  # here
                for other in walls[cell]:
                    if other not in seen:
                        seen.append(other)
                        queue.append(other)
            return len(seen)
    """
    (found,) = fix(tmp_path, "python-env", text).values()
    assert found.splitlines() == [
        "from collections import deque",
        "    seen = {start}",
        "    queue = deque([start])",
        "        cell = queue.popleft()  # here",
        "                seen.add(other)",
    ]
    assert fix(tmp_path, "python-env", text.replace("len(seen)", "seen[-1]").replace("pop(0)", "pop()")) == {}


def test_a_network_that_calls_its_own_forward_to_act(tmp_path: Path) -> None:
    text = """
        import torch
        class Net(torch.nn.Module):
            def forward(self, x):
                return self.layer(x)  # here
            def act(self, x):
                out = self.forward(x)
                return out.argmax().item()
    """
    row = {"function": "forward", "acting": 1000, "learning": 10, "graded": 1000, "batch": 1, "shape": [4]}
    row |= {"network": "Linear", "parameters": 9, "trained": True, "given_gradients": True, "line": 5}
    site = row | {"count": 1000, "seconds": 1.0, "file": str(tmp_path / "train.py")}
    found = fix(tmp_path, "no-grad-forgotten", text, forwards=[site])
    assert found == {"no-grad": "        with torch.no_grad():\n            out = self.forward(x)"}


def test_rows_go_to_the_device_together(tmp_path: Path) -> None:
    text = "import torch\nbatch = torch.stack([row.to(device) for row in rows])  # here\n"
    found = fix(tmp_path, "list-batches", text)
    assert found["one-transfer"] == "batch = torch.stack([row for row in rows]).to(device)  # here"
    assert "one-transfer" not in fix(tmp_path, "list-batches", text.replace("to(device)", "to(row.device)"))


def test_only_batches_of_a_known_type_become_arrays(tmp_path: Path) -> None:
    text = """
        import torch
        import numpy as np
        s, r = torch.tensor([t[0] for t in b], dtype=torch.float), torch.tensor([t[1] for t in b])  # here
    """
    found = fix(tmp_path, "list-batches", text)
    line = "s, r = torch.from_numpy(np.array([t[0] for t in b], dtype=np.float32)), "
    line += "torch.tensor([t[1] for t in b])  # here"
    assert found == {"array-first": line}


def test_items_are_gathered(tmp_path: Path) -> None:
    text = "import torch\nvalues = [value.item() for value in losses]  # here\n"
    assert fix(tmp_path, "per-row-copies", text) == {"tolist": "values = losses.tolist()  # here"}
    assert fix(tmp_path, "per-row-copies", text.replace("in losses", "in losses if value > 0")) == {}


def test_a_tensor_that_the_loop_changes_is_not_copied_before_it(tmp_path: Path) -> None:
    text = """
        import torch
        for i in range(n):
            total += values[i].item()  # here
            values[i + 1] = total
    """
    assert fix(tmp_path, "per-row-copies", text) == {}
    assert "one-copy" in fix(tmp_path, "per-row-copies", text.replace("values[i + 1]", "others[i]"))


def test_gradients_are_let_go(tmp_path: Path) -> None:
    text = "import torch\noptimizer.zero_grad(set_to_none=False)  # here\n"
    assert fix(tmp_path, "zero-grad-memset", text) == {"set-to-none": "optimizer.zero_grad()  # here"}


def test_evaluations_come_rarely(tmp_path: Path) -> None:
    text = """
        import torch
        for step in range(1000):
            if step % every == 0 and step > 0:
                evaluate(agent)  # here
    """
    (found,) = fix(tmp_path, "evaluation-share", text).values()
    assert found == "    if step % (10 * every) == 0 and step > 0:"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("y[j] = a[j] + 2 * b[j]", "y[:n] = a[:n] + (2 * b[:n])"),
        (
            "y[j] = r[j] if d[j] else r[j] + q[j].max()",
            "y[:n] = torch.where(d[:n].bool(), r[:n], r[:n] + q[:n].amax(1))",
        ),
        ("y[j] = torch.max(q[j])", "y[:n] = q[:n].amax(1)"),
        ("y[j] = f(a[j])", None),
        ("y[j] = a[j + 1]", None),
        ("y[j] = y[j] + a[j]", None),
        ("y[j] = a[j]; z = 1", None),
    ],
)
def test_loops_over_rows(tmp_path: Path, body: str, line: str | None) -> None:
    text = f"import torch\nfor j in range(n):  # here\n    {body}\n"
    found = fix(tmp_path, "row-loop", text)
    assert found == ({} if line is None else {"all-rows-at-once": line})


def test_an_update_without_a_counter_gets_no_patch(tmp_path: Path) -> None:
    text = "import torch\nwhile True:\n    state = env.step(action)\n    agent.learn()  # here\n"
    assert fix(tmp_path, "train-every-step", text) == {}
    found = fix(tmp_path, "train-every-step", text + "    steps += 1\n")
    assert found == {"train-rarely": "    if steps % 4 == 0:\n        agent.learn()  # here"}
    twofold = text.replace(
        "agent.learn()  # here", "if ready:\n        agent.learn()  # here\n    else: pass"
    )
    assert fix(tmp_path, "train-every-step", twofold + "    steps += 1\n") == {}


def test_a_statement_that_shares_its_line_is_left_alone(tmp_path: Path) -> None:
    text = "import torch\nfor step in range(9):\n    print(step); env.step(0)  # here\n"
    assert fix(tmp_path, "printing", text, sites=[]) == {}


def test_libraries_are_never_patched(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages" / "somebody"
    folder.mkdir(parents=True)
    assert fix(folder, "zero-grad-memset", "x.zero_grad(set_to_none=False)  # here\n") == {}


@settings(deadline=None)
@given(st.text(alphabet="aé字🙂 ", max_size=12), st.text(alphabet="xß", min_size=1, max_size=6))
def test_a_node_is_found_in_any_text(words: str, name: str) -> None:
    text = f"label = '{words}'; value = {name} + 1\n"
    module = ast.parse(text)
    (node,) = [n for n in ast.walk(module) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    start, end = locate_node(text, node)
    assert text[start:end] == name


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4), st.text("ab", max_size=3)), max_size=5))
def test_edits_change_their_places_only(places: list[tuple[int, int, str]]) -> None:
    text = "0123456789abcdefghijklmnopq"
    edits = [Edit(start, start + length, new) for start, length, new in places]
    try:
        result = apply_edits(text, edits)
    except OverlapError:
        ordered = sorted(set(edits))
        assert any(one.end > two.start for i, one in enumerate(ordered) for two in ordered[i + 1 :])
        return
    expected = text
    for edit in sorted(set(edits), reverse=True):
        expected = expected[: edit.start] + edit.text + expected[edit.end :]
    assert result == expected
