"""Takes pairs to rate one by one, each the one that makes what is uncertain smallest.

What is to become small is ``V = sum of weight var d2`` over the pairs of a ``Focus``, and each
rating changes it by a rank-one update of the posterior.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.data import Pairs
from nearkin.information import OrdinalView, Posterior, seen_from, sum_of_squares

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Focus(NamedTuple):
    """Queries and their nearest objects, (n,) each, with the weight of the pair's variance."""

    query: Integers
    item: Integers
    weight: Floats


class Greedy:
    """Takes pairs one by one, each the best after those before it."""

    def __init__(
        self, view: OrdinalView, posterior: Posterior, focus: Focus, a: Integers, b: Integers
    ) -> None:
        self.posterior, self.a, self.b = posterior, a, b
        pairs = Pairs(focus.query, focus.item, np.ones_like(focus.query), focus.weight)
        self.W = sum_of_squares(posterior.features, pairs)
        self.W_own = np.empty((0, 0, 0))
        if posterior.own is not None:
            # only the item's profile: as a query an object is new
            self.W_own = seen_from(posterior.u, focus.item, focus.query, focus.weight)
        self.total = self.variance()
        self.h = view.information(a, b)
        self.shared, self.shared_moved = posterior.shared_variance(a, b, self.W)
        self.own, self.own_moved = np.zeros(len(a)), np.zeros(len(a))
        self.look(np.arange(len(a)))

    def variance(self) -> float:
        """Return V."""
        V = float(np.sum(self.W * self.posterior.shared))
        if self.posterior.own is not None:
            V += float(np.sum(self.W_own * self.posterior.own))
        return V

    def look(self, rows: Integers) -> None:
        """Bring what the own profiles of some pairs say up to date."""
        a, b = self.a[rows], self.b[rows]
        of_a = self.posterior.own_variance(a, b, self.W_own)
        of_b = self.posterior.own_variance(b, a, self.W_own)
        self.own[rows], self.own_moved[rows] = (x + y for x, y in zip(of_a, of_b, strict=True))

    def reductions(self) -> Floats:
        """Return by how much a rating of each pair would reduce V  (n,)."""
        # V - V' = h g' S W S g / (1 + h g' S g)
        moved = self.shared_moved + self.own_moved
        out: Floats = self.h * moved / (1.0 + self.h * (self.shared + self.own))
        return out

    def take(self, n: int, most: int) -> tuple[Integers, Floats, Floats]:
        """Return the rows of n pairs, their shares of V, and the nats they tell."""
        free = np.ones(len(self.a), dtype=bool)
        times = np.zeros(len(self.posterior.u), dtype=np.int64)
        rows, gains, nats = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
        for at in range(n):
            fresh = free & (np.maximum(times[self.a], times[self.b]) < most)
            while not fresh.any():
                most += 1  # as few more than asked as there must be
                fresh = free & (np.maximum(times[self.a], times[self.b]) < most)
            reductions = self.reductions()
            row = int(np.argmax(np.where(fresh, reductions, -np.inf)))
            rows[at], gains[at] = row, reductions[row] / (self.total or 1.0)
            nats[at] = 0.5 * np.log1p(self.h[row] * (self.shared[row] + self.own[row]))
            free[row] = False
            times[self.a[row]] += 1
            times[self.b[row]] += 1
            self.learn(row)
        return rows, gains, nats

    def learn(self, row: int) -> None:
        """Take in that a pair will be rated: rank-one updates."""
        i, j = int(self.a[row]), int(self.b[row])
        before = self.posterior.shared.copy()
        step, f = self.posterior.learn(i, j, float(self.h[row]))
        # phi' S' W S' phi with S' = S - f s s', s = S phi_ij
        Ws = self.W @ step
        along, across = self.posterior.products(self.a, self.b, step, before @ Ws)
        self.shared -= f * along**2
        self.shared_moved += f * along * (f * along * float(step @ Ws) - 2.0 * across)
        touched = (self.a == i) | (self.b == i) | (self.a == j) | (self.b == j)
        if self.posterior.own is not None:
            self.look(np.flatnonzero(touched))
