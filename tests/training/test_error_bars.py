"""Training of error bars: tasks resume, and the pinball loss finds the quantile."""

from pathlib import Path

import torch

from discoformer.methods import resolve
from discoformer.models.mixture.error_features import COLUMN_FEATURES, ROW_FEATURES
from discoformer.training.config import load_recipe
from discoformer.training.error_bars import ErrorBarRecipe, TaskErrors, collect, train_head

SMALL = ErrorBarRecipe(tasks=2, queries=12, steps=2, batch=8, width=4)


def test_tasks_are_kept_and_not_made_again(tmp_path: Path) -> None:
    recipe = load_recipe("default", ["dims=[2]", "sizes=[64,128]"])
    method, said = resolve("default").method, []
    first = collect(SMALL, recipe, method, tmp_path, said.append)
    again = collect(SMALL, recipe, method, tmp_path, said.append)
    assert (
        len(said) == 1
        and first.row.shape == (24, ROW_FEATURES)
        and first.column.shape == (48, COLUMN_FEATURES)
    )
    for one, other in zip(first, again, strict=True):
        torch.testing.assert_close(one, other)
    assert first.place.tolist() == torch.arange(24).repeat_interleave(2).tolist()
    half = first.take(torch.tensor([False, True]))
    torch.testing.assert_close(half.row, first.row[12:])
    assert half.place.tolist() == torch.arange(12).repeat_interleave(2).tolist()


def test_the_head_finds_a_quantile_that_depends_on_a_feature() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 20_000
    row, column = torch.randn(rows, ROW_FEATURES, generator=generator), torch.randn(2 * rows, COLUMN_FEATURES)
    place = torch.arange(rows).repeat_interleave(2)
    task = torch.arange(rows) // 100
    errors = TaskErrors(
        row,
        (row[:, 0] + torch.randn(rows, generator=generator).abs().log()),
        column,
        (column[:, 0] + torch.randn(2 * rows, generator=generator).abs().log()),
        place,
        task,
        task[place],
    )
    head, found = train_head(errors, ErrorBarRecipe(steps=600, batch=1024, width=16), [].append)
    assert abs(found["log_density"] - 0.9) < 0.03 and abs(found["score"] - 0.9) < 0.03
    density = head.row(row[:1000]).detach()
    torch.testing.assert_close(density, row[:1000, 0] + torch.tensor(1.645).log(), rtol=0.0, atol=0.6)
