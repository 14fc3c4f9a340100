"""Posterior samples as other programs leave them: ArviZ, CmdStan, GetDist and CosmoMC.

What comes back is one table with its names and weights, ready for `DiScoFormer.fit`:

    chains = read_chains("chains/planck")
    est = DiScoFormer().fit(chains.values, sample_weight=chains.weights)
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discoformer.core.checks import DataError
from discoformer.core.extras import require

__all__ = ["Chains", "read_chains"]


class Chains(NamedTuple):
    """Draws of a posterior, all chains one below the other.

    Attributes
    ----------
    values : (n, d)
    names : of the d columns; parts of vectors as ``theta[0]``
    weights : (n,), or None where all draws count the same
    log_posterior : (n,), density of the parameters in ``names``, or None where it was not kept.  `evidence`
        needs it with the constants of likelihood and prior: whether the program kept them is for you to know
    derived : names of the columns that the file marks as functions of the parameters
    """

    values: NDArray[np.float64]
    names: list[str]
    weights: NDArray[np.float64] | None = None
    log_posterior: NDArray[np.float64] | None = None
    derived: tuple[str, ...] = ()

    def select(self, names: str | Sequence[str]) -> Chains:
        """Some of the columns, in the order given; ``theta`` are all parts of a vector.

        The log posterior stays that of all parameters.
        """
        columns: list[int] = []
        for name in [names] if isinstance(names, str) else names:
            parts = [j for j, own in enumerate(self.names) if own == name or own.startswith(f"{name}[")]
            if not parts:
                raise DataError(f"no parameter {name!r}: there are {', '.join(self.names[:20])}")
            columns += parts
        chosen = [self.names[j] for j in columns]
        return self._replace(values=self.values[:, columns], names=chosen)


def read_chains(source: Any, *, burn_in: float = 0.0, derived: bool = False) -> Chains:
    """Read posterior draws.

    The log posterior comes along from GetDist, CosmoMC and Cobaya, and where ArviZ holds it as
    ``sample_stats.log_posterior``.  The ``lp`` of PyMC, NumPyro and Stan does not: it is a density of other
    coordinates, without bounds, and Stan drops constants.

    Columns that GetDist marks as derived (a star) are left out: they follow from the others.  ArviZ and
    CmdStan do not mark them: name the parameters, ``chains.select(["mu", "theta"])``.

    Parameters
    ----------
    source : an ArviZ ``InferenceData`` (or anything with a group ``posterior``), a netCDF file of one, one or
        several CSV files of CmdStan, GetDist's ``MCSamples``, or the root of GetDist and CosmoMC chains
        (``chains/planck`` for ``planck_1.txt``, ``planck_2.txt`` and ``planck.paramnames``), or of Cobaya's
        (``planck.1.txt``)
    burn_in : share of every chain to leave out at its beginning, beyond the warm-up of Stan
    derived : whether derived columns come along

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "output.csv"
    ...     _ = file.write_text("# stan\\nlp__,stepsize__,mu,tau.1\\n-1.5,0.9,2.0,3.0\\n-2.5,0.9,1.0,4.0\\n")
    ...     chains = read_chains(file)
    >>> chains.names, chains.values.tolist()
    (['mu', 'tau[0]'], [[2.0, 3.0], [1.0, 4.0]])
    """
    chains = _read(source, burn_in)
    if derived or not chains.derived:
        return chains
    kept = [name for name in chains.names if name not in chains.derived]
    if not kept:
        raise DataError("every column is marked as derived: read them with derived=True")
    columns = [chains.names.index(name) for name in kept]
    return chains._replace(values=chains.values[:, columns], names=kept)


def _read(source: Any, burn_in: float) -> Chains:
    """All columns."""
    if not 0 <= burn_in < 1:
        raise DataError(f"burn_in={burn_in}: give a share of the draws, from 0 to below 1")
    if hasattr(source, "getParamNames") and hasattr(source, "samples"):
        return _from_getdist(source, burn_in)
    if not isinstance(source, str | Path | list | tuple):
        return _from_arviz(source, burn_in)
    parts = list(source) if isinstance(source, list | tuple) else [source]
    if not parts or not all(isinstance(part, str | Path) for part in parts):
        raise DataError("no files: give one path at least, and nothing else")
    paths = [Path(part) for part in parts]
    if paths[0].suffix == ".csv":
        return _joined((_read_stan(path) for path in paths), burn_in)
    if len(paths) > 1 and all(path.suffix == ".txt" for path in paths):
        return _joined(map(_read_getdist_file, paths), burn_in)
    if len(paths) > 1:
        raise DataError(f"{len(paths)} paths: several files are for csv and txt; give the root of the others")
    if paths[0].suffix == ".nc":
        require("arviz", "bayes", "reading netCDF")
        import arviz

        return _from_arviz(arviz.from_netcdf(paths[0]), burn_in)
    return _read_getdist(paths[0], burn_in)


def _from_arviz(data: Any, burn_in: float) -> Chains:
    posterior = getattr(data, "posterior", None)
    if posterior is None:
        raise DataError(f"{type(data).__name__} has no group `posterior`: give chains, or a path to them")
    columns: dict[str, NDArray[np.float64]] = {}
    for name, variable in posterior.data_vars.items():
        values = np.asarray(variable.transpose("chain", "draw", ...).values)
        if values.dtype.kind not in "biuf":
            raise DataError(f"{name} is not made of numbers: drop it from the posterior")
        later = values[:, int(burn_in * values.shape[1]) :].astype(np.float64)
        flat = later.reshape(later.shape[0] * later.shape[1], int(np.prod(values.shape[2:])))
        for index, column in zip(np.ndindex(values.shape[2:]), flat.T, strict=True):
            columns[f"{name}[{', '.join(map(str, index))}]" if index else str(name)] = column
    if not columns:
        raise DataError("the group `posterior` has no numbers: give chains with one parameter at least")
    # `lp` is not it: on the scale of the sampler, which has no bounds
    kept = getattr(data, "sample_stats", {}).get("log_posterior")
    log_posterior = None
    if kept is not None:
        values = np.asarray(kept.transpose("chain", "draw").values, dtype=np.float64)
        log_posterior = values[:, int(burn_in * values.shape[1]) :].reshape(-1)
    return Chains(np.column_stack(list(columns.values())), list(columns), None, log_posterior)


def _from_getdist(source: Any, burn_in: float) -> Chains:
    """All chains of an ``MCSamples``, one below the other as it keeps them."""
    listed = source.getParamNames().names
    names, derived = (
        [str(own.name) for own in listed],
        tuple(str(own.name) for own in listed if own.isDerived),
    )
    edges = getattr(source, "chain_offsets", None)
    edges = [0, len(source.samples)] if edges is None else [int(edge) for edge in edges]

    def rows(values: Any, start: int, end: int) -> Any:
        return None if values is None else np.asarray(values, dtype=np.float64)[start:end]

    parts = []
    for start, end in itertools.pairwise(edges):
        weights, minus = (rows(kept, start, end) for kept in (source.weights, source.loglikes))
        values = rows(source.samples, start, end)
        parts.append(Chains(values, names, weights, None if minus is None else -minus, derived))
    return _joined(parts, burn_in)


def _read_stan(path: Path) -> Chains:
    """One CSV file of CmdStan: comments, a header, and columns that end in ``__`` about the sampler."""
    lines = [line for line in _text(path).splitlines() if line.strip()]
    method = next((match[1] for line in lines if (match := re.match(r"# *method = (\w+)", line))), "sample")
    if method != "sample":
        raise DataError(f"{path} is of method={method}, no draws of the posterior: run method=sample")
    told = [k for k, line in enumerate(lines) if not line.startswith("#")]
    adapted = next((k for k, line in enumerate(lines) if line.startswith("# Adaptation terminated")), 0)
    rows = list(csv.reader(lines[k] for k in told[:1] + [k for k in told[1:] if k > adapted]))
    if len(rows) < 2:
        raise DataError(f"{path} holds no draws: a header and a line for each are expected")
    header = rows[0]
    short = next((k for k, row in enumerate(rows) if len(row) != len(header)), None)
    if short is not None:
        raise DataError(
            f"{path} is not a file of CmdStan, or cut off: draw {short} has {len(rows[short])} values, "
            f"the header {len(header)}"
        )
    try:
        table = np.array(rows[1:], dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{path} is not a file of CmdStan: {error}") from None
    keep = [j for j, name in enumerate(header) if not name.endswith("__")]
    return Chains(table[:, keep], [_stan_name(header[j]) for j in keep])


def _stan_name(name: str) -> str:
    """``theta.1.2`` as ``theta[0, 1]``, as ArviZ writes it."""
    base, *parts = name.split(".")
    if not parts or not all(part.isdigit() for part in parts):
        return name
    return f"{base}[{', '.join(str(int(part) - 1) for part in parts)}]"


def _read_getdist(root: Path, burn_in: float) -> Chains:
    """Text files of weight, minus log posterior and parameters; names in a file beside them."""
    beside = [path.name for path in root.parent.iterdir()] if root.parent.is_dir() else []
    single = root if root.suffix == ".txt" else root.with_name(root.name + ".txt")
    files = [single] if single.is_file() else []
    for between in (".", "_"):  # Cobaya's way, CosmoMC's way
        found = [re.fullmatch(rf"{re.escape(root.name + between)}(\d+)\.txt", name) for name in beside]
        order = sorted((int(match[1]), match[0]) for match in found if match)
        files = [root.with_name(name) for _, name in order] or files
    if not files:
        raise DataError(f"no chains at {root}: expected {root.name}_1.txt, {root.name}.txt or a csv file")
    return _joined(map(_read_getdist_file, files), burn_in)


def _getdist_names(path: Path, first: str) -> list[str] | None:
    """Names of the parameters: beside a chain, maybe for all numbered chains, or in its ``first`` line.

    Derived ones have a star.
    """
    stem = path.name.removesuffix(".txt")
    for name in (stem, re.sub(r"[_.]\d+$", "", stem)):
        listing = path.with_name(name + ".paramnames")
        if listing.is_file():
            lines = [line.split() for line in _text(listing).splitlines()]
            return [line[0] for line in lines if line]
    header = first.removeprefix("#").split()
    if not first.startswith("#") or header[:2] != ["weight", "minuslogpost"]:
        return None
    # Cobaya keeps the parts of the log posterior beside the parameters
    return [f"{name}*" if re.match(r"(minuslogprior|chi2)(_|$)", name) else name for name in header[2:]]


def _read_getdist_file(path: Path) -> Chains:
    lines = _text(path).splitlines()
    if not any(line.split("#")[0].strip() for line in lines):
        raise DataError(f"{path} holds no draws")
    try:
        table = np.loadtxt(lines, ndmin=2)
    except ValueError as error:
        raise DataError(f"{path} is not a table of numbers: {error}") from None
    columns, listed = table.shape[1] - 2, _getdist_names(path, lines[0])
    if columns < 1 or (listed is not None and len(listed) != columns):
        told = "no parameter" if listed is None else f"{len(listed)} names"
        raise DataError(
            f"{path} has {table.shape[1]} columns, weight and -log posterior first: {told} for them"
        )
    listed = listed or [f"param{j + 1}" for j in range(columns)]
    names, derived = [name.rstrip("*") for name in listed], [name[:-1] for name in listed if name[-1] == "*"]
    return Chains(table[:, 2:], names, table[:, 0], -table[:, 1], tuple(derived))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}") from None


def _joined(parts: Iterable[Chains], burn_in: float) -> Chains:
    chains = [_later(part, burn_in) for part in parts]
    if any(chain.names != chains[0].names for chain in chains):
        raise DataError("the chains have different parameters: give those of one model")

    def join(name: str) -> Any:
        columns = [getattr(chain, name) for chain in chains]
        return None if any(column is None for column in columns) else np.concatenate(columns)

    return chains[0]._replace(**{name: join(name) for name in ("values", "weights", "log_posterior")})


def _later(chain: Chains, burn_in: float) -> Chains:
    start = int(burn_in * len(chain.values))
    weights, log_posterior = (part if part is None else part[start:] for part in chain[2:4])
    return chain._replace(values=chain.values[start:], weights=weights, log_posterior=log_posterior)
