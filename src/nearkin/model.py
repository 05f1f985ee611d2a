"""A fitted model: a learned distance with the collection it searches, and what is known of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import nearest
from nearkin.answers import Neighbour, Neighbours, class_shares, count_classes, verdict
from nearkin.calibration import Calibration
from nearkin.data import Objects, as_text, check_finite, check_number, is_missing
from nearkin.explaining import Usual, explain
from nearkin.explanation import Explanation
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.points import Points
from nearkin.preparation import Preparation
from nearkin.spread import Reach, Spread, nearest_by_features
from nearkin.tables import read_objects, read_table

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Query:
    """An object to search by: of the collection (``row`` says which) or new (-1).

    ``values`` are its features in original units.
    """

    name: str
    point: Points
    values: Floats
    label: Any = None
    row: int = -1
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Model:
    """A learned distance and its collection. ``fit_model`` makes one.

    Attributes
    ----------
    metric : Metric
    points : Points
        The objects of the collection, as the metric sees them.
    objects : Objects
        The same in original units, with ids, labels and metadata.
    preparation : Preparation
        What was done to the features.
    spread, reach, usual
        How far apart the objects are: all pairs, nearest ones, and the mean pair's addends.
    calibration : Calibration or None
        None where there were too few ratings for it.
    about : dict
        How the model came about.
    """

    metric: Metric
    points: Points
    objects: Objects
    preparation: Preparation
    spread: Spread
    reach: Reach
    usual: Usual
    calibration: Calibration | None
    about: dict[str, Any]

    def object(self, key: Any) -> Query:
        """Return an object of the collection, by id, as a query."""
        row = int(self.objects.rows([key])[0])
        if row < 0:
            raise ValueError(
                f"there is no object {as_text(key)!r} among the {len(self.objects)} of this model "
                f"(ids such as {', '.join(map(repr, self.objects.ids[:3].tolist()))})."
            )
        label = self.objects.y[row]
        return Query(
            str(self.objects.ids[row]),
            self.points[row],
            self.objects.X[row],
            None if is_missing(label) else label,
            row,
            {name: column[row] for name, column in self.objects.meta.items()},
        )

    def new(
        self,
        X: ArrayLike,
        names: Sequence[Any] | None = None,
        *,
        y: Sequence[Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> list[Query]:
        """Return new objects as queries.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            All features that the study has, in original units and the same order.
        names : sequence, optional
            What to call them.
        y : sequence, optional
            Labels where they are known; the classifier's posterior is used elsewhere.
        meta : mapping of column to values, optional
            To exclude groups by.
        """
        x = np.array(X, dtype=np.float64)
        n_features = self.objects.X.shape[1]
        if x.ndim != 2 or x.shape[1] != n_features:
            raise ValueError(
                f"Model.new: X has shape {x.shape}; this model's study has {n_features} features, "
                f"so pass shape (n, {n_features})."
            )
        check_finite(x, "Model.new")
        points = self.metric.points(self.preparation.transform(x), y)
        called = [f"new {i + 1}" for i in range(len(x))] if names is None else list(names)
        labels = [None] * len(x) if y is None else [None if is_missing(v) else v for v in y]
        return [
            Query(
                str(called[i]),
                points[i],
                x[i],
                labels[i],
                meta={name: column[i] for name, column in (meta or {}).items()},
            )
            for i in range(len(x))
        ]

    def read_new(self, source: Any) -> list[Query]:
        """Return new objects from a table with this study's features, and perhaps id and label.

        Columns of metadata are taken, too, where the table has them.
        """
        table = read_table(source, "new objects")
        columns = table.columns
        if "id" not in columns:
            columns["id"] = [f"new {i + 1}" for i in range(table.n_rows)]
        meta = [name for name in self.objects.meta if name in columns]
        found = read_objects(table, features=self.objects.feature_names, meta=meta, alone=True)
        y = found.y.tolist() if self.metric.class_costs is not None else None
        return self.new(found.X, found.ids.tolist(), y=y, meta=found.meta)

    def search(
        self,
        query: Query | str,
        k: int = 10,
        *,
        where: Where | None = None,
        exclude_groups: Collection[str] = (),
    ) -> Neighbours:
        """Return the k nearest objects of the collection, the query itself excluded.

        Parameters
        ----------
        query : Query or str
            From ``object`` or ``new``; text is the id of an object.
        k : int, default=10
        where : Where, optional
            Which objects may be returned.
        exclude_groups : collection of str, optional
            Columns of metadata: objects with the query's own value are not returned, such as
            other images of its patient.
        """
        check_number("Model.search", "k", k, 1, whole=True)
        query = self.object(query) if isinstance(query, str) else query
        allowed = self._allowed(query, where, exclude_groups)
        rows, distances = self._nearest(query.point, k, allowed)
        shares = [None if p is None else float(p) for p in self._similar(distances)]
        labels = [None if is_missing(v) else v for v in self.objects.y[rows].tolist()]
        columns = zip(
            self.objects.ids[rows].tolist(),
            labels,
            distances.tolist(),
            (100.0 * self.spread.share(distances)).tolist(),
            shares,
            strict=True,
        )
        results = tuple(Neighbour(rank, *row) for rank, row in enumerate(columns, start=1))
        outside, said = self._verdict(query, shares)
        counts = count_classes(labels, self._shares)
        return Neighbours(query.name, results, counts, outside, said, tuple(self._notes(k, rows)))

    def _allowed(
        self, query: Query, where: Where | None, groups: Collection[str]
    ) -> NDArray[np.bool_]:
        objects = self.objects
        allowed = np.ones(len(objects), dtype=bool)
        if where is not None:
            allowed &= where.allowed(objects.ids, objects.y, objects.meta)
        own: dict[str, list[Any]] = {}
        for group in groups:
            if group not in query.meta:
                raise ValueError(
                    f"{query.name!r} has no metadata column {group!r} to exclude by; found "
                    f"{sorted(query.meta)}."
                )
            if not is_missing(query.meta[group]):
                own[group] = [query.meta[group]]
        allowed &= Where(exclude=own).allowed(objects.ids, objects.y, objects.meta)
        if query.row >= 0:
            allowed[query.row] = False
        return allowed

    def _nearest(
        self, point: Points, k: int, allowed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Floats]:
        k = min(k, int(allowed.sum()))
        if k == 0:
            return np.empty(0, dtype=np.int64), np.empty(0)
        near = self._searchable.search(point, k, allowed)
        return near.rows[0], near.distances[0]

    @cached_property
    def _searchable(self) -> nearest.Neighbours:
        return nearest.Neighbours.of(self.metric, self.points)

    def _similar(self, distances: Floats) -> Sequence[Any]:
        if self.calibration is None:
            return [None] * len(distances)
        similar: list[float] = self.calibration.similar(distances, self.spread).tolist()
        return similar

    def _verdict(self, query: Query, shares: Sequence[float | None]) -> tuple[bool, str]:
        """Say whether the collection, all of it, knows anything like the query."""
        own = np.array([query.row])
        nearest = nearest_by_features(self.metric, query.point, self.points, own)[0]
        return verdict(float(nearest), self.reach.limit, shares[0] if shares else None)

    def _notes(self, k: int, rows: NDArray[np.int64]) -> list[str]:
        notes = []
        if len(rows) < k:
            notes.append(f"Only {len(rows)} of {k}: no more objects are allowed.")
        if self.spread.sampled:
            notes.append(
                f"Percentiles among {len(self.spread.distances)} sampled pairs of "
                f"{self.spread.n_pairs}."
            )
        if self.calibration is None:
            notes.append("P(similar) is not known: too few ratings to calibrate it.")
        return notes

    @cached_property
    def _shares(self) -> dict[Any, float]:
        return class_shares(self.objects.y.tolist())

    def explain(
        self,
        query: Query | str,
        item: Query | str,
        *,
        families: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Explain the distance between two objects, in original units."""
        query, item = (self.object(o) if isinstance(o, str) else o for o in (query, item))
        kept = self.preparation.kept_
        return explain(
            self.metric,
            query.point,
            item.point,
            values=(query.values[kept], item.values[kept]),
            names=(query.name, item.name),
            labels=(query.label, item.label),
            families=families,
            usual=self.usual,
        )

    def weights(self) -> list[dict[str, Any]]:
        """Return what was learned of each feature, the weightiest first.

        ``share`` is the feature's part in the mean pair's d2: it can be compared across features,
        which ``weight``, per squared original unit, cannot.
        """
        total = float(self.usual.features.sum()) + self.usual.classes
        per_unit = self.metric.weights[: self.metric.n_given] / self.preparation.scale_**2
        rows = [
            {"feature": name, "weight": weight, "share": addend / total if total else 0.0}
            for name, weight, addend in zip(
                self.metric.feature_names or (),
                per_unit.tolist(),
                self.usual.features.tolist(),
                strict=True,
            )
        ]
        return sorted(rows, key=lambda row: -row["share"])

    def dropped(self) -> list[dict[str, Any]]:
        """Return the features that were dropped, and the one that each repeats."""
        names, prep = self.objects.feature_names, self.preparation
        gone = np.setdiff1d(np.arange(len(names)), prep.kept_)
        return [
            {
                "feature": names[k],
                "repeats": names[prep.partner_[k]] if prep.partner_[k] >= 0 else None,
                "correlation": float(prep.correlation_[k]),
            }
            for k in gone.tolist()
        ]
