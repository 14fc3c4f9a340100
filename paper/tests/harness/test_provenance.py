"""Runs are named by commit and machine, and by nothing private."""

import platform
from pathlib import Path

import pytest
import torch

from discoformer_paper.harness import provenance


def test_provenance_names_no_host_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = provenance.machine()
    assert torch.__version__ in said and "/" not in said and platform.node() not in said.split()
    name = provenance.record_run(tmp_path, quick=True)
    assert provenance.record_run(tmp_path, quick=True) == name
    assert provenance.read_runs(tmp_path) == {name: (provenance.commit(), said, "quick")}
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path)
    assert provenance.commit().startswith("discoformer "), "not in a checkout of this project"
