"""select: leak-free choice, never below Euclidean beyond noise."""

from __future__ import annotations

import numpy as np
import pytest
from test_protocols import small_study

import nearkin as nk
from nearkin.protocols import object_folds
from nearkin.selection import candidates


def test_euclidean_weighs_all_features_alike():
    X = np.array([[0.0, 0.0, 7.0], [2.0, 200.0, 7.0]])
    plain = nk.Euclidean(standardise=False).fit(X)
    scaled = nk.Euclidean().fit(X)
    np.testing.assert_allclose(
        plain.metric_.distances(plain.points_, plain.points_)[0, 1] ** 2, 40004
    )
    np.testing.assert_allclose(
        scaled.metric_.distances(scaled.points_, scaled.points_)[0, 1] ** 2, 8
    )
    assert scaled.metric_.weights[2] == 0


def test_the_choice_is_the_best_of_the_table_and_fitted_to_all():
    X, y, ratings = small_study(n=30)
    methods = {"OR": nk.OrdinalRegression(ridge=1.0), "CO": nk.ConvexOptimization()}
    found = nk.select(X, y, ratings, methods=methods, k=5)
    means = [row["ndcg"] for row in found.table_]
    assert means == sorted(means, reverse=True)
    assert found.table_[0]["method"] == found.best_name_ in methods
    assert {row["method"] for row in found.table_} == {
        *methods,
        "Euclidean",
        "Euclidean, standardised",
    }
    assert len(found.best_estimator_.points_) == 30


def test_ratings_of_nothing_leave_the_euclidean_distance():
    X, y, ratings = small_study(n=24)
    rng = np.random.default_rng(1)
    shuffled = nk.Ratings(ratings.a, ratings.b, rng.permutation(ratings.level))
    methods = {"OR": nk.OrdinalRegression(ridge=1.0)}
    found = nk.select(X, y, shuffled, methods=methods, k=5, n_jobs=1)
    assert found.best_name_.startswith("Euclidean")


def test_a_selection_is_repeatable_over_processes():
    X, y, ratings = small_study(n=24)
    methods = {"HYB": nk.Hybrid(missing=nk.ItemProfiles())}
    one = nk.select(X, y, ratings, methods=methods, n_jobs=1, random_state=3)
    two = nk.select(X, y, ratings, methods=methods, n_jobs=2, random_state=3)
    for name in one.scores_:
        np.testing.assert_array_equal(one.scores_[name], two.scores_[name])


def test_without_classes_only_methods_of_ratings_are_tried():
    names = candidates(0)
    assert "NCA" not in names
    assert not any(name.startswith("HYB") for name in names)


def test_ratings_that_link_nothing_are_an_error():
    X = np.eye(4)
    together = object_folds(4, 2, random_state=0)[0].reshape(2, 1)
    with pytest.raises(ValueError, match="no rating links"):
        nk.select(X, None, nk.Ratings(*together, [1], n_levels=3), methods={}, n_folds=2)
