"""Exact search in memory, or in files mapped into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from nearkin.index.common import Found
from nearkin.index.inmemory import InMemory
from nearkin.index.storage import Home
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.points import Points

KIND = "nearkin exact index"


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
        self._held, self._home = InMemory(metric), Home(KIND)

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"ExactIndex({len(self)} objects)"

    @property
    def ids(self) -> list[str]:
        """Ids of all objects, in the order in which they were added."""
        return list(self._held.objects.row_of)

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None = None,
        meta: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Add objects, with their class labels and columns of metadata to filter by."""
        self._held.add(points, ids, labels, meta, "ExactIndex.add")

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove objects; an id that is not there is an error, and nothing is removed."""
        self._held.remove(ids, "ExactIndex.remove")

    def search(
        self, points: Points, k: int, where: Where | Sequence[Where | None] | None = None
    ) -> Found:
        """Return the k nearest objects of each point, among those that ``where`` allows.

        Exact. Equal distances are broken by the order in which objects were added.
        """
        return self._held.search(points, k, where, self._held.near, "ExactIndex.search")

    def save(self, path: str | Path) -> None:
        """Write the index to a folder: afterwards the old one or the new one, never a mixture."""
        self._home.write(path, self.metric, self._held.header(), self._held.arrays())

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
            index = cls(metric)
            index._held, index._home = InMemory.restored(metric, stored), home
            return index
