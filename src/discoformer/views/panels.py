"""Where pictures are drawn: on a figure of their own, or on axes of the caller; and picture files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.views.style import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panels", "check_picture", "drawing", "figure_of"]

_SUFFIXES = (".png", ".pdf", ".svg")


class Panels:
    """Makes the panels of one picture.

    Parameters
    ----------
    ax : where to draw, None for a new figure; a picture of several panels fills the place of ``ax``
    shown : whether a new figure belongs to pyplot, so that notebooks and `plt.show` see it.  A picture that
        only goes to a file touches neither windows nor global state

    Examples
    --------
    >>> Panels(None, shown=False).grid((4, 3), 2, 2).shape
    (2, 2)
    """

    def __init__(self, ax: Axes | None, *, shown: bool) -> None:
        self.ax = ax
        self.shown = shown
        self._made: Figure | None = None

    @property
    def figure(self) -> Figure:
        """The whole figure that the panels are on."""
        figure = self._made if self.ax is None else figure_of(self.ax)
        assert figure is not None, "no panel has been made"
        return figure

    def one(self, size: tuple[float, float]) -> Axes:
        """A single panel; ``size`` is that of a new figure, in inches."""
        axes: Axes = self.grid(size, 1, 1)[0, 0]
        return axes

    def grid(
        self,
        size: tuple[float, float],
        rows: int,
        columns: int,
        *,
        sharex: Any = False,
        sharey: Any = False,
        **ratios: Any,
    ) -> NDArray[np.object_]:
        """Panels (rows, columns); ``ratios`` are matplotlib's ``height_ratios`` and ``width_ratios``."""
        if self.ax is None:
            self._made = self._new_figure(size)
            return self._made.subplots(
                rows, columns, sharex=sharex, sharey=sharey, squeeze=False, gridspec_kw=ratios
            )
        if rows == columns == 1:
            return np.array([[self.ax]])
        place = self.ax.get_subplotspec()
        if place is None:
            raise DataError(
                "ax has no place in a grid, and this picture has several panels: use plt.subplots"
            )
        self.ax.set_axis_off()
        return place.subgridspec(rows, columns, **ratios).subplots(
            sharex=sharex, sharey=sharey, squeeze=False
        )

    def _new_figure(self, size: tuple[float, float]) -> Figure:
        if self.shown:
            from matplotlib import pyplot

            return pyplot.figure(figsize=size, layout="constrained")
        from matplotlib.figure import Figure

        return Figure(figsize=size, layout="constrained")


def figure_of(axes: Axes) -> Figure:
    """The whole figure that some axes are on, even if they are on a subfigure.

    >>> panel = Panels(None, shown=False).one((4, 3))
    >>> figure_of(panel) is panel.figure
    True
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def check_picture(path: str | Path) -> str:
    """Format of a picture that can be written to ``path``; call it before the work, not after.

    >>> check_picture("density.png")
    'png'
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise DataError(f"{path}: pictures end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}")
    require("matplotlib", "plot", "drawing")
    check_folder(path)
    return suffix[1:]


@contextmanager
def drawing(ax: Axes | None, path: str | Path | None) -> Iterator[Panels]:
    """Panels in the look of all pictures; at the end they are written to ``path``, if there is one.

    An existing picture is replaced whole or not at all.
    """
    require("matplotlib", "plot", "drawing")
    from matplotlib import rc_context

    picture = None if path is None else check_picture(path)
    panels = Panels(ax, shown=path is None)
    with rc_context(STYLE):
        yield panels
        if path is not None:
            with replacing(path) as temporary:
                panels.figure.savefig(temporary, format=picture)
