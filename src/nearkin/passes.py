"""The one pass over rated pairs that every learner shares.

An objective sees a pair only through its squared distance and its rating: a *link* turns blocks
of d2 into values and derivatives, and the passes here sum them to a value, a gradient, a Hessian
or a product with it. This is the only hot loop of OR, CO and HYB, and the one place where another
engine could be put: nothing else knows how the sums were made. They are added up in a fixed order,
so that they do not depend on the number of cores.
"""

from __future__ import annotations

# joblib and threadpoolctl come with scikit-learn, which cannot do without either.
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, reduce
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

import joblib
from array_api_compat import is_numpy_namespace
from threadpoolctl import ThreadpoolController

from nearkin.data import Pairs
from nearkin.pairs import Array, Block, PairFeatures

Part = TypeVar("Part")

BLOCK_ELEMENTS = 2**19  # 4 MiB of float64: in cache, and few enough calls for two threads
MAX_CHUNKS = 16  # fixed, so that sums do not depend on the number of cores


class Terms(NamedTuple):
    """What a link returns for a block of n pairs; P is the number of its own parameters.

    ``own`` and ``own_second`` are the gradient (P,) and Hessian (P, P) in those parameters,
    ``cross`` (P, n) the mixed second derivative; None where the link has none. ``count`` is a
    number of pairs worth knowing: each link says which.
    """

    value: Array
    first: Array
    second: Array
    own: Array = None
    own_second: Array = None
    cross: Array = None
    count: Array = 0


class Link(Protocol):
    """A scalar link: d2 and rating of each pair in, value and derivatives in d2 out."""

    def __call__(self, d2: Array, pairs: Pairs) -> Terms:
        """Return the terms of a block of pairs."""


class Sums(NamedTuple):
    """Value, gradient and Hessian of a sum over pairs, and the link's ``count``."""

    value: Array
    gradient: Array
    hessian: Array
    count: Array


def accumulate(
    features: PairFeatures,
    pairs: Pairs,
    link: Link,
    theta: Array,
    *,
    hessian: bool = False,
) -> Sums:
    """Sum a link over all pairs: value, gradient and perhaps Hessian.

    The link's own parameters follow theta in gradient and Hessian. Without a Hessian no class
    term is written out.
    """
    xp, theta_parts = features.xp, features.split(theta)

    def part(block: Block, rated: Pairs) -> Sums:
        terms = link(block.d2(*theta_parts), rated)
        gradient = block.transpose(terms.first)
        if terms.own is not None:
            gradient = xp.concat([gradient, terms.own])
        H = _hessian(block.phi(), terms, xp) if hessian else None
        return Sums(terms.value, gradient, H, terms.count)

    extra = features.n_columns if hessian else 0
    return Sums(*sum_over_blocks(features, pairs, part, extra))


def _hessian(phi: Array, terms: Terms, xp: Any) -> Array:
    """Return the Hessian of a block; phi is overwritten, fresh memory would cost more."""
    cross = None if terms.own is None else (terms.cross @ phi).T  # (p, P)
    # H = phi.T @ diag(second) @ phi, as W.T @ W with W = sqrt(second) phi  (p, p)
    phi *= xp.sqrt(terms.second)[:, None]
    H = phi.T @ phi
    if cross is None:
        return H
    top = xp.concat([H, cross], axis=1)
    return xp.concat([top, xp.concat([cross.T, terms.own_second], axis=1)])


def hessian_product(
    features: PairFeatures, pairs: Pairs, link: Link, theta: Array, v: Array
) -> Array:
    """Return the link's Hessian times v, own parameters at the end, without forming either."""
    xp, p = features.xp, features.n_columns
    theta_parts, v_parts, own = features.split(theta), features.split(v[:p]), v[p:]

    def part(block: Block, rated: Pairs) -> tuple[Array]:
        terms = link(block.d2(*theta_parts), rated)
        along = block.d2(*v_parts)  # phi @ v: d2 is linear in theta  (n,)
        if terms.own is None:
            return (block.transpose(terms.second * along),)
        moved = block.transpose(terms.second * along + own @ terms.cross)
        return (xp.concat([moved, terms.cross @ along + terms.own_second @ own]),)

    return sum_over_blocks(features, pairs, part)[0]


def hessian_diagonal(features: PairFeatures, pairs: Pairs, link: Link, theta: Array) -> Array:
    """Return the diagonal of the link's Hessian in theta  (p,)."""
    theta_parts = features.split(theta)

    def part(block: Block, rated: Pairs) -> tuple[Array]:
        return (block.square_sums(link(block.d2(*theta_parts), rated).second),)

    return sum_over_blocks(features, pairs, part)[0]


def sum_over_blocks(
    features: PairFeatures,
    pairs: Pairs,
    part: Callable[[Block, Pairs], tuple[Array, ...]],
    extra_width: int = 0,
) -> tuple[Array, ...]:
    """Add up ``part`` over all blocks of pairs; NumPy's share the cores, one BLAS thread each."""
    n = pairs.a.shape[0]
    width = features.n_features + features.n_classes + features.n_profiles + extra_width
    rows = max(64, BLOCK_ELEMENTS // max(width, 1))
    n_chunks = max(1, min(MAX_CHUNKS, -(-n // rows)))

    def one(start: int, stop: int) -> tuple[Array, ...]:
        rated = pairs.at(slice(start, stop))
        return part(Block(features, rated.a, rated.b), rated)

    def chunk(k: int) -> tuple[Array, ...]:
        low, high = n * k // n_chunks, n * (k + 1) // n_chunks
        starts = range(low, max(high, low + 1), rows)
        return reduce(_plus, (one(s, min(s + rows, high)) for s in starts))

    if not is_numpy_namespace(features.xp):
        return reduce(_plus, map(chunk, range(n_chunks)))
    with single_blas():
        return reduce(_plus, in_threads(chunk, n_chunks))


def _plus(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(None if y is None else x + y for x, y in zip(left, right, strict=True))


def in_threads(part: Callable[[int], Part], n_parts: int) -> Iterator[Part]:
    """Yield ``part(0), part(1), ...`` in order, computed by all cores."""
    workers = min(n_cores(), n_parts)
    if workers <= 1:
        yield from map(part, range(n_parts))
    else:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(part, range(n_parts))


@cache
def n_cores() -> int:
    """Return the number of cores this process may use."""
    return int(joblib.cpu_count())


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS of NumPy and SciPy.

    faiss brings one of its own, whose number OpenMP keeps for each thread: to limit it in one
    thread and restore it in another would leave the first one limited.
    """
    every = ThreadpoolController().select(user_api="blas")
    ours = [lib["filepath"] for lib in every.info() if "faiss" not in lib["filepath"]]
    return every.select(filepath=ours)


class _SingleBlas:
    """The first pass to enter limits BLAS, the last to leave restores it: fits may overlap."""

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limit = _blas().limit(limits=1, user_api="blas")
                self.limit.__enter__()
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.__exit__(None, None, None)


_SINGLE_BLAS = _SingleBlas()


def single_blas() -> AbstractContextManager[None]:
    """Hold BLAS to one thread: chunks are the parallel part, and sums stay repeatable."""
    return _SINGLE_BLAS
