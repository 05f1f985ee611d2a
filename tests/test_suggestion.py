"""What to rate next: the information formula, the greedy updates, and what comes out."""

import warnings

import numpy as np
import pytest

import nearkin as nk
from nearkin import suggestion
from nearkin.greedy import Greedy
from nearkin.information import (
    OrdinalView,
    Posterior,
    fisher_information,
    level_probabilities,
)
from nearkin.suggestion import candidates, nearest_pairs, suggest_pairs

METHODS = {
    "OR": nk.OrdinalRegression(ridge=1.0),
    "HYB": nk.Hybrid(),
    "CO": nk.ConvexOptimization(),
    "profiles": nk.Hybrid(missing=nk.ItemProfiles()),
    "latent": nk.Hybrid(missing=nk.LatentFeatures(n_features=2, n_starts=1)),
    "latent from x": nk.Hybrid(
        missing=nk.LatentFeatures(n_features=2, n_starts=1, from_features=True)
    ),
}


FITTED = {}


@pytest.fixture(params=METHODS)
def fitted(request, study):
    """Each method on few ratings; fitted once, and changed by no test."""
    X, y, ratings = study
    few = ratings[:150]
    if request.param not in FITTED:
        FITTED[request.param] = METHODS[request.param].fit(X, y, few)
    return FITTED[request.param], X, y, few


@pytest.fixture
def greedy(fitted):
    est, _, _, ratings = fitted
    metric, points = est.metric_, est.points_
    view = OrdinalView.of(metric, points, ratings, getattr(est, "thresholds_", None))
    focus = nearest_pairs(metric, points, 5, 0)
    a, b = candidates(len(points), focus, ratings, 0)
    return Greedy(view, Posterior.of(view, ratings), focus, a, b), focus, view, ratings


def literal_log_p(d2, level, b):
    edges = [-np.inf, *b, np.inf]

    def below(v):
        return 1 / (1 + np.exp(-d2 - edges[v]))

    return np.log(below(level) - below(level - 1))


def test_information_is_the_expected_curvature_of_the_likelihood():
    b = np.array([-3.0, -1.5, 0.5])
    d2, step = np.array([0.0, 0.7, 2.0, 5.0]), 1e-4
    P = level_probabilities(d2, b)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    h = fisher_information(d2, b)
    for k, x in enumerate(d2):
        curvature = variance = 0.0
        for v in range(1, 5):
            low, mid, high = (literal_log_p(x + s, v, b) for s in (-step, 0, step))
            assert np.exp(mid) == pytest.approx(P[k, v - 1])
            curvature -= np.exp(mid) * (high - 2 * mid + low) / step**2
            variance += np.exp(mid) * ((high - low) / (2 * step)) ** 2
        assert h[k] == pytest.approx(curvature, rel=1e-5)
        assert h[k] == pytest.approx(variance, rel=1e-5)


def test_levels_that_nobody_used_tell_nothing():
    b = np.array([-np.inf, -1.0, np.inf])  # only levels 2 and 3 were given
    P = level_probabilities(np.array([0.5, 40.0, 800.0]), b)
    assert not P[:, [0, 3]].any()
    S = 1 / (1 + np.exp(-(0.5 - 1.0)))
    h = fisher_information(np.array([0.5, 40.0, 800.0]), b)
    assert h[0] == pytest.approx(S * (1 - S))
    assert (h >= 0).all()
    assert np.isfinite(h).all()


def test_any_distance_can_be_seen_as_an_ordinal_model(study):
    X, y, ratings = study
    est = nk.OrdinalRegression().fit(X, y, ratings)
    view = OrdinalView.of(est.metric_, est.points_, ratings)
    # at the maximum of the likelihood no other scale is better
    assert view.scale == pytest.approx(1.0, rel=0.02)
    np.testing.assert_allclose(view.thresholds, est.thresholds_, atol=0.02)
    tenfold = nk.Metric(weights=10 * est.metric_.weights)
    scaled = OrdinalView.of(tenfold, est.points_, ratings)
    assert scaled.scale == pytest.approx(view.scale / 10, rel=1e-5)


def joint(posterior, view, ratings):
    """The literal posterior: one matrix over theta and all profiles, its gradients as rows."""
    n, M, p = len(view.points), posterior.u.shape[1], posterior.features.n_columns
    own = posterior.own is not None
    size = p + n * M * own

    def gradient(i, j):
        x, u = view.points.x, view.points.u
        g = np.zeros(size)
        g[: x.shape[1]] = (x[i] - x[j]) ** 2
        for at, (c, d) in enumerate(zip(*np.triu_indices(M), strict=True)):
            both = u[i, c] * u[j, d] + u[i, d] * u[j, c]
            g[x.shape[1] + at] = both / (1 + (c == d))
        if own:
            g[p + i * M : p + (i + 1) * M] = u[j]
            g[p + j * M : p + (j + 1) * M] = u[i]
        return g

    def blocked(H):
        keep = np.zeros_like(H)
        keep[:p, :p] = H[:p, :p]
        for k in range(n * own):
            at = slice(p + k * M, p + (k + 1) * M)
            keep[at, at] = H[at, at]
        return keep

    rows = np.array([gradient(i, j) for i, j in zip(ratings.a, ratings.b, strict=True)])
    h = view.information(ratings.a, ratings.b)
    shared = np.mean(rows[:, :p] ** 2, axis=0)
    prior = np.diag(np.where(shared > 0, shared, 1.0))
    if own:
        rated = np.unique([ratings.a, ratings.b])
        spread = np.mean((view.scale * view.points.b[rated]) ** 2)
        prior = np.block(
            [
                [prior, np.zeros((p, n * M))],
                [np.zeros((n * M, p)), np.eye(n * M) / max(spread, 0.01)],
            ]
        )
    return np.linalg.inv(blocked(prior + (h[:, None] * rows).T @ rows)), gradient, blocked


def test_a_fitted_likelihood_is_taken_as_it_is(fitted):
    est, _, _, ratings = fitted
    thresholds = getattr(est, "thresholds_", None)
    view = OrdinalView.of(est.metric_, est.points_, ratings, thresholds)
    if thresholds is not None:
        assert view.scale == 1.0
        np.testing.assert_array_equal(view.thresholds, thresholds)
    # profiles have seen the ratings: a scale fitted to them would be too sure
    blind = OrdinalView.of(est.metric_, nk.Points(est.points_.x, est.points_.u), ratings)
    assert OrdinalView.of(est.metric_, est.points_, ratings).scale == blind.scale


def test_greedy_choice_against_the_literal_posterior(greedy):
    chooser, focus, view, ratings = greedy
    posterior = chooser.posterior
    S, gradient, blocked = joint(posterior, view, ratings)
    p, M = posterior.features.n_columns, posterior.u.shape[1]
    W = np.zeros_like(S)
    for q, j, w in zip(*focus, strict=True):
        g = gradient(q, j)
        if posterior.own is not None:
            g[p + q * M : p + (q + 1) * M] = 0  # a query has no profile
        W += w * np.outer(g, g)
    W = blocked(W)
    V = np.trace(W @ S)
    assert chooser.total == pytest.approx(V)
    left = np.ones(len(chooser.a), dtype=bool)
    taken, gains, nats = chooser.take(4, 100)
    for row, gain, nat in zip(taken, gains, nats, strict=True):
        best, info = -np.inf, None
        for k in np.flatnonzero(left):
            g = gradient(chooser.a[k], chooser.b[k])
            f = chooser.h[k] / (1 + chooser.h[k] * g @ S @ g)
            reduction = f * g @ S @ W @ S @ g
            if k == row:
                mine, info = reduction, 0.5 * np.log1p(chooser.h[k] * g @ S @ g)
            best = max(best, reduction)
        assert gain * V == pytest.approx(mine)
        assert nat == pytest.approx(info)
        assert mine == pytest.approx(best)
        g = gradient(chooser.a[row], chooser.b[row])
        f = chooser.h[row] / (1 + chooser.h[row] * g @ S @ g)
        S = blocked(S - f * np.outer(S @ g, S @ g))
        left[row] = False
    assert chooser.variance() == pytest.approx(np.trace(W @ S))
    # rank-one updates against a fresh start
    before = chooser.shared.copy(), chooser.shared_moved.copy(), chooser.own.copy()
    fresh = posterior.shared_variance(chooser.a, chooser.b, chooser.W)
    np.testing.assert_allclose(before[:2], fresh, atol=1e-10)
    chooser.look(np.arange(len(chooser.a)))
    np.testing.assert_allclose(chooser.own, before[2], atol=1e-12)


def test_suggestions_are_new_distinct_pairs_best_first(fitted):
    est, X, y, ratings = fitted
    found = suggest_pairs(est, X, y, ratings, 30, k=5)
    pairs = set(zip(found.a.tolist(), found.b.tolist(), strict=True))
    assert len(pairs) == len(found) == 30
    assert (found.a < found.b).all()
    known = {frozenset(p) for p in zip(ratings.a.tolist(), ratings.b.tolist(), strict=True)}
    assert not known & {frozenset(pair) for pair in pairs}
    times = np.bincount(np.concatenate([found.a, found.b]))
    assert times.max() <= 2  # twice the even share of 30 pairs among 60 objects
    assert (found.gain > 0).all()
    assert found.gain[0] >= found.gain[-1]
    assert found.gain.sum() < 1
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)


def test_one_object_may_be_asked_for_but_once(fitted):
    est, X, y, ratings = fitted
    found = suggest_pairs(est, X, y, ratings, 10, per_object=1)
    assert np.bincount(np.concatenate([found.a, found.b])).max() == 1
    # 60 objects give 30 such pairs; more are given where more are asked for
    more = suggest_pairs(est, X, y, ratings, 40, per_object=1)
    assert len(more) == 40


def test_suggestions_follow_the_seed_and_not_the_order_of_objects(fitted):
    est, X, y, ratings = fitted
    one = suggest_pairs(est, X, y, ratings, 8)
    two = suggest_pairs(est, X, y, ratings, 8)
    np.testing.assert_array_equal([one.a, one.b], [two.a, two.b])
    shuffled = np.random.default_rng(0).permutation(len(X))
    place = np.argsort(shuffled)
    metric, p = est.metric_, est.points_[shuffled]
    renamed = nk.Ratings(place[ratings.b], place[ratings.a], ratings.level)
    thresholds = getattr(est, "thresholds_", None)
    other = suggestion.suggested(metric, p, renamed, 8, thresholds=thresholds)
    back = {frozenset(pair) for pair in zip(shuffled[other.a], shuffled[other.b], strict=True)}
    assert back == {frozenset(pair) for pair in zip(one.a, one.b, strict=True)}
    np.testing.assert_allclose(other.gain, one.gain, rtol=1e-6)


def test_objects_without_ratings_are_asked_for_where_profiles_are_learned(study):
    X, y, ratings = study
    few = ratings[(ratings.a > 9) & (ratings.b > 9)]
    est = nk.Hybrid(missing=nk.ItemProfiles()).fit(X, y, few)
    found = suggest_pairs(est, X, y, few, 20, per_object=20)
    assert np.mean((found.a < 10) | (found.b < 10)) > 0.4  # at random: 0.31


def test_more_objects_may_follow_those_of_the_fit(study):
    X, y, ratings = study
    first = ratings.within(np.arange(50))
    est = nk.Hybrid(missing=nk.ItemProfiles()).fit(X[:50], y[:50], first)
    found = suggest_pairs(est, X, y, first, 20)
    assert found.b.max() >= 50
    with pytest.raises(ValueError, match="pass the X of the fit"):
        suggest_pairs(est, X[::-1], y, first, 20)
    with pytest.raises(ValueError, match="pass the X of the fit"):
        suggest_pairs(est, X[:40], y[:40], first.within(np.arange(40)), 20)


def test_many_objects_are_sampled_by_the_seed(study, monkeypatch):
    X, y, ratings = study
    est = nk.Hybrid(missing=nk.ItemProfiles()).fit(X, y, ratings)
    monkeypatch.setattr(suggestion, "MOST_PAIRS", 400)
    monkeypatch.setattr(suggestion, "MOST_QUERIES", 20)
    focus = nearest_pairs(est.metric_, est.points_, 5, 3)
    assert len(np.unique(focus.query)) == 20
    assert not (focus.query == focus.item).any()
    a, b = candidates(len(X), focus, ratings, 3)
    assert (a < b).all()
    assert len(a) < 400
    one = suggest_pairs(est, X, y, ratings, 5, random_state=3)
    two = suggest_pairs(est, X, y, ratings, 5, random_state=3)
    np.testing.assert_array_equal([one.a, one.b], [two.a, two.b])


def test_rated_pairs_come_again_only_if_asked():
    X = np.array([[0.0], [1.0], [2.5]])
    ratings = nk.Ratings([0, 2], [1, 0], [3, 1])
    est = nk.OrdinalRegression(ridge=1.0).fit(X, ratings=ratings)
    found = suggest_pairs(est, X, None, ratings, 1)
    assert (found.a.tolist(), found.b.tolist()) == ([1], [2])
    assert len(suggest_pairs(est, X, None, ratings, 3, again=True)) == 3
    with pytest.raises(ValueError, match=r"only 1 pairs of the 3 objects.*again=True"):
        suggest_pairs(est, X, None, ratings, 2)


def test_rows_name_the_objects():
    X = np.array([[0.0], [1.0], [2.5]])
    ratings = nk.Ratings([0, 2], [1, 0], [3, 1])
    est = nk.OrdinalRegression(ridge=1.0).fit(X, ratings=ratings)
    (row,) = suggest_pairs(est, X, None, ratings, 1).as_rows(["p", "q", "r"])
    assert (row["a"], row["b"]) == ("q", "r")
    assert sum(row[f"P({v})"] for v in (1, 2, 3)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 0}, r"suggest_pairs\(n=0\): must be >= 1"),
        ({"n": 2.5}, "a whole number"),
        ({"k": 0}, r"suggest_pairs\(k=0\)"),
        ({"per_object": 0}, r"suggest_pairs\(per_object=0\)"),
        ({"est": nk.Hybrid()}, "fit the estimator first"),
        ({"ratings": None}, "suggest_pairs requires ratings"),
        ({"ratings": nk.Ratings([0], [99], [1])}, "object index out of range in rating rows 0"),
    ],
)
def test_bad_requests_are_said(change, said, study):
    X, y, ratings = study
    est = nk.OrdinalRegression().fit(X, y, ratings)
    asked = {"est": est, "X": X, "y": y, "ratings": ratings, "n": 5} | change
    with pytest.raises((ValueError, TypeError), match=said):
        suggest_pairs(**asked)


def test_a_distance_that_says_nothing_still_gets_suggestions(study):
    X, y, ratings = study
    est = nk.OrdinalRegression(ridge=1e9).fit(np.zeros_like(X) + np.arange(4), y, ratings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(suggest_pairs(est, np.zeros_like(X) + np.arange(4), y, ratings, 5)) == 5
