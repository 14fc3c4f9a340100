"""A column with atoms that follows from another: left out as a whole, and every verb goes on without it."""

import numpy as np
import pandas as pd
import pytest

from discoformer import DensityDetector, DiScoFormer

RNG = np.random.default_rng(0)
NET = np.where(RNG.random(300) < 0.2, 0.0, RNG.lognormal(4, 1, 300))
TABLE = pd.DataFrame({"net": NET, "gross": 1.19 * NET, "x": RNG.normal(size=300)})

pytestmark = pytest.mark.filterwarnings("ignore::discoformer.SupportWarning")


def test_every_verb_answers_as_without_the_column() -> None:
    fit, rest = DiScoFormer().fit(TABLE), DiScoFormer().fit(TABLE[["net", "x"]])
    assert fit.support_.tolist() == [True, False, True]
    rows, own = TABLE.head(3), TABLE[["net", "x"]].head(3)
    for verb in ("log_density", "level", "p_value", "discoveries"):
        np.testing.assert_allclose(getattr(fit, verb)(rows), getattr(rest, verb)(own))
    np.testing.assert_allclose(fit.explain(rows).excess[:, [0, 2]], rest.explain(own).excess)
    assert fit.entropy() == rest.entropy()
    mean, covariance = np.asarray(fit.mean()), np.asarray(fit.cov())
    assert mean[1] == pytest.approx(1.19 * mean[0], rel=0.02)
    assert covariance[0, 1] == pytest.approx(1.19 * covariance[0, 0], rel=0.05)
    assert np.isfinite(np.asarray(fit.conditional("net", 0.0).mean())).all()
    assert np.isfinite(DensityDetector().fit(TABLE).sample_scores_).all()


def test_draws_keep_the_relation_also_at_the_atom() -> None:
    drawn = DiScoFormer().fit(TABLE).sample(500, random_state=0)
    np.testing.assert_allclose(drawn["gross"], 1.19 * drawn["net"], atol=1e-9)
    assert (drawn["net"] == 0).mean() == pytest.approx(0.2, abs=0.06)


def test_where_only_the_numbers_follow_the_column_has_no_support_either() -> None:
    table = TABLE.assign(gross=np.where(NET == 0, 5.0, TABLE["gross"]))
    fit = DiScoFormer().fit(table)
    assert fit.support_.tolist() == [True, False, True]
    assert np.isfinite(np.asarray(fit.mean())).all() and np.isfinite(fit.level(table.head(3))).all()
