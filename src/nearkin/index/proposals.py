"""An engine that proposes which objects may be nearest, and the metric that ranks them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.index.embedding import Embedding
from nearkin.index.engines import Effort, Engine, Singles
from nearkin.metric import Metric
from nearkin.nearest import Near, rank
from nearkin.points import Points

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
BLOCK = 2**14  # objects embedded at a time


class Depth(NamedTuple):
    """How hard an engine has to search to find the k nearest.

    ``recall`` is what it was measured to find; ``worth`` the number of objects that exact search
    compares in the same time.
    """

    k: int
    effort: Effort
    recall: float
    worth: float


@dataclass(frozen=True, eq=False)
class Space:
    """An embedding in units that suit float32."""

    embedding: Embedding
    scale: float

    @classmethod
    def around(cls, metric: Metric, items: Points, alpha: float | None) -> Space:
        """Return a space for these items."""
        embedding = Embedding.fitted(metric, items, alpha)
        blocks = (items[s : s + BLOCK] for s in range(0, len(items), BLOCK))
        largest = max((np.abs(embedding.items(b)).max(initial=0.0) for b in blocks), default=0.0)
        return cls(embedding, float(largest) or 1.0)

    def items(self, points: Points, rows: Integers) -> Singles:
        """Return the vectors of some items  (n, D)."""
        out = np.empty((len(rows), self.embedding.width), dtype=np.float32)
        for start in range(0, len(rows), BLOCK):
            at = slice(start, start + BLOCK)
            out[at] = self.embedding.items(points[rows[at]]) / self.scale
        return out

    def queries(self, points: Points) -> NDArray[np.float64]:
        """Return the vectors of queries  (n, D)."""
        return self.embedding.queries(points) / self.scale


@dataclass(frozen=True, eq=False)
class Proposals:
    """A faiss index, and which row of the collection each of its vectors belongs to.

    Attributes
    ----------
    rows : ndarray, shape (n,)
        -1 where the object was removed.
    reach : float
        Length of the longest query that float32 can serve as well as those it was tuned on.
    depths : tuple of Depth
        Each for a larger k.
    """

    engine: Engine
    index: Any
    space: Space
    rows: Integers
    reach: float = np.inf
    depths: tuple[Depth, ...] = ()

    @cached_property
    def n_left(self) -> int:
        """Number of vectors whose object is there, or removed but not yet cleared away."""
        return int(np.count_nonzero(self.rows >= 0))

    def moved(self, left: Integers, n_before: int) -> Proposals:
        """Return the same once only these of the collection's rows are left, in order."""
        place = np.full(n_before + 1, -1)  # the last one for -1
        place[left] = np.arange(len(left))
        return replace(self, rows=place[self.rows])

    def near(
        self, points: Points, items: Points, k: int, depth: Depth, allowed: Mask | None = None
    ) -> tuple[Near, Mask]:
        """Return the k nearest that are allowed, and for which queries they were found.

        The engine ranks all objects, and those that are not allowed are left out of its list: it
        is complete if k others stand among the first ``depth.k``, however they lie.
        """
        queries = self.space.queries(points)
        usable = np.flatnonzero(np.sqrt(np.einsum("nd,nd->n", queries, queries)) <= self.reach)
        x = queries[usable].astype(np.float32)
        places = np.empty((0, depth.k), dtype=np.int64)
        if len(x):
            places = self.engine.search(self.index, x, depth.k, depth.effort)
        rows = np.where(places >= 0, self.rows[places], -1)
        good = rows >= 0
        if allowed is not None:
            good &= allowed[rows]
        enough = np.count_nonzero(good[:, : depth.k], axis=1) >= k
        query, place = np.nonzero(good & enough[:, None])
        near, complete = Near.none(len(points), k), np.zeros(len(points), dtype=bool)
        complete[usable[enough]] = True
        rank(
            self.space.embedding.metric, (points, items), (usable[query], rows[query, place]), near
        )
        return near, complete

    def header(self) -> dict[str, Any]:
        """Return what a file says beside the arrays."""
        embedding = self.space.embedding
        return {
            "alpha": embedding.alpha,
            "top": embedding.top,
            "scale": self.space.scale,
            "reach": self.reach,
            "depths": [depth._asdict() for depth in self.depths],
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays by name."""
        embedding = self.space.embedding
        return {"rows": self.rows, "center": embedding.center, "middle": embedding.middle}

    @classmethod
    def restored(
        cls,
        metric: Metric,
        engine: Engine,
        index: Any,
        header: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
    ) -> Proposals:
        """Return what gave this header and these arrays."""
        center, middle = (np.array(arrays[name]) for name in ("center", "middle"))
        embedding = Embedding(metric, float(header["alpha"]), center, middle, float(header["top"]))
        space = Space(embedding, float(header["scale"]))
        rows = np.array(arrays["rows"])
        depths = tuple(
            Depth(int(d["k"]), tuple(d["effort"]), float(d["recall"]), float(d["worth"]))
            for d in header["depths"]
        )
        if not engine.fits(index) or (index.ntotal, index.d) != (len(rows), embedding.width):
            raise ValueError("the faiss index does not fit")
        return cls(engine, index, space, rows, float(header["reach"]), depths)
