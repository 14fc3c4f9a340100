"""Oracles by name."""

import pytest

from discoformer import DataError
from discoformer.particles import (
    SBTM,
    Calibrated,
    landau_start,
)
from discoformer.particles.choices import choose_oracle


def test_oracles_by_name() -> None:
    """A name that only begins like SBTM's is a model's."""
    law = landau_start("gaussian", 2)
    assert isinstance(choose_oracle("sbtm-1", law), SBTM)
    assert isinstance(choose_oracle("sbtm", law, calibrate=True), Calibrated)
    with pytest.raises(DataError, match="no model 'sbtm-2'"):
        choose_oracle("sbtm-2", law)
