"""Probabilities are held against ratings that nothing was fitted to."""

import json

import numpy as np
import pytest
from scipy.special import expit

import nearkin as nk
from nearkin.calibration import HeldOut, chosen, held_out, log_loss, monotone, reliability
from nearkin.experiments.synthetic import draw_study
from nearkin.protocols import object_folds
from nearkin.spread import Reach, Spread, nearest_by_features


@pytest.fixture(scope="module")
def synthetic():
    rng = np.random.default_rng(0)
    study = draw_study(rng)
    X, y = study.train
    return study, X, y, study.training_ratings(0.15, rng)


def brier_on_new_objects(found, est, study):
    metric, p = est.metric_, est.points_
    d = metric.distances(metric.points(study.queries), p)
    similar = study.query_levels == 3
    P = found.similar(d, Spread.of(metric, p))
    assert P.shape == d.shape
    assert ((P > 0) & (P < 1)).all()
    order = np.argsort(d, axis=None)
    assert (np.diff(P.ravel()[order]) <= 1e-12).all()  # never rises with the distance
    assert abs(P.mean() - similar.mean()) < 0.03
    base = float(similar.mean())
    return ((P - similar) ** 2).mean(), base * (1 - base)


@pytest.mark.parametrize(
    "method",
    [
        nk.Hybrid(classifier=nk.KernelClassifier(penalty=1.0)),
        nk.Hybrid(classifier=nk.KernelClassifier(penalty=1.0), missing=nk.ItemProfiles()),
        nk.ConvexOptimization(),
        nk.NCA(penalty=1.0),
    ],
    ids=["HYB", "profiles", "CO", "NCA"],
)
def test_probabilities_hold_on_new_objects(method, synthetic):
    study, X, y, ratings = synthetic
    est = method.fit(X, y, ratings)
    found = nk.calibrate(est, X, y, ratings)
    brier, base = brier_on_new_objects(found, est, study)
    assert brier < base
    json.dumps(found.report, allow_nan=False)
    assert found.report["chosen"] in str(found)
    has_own = "ordinal model" in found.report["log_loss"]
    assert has_own == hasattr(est, "thresholds_")


def test_latent_features_keep_their_thresholds(study):
    X, y, ratings = study
    kernel = nk.KernelClassifier(penalty=1.0)
    four = nk.Ratings(ratings.a, ratings.b, ratings.level + 1, n_levels=4)
    latent = nk.LatentFeatures(n_starts=1, n_features=2)
    est = nk.Hybrid(classifier=kernel, missing=latent).fit(X, y, four)
    assert est.thresholds_[0] == -np.inf  # nobody used level 1
    assert (np.diff(est.thresholds_) > 0).all()
    profiles = nk.Hybrid(classifier=kernel, missing=nk.ItemProfiles()).fit(X, y, ratings)
    assert profiles.thresholds_ is profiles.learner_.thresholds_
    assert not hasattr(nk.Hybrid(learner=nk.ConvexOptimization()).fit(X, y, ratings), "thresholds_")


def test_the_models_own_probability_is_the_share_of_level_L(study):
    X, y, ratings = study
    est = nk.OrdinalRegression().fit(X, y, ratings)
    d = est.metric_.pair_distances(est.points_, est.points_, ratings.a, ratings.b)
    own = nk.Calibration(est.thresholds_[-1], np.empty(0), np.empty(0), {})
    # the likelihood equations of the thresholds: predicted and observed shares agree
    P = own.similar(d, Spread(np.zeros(1), 1))
    assert P.mean() == pytest.approx((ratings.level == 3).mean(), abs=0.02)
    np.testing.assert_allclose(P, expit(-(d**2) - est.thresholds_[-1]))


def test_held_out_objects_leave_no_trace(study):
    """Shuffling what the held-out objects were rated changes only what is compared, not the fit."""
    X, y, ratings = study
    fold = object_folds(len(X), 5)[0]
    touched = np.isin(ratings.a, fold) | np.isin(ratings.b, fold)
    level = ratings.level.copy()
    level[touched] = 4 - level[touched]
    other = nk.Ratings(ratings.a, ratings.b, level)
    labels = y.copy()
    labels[fold] = "cyst"
    est = nk.OrdinalRegression()
    one, two = held_out(est, X, y, ratings, fold, 0), held_out(est, X, labels, other, fold, 0)
    np.testing.assert_array_equal(one.share, two.share)
    np.testing.assert_array_equal(one.own, two.own)
    assert (one.similar != two.similar).any()
    across = np.isin(ratings.a, fold) != np.isin(ratings.b, fold)
    assert len(one.share) == across.sum()


def test_few_ratings_never_give_certainty():
    share = np.linspace(0.1, 0.9, 8)
    shares, values = monotone(share, (share < 0.5) * 1.0, np.ones(8))
    assert (np.diff(values) <= 0).all()
    # four of four similar, and a pseudo-pair of the base rate 1/2: 4.5 / 5
    assert np.interp([0.0, 0.2, 0.9, 1.0], shares, values) == pytest.approx([0.9, 0.9, 0.1, 0.1])


def test_a_distance_that_misleads_gives_the_base_rate(rng):
    n = 200
    pairs = HeldOut(
        0.1 * rng.random(n) + 0.5 * (np.arange(n) % 4 == 0),  # similar pairs lie farther apart
        np.full(n, np.nan),
        (np.arange(n) % 4 == 0) * 1.0,
        np.ones(n),
        np.arange(n) // 4 % 5,
    )
    found = chosen(pairs, None)
    assert found.report["chosen"] == "base rate"
    assert found.similar([0.0, 9.0], Spread(np.ones(3), 3)).tolist() == [0.25, 0.25]


def test_a_badly_calibrated_model_is_not_believed(rng):
    share = rng.random(2000)
    similar = (rng.random(2000) < 1 - share) * 1.0
    fold = np.arange(2000) % 5
    honest = HeldOut(share, 1 - share, similar, np.ones(2000), fold)
    assert chosen(honest, np.array([0.0])).report["chosen"] == "ordinal model"
    boastful = honest._replace(own=(1 - share) ** 4)
    found = chosen(boastful, np.array([0.0]))
    assert found.report["chosen"] == "isotonic"
    assert found.threshold is None
    near = [abs(row["predicted"] - row["observed"]) for row in found.report["table"]]
    assert max(near) < 0.1


def test_scores_by_hand():
    p, similar = np.array([0.8, 0.4]), np.array([1.0, 0.0])
    assert log_loss(p, similar, np.ones(2)) == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2)
    table = reliability(np.array([0.9, 0.1, 0.2, 0.8]), np.array([1.0, 0, 1, 0]), bins=2)
    assert [(row["predicted"], row["observed"], row["n"]) for row in table] == [
        (pytest.approx(0.15), 0.5, 2),
        (pytest.approx(0.85), 0.5, 2),
    ]


def test_too_few_ratings_are_named(study):
    X, y, ratings = study
    with pytest.raises(ValueError, match="at least 50 of both kinds"):
        nk.calibrate(nk.Euclidean(), X, y, ratings[:20])


def test_spread_counts_pairs():
    metric = nk.Metric([1.0])
    p = metric.points([[0.0], [1.0], [3.0]])
    spread = Spread.of(metric, p)
    assert spread.distances.tolist() == [1.0, 2.0, 3.0]
    assert spread.share([0.5, 1.0, 2.5, 9.0]).tolist() == [0, 1 / 3, 2 / 3, 1]
    assert not spread.sampled


def test_a_sampled_spread_is_repeatable_and_near(rng):
    metric = nk.Metric([1.0, 1.0])
    p = metric.points(rng.normal(size=(150, 2)))
    whole, few = Spread.of(metric, p), Spread.of(metric, p, most=4000)
    assert (few.sampled, few.n_pairs, len(few.distances)) == (True, 11175, 4000)
    np.testing.assert_array_equal(few.distances, Spread.of(metric, p, most=4000).distances)
    at = np.linspace(0.1, 4, 20)
    assert np.abs(whole.share(at) - few.share(at)).max() < 0.03
    assert few.distances[0] > 0  # no object with itself


def test_reach_is_what_ordinary_objects_keep(rng):
    metric = nk.Metric([1.0, 0.0])
    x = rng.normal(size=(300, 2))
    p = metric.points(x)
    reach = Reach.of(metric, p)
    new = metric.points(rng.normal(size=(1000, 2)))
    flagged = [reach.exceeded(d) for d in nearest_by_features(metric, new, p)]
    assert 0 < np.mean(flagged) < 0.03  # about 1 %
    far = metric.points([[9.0, 0.0], [0.0, 9.0]])  # the second feature has no weight
    assert [reach.exceeded(d) for d in nearest_by_features(metric, far, p)] == [True, False]
    x[:] = 1.0
    assert Reach.of(metric, metric.points(x)).limit == 0.0
    assert Reach.of(metric, metric.points(x[:1])).limit == np.inf


def test_classes_do_not_decide_what_is_outside(study):
    """A labelled object is no nearer to the known than the same object without its label."""
    X, y, ratings = study
    est = nk.Hybrid(classifier=nk.KernelClassifier(penalty=1.0)).fit(X, y, ratings)
    metric, p = est.metric_, est.points_
    bare, named = metric.points(X[:5] + 0.2), metric.points(X[:5] + 0.2, ["cyst"] * 5)
    one, two = (nearest_by_features(metric, q, p) for q in (bare, named))
    np.testing.assert_array_equal(one, two)
    d = np.sqrt((((X[:5, None] + 0.2 - X) ** 2) @ metric.weights).min(axis=1))
    np.testing.assert_allclose(one, d, rtol=1e-9)
