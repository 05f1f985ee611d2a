"""Protocols: nothing of a held-out object leaks, and nothing depends on the number of cores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

import nearkin as nk
from nearkin.data import Objects
from nearkin.preparation import paper_preparation
from nearkin.protocols import (
    gains_between,
    labels_of,
    leave_one_out,
    noise_ceiling,
    object_folds,
    score_fold,
    score_methods,
)


def small_study(seed=0, n=18, K=3, share=1.0):
    """Return features, labels and ratings of one true feature and the class."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, K)), np.arange(n) % 2
    a, b = np.triu_indices(n, k=1)
    keep = rng.random(len(a)) < share
    a, b = a[keep], b[keep]
    d2 = (X[a, 0] - X[b, 0]) ** 2 + (y[a] != y[b]) + 0.3 * rng.normal(size=len(a))
    level = 3 - np.digitize(d2, np.quantile(d2, [0.3, 0.6]))
    return X, y, nk.Ratings(a, b, level)


class Spy(BaseEstimator):
    """A Euclidean distance that remembers what it was shown."""

    seen: list = []  # noqa: RUF012 - clones must share it

    def fit(self, X, y=None, ratings=None):
        Spy.seen.append((X, y, ratings))
        est = nk.Euclidean().fit(X)
        self.metric_, self.points_ = est.metric_, est.points_
        return self


class SpyScaler(TransformerMixin, BaseEstimator):
    """The identity, which remembers what it was fitted on."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        SpyScaler.seen.append(X)
        return self

    def transform(self, X):
        return X


def test_folds_hold_each_object_out_once():
    for folds in (leave_one_out(13), object_folds(13, 5, random_state=1)):
        assert sorted(np.concatenate(folds).tolist()) == list(range(13))
    assert len(object_folds(3, 5)) == 3


def test_a_fold_shows_nothing_of_its_test_objects():
    X, y, ratings = small_study()
    test = np.array([2, 7])
    Spy.seen.clear()
    SpyScaler.seen.clear()
    score_fold(Spy(), X, y, ratings, test, 5, prepare=SpyScaler())
    (x, labels, shown), (scaled,) = Spy.seen[0], SpyScaler.seen
    train = np.setdiff1d(np.arange(len(X)), test)
    np.testing.assert_array_equal(x, X[train])
    np.testing.assert_array_equal(scaled, X[train])
    np.testing.assert_array_equal(labels, y[train])
    untouched = ~np.isin(ratings.a, test) & ~np.isin(ratings.b, test)
    np.testing.assert_array_equal(train[shown.a], ratings.a[untouched])
    np.testing.assert_array_equal(train[shown.b], ratings.b[untouched])


class Weights(nk.OrdinalRegression):
    """OR that shows its weights."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None, ratings=None):
        super().fit(X, y, ratings)
        Weights.seen.append(self.metric_.weights)
        return self


def trust_in_planted_feature(leaked, seed):
    """Plant whom each held-out object is like, and a decoy; return the share of trust in the first.

    Ratings are shuffled, so nothing but the held-out object's own ratings can tell the planted
    feature from the decoy. ``leaked`` is their weight in training, against the protocol.
    """
    rng = np.random.default_rng(seed)
    X, y, ratings = small_study(seed, n=16, K=1)
    shuffled = nk.Ratings(ratings.a, ratings.b, rng.permutation(ratings.level))
    Weights.seen.clear()
    for test in leave_one_out(len(X)):
        likes = gains_between(shuffled, test, np.arange(len(X)))[0]
        likes[test] = 8.0
        decoy = rng.permutation(likes)
        decoy[test] = 8.0
        planted = np.c_[likes, decoy]
        if leaked:
            own = (shuffled.a == test[0]) | (shuffled.b == test[0])
            weight = np.where(own, leaked, 1.0)
            leaky = nk.Ratings(shuffled.a, shuffled.b, shuffled.level, weight=weight)
            Weights(ridge=1.0).fit(planted, y, leaky)
        else:
            score_fold(Weights(ridge=1.0), planted, y, shuffled, test, 5)
    r = np.array(Weights.seen)
    return np.mean(r[:, 0] / r.sum(axis=1).clip(1e-300))


def test_a_planted_leaking_feature_does_not_help():
    honest = np.mean([trust_in_planted_feature(0, seed) for seed in range(6)])
    leaked = np.mean([trust_in_planted_feature(1.0, seed) for seed in range(6)])
    assert honest < 0.55
    assert leaked > 0.8  # the test can fail


def test_shuffled_ratings_score_no_better_than_chance():
    X, y, ratings = small_study(n=20)
    rng = np.random.default_rng(0)
    shuffled = nk.Ratings(ratings.a, ratings.b, rng.permutation(ratings.level))
    methods = {
        "HYB": nk.Hybrid(learner=nk.OrdinalRegression(ridge=1.0), missing=nk.ItemProfiles()),
        "Euclidean": nk.Euclidean(),
    }
    scores, _ = score_methods(methods, X, y, shuffled, leave_one_out(20), k=5, n_jobs=1)
    chance = np.mean(
        [nk.ndcg(rng.random((20, 20)), level_matrix(shuffled, 20), k=5).mean() for _ in range(20)]
    )
    assert abs(np.nanmean(scores["HYB"]) - chance) < 0.12


def level_matrix(ratings, n):
    """Return levels by query and item, NaN where there is none."""
    levels = np.full((n, n), np.nan)
    levels[ratings.a, ratings.b] = levels[ratings.b, ratings.a] = ratings.level
    return levels


def test_scores_are_those_of_a_literal_loop():
    X, y, ratings = small_study()
    est = nk.OrdinalRegression(ridge=1.0)
    scores, details = score_methods({"OR": est}, X, y, ratings, leave_one_out(len(X)), k=4)
    levels = level_matrix(ratings, len(X))
    for i in (0, 5, 17):
        train = [j for j in range(len(X)) if j != i]
        new = {j: at for at, j in enumerate(train)}
        rows = [
            (new[p], new[q], s)
            for p, q, s in zip(ratings.a, ratings.b, ratings.level, strict=True)
            if i not in (p, q)
        ]
        fitted = nk.OrdinalRegression(ridge=1.0).fit(
            X[train], None, nk.Ratings(*map(list, zip(*rows, strict=True)), n_levels=3)
        )
        d = fitted.metric_.distances(fitted.metric_.points(X[[i]]), fitted.points_)
        assert scores["OR"][i] == pytest.approx(nk.ndcg(d, levels[[i]][:, train], k=4)[0])
    assert len(details["OR"]) == len(X)


def test_the_number_of_processes_changes_nothing():
    X, y, ratings = small_study(n=14)
    methods = {"HYB": nk.Hybrid(), "NCA": nk.NCA(random_state=0)}
    folds = object_folds(14, 3)
    one, _ = score_methods(methods, X, y, ratings, folds, n_jobs=1)
    two, _ = score_methods(methods, X, y, ratings, folds, n_jobs=2)
    for name in methods:
        np.testing.assert_array_equal(one[name], two[name])


def test_preparation_is_fitted_within_the_fold():
    X, y, ratings = small_study(n=14)
    X = np.c_[X, 1000.0 * X[:, 1]]  # a copy in other units
    folds = leave_one_out(14)
    methods = {"Euclidean": nk.Euclidean(standardise=False)}
    prepared, _ = score_methods(methods, X, y, ratings, folds, prepare=paper_preparation())
    direct, _ = score_methods(
        methods, X[:, :3], y, ratings, folds, prepare=paper_preparation(threshold=1.0)
    )
    np.testing.assert_allclose(prepared["Euclidean"], direct["Euclidean"])


def test_progress_counts_every_job():
    X, y, ratings = small_study(n=8)
    calls = []
    score_methods(
        {"Euclidean": nk.Euclidean()},
        X,
        y,
        ratings,
        leave_one_out(8),
        n_jobs=1,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(i, 8) for i in range(1, 9)]


def test_a_failing_method_is_named():
    X, y, ratings = small_study(n=8)
    with pytest.raises(ValueError, match=r"^bad: OrdinalRegression"):
        score_methods(
            {"bad": nk.OrdinalRegression(ridge=-1.0)}, X, y, ratings, leave_one_out(8), n_jobs=1
        )


def test_gains_average_repeated_and_weighted_ratings_in_both_orders():
    ratings = nk.Ratings([0, 1, 0], [1, 0, 2], [1, 3, 2], weight=[1.0, 3.0, 1.0])
    gains = gains_between(ratings, np.array([0]), np.array([1, 2, 3]))
    np.testing.assert_allclose(gains, [[(1 * 1 + 3 * 7) / 4, 3.0, np.nan]])


def test_noise_ceiling_of_agreeing_and_of_opposed_raters():
    a, b = np.triu_indices(5, k=1)
    level = np.arange(len(a)) % 3 + 1
    both = np.r_[a, a], np.r_[b, b]
    rater = np.repeat(["ann", "bob"], len(a))
    agreed = noise_ceiling(nk.Ratings(*both, np.r_[level, level], rater=rater), 5)
    opposed = noise_ceiling(nk.Ratings(*both, np.r_[level, 4 - level], rater=rater), 5)
    assert agreed == {"ann": pytest.approx(1.0), "bob": pytest.approx(1.0)}
    assert max(opposed.values()) < 0.95
    assert noise_ceiling(nk.Ratings(a, b, level), 5) == {}
    alone = nk.Ratings(a, b, level, rater=["ann"] * len(a))
    assert noise_ceiling(alone, 5) == {}


def test_labels_of_objects_without_any():
    nothing = np.array([None, None], dtype=object)
    assert labels_of(Objects(np.array(["a", "b"]), np.eye(2), nothing, ["x", "y"])) is None
