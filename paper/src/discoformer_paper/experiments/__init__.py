"""Every table and figure of the paper, each from one command: `discoformer reproduce NAME`.

Each has a module with three functions, `run`, `summary` and `figure` (see
`discoformer_paper.harness.runner`), and with `KEYS` and `VALUES`, the columns of its CSV file, unless they
are the usual ones of score errors.  To add one, write the module and describe it in `catalogue.toml`: the
command, the page of results and the tests find it there.
"""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

from discoformer.core.checks import DataError
from discoformer_paper.harness.problems import ERRORS
from discoformer_paper.harness.problems import KEYS as ERROR_KEYS
from discoformer_paper.harness.runner import Experiment

__all__ = ["NAMES", "find"]

_CATALOGUE = tomllib.loads((Path(__file__).parent / "catalogue.toml").read_text(encoding="utf-8"))
NAMES = tuple(_CATALOGUE)


def find(name: str) -> Experiment:
    """The experiment with this name.

    >>> find("large_n").source
    'Table 2'
    """
    if name not in NAMES:
        raise DataError(f"no experiment {name!r}: choose one of {', '.join(NAMES)}")
    module = import_module(f"{__name__}.{name}")
    columns = getattr(module, "KEYS", ERROR_KEYS), getattr(module, "VALUES", ERRORS)
    return Experiment(name, *columns, module.run, module.summary, module.figure, **_CATALOGUE[name])
