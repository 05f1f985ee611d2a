"""What a solver knows of the problems it solves, and what those problems share.

OR lives in ``ordered_logit.py``, CO in ``convex_program.py``; HYB is either of them on longer
pair features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from array_api_compat import array_namespace, device

from nearkin.data import Pairs
from nearkin.pairs import Array, PairFeatures
from nearkin.passes import Terms, accumulate


@dataclass(frozen=True)
class Evaluation:
    """An objective at one point; ``hessian`` is None unless it was asked for."""

    value: float
    gradient: Array
    hessian: Array
    count: int


class Objective(Protocol):
    """What a solver minimises over z >= lower."""

    lower: Array
    start: Array
    certified: bool  # whether ``shortfall`` is a proven bound

    @property
    def n_pairs(self) -> int:
        """What a pass costs."""

    def thinned(self, stride: int) -> Objective:
        """Return the same objective on every stride-th pair, in the same coefficients."""

    def evaluate(self, z: Array, *, hessian: bool = False) -> Evaluation:
        """Return value, gradient and perhaps Hessian at z; value inf outside the domain."""

    def curvature(self, z: Array) -> tuple[Callable[[Array], Array], Array]:
        """Return the product with the Hessian at z, as a function, and the Hessian's diagonal."""

    def shortfall(self, z: Array, evaluation: Evaluation) -> float:
        """Return the scale-free distance from the optimum that the solver stops on."""

    def trouble(self, evaluation: Evaluation) -> str:
        """Return why the objective has no minimum, or an empty string."""

    def name(self, k: int) -> str:
        """Return the name of coefficient k."""


def inverse(x: Array, where: Array, xp: Any) -> Array:
    """Return 1/x, and 0 elsewhere."""
    return xp.where(where, 1.0 / xp.where(where, x, 1.0), 0.0)


def diagonal(x: Array, xp: Any) -> Array:
    """Return the matrix with x on its diagonal."""
    return x[:, None] * xp.eye(x.shape[0], dtype=x.dtype, device=device(x))


def linear(d2: Array, pairs: Pairs) -> Terms:
    """Link ``weight * d2``: its gradient is the weighted sum of the rows of phi."""
    xp = array_namespace(d2)
    return Terms(xp.sum(pairs.weight * d2), pairs.weight, xp.zeros_like(d2))


def square_link(d2: Array, pairs: Pairs) -> Terms:
    """Link ``weight * d2^2 / 2``: its Hessian's diagonal sums the squares of the columns."""
    xp = array_namespace(d2)
    return Terms(0.5 * xp.sum(pairs.weight * d2 * d2), pairs.weight * d2, pairs.weight)


def column_sums(features: PairFeatures, pairs: Pairs) -> Array:
    """Return sum over pairs of weight * phi  (p,)."""
    return accumulate(features, pairs, linear, features.zeros(features.n_columns)).gradient


def kkt_residual(z: Array, gradient: Array, lower: Array, xp: Any) -> float:
    """Return the largest entry of ``z - P(z - gradient)``, P the projection on z >= lower."""
    return float(xp.max(xp.abs(z - xp.maximum(z - gradient, lower))))
