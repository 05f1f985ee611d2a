"""What one more rating would teach: Fisher information under the ordinal model.

A learned distance is read as an ordinal model of its own ratings, in units of the logit,

    P(level <= v) = 1 / (1 + exp(-d2 - b_v)),    d2 = theta . phi + own profiles

with a posterior (Laplace's approximation) over what is uncertain: ``theta``, the weights that all
objects share, and, where the metric has profiles, each object's own M numbers. To a new object of
class probabilities u, an object j is ``u . b_j`` farther away, so a rating of (i, j) looks at b_j
along u_i and at b_i along u_j. The posterior is kept in blocks: one covariance for theta, and one
for each object. Blocks make it O(n M^2) for n objects, where the whole would be O(n^2 M^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from nearkin.data import Pairs, Ratings
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.metric import Metric
from nearkin.objectives import square_link
from nearkin.ordered_logit import OrderedLogitLink
from nearkin.pairs import Block, PairFeatures
from nearkin.passes import accumulate, hessian_diagonal
from nearkin.points import Points

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROWS = 2**19  # numbers in a block of pairs
SCALE_RIDGE = 0.01  # of the scale of d2: with it, ratings that d2 sorts without error have one
SHARED_RIDGE = 1.0  # of theta, each in units of its column's root mean square
SMALLEST_VARIANCE = 0.01  # of a profile before it was rated, in units of the logit


def level_probabilities(d2: Floats, thresholds: Floats) -> Floats:
    """Return P(level = v) for v = 1..L  (n, L)."""
    below = expit(d2[:, None] + np.concatenate([[-np.inf], thresholds, [np.inf]]))
    return np.diff(below, axis=1)


def fisher_information(d2: Floats, thresholds: Floats) -> Floats:
    """Return what a rating tells about d2: the expected second derivative of -log P  (n,)."""
    # h = sum_v P_v  d^2(-log P_v) / d(d2)^2
    link, h = OrderedLogitLink(thresholds, np), np.zeros(len(d2))
    for v, P in enumerate(level_probabilities(d2, thresholds).T, start=1):
        level = np.full(len(d2), v)
        h += P * link(d2, Pairs(level, level, level, np.ones(len(d2)))).second
    return h


@dataclass(frozen=True, eq=False)
class OrdinalView:
    """A distance as an ordinal model: ``scale * d2`` and thresholds.

    Any distance can be seen so, CO's and NCA's, too, whose scale means nothing by itself.
    """

    metric: Metric
    points: Points
    scale: float
    thresholds: Floats

    @classmethod
    def of(
        cls, metric: Metric, points: Points, ratings: Ratings, thresholds: Floats | None = None
    ) -> OrdinalView:
        """Return the model of these thresholds, or fit scale and thresholds to ratings.

        Fitted without profiles: those of rated pairs have seen the ratings themselves, and the
        model would be far too sure.
        """
        if thresholds is not None:
            return cls(metric, points, 1.0, np.asarray(thresholds, dtype=np.float64))
        plain = replace(points, b=None)
        d = metric.pair_distances(plain, plain, ratings.a, ratings.b)
        # each pair becomes two points on a line, d apart: d2 is then the one pair feature
        ends = np.stack([d, np.zeros_like(d)], axis=1).reshape(-1, 1)
        a = np.arange(0, len(ends), 2)
        line = Ratings(a, a + 1, ratings.level, None, ratings.weight, ratings.n_levels)
        ordinal = OrdinalRegression(ridge=SCALE_RIDGE)
        scale = float(ordinal.fit_pairs(PairFeatures(ends), line).theta[0])
        return cls(metric, points, scale or 1.0, ordinal.thresholds_)

    def d2(self, a: Integers, b: Integers) -> Floats:
        """Return squared distances of pairs, in units of the logit  (n,)."""
        points = self.points
        return self.scale * self.metric.pair_distances(points, points, a, b, squared=True)

    def information(self, a: Integers, b: Integers) -> Floats:
        """Return what a rating of each pair tells about its d2  (n,)."""
        return fisher_information(self.d2(a, b), self.thresholds)


@dataclass(eq=False)
class Posterior:
    """Covariances of theta (p, p) and of each object's profile (n, M, M), or none of those."""

    features: PairFeatures
    u: Floats
    shared: Floats
    own: Floats | None

    @classmethod
    def of(cls, view: OrdinalView, ratings: Ratings) -> Posterior:
        """Return what ratings leave uncertain: ``(prior + sum h g g')^-1``, block by block."""
        points, merged = view.points, ratings.merged()
        features = PairFeatures(points.x, points.u)
        h = merged.weight * view.information(merged.a, merged.b)
        informed = merged._replace(weight=h)
        square = hessian_diagonal(features, merged, square_link, features.zeros(features.n_columns))
        mean_square = square / merged.weight.sum()
        # a column that no rating shows still needs a scale
        ridge = SHARED_RIDGE * np.where(mean_square > 0, mean_square, 1.0)
        H = sum_of_squares(features, informed)
        shared = inverted(H + np.diag(ridge))
        if points.u is None or not view.metric.profiled:
            none = np.empty((len(points), 0)) if points.u is None else points.u
            return cls(features, none, shared, None)
        rated = np.unique(np.concatenate([merged.a, merged.b]))
        spread = float(np.mean((view.scale * points.profiles()[rated]) ** 2))
        prior = np.eye(features.n_classes) / max(spread, SMALLEST_VARIANCE)
        seen = seen_from(points.u, merged.a, merged.b, h)
        seen = seen + seen_from(points.u, merged.b, merged.a, h)
        return cls(features, points.u, shared, inverted(prior + seen))

    def blocks(self, a: Integers, b: Integers) -> Iterator[tuple[slice, Block]]:
        """Yield pairs in blocks, with their features."""
        width = self.features.n_features + self.features.n_classes**2
        rows = max(64, ROWS // width)
        for start in range(0, len(a), rows):
            at = slice(start, min(start + rows, len(a)))
            yield at, Block(self.features, a[at], b[at])

    def products(self, a: Integers, b: Integers, *thetas: Floats) -> list[Floats]:
        """Return ``phi @ theta`` for each theta, without forming phi  (n,) each."""
        out = [np.empty(len(a)) for _ in thetas]
        for at, block in self.blocks(a, b):
            for column, theta in zip(out, thetas, strict=True):
                column[at] = block.d2(*self.features.split(theta))
        return out

    def shared_variance(self, a: Integers, b: Integers, W: Floats) -> tuple[Floats, Floats]:
        """Return ``phi' S phi`` and ``phi' S W S phi`` with S the covariance  (n,) each."""
        variance, moved = np.empty(len(a)), np.empty(len(a))
        for at, block in self.blocks(a, b):
            phi = block.phi()
            step = phi @ self.shared
            variance[at] = np.sum(step * phi, axis=1)
            moved[at] = np.sum((step @ W) * step, axis=1)
        return variance, moved

    def own_variance(self, objects: Integers, others: Integers, W: Floats) -> tuple[Floats, Floats]:
        """Return the same of each object's own profile, seen by the other end  (n,) each."""
        variance, moved = np.zeros(len(objects)), np.zeros(len(objects))
        if self.own is None:
            return variance, moved
        rows = max(64, ROWS // self.u.shape[1] ** 2)
        for start in range(0, len(objects), rows):
            at = slice(start, start + rows)
            u = self.u[others[at]]  # (n, M)
            step = np.matmul(self.own[objects[at]], u[:, :, None])[:, :, 0]
            variance[at] = np.sum(step * u, axis=1)
            moved[at] = np.sum(np.matmul(W[objects[at]], step[:, :, None])[:, :, 0] * step, axis=1)
        return variance, moved

    def learn(self, i: int, j: int, h: float) -> tuple[Floats, float]:
        """Take in a rating of (i, j) with information h; return ``S phi`` before, and the factor.

        ``S' = S - f S g g' S`` with ``f = h / (1 + h g' S g)``: exact for the blocks of theta, i
        and j; what it says of two blocks together is dropped.
        """
        pair = np.array([i]), np.array([j])
        phi = Block(self.features, *pair).phi()[0]
        step = self.shared @ phi
        steps = []
        if self.own is not None:
            steps = [(k, self.own[k] @ self.u[o], self.u[o]) for k, o in ((i, j), (j, i))]
        variance = float(phi @ step) + sum(float(s @ u) for _, s, u in steps)
        factor = h / (1.0 + h * variance)
        self.shared -= factor * np.outer(step, step)
        for k, s, _ in steps:
            self.own[k] -= factor * np.outer(s, s)  # type: ignore[index]
        return step, factor


def inverted(precision: Floats) -> Floats:
    """Return the covariance of a precision matrix, or of many."""
    return np.linalg.inv(precision).astype(np.float64, copy=False)


def sum_of_squares(features: PairFeatures, pairs: Pairs) -> Floats:
    """Return the sum over pairs of ``weight * phi phi'``  (p, p)."""
    zero = features.zeros(features.n_columns)
    H: Floats = accumulate(features, pairs, square_link, zero, hessian=True).hessian
    return H


def seen_from(u: Floats, objects: Integers, others: Integers, weight: Floats) -> Floats:
    """Return for each object the sum of ``weight * u u'`` over its others  (n, M, M)."""
    n, M = u.shape
    out = np.zeros((n, M * M))
    rows = max(64, ROWS // M**2)
    for start in range(0, len(objects), rows):
        at = slice(start, start + rows)
        v = u[others[at]]
        outer = (weight[at, None] * v)[:, :, None] * v[:, None, :]
        np.add.at(out, objects[at], outer.reshape(len(v), -1))
    return out.reshape(n, M, M)
