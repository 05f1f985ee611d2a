"""Pair features phi(o, o'), gathered block by block.

The squared distance of each method is linear in its pair features,
``d2(o, o') = theta . phi(o, o')``, with

    phi = [ (x_k - x'_k)^2                for k = 1..K,
            u_c u'_c' + u_c' u'_c         for c < c',
            u_c u'_c                      for c = c' ]

so ``theta`` is r followed by the upper triangle of Q. phi never exists for more than one block of
pairs, and where a product with it is enough it is not formed at all.

Everything here is written against the array namespace of its inputs (the array API standard),
so the same lines serve NumPy and arrays on an accelerator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from nearkin.data import Pairs, Ratings

Array = Any


@dataclass(frozen=True)
class PairFeatures:
    """Features of pairs of objects, gathered block by block.

    Parameters
    ----------
    x : array, shape (n_objects, K)
        Features; float32 is read as it is and computed in float64.
    u : array, shape (n_objects, M), optional
        Class probabilities. Without them there are no class terms.
    names : sequence of str, optional
        Names of the columns, for messages.
    """

    x: Array
    u: Array = None
    names: tuple[str, ...] | None = None

    @property
    def xp(self) -> Any:
        """The array namespace of the features."""
        return array_namespace(self.x)

    @property
    def n_features(self) -> int:
        """K."""
        return int(self.x.shape[1])

    @property
    def n_classes(self) -> int:
        """M, or 0 without class terms."""
        return 0 if self.u is None else int(self.u.shape[1])

    @property
    def n_columns(self) -> int:
        """Length of phi: K + M (M + 1) / 2."""
        return self.n_features + self.n_classes * (self.n_classes + 1) // 2

    @cached_property
    def triangle(self) -> tuple[Array, Array]:
        """Classes (c, c'), c <= c', of each class term, as two arrays of integers."""
        first, second = np.triu_indices(self.n_classes)
        return self.integers(first), self.integers(second)

    def name(self, column: int) -> str:
        """Return the name of a column of phi."""
        if self.names is not None:
            return self.names[column]
        if column < self.n_features:
            return f"feature {column}"
        c, d = (int(side[column - self.n_features]) for side in self.triangle)
        return f"class pair ({c}, {d})"

    def zeros(self, *shape: int) -> Array:
        """Return zeros in float64 where the features live."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=device(self.x))

    def floats(self, values: Any) -> Array:
        """Return ``values`` in float64 where the features live."""
        return self.xp.asarray(values, dtype=self.xp.float64, device=device(self.x))

    def integers(self, values: Any) -> Array:
        """Return ``values`` as indices where the features live."""
        return self.xp.asarray(values, dtype=self.xp.int64, device=device(self.x))

    def pairs(self, ratings: Ratings) -> Pairs:
        """Return merged ratings as arrays beside the features."""
        merged = ratings.merged()
        a, b, level = (self.integers(v) for v in merged[:3])
        return Pairs(a, b, level, self.floats(merged.weight))

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Return r (K,) and the symmetric Q (M, M), or None, that theta stands for."""
        K, M = self.n_features, self.n_classes
        if M == 0:
            return theta, None
        xp = self.xp
        position = np.zeros((M, M), dtype=np.int64)
        upper = np.triu_indices(M)
        position[upper] = position[upper[::-1]] = np.arange(len(upper[0]))
        flat = self.integers(position.ravel())
        return theta[:K], xp.reshape(xp.take(theta[K:], flat, axis=0), (M, M))

    def join(self, r: Array, G: Array) -> Array:
        """Transpose of ``split``: gradients in r and in a full Q to one in theta."""
        if self.n_classes == 0:
            return r
        xp, (c, d) = self.xp, self.triangle
        M = self.n_classes
        upper = xp.take(xp.reshape(G, (-1,)), c * M + d, axis=0)
        lower = xp.take(xp.reshape(G, (-1,)), d * M + c, axis=0)
        return xp.concat([r, xp.where(c == d, upper, upper + lower)])


class Block:
    """Pair features of a few thousand pairs."""

    def __init__(self, features: PairFeatures, a: Array, b: Array) -> None:
        xp = self.xp = features.xp
        self.features = features
        x, u = features.x, features.u
        D = xp.astype(xp.take(x, a, axis=0), xp.float64, copy=False)
        D -= xp.astype(xp.take(x, b, axis=0), xp.float64, copy=False)
        D *= D
        self.squares = D  # (n, K)
        if u is not None:
            self.u_a, self.u_b = xp.take(u, a, axis=0), xp.take(u, b, axis=0)  # (n, M)

    def d2(self, r: Array, Q: Array) -> Array:
        """Return the squared distances (n,)."""
        # Eq. d^h: d2 = r . (x - x')^2 + u . Q u'  (n,)
        d2 = self.squares @ r
        return d2 if Q is None else d2 + self.xp.sum((self.u_a @ Q) * self.u_b, axis=1)

    def transpose(self, g: Array) -> Array:
        """Return phi.T @ g  (p,)."""
        r = self.squares.T @ g
        G = None if self.features.u is None else self.u_a.T @ (g[:, None] * self.u_b)
        return self.features.join(r, G)

    def square_sums(self, h: Array) -> Array:
        """Return (phi * phi).T @ h, the diagonal of phi.T @ diag(h) @ phi  (p,)."""
        r = (self.squares * self.squares).T @ h
        if self.features.u is None:
            return self.features.join(r, None)
        # (u_c u'_d + u_d u'_c)^2 = u_c^2 u'_d^2 + u_d^2 u'_c^2 + 2 u_c u'_c u_d u'_d
        own, both = self.u_a * self.u_a, self.u_a * self.u_b
        cross = both.T @ (h[:, None] * both)
        eye = self.xp.eye(cross.shape[0], dtype=self.xp.float64, device=device(h))
        G = own.T @ (h[:, None] * self.u_b * self.u_b) + cross * (1.0 - eye)
        return self.features.join(r, G)

    def phi(self) -> Array:
        """Return all columns, class terms written out  (n, p)."""
        if self.features.u is None:
            return self.squares
        xp, (c, d) = self.xp, self.features.triangle
        at_c, at_d = xp.take(self.u_a, c, axis=1), xp.take(self.u_a, d, axis=1)
        class_terms = at_c * xp.take(self.u_b, d, axis=1)
        class_terms += xp.where(c == d, 0.0, at_d * xp.take(self.u_b, c, axis=1))
        return xp.concat([self.squares, class_terms], axis=1)
