"""The locks agree with the pins and with pyproject.toml, and the table of licenses with the locks."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import audit  # noqa: E402
import license_table  # noqa: E402
import lock  # noqa: E402
import package_index  # noqa: E402

ENTRY = re.compile(r"^([\w.-]+)==(\S+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.M)
LOCKS = (lock.LOCK, lock.CUDA_LOCK, lock.RAY_LOCK)


def read_table() -> dict[str, list[str]]:
    """The rows of the page, by the package's name."""
    text = lock.PAGE.read_text(encoding="utf-8")
    table = text.partition(license_table.START)[2].partition(license_table.END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[3:-1]]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_has_a_version_and_hashes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    rest = ENTRY.sub("", text).splitlines()
    assert rest[1:] == ["--require-hashes", "--only-binary :all:"]
    assert len(rest) == 3
    assert rest[0].startswith("# Made by")


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_the_versions_are_those_of_the_constraints(path: Path) -> None:
    pins = lock.read_pins(lock.CONSTRAINTS.read_text(encoding="utf-8"))
    locked = lock.read_pins(path.read_text(encoding="utf-8"))
    assert locked
    assert locked == {name: pins[name] for name in locked}


def test_the_lock_has_all_that_is_needed_here() -> None:
    locked = lock.read_pins(lock.LOCK.read_text(encoding="utf-8"))
    waiting = [
        root for root in lock.read_project_requirements(["dev"]) if not root.marker or root.marker.evaluate()
    ]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{requirement} is missing: make lock"
        assert requirement.specifier.contains(locked[name], prereleases=True)
        if name not in seen and not (name == "torch" and "nvidia" in str(metadata.requires(name))):
            seen.add(name)
            found = [Requirement(text) for text in metadata.requires(name) or []]
            waiting += [one for one in found if not one.marker or one.marker.evaluate({"extra": ""})]


def test_torch_has_a_build_for_the_cpu_and_those_of_the_index() -> None:
    entry = next(
        entry for entry in ENTRY.finditer(lock.LOCK.read_text(encoding="utf-8")) if entry[1] == "torch"
    )
    assert "+" not in entry[2], "a local part would exclude the other builds"
    assert entry[3].count("--hash") > 10


def test_the_table_has_all_packages_and_versions() -> None:
    table = read_table()
    for path in LOCKS:
        for name, version in lock.read_pins(path.read_text(encoding="utf-8")).items():
            assert table[name][0] == str(version), f"{name}: make lock"


def test_the_table_has_the_licenses_that_packages_state() -> None:
    compared = 0
    for name, row in read_table().items():
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if found.version.split("+")[0] == row[0]:
            assert row[1] == license_table.describe_license(found.metadata), name  # type: ignore[arg-type]
            compared += 1
    assert compared > 20


def test_copyleft_is_named_on_the_page() -> None:
    prose = lock.PAGE.read_text(encoding="utf-8").partition(license_table.START)[0]
    for name, row in read_table().items():
        if re.search(r"GPL|MPL", row[1]):
            assert name in prose, f"{name} is {row[1]}: say so on the page"


def test_every_direct_dependency_says_why() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]  # noqa: RUF017
    table = read_table()
    for name in {canonicalize_name(Requirement(text).name) for text in texts}:
        assert table[name][3], f"{name}: add it to REASONS"


@pytest.mark.parametrize(
    ("name", "pythons"),
    [
        ("a-1-py3-none-any.whl", ["3.11", "3.12", "3.13", "3.14"]),
        ("a-1-cp312-cp312-win_amd64.whl", ["3.12"]),
        ("a-1-cp39-abi3-macosx_11_0_arm64.whl", ["3.11", "3.12", "3.13", "3.14"]),
        ("a-1-cp310-cp310-manylinux_2_28_x86_64.whl", []),
        ("a-1-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", []),
        ("a-1-py2.py3-none-any.whl", ["3.11", "3.12", "3.13", "3.14"]),
    ],
)
def test_which_pythons_can_install_a_wheel(name: str, pythons: list[str]) -> None:
    tags = package_index.parse_wheel_filename(name)[3]
    wheel = package_index.Wheel(name, "", "", package_index.Version("1"), tags)
    assert [python for python in package_index.PYTHONS if wheel.runs_on(python)] == pythons


def test_two_contents_under_one_name_stop_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [("a-1-py3-none-any.whl", "here", "0" * 64), ("a-1-py3-none-any.whl", "there", "1" * 64)]
    monkeypatch.setattr(package_index, "list_indexed_files", lambda project: offers)
    monkeypatch.setattr(package_index, "list_local_files", lambda project: [])
    with pytest.raises(SystemExit, match="different contents"):
        package_index.find_wheels("a-package-of-the-test")


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        ([], 2, "cannot be reached"),
        (
            [{"name": "a", "skip_reason": "not found"}, {"name": "b", "version": "1", "vulns": []}],
            2,
            "1 of 2",
        ),
        (
            [{"name": "b", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}],
            1,
            "b 1: X-1, fixed in 2",
        ),
        ([{"name": "b", "version": "1", "vulns": []}], 0, "No known"),
    ],
)
def test_an_audit_that_asked_nobody_is_not_a_good_one(
    packages: list[dict[str, object]], code: int, words: str
) -> None:
    found, text = audit.judge(packages, "ConnectionError")
    assert found == code
    assert words in text


def test_a_file_that_differs_from_its_hash_is_refused(tmp_path: Path) -> None:
    """By pip itself, with the options that are in the lock: a wheel in a folder, and the wrong hash."""
    wheel = tmp_path / "harmless-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was promised")
    options = "".join(lock.LOCK.read_text(encoding="utf-8").splitlines(keepends=True)[:3])
    (tmp_path / "a.lock").write_text(f"{options}harmless==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--find-links",
        str(tmp_path),
    ]
    command += ["--target", str(tmp_path / "out"), "--requirement", str(tmp_path / "a.lock")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "out").exists()


def test_setup_installs_by_the_lock_alone() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8").partition("$(STAMP):")[2].partition("\n\n")[0]
    lines = [line for line in rules.replace("\\\n", "").splitlines() if "$(INSTALL)" in line]
    installs = [
        line for line in lines if 'test -z "$(TORCH_INDEX)" ||' not in line
    ]  # only if the user asks for it
    assert (len(lines), len(installs)) == (5, 4)
    for line in installs:
        assert "--no-deps" in line
        assert "requirements" in line or "/dev/stdin" in line or "--no-build-isolation --editable ." in line
