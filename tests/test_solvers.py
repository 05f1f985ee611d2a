"""Solutions against reference solvers, certificates, and problems that have no solution."""

import warnings

import numpy as np
import pytest
from conftest import random_pairs, rate
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls
from sklearn.exceptions import ConvergenceWarning

import nearkin as nk
from nearkin import solvers
from nearkin.convex_program import ConvexProgram
from nearkin.ordered_logit import OrderedLogit
from nearkin.pairs import PairFeatures
from nearkin.steps import bounded_step, conjugate_gradients


def problem(rng, n=40, K=5, M=0, N=150, noise=0.5):
    X = rng.normal(size=(n, K))
    U = np.eye(M)[rng.integers(0, M, n)] if M else None
    a, b = random_pairs(rng, n, N)
    d2 = ((X[a] - X[b]) ** 2) @ (rng.exponential(size=K) * (rng.random(K) < 0.6) + 0.1)
    return PairFeatures(X, U), nk.Ratings(a, b, rate(d2, rng, noise))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("M", [0, 3])
def test_co_against_cvxpy(seed, M):
    cp = pytest.importorskip("cvxpy")
    features, ratings = problem(np.random.default_rng(seed), M=M)
    solution = nk.ConvexOptimization(prior=1.0).fit_pairs(features, ratings)
    objective = ConvexProgram(features, features.pairs(ratings), 3, prior=1.0)
    from nearkin.pairs import Block

    A = Block(features, objective.dissimilar.a, objective.dissimilar.b).phi()
    t = cp.Variable(features.n_columns, nonneg=True)
    distances = cp.sum(cp.multiply(objective.dissimilar.weight, cp.sqrt(A @ t)))
    reference = cp.Problem(cp.Minimize(objective.cost @ t), [distances >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference.solve(solver=cp.CLARABEL)
    assert solution.gap <= 1e-8
    assert solution.value <= reference.value * (1 + 1e-6)
    assert solution.value == pytest.approx(reference.value, rel=1e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_or_against_scipy(seed, ridge):
    features, ratings = problem(np.random.default_rng(seed), noise=1.0)
    objective = OrderedLogit(features, features.pairs(ratings), ridge)
    solution = nk.OrdinalRegression(ridge=ridge).fit_pairs(features, ratings)
    reference = minimize(
        lambda z: (objective.evaluate(z).value, objective.evaluate(z).gradient),
        objective.start,
        jac=True,
        bounds=[(None if np.isinf(low) else low + 1e-9, None) for low in objective.lower],
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    assert solution.converged
    assert solution.residual <= 1e-8
    assert solution.value <= reference.fun + 1e-9
    np.testing.assert_allclose(
        solution.theta, objective.split(reference.x)[0], atol=1e-3 * solution.theta.max()
    )


@pytest.mark.parametrize("M", [0, 4])
@pytest.mark.parametrize("kind", ["OR", "CO"])
def test_the_path_for_many_coefficients_finds_the_same(rng, kind, M, monkeypatch):
    features, ratings = problem(rng, n=60, K=8, M=M, N=500, noise=1.0)
    learner = nk.OrdinalRegression(ridge=0.1) if kind == "OR" else nk.ConvexOptimization()
    dense = learner.fit_pairs(features, ratings)
    monkeypatch.setattr(solvers, "MAX_NEWTON", 4)
    matrix_free = learner.fit_pairs(features, ratings)
    assert matrix_free.converged
    assert matrix_free.value == pytest.approx(dense.value, rel=1e-7)
    np.testing.assert_allclose(matrix_free.theta, dense.theta, atol=1e-4 * dense.theta.max())


def test_thousands_of_coefficients(rng):
    # 45 classes and 900 features: 1,935 coefficients
    n = 400
    X, U = rng.normal(size=(n, 900)), np.eye(45)[rng.integers(0, 45, n)]
    a, b = random_pairs(rng, n, 3000)
    ratings = nk.Ratings(a, b, rate(((X[a] - X[b]) ** 2)[:, :9].sum(1), rng))
    features = PairFeatures(X, U)
    assert nk.ConvexOptimization().fit_pairs(features, ratings).gap <= 1e-8
    solution = nk.OrdinalRegression(ridge=1.0).fit_pairs(features, ratings)
    assert solution.converged
    assert solution.residual <= 1e-8


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_bounded_step_is_the_minimum_of_the_model(seed, n, wide):
    # with H = A.T A and g = -A.T y, the model is nnls of A s = y shifted by the bounds
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(n + 3, n)), rng.normal(size=n + 3)
    room = -rng.exponential(size=n) * (rng.random(n) < 0.5) * (1e6 if wide else 1.0)
    H, g = A.T @ A, -A.T @ y
    s = bounded_step(H, g, room, np)
    reference, _ = nnls(A, y - A @ room)
    np.testing.assert_allclose(s, reference + room, atol=1e-5 * max(1.0, np.abs(s).max()))


def test_conjugate_gradients_solves_on_the_free_coefficients(rng):
    A = rng.normal(size=(30, 8))
    H, right = A.T @ A, rng.normal(size=8)
    free = np.array([1.0, 1, 0, 1, 1, 0, 1, 1])
    s = conjugate_gradients(lambda v: H @ v, np.diag(H), right, free, 0.0, 1e-12, np)
    F = free > 0
    np.testing.assert_allclose(s[F], np.linalg.solve(H[np.ix_(F, F)], right[F]))
    assert not s[~F].any()


@given(st.integers(0, 2**32 - 1))
def test_units_and_order_change_nothing(seed):
    rng = np.random.default_rng(seed)
    features, ratings = problem(rng, N=200, noise=1.0)
    units = 10.0 ** rng.integers(-5, 6, features.n_features)
    shuffled = rng.permutation(len(ratings))
    swap = rng.random(len(ratings)) < 0.5
    a, b = np.where(swap, ratings.b, ratings.a), np.where(swap, ratings.a, ratings.b)
    turned = nk.Ratings(a, b, ratings.level)[shuffled]
    for learner in (nk.OrdinalRegression(ridge=0.1), nk.ConvexOptimization()):
        theta = learner.fit_pairs(features, ratings).theta
        np.testing.assert_array_equal(learner.fit_pairs(features, turned).theta, theta)
        other = learner.fit_pairs(PairFeatures(features.x * units), ratings).theta * units**2
        np.testing.assert_allclose(other, theta, atol=1e-6 * theta.max())


def test_repeated_ratings_count_as_weight(rng):
    features, ratings = problem(rng, noise=1.0)
    twice = nk.Ratings(*(np.tile(v, 2) for v in (ratings.a, ratings.b, ratings.level)))
    weighted = nk.Ratings(ratings.a, ratings.b, ratings.level, weight=np.full(len(ratings), 2.0))
    theta = nk.OrdinalRegression(ridge=1.0).fit_pairs(features, twice).theta
    np.testing.assert_allclose(
        nk.OrdinalRegression(ridge=1.0).fit_pairs(features, weighted).theta, theta, rtol=1e-9
    )


def test_array_api_arrays_give_the_same_solution(rng, xp):
    features, ratings = problem(rng, M=3, noise=1.0)
    strict = PairFeatures(xp.asarray(features.x), xp.asarray(features.u))
    for learner in (nk.OrdinalRegression(ridge=0.1), nk.ConvexOptimization()):
        theta = learner.fit_pairs(strict, ratings).theta
        np.testing.assert_allclose(theta, learner.fit_pairs(features, ratings).theta, rtol=1e-10)


def test_array_api_arrays_take_the_matrix_free_path(rng, xp, monkeypatch):
    monkeypatch.setattr(solvers, "MAX_NEWTON", 4)
    features, ratings = problem(rng, M=3, noise=1.0)
    strict = PairFeatures(xp.asarray(features.x), xp.asarray(features.u))
    for learner in (nk.OrdinalRegression(ridge=0.1), nk.ConvexOptimization()):
        assert learner.fit_pairs(strict, ratings).converged


def test_separable_ratings_are_named_not_looped_on(rng):
    features, ratings = problem(rng, noise=0.0)
    with pytest.warns(ConvergenceWarning, match="separable.*set ridge="):
        solution = nk.OrdinalRegression().fit_pairs(features, ratings)
    assert not solution.converged
    assert solution.n_iter < 50
    assert nk.OrdinalRegression(ridge=1e-3).fit_pairs(features, ratings).converged


def test_a_coefficient_that_runs_away_is_named(rng):
    # feature 4 differs only in pairs rated dissimilar: its weight can grow for ever
    X = rng.normal(size=(60, 5))
    X[:, 4] = 0
    X[0, 4] = 1.0
    a, b = random_pairs(rng, 60, 300)
    level = rate(((X[a] - X[b]) ** 2).sum(1), rng, 1.0)
    level[(a == 0) | (b == 0)] = 1
    with pytest.warns(ConvergenceWarning, match="separable along feature 4"):
        solution = nk.OrdinalRegression().fit_pairs(PairFeatures(X), nk.Ratings(a, b, level))
    assert not solution.converged
    assert np.isfinite(solution.theta).all()


@pytest.mark.parametrize("learner", [nk.OrdinalRegression, nk.ConvexOptimization])
def test_too_few_iterations_warn(rng, learner):
    features, ratings = problem(rng, noise=1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        solution = learner(max_iter=1).fit_pairs(features, ratings)
    assert not solution.converged


def test_a_pair_that_only_one_column_tells_apart_keeps_its_distance():
    # the slope of sqrt is infinite at 0: no weight may vanish here, though Newton overshoots
    X = np.eye(6) * np.array([1.0, 1e3, 1e-3, 5.0, 1.0, 1.0])
    ratings = nk.Ratings([0, 1, 2, 4], [3, 3, 3, 5], [1, 1, 1, 3])
    solution = nk.ConvexOptimization().fit(X, ratings=ratings).solution_
    assert solution.gap <= 1e-8
    assert (solution.theta[:3] > 0).all()
