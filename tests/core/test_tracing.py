"""Fitted densities under torch.func and the compiler: derivatives of the log density are the score."""

import pytest
import torch
from helpers import gmm_sample
from torch import Tensor

from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.blend import Blend
from discoformer.core.fields import Density, as_density
from discoformer.core.moving import moved
from discoformer.core.pushforward import Pushforward
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.views import Views
from discoformer.models.registry import build_network, load_model

SAMPLE = gmm_sample(80, 3)
QUERIES = torch.cat([SAMPLE[:6], 40 * SAMPLE[:3]])  # near, and where margins are told by their logarithms


def _densities() -> dict[str, Density]:
    torch.manual_seed(0)
    core = {"kind": "unified", "layers": 2, "width": 8, "heads": 2, "slots": 8, "loops": 1}
    views = Views(build_network(core, "whiten").double().eval().requires_grad_(False))
    pushed = as_density(load_model("default").network.fit(SAMPLE))
    assert isinstance(pushed, Pushforward)
    assert isinstance(pushed.base, Blend)
    student = pushed.base.parts[0]
    assert isinstance(student, StudentMixture)
    blend = as_density(views.fit(SAMPLE))
    assert isinstance(blend, Blend)
    bounded = FitRecipe(views, [(-1e3, 1e3), (-1e3, float("inf")), (-1e3, 1e3)]).fit(SAMPLE)
    default = as_density(load_model("default").fit(SAMPLE))
    found = {"student": student, "pushed": pushed, "blend": blend, "bounded": as_density(bounded)}
    return found | {"default": default}


DENSITIES = _densities()


@pytest.mark.parametrize("name", DENSITIES)
def test_vmap_of_grad_is_the_score(name: str) -> None:
    density = DENSITIES[name]

    def log_density(x: Tensor) -> Tensor:
        return density.log_density(x.unsqueeze(0)).squeeze(0)

    score = density.score(QUERIES)
    close = {"rtol": 1e-8, "atol": 1e-8}
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(log_density))(QUERIES), score, **close)
    torch.testing.assert_close(torch.func.grad(log_density)(QUERIES[0]), score[0], **close)
    jacobian = torch.func.jacrev(density.log_density)(QUERIES)
    torch.testing.assert_close(jacobian.diagonal(dim1=0, dim2=1).mT, score, **close)
    batch = torch.func.vmap(density.log_density)(QUERIES.unflatten(0, (3, 3)))
    torch.testing.assert_close(batch.flatten(), density.log_density(QUERIES), **close)


@pytest.mark.parametrize("name", DENSITIES)
def test_hessians_are_jacobians_of_the_score(name: str) -> None:
    density, near = DENSITIES[name], QUERIES[:4]
    gradient = torch.func.grad(lambda x: density.log_density(x.unsqueeze(0)).squeeze(0))
    hessian = torch.func.vmap(torch.func.jacrev(gradient))
    by_score = torch.func.vmap(torch.func.jacrev(lambda x: density.score(x.unsqueeze(0)).squeeze(0)))
    torch.testing.assert_close(hessian(near), by_score(near), rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", DENSITIES)
def test_compiled_without_a_break(name: str) -> None:
    density = DENSITIES[name]
    torch._dynamo.reset()
    compiled = torch.compile(density.log_density, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(QUERIES), density.log_density(QUERIES), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", DENSITIES)
def test_moved_to_another_type_and_to_the_meta_device(name: str) -> None:
    density = DENSITIES[name]
    half = moved(density, torch.float32)
    exact, rounded = density.estimate(QUERIES[:6]), half.estimate(QUERIES[:6].float())
    assert rounded.score.dtype == torch.float32
    assert half.sample(3).dtype == torch.float32
    torch.testing.assert_close(rounded.log_density.double(), exact.log_density, rtol=1e-3, atol=1e-3)
    there = moved(density, "meta")
    log_density, score = there.estimate(QUERIES.to("meta"))
    assert (log_density.shape, score.shape, score.device.type) == ((9,), (9, 3), "meta")
