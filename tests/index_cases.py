"""What every index must do, whichever kind it is: run these with a function ``metric -> index``."""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np
import pytest

import nearkin as nk
from nearkin.index import ApproximateIndex, Where

faiss.omp_set_num_threads(1)  # a graph depends on the order in which threads link objects


def built(engine):
    """A kind of index with this engine, however few objects there are: built when it is filled."""

    class Built(ApproximateIndex):
        def __init__(self, metric, recall=0.99, engine=engine):
            super().__init__(metric, recall, engine)

        def add(self, *arguments, **options):
            super().add(*arguments, **options)
            if self._made is None:
                self.build()

    return Built


@dataclass(frozen=True)
class Case:
    """A collection to search: its size, its shape, and what is hard about it."""

    name: str
    n: int = 400
    K: int = 20
    M: int = 0
    clusters: int = 1
    offset: float = 0.0
    profiled: bool = False
    rated_queries: bool = False
    copies: int = 1
    k: int = 10
    n_queries: int = 25

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("plain"),
    Case("clusters", clusters=12),
    *(Case(f"K={K} M=3", K=K, M=3, clusters=5, n=300) for K in (20, 64, 256, 1024)),
    Case("M=30", M=30, clusters=8),
    Case("profiles", M=3, profiled=True),
    Case("profiles M=30", M=30, profiled=True, clusters=4),
    Case("rated queries", M=3, profiled=True, rated_queries=True),
    Case("offset", M=3, offset=1e6),
    Case("offset without classes", K=64, offset=-1e7, clusters=3),
    Case("copies", M=3, copies=20),
    Case("k larger than n", n=7, M=3, k=12),
    Case("one object", n=1, k=3),
]


def collection(case, seed=0):
    """Return a metric, the items and the queries of a case."""
    rng = np.random.default_rng(seed)
    Q = rng.exponential(size=(case.M, case.M)) * 4 if case.M else None
    metric = nk.Metric(
        rng.exponential(size=case.K) * (rng.random(case.K) < 0.9),
        None if Q is None else Q + Q.T,
        None if Q is None else np.array([f"class {c}" for c in range(case.M)]),
        profiled=case.profiled,
    )
    middles = 4 * rng.normal(size=(case.clusters, case.K)) * (case.clusters > 1)

    def points(n, labelled, rated):
        x = middles[rng.integers(0, case.clusters, n)] + rng.normal(size=(n, case.K))
        u = rng.dirichlet(np.full(case.M, 0.5), n) if case.M else None
        if case.M:
            one_hot = np.eye(case.M)[rng.integers(0, case.M, n)]
            u = np.where(rng.random((n, 1)) < labelled, one_hot, u)
        b = rng.normal(size=(n, case.M)) if rated else None
        return nk.Points(x + case.offset, u, b)

    items = points(-(-case.n // case.copies), 0.8, case.profiled)
    items = items[np.arange(case.n) % len(items)]
    return metric, items, points(case.n_queries, 0.0, case.rated_queries)


def exact_distances(metric, items, queries):
    """Every distance in float64, each on its own."""
    a, b = np.divmod(np.arange(len(queries) * len(items)), max(len(items), 1))
    return metric.pair_distances(queries, items, a, b).reshape(len(queries), len(items))


def check_found(found, ids, d, k):
    """Whatever the recall: distances are the exact ones, sorted, ids differ, padding fits."""
    assert found.ids.shape == found.distances.shape == (len(d), k)
    row_of = {key: row for row, key in enumerate(ids)}
    for q in range(len(d)):
        keys = [key for key in found.ids[q] if key is not None]
        assert len(set(keys)) == len(keys)
        assert all(key is None for key in found.ids[q][len(keys) :])
        assert np.isinf(found.distances[q][len(keys) :]).all()
        expected = d[q, [row_of[key] for key in keys]]
        np.testing.assert_allclose(found.distances[q][: len(keys)], expected, rtol=1e-9, atol=1e-12)
        assert (np.diff(found.distances[q][: len(keys)]) >= 0).all()


def recall(found, d, k, allowed=None):
    """Share of the k nearest that were found; what is as near as the k-th counts as nearest."""
    d = d if allowed is None else np.where(allowed, d, np.inf)
    wanted, hits = 0, 0
    for q in range(len(d)):
        nearest = np.sort(d[q])[:k]
        nearest = nearest[np.isfinite(nearest)]
        wanted += len(nearest)
        if len(nearest):
            close = found.distances[q] <= nearest[-1] * (1 + 1e-9) + 1e-12
            hits += min(int(close.sum()), len(nearest))
    return hits / wanted if wanted else 1.0


def check_agreement(make, case, least=1.0):
    """The index agrees with brute force in float64 to the recall it states."""
    metric, items, queries = collection(case)
    ids = [f"o{i}" for i in range(len(items))]
    index = make(metric)
    index.add(items, ids)
    assert len(index) == len(items)
    d = exact_distances(metric, items, queries)
    found = index.search(queries, case.k)
    check_found(found, ids, d, case.k)
    assert recall(found, d, case.k) >= least
    alone = index.search(queries[:1], case.k)
    check_found(alone, ids, d[:1], case.k)


def filled(make, n=300, **case):
    """Return an index with labels and metadata, and everything that went into it."""
    metric, items, queries = collection(Case("filled", n=n, M=3, clusters=4, **case))
    labels = [["cyst", "abscess", None][i % 3] for i in range(n)]
    meta = {"patient": [f"p{i // 4}" for i in range(n)], "year": [2000 + i % 5 for i in range(n)]}
    index, ids = make(metric), [f"o{i}" for i in range(n)]
    index.add(items, ids, labels, meta)
    return index, metric, items, queries, ids, labels, meta


FILTERS = [
    Where(),
    Where(classes=["cyst"]),
    Where(classes=["cyst", "abscess"], exclude_ids=["o0", "o3", "nobody"]),
    Where(only={"year": [2001, 2003]}),
    Where(exclude={"patient": ["p1", "p2"]}),
    Where(only={"patient": ["p5"]}),  # four objects, fewer than k
    Where(only={"patient": ["p5"]}, classes=["cyst"], exclude_ids=["o21"]),
    Where(classes=["wart"]),  # none at all
]


def check_filters(make, least=1.0):
    """Filters act before ranking, for all queries or for each."""
    index, metric, items, queries, ids, labels, meta = filled(make)
    d = exact_distances(metric, items, queries)
    masks = [np.array(where.allowed(ids, labels, meta)) for where in FILTERS]
    for where, mask in zip(FILTERS, masks, strict=True):
        found = index.search(queries, 10, where)
        check_found(found, ids, d, 10)
        assert {key for key in found.ids.ravel() if key} <= {ids[i] for i in np.flatnonzero(mask)}
        assert (np.isfinite(found.distances).sum(axis=1) == min(10, mask.sum())).all()
        assert recall(found, d, 10, mask) >= least
    each = [FILTERS[q % len(FILTERS)] for q in range(len(queries))]
    allowed = np.array([masks[q % len(FILTERS)] for q in range(len(queries))])
    found = index.search(queries, 10, each)
    check_found(found, ids, d, 10)
    assert recall(found, d, 10, allowed) >= least
    with pytest.raises(ValueError, match="no metadata column 'ward'"):
        index.search(queries, 3, Where(only={"ward": ["a"]}))
    with pytest.raises(ValueError, match="3 filters for 25 queries"):
        index.search(queries, 3, FILTERS[:3])


def check_life(make, least=1.0):
    """Adding, removing, adding again; nothing happens where something is wrong."""
    index, metric, items, queries, ids, *_ = filled(make)
    d = exact_distances(metric, items, queries)
    for wrong in (["new", "o5"], ["new", "new"], ["new", None], ["new"]):
        with pytest.raises(ValueError, match=r"ids? "):
            index.add(items[:2], wrong)
    with pytest.raises(ValueError, match=r"label"):
        index.add(items[:2], ["new", "newer"], labels=["cyst"])
    with pytest.raises(ValueError, match=r"not in the index"):
        index.remove(["o5", "nobody"])
    assert len(index) == 300
    gone = np.zeros(300, dtype=bool)
    for some in (np.arange(0, 30), np.arange(100, 260)):  # a few, then most of them
        index.remove([ids[i] for i in some])
        gone[some] = True
        assert len(index) == 300 - gone.sum()
        found = index.search(queries, 10)
        check_found(found, ids, d, 10)
        assert not {key for key in found.ids.ravel() if key} & {ids[i] for i in some}
        assert recall(found, d, 10, ~gone) >= least
    index.add(items[20:30], [ids[i] for i in range(20, 30)], labels=["wart"] * 10)
    gone[20:30] = False
    found = index.search(queries, 10)
    check_found(found, ids, d, 10)
    assert recall(found, d, 10, ~gone) >= least
    found = index.search(queries, 10, Where(classes=["wart"]))
    assert {key for key in found.ids.ravel() if key} == {ids[i] for i in range(20, 30)}
    index.remove([key for i, key in enumerate(ids) if not gone[i]])
    assert len(index) == 0
    assert (index.search(queries, 2).ids == None).all()  # noqa: E711
    index.add(items, ids)
    assert recall(index.search(queries, 10), d, 10) >= least


def check_empty(make):
    """An empty collection answers with nothing; no query is no answer."""
    metric, items, queries = collection(Case("empty", M=3))
    index = make(metric)
    for where in (None, Where(classes=["cyst"])):
        found = index.search(queries, 3, where)
        assert found.ids.shape == (25, 3)
        assert set(found.ids.ravel()) == {None}
        assert np.isinf(found.distances).all()
    index.add(items[:0], [])
    index.add(items, range(len(items)))
    assert index.search(queries[:0], 3).ids.shape == (0, 3)
    assert index.search(items[7], 1).distances.shape == (1, 1)
    with pytest.raises(ValueError, match="k=0"):
        index.search(queries, 0)
    with pytest.raises(TypeError, match=r"metric\.points"):
        index.search(queries.x, 3)
    other = nk.Metric(np.ones(3))
    with pytest.raises(ValueError, match=r"metric\.points"):
        index.search(other.points(np.zeros((1, 3))), 3)
