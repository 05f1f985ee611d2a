"""Exact search for the k nearest items: one product in float32, then float64 for the few left.

For a query ``z`` and an item ``y`` (see ``Frame``) the product ``z . y`` is ``d2`` up to a
constant and a factor of the query. Its last column takes the largest rounding error that float32
can make off the product, so that what comes out is a proven lower bound of ``d2``. An item whose
lower bound lies above the k-th smallest upper bound cannot be among the k nearest; every other one
is scored again in float64. Equal distances are broken by item order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.metric import Metric
from nearkin.passes import in_threads, n_cores, single_blas
from nearkin.points import Points

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]

UNIT = 2.0**-24  # rounding unit of float32
QUERIES = 128  # rows of a product: enough that the items are read from memory rarely
SCORES = 2**18  # size of a product: 1 MiB, in cache
ITEMS = 2**13  # columns of a product at most
SINGLE = 2**17  # the same for one query: a product that BLAS shares out among cores itself
CANDIDATES = 2**22  # of all queries together, before they are searched in halves
SMALL = 2**22  # multiplications not worth a thread
OUT_OF_RANGE, LARGEST_ERROR, LARGEST = 1e15, 1e37, 1e38


class Near(NamedTuple):
    """Distances and item rows  (n_queries, k), nearest first; inf and -1 where there is none."""

    distances: Floats
    rows: Integers

    @classmethod
    def none(cls, n_queries: int, k: int) -> Near:
        """Return room for what is to be found."""
        return cls(np.full((n_queries, k), np.inf), np.full((n_queries, k), -1))

    def at(self, queries: Any) -> Near:
        """Return some of the queries: a view of a slice, else a copy."""
        return Near(self.distances[queries], self.rows[queries])

    def write(self, queries: Any, near: Near) -> None:
        """Write down what was found for some of the queries."""
        self.distances[queries], self.rows[queries] = near


class Queries(NamedTuple):
    """Queries in a frame: unit vectors, and what their thresholds need  (n_queries,)."""

    vectors: Singles
    zero: Singles  # the score of distance 0, below which all items are equally near
    slack: Singles  # what float64 itself may round


@dataclass(frozen=True, eq=False)
class Frame:
    """Where the vectors of a search have their origin, and in what units they are.

    An item is ``[B / s, |B|^2 / s^2, p / w, u', e]`` and a query ``[-2 s A, s^2, w u, b, -1]``,
    with ``A, B = sqrt(r) (x - origin)``, ``p = Q u' + b' - costs`` and ``e`` the rounding error;
    the query's columns but the last are scaled to norm 1.
    """

    metric: Metric
    origin: Floats
    costs: Floats
    scale: float
    cost_scale: float

    @classmethod
    def around(cls, metric: Metric, points: Points) -> Frame:
        """Return the frame in which these items lie close to the origin."""
        empty = len(points) == 0
        origin = np.zeros(metric.n_features) if empty else points.x.mean(axis=0, dtype=np.float64)
        plain = cls(metric, origin, np.zeros(metric.n_classes), 1.0, 1.0)
        p = plain.class_costs(points)
        costs = plain.costs if empty else p.mean(axis=0)
        scale = np.abs(plain.embedded(points)).max(initial=0.0)
        cost_scale = np.abs(p - costs).max(initial=0.0)
        return cls(metric, origin, costs, float(scale) or 1.0, float(cost_scale) or 1.0)

    def embedded(self, points: Points) -> Floats:
        """Return ``sqrt(r) (x - origin)``  (n, K)."""
        return np.sqrt(self.metric.weights) * (points.x - self.origin)

    def class_costs(self, points: Points) -> Floats:
        """Return p  (n, M), no columns without a class term."""
        Q = self.metric.class_costs
        if Q is None:
            return np.zeros((len(points), 0))
        return self.metric.class_side(points) @ Q + points.profiles() - self.costs

    @property
    def _both_rated(self) -> bool:
        return self.metric.profiled and self.metric.class_costs is not None

    @property
    def n_columns(self) -> int:
        """D."""
        return self.metric.n_features + 2 + self.metric.n_classes * (1 + self._both_rated)

    def items(self, points: Points) -> Singles:
        """Return the vectors of items  (n, D)."""
        y = np.empty((len(points), self.n_columns), dtype=np.float32)
        for start in range(0, len(points), ITEMS):
            at = slice(start, start + ITEMS)
            y[at] = self._item_block(points[at])
        return y

    def _item_block(self, points: Points) -> Floats:
        B = self.embedded(points) / self.scale
        parts = [B, np.sum(B * B, axis=1, keepdims=True)]
        parts.append(self.class_costs(points) / self.cost_scale)
        if self._both_rated:
            parts.append(self.metric.class_side(points))
        y = np.concatenate([*parts, np.zeros((len(B), 1))], axis=1)
        D = y.shape[1]
        # |fl(z . y) - z . y| <= gamma |z| |y|, gamma = D u / (1 - D u), |z| = 1; and 8 roundings
        # more, of the entries themselves. Products below float32's smallest number come on top.
        norm = np.sqrt(np.einsum("nd,nd->n", y, y))
        y[:, -1] = 1.05 * (D + 8) * UNIT * norm + D * 1e-37
        y[norm > OUT_OF_RANGE] = np.eye(D)[-1] * LARGEST_ERROR  # always a candidate
        return y

    def queries(self, points: Points) -> Queries:
        """Return the vectors of queries, and their thresholds' parts."""
        A = self.embedded(points)
        size, M = np.sum(A * A, axis=1), self.metric.n_classes
        u = self.metric.class_side(points) if M else np.zeros((len(A), 0))
        parts = [-2.0 * self.scale * A, np.full((len(A), 1), self.scale**2), self.cost_scale * u]
        if self._both_rated:
            parts.append(points.profiles())
        z = np.concatenate(parts, axis=1)
        norm = np.sqrt(np.einsum("nd,nd->n", z, z))
        z = np.concatenate([z / norm[:, None], np.full((len(A), 1), -1.0)], axis=1)
        # d2 = norm z . y + constant, and |d2| <= 2 |A|^2 + 2 |B|^2 + class terms
        constant = size + u @ self.costs
        largest = 2.0 * (size + self.scale**2 * self.metric.n_features) + np.abs(u @ self.costs)
        largest += self.cost_scale
        slack = 8.0 * z.shape[1] * np.finfo(np.float64).eps * largest / norm
        parts = [np.clip(part, -LARGEST, LARGEST) for part in (z, -constant / norm, slack)]
        return Queries(*(part.astype(np.float32) for part in parts))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Items made ready for exact search.

    Examples
    --------
    >>> import numpy as np
    >>> from nearkin import Metric
    >>> from nearkin.nearest import Neighbours
    >>> metric = Metric(weights=np.ones(1))
    >>> items = metric.points([[0.0], [5.0], [1.0]])
    >>> Neighbours.of(metric, items).search(metric.points([[0.9]]), k=2).rows
    array([[2, 0]])
    """

    points: Points
    frame: Frame
    vectors: Singles

    @classmethod
    def of(cls, metric: Metric, points: Points) -> Neighbours:
        """Return the items of a metric, made ready."""
        frame = Frame.around(metric, points)
        return cls(points, frame, frame.items(points))

    def search(self, q: Points, k: int, allowed: NDArray[np.bool_] | None = None) -> Near:
        """Return the k nearest items of each query, among those that are allowed  (n_items,)."""
        near = Near.none(len(q), k)
        rows = None if allowed is None else np.flatnonzero(allowed)
        with nullcontext() if len(q) == 1 else single_blas():
            self._search(q, near, rows)
        return near

    def _search(self, q: Points, near: Near, rows: Integers | None) -> None:
        queries, k = self.frame.queries(q), near.rows.shape[1]
        n_items = len(self.vectors) if rows is None else len(rows)
        n_blocks = -(-len(q) // QUERIES)
        # the answer is defined exactly, so how the work is cut does not change it
        small = len(q) * n_items * self.vectors.shape[1] < SMALL
        whole = small or len(q) == 1 or n_blocks >= 4 * n_cores()
        n_ranges = 1 if whole else n_cores()
        edges = np.linspace(0, n_items, n_ranges + 1).astype(int)

        def part(job: int) -> Candidates | None:
            block, at = divmod(job, n_ranges)
            chosen = slice(block * QUERIES, (block + 1) * QUERIES)
            search = _Search(self, Queries(*(column[chosen] for column in queries)), k, rows)
            return search.candidates(int(edges[at]), int(edges[at + 1]))

        found: list[Candidates | None] = []
        for job, candidates in enumerate(in_threads(part, n_blocks * n_ranges)):
            found.append(candidates)
            if len(found) == n_ranges:
                start = job // n_ranges * QUERIES
                at = slice(start, start + QUERIES)
                self._finish(q[at], near.at(at), found, rows)
                found = []

    def _finish(
        self, q: Points, near: Near, found: list[Candidates | None], rows: Integers | None
    ) -> None:
        """Write the nearest of a block of queries down."""
        whole = [candidates for candidates in found if candidates is not None]
        if len(whole) == len(found):
            left = _joined(whole)
            rank(self.frame.metric, (q, self.points), (left.query, left.item), near)
        else:  # heaps of equal items: fewer queries at a time
            half = len(q) // 2
            for at in (slice(0, half), slice(half, len(q))):
                self._search(q[at], near.at(at), rows)


def rank(
    metric: Metric, sides: tuple[Points, Points], pairs: tuple[Integers, Integers], near: Near
) -> None:
    """Score pairs of query and item in float64 and write the nearest of each query down.

    ``sides`` are all queries and all items, ``pairs`` rows of the two; no pair comes twice.
    """
    query, item = pairs
    d = metric.pair_distances(*sides, query, item)
    order = np.lexsort((item, d, query))
    query, item, d = query[order], item[order], d[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    first = place < near.rows.shape[1]
    near.rows[query[first], place[first]] = item[first]
    near.distances[query[first], place[first]] = d[first]


def merged(first: Near, second: Near) -> Near:
    """Return the nearest of both; no item may be in both."""
    d, rows = (np.concatenate(parts, axis=1) for parts in zip(first, second, strict=True))
    order = np.lexsort((rows, d), axis=1)[:, : first.rows.shape[1]]
    return Near(np.take_along_axis(d, order, axis=1), np.take_along_axis(rows, order, axis=1))


class Candidates(NamedTuple):
    """Pairs of query and item that may be among the nearest, with their lower bounds  (n,)."""

    query: Integers
    item: Integers
    low: Singles

    def where(self, keep: NDArray[np.bool_]) -> Candidates:
        """Return some of the candidates."""
        return Candidates(self.query[keep], self.item[keep], self.low[keep])


def _joined(parts: list[Candidates]) -> Candidates:
    query, item, low = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Candidates(query, item, low)


class _Search:
    """The candidates of a block of queries among a range of items."""

    def __init__(self, items: Neighbours, queries: Queries, k: int, rows: Integers | None) -> None:
        self.items, self.queries, self.k, self.rows = items, queries, k, rows
        self.threshold = np.full(len(queries.zero), np.inf, dtype=np.float32)

    def candidates(self, low: int, high: int) -> Candidates | None:
        """Return every item of the range that may be among the k nearest, None if too many."""
        n, parts, unsorted = len(self.threshold), [_NONE], 0
        for block, (rows, scores) in enumerate(self._products(low, high)):
            if block == 0 and scores.shape[1] >= self.k:
                upper = scores + 2.0 * self._errors(rows)
                self._lower_threshold(slice(None), np.partition(upper, self.k - 1)[:, self.k - 1])
            query, column = np.divmod(
                np.flatnonzero(scores <= self.threshold[:, None]), scores.shape[1]
            )
            item = column + rows.start if isinstance(rows, slice) else rows[column]
            parts.append(Candidates(query, item, scores[query, column]))
            unsorted += len(query)
            if unsorted > 4 * n * self.k:
                parts, unsorted = [self._tightened(_joined(parts))], 0
                if n > 1 and len(parts[0].query) > CANDIDATES:
                    return None
        return self._tightened(_joined(parts))

    def _products(self, low: int, high: int) -> Iterator[tuple[Any, Singles]]:
        """Yield which items, and their lower bounds for each query  (n_queries, n_items)."""
        z, y = self.queries.vectors, self.items.vectors
        step = max(min(SCORES // len(z), ITEMS), 4 * self.k)
        later = max(step, SINGLE) if len(z) == 1 else step  # the first one sets the threshold
        starts = [low, *range(low + step, high, later)]
        for start, stop in pairwise([*starts, high] if low < high else []):
            at = slice(start, stop)
            if self.rows is None:
                yield at, z @ y[at].T
                continue
            rows = self.rows[at]
            dense = rows[-1] + 1 - rows[0] <= 2 * len(rows)
            if dense and len(z) < y.shape[1]:  # few scores to leave out, rather than to copy items
                yield rows, (z @ y[rows[0] : rows[-1] + 1].T)[:, rows - rows[0]]
            else:
                yield rows, z @ y[rows].T

    def _errors(self, rows: Any) -> Singles:
        errors: Singles = self.items.vectors[rows, -1]
        return errors

    def _lower_threshold(self, at: Any, kth: Singles) -> None:
        """Lower thresholds to the k-th smallest upper bound, but not below distance 0."""
        bound = np.maximum(kth, self.queries.zero[at]) + 2.0 * self.queries.slack[at]
        bound = np.nextafter(bound, np.float32(np.inf))
        self.threshold[at] = np.minimum(self.threshold[at], bound)

    def _tightened(self, found: Candidates) -> Candidates:
        """Return the candidates that are left once thresholds are lowered to what was found."""
        upper = found.low + 2.0 * self._errors(found.item)
        order = np.lexsort((upper, found.query))
        count = np.bincount(found.query, minlength=len(self.threshold))
        full = np.flatnonzero(count >= self.k)
        kth = order[(np.cumsum(count) - count)[full] + self.k - 1]
        self._lower_threshold(full, upper[kth])
        return found.where(found.low <= self.threshold[found.query])


_NONE = Candidates(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
