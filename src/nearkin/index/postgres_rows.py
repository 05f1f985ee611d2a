"""Objects as they are stored, checked where they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearkin.data import as_labels, as_text, check_finite, first_rows, missing_labels
from nearkin.metric import Metric
from nearkin.points import Points

Text = str | None


class Rows(NamedTuple):
    """Objects as they are stored: ids, labels and metadata as text, and points."""

    ids: Sequence[str]
    labels: Sequence[Text]
    meta: Sequence[Mapping[str, Text]]
    points: Points

    def sample(self, size: int) -> Rows:
        """Return some of the objects, drawn at random but always the same ones."""
        rng = np.random.default_rng(20110526)
        at = np.sort(rng.permutation(len(self.ids))[:size])
        ids, labels, meta = ([column[i] for i in at] for column in self[:3])
        return Rows(ids, labels, meta, self.points[at])


def check_points(metric: Metric, points: Points, caller: str) -> None:
    """Raise an error unless these are points of the metric."""
    if not isinstance(points, Points):
        raise TypeError(
            f"{caller}: got a {type(points).__name__}; turn objects into points with "
            "metric.points(X) first."
        )
    n, K, M = len(points), metric.n_features, metric.n_classes
    if points.x.shape != (n, K):
        raise ValueError(
            f"{caller}: the points have shape {points.x.shape}, the metric {K} features; make them "
            "with this metric's metric.points."
        )
    check_finite(points.x, caller)
    if metric.class_costs is None:
        return
    for name, part in (("u", points.u), ("b", points.b)):
        if part is None and name == "b":
            continue
        if part is None or part.shape != (n, M) or not np.isfinite(part).all():
            raise ValueError(
                f"{caller}: {name} of the points must be finite and of shape {(n, M)}, found "
                f"{None if part is None else part.shape}; make points with metric.points(X)."
            )
    if points.b is not None and points.b.any() and not metric.profiled:
        raise ValueError(f"{caller}: these points have profiles; the metric was learned without.")


def rows_of(
    metric: Metric,
    points: Points,
    ids: Sequence[Any],
    labels: ArrayLike | None,
    meta: Mapping[str, ArrayLike] | None,
    caller: str = "PostgresIndex.add",
) -> tuple[Rows, tuple[str, ...]]:
    """Return objects as they are stored, and the names of their columns of metadata."""
    check_points(metric, points, caller)
    columns = {str(name): list(np.asarray(values)) for name, values in (meta or {}).items()}
    names = [as_text(value) for value in ids]
    given = np.full(len(points), None) if labels is None else as_labels(labels)
    sizes = {"ids": len(names), "labels": len(given)}
    sizes |= {name: len(column) for name, column in columns.items()}
    for what, size in sizes.items():
        if size != len(points):
            raise ValueError(f"{caller}: {size} {what} for {len(points)} points.")
    known = np.array(given, dtype=object)
    known[missing_labels(given)] = None
    texts: dict[str, list[Text]] = {"label": [as_text(value) for value in known]}
    texts |= {name: [as_text(value) for value in column] for name, column in columns.items()}
    check_ids(names, caller)
    for what, column in texts.items():
        _check_storable(what, column, caller)
    table = zip(*(texts[name] for name in columns), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in table]
    stored = Rows([str(n) for n in names], texts["label"], rows or [{}] * len(names), points)
    return stored, tuple(columns)


def check_ids(names: Sequence[Text], caller: str) -> None:
    """Raise an error unless every object has an id, and one of its own."""
    absent = np.array([name is None for name in names], dtype=bool)
    if absent.any():
        raise ValueError(f"{caller}: no id in rows {first_rows(absent)}.")
    _check_storable("id", names, caller)
    twice = np.ones(len(names), dtype=bool)
    twice[np.unique(np.array(names, dtype=str), return_index=True)[1]] = False
    if twice.any():
        first = names[int(np.argmax(twice))]
        raise ValueError(
            f"{caller}: ids given twice in rows {first_rows(twice)}, such as {first!r}."
        )


def _check_storable(what: str, values: Sequence[Text], caller: str) -> None:
    bad = np.array([value is not None and not storable(value) for value in values], dtype=bool)
    if bad.any():
        raise ValueError(
            f"{caller}: {what} in rows {first_rows(bad)} holds a zero byte or half of a surrogate "
            "pair, which PostgreSQL cannot store."
        )


def storable(text: str) -> bool:
    """Tell whether PostgreSQL can hold a text: no zero byte, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
