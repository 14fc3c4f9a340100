"""Pictures of a relaxation."""

import matplotlib.pyplot as plt
import numpy as np
import torch

from discoformer import KDE
from discoformer.particles import Landau, integrate, landau_start, maxwell_covariance
from discoformer.views.relaxation import plot_relaxation


def test_figure_shows_reference_and_frames() -> None:
    start = landau_start("gaussian", 2).sample(30, torch.Generator().manual_seed(0))
    run = integrate(Landau(), start, KDE(), dt=0.1, steps=4, frames=[0.0, 0.2, 0.4])
    _, (left, right) = plt.subplots(1, 2)
    curves, *strip = plot_relaxation(run, maxwell_covariance(run.covariance[0], run.times), ax=right)
    assert not left.has_data()
    plt.close()
    assert len(curves.lines) == 4 and len(strip) == 3
    np.testing.assert_allclose(strip[1].collections[0].get_offsets(), run.frames[1])
    np.testing.assert_allclose(curves.lines[0].get_ydata(), run.covariance[:, 0, 0])
