"""Approximate search in memory: an engine proposes objects, the metric ranks them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.data import check_number
from nearkin.index.approximate_build import build
from nearkin.index.common import Found
from nearkin.index.engines import (
    AUTOMATIC,
    NAMES,
    Engine,
    described,
    from_description,
    one_thread,
    read_index,
    write_index,
)
from nearkin.index.folder import Stored
from nearkin.index.inmemory import InMemory
from nearkin.index.proposals import Depth, Proposals
from nearkin.index.storage import Home
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.nearest import Near, merged
from nearkin.passes import in_threads, n_cores
from nearkin.points import Points

Mask = NDArray[np.bool_]
KIND = "nearkin approximate index"
ENGINE = "engine.faiss"
PART = "engine_"
SMALL = 5_000  # objects that are searched exactly, unless an engine is given
QUERIES = (16, 256)  # at a time, at least and at most


class ApproximateIndex:
    """A fast engine proposes objects, and the metric ranks them in float64.

    Until ``build`` is called, search is exact; so it is among objects that were added after it.
    ``build`` makes engines, tunes each on objects held out of it until it finds the share
    ``recall`` of the nearest, and keeps the fastest. Where none is faster than exact search, as
    among few objects, search stays exact.

    Parameters
    ----------
    metric : Metric
        The distance to search by.
    recall : float, default=0.99
        Share of the nearest objects that ``build`` tunes the engine to find.
    engine : IVF or HNSW, optional
        Use this one, whatever its speed; by default the fastest is.

    Examples
    --------
    >>> import numpy as np
    >>> from nearkin import Metric
    >>> from nearkin.index import IVF, ApproximateIndex
    >>> metric = Metric(weights=np.ones(3))
    >>> items = metric.points(np.random.default_rng(0).normal(size=(2000, 3)))
    >>> index = ApproximateIndex(metric, engine=IVF(cells=40))
    >>> index.add(items, range(2000))
    >>> index.build()
    ApproximateIndex(2000 objects, IVF(cells=40, coded=False))
    >>> index.search(items[7], k=1).ids.tolist()
    [['7']]
    """

    def __init__(self, metric: Metric, recall: float = 0.99, engine: Engine | None = None) -> None:
        check_number("ApproximateIndex", "recall", recall)
        if recall > 1:
            raise ValueError(f"ApproximateIndex({recall=}): must be at most 1.")
        if not (engine is None or isinstance(engine, tuple(NAMES.values()))):
            raise TypeError(f"ApproximateIndex({engine=}): pass nearkin.index.IVF() or HNSW().")
        self.metric, self.recall, self.engine = metric, recall, engine
        self._held, self._home = InMemory(metric), Home(KIND)
        self._made: Proposals | None = None
        self._k = 10

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        how = "exact" if self._made is None else self._made.engine
        return f"ApproximateIndex({len(self)} objects, {how})"

    @property
    def ids(self) -> list[str]:
        """Ids of all objects, in the order in which they were added."""
        return list(self._held.objects.row_of)

    @property
    def recall_(self) -> float | None:
        """The share of the nearest found when it was built, None while search is exact."""
        return None if self._made is None else self._made.depths[0].recall

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None = None,
        meta: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Add objects, with their class labels and columns of metadata to filter by.

        They are searched exactly until ``build`` is called again, or there are more of them than
        the engine holds, when it is built again at once.
        """
        self._held.add(points, ids, labels, meta, "ApproximateIndex.add")
        self._refresh()

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove objects; an id that is not there is an error, and nothing is removed.

        The engine is built again once it holds more objects that are gone than others.
        """
        before = self._held.objects.n
        left = self._held.remove(ids, "ApproximateIndex.remove")
        if left is not None and self._made is not None:
            self._made = self._made.moved(left, before)
            self._refresh()

    def _refresh(self) -> None:
        if self._made is None:
            return
        left = self._made.n_left
        added, gone = self._held.objects.n - left, len(self._made.rows) - left
        if max(added, gone) > left:
            self.build(self._k)

    def build(self, k: int = 10) -> ApproximateIndex:
        """Make the engine, and tune it to find the ``k`` nearest objects.

        More of them can be asked for: the engine is tuned for some larger numbers, too, and
        beyond those search is exact.
        """
        check_number("ApproximateIndex.build", "k", k, 1, whole=True)
        self._made, self._k = None, k
        if self._held.objects.n_removed:
            self._held.compact()
        if len(self) >= (SMALL if self.engine is None else 1):
            choice = AUTOMATIC if self.engine is None else (self.engine,)
            self._made = build(
                self._held, choice, k, self.recall, any_speed=self.engine is not None
            )
        return self

    def search(
        self, points: Points, k: int, where: Where | Sequence[Where | None] | None = None
    ) -> Found:
        """Return the k nearest objects of each point, among those that ``where`` allows.

        Where few objects are allowed, or the engine does not find k of them, search is exact.
        """
        near = functools.partial(_near, self._held, self._made)
        return self._held.search(points, k, where, near, "ApproximateIndex.search")

    def save(self, path: str | Path) -> None:
        """Write the index to a folder: afterwards the old one or the new one, never a mixture."""
        asked = None if self.engine is None else described(self.engine)
        header: dict[str, Any] = {"recall": self.recall, "k": self._k, "asked": asked}
        arrays, files, made = self._held.arrays(), {}, self._made
        if made is not None:
            header |= {"engine": described(made.engine), "proposals": made.header()}
            arrays |= {PART + name: part for name, part in made.arrays().items()}
            files[ENGINE] = functools.partial(write_index, made.index)
        self._home.write(path, self.metric, self._held.header() | header, arrays, files)

    @classmethod
    def load(
        cls, path: str | Path, metric: Metric | None = None, *, mmap: bool = False
    ) -> ApproximateIndex:
        """Read an index that ``save`` wrote, every byte checked; nothing in it is executed.

        Parameters
        ----------
        path : path
        metric : Metric, optional
            The metric the index was made with, if it has a classifier that is not nearkin's; any
            other metric is refused. By default the one stored in the folder.
        mmap : bool, default=False
            Leave arrays and engine on disk, to be read as they are needed.
        """
        home = Home(KIND)
        readers = {ENGINE: functools.partial(read_index, mmap=mmap)}
        stored, metric = home.read(path, metric, readers, mmap=mmap)
        with home.complaints(path):
            header, asked = stored.header, stored.header["asked"]
            engine = None if asked is None else from_description(asked)
            index = cls(metric, float(header["recall"]), engine)
            index._held, index._home = InMemory.restored(metric, stored), home
            index._k = int(header["k"])
            if "engine" in header:
                index._made = _restored(metric, stored)
            return index


def _restored(metric: Metric, stored: Stored) -> Proposals:
    arrays = {
        name.removeprefix(PART): part
        for name, part in stored.arrays.items()
        if name.startswith(PART)
    }
    return Proposals.restored(
        metric,
        from_description(stored.header["engine"]),
        stored.files[ENGINE],
        stored.header["proposals"],
        arrays,
    )


def _near(
    held: InMemory, made: Proposals | None, points: Points, k: int, allowed: Mask | None
) -> Near:
    """Return the k nearest of each point among the allowed rows, None for all."""
    if made is None:
        return held.near(points, k, allowed)
    found, depths = Near.none(len(points), k), _depths(made, k, allowed)
    block = int(np.clip(-(-len(points) // (4 * n_cores())), *QUERIES))
    starts = range(0, len(points), block)

    def part(number: int) -> None:
        at = slice(starts[number], starts[number] + block)
        with one_thread() if len(starts) > 1 else nullcontext():
            _search_block(held, made, depths, points[at], found.at(at), allowed)

    list(in_threads(part, len(starts)))
    return found


def _depths(made: Proposals, k: int, allowed: Mask | None) -> list[Depth]:
    """Return the depths at which k allowed objects may be found faster than by exact search."""
    n, n_left = len(made.rows), made.n_left
    some = n_left if allowed is None else int(np.count_nonzero(allowed[:n_left]))
    return [d for d in made.depths if d.k * some >= k * n and d.k >= k and d.worth < some]


def _search_block(
    held: InMemory,
    made: Proposals,
    depths: Sequence[Depth],
    q: Points,
    found: Near,
    allowed: Mask | None,
) -> None:
    """Write down the nearest of each query: the engine's first, then what was added later."""
    left, k, items = np.arange(len(q)), found.rows.shape[1], held.objects.points
    for depth in depths:
        near, complete = made.near(q[left], items, k, depth, allowed)
        found.write(left[complete], near.at(complete))
        left = left[~complete]
        if not len(left):
            break
    done = np.setdiff1d(np.arange(len(q)), left)
    if len(done) and held.objects.n > made.n_left:
        later = held.near(q[done], k, allowed, start=made.n_left)
        found.write(done, merged(found.at(done), later))
    if len(left):
        found.write(left, held.near(q[left], k, allowed))
