"""The fitted metric: distances, search vectors, exact explanations, a file without pickle.

``d2(o, o') = sum_k r_k (x_k - x'_k)^2 + u . Q u'`` is symmetric and non-negative. With a class
term it is not a metric in the strict sense: Q's diagonal may be positive, so the distance of an
object to itself need not be 0, and the triangle inequality need not hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.bundle import write_bundle
from nearkin.data import UNLABELLED
from nearkin.points import (
    Contributions,
    Points,
    class_codes,
    class_probabilities,
    read_queries,
)

Floats = NDArray[np.float64]
BLOCK_ELEMENTS = 2**20
KIND = "nearkin metric"
CANCELLED = 1e-4  # relative size of a squared distance below which a product lost its digits


@dataclass(frozen=True, eq=False)
class Metric:
    """A learned distance.

    Parameters
    ----------
    weights : ndarray, shape (K,)
        r, the weights of the features.
    class_costs : ndarray, shape (M, M), optional
        Q, symmetric and non-negative; None without a class term.
    classes : ndarray, shape (M,), optional
        Names of the classes, in the order of Q.
    classifier : object with ``predict_proba``, optional
        Gives the class probabilities of objects without a label.
    center : ndarray, shape (K,), optional
        Subtracted before products are taken, for precision; distances do not depend on it.
    feature_names : sequence of str, optional
        Names of the features.
    provenance : dict, optional
        How the metric was fitted; travels with the file.
    profiled : bool, default=False
        Whether database objects carry profiles, which search vectors then hold, too.
    completion : ndarray, shape (M + K, J), optional
        Predicts J features that nobody measured, ``z = [u, x - center] @ completion``. They stand
        behind the K given ones, so that ``weights`` and ``center`` have K + J entries.

    Examples
    --------
    >>> import numpy as np
    >>> from nearkin import Metric
    >>> metric = Metric(weights=np.array([1.0, 4.0]))
    >>> p = metric.points([[0.0, 0.0], [3.0, 2.0]])
    >>> metric.distances(p, p)
    array([[0., 5.],
           [5., 0.]])
    """

    weights: Floats
    class_costs: Floats | None = None
    classes: NDArray[Any] | None = None
    classifier: Any = None
    center: Floats | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    profiled: bool = False
    completion: Floats | None = None

    def __post_init__(self) -> None:
        for name in ("weights", "class_costs", "center", "completion"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, np.array(value, dtype=np.float64))
        if self.classes is not None:
            object.__setattr__(self, "classes", np.asarray(self.classes))
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(str(n) for n in self.feature_names))
        self._check_shapes()

    def _check_shapes(self) -> None:
        r, Q, K = self.weights, self.class_costs, np.size(self.weights)
        require(r.ndim == 1 and np.isfinite(r).all() and (r >= 0).all(), "weights: (K,) and >= 0")
        names = self.feature_names
        require(names is None or len(names) == self.n_given, "feature_names: one for each weight")
        require(self.center is None or self.center.shape == (K,), "center: (K,)")
        if Q is not None:
            M = 0 if self.classes is None else len(self.classes)
            require(Q.shape == (M, M), "class_costs: (M, M), one row for each of classes")
            require(np.isfinite(Q).all() and (Q >= 0).all(), "class_costs: finite and >= 0")
            require(np.array_equal(Q, Q.T), "class_costs: symmetric")
        if self.completion is not None:
            fits = Q is not None and self.center is not None and np.isfinite(self.completion).all()
            rows = self.n_classes + self.n_given
            require(fits and len(self.completion) == rows, "completion: (M + K, J), and finite")

    @property
    def n_features(self) -> int:
        """Features of points: K, and J that are predicted."""
        return len(self.weights)

    @property
    def n_given(self) -> int:
        """K: the features that an object is given by."""
        return self.n_features - (0 if self.completion is None else self.completion.shape[1])

    def points(
        self, X: ArrayLike, y: ArrayLike | None = None, *, proba: ArrayLike | None = None
    ) -> Points:
        """Return objects as points of this metric.

        Parameters
        ----------
        X : array-like, shape (n, K)
            Features.
        y : array-like, shape (n,), optional
            Labels, missing ones as None, NaN or -1. A known label counts as certain; elsewhere
            the classifier's posterior is used.
        proba : array-like, shape (n, M), optional
            Class probabilities to use in place of the classifier's.
        """
        x = read_queries(X, self.n_given, self.feature_names)
        if self.class_costs is None or self.classes is None:
            return Points(x)
        codes = class_codes(y, self.classes, len(x))
        known = codes != UNLABELLED
        u = np.zeros((len(x), len(self.classes)))
        if proba is not None:
            u = class_probabilities(proba, u.shape).copy()
        elif not known.all():
            u[~known] = self._posterior(x[~known])
        u[known] = np.eye(len(self.classes))[codes[known]]
        if self.completion is None:
            return Points(x, u)
        # z = [u, x - center] @ completion  (n, J)
        z = np.hstack([u, x - np.asarray(self.center)[: self.n_given]]) @ self.completion
        return Points(np.hstack([x, z.astype(x.dtype)]), u)

    def _posterior(self, x: Floats) -> Floats:
        if self.classifier is None:
            raise ValueError(
                "Metric.points: some objects have no label and this metric has no classifier "
                "(a classifier that is not nearkin's is not saved with a metric); pass "
                "proba=classifier.predict_proba(X), or give every label."
            )
        return class_probabilities(self.classifier.predict_proba(x), (len(x), self.n_classes))

    @property
    def n_classes(self) -> int:
        """M, or 0 without a class term."""
        return 0 if self.class_costs is None else len(self.class_costs)

    def _embedded(self, points: Points) -> Floats:
        """Return ``sqrt(r) (x - center)``  (n, K)."""
        if not isinstance(points, Points):
            raise TypeError(
                f"Metric: got a {type(points).__name__}; turn objects into points with "
                "metric.points(X) first."
            )
        x = points.x.astype(np.float64)
        if self.center is not None:
            x -= self.center
        x *= np.sqrt(self.weights)
        return x

    @staticmethod
    def class_side(points: Points) -> Floats:
        """Return u, or say that these points have none  (n, M)."""
        if points.u is None:
            raise ValueError(
                "Metric: these points carry no class probabilities; make them with metric.points."
            )
        return points.u

    def distances(self, q: Points, p: Points, *, squared: bool = False) -> Floats:
        """Return the distance of every query to every item  (n_q, n_p)."""
        A, B = self._embedded(q), self._embedded(p)
        norm_a, norm_b = np.sum(A * A, axis=1), np.sum(B * B, axis=1)
        out = np.empty((len(A), len(B)))
        rows = max(1, BLOCK_ELEMENTS // max(len(B), 1))
        for start in range(0, len(A), rows):
            at = slice(start, start + rows)
            d2 = np.matmul(A[at], B.T, out=out[at])
            size = norm_a[at, None] + norm_b
            d2 *= -2.0
            d2 += size
            self._restore_digits(d2, size, A[at], B)
            if self.class_costs is not None:
                d2 += self._class_part(q[at], p)
        if q.b is not None or p.b is not None:
            np.maximum(out, 0.0, out=out)  # two rated objects; a new one is never below 0
        return out if squared else np.sqrt(out, out=out)

    def _class_part(self, q: Points, p: Points) -> Floats:
        """Return ``u . Q u' + u . b' + b . u'`` of every query and item  (n_q, n_p)."""
        u_q, u_p, Q = self.class_side(q), self.class_side(p), self.class_costs
        part: Floats = u_q @ (u_p @ np.asarray(Q) + p.profiles()).T
        return part if q.b is None else part + q.b @ u_p.T

    @staticmethod
    def _restore_digits(d2: Floats, size: Floats, A: Floats, B: Floats) -> None:
        """Recompute by differences what |a|^2 + |b|^2 - 2 a.b lost to cancellation."""
        i, j = np.nonzero(d2 < CANCELLED * size)
        rows = max(1, BLOCK_ELEMENTS // max(A.shape[1], 1))
        for start in range(0, len(i), rows):
            at = slice(start, start + rows)
            difference = A[i[at]] - B[j[at]]
            d2[i[at], j[at]] = np.sum(difference * difference, axis=1)

    def pair_distances(
        self,
        q: Points,
        p: Points,
        a: ArrayLike | None = None,
        b: ArrayLike | None = None,
        *,
        squared: bool = False,
    ) -> Floats:
        """Return the distance of query a[i] to item b[i]; row i to row i by default  (n,)."""
        a = np.arange(len(q)) if a is None else np.asarray(a)
        b = np.arange(len(p)) if b is None else np.asarray(b)
        if a.shape != b.shape:
            raise ValueError(
                f"Metric.pair_distances: {a.shape} queries against {b.shape} items; pass as many "
                "of one as of the other."
            )
        rows = max(1, BLOCK_ELEMENTS // self.n_features)
        starts = range(0, len(a), rows)
        blocks = (self._pair_block(q, p, a[s : s + rows], b[s : s + rows]) for s in starts)
        d2: Floats = np.concatenate([np.empty(0), *blocks])
        np.maximum(d2, 0.0, out=d2)
        return d2 if squared else np.sqrt(d2)

    def _pair_block(self, q: Points, p: Points, a: NDArray[Any], b: NDArray[Any]) -> Floats:
        """Return d2 of a few pairs; sums along rows give equal pairs equal bits anywhere."""
        # Eq. d^h: d2 = r . (x - x')^2 + u . Q u' + u . b' + b . u'  (n,)
        squares = q.x[a].astype(np.float64)
        squares -= p.x[b]
        squares *= squares
        squares *= self.weights
        d2: Floats = squares.sum(axis=1)
        if self.class_costs is not None:
            rows, of_pair = np.unique(a, return_inverse=True)
            left, right = q[rows], p[b]
            costs = self.class_side(left) @ self.class_costs + left.profiles()
            d2 += (costs[of_pair] * self.class_side(right)).sum(axis=1)
            if right.b is not None:
                d2 += (self.class_side(left)[of_pair] * right.b).sum(axis=1)
        return d2

    def query_vectors(self, q: Points) -> Floats:
        """Return vectors whose inner product with item vectors ranks: larger is nearer.

        ``query @ item = |sqrt(r) x_q|^2 - d2``, the first term being the query's alone. K + 1
        columns, M more with a class term, M more again where the metric has profiles.
        """
        A = self._embedded(q)
        parts = [2.0 * A, -np.ones((len(A), 1))]
        if self.class_costs is not None:
            parts.append(-self.class_side(q))
            if self.profiled:
                parts.append(-q.profiles())
        return np.concatenate(parts, axis=1)

    def item_vectors(self, p: Points) -> Floats:
        """Return the item side of ``query_vectors``."""
        B = self._embedded(p)
        parts = [B, np.sum(B * B, axis=1, keepdims=True)]
        if self.class_costs is not None:
            u = self.class_side(p)
            parts.append(u @ self.class_costs + p.profiles())
            if self.profiled:
                parts.append(u)
        return np.concatenate(parts, axis=1)

    def contributions(self, q: Points, p: Points) -> Contributions:
        """Return the exact addends of d2 for row i of q against row i of p."""
        if len(q) != len(p):
            raise ValueError(
                f"Metric.contributions: {len(q)} queries against {len(p)} items; pass pairs."
            )
        difference = q.x.astype(np.float64) - p.x
        class_pairs = None
        if self.class_costs is not None:
            # u_c Q_cc' u'_c' + (u_c b'_c) u'_c' + u_c (b_c' u'_c')  (n, M, M): u and u' sum to 1
            u_q, u_p = self.class_side(q), self.class_side(p)
            costs = self.class_costs + p.profiles()[:, :, None] + q.profiles()[:, None, :]
            class_pairs = u_q[:, :, None] * costs * u_p[:, None, :]
        names = self.feature_names or tuple(f"x{k}" for k in range(self.n_given))
        names += tuple(f"unmeasured {j + 1}" for j in range(self.n_features - self.n_given))
        return Contributions(self.weights * difference**2, class_pairs, names, self.classes)

    def save(self, path: str | Path, points: Points | None = None) -> None:
        """Write the metric to one file that holds no code: JSON and plain arrays.

        nearkin's own classifier is kept exactly, with the features of its labelled objects. Any
        other classifier is not saved, and a warning says so. ``points``, such as ``est.points_``,
        go along for ``load_points``.
        """
        header, parts = self.header(), self.arrays()
        if points is not None:
            parts |= {f"points_{name}": getattr(points, name) for name in ("x", "u", "b")}
        if self.classifier is not None and not header["classifier"]["saved"]:
            warnings.warn(
                f"Metric.save: the classifier {type(self.classifier).__name__} is not saved with "
                "the metric; keep it yourself and pass points(X, proba=...) after loading.",
                UserWarning,
                stacklevel=2,
            )
        write_bundle(path, header, {k: v for k, v in parts.items() if v is not None})

    def header(self) -> dict[str, Any]:
        """Return what a file says of the metric beside its arrays."""
        return {
            "kind": KIND,
            "feature_names": self.feature_names,
            "classes": None if self.classes is None else self.classes.tolist(),
            "classifier": {
                "saved": hasattr(self.classifier, "arrays"),
                "type": None if self.classifier is None else type(self.classifier).__name__,
            },
            "profiled": self.profiled,
            "provenance": dict(self.provenance),
        }

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a file by name; None where the metric has none."""
        names = ("weights", "class_costs", "center", "completion")
        parts = {name: getattr(self, name) for name in names}
        if hasattr(self.classifier, "arrays"):
            parts |= {f"classifier_{k}": v for k, v in self.classifier.arrays().items()}
        return parts


def require(condition: Any, what: str) -> None:
    """Raise an error unless a metric's parts are what they must be."""
    if not condition:
        raise ValueError(f"Metric: expected {what}.")
