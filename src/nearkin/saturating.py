"""A curve that rises ever more slowly, ``a - b n^-c``, and what it says of further data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

POWERS = np.geomspace(0.1, 2.0, 120)


@dataclass(frozen=True, eq=False)
class Saturating:
    """``a - b n^-c`` with b >= 0 and a <= 1, one curve or many: a, b, c are numbers or (m,)."""

    a: Floats
    b: Floats
    c: Floats

    @classmethod
    def fit(cls, n: ArrayLike, values: ArrayLike) -> Saturating:
        """Fit a curve to values (..., S) at sizes n (S,) by least squares.

        c is sought on a grid from 0.1 to 2; a and b, given c, are solved for exactly.
        """
        sizes, y = np.asarray(n, dtype=np.float64), np.asarray(values, dtype=np.float64)
        best = [np.full(y.shape[:-1], np.inf)] + [np.zeros(y.shape[:-1]) for _ in range(3)]
        top = sizes.max()
        for c in POWERS:
            t = (sizes / top) ** -c
            for a, b in _corners(t, y):
                allowed = (b >= 0) & (a <= 1)
                residual = y - a[..., None] + b[..., None] * t
                loss = np.where(allowed, np.sum(residual**2, axis=-1), np.inf)
                better = loss < best[0]
                found = (loss, a, b * top**c, np.full_like(a, c))
                best = [np.where(better, f, k) for f, k in zip(found, best, strict=True)]
        return cls(*best[1:])

    def at(self, n: float) -> Floats:
        """Return the value at size n."""
        value: Floats = self.a - self.b * float(n) ** -self.c
        return value

    def gain(self, n: float, more: float) -> Floats:
        """Return what ``more`` would add at size n."""
        return self.at(n + more) - self.at(n)


def _corners(t: Floats, y: Floats) -> list[tuple[Floats, Floats]]:
    """Return (a, b) of least squares in ``a - b t``: free, with b = 0, with a = 1.

    The best allowed one is among them, the problem being convex with two bounds.
    """
    flat = y.mean(axis=-1)
    centred = t - t.mean()
    slope = -(y @ centred) / (centred @ centred)
    at_1 = ((1.0 - y) @ t) / (t @ t)
    zero, one = np.zeros_like(flat), np.ones_like(flat)
    return [(flat + slope * t.mean(), slope), (flat, zero), (one, at_1)]
