"""The live corner in a notebook: the page's own JavaScript as a widget (extra ``widget``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.bounds import Bound
from discoformer.columns.schema import Schema
from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.core.fields import Field, as_density
from discoformer.data.table import Table
from discoformer.views.page.payload import widget_data
from discoformer.views.page.render import bundle, read_asset

if TYPE_CHECKING:
    from anywidget import AnyWidget

__all__ = ["explore"]

_DRAWS = 2000  # rows drawn in place of a sample that was not kept


def explore(
    field: Field,
    rows: NDArray[np.float64] | None,
    names: Sequence[str],
    bounds: Sequence[Bound],
    schema: Schema | None = None,
) -> AnyWidget:
    """A widget that shows a fitted density: what `discoformer.DiScoFormer.explore` returns.

    Parameters
    ----------
    field : a full `Density`, such as the default model gives
    rows : (n, d), the sample; if None, draws from the density stand in for it
    names, bounds : names and bounds of the d columns
    schema : what the columns are, if they are not all numbers

    Examples
    --------
    >>> from discoformer import load_model
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> widget = explore(load_model("default").fit(x), x, ["a", "b"], [(-np.inf, np.inf)] * 2)
    >>> [column["name"] for column in widget.data["columns"]], widget.selected
    (['a', 'b'], None)
    """
    require("anywidget", "widget", "a widget")
    density = as_density(field)
    if rows is not None and rows.ndim > 2:
        raise DataError("a batch of fits has no picture: fit one table at a time")
    if rows is None:
        with torch.no_grad():
            rows = density.sample(_DRAWS, torch.Generator().manual_seed(0)).cpu().numpy()
    data = widget_data(Table(rows, tuple(names), schema=schema), density, bounds)
    if data["density"] is None:
        raise DataError(data["why"])
    widget: AnyWidget = _widget_class()(data=data)
    return widget


@cache
def _widget_class() -> type[Any]:
    """Made on first use: anywidget is an extra."""
    import anywidget
    import traitlets

    class Explorer(anywidget.AnyWidget):
        """The live corner.

        Attributes
        ----------
        data : what `widget_data` wrote
        selected : number of the row that was clicked, or None
        given : values that sliders hold, by column name
        """

        _esm = bundle("widget.js")
        _css = read_asset("css/base.css") + read_asset("css/explorer.css")
        data = traitlets.Dict().tag(sync=True)
        selected = traitlets.Int(None, allow_none=True).tag(sync=True)
        given = traitlets.Dict().tag(sync=True)

    return Explorer
