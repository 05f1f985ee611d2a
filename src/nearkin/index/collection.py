"""What an index in memory holds besides its vectors: points, ids, labels, metadata."""

from __future__ import annotations

from collections.abc import Collection as Values
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.data import as_labels, as_text, check_finite, first_rows, missing_labels
from nearkin.index.columns import Grown, TextColumn, Texts, packed, unpacked
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.points import Points

Array = NDArray[Any]
LABEL = "label"


def checked_points(metric: Metric, points: Points, caller: str) -> Points:
    """Return points once they are known to be this metric's."""
    if not isinstance(points, Points):
        raise TypeError(
            f"{caller}: got a {type(points).__name__}; turn objects into points with "
            "metric.points(X) first."
        )
    n, M = len(points), metric.n_classes
    if points.x.shape != (n, metric.n_features):
        raise ValueError(
            f"{caller}: the points have shape {points.x.shape}, the metric {metric.n_features} "
            "features; make them with this metric's metric.points."
        )
    check_finite(points.x, caller)
    if M == 0:
        return Points(points.x)
    for name, part in (("u", metric.class_side(points)), ("b", points.profiles())):
        if part.shape != (n, M) or not np.isfinite(part).all():
            raise ValueError(
                f"{caller}: {name} must be finite, one number for each of {M} classes; found "
                f"shape {part.shape}. Make points with this metric's metric.points."
            )
    return points


def id_texts(ids: Sequence[Any], caller: str) -> list[str]:
    """Return ids as text, once each is known to be there and to be there once."""
    if isinstance(ids, str):
        raise TypeError(f"{caller}: ids is the text {ids!r}; pass a list of ids.")
    texts = [as_text(key) for key in ids]
    absent = np.array([text is None for text in texts], dtype=bool)
    if absent.any():
        raise ValueError(f"{caller}: no id in rows {first_rows(absent)}.")
    again = np.ones(len(texts), dtype=bool)
    again[list({text: row for row, text in reversed(list(enumerate(texts)))}.values())] = False
    if again.any():
        raise ValueError(f"{caller}: ids given twice in rows {first_rows(again)}.")
    return [str(text) for text in texts]


def column_texts(name: str, values: ArrayLike, n: int, caller: str) -> list[str | None]:
    """Return a column as text, None where a value is missing."""
    column = as_labels(values)
    if column.shape != (n,):
        raise ValueError(f"{caller}: {name} has shape {column.shape}, for {n} points.")
    # -1 is a missing label, but a value like any other in metadata
    missing = missing_labels(column) if name == LABEL else np.zeros(n, dtype=bool)
    pairs = zip(missing.tolist(), column.tolist(), strict=True)
    return [None if gone else as_text(value) for gone, value in pairs]


class Collection:
    """Objects by row: rows are never moved, removed ones stay until ``compacted``."""

    def __init__(self, metric: Metric) -> None:
        self.metric, self.n = metric, 0
        M = metric.n_classes
        self._parts = {
            "x": Grown(np.empty((0, metric.n_features), dtype=np.float32)),
            "u": Grown(np.empty((0, M))),
            "b": Grown(np.empty((0, 0))),
            "alive": Grown(np.empty(0, dtype=bool)),
            "ids": Grown(np.empty(0, dtype=object)),
        }
        self._codes: dict[str, Grown] = {LABEL: Grown(np.empty(0, dtype=np.int32))}
        self._texts = {LABEL: Texts()}
        self._row_of: dict[str, int] | None = {}
        self.n_removed = 0

    def __len__(self) -> int:
        return self.n - self.n_removed

    @property
    def points(self) -> Points:
        """All points, removed ones included."""
        x, u, b = (self._parts[name].upto(self.n) for name in ("x", "u", "b"))
        if self.metric.n_classes == 0:
            return Points(x)
        return Points(x, u, b if b.shape[1] else None)

    @property
    def ids(self) -> Array:
        """All ids, removed ones included."""
        return self._parts["ids"].upto(self.n)

    @property
    def row_of(self) -> dict[str, int]:
        """The row of each id that is there."""
        if self._row_of is None:
            alive = self._parts["alive"].upto(self.n).tolist()
            rows = zip(self.ids.tolist(), range(self.n), alive, strict=True)
            self._row_of = {key: row for key, row, here in rows if here}
        return self._row_of

    def among(self, wanted: Values[str | None]) -> NDArray[np.bool_]:
        """Tell which objects have one of the wanted ids  (n,)."""
        mask = np.zeros(self.n, dtype=bool)
        mask[[self.row_of[key] for key in wanted if key in self.row_of]] = True
        return mask

    def allowed(self, where: Where | None) -> NDArray[np.bool_] | None:
        """Return which rows a search may return, None for all."""
        alive = None if self.n_removed == 0 else self._parts["alive"].upto(self.n)
        if where is None or self.n == 0:
            return None if alive is None else alive.copy()
        columns = {
            name: TextColumn(codes.upto(self.n), self._texts[name].values)
            for name, codes in self._codes.items()
        }
        labels = columns.pop(LABEL)
        mask = where.allowed(_Ids(self), labels, {name[5:]: c for name, c in columns.items()})
        return mask if alive is None else mask & alive

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None,
        meta: Mapping[str, ArrayLike] | None,
        caller: str,
    ) -> None:
        """Add objects; nothing is added unless all can be."""
        points, texts = checked_points(self.metric, points, caller), id_texts(ids, caller)
        n = len(points)
        if len(texts) != n:
            raise ValueError(f"{caller}: {len(texts)} ids for {n} points.")
        known = np.array([text in self.row_of for text in texts], dtype=bool)
        if known.any():
            raise ValueError(
                f"{caller}: the ids in rows {first_rows(known)} are in the index already, such as "
                f"{texts[int(np.argmax(known))]!r}; remove them first."
            )
        given = {} if labels is None else {LABEL: labels}
        given |= {f"meta_{name}": values for name, values in (meta or {}).items()}
        columns = {name: column_texts(name, v, n, caller) for name, v in given.items()}
        self._write(points, texts, columns)

    def _write(self, points: Points, ids: list[str], columns: dict[str, list[Any]]) -> None:
        start, n = self.n, len(points)
        keys = np.empty(n, dtype=object)
        keys[:] = ids
        rows = {"x": points.x, "alive": np.ones(n, dtype=bool), "ids": keys}
        if points.u is not None:
            rows["u"] = points.u
            rows["b"] = self._profiles(points)
        for name, part in rows.items():
            self._parts[name].write(start, part)
        for name in columns.keys() - self._codes.keys():
            self._codes[name] = Grown(np.full(start, -1, dtype=np.int32))
            self._texts[name] = Texts()
        for name, codes in self._codes.items():
            codes.write(start, self._texts[name].codes(columns.get(name, [None] * n)))
        self.row_of.update(zip(ids, range(start, start + n), strict=True))
        self.n = start + n

    def _profiles(self, points: Points) -> Array:
        """Return profiles to write; no columns as long as no object has any."""
        wide = self._parts["b"].upto(self.n).shape[1] > 0
        if points.b is None and not wide:
            return np.empty((len(points), 0))
        if not wide:
            self._parts["b"] = Grown(np.zeros((self.n, self.metric.n_classes)))
        return points.profiles()

    def remove(self, ids: Sequence[Any], caller: str) -> None:
        """Remove objects; nothing is removed unless all can be."""
        texts = id_texts(ids, caller)
        absent = np.array([text not in self.row_of for text in texts], dtype=bool)
        if absent.any():
            raise ValueError(
                f"{caller}: the ids in rows {first_rows(absent)} are not in the index, such as "
                f"{texts[int(np.argmax(absent))]!r}; nothing was removed."
            )
        gone = [self.row_of[text] for text in texts]
        alive = self._parts["alive"].upto(self.n).copy()
        alive[gone] = False
        self._parts["alive"] = Grown(alive)
        self.n_removed += len(gone)
        for text in texts:
            del self.row_of[text]

    def alive_rows(self) -> NDArray[np.int64]:
        """Return the rows of objects that were not removed."""
        return np.flatnonzero(self._parts["alive"].upto(self.n))

    def compacted(self) -> Collection:
        """Return the collection without its removed rows, order kept."""
        rows = self.alive_rows()
        out = Collection(self.metric)
        out.n, out._row_of, out._texts = len(rows), None, self._texts
        out._parts = {k: Grown(part.upto(self.n)[rows]) for k, part in self._parts.items()}
        out._codes = {k: Grown(part.upto(self.n)[rows]) for k, part in self._codes.items()}
        return out

    def arrays(self) -> dict[str, Array]:
        """Return everything as plain arrays, by name."""
        stored = {k: v.upto(self.n) for k, v in self._parts.items() if k != "ids"}
        texts = {"ids": self.ids.tolist()}
        for name, codes in self._codes.items():
            stored[f"{name}_codes"] = codes.upto(self.n)
            texts[f"{name}_values"] = self._texts[name].values
        for name, column in texts.items():
            stored[f"{name}_bytes"], stored[f"{name}_ends"] = packed(column)
        return stored

    @classmethod
    def restored(cls, metric: Metric, arrays: Mapping[str, Array]) -> Collection:
        """Return the collection that gave these arrays."""
        out, n = cls(metric), len(arrays["x"])
        ids = np.empty(n, dtype=object)
        ids[:] = unpacked(arrays["ids_bytes"], arrays["ids_ends"])
        parts = {name: arrays[name] for name in ("x", "u", "b", "alive")} | {"ids": ids}
        fits = all(len(p) == n or (k in "ub" and metric.n_classes == 0) for k, p in parts.items())
        if not fits or parts["x"].shape != (n, metric.n_features):
            raise ValueError("the columns differ in length")
        out._parts = {name: Grown(part) for name, part in parts.items()}
        for key in [key for key in arrays if key.endswith("_codes")]:
            name = key.removesuffix("_codes")
            values = unpacked(arrays[f"{name}_values_bytes"], arrays[f"{name}_values_ends"])
            if len(arrays[key]) != n or arrays[key].max(initial=-1) >= len(values):
                raise ValueError(f"the column {name!r} does not fit")
            out._codes[name], out._texts[name] = Grown(arrays[key]), Texts(values)
        out.n, out._row_of = n, None
        out.n_removed = n - int(np.count_nonzero(parts["alive"]))
        return out


class _Ids:
    """The ids as a filter sees them."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def __len__(self) -> int:
        return self._collection.n

    def among(self, wanted: Values[str | None]) -> NDArray[np.bool_]:
        return self._collection.among(wanted)
