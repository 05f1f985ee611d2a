"""faiss engines for Euclidean vectors: how each is made, searched and kept in a file.

What a search may change is passed with it: nothing that faiss keeps for the whole process is
touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin.bundle import BundleError
from nearkin.data import check_number

Singles = NDArray[np.float32]
Places = NDArray[np.int64]
Effort = tuple[int, ...]

STEP = 2**0.5  # from one effort to the next
ROUNDS, MEMBERS, FEWEST = 10, 40, 39  # of k-means, objects of a cell that it sees, and in a cell
CODE_BITS = 4  # for each coordinate
PROPOSED = (32, 2, 4, 8, 16)  # times the wanted number: what codes propose
MARGIN = 16  # objects proposed beyond those wanted, for float32 may swap them
WIDEST = 8192  # breadth of a search in a graph, and objects that codes propose, at most


class Engine(Protocol):
    """How a faiss index is made, and how hard it can be made to search."""

    def trained(self, x: Singles) -> Any:
        """Return an empty faiss index for vectors like these, to which vectors can be added."""

    def ladders(self, index: Any, k: int) -> list[list[Effort]]:
        """Return lists of efforts to find k, each from quick to thorough.

        At the same first number, the first list finds most.
        """

    def search(self, index: Any, x: Singles, k: int, effort: Effort) -> Places:
        """Return the places of more than k near vectors, nearest first, -1 for none."""

    def fits(self, index: Any) -> bool:
        """Tell whether a faiss index is one of these."""


@dataclass(frozen=True)
class IVF:
    """Vectors in cells around centres: a query is compared with those in the nearest cells.

    Parameters
    ----------
    cells : int, optional
        By default 4 times the square root of the number of objects, with codes half of the root.
    coded : bool, default=False
        Keep half a byte of each coordinate, compare these, and let the metric rank more of what
        they propose: an eighth of the memory, and several times faster where many cells have to
        be looked at, as in data without clusters.
    """

    cells: int | None = None
    coded: bool = False

    def __post_init__(self) -> None:
        if self.cells is not None:
            check_number("IVF", "cells", self.cells, 1, whole=True)

    def trained(self, x: Singles) -> Any:
        """Return an empty faiss index whose centres are those of these vectors."""
        n, D = x.shape
        cells = int((0.5 if self.coded else 4.0) * n**0.5) if self.cells is None else self.cells
        cells = max(1, min(cells, n // FEWEST if self.cells is None else n))
        if self.coded:
            index = faiss.IndexIVFPQFastScan(faiss.IndexFlatL2(D), D, cells, D, CODE_BITS)
            index.by_residual = False  # one table for a query, not one for each of its cells
            index.pq.cp.niter, index.pq.cp.min_points_per_centroid = ROUNDS, 1
        else:
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(D), D, cells)
        index.cp.niter, index.cp.max_points_per_centroid = ROUNDS, MEMBERS
        index.cp.min_points_per_centroid = 1  # fewer are fine, faiss would say on stderr
        index.train(x)
        return index

    def ladders(self, index: Any, k: int) -> list[list[Effort]]:
        """Return numbers of cells, and how many times k objects are proposed."""
        few = [times for times in PROPOSED if times * k <= min(index.ntotal // 4, WIDEST)]
        choices = few or PROPOSED[1:2] if self.coded else (1,)
        return [[(n, times) for n in _steps(1, index.nlist)] for times in choices]

    def search(self, index: Any, x: Singles, k: int, effort: Effort) -> Places:
        """Return the places of more than k near vectors, -1 where there are fewer."""
        parameters = faiss.SearchParametersIVF(nprobe=effort[0])
        places: Places = index.search(x, k * effort[1] + MARGIN, params=parameters)[1]
        return places

    def fits(self, index: Any) -> bool:
        """Tell whether a faiss index is one of these."""
        kind = faiss.IndexIVFPQFastScan if self.coded else faiss.IndexIVFFlat
        return isinstance(index, kind)


@dataclass(frozen=True)
class HNSW:
    """A graph that links each vector to its neighbours: a query follows the links.

    Parameters
    ----------
    links : int, default=32
        Links of each object; twice as many on the lowest level.
    breadth : int, default=100
        Breadth of the search for them.
    """

    links: int = 32
    breadth: int = 100

    def __post_init__(self) -> None:
        check_number("HNSW", "links", self.links, 2, whole=True)
        check_number("HNSW", "breadth", self.breadth, 1, whole=True)

    def trained(self, x: Singles) -> Any:
        """Return an empty graph, by Euclidean distance: inner products would lead it astray."""
        index = faiss.IndexHNSWFlat(x.shape[1], self.links)
        index.hnsw.efConstruction = self.breadth
        return index

    def ladders(self, index: Any, k: int) -> list[list[Effort]]:
        """Return breadths of a search."""
        return [[(breadth,) for breadth in _steps(k, max(k, min(WIDEST, index.ntotal)))]]

    def search(self, index: Any, x: Singles, k: int, effort: Effort) -> Places:
        """Return the places of more than k near vectors, -1 where there are fewer."""
        parameters = faiss.SearchParametersHNSW(efSearch=effort[0])
        places: Places = index.search(x, k + MARGIN, params=parameters)[1]
        return places

    def fits(self, index: Any) -> bool:
        """Tell whether a faiss index is one of these."""
        return isinstance(index, faiss.IndexHNSWFlat)


AUTOMATIC: tuple[Engine, ...] = (IVF(), IVF(coded=True), HNSW())
NAMES: dict[str, Any] = {"IVF": IVF, "HNSW": HNSW}


def _steps(low: int, high: int) -> Sequence[int]:
    """Return whole numbers from low to high, each about ``STEP`` times the one before."""
    count = int(np.ceil(np.log(high / low) / np.log(STEP))) + 1
    steps: list[int] = np.unique(np.rint(np.geomspace(low, high, count)).astype(int)).tolist()
    return steps


def described(engine: Engine) -> dict[str, Any]:
    """Return an engine's name and parameters."""
    return {"name": type(engine).__name__, **asdict(engine)}  # type: ignore[call-overload]


def from_description(said: dict[str, Any]) -> Engine:
    """Return the engine of a description."""
    parameters = dict(said)
    engine: Engine = NAMES[parameters.pop("name")](**parameters)
    return engine


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold faiss to one thread, where queries are shared out already.

    OpenMP keeps this number for each thread of the process, so no other one sees it.
    """
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def write_index(index: Any, path: Path) -> None:
    """Write a faiss index to a file; a full disk is an error, as it is not if faiss writes."""
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def read_index(path: Path, *, mmap: bool) -> Any:
    """Read a faiss index from a file whose content was checked."""
    flags = getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mmap else 0
    try:
        return faiss.read_index(str(path), flags)
    except RuntimeError as error:
        if not path.exists():  # it was replaced meanwhile
            raise FileNotFoundError(path) from error
        raise BundleError(f"{path} is no faiss index: {error}") from error


def add_vectors(index: Any, x: Singles) -> None:
    """Add vectors to a faiss index."""
    index.add(x)
