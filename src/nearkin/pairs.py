"""Pair features phi(o, o'), gathered block by block.

The squared distance of each method is linear in its pair features,
``d2(o, o') = theta . phi(o, o')``, with

    phi = [ (x_k - x'_k)^2                for k = 1..K,
            u_c u'_c' + u_c' u'_c         for c < c',
            u_c u'_c                      for c = c' ]

so ``theta`` is r followed by the upper triangle of Q. Where objects are to have profiles of their
own (``missing.py``), a column for each object j and class c follows, u'_c for the pair (j, o') and
0 for a pair without j. phi never exists for more than one block of
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
    class_ridge : float, default=0.0
        How strongly learners should shrink Q to one cost for all pairs of different classes.
    profiled : array of int, shape (n_profiles,), optional
        Objects with a profile of their own, in ascending order.
    profile_ridge : float, default=1.0
        How strongly learners should shrink the profiles to 0.
    """

    x: Array
    u: Array = None
    names: tuple[str, ...] | None = None
    class_ridge: float = 0.0
    profiled: Array = None
    profile_ridge: float = 1.0

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
        """Length of phi: K + M (M + 1) / 2, and M for each profile."""
        return self.n_shared + self.n_profiles * self.n_classes

    @property
    def n_shared(self) -> int:
        """Columns that all objects share: K + M (M + 1) / 2."""
        return self.n_features + self.n_classes * (self.n_classes + 1) // 2

    @property
    def n_profiles(self) -> int:
        """Objects with a profile of their own."""
        return 0 if self.profiled is None else int(self.profiled.shape[0])

    @cached_property
    def slot(self) -> Array:
        """Which profile each object has; ``n_profiles`` where it has none."""
        slot = np.full(self.x.shape[0], self.n_profiles)
        slot[np.asarray([int(j) for j in self.profiled])] = np.arange(self.n_profiles)
        return self.integers(slot)

    @cached_property
    def lower(self) -> Array:
        """Bounds of the coefficients: 0, and none for profiles."""
        free = self.zeros(self.n_columns - self.n_shared) - self.xp.inf
        return self.xp.concat([self.zeros(self.n_shared), free])

    @cached_property
    def triangle(self) -> tuple[Array, Array]:
        """Classes (c, c'), c <= c', of each class term, as two arrays of integers."""
        first, second = np.triu_indices(self.n_classes)
        return self.integers(first), self.integers(second)

    def name(self, column: int) -> str:
        """Return the name of a column of phi."""
        if self.names is not None and column < self.n_shared:
            return self.names[column]
        if column < self.n_features:
            return f"feature {column}"
        if column >= self.n_shared:
            j, c = divmod(column - self.n_shared, self.n_classes)
            return f"profile of object {int(self.profiled[j])} for class {c}"
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

    def shrinkage(self) -> tuple[Array, Array]:
        """Return the ridge of each column, and which columns share a common cost q.

        With ``Q = q (1 - I) + deviations``, learners should add ``class_ridge / 2`` times the
        squared deviations, at the best q: the mean cost of two different classes.
        """
        xp, (c, d) = self.xp, self.triangle
        different = xp.astype(c != d, xp.float64)
        ridge, free = self.class_ridge, self.zeros(self.n_features)
        profiles = self.zeros(self.n_columns - self.n_shared)
        diagonal = [free, xp.zeros_like(different) + ridge, profiles + self.profile_ridge]
        return xp.concat(diagonal), xp.concat([free, different, profiles])

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return r (K,), the symmetric Q (M, M) and profiles (n_profiles, M), or None for each."""
        K, M = self.n_features, self.n_classes
        if M == 0:
            return theta, None, None
        xp = self.xp
        position = np.zeros((M, M), dtype=np.int64)
        upper = np.triu_indices(M)
        position[upper] = position[upper[::-1]] = np.arange(len(upper[0]))
        flat = self.integers(position.ravel())
        Q = xp.reshape(xp.take(theta[K:], flat, axis=0), (M, M))
        if self.profiled is None:
            return theta[:K], Q, None
        return theta[:K], Q, xp.reshape(theta[self.n_shared :], (self.n_profiles, M))

    def join(self, r: Array, G: Array, H: Array = None) -> Array:
        """Transpose of ``split``: gradients in r, a full Q and profiles to one in theta."""
        if self.n_classes == 0:
            return r
        xp, (c, d) = self.xp, self.triangle
        M = self.n_classes
        upper = xp.take(xp.reshape(G, (-1,)), c * M + d, axis=0)
        lower = xp.take(xp.reshape(G, (-1,)), d * M + c, axis=0)
        parts = [r, xp.where(c == d, upper, upper + lower)]
        return xp.concat(parts if H is None else [*parts, xp.reshape(H, (-1,))])


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
        if features.profiled is not None:
            self.slots = [xp.take(features.slot, end, axis=0) for end in (a, b)]

    def d2(self, r: Array, Q: Array = None, B: Array = None) -> Array:
        """Return the squared distances (n,)."""
        # Eq. d^h: d2 = r . (x - x')^2 + u . Q u'  (n,)
        xp, d2 = self.xp, self.squares @ r
        if Q is not None:
            d2 = d2 + xp.sum((self.u_a @ Q) * self.u_b, axis=1)
        if B is not None:
            # profiles b of either end: + u . b' + b . u'
            B = xp.concat([B, xp.zeros_like(B[:1, :])])
            b_a, b_b = (xp.take(B, slot, axis=0) for slot in self.slots)
            d2 = d2 + xp.sum(self.u_a * b_b + b_a * self.u_b, axis=1)
        return d2

    def members(self) -> tuple[Array, Array]:
        """Return which profile each end has, as indicators  (n, n_profiles) each."""
        xp, n = self.xp, self.features.n_profiles
        every = xp.arange(n, device=device(self.squares))
        a, b = (xp.astype(slot[:, None] == every, xp.float64) for slot in self.slots)
        return a, b

    def profile_sums(self, from_a: Array, from_b: Array) -> Array:
        """Add rows up for the profile of their other end; None without profiles."""
        if self.features.profiled is None:
            return None
        a, b = self.members()
        return a.T @ from_b + b.T @ from_a  # (n_profiles, M)

    def transpose(self, g: Array) -> Array:
        """Return phi.T @ g  (p,)."""
        r = self.squares.T @ g
        if self.features.u is None:
            return self.features.join(r, None)
        from_a, from_b = g[:, None] * self.u_a, g[:, None] * self.u_b
        return self.features.join(r, self.u_a.T @ from_b, self.profile_sums(from_a, from_b))

    def square_sums(self, h: Array) -> Array:
        """Return (phi * phi).T @ h, the diagonal of phi.T @ diag(h) @ phi  (p,)."""
        r = (self.squares * self.squares).T @ h
        if self.features.u is None:
            return self.features.join(r, None)
        # (u_c u'_d + u_d u'_c)^2 = u_c^2 u'_d^2 + u_d^2 u'_c^2 + 2 u_c u'_c u_d u'_d
        own, both = self.u_a * self.u_a, self.u_a * self.u_b
        cross = both.T @ (h[:, None] * both)
        eye = self.xp.eye(cross.shape[0], dtype=self.xp.float64, device=device(h))
        from_a, from_b = h[:, None] * own, h[:, None] * self.u_b * self.u_b
        G = own.T @ from_b + cross * (1.0 - eye)
        return self.features.join(r, G, self.profile_sums(from_a, from_b))

    def phi(self) -> Array:
        """Return all columns, class terms written out  (n, p)."""
        if self.features.u is None:
            return self.squares
        xp, (c, d) = self.xp, self.features.triangle
        at_c, at_d = xp.take(self.u_a, c, axis=1), xp.take(self.u_a, d, axis=1)
        class_terms = at_c * xp.take(self.u_b, d, axis=1)
        class_terms += xp.where(c == d, 0.0, at_d * xp.take(self.u_b, c, axis=1))
        if self.features.profiled is None:
            return xp.concat([self.squares, class_terms], axis=1)
        a, b = self.members()
        profiles = a[:, :, None] * self.u_b[:, None, :] + b[:, :, None] * self.u_a[:, None, :]
        profiles = xp.reshape(profiles, (a.shape[0], -1))
        return xp.concat([self.squares, class_terms, profiles], axis=1)
