"""The files that name versions agree with each other, and the tools that keep them say what they found."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TRIED_LOWEST = ("plot", "report", "widget", "cli", "tables", "train", "bench", "cluster", "detect", "export")


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text().splitlines()
    pairs = [line.rstrip(" \\").split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {plain(name): version for name, version in pairs}


def bounds(requirements: list[str]) -> dict[str, str]:
    found = {}
    for requirement in requirements:
        name, version = requirement.split(">=")
        found[plain(name.split("[")[0])] = version
    return found


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.split("+")[0])]


def test_the_lowest_versions_are_those_of_the_bounds() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = bounds(PROJECT["dependencies"] + [line for name in TRIED_LOWEST for line in extras[name]])
    lowest = pins("lowest.txt")
    assert set(lowest) == set(wanted)
    for name, bound in wanted.items():
        assert numbers(lowest[name])[: len(numbers(bound))] == numbers(bound), name


def test_the_tested_versions_are_within_the_bounds() -> None:
    tested = pins("constraints.txt")
    every = PROJECT["dependencies"] + [
        line for extra in PROJECT["optional-dependencies"].values() for line in extra
    ]
    for name, bound in bounds(every).items():
        if name in tested:
            assert numbers(tested[name]) >= numbers(bound), name


def test_the_lock_has_a_hash_for_every_tested_version() -> None:
    text = (ROOT / "lock.txt").read_text()
    assert pins("lock.txt") == {name: v for name, v in pins("constraints.txt").items() if name != "torch"}
    for entry in re.split(r"\n(?=\S)", text.split("\n", 2)[2].strip()):
        assert re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", entry)
    assert "://" not in text


@pytest.mark.parametrize(
    ("said", "code", "line"),
    [
        (
            [{"name": "torch", "version": "1", "vulns": []}],
            0,
            "packages known to the service, 0 vulnerabilities",
        ),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}],
            1,
            "audit: a 1: CVE-1, fixed in 2",
        ),
        ([{"name": "a", "skip_reason": "not found"}], 0, "audit: skipped"),
        (None, 0, "audit: skipped"),
    ],
)
def test_the_audit_fails_for_what_is_known_and_says_when_nobody_answers(
    said: object, code: int, line: str, tmp_path: Path
) -> None:
    answer = "raise SystemExit(1)" if said is None else f"print({json.dumps({'dependencies': said})!r})"
    (tmp_path / "pip_audit.py").write_text(answer)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "audit.py")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == code
    assert line in done.stdout
