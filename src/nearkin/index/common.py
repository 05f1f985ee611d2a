"""What every index offers. Three kinds have it; nothing that searches asks which one it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.data import check_number
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


def filters(
    where: Where | Sequence[Where | None] | None, n_queries: int
) -> list[tuple[Where | None, NDArray[np.int64]]]:
    """Return each filter once, with the rows of the queries it is for."""
    if where is None or isinstance(where, Where):
        return [(where, np.arange(n_queries))]
    if len(where) != n_queries:
        raise ValueError(
            f"search: where has {len(where)} filters for {n_queries} queries; pass one for each, "
            "or one for all."
        )
    different: list[tuple[Where | None, list[int]]] = []
    place_of: dict[str, int] = {}
    for row, one in enumerate(where):
        if not (one is None or isinstance(one, Where)):
            raise TypeError(
                f"search: where holds {one!r} for query {row}; pass nearkin.index.Where."
            )
        place = place_of.setdefault(repr(one), len(different))
        if place == len(different):
            different.append((one, []))
        different[place][1].append(row)
    return [(one, np.array(rows)) for one, rows in different]


def named(ids: NDArray[Any], rows: NDArray[np.int64], distances: NDArray[np.float64]) -> Found:
    """Return what was found by id; row -1 stands for nothing."""
    keys = np.full(rows.shape, None, dtype=object)
    there = rows >= 0
    keys[there] = ids[rows[there]]
    return Found(keys, distances)


def check_k(k: int) -> None:
    """Raise an error unless k is a number of neighbours."""
    check_number("search", "k", k, 1, whole=True)
