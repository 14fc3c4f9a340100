"""Moving code about changes no answer: every case says what was recorded before.

Where an answer is meant to change, `python tests/record_answers.py NAME` records it anew.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from recorded_cases import CASES, ask

RECORDED = json.loads(Path(__file__).with_name("recorded_answers.json").read_text())
TOLERANCE = 1e-9


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Where others want the cores too, small operations on several threads take five times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_every_case_is_recorded() -> None:
    assert sorted(RECORDED) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_answer_is_the_recorded_one(name: str) -> None:
    expected, found = RECORDED[name], ask(name)
    assert sorted(found) == sorted(expected)
    for key, wanted in expected.items():
        value = found[key]
        if isinstance(wanted, str) or isinstance(value, str):
            assert value == wanted, f"{name}: {key}"
            continue
        numbers = np.array(wanted, dtype=np.float64)
        assert value.shape == numbers.shape, f"{name}: {key}"
        finite = np.abs(numbers[np.isfinite(numbers)])
        scale = min(1.0, float(finite.max(initial=0.0)))  # numbers that are all small have to agree as well
        np.testing.assert_allclose(
            value, numbers, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=False, err_msg=f"{name}: {key}"
        )
