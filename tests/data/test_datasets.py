"""Real and made-up tables."""

import numpy as np
from sklearn import datasets

from discoformer.data.datasets import REAL, real_dataset


def test_real_data_is_what_scikit_learn_ships() -> None:
    shapes = {name: real_dataset(name).values.shape for name in REAL}
    assert shapes == {
        "iris": (150, 4),
        "wine": (178, 13),
        "diabetes": (442, 6),
        "breast_cancer": (569, 10),
        "digits": (1797, 8),
    }
    np.testing.assert_array_equal(real_dataset("iris").values, datasets.load_iris().data)
    np.testing.assert_array_equal(
        real_dataset("breast_cancer").values, datasets.load_breast_cancer().data[:, :10]
    )
    components = real_dataset("digits").values
    covariance = np.cov(components.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert (np.diff(np.diag(covariance)) < 0).all()
    assert all(len(real_dataset(name).names) == shape[1] for name, shape in shapes.items())
