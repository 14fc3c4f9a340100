"""Networks are known by their weights, in any precision."""

from collections.abc import Callable
from pathlib import Path

import torch

from discoformer.methods import resolve
from discoformer.models import registry
from discoformer_paper.harness.contestants import CORE_SIZE, Networks, fingerprint


def test_fingerprints_tell_weights_apart_in_every_dimension(
    model_path: Path, other_path: Path, save_attention: Callable[[int, int], Path]
) -> None:
    paths = [model_path, other_path, save_attention(3, 0), save_attention(3, 1)]
    marks = [fingerprint(resolve(str(path)).method) for path in paths]
    assert len(set(marks)) == len(paths)
    assert fingerprint(resolve(str(model_path)).method) == marks[0]


def test_single_precision_has_the_same_identity(
    own_registry: None, model_path: Path, save_attention: Callable[[int, int], Path]
) -> None:
    registry.register("attention-d2", save_attention(2, 0))
    networks = Networks(str(model_path))
    single, double = networks.core(2), networks.shipped("attention-d2")
    assert single is not None and double is not None
    assert single.identity == double.identity
    assert single.method.dtype == torch.float32 and double.method.dtype == torch.float64
    assert [found.label for found in networks.for_dim(2, CORE_SIZE + 1)] == ["whiten"]
