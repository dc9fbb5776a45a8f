"""Reading source: loops, blocks and statements around a line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watching import line_of, write_script

from flashdqn.doctor import source
from flashdqn.doctor.findings.rows import builds_from_list, touches_tensors

SOURCE = """
    import torch

    for a in range(3):  # outer
        while a:  # while
            a -= 1  # body
        else:
            b = 1  # else

        def inner():  # def
            for c in a:  # inner loop
                d = [e for e in c  # comprehension
                     if e]  # second
            return d

        try:
            f = 1  # try
        except ValueError:
            f = 2  # except
        finally:
            f = 3  # finally
    g = {h: 1 for h in range(3)}; i = 2  # one line
    with open(g) as j, \\
            open(j) as k:
        l = call(  # call
            1,  # argument
        )
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


def loop_lines(script: Path, mark: str) -> list[int]:
    return [source.first_line_number(loop) for loop in source.find_loops(str(script), line_of(script, mark))]


def test_loops_of_the_same_function(script: Path) -> None:
    outer, loop, inner = (line_of(script, m) for m in ("# outer", "# while", "# inner loop"))
    assert loop_lines(script, "# body") == [outer, loop]
    assert loop_lines(script, "# while") == [outer, loop]
    assert loop_lines(script, "# second") == [inner]  # the function's own, not the loop that defines it
    assert loop_lines(script, "# def") == [outer]
    assert loop_lines(script, "# call") == []


def test_comprehensions_and_functions(script: Path) -> None:
    file, line = str(script), line_of(script, "# second")
    kinds = [type(node) for node in source.find_nodes_in_function(file, line)]
    assert ast.ListComp in kinds
    assert ast.FunctionDef not in kinds
    around = source.find_function(file, line)
    assert around is not None
    assert around.name == "inner"
    assert source.find_function(file, line_of(script, "# call")) is None


def test_statements(script: Path) -> None:
    file = str(script)
    call = line_of(script, "# call")
    assert source.find_statement_lines(file, line_of(script, "# argument")) == (call, call + 2)
    comprehension = line_of(script, "# comprehension")
    assert source.find_statement_lines(file, comprehension + 1) == (comprehension, comprehension + 1)
    assert source.find_statement_lines(file, line_of(script, "# while")) == (line_of(script, "# while"),) * 2


@pytest.mark.parametrize(
    ("marks", "first", "last"),
    [
        (["# body"], "# body", "# body"),
        (["# else"], "# else", "# else"),
        (["# try"], "# try", "# try"),
        (["# except"], "# except", "# except"),
        (["# finally"], "# finally", "# finally"),
        (["# inner loop", "# second"], "# inner loop", "return d"),
        (["# body", "# try"], "# while", "# finally"),
    ],
)
def test_the_smallest_block_around_lines(script: Path, marks: list[str], first: str, last: str) -> None:
    lines = [line_of(script, mark) for mark in marks]
    assert source.find_common_block(str(script), lines) == (line_of(script, first), line_of(script, last))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    broken = write_script(tmp_path, "def f(:\n", "broken.py")
    for file in (str(tmp_path / "none.py"), str(broken), "<string>", ""):
        assert source.find_loops(file, 3) == []
        assert source.find_function(file, 3) is None
        assert source.find_statement_lines(file, 3) == (3, 3)
        assert source.find_common_block(file, [3]) is None
        assert source.read_lines_around(file, 30) == ()
    assert source.read_line(str(tmp_path / "none.py"), 1) == ""
    assert source.find_common_block(str(broken), []) is None


def test_text_and_what_is_around(script: Path) -> None:
    line = line_of(script, "# body")
    assert source.read_line(str(script), line) == "a -= 1  # body"
    around = source.read_lines_around(str(script), line, reach=1)
    assert [number for number, _ in around] == [line - 1, line, line + 1]
    assert around[1][1].endswith("a -= 1  # body")
    assert source.read_lines_around(str(script), 1, reach=2)[0][0] == 1


def test_names_of_calls() -> None:
    names = [
        source.get_called_name(call)
        for call in source.iterate_calls(ast.parse("torch.tensor(a.b.append(f(g()())))"))
    ]
    assert sorted(names) == ["", "append", "f", "g", "tensor"]


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("x = torch.tensor([t[0] for t in batch])", True),
        ("x = torch.stack(list(rows))", True),
        ("x = np.array(tuple(map(f, rows)))", True),
        ("x = torch.cat(tuple(zip(*rows)))", True),
        ("x = torch.tensor(rows)", False),
        ("x = [t[0] for t in batch]", False),
        ("x = torch.zeros(len([1 for t in batch]))", False),
        ("x = network(torch.as_tensor(\n    [t for t in rows]\n))", True),
    ],
)
def test_tensors_made_from_lists(tmp_path: Path, text: str, built: bool) -> None:
    path = tmp_path / f"{abs(hash(text))}.py"
    path.write_text(text, encoding="utf-8")
    assert builds_from_list(str(path), 1) is built


@pytest.mark.parametrize(
    ("text", "touched"),
    [
        ("for i in range(3):\n    y = x[i]", True),
        ("for i, row in enumerate(x):\n    y = x[2 * i + 1]", True),
        ("for row in x:\n    y = torch.sum(row)", True),
        ("for row in x:\n    y = row", False),
        ("for i in range(3):\n    y = x[0]", False),
        ("while a:\n    y = x[a]", False),
    ],
)
def test_loops_over_rows(tmp_path: Path, text: str, touched: bool) -> None:
    path = tmp_path / f"{abs(hash(text))}.py"
    path.write_text(text, encoding="utf-8")
    assert touches_tensors(str(path), (str(path), 1, 2)) is touched


STATEMENTS = st.recursive(
    st.just(["x = 1"]),
    lambda inner: st.tuples(
        st.sampled_from(["for i in x:", "while x:", "if x:", "def f():", "class C:", "with x:"]),
        st.lists(inner, min_size=1, max_size=3),
    ).map(lambda made: [made[0], *(f"    {line}" for part in made[1] for line in part)]),
    max_leaves=12,
)


@given(blocks=st.lists(STATEMENTS, min_size=1, max_size=4))
def test_every_line_has_its_loops(blocks: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compared with a twin that counts by indentation."""
    lines = [line for block in blocks for line in block]
    path = tmp_path_factory.mktemp("source") / "made.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    for number, text in enumerate(lines, 1):
        expected: list[int] = []
        depth = len(text) - len(text.lstrip()) + 1
        for above in range(number, 0, -1):
            line = lines[above - 1]
            indent = len(line) - len(line.lstrip())
            if indent >= depth:
                continue
            depth = indent
            if line.lstrip().startswith("def") and above != number:
                break
            if line.lstrip().startswith(("for", "while")):
                expected.insert(0, above)
        assert [source.first_line_number(loop) for loop in source.find_loops(str(path), number)] == expected
