"""The page of the guide that shows the benchmark on real data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from discoformer.baselines import KDE
from discoformer.data.datasets import real_dataset
from discoformer.evaluation.held_out import held_out_log_likelihood
from discoformer.methods import resolve
from discoformer_paper.harness.benchmark import Session
from discoformer_paper.harness.contestants import Contestant

Load = Callable[[str], Any]


def test_the_page_of_real_data_shows_the_table_of_the_benchmark(load: Load) -> None:
    module = load("real_data")
    table = module.page_table(module.RESULTS / "real_data.csv")
    for page in module.PAGES:
        assert page.read_text(encoding="utf-8").split(module.BEGIN)[1].split(module.END)[0] == table


def test_the_page_of_real_data_is_made_from_the_file(tmp_path: Path, load: Load) -> None:
    """Numbers are those of the command, the best is bold, other models stay out, the rest stays."""
    module = load("real_data")
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{module.BEGIN}gone\n{module.END}\nafter\n")
    module.write_page(tmp_path, page)
    assert "Not measured yet" in page.read_text()
    methods = {"other": KDE(9.0), "default": KDE(0.2)}
    for label, method in methods.items():
        run = Session(tmp_path, 1)
        run.seed, run.ours = module.SEED, Contestant(label, f"{label}@12ab", method)
        module.table(run, ["iris"], ["kde-scott", "kde-loo"])
    module.write_page(tmp_path, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "gone" not in text and "other" not in text
    header, _, line = (row.strip("| ").split(" | ") for row in text.splitlines()[3:6])
    cells = dict(zip(header, line, strict=True))
    methods |= {name: resolve(name).method for name in ("kde-scott", "kde-loo")}
    results = {name: held_out_log_likelihood(m, real_dataset("iris").values) for name, m in methods.items()}
    means = {name: result.mean for name, result in results.items()}
    best = max(("kde-scott", "kde-loo"), key=lambda name: means[name])
    lead, error = results["default"].minus(results[best])
    assert cells["ahead by"] == f"{lead:.3f} ± {error:.3f}"
    shown = ("default", "kde-scott", "kde-loo")
    assert [cells[name].strip("*") for name in shown] == [f"{means[name]:.3f}" for name in shown]
    assert [name for name in cells if "**" in cells[name]] == [max(shown, key=lambda name: means[name])]
    module.write_page(tmp_path, page)
    assert page.read_text() == text
