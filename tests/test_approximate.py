"""What ApproximateIndex chooses, when it falls back, and that it stays right as objects change."""

import functools
import subprocess
import sys
import threading

import faiss
import index_cases as cases
import numpy as np
import pytest

import nearkin as nk
from nearkin.index import HNSW, IVF, ApproximateIndex, Where, trials
from nearkin.index.approximate_build import held_out
from nearkin.index.embedding import Embedding
from nearkin.index.inmemory import InMemory
from nearkin.index.trials import Trial
from nearkin.index.tuning import best_alpha, least_effort

ENGINES = [IVF(), IVF(coded=True), HNSW()]
LEAST = 0.968  # of .99, up to 8 of 250 may be missing by chance


def clustered(n=1200, K=8, clusters=4, **case):
    """A metric with classes, items and queries; in clusters far from each other."""
    return cases.collection(cases.Case("c", n=n, K=K, M=3, clusters=clusters, **case))


def made(items, metric, engine, ids=None, **columns):
    index = ApproximateIndex(metric, engine=engine)
    index.add(items, range(len(items)) if ids is None else ids, **columns)
    index.build()
    assert index._made.engine == engine
    return index


@pytest.fixture(params=ENGINES, ids=str)
def engine(request):
    return request.param


@pytest.fixture
def no_exact_search(monkeypatch):
    """Fail where all objects are compared with a query."""
    real = InMemory.near

    def near(self, q, k, allowed=None, start=0):
        assert start > 0, "searched exactly"
        return real(self, q, k, allowed, start)

    return lambda: monkeypatch.setattr(InMemory, "near", near)


def check(index, metric, items, queries, k, allowed=None, where=None, least=LEAST):
    found, d = index.search(queries, k, where), cases.exact_distances(metric, items, queries)
    cases.check_found(found, [str(i) for i in range(len(items))], d, k)
    assert cases.recall(found, d, k, allowed) >= least
    if allowed is not None:
        assert set(found.ids.ravel()) - {None} <= {str(i) for i in np.flatnonzero(allowed)}
        assert (np.isfinite(found.distances).sum(axis=1) == min(k, allowed.sum())).all()


def test_the_engine_answers(engine, no_exact_search):
    metric, items, queries = clustered()
    index = made(items, metric, engine)
    assert index.recall_ >= 0.99
    assert repr(engine) in repr(index)
    no_exact_search()
    for k in (1, 10, 37):
        check(index, metric, items, queries, k)


def test_more_than_the_engine_was_tuned_for(engine):
    metric, items, queries = clustered(n=600)
    index = made(items, metric, engine)
    check(index, metric, items, queries, 400, least=1.0)
    check(index, metric, items, queries, 700, least=1.0)


def test_objects_added_later_are_found_exactly(engine, no_exact_search):
    metric, items, queries = clustered()
    index = made(items[:900], metric, engine)
    index.add(items[900:], range(900, 1200))
    d = cases.exact_distances(metric, items, queries)
    no_exact_search()
    found = index.search(queries, 10)
    cases.check_found(found, [str(i) for i in range(1200)], d, 10)
    for ids, row in zip(found.ids, d, strict=True):
        nearest = np.argsort(row, kind="stable")[:10]
        assert {str(i) for i in nearest if i >= 900} <= set(ids)


def test_it_is_built_again_once_most_objects_are_new(engine):
    metric, items, queries = clustered()
    index = made(items[:400], metric, engine)
    index.add(items[400:800], range(400, 800))
    assert len(index._made.rows) == 400
    index.add(items[800:], range(800, 1200))
    assert len(index._made.rows) == 1200
    check(index, metric, items, queries, 10)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_removed_objects_of_one_region(engine, share):
    # a graph searched there would come back with few objects, and far ones
    metric, items, queries = clustered(clusters=3)
    index = made(items, metric, engine)
    d = cases.exact_distances(metric, items, queries[:1])[0]
    gone = np.argsort(d)[: int(share * len(items))]
    index.remove(gone)
    allowed = np.ones(len(items), dtype=bool)
    allowed[gone] = False
    assert len(index) == allowed.sum()
    check(index, metric, items, queries, 10, allowed)
    index.add(items[gone], gone)
    check(index, metric, items, queries, 10)


def test_it_is_built_again_once_most_objects_are_gone(engine):
    metric, items, queries = clustered(n=900)
    index = made(items, metric, engine)
    index.remove(range(300))
    assert len(index._made.rows) == 900
    index.remove(range(300, 600))
    assert len(index._made.rows) == 300
    check(index, metric, items, queries, 10, np.arange(900) >= 600)


def test_filters_that_leave_out_where_the_query_is(engine):
    metric, items, queries = clustered(clusters=3)
    d = cases.exact_distances(metric, items, queries[:1])[0]
    labels = np.where(np.argsort(np.argsort(d)) < 400, "near", "far")
    index = made(items, metric, engine, labels=labels)
    for name in ("near", "far"):
        check(index, metric, items, queries, 10, labels == name, Where(classes=[name]))
    few = np.arange(1200) < 1193
    where = Where(exclude_ids=range(1193, 1200))
    check(index, metric, items, queries, 10, few, where)
    check(index, metric, items, queries, 10, ~few, Where(exclude_ids=range(1193)), least=1.0)


def test_a_broad_filter_goes_through_the_engine(engine, no_exact_search):
    metric, items, queries = clustered(clusters=1)
    labels = np.where(np.arange(len(items)) % 3 > 0, "broad", "rest")
    index = made(items, metric, engine, labels=labels)
    no_exact_search()
    check(index, metric, items, queries, 10, labels == "broad", Where(classes=["broad"]))


def test_many_copies(engine):
    # objects that have copies are found too easily: none of a held-out object's are left
    metric, items, queries = clustered(n=1500, copies=5)
    check(made(items, metric, engine), metric, items, queries, 10)


def test_what_is_held_out_has_no_copy_left(rng):
    x = np.round(rng.normal(size=(600, 2)), 1)
    asked, apart, rest = held_out(x)
    assert sorted([*apart, *rest]) == list(range(600))
    assert {tuple(row) for row in x[asked]} == {tuple(row) for row in x[apart]}
    assert not {tuple(row) for row in x[apart]} & {tuple(row) for row in x[rest]}
    assert len({tuple(row) for row in x[asked]}) == len(asked)


def test_few_different_objects_are_searched_exactly():
    metric, items, queries = clustered(n=400, copies=20)
    index = ApproximateIndex(metric, engine=IVF())
    index.add(items, range(400))
    assert repr(index.build()) == "ApproximateIndex(400 objects, exact)"
    assert index.recall_ is None
    check(index, metric, items, queries, 10, least=1.0)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e50])
def test_queries_unlike_all_before_them(engine, far):
    # float32 cannot tell the objects apart
    metric, items, queries = clustered(n=500)
    index = made(items, metric, engine)
    queries = nk.Points(queries.x + far * (np.arange(25) % 2)[:, None], queries.u)
    check(index, metric, items, queries, 10)
    check(index, metric, items, queries[1::2], 10, least=1.0)


@pytest.mark.parametrize("unit", [1e-40, 1e40])
def test_units_of_features_change_nothing(engine, unit):
    metric, items, queries = cases.collection(cases.Case("plain"))
    index = made(nk.Points(items.x * unit), metric, engine)
    found = index.search(nk.Points(queries.x * unit), 10)
    found.distances[:] /= unit
    d = cases.exact_distances(metric, items, queries)
    assert cases.recall(found, d, 10) >= LEAST


@pytest.mark.parametrize("mmap", [False, True])
def test_files_give_the_same_answers(engine, tmp_path, mmap, no_exact_search):
    metric, items, queries = clustered()
    index = made(items, metric, engine)
    index.remove(range(3))
    index.add(items[:2], range(2))
    index.save(tmp_path / "i")
    again = ApproximateIndex.load(tmp_path / "i", mmap=mmap)
    assert repr(again) == repr(index)
    assert (again.recall, again.recall_, again.engine) == (0.99, index.recall_, engine)
    assert again._made.depths == index._made.depths
    no_exact_search()
    expected, found = index.search(queries, 20), again.search(queries, 20)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_a_loaded_index_is_built_again(engine, tmp_path):
    metric, items, queries = clustered(n=800)
    made(items[:500], metric, engine).save(tmp_path / "i")
    again = ApproximateIndex.load(tmp_path / "i", mmap=True)
    again.add(items[500:], range(500, 800))
    again.build(k=5).save(tmp_path / "i")
    assert len(again._made.rows) == 800
    check(ApproximateIndex.load(tmp_path / "i", metric), metric, items, queries, 5)


def test_an_engine_that_finds_too_little_is_not_used(monkeypatch):
    metric, items, queries = clustered()
    monkeypatch.setattr(IVF, "ladders", lambda self, index, k: [[(1, 1)]])
    index = ApproximateIndex(metric, engine=IVF(cells=100))
    index.add(items, range(len(items)))
    with pytest.warns(RuntimeWarning, match=r"cannot surely find 0.99 .* search stays exact"):
        index.build()
    check(index, metric, items, queries, 10, least=1.0)
    index = ApproximateIndex(metric, recall=1.0, engine=IVF())
    index.add(items, range(len(items)))
    with pytest.warns(RuntimeWarning, match="500 queries cannot tell"):
        index.build()


@pytest.mark.parametrize("quickest", ["exact", *ENGINES], ids=str)
def test_the_quickest_is_kept(monkeypatch, quickest):
    monkeypatch.setattr("nearkin.index.approximate.SMALL", 500)

    def seconds(self, search):  # of a search; exact search is no method of an engine
        by = getattr(search, "func", None)
        name = "exact" if by is None else by.__self__.engine
        return 1e-3 if name == quickest else {"exact": 1.0}.get(name, 0.5)

    monkeypatch.setattr(Trial, "_seconds", seconds)
    metric, items, queries = clustered(n=1200)
    index = ApproximateIndex(metric)
    index.add(items, range(1200))
    if quickest == "exact":
        with pytest.warns(RuntimeWarning, match="faster than exact search"):
            index.build()
        assert index._made is None
    else:
        index.build()
        assert index._made.engine == quickest
        assert index._made.depths[0].worth == pytest.approx(1.2)
    check(index, metric, items, queries, 10)


def test_a_small_collection_is_searched_exactly():
    metric, items, queries = clustered(n=900)
    index = ApproximateIndex(metric)
    assert index.build().recall_ is None  # of nothing, too
    index.add(items, range(900))
    assert repr(index.build()) == "ApproximateIndex(900 objects, exact)"
    check(index, metric, items, queries, 10, least=1.0)


def test_recall_is_that_of_new_queries():
    """As it is reported, and as it is: the sizes of the two errors bound the difference."""
    metric, items, queries = clustered(n=3000, clusters=1, n_queries=300)
    index = ApproximateIndex(metric, recall=0.9, engine=HNSW(links=6, breadth=20))
    index.add(items, range(3000))
    index.build()
    d = cases.exact_distances(metric, items, queries)
    assert abs(cases.recall(index.search(queries, 10), d, 10) - index.recall_) < 0.05


def test_queries_as_new_objects_and_as_rated_ones(study):
    X, y, ratings = study
    est = nk.Hybrid(missing=nk.ItemProfiles()).fit(X, y, ratings)
    known, new = trials.as_queries(est.metric_, est.points_)
    assert known is est.points_
    np.testing.assert_array_equal(new.u, est.metric_.points(X).u)
    assert new.b is None
    plain = nk.Metric(np.ones(4))
    (alone,) = trials.as_queries(plain, plain.points(X))
    np.testing.assert_array_equal(alone.x, X)


def test_what_an_attempt_measures(rng):
    metric, items, _ = clustered(n=400)
    held = InMemory(metric)
    held.add(items, range(400), None, None, "test")
    members = rng.permutation(400)[:300]
    trial = Trial(held, members, [items[:40]], [5, 20])
    d = cases.exact_distances(metric, items[members], items[:40])
    np.testing.assert_array_equal(trial.limits, np.sort(d, axis=1)[:, :20])

    class Half:
        """Finds every other one of the nearest."""

        engine = IVF()

        def near(self, points, items, k, depth):
            found = nk.nearest.Near.none(len(points), k)
            found.distances[:, : (k + 1) // 2] = np.sort(d, axis=1)[:, :k:2]
            return found, np.ones(len(points), dtype=bool)

    assert trial.attempt(Half(), 20, (1,)).recall == pytest.approx(0.5)
    assert trial.attempt(Half(), 20, (1,)).sure == pytest.approx(0.5 - 0.25 / 40)


def test_choices():
    assert least_effort([1, 2, 4, 8], lambda effort: effort / 5, 0.7) == (4, 0.8)
    assert least_effort([1, 2], lambda effort: effort / 5, 0.7) == (None, 0.4)
    assert best_alpha(3.0, lambda alpha: -abs(alpha - 5.0)) == 6.0


def test_no_engine_ranks_inner_products(engine, rng):
    index = engine.trained(rng.normal(size=(500, 4)).astype(np.float32))
    assert index.metric_type == faiss.METRIC_L2


def test_faiss_keeps_its_settings(engine, monkeypatch):
    metric, items, queries = clustered(n=500, n_queries=200)
    index = made(items, metric, engine)
    alone = index.search(queries, 10)
    monkeypatch.setattr("nearkin.passes.n_cores", lambda: 3)
    seen = []
    real = type(engine).search

    def search(self, *arguments):
        seen.append((threading.get_ident(), faiss.omp_get_max_threads()))
        return real(self, *arguments)

    monkeypatch.setattr(type(engine), "search", search)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        found = index.search(queries, 10)
        assert faiss.omp_get_max_threads() == 2
        index.search(queries[0], 10)
    finally:
        faiss.omp_set_num_threads(before)
    assert {threads for _, threads in seen[:-1]} == {1}  # shared out among threads of ours
    assert threading.get_ident() not in {thread for thread, _ in seen[:-1]}
    assert seen[-1] == (threading.get_ident(), 2)
    np.testing.assert_array_equal(found.ids, alone.ids)
    np.testing.assert_array_equal(found.distances, alone.distances)


def test_vectors_rank_as_the_metric_does(rng):
    metric, items, queries = clustered(n=200)
    embedding = Embedding.fitted(metric, items)
    a, b = embedding.queries(queries), embedding.items(items)
    d2 = ((a[:, None] - b[None]) ** 2).sum(axis=2) - embedding.constants(queries)[0][:, None]
    np.testing.assert_allclose(d2, cases.exact_distances(metric, items, queries) ** 2, atol=1e-9)


def test_wrong_parameters():
    metric = nk.Metric(np.ones(2))
    with pytest.raises(ValueError, match=r"recall=1\.5"):
        ApproximateIndex(metric, recall=1.5)
    with pytest.raises(TypeError, match=r"IVF\(\) or HNSW\(\)"):
        ApproximateIndex(metric, engine="hnsw")
    for wrong in (functools.partial(IVF, cells=0), functools.partial(HNSW, links=1)):
        with pytest.raises(ValueError, match="must be >="):
            wrong()
    with pytest.raises(ValueError, match="k=0"):
        ApproximateIndex(metric).build(k=0)


def test_without_faiss():
    code = "import sys; sys.modules['faiss'] = None\nimport nearkin.index\n"
    for name in ("ApproximateIndex", "HNSW"):
        code += f"try: nearkin.index.{name}\nexcept ImportError as error: print(error)\n"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert run.stdout.splitlines() == [
        "ApproximateIndex needs faiss: pip install 'nearkin[ann]'",
        "HNSW needs faiss: pip install 'nearkin[ann]'",
    ]
