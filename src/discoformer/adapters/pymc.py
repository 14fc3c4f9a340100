"""A fitted density as a variable of a PyMC model: one posterior is the prior of the next model."""

from __future__ import annotations

from typing import Any

import numpy as np

from discoformer.adapters.fitted import answer, bounds_of, density_of, draw
from discoformer.columns.bounds import FREE
from discoformer.core.extras import require

__all__ = ["to_pymc"]


def to_pymc(name: str, fitted: Any, **options: Any) -> Any:
    """A vector variable (d,) with the fitted density, in the model whose context is open.

    The gradient is the score, exact, so that NUTS works.  Columns with bounds are sampled as the logarithm of
    the distance to the bound, or its logit between two.

    Parameters
    ----------
    name : of the variable
    fitted : a fitted `DiScoFormer`, or a `Density`
    options : for `pymc.CustomDist`, such as ``observed`` or ``initval``

    Examples
    --------
    >>> with pm.Model():  # doctest: +SKIP
    ...     theta = to_pymc("theta", est)
    ...     pm.Normal("y", theta[0] + theta[1] * x, observed=y)
    """
    require("pymc", "bayes", "to_pymc")
    import pymc
    import pytensor.tensor as pt
    from pymc.distributions.shape_utils import rv_size_is_none
    from pymc.distributions.transforms import Interval
    from pymc.logprob.transforms import Transform
    from pytensor.graph import Apply, Op

    density = density_of(fitted)
    bounds = bounds_of(density)
    start = pt.as_tensor(np.median(draw(density, 1000, np.random.default_rng(0)), 0))

    class Score(Op):  # type: ignore[misc]
        """(d,) at (d,)."""

        def make_node(self, value: Any) -> Any:
            value = pt.as_tensor(value).astype("float64")
            return Apply(self, [value], [value.type()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = answer(density, inputs[0])[1]

    class LogDensity(Op):  # type: ignore[misc]
        """() at (d,)."""

        def make_node(self, value: Any) -> Any:
            value = pt.as_tensor(value).astype("float64")
            return Apply(self, [value], [pt.tensor(dtype="float64", shape=value.type.shape[:-1])])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = np.asarray(answer(density, inputs[0])[0])

        def grad(self, inputs: Any, gradients: Any) -> list[Any]:
            return [gradients[0][..., None] * score(inputs[0])]

    class ToLine(Transform):  # type: ignore[misc]
        """The bounded columns of (..., d) to the line, those without bounds as they are."""

        name = "to_line"
        own = tuple(None if pair == FREE else Interval(*pair) for pair in bounds)

        def forward(self, value: Any, *_: Any) -> Any:
            return self._each(value, "forward")

        def backward(self, value: Any, *_: Any) -> Any:
            return self._each(value, "backward")

        def log_jac_det(self, value: Any, *_: Any) -> Any:
            slopes = [own.log_jac_det(value[..., j]) for j, own in enumerate(self.own) if own is not None]
            return sum(slopes[1:], slopes[0])

        def _each(self, value: Any, way: str) -> Any:
            columns = [value[..., j] for j in range(density.dim)]
            changed = zip(self.own, columns, strict=True)
            return pt.stack([x if own is None else getattr(own, way)(x) for own, x in changed], -1)

    score, log_density = Score(), LogDensity()
    if set(bounds) != {FREE}:
        options.setdefault("default_transform", ToLine())

    def random(_: Any, rng: np.random.Generator | None = None, size: Any = None) -> Any:
        shape = tuple(int(s) for s in size) if size is not None else ()
        rows = draw(density, max(1, int(np.prod(shape))), rng or np.random.default_rng())
        return rows.reshape(*shape, density.dim)

    def support_point(_: Any, size: Any, *__: Any) -> Any:
        return start if rv_size_is_none(size) else pt.broadcast_to(start, (*size, density.dim))

    # a parameter that says nothing but how long the vector is
    return pymc.CustomDist(
        name,
        np.zeros(density.dim),
        logp=lambda value, _: log_density(value),
        random=random,
        support_point=support_point,
        signature="(d)->(d)",
        **options,
    )
