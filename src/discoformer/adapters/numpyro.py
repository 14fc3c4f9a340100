"""A fitted density as a distribution of NumPyro: one posterior is the prior of the next model.

JAX calls back into torch for the log density and for its exact gradient, the score.  That works under
``jit``, ``vmap`` and ``grad``, and so with NUTS; there are no second derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discoformer.adapters.fitted import answer, constraints_of, density_of, draw
from discoformer.core.extras import require

__all__ = ["to_numpyro"]


def to_numpyro(fitted: Any) -> Any:
    """A `numpyro.distributions.Distribution` with event shape (d,); its support has the bounds of the fit.

    Parameters
    ----------
    fitted : a fitted `DiScoFormer`, or a `Density`

    Examples
    --------
    >>> from discoformer import KDE
    >>> law = to_numpyro(KDE().fit(np.eye(3)))  # doctest: +SKIP
    >>> numpyro.sample("theta", law)  # doctest: +SKIP
    """
    require("numpyro", "bayes", "to_numpyro")
    import jax
    import jax.numpy as jnp
    from numpyro import distributions as dist

    density = density_of(fitted)
    columns = constraints_of(density, dist.constraints)

    def both(points: Any) -> tuple[Any, Any]:
        kind = jnp.result_type(points)
        shapes = (jax.ShapeDtypeStruct(points.shape[:-1], kind), jax.ShapeDtypeStruct(points.shape, kind))

        def ask(values: Any) -> tuple[Any, Any]:
            log_density, score = answer(density, values)
            return log_density.astype(kind), score.astype(kind)

        found: tuple[Any, Any] = jax.pure_callback(ask, shapes, points, vmap_method="broadcast_all")
        return found

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def log_prob(points: Any) -> Any:
        return both(points)[0]

    def forward(points: Any) -> tuple[Any, Any]:
        return both(points)

    def backward(score: Any, slope: Any) -> tuple[Any]:
        return (slope[..., None] * score,)

    log_prob.defvjp(forward, backward)

    class InsideBounds(dist.constraints.Constraint):  # type: ignore[misc]
        """Every column (..., d) within its bounds."""

        event_dim = 1

        def __call__(self, x: Any) -> Any:
            return jnp.stack([own(x[..., j]) for j, own in enumerate(columns or ())], -1).all(-1)

        def feasible_like(self, prototype: Any) -> Any:
            return LineToBounds()(jnp.zeros_like(prototype))

        def tree_flatten(self) -> Any:
            return (), ((), {})

    class LineToBounds(dist.transforms.Transform):  # type: ignore[misc]
        """The line to the bounded columns of (..., d)."""

        domain, codomain = dist.constraints.real_vector, InsideBounds()
        own = tuple(map(dist.biject_to, columns or ()))

        def __call__(self, x: Any) -> Any:
            return jnp.stack([own(x[..., j]) for j, own in enumerate(self.own)], -1)

        def _inverse(self, y: Any) -> Any:
            return jnp.stack([own._inverse(y[..., j]) for j, own in enumerate(self.own)], -1)

        def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
            both = (own.log_abs_det_jacobian(x[..., j], y[..., j]) for j, own in enumerate(self.own))
            return jnp.stack(list(both), -1).sum(-1)

        def tree_flatten(self) -> Any:
            return (), ((), {})

    dist.biject_to.register(InsideBounds, lambda _: LineToBounds())

    class FittedDistribution(dist.Distribution):  # type: ignore[misc]
        support = InsideBounds() if columns else dist.constraints.real_vector

        def __init__(self) -> None:
            super().__init__(batch_shape=(), event_shape=(density.dim,), validate_args=False)

        def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
            kind = jnp.result_type(float)
            shape = (*sample_shape, density.dim)

            def ask(bits: Any) -> Any:
                rng = np.random.default_rng(np.asarray(bits).ravel().astype(np.uint32))
                return draw(density, max(1, int(np.prod(sample_shape))), rng).reshape(shape).astype(kind)

            bits = jax.random.bits(key, (4,))
            return jax.pure_callback(ask, jax.ShapeDtypeStruct(shape, kind), bits, vmap_method="sequential")

        def log_prob(self, value: Any) -> Any:
            return log_prob(jnp.asarray(value, dtype=jnp.result_type(float)))

    return FittedDistribution()
