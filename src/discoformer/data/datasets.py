"""Data sets to compare methods on: real ones that ship with scikit-learn, and mixtures with a known truth.

=================  ====  ==  ==========================================================================
``iris``            150   4  all columns (cm, rounded to 0.1: many ties)
``wine``            178  13  all columns (integers among them: magnesium, proline)
``diabetes``        442   6  age, bmi, bp, s1, s2, s3, in the standardized units of scikit-learn; ``sex``,
                             the second column of the file, has two values and no density
``breast_cancer``   569  10  the ten columns called "mean ..."
``digits``         1797   8  the first eight principal components of the 64 pixels (all rows, not whitened)
=================  ====  ==  ==========================================================================

Values are as scikit-learn returns them: nothing is scaled, rounded or jittered, and ties stay.
``gmm:d,n,k`` draws n points from a random mixture of k Gaussians with rotated covariances in d columns
(`GMMPrior`: means uniform in [-3, 3]^d, standard deviations uniform in [0.2, 1], equal weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discoformer.core.checks import DataError
from discoformer.data.files import Table

__all__ = ["REAL", "real_dataset"]

REAL = ("iris", "wine", "diabetes", "breast_cancer", "digits")
_DIABETES = ("age", "bmi", "bp", "s1", "s2", "s3")


def real_dataset(name: str) -> Table:
    """A real data set of `REAL` as a table (n, d).

    >>> table = real_dataset("diabetes")
    >>> table.values.shape, table.names
    ((442, 6), ('age', 'bmi', 'bp', 's1', 's2', 's3'))
    """
    if name not in REAL:
        raise DataError(f"no data set {name!r}: choose {', '.join(REAL)}")
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")()
    values = np.asarray(bunch.data, dtype=np.float64)
    if name == "digits":
        return _principal_components(values, 8)
    names = [str(column) for column in bunch.feature_names]
    if name == "diabetes":
        kept: Sequence[str] = _DIABETES
    elif name == "breast_cancer":
        kept = [column for column in names if column.startswith("mean ")]
    else:
        kept = names
    return Table(values[:, [names.index(column) for column in kept]], tuple(kept))


def _principal_components(values: np.ndarray[Any, np.dtype[np.float64]], count: int) -> Table:
    from sklearn.decomposition import PCA

    scores = PCA(count, svd_solver="full").fit_transform(values)
    return Table(scores, tuple(f"pc{j}" for j in range(1, count + 1)))
