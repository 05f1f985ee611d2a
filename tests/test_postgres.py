"""PostgresIndex against exact float64 search, on a real server."""

import index_cases as cases
import numpy as np
import pytest
from postgres_cases import assert_nearest, collection, distances

from nearkin import Metric, Points
from nearkin.index import PostgresIndex, Where
from nearkin.index.postgres_build import Graph, Trial


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_agrees_with_brute_force(connect, case):
    cases.check_agreement(connect, case)


def test_like_every_index(connect):
    made = iter("abc")
    for check in (cases.check_filters, cases.check_life, cases.check_empty):
        check(lambda metric: connect(metric, "like " + next(made)))


@pytest.fixture
def connect(postgres_url, request):
    """Open indexes named after the test; drop and close them afterwards."""
    opened = []

    def connected(metric, name=None, **options):
        name = request.node.name.removeprefix("test_")[:48] if name is None else name
        opened.append(PostgresIndex(metric, postgres_url, name, **options))
        return opened[-1]

    yield connected
    for index in opened:
        index.drop()
        index.close()


def names(n):
    return [f"object {i}" for i in range(n)]


@pytest.mark.parametrize("clusters", [1, 10])
@pytest.mark.parametrize(
    ("K", "M", "profiled"),
    [
        (20, 0, False),
        (20, 3, False),
        (20, 3, True),
        (64, 30, True),
        (256, 30, False),
        (1024, 3, False),
        (2100, 3, False),
    ],
)
def test_unbuilt_search_is_exact(rng, connect, K, M, profiled, clusters):
    metric, items, draw = collection(rng, 250, K, M, clusters=clusters, profiled=profiled)
    index = connect(metric)
    index.add(items, names(250))
    queries = draw(5, rated=profiled)
    assert_nearest(index.search(queries, 10), distances(metric, queries, items), 10, names(250))
    assert len(index) == 250
    assert index.recall_ is None


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_features_far_from_zero(rng, connect, offset):
    # float32 vectors of uncentred features lost most neighbours
    metric, items, draw = collection(rng, 400, 20, 3, offset=offset)
    index = connect(metric)
    index.add(items, names(400))
    queries = draw(10)
    assert_nearest(index.search(queries, 7), distances(metric, queries, items), 7, names(400))


@pytest.mark.parametrize("unit", [1e-30, 1e-6, 1e8, 1e30])
def test_units_of_features_change_nothing(rng, connect, unit):
    metric, items, draw = collection(rng, 300, 5, 0)
    scaled = Metric(metric.weights / unit / unit)
    index = connect(scaled)
    index.add(Points(items.x * unit), names(300))
    queries = draw(6)
    found = index.search(Points(queries.x * unit), 9)
    assert_nearest(found, distances(metric, queries, items), 9, names(300))


def test_distances_of_any_size(rng, connect):
    metric, items, draw = collection(rng, 300, 5, 0)
    index = connect(Metric(metric.weights * 1e40))
    index.add(items, names(300))
    queries = draw(6)
    found = index.search(queries, 9)
    found.distances[:] /= 1e20
    assert_nearest(found, distances(metric, queries, items), 9, names(300))


@pytest.mark.parametrize("far", [1e4, 1e9, 1e18, 1e50])
def test_query_far_from_all_objects(rng, connect, far):
    # float32 cannot tell the objects apart, so the proof fails until all have been fetched
    metric, items, draw = collection(rng, 300, 5, 3)
    index = connect(metric)
    index.add(items, names(300))
    queries = draw(2)
    queries = Points(queries.x + far, queries.u)
    found = index.search(queries, 5).distances
    expected = np.sort(distances(metric, queries, items), axis=1)[:, :5]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_objects_unlike_all_before_them(rng, connect):
    # longer profiles and larger features than the vectors had room for
    metric, items, draw = collection(rng, 100, 5, 3, profiled=True)
    far = Points(1e20 * items.x, items.u, 1e4 * items.b)
    index = connect(metric)
    index.add(items, names(100))
    index.build()
    with pytest.warns(RuntimeWarning, match="so search stays exact"):  # float32 has no room
        index.add(far, [f"far {i}" for i in range(100)])
    assert index.recall_ is None
    queries = draw(5, rated=True)
    both = items.joined(far)
    every = names(100) + [f"far {i}" for i in range(100)]
    assert_nearest(index.search(queries, 10), distances(metric, queries, both), 10, every)
    assert index.search(far[3], 1).ids.tolist() == [["far 3"]]


def test_equal_distances_are_in_the_order_of_adding(rng, connect):
    metric, items, _ = collection(rng, 40, 5, 3)
    repeated = items.joined(items).joined(items)
    index = connect(metric)
    index.add(repeated, names(120))
    found = index.search(items, 3)
    d = distances(metric, items, items)
    for i, row in enumerate(found.ids):
        nearest = int(d[i].argmin())
        assert row.tolist() == [f"object {nearest + 40 * copy}" for copy in range(3)]


def test_a_thousand_equal_objects(rng, connect):
    metric, items, _ = collection(rng, 1, 3, 0)
    index = connect(metric)
    index.add(items[np.zeros(1000, int)], names(1000))
    assert index.search(items, 4).ids.tolist() == [names(4)]


def test_fewer_objects_than_asked_for(rng, connect):
    metric, items, draw = collection(rng, 4, 5, 3)
    index = connect(metric)
    queries = draw(2)
    empty = index.search(queries, 6)
    assert empty.ids.tolist() == [[None] * 6] * 2
    assert np.isinf(empty.distances).all()
    assert len(index) == 0
    index.add(items, names(4))
    assert_nearest(index.search(queries, 6), distances(metric, queries, items), 6, names(4))
    index.remove(names(4))
    assert len(index) == 0
    assert index.search(queries, 6).ids.tolist() == [[None] * 6] * 2
    assert index.search(queries[:0], 6).ids.shape == (0, 6)
    index.add(items[:0], [])


@pytest.mark.parametrize(("clusters", "profiled"), [(1, True), (20, False)])
def test_graph_finds_what_it_says(rng, connect, clusters, profiled):
    metric, items, draw = collection(rng, 2050, 8, 3, clusters=clusters, profiled=profiled)
    index = connect(metric, recall=0.97)
    index.add(items, names(2050))
    index.build(graph=Graph(links=8, breadth=40))
    queries = draw(60)
    d = distances(metric, queries, items)
    found = index.search(queries, 10)
    limits = np.sort(d, axis=1)[:, 9]
    assert index.recall_ >= 0.97
    assert np.mean(found.distances <= limits[:, None] * (1 + 1e-12)) >= 0.95
    assert uses_graph(index, queries)
    number = {name: i for i, name in enumerate(names(2050))}
    for i, row in enumerate(found.ids):
        np.testing.assert_allclose(found.distances[i], d[i, [number[name] for name in row]])
        assert (np.diff(found.distances[i]) >= 0).all()
    # more than a graph is ever asked for: all of them, one by one
    assert_nearest(index.search(queries[:2], 2150), d[:2], 2150, names(2050))


def uses_graph(index, queries):
    """Whether the server answers by the graph, in the words of its plan."""
    from nearkin.index.postgres_search import SETTINGS, Question

    question = Question.of(queries[0], 10, None, index._read())
    statement, values = question.sql()
    with index._database.using() as connection, connection.transaction():
        connection.execute(SETTINGS, ("40",))
        plan = connection.execute("EXPLAIN " + statement.as_string(), values).fetchall()
    return any("embedding_idx" in line for (line,) in plan)


def test_graph_of_half_precision_above_2000_dimensions(rng, connect):
    metric, items, draw = collection(rng, 400, 2100, 3)
    index = connect(metric)
    index.add(items, names(400))
    index.build()
    queries = draw(10)
    expected = np.sort(distances(metric, queries, items), axis=1)[:, :5]
    assert index._read().halved
    found = index.search(queries, 5).distances
    assert np.mean(np.isclose(found, expected, rtol=1e-12)) >= 0.95


def test_too_many_dimensions(connect):
    with pytest.raises(ValueError, match=r"4001 dimensions, and pgvector indexes up to 4000"):
        connect(Metric(np.ones(4001)))


@pytest.mark.parametrize("built", [False, True])
def test_filters_act_before_ranking(rng, connect, built):
    n = 600
    metric, items, draw = collection(rng, n, 5, 3)
    labels = [["cyst", "tumour", None][i % 3] for i in range(n)]
    meta = {"patient": [f"p{i // 4}" for i in range(n)], "page": np.arange(n) % 7}
    index = connect(metric)
    index.add(items, names(n), labels, meta)
    if built:
        index.build()
    filters = [
        None,
        Where(classes=["cyst"]),
        Where(classes=[]),
        Where(exclude_ids=names(n)[:-6]),  # fewer than k are left
        Where(only={"patient": ["p7", "p8"]}),
        Where(exclude={"patient": ["p1", None]}, only={"page": [1, 2.0, "3"]}),
        Where(classes=["tumour", "no such class"], exclude_ids=["object 1"], only={"page": [4]}),
        Where(classes=["cyst\0", "\ud800"], exclude_ids=["\0"]),
    ]
    queries = draw(len(filters))
    d = distances(metric, queries, items)
    allowed = np.array(
        [np.ones(n, bool) if f is None else f.allowed(names(n), labels, meta) for f in filters]
    )
    found = index.search(queries, 10, filters)
    assert_nearest(found, d, 10, names(n), allowed)
    one = index.search(queries, 10, filters[1])
    assert_nearest(one, d, 10, names(n), allowed[[1]])
    with pytest.raises(ValueError, match=r"no metadata column 'doctor'; found \['page', 'patient"):
        index.search(queries, 3, Where(only={"doctor": ["who"]}))
    with pytest.raises(ValueError, match="2 filters for 8 queries"):
        index.search(queries, 3, filters[:2])


HOSTILE = ['a"b', "it's; DROP TABLE nearkin_indexes; --", "%s %(x)s {}", "smörgås ☃", " \n"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(rng, connect, name):
    metric, items, draw = collection(rng, 60, 3, 0)
    index = connect(metric, name)
    ids = [f"{name}{i}x" for i in range(60)]
    index.add(items, ids, labels=[name + "x"] * 60, meta={name: [name + "x"] * 60})
    index.build()
    queries = draw(3)
    where = Where(classes=[name + "x"], only={name: [name + "x"]}, exclude={name: ["'"]})
    found = index.search(queries, 5, where)
    stored = [text.strip() for text in ids]
    assert_nearest(found, distances(metric, queries, items), 5, stored)
    index.remove(ids[:59])
    assert len(index) == 1


def test_add_and_remove_do_all_or_nothing(rng, connect):
    metric, items, draw = collection(rng, 10, 3, 0)
    index = connect(metric)
    index.add(items[:5], names(5), meta={"page": range(5)})
    with pytest.raises(ValueError, match=r"in the index already: .*object 4.* Nothing was added"):
        index.add(items[4:], names(10)[4:], meta={"page": range(6)})
    with pytest.raises(ValueError, match="ids given twice in rows 1, such as '7'"):
        index.add(items[:2], [7, 7.0], meta={"page": [1, 2]})
    with pytest.raises(ValueError, match="no id in rows 0"):
        index.add(items[:2], [None, "b"], meta={"page": [1, 2]})
    with pytest.raises(ValueError, match="3 page for 2 points"):
        index.add(items[:2], ["a", "b"], meta={"page": [1, 2, 3]})
    with pytest.raises(ValueError, match="page in rows 1 holds a zero byte"):
        index.add(items[:2], ["a", "b"], meta={"page": ["x", "a\0b"]})
    with pytest.raises(ValueError, match="1 of 3 ids are not in the index, such as 'object 9'"):
        index.remove(["object 1", "object 9", "object 2"])
    assert len(index) == 5
    assert index.search(draw(1), 9).ids[0].tolist().count(None) == 4


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            Points(np.zeros((2, 4)), np.full((2, 3), 1 / 3)),
            r"have shape \(2, 4\), the metric 3 features",
        ),
        (Points(np.full((2, 3), np.nan), np.full((2, 3), 1 / 3)), "NaN or infinity"),
        (Points(np.zeros((2, 3))), "u of the points must be finite and of shape"),
        (Points(np.zeros((2, 3)), np.full((2, 3), 1 / 3), np.ones((2, 3))), "learned without"),
    ],
)
def test_points_of_another_kind(connect, points, message):
    index = connect(Metric(np.ones(3), np.ones((3, 3)), np.arange(3)))
    with pytest.raises(ValueError, match=message):
        index.add(points, ["a", "b"])
    with pytest.raises(ValueError, match=message):
        index.search(points, 1)
    with pytest.raises(TypeError, match="got a list"):
        index.search([[1.0]], 1)


def test_wrong_calls(rng, connect):
    metric, items, _ = collection(rng, 3, 3, 0)
    for name in ("", "x" * 49, "a\0", 7):
        with pytest.raises(ValueError, match=r"pass a text of 1 to 48 bytes"):
            connect(metric, name)
    with pytest.raises(ValueError, match="recall"):
        connect(metric, "fine", recall=1.5)
    index = connect(metric)
    with pytest.raises(ValueError, match="k=0"):
        index.search(items, 0)
    with pytest.raises(ValueError, match="is empty; add objects, then build"):
        index.build()


def test_open_finds_what_is_there(rng, connect, postgres_url):
    metric, items, _ = collection(rng, 50, 3, 0)
    index = connect(metric)
    with pytest.raises(LookupError, match="holds no index named"):
        PostgresIndex.open(metric, postgres_url, index.name)
    index.add(items, names(50))
    index.build()
    with PostgresIndex.open(metric, postgres_url, index.name) as other:
        assert len(other) == 50
        assert other.recall_ == index.recall_
        assert other.search(items, 1).ids[:, 0].tolist() == names(50)
    index.drop()
    assert len(index) == 0


def test_replace(rng, connect):
    metric, items, draw = collection(rng, 300, 5, 3)
    index = connect(metric)
    index.replace(items, names(300), meta={"page": np.arange(300)})
    index.replace(items[100:], names(300)[100:], labels=["a"] * 200)
    queries = draw(5)
    found = index.search(queries, 10, Where(classes=["a"]))
    d = distances(metric, queries, items[100:])
    assert_nearest(found, d, 10, names(300)[100:])


def test_recall_is_asked_for_by_one_standard_error_more(monkeypatch):
    # a breadth that found .99 of 200 queries found .982 of others: one query loses all or nothing
    trial = object.__new__(Trial)
    monkeypatch.setattr(trial, "_shares", lambda _: [1.0] * 99 + [0.0], raising=False)
    assert trial.recall(40) == pytest.approx(0.99)
    assert trial.sure_recall(40) == pytest.approx(0.99 - 0.0995 / 10, abs=1e-4)
