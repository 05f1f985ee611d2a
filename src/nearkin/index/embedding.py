"""Vectors whose Euclidean distance ranks as a metric does: what graph indexes need.

Graph indexes fail on inner products of ``Metric.item_vectors``, because those of two items are
dominated by one coordinate. Here two items are near when they are near for every query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.metric import Metric
from nearkin.points import Points

Floats = NDArray[np.float64]
SUM_TOLERANCE = 2e-5  # np.allclose, by which class probabilities are checked
ROOM = 2.0  # the last coordinate has room for items with class sides this many times longer


@dataclass(frozen=True, eq=False)
class Embedding:
    """A metric's points as vectors, such that Euclidean distances rank items as the metric does.

    Without profiles the class side of an item is p = u', that of a query c = Q u; with profiles
    (b for an item, b_q for a query that has been rated itself) they are p = [Q u' + b, u'] and
    c = [u, b_q]. Either way ``d2 = |s x - s x'|^2 + c . p`` with s = sqrt(r). Then

        item  [s x', alpha p, sqrt(top^2 - |alpha p|^2)]      query  [s x, -c / (2 alpha), 0]

    differ by ``d2 + top^2 + |c / (2 alpha)|^2``, squared, whatever alpha is; Q need not be
    positive semidefinite. x is centred for precision, and so are c without profiles (the entries
    of u' sum to 1) and p with them, which changes distances by a constant of the query.

    Attributes
    ----------
    alpha : float
        Weight of the class side among items; it decides how well a graph can be searched.
    center : ndarray, shape (K,)
        Subtracted from x.
    middle : ndarray, shape (P,)
        Subtracted from p.
    top : float
        No shorter than alpha p of any item.
    """

    metric: Metric
    alpha: float
    center: Floats
    middle: Floats
    top: float

    @classmethod
    def fitted(cls, metric: Metric, items: Points, alpha: float | None = None) -> Embedding:
        """Return an embedding with room for these items and others like them."""
        some = len(items) > 0
        center = items.x.mean(axis=0, dtype=np.float64) if some else np.zeros(metric.n_features)
        p, c = class_sides(metric, items)
        middle = p.mean(axis=0) if metric.profiled and some else np.zeros(p.shape[1])
        longest = np.linalg.norm(p - middle, axis=1).max(initial=0.0) if metric.profiled else 1.0
        alpha = balanced_alpha(p - middle, c) if alpha is None else alpha
        room = ROOM if metric.profiled else 1.0
        return cls(metric, alpha, center, middle, alpha * room * longest)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return dimensions(self.metric)

    def items(self, points: Points) -> Floats:
        """Return the vectors of items  (n, width)."""
        p = self._scaled_side(points)
        fill = np.sqrt(np.maximum(self.top**2 - np.sum(p * p, axis=1, keepdims=True), 0.0))
        return np.concatenate([self._features(points), p, fill[:, : p.shape[1]]], axis=1)

    def queries(self, points: Points) -> Floats:
        """Return the vectors of queries  (n, width)."""
        c = class_sides(self.metric, points)[1] / (-2.0 * self.alpha)
        return np.concatenate([self._features(points), c, 0.0 * c[:, :1]], axis=1)

    def constants(self, points: Points) -> tuple[Floats, Floats]:
        """Return what squared distances to these queries exceed d2 by, and its error  (n,) each.

        ``|query - item|^2 - d2 = top^2 + |c / (2 alpha)|^2 - c . middle - mean(Q u)``, the last
        one without profiles only, where probabilities sum to 1 up to the tolerance of points.
        """
        c = class_sides(self.metric, points)[1]
        constant: Floats = self.top**2 + np.sum((c / (2 * self.alpha)) ** 2, axis=1)
        if self.metric.profiled or not len(self.middle):
            return constant - c @ self.middle, 0.0 * constant
        mean = _costs(self.metric, points).mean(axis=1)
        return constant - mean, mean * SUM_TOLERANCE

    def holds(self, points: Points) -> bool:
        """Tell whether there is room for these items."""
        p = self._scaled_side(points)
        return bool((np.sum(p * p, axis=1) <= self.top**2 * (1 + 1e-12)).all())

    def stretched(self, points: Points) -> Embedding:
        """Return this embedding with room for these items, too."""
        if self.holds(points):
            return self
        longest = np.linalg.norm(self._scaled_side(points), axis=1).max()
        return replace(self, top=float(longest) * ROOM)

    def _features(self, points: Points) -> Floats:
        scaled: Floats = (points.x - self.center) * np.sqrt(self.metric.weights)
        return scaled

    def _scaled_side(self, points: Points) -> Floats:
        return self.alpha * (class_sides(self.metric, points)[0] - self.middle)


def dimensions(metric: Metric) -> int:
    """Return the number of coordinates of a metric's vectors."""
    if metric.class_costs is None:
        return metric.n_features
    return metric.n_features + metric.n_classes * (2 if metric.profiled else 1) + 1


def class_sides(metric: Metric, points: Points) -> tuple[Floats, Floats]:
    """Return p, the points' side as items, and c, their side as queries  (n, P) each."""
    if metric.class_costs is None:
        nothing: Floats = np.zeros((len(points), 0))
        return nothing, nothing
    costs, u = _costs(metric, points), np.asarray(points.u)
    if not metric.profiled:
        # u' sums to 1, so (Q u - its mean) . u' ranks as Q u . u' does
        return u, costs - costs.mean(axis=1, keepdims=True)
    b = points.profiles()
    return np.concatenate([costs + b, u], axis=1), np.concatenate([u, b], axis=1)


def _costs(metric: Metric, points: Points) -> Floats:
    """Return Q u  (n, M)."""
    if points.u is None:
        raise ValueError(
            "These points carry no class probabilities; make them with metric.points(X)."
        )
    costs: Floats = points.u @ np.asarray(metric.class_costs)
    return costs


def balanced_alpha(p: Floats, c: Floats) -> float:
    """Return the alpha at which alpha p is as long as c / (2 alpha), or 1."""
    sizes: list[Any] = [np.median(np.linalg.norm(side, axis=1)) if len(p) else 0 for side in (p, c)]
    return float(np.sqrt(sizes[1] / (2 * sizes[0]))) if min(sizes) > 0 else 1.0
