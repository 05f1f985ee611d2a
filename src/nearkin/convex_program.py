"""CO's objective: section 3.2 in a form that solves and certifies itself.

With c the summed phi of similar pairs and ``g(theta) = sum over dissimilar pairs of d``, concave
and homogeneous of degree 1/2, the paper's problem is up to scale ``min c . theta - log g(theta)``;
theta is rescaled at the end so that g = 1. For any theta > 0 the best g at the same cost is at most
``g/2 + (c . theta) max_k (grad g)_k / c_k``, which bounds the distance from the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from nearkin.data import Pairs
from nearkin.objectives import Evaluation, column_sums, inverse
from nearkin.pairs import Array, PairFeatures
from nearkin.passes import Sums, Terms, accumulate, hessian_diagonal, hessian_product

TINY = 1e-200  # a squared distance (in units of the typical one) that counts as zero


class RootLink:
    """Link ``sqrt(d2)`` of CO's constraint; ``count`` is the number of pairs at distance 0."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __call__(self, d2: Array, pairs: Pairs) -> Terms:
        """Return minus the weighted sum of distances, which is convex, and its derivatives."""
        xp = self.xp
        zero = d2 <= TINY
        w = xp.where(zero, 0.0, pairs.weight)
        d2 = xp.where(zero, 1.0, d2)
        d = xp.sqrt(d2)
        return Terms(
            value=-xp.sum(w * d),
            first=-0.5 * w / d,
            second=0.25 * w / (d2 * d),
            count=xp.sum(xp.astype(zero, xp.int64)),
        )


class ConvexProgram:
    """CO, section 3.2, in the equivalent form ``min sum(t) - log g(t)`` over t >= 0.

    ``theta = t / cost`` with ``cost = sum of phi over similar pairs + prior * mean of phi over
    rated pairs`` and ``g = sum over dissimilar pairs of sqrt(theta . phi)``.
    """

    certified = True

    def __init__(
        self, features: PairFeatures, pairs: Pairs, n_levels: int, prior: float = 1.0
    ) -> None:
        xp = self.xp = features.xp
        self.features = features
        if features.profiled is not None:
            raise ValueError(
                "ConvexOptimization cannot learn profiles of single objects, whose coefficients "
                "may be negative; use OrdinalRegression as the learner."
            )
        self.dissimilar = pairs.at(pairs.level == 1)
        similar = pairs.at(pairs.level == n_levels)
        cost = column_sums(features, similar)
        # pseudo-pairs: prior of them for every column, class_ridge more for the class terms
        pseudo = prior + features.shrinkage()[0]
        if bool(xp.any(pseudo > 0)):
            cost = cost + pseudo * column_sums(features, pairs) / float(xp.sum(pairs.weight))
        spread = column_sums(features, self.dissimilar)
        free = (cost <= 0) & (spread > 0)
        if bool(xp.any(free)):
            names = [self.name(int(k)) for k in xp.nonzero(free)[0]]
            raise ValueError(
                f"ConvexOptimization(prior={prior}) has no solution: no pair rated similar differs "
                f"in {', '.join(names[:5])}{', ...' if len(names) > 5 else ''} ({len(names)} "
                "column(s)), so its coefficient can grow for nothing; use prior=1, or leave the "
                "column out."
            )
        if not bool(xp.any(spread > 0)):
            raise ValueError(
                "ConvexOptimization: no pair rated dissimilar differs in any feature; "
                "check X and the ratings."
            )
        used = cost > 0
        self.cost = cost
        self.inverse_cost = inverse(cost, used, xp)
        # At the optimum sum(t) = 1/2: f is homogeneous but for that.
        used = xp.astype(used, xp.float64)
        self.start = 0.5 * used / xp.sum(used)
        self.lower = features.zeros(features.n_columns)
        self.identical = self._distances(self.start).count

    @property
    def n_pairs(self) -> int:
        """What a pass costs."""
        return int(self.dissimilar.a.shape[0])

    def thinned(self, stride: int) -> ConvexProgram:
        """Return the same objective on every stride-th pair, in the same coefficients."""
        few = copy(self)
        few.dissimilar = self.dissimilar.at(slice(None, None, stride))
        few.identical = few._distances(self.start).count
        return few

    def name(self, k: int) -> str:
        """Return the name of coefficient k."""
        return self.features.name(k)

    def _distances(self, t: Array, *, hessian: bool = False) -> Sums:
        link = RootLink(self.xp)
        theta = t * self.inverse_cost
        return accumulate(self.features, self.dissimilar, link, theta, hessian=hessian)

    def evaluate(self, z: Array, *, hessian: bool = False) -> Evaluation:
        """Return value, gradient and perhaps Hessian at z."""
        xp = self.xp
        sums = self._distances(z, hessian=hessian)
        g = -float(sums.value)
        # At distance 0 the slope of sqrt is infinite: such a point is never optimal.
        if int(sums.count) > int(self.identical) or g <= 0:
            return Evaluation(float("inf"), sums.gradient, None, int(sums.count))
        slope = sums.gradient * self.inverse_cost / g  # gradient of -log g  (p,)
        value = float(xp.sum(z)) - float(np.log(g))
        H = None
        if hessian:
            # grad^2 (-log g) = -g''/g + g' g'^T / g^2  (p, p)
            scale = self.inverse_cost
            H = sums.hessian * (scale[:, None] * scale / g) + slope[:, None] * slope
        return Evaluation(value, 1.0 + slope, H, int(sums.count))

    def curvature(self, z: Array) -> tuple[Callable[[Array], Array], Array]:
        """Return the product with the Hessian at z, as a function, and the Hessian's diagonal."""
        link, theta, scale = RootLink(self.xp), z * self.inverse_cost, self.inverse_cost
        sums = self._distances(z)
        g = -float(sums.value)
        slope = sums.gradient * scale / g

        def product(v: Array) -> Array:
            Hv = hessian_product(self.features, self.dissimilar, link, theta, v * scale)
            return Hv * scale / g + slope * self.xp.sum(slope * v)

        diagonal = hessian_diagonal(self.features, self.dissimilar, link, theta)
        return product, diagonal * scale**2 / g + slope**2

    def shortfall(self, z: Array, evaluation: Evaluation) -> float:
        """Return the certified relative gap ``((c . theta) max_k (grad g)_k / c_k - g/2) / g``."""
        best_slope = float(self.xp.max(1.0 - evaluation.gradient))
        return float(self.xp.sum(z)) * best_slope - 0.5

    def rescaled(self, z: Array) -> tuple[Array, float]:
        """Return theta with g(theta) = 1, and the paper's objective there."""
        theta = z * self.inverse_cost
        g = -float(self._distances(z).value)
        return theta / g**2, float(self.xp.sum(z)) / g**2

    def trouble(self, evaluation: Evaluation) -> str:
        """Return an empty string: what makes CO unbounded is refused at the start."""
        return ""
