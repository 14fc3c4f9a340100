"""Chains of other programs: what they wrote is what is read."""

from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from discoformer import DiScoFormer
from discoformer.adapters import Chains, read_chains
from discoformer.core.checks import DataError

STAN = """\
# stan_version_major = 2
lp__,accept_stat__,mu,theta.1,theta.2
# Adaptation terminated
-3.5,0.9,1.0,2.0,3.0
-2.5,0.8,1.5,2.5,3.5
# Elapsed Time
"""


class _Variable(NamedTuple):
    """One of ArviZ, without ArviZ."""

    values: np.ndarray

    def transpose(self, *_: object) -> "_Variable":
        return self


def _posterior(**variables: _Variable) -> SimpleNamespace:
    return SimpleNamespace(data_vars=variables)


def _rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3))


def test_inference_data_and_its_file(tmp_path: Path) -> None:
    arviz = pytest.importorskip("arviz")
    values, lp = _rows(60).reshape(2, 10, 3, 3), _rows(20).reshape(2, 10, 3)[..., 0]
    posterior = {"mu": values[..., 0, 0], "beta": values, "none": np.zeros((2, 10, 0))}
    data = arviz.from_dict(posterior=posterior, sample_stats={"log_posterior": lp})
    chains = read_chains(data)
    assert chains.names[:3] == ["mu", "beta[0, 0]", "beta[0, 1]"]
    np.testing.assert_array_equal(chains.values[:, 1:], values.reshape(20, 9))
    np.testing.assert_array_equal(chains.log_posterior, lp.reshape(-1))
    later = read_chains(data, burn_in=0.5)
    np.testing.assert_array_equal(later.values[:, 0], values[:, 5:, 0, 0].reshape(-1))
    data.to_netcdf(str(tmp_path / "run.nc"))
    np.testing.assert_array_equal(read_chains(tmp_path / "run.nc").values, chains.values)


def test_files_of_cmdstan(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"out_{number}.csv").write_text(STAN)
    chains = read_chains([tmp_path / "out_1.csv", tmp_path / "out_2.csv"], burn_in=0.5)
    assert chains.names == ["mu", "theta[0]", "theta[1]"]
    assert chains.values.tolist() == [[1.5, 2.5, 3.5]] * 2
    assert chains.log_posterior is None  # lp__ is of the unconstrained scale
    assert chains.select(["theta[1]", "mu"]).values[0].tolist() == [3.5, 1.5]
    assert chains.select("theta").names == ["theta[0]", "theta[1]"]


def test_the_log_density_of_the_sampler_is_not_that_of_the_columns() -> None:
    draws, lp = (_Variable(column[None]) for column in _rows(10).T[:2])
    for name, kept in (("lp", False), ("lp__", False), ("log_posterior", True)):
        data = SimpleNamespace(posterior=_posterior(x=draws), sample_stats={name: lp})
        assert (read_chains(data).log_posterior is not None) == kept
    with pytest.raises(DataError, match="has no numbers"):
        read_chains(SimpleNamespace(posterior=_posterior()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the library
def test_no_log_posterior_of_pymc() -> None:
    pymc = pytest.importorskip("pymc")
    with pymc.Model():
        pymc.Gamma("s", 5, 1)
        trace = pymc.sample(50, tune=50, chains=1, cores=1, progressbar=False)
    chains = read_chains(trace)
    assert chains.names == ["s"] and chains.log_posterior is None


def test_warm_up_of_cmdstan_is_left_out(tmp_path: Path) -> None:
    head, rest = STAN.split("# Adaptation terminated\n")
    (tmp_path / "warm.csv").write_text(f"{head}-9,0.1,7,7,7\n-8,0.1,8,8,8\n# Adaptation terminated\n{rest}")
    (tmp_path / "plain.csv").write_text(STAN)
    for burn_in in (0.0, 0.5):
        warm, plain = (read_chains(tmp_path / f"{name}.csv", burn_in=burn_in) for name in ("warm", "plain"))
        np.testing.assert_array_equal(warm.values, plain.values)


@pytest.mark.parametrize("method", ["variational", "optimize", "pathfinder"])
def test_what_is_no_sampling_of_cmdstan_is_refused(tmp_path: Path, method: str) -> None:
    (tmp_path / "a.csv").write_text(f"# model = m\n# method = {method}\n#   {method}\nlp__,mu\n0,1\n0,2\n")
    with pytest.raises(DataError, match=f"method={method}, no draws of the posterior"):
        read_chains(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("# method = sample (Default)\nlp__,mu\n0,1\n0,2\n")
    assert len(read_chains(tmp_path / "a.csv").values) == 2


def test_files_of_cobaya(tmp_path: Path) -> None:
    header = "#  weight  minuslogpost  omega  n_s  minuslogprior  minuslogprior__0  chi2  chi2__H0\n"
    for number in (2, 1):
        (tmp_path / f"run.{number}.txt").write_text(f"{header} {number} 1.5 0.3 0.96 1 1 1 1\n")
    chains = read_chains(tmp_path / "run")
    assert chains.names == ["omega", "n_s"]
    assert chains.derived == ("minuslogprior", "minuslogprior__0", "chi2", "chi2__H0")
    assert chains.weights is not None and chains.log_posterior is not None
    assert (chains.weights.tolist(), chains.log_posterior.tolist()) == ([1, 2], [-1.5, -1.5])
    assert read_chains(tmp_path / "run.1.txt").names == ["omega", "n_s"]


def test_chains_as_getdist_writes_and_reads_them(tmp_path: Path) -> None:
    getdist = pytest.importorskip("getdist")
    rows, weights = _rows(50), np.random.default_rng(1).integers(1, 5, 50).astype(float)
    samples = getdist.MCSamples(
        samples=rows, weights=weights, loglikes=rows[:, 0] ** 2, names=["a", "b", "c*"], labels=list("abc")
    )
    samples.saveAsText(str(tmp_path / "run"), make_dirs=True)
    assert read_chains(tmp_path / "run").names == ["a", "b"]
    chains = read_chains(tmp_path / "run", derived=True)
    own = getdist.loadMCSamples(str(tmp_path / "run"), settings={"ignore_rows": 0})
    assert chains.names == [name.name for name in own.paramNames.names]
    assert chains.derived == read_chains(own).derived == ("c",)
    np.testing.assert_allclose(chains.values, own.samples[:, :3], rtol=1e-6)
    np.testing.assert_allclose(chains.weights, own.weights, rtol=1e-6)
    np.testing.assert_allclose(chains.log_posterior, -(rows[:, 0] ** 2), rtol=1e-5)


def test_several_files_of_cosmomc_and_what_the_estimator_makes_of_them(tmp_path: Path) -> None:
    rows = _rows(40)
    for number, part in enumerate(np.split(rows, 2), 1):
        weight = np.full(20, 2.0 if number == 1 else 1.0)
        np.savetxt(tmp_path / f"planck_{number}.txt", np.column_stack([weight, part[:, 0] ** 2, part]))
    (tmp_path / "planck.paramnames").write_text("omega \\Omega\nh h\nsigma8* \\sigma_8\n")
    assert read_chains(tmp_path / "planck").names == ["omega", "h"]
    chains = read_chains(tmp_path / "planck", derived=True)
    assert chains.names == ["omega", "h", "sigma8"] and chains.derived == ("sigma8",)
    assert chains.weights is not None
    repeated = np.repeat(rows, chains.weights.astype(int), axis=0)
    weighted = DiScoFormer(model="kde-scott").fit(chains.values, sample_weight=chains.weights)
    assert weighted.score_samples(rows[:3]).shape == (3,)
    np.testing.assert_allclose(
        np.average(chains.values, axis=0, weights=chains.weights), repeated.mean(0), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none.csv", "no such file"),
        (lambda folder: folder / "none", "no chains at"),
        (lambda folder: object(), "no group `posterior`"),
        (lambda folder: folder / "nowhere" / "planck", "no chains at"),
        (lambda folder: [folder / "a_1.txt", folder / "a_2.txt"], "no such file"),
        (lambda folder: [], "give one path"),
        (lambda folder: [folder / "a.csv", 3], "give one path"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, make: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_chains(make(tmp_path))  # type: ignore[operator]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("lp__,x\n1,2,3\n4,5\n")
    (tmp_path / "b.csv").write_text("# nothing\n")
    (tmp_path / "c_1.txt").write_text("1 2 3\n")
    (tmp_path / "c.paramnames").write_text("a\nb\n")
    for source, message in (("a.csv", "not a file of CmdStan"), ("b.csv", "no draws"), ("c", "2 names")):
        with pytest.raises(DataError, match=message):
            read_chains(tmp_path / source)
    with pytest.raises(DataError, match="burn_in"):
        read_chains(tmp_path / "c", burn_in=1.0)
    with pytest.raises(DataError, match="no parameter 'q'"):
        Chains(np.zeros((2, 1)), ["p"]).select(["q"])


def test_mcsamples_in_memory() -> None:
    getdist = pytest.importorskip("getdist")
    rng = np.random.default_rng(2)
    parts = [rng.normal(size=(rows, 2)) for rows in (30, 50)]
    weights = [rng.integers(1, 5, size=len(part)).astype(float) for part in parts]
    minus = [0.5 * np.square(part).sum(-1) for part in parts]
    samples = getdist.MCSamples(samples=parts, weights=weights, loglikes=minus, names=["a", "b"])
    chains = read_chains(samples, burn_in=0.5)
    assert chains.names == ["a", "b"]
    np.testing.assert_allclose(chains.values, np.concatenate([parts[0][15:], parts[1][25:]]))
    np.testing.assert_allclose(chains.weights, np.concatenate([weights[0][15:], weights[1][25:]]))
    np.testing.assert_allclose(chains.log_posterior, -np.concatenate([minus[0][15:], minus[1][25:]]))


def test_several_files_are_joined_in_their_order_and_no_other_run_is_taken(tmp_path: Path) -> None:
    for number, value in ((1, 1.0), (2, 2.0), (10, 3.0)):
        (tmp_path / f"b_{number}.txt").write_text(f"1 0.5 {value}\n")
    (tmp_path / "b_2_1.txt").write_text("1 0.5 9\n")  # another run, whose root is b_2
    (tmp_path / "b.paramnames").write_text("mass\n")
    assert read_chains(tmp_path / "b").values.ravel().tolist() == [1.0, 2.0, 3.0]
    both = read_chains([tmp_path / "b_1.txt", tmp_path / "b_10.txt"])
    assert both.values.ravel().tolist() == [1.0, 3.0] and both.names == ["mass"]
    with pytest.raises(DataError, match="several files are for csv and txt"):
        read_chains([tmp_path / "a.nc", tmp_path / "b.nc"])


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b"lp__,mu\n-1,2\n-1\n", "or cut off: draw 2 has 1 values, the header 2"),
        ("a.csv", b"\xff\xfe\x00lp__,mu\n", "cannot be read as text"),
        ("a.txt", b"\xff\xfe\x00", "cannot be read as text"),
        ("a.txt", b"# nothing\n", "holds no draws"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_chains(tmp_path / name)


def test_a_single_parameter_is_named_as_it_is() -> None:
    chains = Chains(np.array([[1.0, 2.0]]), ["mu", "m"])
    assert chains.select("mu").values.tolist() == [[1.0]]
