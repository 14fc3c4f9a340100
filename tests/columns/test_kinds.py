from __future__ import annotations

from typing import Any

import pytest

from discoformer.columns.kinds import ColumnKind
from discoformer.core.checks import DataError


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "colour"},
        {"kind": "category"},
        {"levels": 3},
        {"kind": "circular"},
        {"period": 24.0},
        {"kind": "category", "levels": 2, "atoms": (0.0,)},
        {"kind": "category", "levels": 2, "step": 1.0},
        {"step": -1.0},
        {"atoms": (float("nan"),)},
        {"atoms": (0.0, 0.0)},
    ],
)
def test_what_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        ColumnKind(**wrong)
