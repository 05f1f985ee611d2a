"""The fitted metric: distances, search vectors, exact explanations, a file without pickle.

``d2(o, o') = sum_k r_k (x_k - x'_k)^2 + u . Q u'`` is symmetric and non-negative. With a class
term it is not a metric in the strict sense: Q's diagonal may be positive, so the distance of an
object to itself need not be 0, and the triangle inequality need not hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.bundle import BundleError, read_bundle, write_bundle
from nearkin.data import UNLABELLED, check_finite, first_rows, missing_labels
from nearkin.kernel import KernelPosterior
from nearkin.pairs import Block, PairFeatures
from nearkin.points import Contributions, Points

Floats = NDArray[np.float64]
BLOCK_ELEMENTS = 2**20
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

    @property
    def n_features(self) -> int:
        """K."""
        return len(self.weights)

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
        x = self._features(X)
        if self.class_costs is None:
            return Points(x)
        codes = self._codes(y, len(x))
        u = np.zeros((len(x), len(self.class_costs)))
        known = codes != UNLABELLED
        u[known, codes[known]] = 1.0
        if not known.all():
            u[~known] = (
                self._posterior(x, proba)[~known]
                if proba is not None
                else (self._posterior(x[~known], None))
            )
        return Points(x, u)

    def _features(self, X: ArrayLike) -> Floats:
        names = getattr(X, "columns", None)
        if names is not None and self.feature_names is not None:
            found = tuple(str(name) for name in names)
            if found != self.feature_names:
                raise ValueError(
                    f"Metric.points: the columns of X are {found[:5]}..., the metric was fitted "
                    f"on {self.feature_names[:5]}...; pass the same features in the same order."
                )
        x = np.asarray(X)
        if x.dtype != np.float32:
            x = x.astype(np.float64)
        if x.ndim != 2 or x.shape[1] != self.n_features:
            raise ValueError(
                f"Metric.points: X has shape {x.shape}; this metric was fitted on "
                f"{self.n_features} features, so pass shape (n, {self.n_features})."
            )
        check_finite(x, "Metric.points")
        return x

    def _codes(self, y: ArrayLike | None, n: int) -> NDArray[np.int64]:
        codes = np.full(n, UNLABELLED, dtype=np.int64)
        if y is None or self.classes is None:
            return codes
        labels = np.asarray(y)
        if labels.shape != (n,):
            raise ValueError(f"Metric.points: X has {n} rows but y has shape {labels.shape}.")
        code_of = {name: code for code, name in enumerate(self.classes.tolist())}
        known = ~missing_labels(labels)
        codes[known] = [code_of.get(label, -2) for label in labels[known].tolist()]
        unseen = codes == -2
        if unseen.any():
            raise ValueError(
                f"Metric.points: unseen classes {sorted(set(labels[unseen].tolist()), key=str)} in "
                f"rows {first_rows(unseen)}; the metric knows {self.classes.tolist()}. Pass None "
                "to use the classifier's posterior instead."
            )
        return codes

    def _posterior(self, x: Floats, proba: ArrayLike | None) -> Floats:
        M = 0 if self.class_costs is None else len(self.class_costs)
        if proba is None:
            if self.classifier is None:
                raise ValueError(
                    "Metric.points: some objects have no label and this metric has no classifier "
                    "(a classifier that is not nearkin's is not saved with a metric); pass "
                    "proba=classifier.predict_proba(X), or give every label."
                )
            proba = self.classifier.predict_proba(x)
        u = np.asarray(proba, dtype=np.float64)
        if u.shape != (len(x), M) or not np.isfinite(u).all() or (u < 0).any():
            raise ValueError(
                f"Metric.points: class probabilities must be finite, non-negative and of shape "
                f"{(len(x), M)}; found shape {u.shape}."
            )
        return u

    def _embedded(self, points: Points) -> Floats:
        """Return ``sqrt(r) (x - center)``  (n, K)."""
        x = points.x.astype(np.float64)
        if self.center is not None:
            x -= self.center
        x *= np.sqrt(self.weights)
        return x

    def _class_side(self, points: Points) -> Floats:
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
                d2 += self._class_side(q)[at] @ self.class_costs @ self._class_side(p).T
        return out if squared else np.sqrt(out, out=out)

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
        d2 = np.concatenate([np.empty(0), *self._pair_blocks(q, p, a, b)])
        return d2 if squared else np.sqrt(d2)

    def _pair_blocks(
        self, q: Points, p: Points, a: NDArray[Any], b: NDArray[Any]
    ) -> Iterator[Floats]:
        rows = max(1, BLOCK_ELEMENTS // self.n_features)
        for start in range(0, len(a), rows):
            left, right = q[a[start : start + rows]], p[b[start : start + rows]]
            both = Points(
                np.concatenate([left.x, right.x]),
                None
                if self.class_costs is None
                else np.concatenate([self._class_side(left), self._class_side(right)]),
            )
            ends = np.arange(len(left))
            block = Block(PairFeatures(both.x, both.u), ends, ends + len(left))
            yield block.d2(self.weights, self.class_costs)

    def query_vectors(self, q: Points) -> Floats:
        """Return vectors whose inner product with item vectors ranks: larger is nearer.

        ``query @ item = |sqrt(r) x_q|^2 - d2``, the first term being the query's alone
        (K + 1 + M columns, or K + 1 without a class term).
        """
        A = self._embedded(q)
        parts = [2.0 * A, -np.ones((len(A), 1))]
        if self.class_costs is not None:
            parts.append(-self._class_side(q))
        return np.concatenate(parts, axis=1)

    def item_vectors(self, p: Points) -> Floats:
        """Return the item side of ``query_vectors``."""
        B = self._embedded(p)
        parts = [B, np.sum(B * B, axis=1, keepdims=True)]
        if self.class_costs is not None:
            parts.append(self._class_side(p) @ self.class_costs)
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
            # u_c Q_cc' u'_c'  (n, M, M)
            u_q, u_p = self._class_side(q), self._class_side(p)
            class_pairs = u_q[:, :, None] * self.class_costs * u_p[:, None, :]
        names = self.feature_names or tuple(f"x{k}" for k in range(self.n_features))
        return Contributions(self.weights * difference**2, class_pairs, names, self.classes)

    def save(self, path: str | Path) -> None:
        """Write the metric to one file that holds no code: JSON and plain arrays.

        nearkin's own classifier is kept exactly, with the features of its labelled objects. Any
        other classifier is not saved, and a warning says so.
        """
        arrays = {"weights": self.weights}
        for name in ("class_costs", "center"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        kept = hasattr(self.classifier, "arrays")
        if kept:
            arrays |= {f"classifier_{k}": v for k, v in self.classifier.arrays().items()}
        elif self.classifier is not None:
            warnings.warn(
                f"Metric.save: the classifier {type(self.classifier).__name__} is not saved with "
                "the metric; keep it yourself and pass points(X, proba=...) after loading.",
                UserWarning,
                stacklevel=2,
            )
        header = {
            "kind": "nearkin metric",
            "feature_names": self.feature_names,
            "classes": None if self.classes is None else self.classes.tolist(),
            "classifier": {
                "saved": kept,
                "type": None if self.classifier is None else type(self.classifier).__name__,
            },
            "provenance": dict(self.provenance),
        }
        write_bundle(path, header, arrays)


def load_metric(path: str | Path) -> Metric:
    """Read a metric that ``Metric.save`` wrote. Nothing in the file is executed."""
    header, arrays = read_bundle(path, "nearkin metric")
    try:
        metric = _restored(header, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BundleError(f"{path} is not a complete nearkin metric: {error}") from error
    return metric


def _restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Metric:
    weights, Q, center = arrays["weights"], arrays.get("class_costs"), arrays.get("center")
    K, names = len(weights), header["feature_names"]
    _require(weights.ndim == 1 and (weights >= 0).all(), "weights must be (K,) and >= 0")
    _require(names is None or len(names) == K, "one feature name for each weight")
    _require(center is None or center.shape == (K,), "center must be (K,)")
    classes = None if header["classes"] is None else np.array(header["classes"])
    classifier = None
    if Q is not None:
        _require(classes is not None and Q.shape == (len(classes),) * 2, "Q must be (M, M)")
        _require(bool((Q >= 0).all()) and np.array_equal(Q, Q.T), "Q must be symmetric and >= 0")
        if header["classifier"]["saved"]:
            parts = (arrays[f"classifier_{name}"] for name in ("x", "codes", "weights"))
            classifier = KernelPosterior.restored(len(Q), *parts)
            _require(classifier.x.shape[1] == K, "classifier features")
    return Metric(
        weights,
        Q,
        classes,
        classifier,
        center,
        None if names is None else tuple(str(name) for name in names),
        header["provenance"],
    )


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)
