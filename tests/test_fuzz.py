"""A short run of `make fuzz`: random hostile tables keep the laws, and a broken law is seen."""

import numpy as np
import pytest
from fuzz import check, run

from discoformer import DiScoFormer


def test_hostile_tables_keep_the_laws() -> None:
    assert not run(7, tables=12)


def test_a_broken_law_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that depend on the rows asked at the same time, as a fault would make them."""
    honest = DiScoFormer.score_samples
    monkeypatch.setattr(DiScoFormer, "score_samples", lambda est, x: honest(est, x) + 1e-3 * np.shape(x)[0])
    broken = {law for law, wrong in check(0) if wrong}
    assert "one_by_one" in broken
    assert "layout" not in broken
