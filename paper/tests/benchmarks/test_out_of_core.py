"""The benchmark of streams: extrapolation by laws, and sizes that are not measured twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Load = Callable[[str], Any]


def test_memory_and_seconds_are_extrapolated_by_their_laws(load: Load) -> None:
    module = load("out_of_core")
    runs = [module.Run(n, 3e-6 * n, 1e-7 * n**1.1, 0.4 + 2e-9 * n) for n in (10**6, 3 * 10**6, 10**7)]
    far, slopes = module.extrapolate(runs)
    assert far == pytest.approx((10**8, 300.0, 1e-7 * 1e8**1.1, 0.6))
    assert slopes == pytest.approx({"fit": 1.0, "read": 1.1, "bytes per row": 2.0})


def test_sizes_on_disk_are_not_streamed_again(
    load: Load, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("out_of_core")
    seen: list[int] = []

    def measure(model: str, rows: int, columns: int, folder: Path) -> dict[str, float]:
        if len(seen) == 2 and not (tmp_path / "go on").exists():
            (tmp_path / "go on").touch()
            raise KeyboardInterrupt
        seen.append(rows)
        return {"fit": 1e-6 * rows, "read": 1e-6 * rows, "peak": 0.5}

    monkeypatch.setattr(module, "measure", measure)
    arguments = ["--model", str(model_path), "--rows", "1000", "--out", str(tmp_path / "out")]
    with pytest.raises(KeyboardInterrupt):
        module.main(arguments)
    assert len((tmp_path / "out" / "out_of_core_unfinished.csv").read_text().splitlines()) == 3
    assert module.main(arguments) == 0
    assert seen == [100, 300, 1000]
    assert not (tmp_path / "out" / "out_of_core_unfinished.csv").exists()
    assert len((tmp_path / "out" / "out_of_core.csv").read_text().splitlines()) == 5
