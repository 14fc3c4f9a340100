"""Reasons, levels, summaries and error bars on the estimator."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from discoformer import DataError, DensityDetector, DiScoFormer, SupportWarning

RNG = np.random.default_rng(0)
COVARIANCE = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 4.0]])
SAMPLE = RNG.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, size=600)
FRAME = pd.DataFrame(SAMPLE, columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def est() -> DiScoFormer:
    return DiScoFormer().fit(FRAME)


def test_reasons_name_the_column_and_what_was_expected(est: DiScoFormer) -> None:
    rows = pd.DataFrame([[1.0, 2.0, 15.0], [0.0, 3.0, 3.0]], columns=["a", "b", "c"])
    reasons = est.explain(rows)
    assert reasons.columns[reasons.order[0, 0]] == "c"
    assert reasons.low[0, 2] < 3 < reasons.high[0, 2] < 15
    np.testing.assert_allclose(reasons.expected[1, :2], [1.9, 1.1], atol=0.35)  # each from the other
    assert reasons.pair[1].tolist() == [0, 1] and reasons.together[1] > 3
    assert any("c = 15" in line for line in reasons.describe(0))
    assert any("odd together" in line for line in reasons.describe(1))


def test_surprises_are_conditional_log_densities(est: DiScoFormer) -> None:
    rows = SAMPLE[:4] + 0.01  # not in the sample, which would be left out
    reasons = est.explain(pd.DataFrame(rows, columns=["a", "b", "c"]))
    for i, row in enumerate(rows):
        for j in range(3):
            rest = [k for k in range(3) if k != j]
            given = est.conditional(rest, row[rest])
            point = pd.DataFrame([[row[j]]], columns=[est._labels[j]])
            np.testing.assert_allclose(-given.log_density(point)[0], reasons.surprise[i, j], rtol=1e-6)
            np.testing.assert_allclose(given.quantile(0.5)[0], reasons.expected[i, j], rtol=1e-6)


def test_columns_without_a_density_have_no_reasons() -> None:
    with pytest.warns(SupportWarning):
        est = DiScoFormer().fit(np.c_[SAMPLE, SAMPLE.sum(1)])
    reasons = est.explain(np.c_[SAMPLE, SAMPLE.sum(1)][:2])
    assert np.isnan(reasons.excess[:, 3]).all() and (reasons.order[:, -1] == 3).all()


def test_levels_hold_their_share(est: DiScoFormer) -> None:
    level = est.level(est.sample(16_000, random_state=1), draws=16_384)
    assert stats.kstest(level, "uniform").statistic < 0.03
    assert est.level(FRAME[:1] + 100.0)[0] == 0.0


def test_p_values_are_valid_and_discoveries_rare(est: DiScoFormer) -> None:
    fresh = RNG.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, size=1000)
    fresh = pd.DataFrame(fresh, columns=["a", "b", "c"])
    assert abs((est.p_value(fresh) <= 0.1).mean() - 0.1) < 0.04
    exact = est.p_value(fresh[:500], calibration=fresh[500:])
    assert abs((exact <= 0.1).mean() - 0.1) < 0.05
    mixed = pd.concat([fresh[:180], fresh[180:200] + 30.0])
    found = est.discoveries(mixed, rate=0.1)
    assert found[180:].all() and found[:180].sum() <= 8
    detector = DensityDetector(contamination=0).fit(FRAME)
    assert detector.discoveries(mixed)[180:].all()


def test_summaries_of_a_normal_law(est: DiScoFormer) -> None:
    np.testing.assert_allclose(est.mean(), [1, 2, 3], atol=0.25)
    np.testing.assert_allclose(est.cov(), COVARIANCE, atol=0.5)
    np.testing.assert_allclose(est.mode(), [[1, 2, 3]], atol=0.5)
    np.testing.assert_allclose(est.cdf(est.quantile([0.1, 0.7], "c"), "c"), [0.1, 0.7], rtol=1e-9)
    low, high = est.interval(0.9, "c")
    assert abs(est.probability({"c": (low, high)}).value - 0.9) < 1e-9
    value, error = est.probability({"a": (None, 1.0), "b": (None, 2.0)})
    assert abs(value - (0.25 + np.arcsin(0.9) / (2 * np.pi))) < 0.04 and 0 < error < 0.01
    assert est.probability(lambda rows: rows[:, 2] > 3.0).value == pytest.approx(0.5, abs=0.05)


def test_regions_hold_their_share(est: DiScoFormer) -> None:
    [ends] = est.marginal("c").region(0.8).intervals
    assert est.probability({"c": ends}).value == pytest.approx(0.8, abs=0.01)
    region = est.region(0.5, ["a", "b"])
    rows = est.sample(4000, random_state=2)[["a", "b"]]
    assert (est.marginal(["a", "b"]).log_density(rows) >= region.log_density).mean() == pytest.approx(
        0.5, abs=0.03
    )


def test_error_bars_cover_and_shrink_with_n() -> None:
    widths = []
    for size in (200, 1600):
        x = np.random.default_rng(size).normal(size=(size, 1))
        y = np.linspace(-1.5, 1.5, 7)[:, None]
        answer = DiScoFormer().fit(x).estimate(y, std=True)
        off = np.abs(answer.log_density - stats.norm.logpdf(y[:, 0]))
        assert (off < 4 * answer.log_density_std).all() and (answer.score_std > 0).all()
        widths.append(answer.log_density_std.mean())
    assert widths[1] < 0.7 * widths[0]


def test_error_bars_come_from_the_head_or_from_refits() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2))
    est, y = DiScoFormer().fit(x), np.array([[0.0, 0.0], [1.0, -1.0]])
    head, refits = (est.estimate(y, std=source) for source in ("head", "bootstrap"))
    np.testing.assert_array_equal(est.estimate(y, std=True).score_std, head.score_std)
    assert not np.allclose(head.log_density_std, refits.log_density_std)
    assert (np.abs(np.log(head.log_density_std / refits.log_density_std)) < np.log(3)).all()
    kernel = DiScoFormer(model="kde-scott").fit(x)
    np.testing.assert_array_equal(
        kernel.estimate(y, std=True).score_std, kernel.estimate(y, std="bootstrap").score_std
    )
    for other in (kernel, DiScoFormer(axes=False).fit(x)):
        with pytest.raises(DataError, match="std='bootstrap'"):
            other.estimate(y, std="head")
    with pytest.raises(DataError, match="give True, 'head' or 'bootstrap'"):
        est.estimate(y, std="guess")


def test_levels_hold_for_fresh_rows_although_the_fit_is_sharp() -> None:
    """Few rows in many columns: draws of the fit are too close together, left-out rows are not."""
    inside, drawn = [], []
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(size=(2070, 6))
        est = DiScoFormer().fit(rows[:70])
        inside.append((est.level(rows[70:]) >= 0.1).mean())
        drawn.append((est.level(rows[70:], draws=4000) >= 0.1).mean())
    assert abs(np.mean(inside) - 0.9) < 0.03
    assert abs(np.mean(inside) - 0.9) < abs(np.mean(drawn) - 0.9)


def test_levels_of_the_sample_are_ranks_and_weights_count() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    own = DiScoFormer().fit(x)
    expected = stats.rankdata(own.loo_log_density_, method="min") - 1
    np.testing.assert_allclose(own.level(x), expected / 200)
    weights = np.arange(200.0)
    est = DiScoFormer().fit(x, sample_weight=weights)
    loo = est.loo_log_density_
    share = [weights[loo < value].sum() / weights.sum() for value in loo]
    np.testing.assert_allclose(est.level(x), share, atol=1e-9)


def test_error_bars_for_frames_tensors_and_columns_left_out(est: DiScoFormer) -> None:
    frame = est.estimate(FRAME[:3], std=True)
    assert list(frame.columns[4:]) == ["log_density_std", "score_a_std", "score_b_std", "score_c_std"]
    tensor = DiScoFormer().fit(torch.from_numpy(SAMPLE)).estimate(torch.from_numpy(SAMPLE[:3]), std=True)
    np.testing.assert_allclose(tensor.score_std.numpy(), frame.iloc[:, 5:], rtol=1e-6)
    with pytest.warns(SupportWarning):
        flat = DiScoFormer().fit(np.c_[SAMPLE, np.ones(600)])
    spread = flat.estimate(np.c_[SAMPLE[:3], np.ones(3)], std=True)
    np.testing.assert_allclose(spread.log_density_std, frame["log_density_std"], rtol=1e-6)
    assert (spread.score_std[:, 3] == 0).all()


def test_what_cannot_be_answered_says_so(est: DiScoFormer) -> None:
    with pytest.raises(DataError, match="between 0 and 1"):
        est.interval(1.5)
    with pytest.raises(DataError, match="between 0 and 1"):
        est.explain(FRAME[:1], interval=0)
    for part in (est.marginal("a"), est.conditional(["b", "c"], [1.0, 2.0])):
        for question in (
            lambda one: one.estimate(FRAME[["a"]], std=True),
            lambda one: one.p_value(FRAME[["a"]]),
        ):
            with pytest.raises(DataError, match="margin or conditional keeps none: fit to these columns"):
                question(part)
        with pytest.raises(AttributeError, match="margin or conditional keeps none"):
            part.loo_log_density_  # noqa: B018
    with pytest.raises(DataError, match="once for each"):
        est.probability(lambda rows: True)
    for draws in (0, -5, 2.5):
        with pytest.raises(DataError, match="a whole number above zero"):
            est.level(FRAME[:1], draws=draws)
    with pytest.raises(DataError, match="'a' from 1 to 0: give the lower end first"):
        est.probability({"a": (1, 0)})
    for row in (SAMPLE[0], FRAME.iloc[0]):
        with pytest.raises(DataError, match=r"Reshape your data: one row with x.reshape\(1, -1\)"):
            est.explain(row)


def test_a_discovery_that_cannot_be_made_is_told() -> None:
    rows = np.r_[SAMPLE[:200], [[9.0, -9.0, 30.0]]]
    small = DiScoFormer().fit(SAMPLE[:200])
    with pytest.warns(UserWarning, match="ask about fewer rows, or fit to more"):
        assert not small.discoveries(rows).any()
    assert small.discoveries(rows[-10:]).tolist() == [False] * 9 + [True]


def test_a_query_with_gaps_gets_the_density_of_what_is_there(est: DiScoFormer) -> None:
    """Also after a fit without gaps: margins are closed form."""
    rows = FRAME[:4].copy() + 0.01
    rows.iloc[0, 1] = rows.iloc[1, 0] = rows.iloc[1, 2] = np.nan
    rows.iloc[2] = np.nan
    found = est.estimate(rows)
    alone = [
        est.marginal(["a", "c"]).estimate(rows[["a", "c"]][:1]),
        est.marginal("b").estimate(rows[["b"]][1:2]),
    ]
    np.testing.assert_allclose(
        found["log_density"][:2], [float(part["log_density"].iloc[0]) for part in alone]
    )
    np.testing.assert_allclose(found.iloc[0, [1, 3]], alone[0].iloc[0, 1:])
    assert found["score_b"][0] == 0 and (found.iloc[2] == 0).all()
    np.testing.assert_allclose(found["log_density"][3], est.log_density(rows[3:])[3])
    wild = pd.DataFrame([[1.0, np.nan, 25.0], [1.0, np.nan, 3.0]], columns=["a", "b", "c"])
    reasons = est.explain(wild)
    assert reasons.columns[reasons.order[0, 0]] == "c" and np.isnan(reasons.excess[0, 1])
    np.testing.assert_allclose(reasons.expected[1, 1], 1.9, atol=0.35)
    level = est.level(wild)
    assert level[0] == 0 and level[1] > 0.3
    detector = DensityDetector(contamination=0.02).fit(FRAME)
    assert detector.predict(wild).tolist() == [-1, 1]
    with pytest.raises(DataError, match="NaN"):
        DiScoFormer(model="kde-scott").fit(SAMPLE).log_density(wild.to_numpy())


def test_numbers_are_told_in_digits_that_tell_them_apart() -> None:
    est = DiScoFormer(model="kde-scott").fit(np.c_[123456 + SAMPLE[:, 0], SAMPLE[:, 1]])
    line = est.explain(np.array([[123463.25, 2.0]])).describe(0)[0]
    assert line.startswith("x0 = 123463.25: 12345")


@pytest.fixture(scope="module")
def shop() -> tuple[pd.DataFrame, DiScoFormer]:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(3, 200),
            "spent": np.where(rng.random(200) < 0.3, 0, rng.gamma(2, 40, 200).round(2)),
            "kind": rng.choice(["a", "b"], 200),
            "since": pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 200, 200), "D"),
        }
    )
    return frame, DiScoFormer().fit(frame)


def test_probabilities_of_what_cells_say(shop: tuple[pd.DataFrame, DiScoFormer]) -> None:
    frame, est = shop
    day = pd.Timestamp("2025-03-01")
    for region, share in [
        ({"kind": "a"}, (frame["kind"] == "a").mean()),
        ({"kind": ("a", "a")}, (frame["kind"] == "a").mean()),
        ({"spent": 0}, (frame["spent"] == 0).mean()),
        ({"spent": (0, None)}, 1.0),
        ({"visits": (1, 3)}, frame["visits"].between(1, 3).mean()),
        ({"visits": 3}, (frame["visits"] == 3).mean()),
        ({"since": (day, None)}, (frame["since"] >= day).mean()),
        (
            {"since": ("2025-03-01", None), "kind": "a"},
            ((frame["since"] >= day) & (frame["kind"] == "a")).mean(),
        ),
    ]:
        assert est.probability(region).value == pytest.approx(share, abs=0.04), region
    days = est.probability({"since": est.interval(0.8, "since")}).value  # days are numbers in answers
    assert days == pytest.approx(0.8, abs=0.02)
    for region, message in [
        ({"kind": ("a", "b")}, "no order"),
        ({"kind": "c"}, "give one of 'a', 'b'"),
        ({"visits": "many"}, "is no number"),
        ({"visits": None}, "or a single value"),
    ]:
        with pytest.raises(DataError, match=message):
            est.probability(region)


def test_modes_and_regions_are_values_of_the_table(shop: tuple[pd.DataFrame, DiScoFormer]) -> None:
    frame, est = shop
    top = est.mode()
    assert list(top.columns) == list(frame.columns) and len(top) == 1
    assert (top.dtypes == frame.dtypes).all() and top["spent"].item() == 0
    assert top["kind"].item() in ("a", "b")
    assert np.isfinite(est.log_density(top)).all()
    assert est.region(0.9, "kind").values == sorted(["a", "b"], key=lambda kind: -est.shares("kind")[kind])
    assert est.region(0.9, "spent").values == [0.0]
    assert all(end == round(end) for ends in est.region(0.9, "visits").intervals for end in ends)
    assert est.region(0.5, ["spent", "visits"]).outlines and not est.region(0.5, ["spent", "kind"]).outlines


def test_masses_of_rows_add_up(shop: tuple[pd.DataFrame, DiScoFormer]) -> None:
    _, est = shop
    part = est.marginal(["visits", "kind"])
    every = pd.DataFrame(
        [(visits, kind) for visits in range(40) for kind in ("a", "b")], columns=["visits", "kind"]
    )
    mass = np.exp(part.log_mass(every))
    assert mass.name == "log_mass" and mass.sum() == pytest.approx(1, abs=0.01)
    drawn = part.probability({"visits": 3, "kind": "a"})
    assert mass[6] == pytest.approx(drawn.value, abs=4 * drawn.standard_error)
    plain = DiScoFormer(model="kde-scott").fit(SAMPLE)
    np.testing.assert_allclose(plain.log_mass(SAMPLE[:3]), plain.log_density(SAMPLE[:3]))


def test_names_that_answers_show_are_taken_back() -> None:
    est = DiScoFormer(model="kde-scott").fit(SAMPLE)
    np.testing.assert_array_equal(est.cdf(0.5, "x1"), est.cdf(0.5, 1))
    with pytest.raises(DataError, match="no column 'x3': the sample has 'x0', 'x1', 'x2'"):
        est.cdf(0.5, "x3")


def test_a_mean_does_not_depend_on_the_other_columns(est: DiScoFormer) -> None:
    np.testing.assert_allclose(est.marginal(["c", "a"]).mean(), est.mean()[[2, 0]], rtol=1e-9)


def test_no_conditional_log_density_given_what_is_outside_bounds() -> None:
    sample = np.random.default_rng(0).exponential(size=(50, 2))
    est = DiScoFormer(model="kde-scott", bounds=(0, None)).fit(sample)
    with pytest.raises(DataError, match="what is given at row 1 has no density: give values inside"):
        est.conditional_log_density([[1.0, 2.0], [1.0, -2.0]], [1])
    assert est.conditional_log_density([[-1.0, 2.0]], [1])[0] == -np.inf
