"""What a distance means in a collection: how far apart its objects are from each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from nearkin.metric import Metric
from nearkin.points import Points

Floats = NDArray[np.float64]

MOST_PAIRS = 50_000  # 8 bytes each in a model's file; a share of 1 % is then good to 0.05 %
MOST_OBJECTS = 2_000
ORDINARY = 0.99


@dataclass(frozen=True, eq=False)
class Spread:
    """Distances of the pairs of a collection.

    ``distances`` are sorted: those of all ``n_pairs`` pairs, or of a seeded random sample.
    """

    distances: Floats
    n_pairs: int

    @classmethod
    def of(cls, metric: Metric, points: Points, most: int = MOST_PAIRS) -> Spread:
        """Measure all pairs of different objects, or a sample of ``most`` of them."""
        n = len(points)
        total = n * (n - 1) // 2
        if total <= most:
            a, b = np.triu_indices(n, k=1)
        else:
            rng = check_random_state(0)
            a = rng.randint(0, n, most)
            b = (a + 1 + rng.randint(0, n - 1, most)) % n
        return cls(np.sort(metric.pair_distances(points, points, a, b)), total)

    @property
    def sampled(self) -> bool:
        """Whether the pairs are a sample."""
        return len(self.distances) < self.n_pairs

    def share(self, d: ArrayLike) -> Floats:
        """Return the share of pairs that are at most this far apart: small is near."""
        below = np.searchsorted(self.distances, np.asarray(d), side="right")
        share: Floats = below / max(len(self.distances), 1)
        return share


@dataclass(frozen=True)
class Reach:
    """How far from the nearest object of the collection an ordinary object lies.

    Measured by the features alone, ``sqrt(sum_k r_k (x_k - x'_k)^2)``: far from all data a
    posterior is still one of the known classes, so the class term cannot tell, and it differs
    between objects with and without a label, as profiles do between rated and new ones. What the
    features have in them is the same for all. ``limit`` is the 99 % quantile of the distances
    from each object of the collection to its nearest other one (the largest, below 100 objects):
    of new objects like those in the collection about 1 % lie farther out. Not the largest always,
    because one stray object would then vouch for everything around it.
    """

    limit: float

    @classmethod
    def of(cls, metric: Metric, points: Points, most: int = MOST_OBJECTS) -> Reach:
        """Measure every object of the collection, or a seeded sample of ``most``."""
        n = len(points)
        rows = np.arange(n)
        if n > most:
            rows = np.sort(check_random_state(0).permutation(n)[:most])
        if n < 2:
            return cls(float("inf"))
        nearest = nearest_by_features(metric, points[rows], points, rows)
        return cls(float(np.quantile(nearest, ORDINARY, method="higher")))

    def exceeded(self, nearest: float) -> bool:
        """Tell whether an object so far from its nearest one is outside the collection."""
        return nearest > self.limit


def nearest_by_features(
    metric: Metric, queries: Points, points: Points, own: NDArray[np.int64] | None = None
) -> Floats:
    """Return each query's distance, by features alone, to its nearest object but ``own``  (n,)."""
    K = metric.n_given
    plain = Metric(metric.weights[:K], center=None if metric.center is None else metric.center[:K])
    items = Points(points.x[:, :K])
    nearest = np.full(len(queries), np.inf)
    rows = max(1, 2**22 // max(len(points), 1))
    for start in range(0, len(queries), rows):
        at = slice(start, start + rows)
        d = plain.distances(Points(queries.x[at, :K]), items)
        if own is not None:
            itself = own[at]
            d[np.flatnonzero(itself >= 0), itself[itself >= 0]] = np.inf
        nearest[at] = d.min(axis=1, initial=np.inf)
    return nearest
