"""Exact search in memory, or in files mapped into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.index.collection import Collection, checked_points
from nearkin.index.columns import Grown
from nearkin.index.common import Found, check_k, filters, named
from nearkin.index.folder import Stored
from nearkin.index.storage import Home
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.nearest import Frame, Near, Neighbours
from nearkin.points import Points

KIND = "nearkin exact index"
REMOVED = 0.25  # share of removed objects that is worth clearing


class ExactIndex:
    """All objects are compared with each query: float32 first, float64 for the answer.

    Parameters
    ----------
    metric : Metric
        The distance to search by.

    Examples
    --------
    >>> import numpy as np
    >>> from nearkin import Metric
    >>> from nearkin.index import ExactIndex, Where
    >>> metric = Metric(weights=np.ones(1))
    >>> index = ExactIndex(metric)
    >>> index.add(metric.points([[0.0], [5.0], [1.0]]), ["a", "b", "c"], labels=["x", "x", "y"])
    >>> index.search(metric.points([[0.9]]), k=2).ids.tolist()
    [['c', 'a']]
    >>> index.search(metric.points([[0.9]]), k=2, where=Where(classes=["y"])).ids.tolist()
    [['c', None]]
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._objects, self._home = Collection(metric), Home(KIND)
        self._prepare()

    def __len__(self) -> int:
        return len(self._objects)

    def __repr__(self) -> str:
        return f"ExactIndex({len(self)} objects)"

    @property
    def ids(self) -> list[str]:
        """Ids of all objects, in the order in which they were added."""
        return list(self._objects.row_of)

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None = None,
        meta: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Add objects, with their class labels and columns of metadata to filter by."""
        start = self._objects.n
        self._objects.add(points, ids, labels, meta, "ExactIndex.add")
        if self._objects.n > 2 * self._n_framed:
            self._prepare()  # the origin is to stay amid the objects
        else:
            self._vectors.write(start, self._frame.items(points))

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove objects; an id that is not there is an error, and nothing is removed."""
        self._objects.remove(ids, "ExactIndex.remove")
        if self._objects.n_removed > REMOVED * self._objects.n:
            self._objects = self._objects.compacted()
            self._prepare()

    def search(
        self, points: Points, k: int, where: Where | Sequence[Where | None] | None = None
    ) -> Found:
        """Return the k nearest objects of each point, among those that ``where`` allows.

        Exact. Equal distances are broken by the order in which objects were added.
        """
        check_k(k)
        points = checked_points(self.metric, points, "ExactIndex.search")
        n = self._objects.n
        items = Neighbours(self._objects.points, self._frame, self._vectors.upto(n))
        near = Near(np.full((len(points), k), np.inf), np.full((len(points), k), -1))
        for one, rows in filters(where, len(points)):
            found = items.search(points[rows], k, self._objects.allowed(one))
            near.distances[rows], near.rows[rows] = found
        return named(self._objects.ids, near.rows, near.distances)

    def save(self, path: str | Path) -> None:
        """Write the index to a folder: afterwards the old one or the new one, never a mixture."""
        objects = self._objects
        arrays = objects.arrays() | {"vectors": self._vectors.upto(objects.n)}
        frame = {"frame_origin": self._frame.origin, "frame_costs": self._frame.costs}
        header = {
            "scales": [self._frame.scale, self._frame.cost_scale],
            "n_framed": self._n_framed,
        }
        self._home.write(path, self.metric, header, arrays | frame)

    @classmethod
    def load(
        cls, path: str | Path, metric: Metric | None = None, *, mmap: bool = False
    ) -> ExactIndex:
        """Read an index that ``save`` wrote, every byte checked; nothing in it is executed.

        Parameters
        ----------
        path : path
        metric : Metric, optional
            The metric the index was made with, if it has a classifier that is not nearkin's; any
            other metric is refused. By default the one stored in the folder.
        mmap : bool, default=False
            Leave the arrays on disk, to be read as they are needed.
        """
        home = Home(KIND)
        stored, metric = home.read(path, metric, mmap=mmap)
        with home.complaints(path):
            return cls(metric)._restored(stored, home)

    def _prepare(self) -> None:
        points = self._objects.points
        self._frame = Frame.around(self.metric, points)
        self._vectors = Grown(self._frame.items(points))
        self._n_framed = len(points)

    def _restored(self, stored: Stored, home: Home) -> ExactIndex:
        arrays, (scale, cost_scale) = stored.arrays, stored.header["scales"]
        origin, costs = (np.array(arrays[f"frame_{name}"]) for name in ("origin", "costs"))
        self._frame = Frame(self.metric, origin, costs, float(scale), float(cost_scale))
        self._objects = Collection.restored(self.metric, arrays)
        vectors: NDArray[np.float32] = arrays["vectors"]
        if vectors.shape != (self._objects.n, self._frame.n_columns):
            raise ValueError(f"vectors of shape {vectors.shape}")
        self._vectors, self._n_framed = Grown(vectors), int(stored.header["n_framed"])
        self._home = home
        return self
