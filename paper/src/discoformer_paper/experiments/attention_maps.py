"""Attention of the paper's core as maps, and the weights of kernels and mixtures in the same form.

A map (n, n) has a row for every point of a sample: the shares of all points in its answer, which sum
to one.  The paper's core has one for every head and layer.  A kernel estimate has exp(-|x - y|^2 / 2 h^2),
normalized.  A mixture looks through its components: a point belongs to components, and a component is the
mean of the points that belong to it, so the map is the product of the two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.cluster.hierarchy import leaves_list, linkage
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.composed import Blend, Pushforward
from discoformer.core.fields import Field, Method
from discoformer.core.frames import Whiten
from discoformer.models.attention.network import AttentionNetwork
from discoformer.models.mixture.student import StudentMixture
from discoformer_paper.theory import kernel_weights

__all__ = [
    "BANDWIDTHS",
    "best_kernel",
    "correlation",
    "kernel_map",
    "map_shape",
    "maps_of",
    "neighbour_order",
    "printed_kernel",
    "reach_and_pull",
    "scott_kernel",
    "whitened",
]

BANDWIDTHS = tuple(float(f"{h:.3g}") for h in np.geomspace(0.05, 2, 33))  # in whitened coordinates


def whitened(sample: Tensor) -> Tensor:
    """A sample (n, d) in the coordinates that the core sees."""
    return Whiten().fit(sample).normalize(sample)


def kernel_map(points: Tensor, bandwidth: float) -> Tensor:
    """Normalized Gaussian kernel (n, n) of points (n, d).

    >>> kernel_map(torch.tensor([[0.0], [0.0]]), 1.0).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    form = torch.eye(points.shape[-1], dtype=points.dtype) / bandwidth**2
    return kernel_weights(points, points, form, reweighted=False)


def printed_kernel(sample: Tensor) -> Tensor:
    """The kernel that the paper compares with, exp(-|x - y|^2) in the units of the data."""
    return kernel_map(sample, 0.5**0.5)


def scott_kernel(sample: Tensor) -> Tensor:
    """The kernel of Scott's rule: an h for every column."""
    size, dim = sample.shape
    return kernel_map(sample / sample.std(0), size ** (-1 / (dim + 4)))


def maps_of(method: Method, sample: Tensor) -> Tensor:
    """Maps (layers, heads, n, n) of a network; those of a mixture count as one head of one layer."""
    with torch.no_grad():
        if isinstance(method, AttentionNetwork):
            points = sample.to(method.dtype)
            points = method.frame.fit(points).normalize(points)
            maps: Tensor = method.core.attention_maps(points, points)
            return maps.to(sample)
        return _by_field(method.fit(sample), sample)[None, None]


def _by_field(field: Field, sample: Tensor) -> Tensor:
    """The map (n, n) of a mixture, or of a blend of mixtures, where a point also belongs to the parts."""
    if isinstance(field, Blend):
        log_parts = (
            torch.stack([part.log_density(sample) for part in field.parts]) + field.log_weight[:, None]
        )
        parts = torch.stack([_by_field(part, sample) for part in field.parts])
        return (log_parts.softmax(0).unsqueeze(-1) * parts).sum(0)
    if isinstance(field, Pushforward):
        for transform in field.transforms:
            sample = transform.normalize(sample)
        return _by_field(field.base, sample)
    if isinstance(field, StudentMixture):
        return _through_components(field, sample)
    raise DataError("this model has neither attention nor components: choose a network")


def map_shape(method: Method) -> tuple[int, int]:
    """Layers and heads of `maps_of`."""
    if isinstance(method, AttentionNetwork):
        return method.core.config.layers, method.core.config.heads
    return 1, 1


def _through_components(mixture: StudentMixture, points: Tensor) -> Tensor:
    bare = replace(mixture, evidence=None)
    single = bare.map(lambda parameter: parameter.unsqueeze(1))  # a batch of components (M, 1, ...)
    log_parts = single.log_density(points.expand(len(single.log_weight), -1, -1))  # (M, n)
    belongs = log_parts.softmax(0)
    of_component = belongs / belongs.sum(1, keepdim=True).clamp_min(torch.finfo(belongs.dtype).tiny)
    return belongs.mT @ of_component


def correlation(first: Tensor, second: Tensor) -> float:
    """Pearson's correlation of all entries.

    >>> a = torch.rand(5, 5)
    >>> round(correlation(a, 2 * a + 1), 5)
    1.0
    """
    return float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])


def best_kernel(weights: Tensor, sample: Tensor) -> tuple[float, float]:
    """The largest correlation with a kernel in whitened coordinates, and its bandwidth."""
    points = whitened(sample)
    found = {h: correlation(weights, kernel_map(points, h)) for h in BANDWIDTHS}
    best = max(found, key=found.__getitem__)
    return found[best], best


def reach_and_pull(weights: Tensor, sample: Tensor) -> tuple[float, float]:
    """How far a map looks, and whether it has a favourite direction.

    Reach is the mean squared distance of what is looked at, relative to that of all pairs: 0 is the point
    itself, 1 is all points equally, more is far away.  Pull is the distance between the mean of what is
    looked at and the mean of the sample, in standard deviations: near 0 unless all points look the same
    way.

    >>> sample = torch.randn(50, 2, dtype=torch.float64)
    >>> reach, pull = reach_and_pull(torch.full((50, 50), 1 / 50, dtype=torch.float64), sample)
    >>> round(reach, 6), round(pull, 6)
    (1.0, 0.0)
    """
    points = whitened(sample)
    squared = torch.cdist(points, points).square()
    reach = (weights * squared).sum(-1).mean() / squared.mean()
    return float(reach), float((weights @ points).mean(0).norm())


def neighbour_order(points: Tensor) -> Tensor:
    """An order of points (n, d) in which neighbours come close to one another."""
    return torch.as_tensor(leaves_list(linkage(points.numpy(), "average")), dtype=torch.long)
