"""Trials of an engine: what it finds against exact search, and how fast."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.index.engines import Effort
from nearkin.index.inmemory import InMemory
from nearkin.index.proposals import Depth, Proposals
from nearkin.index.tuning import least_effort
from nearkin.metric import Metric
from nearkin.points import Points

TIMED, AGAIN = 25, 3  # queries by which a search is timed, and how often
SLACK = 2.0  # times as long may all queries together take as they would one by one
GAIN = 5e-4  # of recall, by two steps of effort, that is worth going on for
DOUBT = 0.25  # of a query: what may be missing where nothing was missed


def n_queries_for(recall: float) -> float:
    """Return how many queries it takes to be sure of a recall."""
    return DOUBT / (1.0 - recall) if recall < 1.0 else np.inf


def as_queries(metric: Metric, points: Points) -> list[Points]:
    """Return objects as queries: as they are, and as new ones, of whom no rating is known."""
    as_new = Points(points.x, points.u)
    if metric.n_classes and metric.classifier is not None:
        as_new = metric.points(points.x)
    elif points.b is None:
        return [as_new]
    return [points, as_new]


class Attempt(NamedTuple):
    """The share of the nearest that was found, and what it surely is."""

    recall: float
    sure: float


class Trial:
    """Queries, each searched for among some objects of a collection, by rows.

    Attributes
    ----------
    exact_time : float
        Seconds that exact search takes for a query that comes alone.
    row_time : float
        The same for one object.
    """

    def __init__(
        self,
        held: InMemory,
        members: NDArray[np.int64],
        queries: list[Points],
        ks: Sequence[int],
        row_time: float | None = None,
    ) -> None:
        self.held, self.members, self.queries = held, members, queries
        self.all = functools.reduce(Points.joined, queries)
        mask = np.zeros(held.objects.n, dtype=bool)
        mask[members] = True
        self.limits = held.near(self.all, ks[-1], mask).distances
        if row_time is None:
            row_time = self._seconds(lambda q: held.near(q, ks[0])) / held.objects.n
        self.row_time, self.exact_time = row_time, row_time * len(members)

    def among(self, members: NDArray[np.int64], k: int) -> Trial:
        """Return the same trial among fewer objects."""
        return Trial(self.held, members, self.queries, [k], self.row_time)

    def attempt(self, made: Proposals, k: int, effort: Effort) -> Attempt:
        """Return what an effort finds; objects as near as the k-th are as good."""
        near, _ = made.near(self.all, self.held.objects.points, k, Depth(k, effort, 1.0, 0.0))
        shares = np.mean(near.distances <= self.limits[:, k - 1 : k], axis=1)
        groups = shares.reshape(len(self.queries), -1)
        n = groups.shape[1]
        means, errors = groups.mean(axis=1), np.maximum(groups.std(axis=1) / n**0.5, DOUBT / n)
        return Attempt(float(means.min()), float((means - errors).min()))

    def tuned(
        self, made: Proposals, k: int, limit: float, recall: float
    ) -> tuple[Depth | None, float]:
        """Return the quickest way to the share ``recall``, if it takes less than ``limit`` seconds.

        The share has to be exceeded by one standard error: it is measured on a few queries. Also
        returned is the greatest share that was found.
        """
        best, greatest, least, items = None, 0.0, 0, self.held.objects.points
        for ladder in made.engine.ladders(made.index, k):
            attempts: dict[Effort, Attempt] = {}

            def surely(effort: Effort, attempts: dict[Effort, Attempt] = attempts) -> float:
                attempts[effort] = self.attempt(made, k, effort)
                return attempts[effort].sure

            steps = [effort for effort in ladder if effort[0] >= least]
            quick = _promising(steps, attempts, SLACK * limit * len(self.all))
            effort, _ = least_effort(quick, surely, recall)
            greatest = max(greatest, *(one.recall for one in attempts.values()), 0.0)
            if effort is None:
                continue
            least = least or effort[0]  # no other ladder finds enough with less
            depth = Depth(k, effort, attempts[effort].recall, 0.0)
            seconds = self._seconds(functools.partial(made.near, items=items, k=k, depth=depth))
            if seconds < limit:
                limit, best = seconds, depth._replace(worth=seconds / self.row_time)
        return best, greatest

    def _seconds(self, search: Callable[[Points], object]) -> float:
        """Return what a query takes that comes alone: the median, best of several times."""
        times = np.empty((AGAIN, min(TIMED, len(self.all))))
        for place in np.ndindex(times.shape):
            start = time.perf_counter()
            search(self.all[place[1]])
            times[place] = time.perf_counter() - start
        return float(np.median(times, axis=1).min())


def _promising(
    ladder: list[Effort], attempts: dict[Effort, Attempt], limit: float
) -> Iterator[Effort]:
    """Yield efforts until all queries take longer than ``limit``, or more finds no more."""
    best = [0.0, 0.0]
    for effort in ladder:
        start = time.perf_counter()
        yield effort
        best.append(attempts[effort].recall)
        if time.perf_counter() - start > limit or (best[-1] > 0.5 and best[-1] - best[-3] < GAIN):
            return
