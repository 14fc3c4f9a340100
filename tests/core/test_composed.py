"""One composition: what is pushed twice is pushed by both, and stays a law of probability in every verb."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from helpers import F64, fit_quietly, gmm_sample, mixture_network, normal, random_covariance
from scipy import integrate, stats
from torch import Tensor

from discoformer import KDE, DataError, Density, Field, PointDensity
from discoformer.baselines import SteinGradient
from discoformer.columns.bounds import FREE, Bound, fit_maps
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.composed import Blend, PushedDensity, PushedField, Pushforward, on_support, push
from discoformer.core.fields import as_density
from discoformer.core.frames import Whiten
from discoformer.core.moving import moved
from discoformer.core.transforms import Frame, Transform, scaling_frame
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.views import Views
from discoformer.models.registry import build_network, load_model
from discoformer.priors import gaussian

BOUNDS: list[Bound] = [(0.0, math.inf), (-1.0, 1.0), FREE, FREE]
SAMPLE = gmm_sample(80, 3)
QUERIES = torch.cat([SAMPLE[:6], 40 * SAMPLE[:3]])  # near, and where margins are told by their logarithms


def table(n: int = 150) -> Tensor:
    """Four columns: positive, a share, free, and a sum of two of them."""
    x = normal(n, 3) @ (torch.eye(3, dtype=F64) + 0.5 * normal(3, 3, seed=1))
    x = torch.stack([x[:, 0].exp(), (0.5 * x[:, 1]).tanh(), x[:, 2] * 20], -1)
    return torch.cat([x, x[:, :1] + x[:, 2:]], 1)


def doubled() -> Frame:
    """The frame x -> x / 2 of three columns."""
    return scaling_frame(torch.zeros(1, 3, dtype=F64), torch.full((3,), 2.0, dtype=F64))


@cache
def fitted(name: str) -> Pushforward:
    """Fits to the first three columns, or to all with the sum left out."""
    method = mixture_network() if name.startswith("mixture") else KDE("scott-full")
    if name.endswith("left out"):
        field = fit_quietly(FitRecipe(method, BOUNDS), table())
    elif name.endswith("bounded"):
        field = FitRecipe(method, BOUNDS[:3]).fit(table()[:, :3])
    else:
        field = push(method.fit(table()[:, :3]), [doubled()])
    assert isinstance(field, Pushforward)
    return field


NAMES = [f"{base} {kind}" for base in ("mixture", "kernel") for kind in ("plain", "bounded", "left out")]
each = pytest.mark.parametrize("name", NAMES)


def rows(field: Field) -> Tensor:
    """A few points where the field is defined."""
    return table()[:6, : field.dim]


def maps() -> tuple[list[Transform], list[Transform]]:
    """Two lists of transforms of two columns; points go through the second first."""
    x = normal(80, 2).exp()
    inner: list[Transform] = [Whiten().fit(x.log())]
    outer: list[Transform] = [
        scaling_frame(torch.zeros(1, 2, dtype=F64), torch.tensor([2.0, 0.5], dtype=F64)),
        fit_maps(x, None, [(0.0, math.inf), (0.0, 1e3)]),
    ]
    return inner, outer


# -- composition ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        (KDE().fit(normal(40, 2)), Pushforward),
        (gaussian(normal(2), random_covariance(2)), PushedDensity),
        (SteinGradient().fit(normal(40, 2)), PushedField),
    ],
)
def test_what_is_pushed_twice_is_pushed_by_both(base: Field, kind: type[PushedField]) -> None:
    inner, outer = maps()
    twice, once = push(push(base, inner), outer), push(base, outer + inner)
    y = normal(9, 2, seed=3).exp()
    assert type(twice) is type(once) is kind
    assert isinstance(twice, PushedField) and isinstance(once, PushedField)
    assert twice.transforms == once.transforms and not isinstance(twice.base, PushedField)
    assert torch.equal(twice.score(y), once.score(y))
    if isinstance(twice, PointDensity) and isinstance(once, PointDensity):
        assert torch.equal(twice.log_density(y), once.log_density(y))
        x = y.clone().requires_grad_()
        log_density, score = once.estimate(x)
        (gradient,) = torch.autograd.grad(log_density.sum(), x)
        torch.testing.assert_close(score, gradient, rtol=1e-8, atol=1e-8)
    assert push(base, []) is base


def test_a_score_and_a_density_are_pushed_alike() -> None:
    class ScoreOnly(Field):
        dim = 2

        def _score(self, queries: Tensor) -> Tensor:
            return law.score(queries)

    law = gaussian(normal(2), random_covariance(2))
    inner, outer = maps()
    y = normal(9, 2, seed=3).exp()
    torch.testing.assert_close(push(ScoreOnly(), outer + inner).score(y), push(law, outer + inner).score(y))


@each
def test_three_lines_say_what_a_field_is(name: str) -> None:
    field = fitted(name)
    lines = str(field).splitlines()
    assert len(lines) == 3
    assert lines[0] == f"Pushforward in {field.dim} column(s)"
    assert ("Blend in" if name.startswith("mixture") else "kernel density of 150 points") in lines[1]
    assert ("column 1 in (-1, 1)" in lines[2]) == ("plain" not in name)
    assert ("left out: column 3" in lines[2]) == ("left out" in name)


def test_columns_that_carry_the_density() -> None:
    field = fitted("mixture left out")
    assert field.support == [0, 1, 2]
    inner, columns = on_support(field)
    assert columns == [0, 1, 2]
    torch.testing.assert_close(inner.log_density(rows(field)[:, :3]), field.log_density(rows(field)))
    plain = fitted("mixture bounded")
    assert on_support(plain) == (plain, [0, 1, 2])


# -- one column -------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("column", [0, 1, 2])
def test_quantiles_and_the_distribution_function_are_inverse(name: str, column: int) -> None:
    margin = fitted(name).marginal([column])
    shares = torch.tensor([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6], dtype=F64)
    places = margin.quantile(shares)
    assert places.shape == (6, 1)
    assert bool((places.diff(dim=0) > 0).all())
    near = torch.tensor([[0.0], [5e-324], [1e-200], [1e-120], [1e-9]], dtype=F64)
    assert bool((margin.cdf(near if column == 0 else near - 1).diff() >= 0).all())
    # heavy tails of a bounded column end so near to the bound that numbers cannot tell them from it
    least = 1e-10 if "plain" in name or column == 2 else 1.1e-6
    torch.testing.assert_close(margin.cdf(places), shares, rtol=1e-8, atol=least)
    x = table()[:20, [column]]
    torch.testing.assert_close(margin.quantile(margin.cdf(x)), x, rtol=1e-6, atol=1e-8)
    for wrong in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(DataError, match="above 0 and below 1"):
            margin.quantile([wrong])


@each
@pytest.mark.parametrize("column", [0, 1, 2])
def test_the_distribution_function_is_the_integral_of_the_density(name: str, column: int) -> None:
    margin = fitted(name).marginal([column])
    low, high = (float(x) for x in margin.quantile([0.2, 0.7]))

    def density(x: float) -> float:
        return math.exp(float(margin.log_density(np.array([[x]]))[0]))

    mass, _ = integrate.quad(density, low, high, epsabs=1e-10, epsrel=1e-10, limit=200)
    assert mass == pytest.approx(0.5, abs=1e-8)


@each
def test_a_bound_is_where_the_mass_ends(name: str) -> None:
    field = fitted(name)
    ends = torch.tensor([[-1.5], [-1.0], [-0.9], [0.9], [1.0], [1.5]], dtype=F64)
    below = field.marginal([1]).cdf(ends)
    if "plain" not in name:
        assert below[[0, 1, 4, 5]].tolist() == [0, 0, 1, 1]
        assert 0 < float(below[2]) < float(below[3]) < 1
    else:
        assert bool(((below > 0) & (below < 1)).all())


# -- draws ------------------------------------------------------------------------------------


@each
def test_draws_stay_within_bounds_and_follow_the_margins(name: str) -> None:
    field = fitted(name)
    drawn = field.sample(2000, torch.Generator().manual_seed(0))
    assert drawn.shape == (2000, field.dim)
    assert torch.equal(drawn, field.sample(2000, torch.Generator().manual_seed(0)))
    if "plain" not in name:
        assert float(drawn[:, 0].min()) >= 0
        assert float(drawn[:, 1].abs().max()) <= 1
    if field.dim == 4:
        torch.testing.assert_close(drawn[:, 3], drawn[:, 0] + drawn[:, 2], rtol=1e-9, atol=1e-7)
    for column in range(3):
        margin = field.marginal([column])
        below = margin.cdf(drawn[:, [column]])
        assert stats.kstest(below.numpy(), "uniform").pvalue > 1e-3


# -- margins and conditionals -----------------------------------------------------------------


@each
def test_a_margin_of_a_margin_is_a_margin(name: str) -> None:
    field, x = fitted(name), rows(fitted(name))
    for columns, then in (([2, 0, 1], [1]), ([0, 2], [1, 0]), ([1, 2], [0])):
        straight = [columns[c] for c in then]
        twice, once = field.marginal(columns).marginal(then), field.marginal(straight)
        for a, b in zip(twice.estimate(x[:, straight]), once.estimate(x[:, straight]), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
    order = [2, 0, 1]
    turned = field.marginal(order).log_density(x[:, order])
    torch.testing.assert_close(turned, field.log_density(x), rtol=1e-9, atol=1e-9)


@each
@pytest.mark.parametrize("given", [[0], [2], [1, 0], [2, 1]])
def test_conditional_times_marginal_is_the_joint(name: str, given: list[int]) -> None:
    field = fitted(name)
    rest = [c for c in range(3) if c not in given]
    for row in rows(field):
        marginal = field.marginal(given).log_density(row[None, given])
        conditional = field.conditional(given, row[given])
        assert conditional.dim == len(rest)
        total = marginal + conditional.log_density(row[None, rest])
        torch.testing.assert_close(total, field.log_density(row[None]), rtol=1e-8, atol=1e-8)


@each
def test_conditioning_twice_is_conditioning_on_both(name: str) -> None:
    field, row = fitted(name), rows(fitted(name))[0]
    twice = field.conditional([1], row[[1]]).conditional([0], row[[0]])  # of the columns 0 and 2
    once = field.conditional([1, 0], row[[1, 0]])
    y = torch.linspace(-40, 40, 9, dtype=F64).unsqueeze(-1)
    torch.testing.assert_close(twice.log_density(y), once.log_density(y), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(twice.cdf(y), once.cdf(y), rtol=1e-8, atol=1e-10)


@each
def test_a_margin_is_the_integral_over_the_other_column(name: str) -> None:
    joint = fitted(name).marginal([0, 2])
    for value in rows(joint)[:2, :1]:
        line = torch.linspace(-400, 400, 40001, dtype=F64)
        points = torch.stack([value.expand_as(line), line], -1)
        mass = torch.trapezoid(joint.log_density(points).exp(), line)
        direct = joint.marginal([0]).log_density(value[None]).exp()
        torch.testing.assert_close(mass, direct[0], rtol=1e-4, atol=1e-8)


@each
def test_wrong_columns_and_values_are_refused(name: str) -> None:
    field = fitted(name)

    def refused(call: object, message: str) -> None:
        with pytest.raises(DataError, match=message):
            call()  # type: ignore[operator]

    wrong: Sequence[Sequence[int]] = ([], [0, 0], [field.dim], [-1])
    for columns in wrong:
        refused(lambda c=columns: field.marginal(c), "give distinct numbers")
        refused(lambda c=columns: field.conditional(c, [0.5] * len(c)), "give distinct numbers")
    refused(lambda: field.conditional([0, 1, 2], [0.5] * 3), "none is left")
    refused(lambda: field.conditional([0], [0.5, 0.5]), "expected one for each")
    refused(lambda: field.conditional([0], ["much"]), "values are not numbers")
    refused(lambda: field.conditional([0], [math.inf]), "NaN or infinite")
    refused(lambda: field.cdf(rows(field)), "needs one column")
    refused(lambda: field.quantile([0.5]), "needs one column")
    if "plain" not in name:
        refused(lambda: field.conditional([1], [1.5]), "column 1: the value given has no density")
    if "left out" in name:
        refused(lambda: field.marginal([3]), "column 3: left out of the fit")


# -- linear images ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixture plain", "kernel plain"])
def test_a_linear_image_has_the_density_of_the_change_of_variables(name: str) -> None:
    field = fitted(name)
    whole: Density = push(field.base, field.transforms[1:])
    matrix, shift = torch.eye(3, dtype=F64) + 0.3 * normal(3, 3, seed=4), normal(1, 3, seed=5)
    x = rows(field)
    moved = whole.transform(matrix, shift).log_density(x @ matrix + shift)
    torch.testing.assert_close(moved + torch.linalg.slogdet(matrix)[1], whole.log_density(x))
    part = whole.transform(torch.eye(3, dtype=F64)[:, [2]], torch.zeros(1, 1, dtype=F64))
    torch.testing.assert_close(part.log_density(x[:, [2]]), whole.marginal([2]).log_density(x[:, [2]]))


def test_bounds_have_no_linear_images() -> None:
    field = fitted("mixture bounded")
    with pytest.raises(DataError, match="no linear images in closed form"):
        field.transform(torch.eye(3, dtype=F64), torch.zeros(1, 3, dtype=F64))


# -- batches ----------------------------------------------------------------------------------


def test_a_batch_is_a_loop_in_every_verb() -> None:
    batch = torch.stack([table()[:, :3], table()[:, :3] * torch.tensor([3.0, 0.5, 2.0])])
    method = FitRecipe(mixture_network(), BOUNDS[:3])
    whole, shares = method.fit(batch), torch.tensor([0.1, 0.5, 0.9], dtype=F64)
    assert isinstance(whole, Density)
    values = batch[:, 0, [1]]
    for i in range(2):
        alone = method.fit(batch[i])
        assert isinstance(alone, Density)
        x = batch[i, :5]
        for mine, own in (
            (whole.log_density(batch[:, :5])[i], alone.log_density(x)),
            (
                whole.marginal([2, 1]).score(batch[:, :5, [2, 1]])[i],
                alone.marginal([2, 1]).score(x[:, [2, 1]]),
            ),
            (
                whole.conditional([1], values).log_density(batch[:, :5, [0, 2]])[i],
                alone.conditional([1], values[i]).log_density(x[:, [0, 2]]),
            ),
            (whole.marginal([0]).quantile(shares.expand(2, 3))[i], alone.marginal([0]).quantile(shares)),
            (whole.marginal([0]).cdf(batch[:, :5, :1])[i], alone.marginal([0]).cdf(x[:, :1])),
        ):
            torch.testing.assert_close(mine, own, rtol=1e-7, atol=1e-7)
    assert whole.sample(7).shape == (2, 7, 3)


def test_conditional_log_density_of_many_rows_is_that_of_one_at_a_time() -> None:
    sample = gmm_sample(150, 3)
    density = as_density(FitRecipe(load_model("default"), [(-99.0, float("inf"))] + [FREE] * 2).fit(sample))
    found = density.conditional_log_density([2, 0], sample[:6])
    for row, value in zip(sample[:6], found, strict=True):
        one = density.conditional([2, 0], row[[2, 0]]).log_density(row[1].reshape(1, 1))
        torch.testing.assert_close(value, one[0], rtol=1e-8, atol=1e-8)
    assert isinstance(density.conditional_log_density([0], sample[:6].numpy()), np.ndarray)
    with pytest.raises(DataError, match="none is left"):
        density.conditional_log_density([0, 1, 2], sample)


@pytest.fixture
def blend() -> Blend:
    generator = torch.Generator().manual_seed(0)
    parts = [
        as_density(KDE().fit(torch.randn(40, 2, generator=generator, dtype=F64) + c)) for c in (0.0, 2.0)
    ]
    return Blend(tuple(parts), torch.tensor([0.3, 0.7], dtype=F64).log())


def test_score_is_the_gradient(blend: Blend) -> None:
    x = torch.randn(20, 2, dtype=F64).requires_grad_()
    log_density, score = blend.estimate(x)
    torch.testing.assert_close(torch.autograd.grad(log_density.sum(), x)[0], score)


def test_chain_rule_and_margins(blend: Blend) -> None:
    x = torch.randn(5, 2, dtype=F64)
    for point in x:
        first = blend.marginal([0]).log_density(point[None, :1])
        rest = blend.conditional([0], point[:1]).log_density(point[None, 1:])
        torch.testing.assert_close(first + rest, blend.log_density(point[None]))
    line = torch.linspace(-12, 14, 4001, dtype=F64)[:, None]
    plane = torch.cat([torch.full_like(line, 0.4), line], 1)
    integral = torch.trapezoid(blend.log_density(plane).exp(), line[:, 0])
    torch.testing.assert_close(
        integral.log(), blend.marginal([0]).log_density(torch.tensor([[0.4]], dtype=F64))[0]
    )


def test_distribution_function_and_quantiles(blend: Blend) -> None:
    one = blend.marginal([1])
    shares = torch.tensor([0.01, 0.5, 0.9], dtype=F64)
    torch.testing.assert_close(one.cdf(one.quantile(shares)), shares)
    draws = one.sample(20_000, torch.Generator().manual_seed(1))
    below = (draws <= one.quantile(shares).T).double().mean(0)
    torch.testing.assert_close(below, shares, rtol=0, atol=0.012)


def test_all_verbs_stay_in_the_type(blend: Blend) -> None:
    assert isinstance(blend.marginal([0]), Density) and isinstance(blend.conditional([0], [0.0]), Density)
    assert "weights 0.30, 0.70" in repr(blend)


def test_a_part_without_weight_is_not_asked() -> None:
    """Eagerly it is left out, and traced it counts for nothing: both answer as the other part."""
    one, zero = torch.ones(1, dtype=F64), torch.zeros(1, dtype=F64)
    part, silent = (StudentMixture(zero, c * one[:, None], one[:, None, None], 5 * one) for c in (1.0, 50.0))
    both = Blend((part, silent), torch.tensor([0.0, -torch.inf], dtype=F64))
    at = torch.tensor([[0.5], [49.0]], dtype=F64)
    torch.testing.assert_close(both.estimate(at), part.estimate(at))
    mapped = torch.func.vmap(lambda row: both.log_density(row.unsqueeze(0)).squeeze(0))(at)
    torch.testing.assert_close(mapped, part.log_density(at))
    torch.testing.assert_close(both.left_out(at), part.left_out(at))
    assert float(both.sample(500, torch.Generator().manual_seed(0)).max()) < 40


def test_what_is_unseen_is_taken_off_where_rows_are_left_out() -> None:
    x = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain = Blend((KDE(0.3).fit(x), KDE(0.6).fit(x)), torch.tensor([0.5, 0.5]).double().log())
    seen, left_out = plain.log_density(x), plain.left_out(x)
    torch.testing.assert_close(
        replace(plain, unseen=0.5).left_out(x), left_out - 0.5 * (1 + seen - left_out).log()
    )


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
