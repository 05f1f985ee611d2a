"""What ratings say of single objects: profiles and latent features."""

import numpy as np
import pytest
from scipy.optimize import check_grad

import nearkin as nk
from nearkin import passes
from nearkin.experiments.synthetic import draw_study
from nearkin.latent import LatentLikelihood, expected_costs
from nearkin.pairs import Block, PairFeatures

PARTS = {
    "profiles": nk.ItemProfiles(),
    "latent": nk.LatentFeatures(n_features=2, n_starts=2),
    "latent, from features": nk.LatentFeatures(n_features=2, n_starts=1, from_features=True),
}


@pytest.fixture(params=PARTS)
def part(request):
    return PARTS[request.param]


@pytest.fixture
def fitted(part, study):
    X, y, ratings = study
    few = ratings[(ratings.a > 4) & (ratings.b > 4)]  # objects 0 to 4 are not rated
    return nk.Hybrid(missing=part).fit(X, y, few), X, y


def test_profile_columns_are_indicators_times_class(rng):
    X, U = rng.normal(size=(6, 2)), rng.dirichlet(np.ones(3), 6)
    features = PairFeatures(X, U, profiled=np.array([1, 4]))
    a, b = np.array([0, 1, 1]), np.array([4, 4, 2])
    block = Block(features, a, b)
    phi = block.phi()[:, features.n_shared :].reshape(3, 2, 3)
    zero = np.zeros(3)
    np.testing.assert_allclose(phi[0], [zero, U[0]])
    np.testing.assert_allclose(phi[1], [U[4], U[1]])
    np.testing.assert_allclose(phi[2], [U[2], zero])
    theta = rng.normal(size=features.n_columns)
    np.testing.assert_allclose(block.d2(*features.split(theta)), block.phi() @ theta)
    g = rng.normal(size=3)
    np.testing.assert_allclose(block.transpose(g), block.phi().T @ g)
    np.testing.assert_allclose(block.square_sums(g), (block.phi() ** 2).T @ g)
    assert features.name(features.n_shared + 4) == "profile of object 4 for class 1"


def test_unrated_objects_fall_back_to_their_class(fitted):
    est, _, _ = fitted
    b = est.points_.b
    assert not b[:5].any()
    assert b[5:].any()


def test_distances_vectors_contributions_and_files_agree(fitted, tmp_path):
    est, X, _ = fitted
    m, p = est.metric_, est.points_
    q = m.points(X[:6] + 0.2)
    d = m.distances(q, p)
    # the definition: u . (Q u_j + b_j) beside the features
    d2 = (((q.x[:, None] - p.x) ** 2) @ m.weights) + q.u @ (p.u @ m.class_costs + p.b).T
    np.testing.assert_allclose(d**2, d2)
    product = m.query_vectors(q) @ m.item_vectors(p).T + d**2
    np.testing.assert_allclose(product, product[:, :1].repeat(len(X), axis=1), rtol=1e-9)
    for i in range(6):
        for j in (0, 20, 40):
            parts = m.contributions(q[i], p[j])
            assert parts.total[0] == pytest.approx(d[i, j] ** 2)
            assert m.pair_distances(q[i], p[j])[0] == pytest.approx(d[i, j])
    m.save(tmp_path / "m", est.points_)
    loaded, database = nk.load_metric(tmp_path / "m"), nk.load_points(tmp_path / "m")
    np.testing.assert_array_equal(loaded.distances(loaded.points(X[:6] + 0.2), database), d)
    np.testing.assert_array_equal(loaded.item_vectors(database), m.item_vectors(p))


def test_rated_objects_correct_each_other_both_ways(fitted):
    est, _, _ = fitted
    d = est.metric_.distances(est.points_, est.points_)
    np.testing.assert_allclose(d, d.T, atol=1e-7)
    assert (d >= 0).all()


def test_a_new_object_is_never_nearer_than_0(fitted):
    est, _X, _ = fitted
    p = est.points_
    assert (np.eye(3) @ (p.u @ est.metric_.class_costs + p.b).T).min() >= -1e-9


def test_fits_are_repeatable(fitted, study):
    est, X, y = fitted
    _, _, ratings = study
    few = ratings[(ratings.a > 4) & (ratings.b > 4)]
    again = nk.Hybrid(missing=est.missing).fit(X, y, few)
    np.testing.assert_array_equal(again.points_.b, est.points_.b)


def test_profiles_need_a_likelihood(study):
    X, y, ratings = study
    with pytest.raises(ValueError, match="use OrdinalRegression as the learner"):
        nk.Hybrid(learner=nk.ConvexOptimization(), missing=nk.ItemProfiles()).fit(X, y, ratings)


def test_profiles_lift_distances_off_the_thresholds(study):
    X, y, ratings = study
    est = nk.Hybrid(missing=nk.ItemProfiles(ridge=0.1)).fit(X, y, ratings)
    # the likelihood of the levels is what it was: d2 + b_v is unchanged by the lift
    features = PairFeatures(X, est.points_.u, profiled=np.unique([ratings.a, ratings.b]))
    r, Q, B = features.split(est.solution_.theta)
    d2 = Block(features, ratings.a, ratings.b).d2(r, Q, B)
    lift = est.metric_.class_costs[0, 0] - Q[0, 0]
    assert lift > 0
    lifted = est.metric_.pair_distances(
        est.points_, est.points_, ratings.a, ratings.b, squared=True
    )
    np.testing.assert_allclose(lifted, np.maximum(d2 + lift, 0), atol=1e-9)


@pytest.mark.parametrize("from_features", [False, True])
def test_latent_gradient(study, from_features):
    X, _y, ratings = study
    U = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    likelihood = LatentLikelihood(PairFeatures(X, U), ratings, 3, 2.0, from_features)
    v = likelihood.start(np.random.RandomState(0))
    assert check_grad(lambda v: likelihood(v)[0], lambda v: likelihood(v)[1], v) < 1e-5


def test_latent_gradient_is_the_same_in_blocks(study, monkeypatch):
    X, _y, ratings = study
    U = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    likelihood = LatentLikelihood(PairFeatures(X, U), ratings, 3, 2.0)
    v = likelihood.start(np.random.RandomState(0))
    value, gradient = likelihood(v)
    variances = likelihood.variances(v)
    monkeypatch.setattr(passes, "BLOCK_ELEMENTS", 512)
    again = LatentLikelihood(PairFeatures(X, U), ratings, 3, 2.0)
    assert again(v)[0] == pytest.approx(value)
    np.testing.assert_allclose(again(v)[1], gradient, atol=1e-12)
    np.testing.assert_allclose(again.variances(v), variances)


def test_latent_variances_are_the_prior_without_ratings_and_shrink_with_them(study):
    X, _y, ratings = study
    U = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    few = ratings[(ratings.a > 4) & (ratings.b > 4)]
    likelihood = LatentLikelihood(PairFeatures(X, U), few, 3, 2.0)
    v = likelihood.variances(likelihood.start(np.random.RandomState(0)))
    np.testing.assert_allclose(v[:5], 3 / 2.0)
    assert (v[5:] < 3 / 2.0).all()


@pytest.fixture
def following(rng):
    """Ratings that see a missing feature, which a given one foretells."""
    n = 90
    X, y = rng.normal(size=(n, 3)) * [1, 100, 1e-3], np.repeat(["a", "b", "c"], n // 3)
    z = np.sign(X[:, 0]) * 2 + 0.3 * rng.normal(size=n)
    i, j = np.triu_indices(n, k=1)
    rated = rng.random(len(i)) < 0.3
    i, j = i[rated], j[rated]
    d2 = (z[i] - z[j]) ** 2 + rng.normal(size=len(i))
    return X, y, nk.Ratings(i, j, 3 - np.digitize(d2, np.quantile(d2, [0.2, 0.5]))), z


def test_latent_features_of_a_new_object_follow_its_features(following, rng):
    X, y, ratings, _ = following
    part = nk.LatentFeatures(n_features=2, n_starts=1, from_features=True)
    est = nk.Hybrid(missing=part).fit(X, y, ratings)
    m = est.metric_
    assert m.completion.shape == (3 + 3, 2)
    assert m.n_given == 3
    assert m.n_features == 5
    new = rng.normal(size=(30, 3)) * [1, 100, 1e-3]
    q = m.points(new)
    # the completion is what the docstring says
    np.testing.assert_allclose(q.x[:, 3:], np.hstack([q.u, new - m.center[:3]]) @ m.completion)
    near = est.points_[m.distances(q, est.points_).argmin(axis=1)]
    assert np.mean(np.sign(near.x[:, 0]) == np.sign(new[:, 0])) > 0.9
    # an object without ratings is completed as a new one is, and has no profile
    few = ratings[(ratings.a > 4) & (ratings.b > 4)]
    est = nk.Hybrid(missing=part).fit(X, y, few)
    again = est.metric_.points(X[:5], y[:5])
    np.testing.assert_allclose(again.x, est.points_.x[:5], atol=1e-6)
    assert not est.points_.b[:5].any()


def test_completion_does_not_depend_on_units(following):
    X, y, ratings, _ = following
    part = nk.LatentFeatures(n_features=2, n_starts=1, from_features=True)
    one = nk.Hybrid(missing=part).fit(X, y, ratings)
    two = nk.Hybrid(missing=part).fit(X * 8 - 3, y, ratings)
    d, e = (
        est.metric_.distances(est.metric_.points(x), est.points_)
        for est, x in ((one, X), (two, X * 8 - 3))
    )
    np.testing.assert_allclose(d, e, rtol=1e-4, atol=1e-4)


def test_expected_costs_against_literal_loops(rng):
    n, M, J = 6, 2, 3
    z, v, u = rng.normal(size=(n, J)), rng.random(n), rng.dirichlet(np.ones(M), n)
    ratings = nk.Ratings([0, 1, 2], [1, 2, 3], [1, 2, 3])  # 4 and 5 have none
    Q, b = expected_costs(z, v, u, ratings)
    B = np.zeros((M, n))
    for c in range(M):
        for j in range(n):
            for i in range(n):
                d2 = sum((z[i, k] - z[j, k]) ** 2 for k in range(J)) + v[i] + v[j]
                B[c, j] += u[i, c] / u[:, c].sum() * d2
    for j in range(n):
        if j < 4:
            np.testing.assert_allclose(Q @ u[j] + b[j], B[:, j])
        else:
            assert not b[j].any()
    for c in range(M):
        for d in range(M):
            mean = sum(u[j, d] / u[:, d].sum() * B[c, j] for j in range(n))
            back = sum(u[j, c] / u[:, c].sum() * B[d, j] for j in range(n))
            assert Q[c, d] == pytest.approx((mean + back) / 2)


@pytest.fixture
def sparsely_compared(rng):
    """Twelve classes, of which few pairs were ever compared, each by many raters."""
    n, M = 60, 12
    X, y = rng.normal(size=(n, 2)), np.repeat(np.arange(M), 5)
    i, j = np.triu_indices(n, k=1)
    chosen = np.repeat(rng.choice(len(i), 100, replace=False), 10)
    i, j = i[chosen], j[chosen]
    seen = (X[i, 0] - X[j, 0]) ** 2 + 4 * (y[i] != y[j]) + rng.normal(size=len(i))
    return X, y, nk.Ratings(i, j, 3 - np.digitize(seen, [1, 4]))


def test_class_pairs_nobody_compared_are_not_the_nearest(part, sparsely_compared):
    # profiles left their cost at 0, latent features at chance: both ranked far below Hybrid()
    X, y, ratings = sparsely_compared
    Q = nk.Hybrid(missing=part).fit(X, y, ratings).metric_.class_costs
    compared = np.zeros((12, 12), dtype=bool)
    compared[y[ratings.a], y[ratings.b]] = compared[y[ratings.b], y[ratings.a]] = True
    other = ~np.eye(12, dtype=bool)
    assert (~compared & other).any()
    assert Q[~compared & other].min() > np.diag(Q).mean()
    assert Q[~compared & other].mean() == pytest.approx(Q[compared & other].mean(), rel=0.2)
    assert Q[~compared & other].std() < 0.2 * Q[~compared & other].mean()


def test_profiles_of_a_large_ridge_are_the_hybrid_without_them(sparsely_compared):
    X, y, ratings = sparsely_compared
    plain = nk.Hybrid().fit(X, y, ratings).metric_
    stiff = nk.Hybrid(missing=nk.ItemProfiles(ridge=1e8)).fit(X, y, ratings)
    np.testing.assert_allclose(stiff.metric_.class_costs, plain.class_costs, atol=1e-4)
    np.testing.assert_allclose(stiff.points_.b, 0.0, atol=1e-4)


def test_they_win_on_the_synthetic_study():
    gain = {"profiles": [], "latent": []}
    parts = {"profiles": nk.ItemProfiles(), "latent": nk.LatentFeatures(n_starts=1)}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        study = draw_study(rng)
        X, y = study.train
        ratings = study.training_ratings(0.15, rng)

        def score(est, X=X, y=y, ratings=ratings, study=study):
            m = est.fit(X, y, ratings).metric_
            d = m.distances(m.points(study.queries), est.points_)
            return nk.ndcg(d, study.query_levels).mean()

        base = score(nk.Hybrid())
        for name, part in parts.items():
            gain[name].append(score(nk.Hybrid(missing=part)) - base)
    for name, values in gain.items():
        assert np.mean(values) > 0.03, name
