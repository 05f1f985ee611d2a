"""Objects as a metric sees them, and the addends of the distance between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.data import UNLABELLED, as_labels, check_finite, first_rows, missing_labels

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """Objects as a metric sees them.

    Features ``x`` (n, K), class probabilities ``u`` (n, M), and profiles ``b`` (n, M): what ratings
    said of the object itself, 0 for a new one.
    """

    x: Floats
    u: Floats | None = None
    b: Floats | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Any) -> Points:
        """Return the points in ``rows``, a single row number included."""
        rows = [int(rows)] if np.ndim(rows) == 0 and not isinstance(rows, slice) else rows
        u, b = (None if part is None else part[rows] for part in (self.u, self.b))
        return Points(self.x[rows], u, b)

    def joined(self, other: Points) -> Points:
        """Return these points and then the others."""
        u = None if self.u is None or other.u is None else np.concatenate([self.u, other.u])
        b = None
        if u is not None and (self.b is not None or other.b is not None):
            b = np.concatenate([self.profiles(), other.profiles()])
        return Points(np.concatenate([self.x, other.x]), u, b)

    def profiles(self) -> Floats:
        """Return b, zeros where there is none."""
        none: Floats = np.zeros_like(self.u) if self.b is None else self.b
        return none


@dataclass(frozen=True, eq=False)
class Contributions:
    """The addends of d2 for pairs of points; together they sum to ``total``.

    ``features`` is (n, K); ``class_pairs`` (n, M, M), row for the query's class and column for
    the item's, or None without a class term.
    """

    features: Floats
    class_pairs: Floats | None
    feature_names: tuple[str, ...]
    classes: NDArray[Any] | None

    @property
    def total(self) -> Floats:
        """d2 of each pair (n,)."""
        total: Floats = self.features.sum(axis=1)
        return total if self.class_pairs is None else total + self.class_pairs.sum(axis=(1, 2))

    def named(self, row: int = 0) -> list[tuple[str, float]]:
        """Return (name, addend) of one pair, largest first."""
        rows = list(zip(self.feature_names, self.features[row].tolist(), strict=True))
        if self.class_pairs is not None and self.classes is not None:
            rows += [
                (f"class {c} - {d}", value)
                for c, line in zip(self.classes, self.class_pairs[row].tolist(), strict=True)
                for d, value in zip(self.classes, line, strict=True)
            ]
        return sorted(rows, key=lambda item: -item[1])


def read_queries(X: ArrayLike, K: int, names: tuple[str, ...] | None) -> Floats:
    """Return features of new objects, a copy, once they are known to be the metric's."""
    columns = getattr(X, "columns", None)
    if columns is not None and names is not None:
        found = tuple(str(name) for name in columns)
        if found != names:
            raise ValueError(
                f"Metric.points: the columns of X are {found[:5]}..., the metric was fitted on "
                f"{names[:5]}...; pass the same features in the same order."
            )
    if hasattr(X, "toarray"):
        raise TypeError("Metric.points: X is a sparse matrix; pass X.toarray().")
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    try:
        x: NDArray[Any] = np.array(X, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Metric.points: X must hold numbers only: {error}") from error
    if x.ndim != 2 or x.shape[1] != K:
        raise ValueError(
            f"Metric.points: X has shape {x.shape}; this metric was fitted on {K} features, so "
            f"pass shape (n, {K})."
        )
    check_finite(x, "Metric.points")
    return x


def class_codes(y: ArrayLike | None, classes: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return the class of each label, -1 where it is missing."""
    codes = np.full(n, UNLABELLED, dtype=np.int64)
    if y is None:
        return codes
    labels = as_labels(y)
    if labels.shape != (n,):
        raise ValueError(f"Metric.points: X has {n} rows but y has shape {labels.shape}.")
    code_of = {name: code for code, name in enumerate(classes.tolist())}
    known = ~missing_labels(labels)
    codes[known] = [code_of.get(label, -2) for label in labels[known].tolist()]
    unseen = codes == -2
    if unseen.any():
        raise ValueError(
            f"Metric.points: unseen classes {sorted(set(labels[unseen].tolist()), key=str)} in "
            f"rows {first_rows(unseen)}; the metric knows {classes.tolist()}. Pass None to use "
            "the classifier's posterior instead."
        )
    return codes


def class_probabilities(proba: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return class probabilities once they are known to be some."""
    u = np.asarray(proba, dtype=np.float64)
    sums_to_1 = u.shape == shape and np.allclose(u.sum(axis=1), 1.0, atol=1e-6)
    if not sums_to_1 or not np.isfinite(u).all() or (u < 0).any():
        raise ValueError(
            f"Metric.points: class probabilities must be finite, non-negative, of shape {shape} "
            f"and sum to 1 in each row; found shape {u.shape}."
        )
    return u
