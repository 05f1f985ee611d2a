"""What every index offers. Three kinds have it; nothing that searches asks which one it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.index.where import Where
from nearkin.points import Points


class Found(NamedTuple):
    """The nearest objects of each query, nearest first.

    ``ids`` (n_queries, k) holds text, and None where fewer than k objects could be found;
    ``distances`` (n_queries, k) are then infinite.
    """

    ids: NDArray[Any]
    distances: NDArray[np.float64]


class Index(Protocol):
    """A collection of objects, each under an id of its own, searched by one metric."""

    def __len__(self) -> int:
        """Return the number of objects."""

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None = None,
        meta: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Add objects, with their class labels and columns of metadata to filter by.

        An id that is there already, or twice in ``ids``, is an error, and nothing is added.
        """

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove objects; an id that is not there is an error, and nothing is removed."""

    def search(self, points: Points, k: int, where: Where | Sequence[Where] | None = None) -> Found:
        """Return the k nearest objects of each point, among those that ``where`` allows.

        ``where`` is one filter for all queries or one for each; it acts before ranking.
        """

    def save(self, path: str | Path) -> None:
        """Write the whole index: afterwards the old one or the new one, never a mixture."""
