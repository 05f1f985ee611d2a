"""Collections for the tests of PostgresIndex, and what exact search in float64 answers."""

import numpy as np

from nearkin import Metric, Points


def collection(rng, n, K, M, *, clusters=1, profiled=False, offset=0.0):
    """A metric, items and a function that draws queries."""
    metric = Metric(rng.exponential(size=K))
    if M:
        Q = rng.exponential(size=(M, M)) * K / 2
        metric = Metric(metric.weights, Q + Q.T, np.arange(M), profiled=profiled)
    centers = 3.0 * rng.normal(size=(clusters, K)) + offset

    def draw(n, rated=False):
        x = centers[rng.integers(0, clusters, n)] + rng.normal(size=(n, K))
        u = rng.dirichlet([0.3] * M, n) if M else None
        return Points(x, u, rng.normal(size=(n, M)) if rated else None)

    return metric, draw(n, rated=profiled), draw


def distances(metric, q, p):
    """Each squared distance by the formula, as a sum of differences."""
    d2 = np.array([((x - p.x) ** 2 * metric.weights).sum(axis=1) for x in q.x])
    if metric.class_costs is not None:
        d2 += q.u @ (p.u @ metric.class_costs + p.profiles()).T + q.profiles() @ p.u.T
    return np.sqrt(np.maximum(d2, 0.0))


def assert_nearest(found, d, k, ids, allowed=None):
    """Check an answer against all distances, of which only the allowed count  (n_q, n)."""
    d = np.where(True if allowed is None else allowed, d, np.inf)
    order = np.argsort(d, axis=1, kind="stable")[:, :k]
    expected = np.full((len(d), k), np.inf)
    expected[:, : order.shape[1]] = np.take_along_axis(d, order, axis=1)
    np.testing.assert_allclose(found.distances, expected, rtol=1e-9, atol=1e-9)
    number = {name: i for i, name in enumerate(ids)}
    for i, row in enumerate(found.ids):
        some = [number[name] for name in row if name is not None]
        assert len(some) == len(set(some)) == np.isfinite(expected[i]).sum()
        np.testing.assert_allclose(d[i, some], expected[i, : len(some)], rtol=1e-9, atol=1e-9)
