"""Pictures and pages: what people look at.  matplotlib is imported when something is drawn."""

from discoformer.views.attention import plot_attention
from discoformer.views.plots import plot, plot_corner, plot_density, plot_outliers
from discoformer.views.relaxation import plot_relaxation

__all__ = ["plot", "plot_attention", "plot_corner", "plot_density", "plot_outliers", "plot_relaxation"]
