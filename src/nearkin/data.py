"""Ratings, labels and features: what a user hands in, validated here and only here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

UNLABELLED = -1
MISSING_TEXT = ("", "nan", "NaN", "NA", "N/A", "null", "None", "-1")
LARGEST, SMALLEST = 1e60, 1e-60  # of features and weights: their fourth powers must exist


def first_rows(bad: Any, limit: int = 5) -> str:
    """Name the first positions at which ``bad`` is true, for an error message."""
    rows = np.flatnonzero(bad)
    shown = ", ".join(str(row) for row in rows[:limit])
    return shown if len(rows) <= limit else f"{shown}, ... ({len(rows)} in all)"


def check_number(
    caller: str, name: str, value: Any, low: float = 0.0, *, whole: bool = False
) -> None:
    """Raise an error unless a parameter is a finite number >= low."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    fine = isinstance(value, kinds) and not isinstance(value, bool | np.bool_)
    if not fine or not np.isfinite(value) or value < low:
        what = "a whole number" if whole else "a number"
        raise ValueError(f"{caller}({name}={value!r}): must be >= {low:g}, and {what}.")


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(
            f"Ratings({name}=...) has shape {array.shape}; pass a one-dimensional sequence."
        )
    if array.size and array.dtype.kind not in "iuf":
        hint = "" if name == "level" else "; for ids, use nearkin.read_ratings(table, objects)"
        raise ValueError(
            f"Ratings({name}=...) holds {array.dtype} values, not whole numbers{hint}."
        )
    bad = ~np.isfinite(array) if array.dtype.kind == "f" else np.zeros(len(array), bool)
    bad = bad | (np.where(bad, 0, array) % 1 != 0)
    if bad.any():
        raise ValueError(
            f"Ratings({name}=...) must hold whole numbers; not so in rows {first_rows(bad)}."
        )
    return array.astype(np.int64)


class Pairs(NamedTuple):
    """Rated pairs as arrays: ends ``a, b``, ``level`` and ``weight``, all (n,)."""

    a: Any
    b: Any
    level: Any
    weight: Any

    def at(self, rows: Any) -> Pairs:
        """Return the pairs in ``rows``."""
        return Pairs(*(column[rows] for column in self))


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ordinal similarity ratings of pairs of objects.

    Parameters
    ----------
    a, b : array-like of int, shape (n_ratings,)
        Row numbers of the two rated objects in X. (a, b) and (b, a) say the same.
    level : array-like of int, shape (n_ratings,)
        1 is most dissimilar, ``n_levels`` is most similar.
    rater : array-like, optional
        Who gave each rating.
    weight : array-like of float, optional
        Positive weight of each rating; 1 when left out.
    n_levels : int, default=3
        Number of levels on the raters' scale. The paper has 3.

    Examples
    --------
    >>> from nearkin import Ratings
    >>> Ratings([0, 0, 1], [1, 2, 2], [3, 1, 2])
    Ratings(3 ratings, levels 1/2/3: 1/1/1)
    """

    a: Array
    b: Array
    level: Array
    rater: Array | None = None
    weight: Array | None = None
    n_levels: int = 3

    def __post_init__(self) -> None:
        columns: dict[str, Array] = {k: _integers(k, getattr(self, k)) for k in ("a", "b", "level")}
        if self.rater is not None:
            columns["rater"] = np.asarray(self.rater)
        if self.weight is not None:
            columns["weight"] = np.asarray(self.weight, dtype=np.float64)
        for name, column in columns.items():
            if column.ndim != 1:
                raise ValueError(f"Ratings({name}=...) has shape {column.shape}; pass one column.")
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
            raise ValueError(f"Ratings: the columns differ in length: {found}.")
        check_number("Ratings", "n_levels", self.n_levels, 2, whole=True)
        for name, column in columns.items():
            own = column.copy()
            own.flags.writeable = False
            object.__setattr__(self, name, own)
        self._check_rows()

    def _check_rows(self) -> None:
        outside = (self.level < 1) | (self.level > self.n_levels)
        if outside.any():
            raise ValueError(
                f"Ratings: level outside 1..{self.n_levels} in rows {first_rows(outside)} "
                f"(found {self.level[outside].min()}..{self.level[outside].max()}); "
                "pass n_levels= for a longer scale."
            )
        negative = (self.a < 0) | (self.b < 0)
        if negative.any():
            raise ValueError(f"Ratings: negative object index in rows {first_rows(negative)}.")
        itself = self.a == self.b
        if itself.any():
            raise ValueError(
                f"Ratings: an object rated against itself in rows {first_rows(itself)}; drop them."
            )
        if self.weight is not None:
            bad = ~((self.weight >= SMALLEST) & (self.weight <= LARGEST))
            if bad.any():
                raise ValueError(
                    f"Ratings: weight must be finite and positive; not so in rows "
                    f"{first_rows(bad)}. Drop ratings that should not count."
                )

    def __len__(self) -> int:
        return len(self.level)

    def __getitem__(self, rows: Any) -> Ratings:
        """Return the ratings in ``rows`` (a mask, a slice, row numbers or one of them)."""
        rows = [rows] if isinstance(rows, int | np.integer) else rows
        return Ratings(
            self.a[rows],
            self.b[rows],
            self.level[rows],
            rater=None if self.rater is None else self.rater[rows],
            weight=None if self.weight is None else self.weight[rows],
            n_levels=self.n_levels,
        )

    def __repr__(self) -> str:
        levels = range(1, self.n_levels + 1)
        counts = "/".join(str(int((self.level == v).sum())) for v in levels)
        return f"Ratings({len(self)} ratings, levels {'/'.join(map(str, levels))}: {counts})"

    def within(self, objects: ArrayLike) -> Ratings:
        """Return the ratings among some objects, renumbered to fit ``X[objects]``.

        Examples
        --------
        >>> import nearkin as nk
        >>> ratings = nk.Ratings([0, 0, 2], [1, 2, 3], [3, 1, 2]).within([2, 0, 3])
        >>> ratings.a.tolist(), ratings.b.tolist(), ratings.level.tolist()
        ([1, 0], [0, 2], [1, 2])
        """
        chosen = np.asarray(objects)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        top = max(self.a.max(initial=-1), self.b.max(initial=-1), chosen.max(initial=-1))
        place = np.full(int(top) + 1, -1)
        place[chosen] = np.arange(len(chosen))
        kept = self[(place[self.a] >= 0) & (place[self.b] >= 0)]
        return replace(kept, a=place[kept.a], b=place[kept.b])

    def merged(self) -> Pairs:
        """Return one row for each pair and level, sorted, repeats added up as weight.

        The answer then cannot depend on the order of the ratings or of the two ends of a
        pair, and repeated ratings cost nothing.
        """
        low, high = np.minimum(self.a, self.b), np.maximum(self.a, self.b)
        span = int(high.max(initial=0)) + 1
        key = (low * span + high) * (self.n_levels + 1) + self.level
        if self.weight is None:
            key, count = np.unique(key, return_counts=True)
            weight = count.astype(np.float64)
        else:
            order = np.lexsort((self.weight, key))
            key, start = np.unique(key[order], return_index=True)
            weight = np.add.reduceat(self.weight[order], start) if len(key) else np.zeros(0)
        pair, level = np.divmod(key, self.n_levels + 1)
        low, high = np.divmod(pair, span)
        return Pairs(low, high, level, weight)


@dataclass(frozen=True, eq=False)
class Objects:
    """A table of objects: ``ids``, features ``X``, labels ``y`` (None where unknown), metadata."""

    ids: Array
    X: Array
    y: Array
    feature_names: list[str] = field(default_factory=list)
    meta: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = np.array([as_text(key) for key in self.ids], dtype=object)
        repeated = np.ones(len(ids), dtype=bool)
        repeated[np.unique(ids.astype(str), return_index=True)[1]] = False
        if repeated.any():
            raise ValueError(f"Objects: ids seen before in rows {first_rows(repeated)}.")
        object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        """Return the row number of each id; -1 where there is no such object."""
        row_of = {key: row for row, key in enumerate(self.ids.tolist())}
        return np.array([row_of.get(as_text(key), -1) for key in ids], dtype=np.int64)


def as_text(value: Any) -> str | None:
    """Return an id as text, None if there is none: 7, 7.0 and "7" are one id."""
    if isinstance(value, str):
        return value.strip() or None
    is_number = isinstance(value, int | float | np.number) and value == value
    if not is_number and is_missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def encode_labels(y: ArrayLike | None, n: int) -> tuple[NDArray[np.int64], Array]:
    """Return class codes (-1 where the label is missing) and the sorted class names.

    None, NaN and -1 are all read as missing.
    """
    if y is None:
        return np.full(n, UNLABELLED, dtype=np.int64), np.empty(0, dtype=object)
    labels = as_labels(y)
    if labels.shape != (n,):
        raise ValueError(
            f"y has shape {labels.shape}, but X has {n} rows; pass one label for each object "
            "(None, NaN or -1 where it is unknown)."
        )
    missing = missing_labels(labels)
    known = labels[~missing]
    if labels.dtype == object and len(known):
        kinds = {type(label).__name__ for label in known.tolist()}
        if "str" in kinds and len(kinds) > 1:
            raise ValueError(f"y mixes labels of the types {sorted(kinds)}; use one type.")
        known = np.array(known.tolist())
    if known.dtype.kind not in "OUSbiuf" or (known.dtype.kind == "O" and len(known)):
        raise ValueError(f"Unknown label type: {labels.dtype} in y; use text or whole numbers.")
    if known.dtype.kind == "f" and (~np.isfinite(known) | (known % 1 != 0)).any():
        raise ValueError(
            "Unknown label type: y holds continuous values, not classes; "
            "pass class names or whole numbers."
        )
    classes, codes = np.unique(known, return_inverse=True)
    out = np.full(n, UNLABELLED, dtype=np.int64)
    out[~missing] = codes
    return out, classes


def as_labels(y: ArrayLike) -> Array:
    """Return labels as an array; a list may mix them with None, NaN or -1 and stays as it is."""
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
        return labels
    return np.asarray(y)


def missing_labels(labels: Array) -> NDArray[np.bool_]:
    """Tell where a label is None, NaN or -1."""
    if labels.dtype.kind in "iu":
        return np.asarray(labels == UNLABELLED)
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels) | (labels == UNLABELLED))
    if labels.dtype.kind != "O":
        return np.zeros(labels.shape, dtype=bool)

    return np.array([is_missing(label) for label in labels.tolist()], dtype=bool)


def is_missing(label: Any) -> bool:
    """Tell whether one label is None, NaN, NA or -1."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return not isinstance(label, str) and bool(label != label or label == UNLABELLED)


def check_finite(X: Array, caller: str) -> None:
    """Raise an error that names the first rows of X with NaN or infinity."""
    bad = ~np.isfinite(X)
    if bad.any():
        rows, columns = bad.any(axis=1), bad.any(axis=0)
        raise ValueError(
            f"{caller}: X contains NaN or infinity (inf) in rows {first_rows(rows)}, columns "
            f"{first_rows(columns)}; fill or drop them first, for example with "
            "sklearn.impute.SimpleImputer."
        )
    if X.size:
        spread = np.ptp(X, axis=0).astype(np.float64)
        largest = np.abs(X).max(axis=0).astype(np.float64)
        extreme = (largest > LARGEST) | ((spread > 0) & (spread < SMALLEST))
        if extreme.any():
            raise ValueError(
                f"{caller}: the features in columns {first_rows(extreme)} exceed {LARGEST:g} or "
                f"differ by less than {SMALLEST:g}; give them in other units."
            )


def check_ratings(ratings: Ratings | None, n_objects: int, caller: str) -> Ratings:
    """Return the ratings, once they are known to fit the objects."""
    if ratings is None:
        raise ValueError(
            f"{caller} requires ratings: call fit(X, y, ratings=nearkin.Ratings(a, b, level))."
        )
    if not isinstance(ratings, Ratings):
        raise TypeError(
            f"{caller}: ratings is a {type(ratings).__name__}; pass nearkin.Ratings(a, b, level)."
        )
    if len(ratings) == 0:
        raise ValueError(f"{caller}: ratings is empty; at least two rated pairs are needed.")
    outside = (ratings.a >= n_objects) | (ratings.b >= n_objects)
    if outside.any():
        raise ValueError(
            f"{caller}: object index out of range in rating rows {first_rows(outside)}: "
            f"X has {n_objects} rows, the largest index is "
            f"{int(max(ratings.a.max(), ratings.b.max()))}."
        )
    return ratings
