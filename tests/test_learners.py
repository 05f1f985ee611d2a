import numpy as np
import pytest
from conftest import random_pairs
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import nearkin as nk
from nearkin.pairs import PairFeatures
from nearkin.solvers import Solution

LEARNERS = {
    "OR": nk.OrdinalRegression,
    "CO": nk.ConvexOptimization,
    "NCA": lambda: nk.NCA(random_state=0),
    "HYB": lambda: nk.Hybrid(classifier=nk.KernelClassifier(random_state=0)),
}


@pytest.fixture(params=LEARNERS)
def estimator(request):
    return LEARNERS[request.param]()


def test_fitted_attributes_and_refit(estimator, study):
    X, y, ratings = study
    first = estimator.fit(X, y, ratings)
    assert first is estimator
    assert isinstance(estimator.solution_, nk.Solution)
    assert estimator.solution_.converged
    assert (estimator.metric_.weights >= 0).all()
    assert len(estimator.points_) == len(X)
    again = clone(estimator).fit(X, y, ratings)
    np.testing.assert_array_equal(again.metric_.weights, estimator.metric_.weights)


def test_feature_names_come_from_a_dataframe(estimator, study):
    pd = pytest.importorskip("pandas")
    X, y, ratings = study
    frame = pd.DataFrame(X, columns=["size", "margin", "texture", "noise"])
    estimator.fit(frame, y, ratings)
    assert estimator.metric_.feature_names == ("size", "margin", "texture", "noise")
    with pytest.raises(ValueError, match="the metric was fitted on"):
        estimator.metric_.points(frame[["margin", "size", "texture", "noise"]])


def test_shape_of_the_representation(estimator):
    assert type(estimator).__name__ in estimator._repr_html_()
    assert estimator.set_params(**estimator.get_params(deep=False)) is estimator


def test_float32_features(estimator, study):
    X, y, ratings = study
    single = clone(estimator).fit(X.astype(np.float32), y, ratings).metric_.weights
    double = estimator.fit(X.astype(np.float32).astype(np.float64), y, ratings).metric_.weights
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-6)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: np.where(X[3, 1] == X, np.nan, X), "NaN or infinity.*rows 3, columns 1"),
        (lambda X: X[:, :0], "0 feature"),
        (lambda X: X[:30, 0], "Expected 2D array"),
    ],
)
def test_bad_features(estimator, study, spoil, message):
    X, y, ratings = study
    with pytest.raises(ValueError, match=message):
        estimator.fit(spoil(X), y, ratings)
    assert not hasattr(estimator, "metric_")


def test_bad_ratings(study):
    X, y, ratings = study
    for est in (nk.OrdinalRegression(), nk.ConvexOptimization(), nk.Hybrid()):
        with pytest.raises(ValueError, match="requires ratings"):
            est.fit(X, y)
        with pytest.raises(ValueError, match="X has 20 rows"):
            est.fit(X[:20], y[:20], ratings)
        with pytest.raises(ValueError, match="ratings is empty"):
            est.fit(X, y, ratings[:0])


def test_ratings_of_one_level(study):
    X, y, ratings = study
    for level, what in ((1, "similar"), (2, "similar"), (3, "dissimilar")):
        one = ratings[ratings.level == level]
        with pytest.raises(ValueError, match=rf"have level \[{level}\]"):
            nk.OrdinalRegression().fit(X, y, one)
        with pytest.raises(ValueError, match=f"no {what} pair"):
            nk.ConvexOptimization().fit(X, y, one)


def test_bad_parameters(study):
    X, y, ratings = study
    with pytest.raises(ValueError, match=r"ridge=-1.0\): must be >= 0"):
        nk.OrdinalRegression(ridge=-1.0).fit(X, y, ratings)
    with pytest.raises(ValueError, match=r"prior=nan\): must be >= 0"):
        nk.ConvexOptimization(prior=np.nan).fit(X, y, ratings)


def test_bad_labels(study):
    X, _, ratings = study
    for est in (nk.NCA(), nk.Hybrid()):
        with pytest.raises(ValueError, match="target y is None"):
            est.fit(X, None, ratings)
        with pytest.raises(ValueError, match=r"y has 1 class\(es\) \(\['a'\]\)"):
            est.fit(X, ["a"] * len(X), ratings)
        with pytest.raises(ValueError, match=r"y has 0 class\(es\)"):
            est.fit(X, [None] * len(X), ratings)
        with pytest.raises(ValueError, match="X has 60 rows"):
            est.fit(X, ["a", "b"], ratings)


def test_any_number_of_levels(study, rng):
    X, _, ratings = study
    five = nk.Ratings(ratings.a, ratings.b, rng.integers(1, 6, len(ratings)), n_levels=5)
    est = nk.OrdinalRegression().fit(X, ratings=five)
    assert est.thresholds_.shape == (4,)
    assert (np.diff(est.thresholds_) > 0).all()
    two = nk.Ratings(ratings.a, ratings.b, np.minimum(ratings.level, 2), n_levels=2)
    assert nk.OrdinalRegression().fit(X, ratings=two).thresholds_.shape == (1,)


def test_levels_that_nobody_used(study):
    # mord fails here: "Values in y must be [0 1], instead got [0 2]"
    X, _, ratings = study
    gap = nk.Ratings(ratings.a, ratings.b, np.where(ratings.level == 1, 1, 4), n_levels=5)
    est = nk.OrdinalRegression().fit(X, ratings=gap)
    b = est.thresholds_
    assert b[0] == b[1] == b[2]
    assert np.isfinite(b[0])
    assert b[3] == np.inf
    high = nk.Ratings(ratings.a, ratings.b, ratings.level + 1, n_levels=4)
    assert nk.OrdinalRegression().fit(X, ratings=high).thresholds_[0] == -np.inf


def test_prior_is_what_the_paper_lacks(rng):
    # no similar pair shows classes (0, 1): with prior 0 their cost is free
    X, y = rng.normal(size=(20, 2)), np.repeat([0, 1], 10)
    a, b = random_pairs(rng, 20, 100)
    ratings = nk.Ratings(a, b, np.where(y[a] == y[b], 3, 1))
    with pytest.raises(ValueError, match=r"differs in class pair \(0, 1\).*use prior=1"):
        nk.Hybrid(learner=nk.ConvexOptimization(prior=0), class_ridge=0).fit(X, y, ratings)
    est = nk.Hybrid(learner=nk.ConvexOptimization()).fit(X, y, ratings)
    assert est.solution_.gap <= 1e-8


@pytest.mark.parametrize(
    "classifier",
    [
        None,
        LogisticRegression(),
        RandomForestClassifier(n_estimators=10, random_state=0),
    ],
)
@pytest.mark.parametrize("learner", [None, nk.ConvexOptimization()])
def test_hybrid_takes_any_parts(study, classifier, learner):
    X, y, ratings = study
    est = nk.Hybrid(learner=learner, classifier=classifier).fit(X, y, ratings)
    Q = est.metric_.class_costs
    assert est.metric_.classes.tolist() == ["cyst", "hemangioma", "metastasis"]
    np.testing.assert_array_equal(Q, Q.T)
    assert (Q >= 0).all()
    labelled = np.array([label is not None for label in y])
    assert set(est.points_.u[labelled].ravel()) == {0.0, 1.0}
    np.testing.assert_allclose(est.points_.u.sum(axis=1), 1.0)
    queries = est.metric_.points(X[:5] + 0.1)
    np.testing.assert_allclose(queries.u, est.classifier_.predict_proba(X[:5] + 0.1))


def test_hybrid_is_the_learner_on_longer_pair_features(study):
    X, y, ratings = study
    est = nk.Hybrid(learner=nk.ConvexOptimization(), class_ridge=0).fit(X, y, ratings)
    features = PairFeatures(X, est.points_.u)
    theta = nk.ConvexOptimization().fit_pairs(features, ratings).theta
    r, Q, _ = features.split(theta)
    np.testing.assert_array_equal(est.metric_.weights, r)
    np.testing.assert_array_equal(est.metric_.class_costs, Q)


def test_hybrid_learns_the_class_costs_that_made_the_ratings(rng):
    n = 150
    X, y = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    a, b = random_pairs(rng, n, 4000)
    eta = ((X[a] - X[b]) ** 2) @ [1.0, 0.0] + 2.0 * (y[a] != y[b]) + rng.logistic(size=4000)
    ratings = nk.Ratings(a, b, np.where(eta < 1, 3, np.where(eta < 3, 2, 1)))
    Q = nk.Hybrid().fit(X, y, ratings).metric_.class_costs
    assert Q[0, 1] - (Q[0, 0] + Q[1, 1]) / 2 == pytest.approx(2.0, abs=0.3)


def test_unlabelled_rated_and_unrated_labelled_objects(study):
    X, y, ratings = study
    labelled = np.array([label is not None for label in y])
    between_unlabelled = ratings[~labelled[ratings.a] & ~labelled[ratings.b]]
    assert len(between_unlabelled) > 5
    est = nk.Hybrid(learner=nk.OrdinalRegression(ridge=1.0)).fit(X, y, between_unlabelled)
    assert est.solution_.converged


class Counting(BaseEstimator):
    """A learner in a few lines, as the guide shows: each column's mean among similar pairs."""

    def fit_pairs(self, features, ratings):
        from nearkin.objectives import column_sums

        similar = features.pairs(ratings[ratings.level == ratings.n_levels])
        theta = 1.0 / (1.0 + column_sums(features, similar))
        return Solution(theta, 0.0, None, 0.0, 0, True, "closed form")


def test_a_users_own_learner(study):
    X, y, ratings = study
    est = nk.Hybrid(learner=Counting()).fit(X, y, ratings)
    assert est.solution_.message == "closed form"
    assert (est.metric_.class_costs > 0).all()


class Broken(BaseEstimator):
    def __init__(self, theta=None):
        self.theta = theta

    def fit_pairs(self, features, ratings):
        return Solution(self.theta(features.n_columns), 0.0, None, 0.0, 0, True, "")


@pytest.mark.parametrize(
    "theta", [lambda p: -np.ones(p), lambda p: np.full(p, np.nan), lambda p: np.ones(p + 5)]
)
def test_a_broken_learner_is_named(study, theta):
    X, y, ratings = study
    with pytest.raises(ValueError, match=r"Broken\.fit_pairs returned theta .* 10 finite"):
        nk.Hybrid(learner=Broken(theta)).fit(X, y, ratings)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"learner": nk.NCA()}, "must have the method fit_pairs"),
        ({"classifier": nk.NCA()}, "must have the method predict_proba"),
        ({"missing": nk.NCA()}, "must have the method complete"),
    ],
)
def test_parts_that_do_not_fit_are_refused(study, parts, message):
    X, y, ratings = study
    with pytest.raises(TypeError, match=message):
        nk.Hybrid(**parts).fit(X, y, ratings)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (nk.OrdinalRegression(max_iter=-1), r"max_iter=-1\): must be >= 1, and a whole number"),
        (nk.OrdinalRegression(max_iter=1e3), "whole number"),
        (nk.ConvexOptimization(tol=None), r"tol=None\): must be >= 0"),
        (nk.NCA(penalty="auto"), r"penalty='auto'\)"),
        (nk.Hybrid(class_ridge=-1), r"class_ridge=-1\)"),
        (nk.Hybrid(missing=nk.ItemProfiles(ridge=0)), r"ItemProfiles\(ridge=0\)"),
        (nk.Hybrid(missing=nk.LatentFeatures(n_features=0)), r"LatentFeatures\(n_features=0\)"),
    ],
)
def test_nonsense_parameters_are_refused(study, estimator, message):
    X, y, ratings = study
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y, ratings)


def test_class_pairs_nobody_compared_are_not_the_nearest(rng):
    # their coefficient stays at 0: such classes once ranked before an object's own
    n = 90
    X, y = rng.normal(size=(n, 2)), np.repeat(["a", "b", "c"], 30)
    i, j = np.triu_indices(n, k=1)
    seen = (X[i, 0] - X[j, 0]) ** 2 + 4 * (y[i] != y[j]) + rng.normal(size=len(i))
    compared = ~((y[i] == "a") & (y[j] == "c"))
    ratings = nk.Ratings(i, j, 3 - np.digitize(seen, [1, 4]))[compared]
    for class_ridge in (0, 10):
        Q = nk.Hybrid(class_ridge=class_ridge).fit(X, y, ratings).metric_.class_costs
        assert Q[0, 2] == pytest.approx((Q[0, 1] + Q[1, 2]) / 2, rel=1e-6)


def test_shrinking_keeps_q_near_two_numbers(study):
    X, y, ratings = study
    spread = []
    for class_ridge in (0, 10, 1e6):
        Q = nk.Hybrid(class_ridge=class_ridge).fit(X, y, ratings).metric_.class_costs
        off = Q[~np.eye(3, dtype=bool)]
        spread.append(np.ptp(off))
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 1e-3
    assert np.abs(np.diag(Q)).max() < 1e-3


def test_shrinking_features_together_ends_in_a_euclidean_distance(study):
    X, _, ratings = study
    X = np.column_stack([X * [1.0, 10.0, 0.1, 1.0], np.full(len(X), 7.0)])
    est = nk.OrdinalRegression(feature_ridge=1e9).fit(X, ratings=ratings)
    d4 = (X[ratings.a] - X[ratings.b]) ** 4
    in_units = est.metric_.weights * np.sqrt(d4.mean(axis=0))
    np.testing.assert_allclose(in_units[:4], in_units[0], rtol=1e-5)
    assert in_units[4] == 0
    free = nk.OrdinalRegression().fit(X, ratings=ratings).metric_.weights
    np.testing.assert_allclose(
        free, nk.OrdinalRegression(feature_ridge=1e-9).fit(X, ratings=ratings).metric_.weights
    )


def test_one_class_all_similar_does_not_run_away(study, rng):
    # the free Q has no finite optimum here; the default did warn on such ordinary data
    X, y, ratings = study
    y = np.repeat(["a", "b", "c"], 20)
    own = (y[ratings.a] == "a") & (y[ratings.b] == "a")
    ratings = nk.Ratings(ratings.a, ratings.b, np.where(own, 3, ratings.level))
    assert nk.Hybrid().fit(X, y, ratings).solution_.converged


def test_fitted_points_are_a_copy(study):
    X, _y, ratings = study
    for dtype in (np.float32, np.float64):
        own = X.astype(dtype)
        est = nk.OrdinalRegression().fit(own, ratings=ratings)
        p = est.metric_.points(own)
        own *= 0
        assert est.points_.x.any()
        assert p.x.any()


def test_constant_features_get_no_weight(study):
    X, y, ratings = study
    X = np.column_stack([X, np.ones(len(X))])
    for est in (nk.OrdinalRegression(), nk.ConvexOptimization(prior=0)):
        assert est.fit(X, y, ratings).metric_.weights[-1] == 0.0
