"""Exact search agrees with brute force in float64, however hard float32 has it."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin import nearest
from nearkin.nearest import Neighbours


def random_points(rng, n, K, M, *, offset=0.0, grid=False, rated=False, spread=1.0):
    x = spread * rng.normal(size=(n, K))
    x = (np.round(x) if grid else x) + offset
    u = None
    if M:
        u = np.eye(M)[rng.integers(0, M, n)] if grid else rng.dirichlet(np.ones(M), n)
    return nk.Points(x, u, np.round(rng.normal(size=(n, M)), 1) if rated and M else None)


def random_metric(rng, K, M, *, profiled=False, grid=False):
    r = np.ones(K) if grid else rng.exponential(size=K) * (rng.random(K) < 0.8)
    Q = np.ceil(rng.exponential(size=(M, M))) if M else None
    names = None if Q is None else np.arange(M)
    return nk.Metric(r, None if Q is None else Q + Q.T, names, profiled=profiled)


def brute_force(metric, points, q, k, allowed=None):
    """Every distance on its own, sorted, equal ones by item order."""
    n = len(points)
    a, b = np.divmod(np.arange(len(q) * n), n) if n else (np.empty(0, int), np.empty(0, int))
    d = metric.pair_distances(q, points, a, b).reshape(len(q), n)
    if allowed is not None:
        d[:, ~allowed] = np.inf
    rows = np.argsort(d, axis=1, kind="stable")[:, :k]
    d = np.take_along_axis(d, rows, axis=1)
    short = ((0, 0), (0, k - d.shape[1]))
    rows, d = np.pad(rows, short), np.pad(d, short, constant_values=np.inf)
    return d, np.where(np.isinf(d), -1, rows)


def check(metric, points, q, k, allowed=None):
    found = Neighbours.of(metric, points).search(q, k, allowed)
    distances, rows = brute_force(metric, points, q, k, allowed)
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_array_equal(found.distances, distances)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 400),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from([1, 7, 500]),
    st.sampled_from([0.0, 1e4, -1e9]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0.3, 0.9]),
)
def test_search_is_exact(seed, n, K, M, k, offset, grid, rated, share):
    rng = np.random.default_rng(seed)
    metric = random_metric(rng, K, M, profiled=rated and M > 0, grid=grid)
    points = random_points(rng, n, K, M, offset=offset, grid=grid, rated=rated)
    q = random_points(rng, 5, K, M, offset=offset, grid=grid, rated=rated)
    check(metric, points, q, k, None if share is None else rng.random(n) < share)


@pytest.mark.parametrize("spread", [1e-40, 1e-5, 1e40])
def test_units_do_not_matter(rng, spread):
    metric = random_metric(rng, 5, 0)
    points = random_points(rng, 300, 5, 0, spread=spread)
    check(metric, points, random_points(rng, 9, 5, 0, spread=spread), 10)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e50])
def test_outliers_and_far_queries(rng, far):
    # one far object must not blur the others, and a far query sees them all alike
    metric, q = random_metric(rng, 5, 3), random_points(rng, 9, 5, 3)
    points = random_points(rng, 300, 5, 3).joined(random_points(rng, 2, 5, 3, offset=far))
    check(metric, points, q, 10)
    check(metric, points[:300], random_points(rng, 9, 5, 3, offset=far), 10)


def test_many_blocks_of_queries_and_items(rng, monkeypatch):
    for name, value in {"QUERIES": 8, "SCORES": 256, "ITEMS": 64, "SMALL": 0}.items():
        monkeypatch.setattr(nearest, name, value)
    metric = random_metric(rng, 2, 2, grid=True)
    points = random_points(rng, 700, 2, 2, grid=True)
    q = random_points(rng, 51, 2, 2, grid=True)
    for k in (1, 5, 100):
        check(metric, points, q, k)
        check(metric, points, q, k, rng.random(700) < 0.5)


def test_heaps_of_equal_items(rng, monkeypatch):
    monkeypatch.setattr(nearest, "CANDIDATES", 100)
    metric, points = random_metric(rng, 3, 0), nk.Points(np.zeros((500, 3)))
    found = Neighbours.of(metric, points).search(nk.Points(np.ones((6, 3))), 4)
    np.testing.assert_array_equal(found.rows, np.tile(np.arange(4), (6, 1)))


def test_equal_pairs_get_equal_bits_wherever_they_stand(rng):
    # a matrix product sums its last rows in another order: ties were broken by rounding
    for K in (5, 257, 1000):
        x = np.tile(rng.normal(size=(1, K)), (1023, 1))
        metric = nk.Metric(rng.exponential(size=K))
        d = metric.pair_distances(nk.Points(np.zeros((1, K))), nk.Points(x), [0] * 1023)
        assert len(set(d.tolist())) == 1


def test_lower_bounds_hold(rng):
    metric = random_metric(rng, 64, 5)
    points, q = (random_points(rng, n, 64, 5, offset=3.0) for n in (2000, 20))
    items = Neighbours.of(metric, points)
    queries = items.frame.queries(q)
    score = queries.vectors @ items.vectors.T
    d2 = metric.distances(q, points, squared=True)
    A = items.frame.embedded(q)
    z_norm = 2 * items.frame.scale * np.linalg.norm(A, axis=1)
    z_norm = np.hypot(z_norm, items.frame.scale**2)
    z_norm = np.hypot(z_norm, items.frame.cost_scale * np.linalg.norm(q.u, axis=1))
    exact = (d2 - (A**2).sum(axis=1)[:, None] - (q.u @ items.frame.costs)[:, None]) / z_norm[
        :, None
    ]
    error = items.vectors[:, -1]
    assert (score <= exact).all()
    assert (score + 2 * error >= exact).all()
    assert error.max() < 1e-4  # and are of use


def test_threads_do_not_change_the_answer(rng, monkeypatch):
    metric, points = random_metric(rng, 16, 0), random_points(rng, 5000, 16, 0)
    q = random_points(rng, 300, 16, 0)
    items, answers = Neighbours.of(metric, points), []
    for cores in (1, 3):
        monkeypatch.setattr(nearest, "n_cores", lambda cores=cores: cores)
        monkeypatch.setattr("nearkin.passes.n_cores", lambda cores=cores: cores)
        answers.append(items.search(q, 10))
    together = []
    threads = [threading.Thread(target=lambda: together.append(items.search(q, 10))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in (answers[1], *together):
        np.testing.assert_array_equal(other.rows, answers[0].rows)
        np.testing.assert_array_equal(other.distances, answers[0].distances)


@pytest.mark.parametrize(
    "learner",
    [
        nk.OrdinalRegression(),
        nk.ConvexOptimization(),
        nk.NCA(random_state=0),
        nk.Hybrid(),
        nk.Hybrid(missing=nk.ItemProfiles()),
        nk.Euclidean(),
    ],
)
def test_every_learner_has_kneighbors(study, learner):
    X, y, ratings = study
    est = learner.fit(X, y, ratings)
    distances, rows = est.kneighbors(X[:7] + 0.1, k=4)
    expected = est.metric_.distances(est.metric_.points(X[:7] + 0.1), est.points_)
    np.testing.assert_array_equal(rows, np.argsort(expected, axis=1, kind="stable")[:, :4])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :4], rtol=1e-9)
    assert est.kneighbors(X).rows.shape == (60, 5)


def test_kneighbors_agrees_with_scikit_learn(rng):
    from sklearn.neighbors import NearestNeighbors

    X, queries = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    distances, rows = nk.Euclidean(standardise=False).fit(X).kneighbors(queries, k=6)
    theirs = NearestNeighbors(n_neighbors=6, algorithm="brute").fit(X).kneighbors(queries)
    np.testing.assert_allclose(distances, theirs[0], rtol=1e-9)
    np.testing.assert_array_equal(rows, theirs[1])


def test_kneighbors_says_what_is_wrong(rng):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        nk.Euclidean().kneighbors([[1.0]])
    est = nk.Euclidean().fit(rng.normal(size=(6, 2)))
    with pytest.raises(ValueError, match=r"Euclidean.kneighbors\(k=7\): there are 6 training"):
        est.kneighbors([[0.0, 0.0]], k=7)
    with pytest.raises(ValueError, match=r"k=0.*must be >= 1"):
        est.kneighbors([[0.0, 0.0]], k=0)
    with pytest.raises(ValueError, match="fitted on 2 features"):
        est.kneighbors([[0.0]], k=1)
