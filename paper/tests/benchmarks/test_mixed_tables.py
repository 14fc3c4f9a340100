"""The page shows the committed measurements of mixed tables."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Load = Callable[[str], Any]


def test_the_page_has_the_committed_numbers(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "benchmarks"), *sys.path])
    module = load("mixed_tables")
    page = module.PAGE.read_text(encoding="utf-8")
    assert module.BEGIN + module.page_table(module.OUT) + module.END in page
    with module.OUT.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["table"] for row in rows}) == len(rows) >= 8
    for row in rows:
        assert row["best"] == max(module.METHODS, key=lambda name: float(row[name]))
