"""Links and objectives: finite differences, and the paper's formulas as loops."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from conftest import random_pairs
from scipy.optimize import approx_fprime, check_grad

import nearkin as nk
from nearkin.convex_program import ConvexProgram
from nearkin.ordered_logit import OrderedLogit, logistic
from nearkin.pairs import PairFeatures


@pytest.fixture(params=[0, 2], ids=["plain", "classes"])
def problem(request, rng):
    n, K, M, N = 15, 3, request.param, 80
    X = rng.normal(size=(n, K))
    U = rng.dirichlet(np.ones(M), n) if M else None
    a, b = random_pairs(rng, n, N)
    ratings = nk.Ratings(a, b, rng.integers(1, 5, N), n_levels=4, weight=rng.uniform(1, 2, N))
    return PairFeatures(X, U), ratings


def check_derivatives(objective, z):
    value = lambda z: objective.evaluate(z).value  # noqa: E731
    gradient = lambda z: objective.evaluate(z).gradient  # noqa: E731
    assert check_grad(value, gradient, z) < 1e-5
    H = objective.evaluate(z, hessian=True).hessian
    numeric = approx_fprime(z, gradient, 1e-7)
    np.testing.assert_allclose(H, numeric, atol=1e-4 * np.abs(H).max())
    np.testing.assert_allclose(H, H.T, atol=1e-12)
    product, diagonal = objective.curvature(z)
    np.testing.assert_allclose(np.stack([product(e) for e in np.eye(len(z))]), H, atol=1e-10)
    p = objective.features.n_columns
    np.testing.assert_allclose(diagonal[:p], np.diag(H)[:p], atol=1e-10)


@pytest.mark.parametrize(
    ("ridge", "feature_ridge", "class_ridge"), [(0, 0, 0), (2, 0, 0), (0, 3, 0), (1, 4, 5)]
)
def test_ordered_logit_derivatives(problem, rng, ridge, feature_ridge, class_ridge):
    features, ratings = problem
    features = replace(features, class_ridge=float(class_ridge))
    objective = OrderedLogit(features, features.pairs(ratings), ridge, feature_ridge)
    check_derivatives(objective, objective.start + rng.uniform(0.1, 0.5, len(objective.start)))


def test_convex_program_derivatives(problem, rng):
    features, ratings = problem
    objective = ConvexProgram(features, features.pairs(ratings), 4, prior=1.0)
    check_derivatives(objective, rng.uniform(0.1, 0.5, features.n_columns))


def test_ordered_logit_value_is_the_papers_likelihood(problem, rng):
    features, ratings = problem
    ratings = nk.Ratings(ratings.a, ratings.b, ratings.level, n_levels=4)
    objective = OrderedLogit(features, features.pairs(ratings))
    z = objective.start + rng.uniform(0.1, 0.5, len(objective.start))
    theta, b = objective.split(z)
    r, Q, _ = features.split(theta)
    expected = oracles.ordinal_log_likelihood(
        features.x, ratings.a, ratings.b, ratings.level, r, b, features.u, Q
    )
    assert objective.evaluate(z).value * len(ratings) == pytest.approx(-expected)


def test_ridge_adds_half_the_squares_in_units_of_the_columns(problem):
    features, ratings = problem
    pairs = features.pairs(ratings)
    plain, ridged = OrderedLogit(features, pairs), OrderedLogit(features, pairs, 3.0)
    z, p = plain.start, features.n_columns
    extra = (ridged.evaluate(z).value - plain.evaluate(z).value) * ratings.weight.sum()
    assert extra == pytest.approx(1.5 * np.sum(z[:p] ** 2))


def test_feature_ridge_adds_half_the_squared_deviations_from_the_mean_weight(problem):
    features, ratings = problem
    pairs = features.pairs(ratings)
    plain, shrunk = OrderedLogit(features, pairs), OrderedLogit(features, pairs, 0.0, 3.0)
    z = np.arange(1.0, len(plain.start) + 1)
    extra = (shrunk.evaluate(z).value - plain.evaluate(z).value) * ratings.weight.sum()
    assert extra == pytest.approx(1.5 * 2.0)  # of 1, 2, 3: class terms do not count


def test_convex_program_is_the_papers(problem, rng):
    features, ratings = problem
    if features.u is not None:
        features = PairFeatures(features.x)
    ratings = nk.Ratings(ratings.a, ratings.b, ratings.level, n_levels=4)
    objective = ConvexProgram(features, features.pairs(ratings), 4, prior=0.0)
    theta = rng.exponential(size=3)
    data = features.x, ratings.a, ratings.b, ratings.level, theta
    cost, g = oracles.similar_cost(*data, top=4), oracles.dissimilar_distance(*data)
    value = objective.evaluate(theta * objective.cost).value
    assert value == pytest.approx(cost - np.log(g))
    scaled, rescaled_cost = objective.rescaled(theta * objective.cost)
    assert oracles.dissimilar_distance(*data[:4], scaled) == pytest.approx(1.0)
    assert rescaled_cost == pytest.approx(oracles.similar_cost(*data[:4], scaled, top=4))


def test_gap_bounds_the_distance_from_the_optimum(problem, rng):
    features, ratings = problem
    objective = ConvexProgram(features, features.pairs(ratings), 4, prior=1.0)
    best = nk.ConvexOptimization(tol=1e-12).fit_pairs(features, ratings).value
    for _ in range(50):
        z = rng.exponential(size=features.n_columns) ** 3
        gap = objective.shortfall(z, objective.evaluate(z))
        _, cost = objective.rescaled(z)
        # the best g at this cost is at most (1 + gap) g, and cost goes with the square of g
        assert cost <= best * (1 + gap) ** 2 * (1 + 1e-9)


def test_identical_pairs_do_not_poison_the_convex_program():
    X = np.array([[0.0], [0.0], [1.0], [3.0]])
    ratings = nk.Ratings([0, 0, 2], [1, 3, 3], [1, 1, 3])  # 0 and 1 are equal, rated dissimilar
    solution = nk.ConvexOptimization(prior=0).fit(X, ratings=ratings).solution_
    assert solution.converged
    assert solution.theta == pytest.approx([1.0 / 9.0])


def test_logistic_is_exact_in_both_tails():
    x = np.array([-np.inf, -800.0, -40.0, 0.0, 40.0, 800.0, np.inf])[:-1]
    miss, S, not_S = logistic(x, np)
    np.testing.assert_allclose(miss[1:], np.logaddexp(0, -x[1:]))
    np.testing.assert_allclose(S + not_S, 1.0)
    assert S[2] == pytest.approx(np.exp(-40.0))
    assert not_S[4] == pytest.approx(np.exp(-40.0))
