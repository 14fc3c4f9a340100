"""Pictures and pages for people to look at.  matplotlib is imported only when something is drawn."""

from discoformer.views.attention import plot_attention
from discoformer.views.expected import plot_expected
from discoformer.views.plots import plot, plot_corner, plot_density, plot_levels, plot_outliers
from discoformer.views.relaxation import plot_relaxation
from discoformer.views.style import STYLE

__all__ = [
    "STYLE",
    "plot",
    "plot_attention",
    "plot_corner",
    "plot_density",
    "plot_expected",
    "plot_levels",
    "plot_outliers",
    "plot_relaxation",
]
