"""Objects in memory, or in files mapped into it, and exact search among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.index.collection import Collection, checked_points
from nearkin.index.columns import Grown
from nearkin.index.common import Found, check_k, filters, named
from nearkin.index.folder import Stored
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.nearest import Frame, Near, Neighbours
from nearkin.points import Points

Integers = NDArray[np.int64]
Nearest = Callable[[Points, int, NDArray[np.bool_] | None], Near]
REMOVED = 0.25  # share of removed objects that is worth clearing


class InMemory:
    """A collection and its vectors for exact search."""

    def __init__(self, metric: Metric) -> None:
        self.metric, self.objects = metric, Collection(metric)
        self._prepare()

    def __len__(self) -> int:
        return len(self.objects)

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None,
        meta: Mapping[str, ArrayLike] | None,
        caller: str,
    ) -> None:
        """Add objects; nothing is added unless all can be."""
        start = self.objects.n
        self.objects.add(points, ids, labels, meta, caller)
        if self.objects.n > 2 * self._n_framed:
            self._prepare()  # the origin is to stay amid the objects
        else:
            self._vectors.write(start, self._frame.items(points))

    def remove(self, ids: Sequence[Any], caller: str) -> Integers | None:
        """Remove objects; return which rows are left where rows were moved, else None."""
        self.objects.remove(ids, caller)
        if self.objects.n_removed <= REMOVED * self.objects.n:
            return None
        return self.compact()

    def compact(self) -> Integers:
        """Clear the rows of removed objects away, and return which rows are left."""
        left = self.objects.alive_rows()
        self.objects = self.objects.compacted()
        self._prepare()
        return left

    def near(
        self, q: Points, k: int, allowed: NDArray[np.bool_] | None = None, start: int = 0
    ) -> Near:
        """Return the k nearest of each point among the allowed rows from ``start`` on. Exact."""
        at = slice(start, self.objects.n)
        vectors = self._vectors.upto(self.objects.n)[at]
        items = Neighbours(self.objects.points[at], self._frame, vectors)
        found = items.search(q, k, None if allowed is None else allowed[at])
        found.rows[found.rows >= 0] += start
        return found

    def search(
        self,
        points: Points,
        k: int,
        where: Where | Sequence[Where | None] | None,
        near: Nearest,
        caller: str,
    ) -> Found:
        """Return by id what a function of points, k and allowed rows finds for each filter."""
        check_k(k)
        points = checked_points(self.metric, points, caller)
        found = Near.none(len(points), k)
        for one, at in filters(where, len(points)):
            found.write(at, near(points[at], k, self.objects.allowed(one)))
        return named(self.objects.ids, found.rows, found.distances)

    def header(self) -> dict[str, Any]:
        """Return what a file says beside the arrays."""
        return {
            "scales": [self._frame.scale, self._frame.cost_scale],
            "n_framed": self._n_framed,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as plain arrays, by name."""
        own = {
            "vectors": self._vectors.upto(self.objects.n),
            "frame_origin": self._frame.origin,
            "frame_costs": self._frame.costs,
        }
        return self.objects.arrays() | own

    @classmethod
    def restored(cls, metric: Metric, stored: Stored) -> InMemory:
        """Return what gave this header and these arrays."""
        out, arrays, (scale, cost_scale) = cls(metric), stored.arrays, stored.header["scales"]
        origin, costs = (np.array(arrays[f"frame_{name}"]) for name in ("origin", "costs"))
        out._frame = Frame(metric, origin, costs, float(scale), float(cost_scale))
        out.objects = Collection.restored(metric, arrays)
        vectors: NDArray[np.float32] = arrays["vectors"]
        if vectors.shape != (out.objects.n, out._frame.n_columns):
            raise ValueError(f"vectors of shape {vectors.shape}")
        out._vectors, out._n_framed = Grown(vectors), int(stored.header["n_framed"])
        return out

    def _prepare(self) -> None:
        points = self.objects.points
        self._frame = Frame.around(self.metric, points)
        self._vectors = Grown(self._frame.items(points))
        self._n_framed = len(points)
