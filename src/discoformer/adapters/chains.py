"""Posterior samples as other programs leave them: ArviZ, CmdStan, GetDist and CosmoMC.

What comes back is one table with its names, weights and log posterior, ready for `DiScoFormer.fit`:

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
    names : of the d parameters; parts of vectors as ``theta[0]``
    weights : (n,), or None where all draws count the same
    log_posterior : (n,) up to a constant, or None where it was not kept
    """

    values: NDArray[np.float64]
    names: list[str]
    weights: NDArray[np.float64] | None = None
    log_posterior: NDArray[np.float64] | None = None

    def select(self, names: str | Sequence[str]) -> Chains:
        """Some of the parameters, in the order given, or a single one."""
        names = [names] if isinstance(names, str) else list(names)
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise DataError(f"no parameter {unknown[0]!r}: there are {', '.join(self.names[:20])}")
        columns = [self.names.index(name) for name in names]
        return self._replace(values=self.values[:, columns], names=names)


def read_chains(source: Any, *, burn_in: float = 0.0) -> Chains:
    """Read posterior draws.

    Parameters
    ----------
    source : an ArviZ ``InferenceData`` (or anything with a group ``posterior``), a netCDF file of one, one or
        several CSV files of CmdStan, GetDist's ``MCSamples``, or the root of GetDist and CosmoMC chains
        (``chains/planck`` for ``planck_1.txt``, ``planck_2.txt`` and ``planck.paramnames``)
    burn_in : share of every chain to leave out at its beginning

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "output.csv"
    ...     _ = file.write_text("# stan\\nlp__,stepsize__,mu,tau.1\\n-1.5,0.9,2.0,3.0\\n-2.5,0.9,1.0,4.0\\n")
    ...     chains = read_chains(file)
    >>> chains.names, chains.values.tolist(), chains.log_posterior.tolist()
    (['mu', 'tau[0]'], [[2.0, 3.0], [1.0, 4.0]], [-1.5, -2.5])
    """
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
        return _joined((_read_getdist_file(path, _getdist_names(path)) for path in paths), burn_in)
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
        start = int(burn_in * values.shape[1])
        flat = values[:, start:].astype(np.float64).reshape(-1, int(np.prod(values.shape[2:])))
        for index, column in zip(np.ndindex(values.shape[2:]), flat.T, strict=True):
            columns[f"{name}[{', '.join(map(str, index))}]" if index else str(name)] = column
    stats = getattr(data, "sample_stats", {})
    kept = next((stats[key] for key in ("lp", "lp__", "log_posterior") if key in stats), None)
    log_posterior = None
    if kept is not None:
        lp = np.asarray(kept.transpose("chain", "draw").values, dtype=np.float64)
        log_posterior = lp[:, int(burn_in * lp.shape[1]) :].reshape(-1)
    return Chains(np.column_stack(list(columns.values())), list(columns), None, log_posterior)


def _from_getdist(source: Any, burn_in: float) -> Chains:
    """All chains of an ``MCSamples``, one below the other as it keeps them."""
    names = [str(name) for name in source.getParamNames().list()]
    edges = getattr(source, "chain_offsets", None)
    edges = [0, len(source.samples)] if edges is None else [int(edge) for edge in edges]

    def rows(values: Any, start: int, end: int) -> Any:
        return None if values is None else np.asarray(values, dtype=np.float64)[start:end]

    parts = []
    for start, end in itertools.pairwise(edges):
        weights, minus = (rows(kept, start, end) for kept in (source.weights, source.loglikes))
        values = rows(source.samples, start, end)
        parts.append(Chains(values, names, weights, None if minus is None else -minus))
    return _joined(parts, burn_in)


def _read_stan(path: Path) -> Chains:
    """One CSV file of CmdStan: comments, a header, and columns that end in ``__`` about the sampler."""
    lines = (line for line in _text(path).splitlines() if line.strip() and not line.startswith("#"))
    rows = list(csv.reader(lines))
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
    lp = table[:, header.index("lp__")] if "lp__" in header else None
    return Chains(table[:, keep], [_stan_name(header[j]) for j in keep], None, lp)


def _stan_name(name: str) -> str:
    """``theta.1.2`` as ``theta[0, 1]``, as ArviZ writes it."""
    base, *parts = name.split(".")
    if not parts or not all(part.isdigit() for part in parts):
        return name
    return f"{base}[{', '.join(str(int(part) - 1) for part in parts)}]"


def _read_getdist(root: Path, burn_in: float) -> Chains:
    """Text files of weight, minus log posterior and parameters; names in a file beside them."""
    beside = root.parent.iterdir() if root.parent.is_dir() else ()
    found = (re.fullmatch(rf"{re.escape(root.name)}_(\d+)\.txt", path.name) for path in beside)
    order = sorted((int(match[1]), match[0]) for match in found if match)
    single = root if root.suffix == ".txt" else root.with_name(root.name + ".txt")
    files = [root.with_name(name) for _, name in order] or ([single] if single.is_file() else [])
    if not files:
        raise DataError(f"no chains at {root}: expected {root.name}_1.txt, {root.name}.txt or a csv file")
    return _joined((_read_getdist_file(path, _getdist_names(path)) for path in files), burn_in)


def _getdist_names(path: Path) -> list[str] | None:
    """Names of the parameters, in a file beside that of a chain; it may be for all numbered chains."""
    stem = path.name.removesuffix(".txt")
    for name in (stem, re.sub(r"_\d+$", "", stem)):
        listing = path.with_name(name + ".paramnames")
        if listing.is_file():  # derived parameters are marked by a star
            lines = [line.split() for line in _text(listing).splitlines()]
            return [line[0].rstrip("*") for line in lines if line]
    return None


def _read_getdist_file(path: Path, names: list[str] | None) -> Chains:
    lines = _text(path).splitlines()
    if not any(line.split("#")[0].strip() for line in lines):
        raise DataError(f"{path} holds no draws")
    try:
        table = np.loadtxt(lines, ndmin=2)
    except ValueError as error:
        raise DataError(f"{path} is not a table of numbers: {error}") from None
    columns = table.shape[1] - 2
    if columns < 1 or (names is not None and len(names) != columns):
        told = "no parameter" if names is None else f"{len(names)} names"
        raise DataError(
            f"{path} has {table.shape[1]} columns, weight and -log posterior first: {told} for them"
        )
    own = names or [f"param{j + 1}" for j in range(columns)]
    return Chains(table[:, 2:], own, table[:, 0], -table[:, 1])


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

    return Chains(join("values"), chains[0].names, join("weights"), join("log_posterior"))


def _later(chain: Chains, burn_in: float) -> Chains:
    start = int(burn_in * len(chain.values))
    weights, log_posterior = (part if part is None else part[start:] for part in chain[2:])
    return Chains(chain.values[start:], chain.names, weights, log_posterior)
