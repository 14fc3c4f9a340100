"""A core in a frame: digested once, read anywhere, carried by the frame's change of variables."""

import pytest
import torch
from helpers import F64, attention_network, mixture_network, normal

from discoformer.core.composed import PushedDensity
from discoformer.core.transforms import Frame
from discoformer.models.network import Network

NETWORKS = {
    "mixture": mixture_network,
    "attention": attention_network,
    "attention-canonical": lambda: attention_network("canonical"),
}
each = pytest.mark.parametrize("name", NETWORKS)


@each
def test_encode_and_read_are_forward_and_fit(name: str) -> None:
    network, x, y = NETWORKS[name](), normal(40, 3), normal(7, 3, seed=1)
    whole = network(x, y)
    parts = (network.read(network.encode(x), y), network.fit(x).estimate(y))
    for answer in parts:
        assert torch.equal(answer.log_density, whole.log_density)
        assert torch.equal(answer.score, whole.score)


@each
def test_a_fit_is_what_the_core_says_in_the_frame_carried_back(name: str) -> None:
    network, x, y = NETWORKS[name](), 5 * normal(40, 3) + 7, normal(7, 3, seed=1)
    field = network.fit(x)
    assert isinstance(field, PushedDensity)
    (frame,) = field.transforms
    assert isinstance(frame, Frame)
    inside = network.digest(frame.normalize(x), None)
    expected = frame.denormalize_estimate(inside._estimate(frame.normalize(y)))
    for found, own in zip(field.estimate(y), expected, strict=True):
        torch.testing.assert_close(found, own, rtol=1e-12, atol=1e-12)


@each
def test_a_batch_and_weights_pass(name: str) -> None:
    network, x = NETWORKS[name](), normal(2, 40, 3)
    weights = normal(2, 40, seed=2).exp()
    both = network.fit(x, weights).log_density(x)
    for i in range(2):
        torch.testing.assert_close(network.fit(x[i], weights[i]).log_density(x[i]), both[i])


@each
def test_few_rows_are_seen_standardized_by_the_same_weights(name: str) -> None:
    network: Network = NETWORKS[name]()
    few = network.for_few_rows()
    assert type(few) is type(network) and few.core is network.core
    assert (few is network) == (name == "mixture")  # sees for itself how many rows there are
    assert few is network or few.frame_name == "standardize"


@each
def test_answers_come_in_the_precision_of_the_questions(name: str) -> None:
    network, x, y = NETWORKS[name](), normal(40, 3), normal(7, 3, seed=1)
    assert network.dtype == F64
    field = network.fit(x.float())
    assert field.estimate(y.float()).score.dtype == torch.float32
    assert field.estimate(y).score.dtype == F64
