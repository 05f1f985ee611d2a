import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

import nearkin as nk
from nearkin import kernel
from nearkin.kernel import KernelPosterior, LeaveOneOut
from nearkin.learners.nca import choose_kernel


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(40, 3))
    y = rng.integers(0, 3, 40)
    X[:, 0] += y
    return X, y


@pytest.mark.parametrize("block", [7, 256])
def test_leave_one_out_is_equation_3(labelled, rng, monkeypatch, block):
    monkeypatch.setattr(kernel, "BLOCK_ROWS", block)
    X, y = labelled
    y[0] = 3  # alone in its class
    w = rng.exponential(size=3)
    likelihood = LeaveOneOut(X, y)
    value, _ = likelihood.value_and_gradient(w)
    assert value == pytest.approx(oracles.nca_log_likelihood(X, y, w))
    assert (likelihood.n_alone, likelihood.n_counted) == (1, 39)
    error = check_grad(
        lambda w: likelihood.value_and_gradient(w)[0],
        lambda w: likelihood.value_and_gradient(w)[1],
        w,
    )
    assert error < 1e-4


@pytest.mark.parametrize("block", [7, 256])
def test_objects_far_from_their_class_count_in_logs(labelled, monkeypatch, block):
    # their sums of exp(-d2) underflow; log(0) must not reach the value or the gradient
    monkeypatch.setattr(kernel, "BLOCK_ROWS", block)
    X, y = labelled
    X[3, 0], X[17, 1], X[18, 1] = 1e3, -50.0, -51.0
    y[17], y[18] = 0, 1
    w = np.array([1.5, 0.8, 0.1])
    likelihood = LeaveOneOut(X, y)
    value, gradient = likelihood.value_and_gradient(w)
    d2 = ((X[:, None] - X) ** 2) @ w
    np.fill_diagonal(d2, np.inf)
    own = np.where(y[:, None] == y, -d2, -np.inf)
    expected = np.sum(logsumexp(own, axis=1) - logsumexp(-d2, axis=1))
    assert value == pytest.approx(expected, rel=1e-9)
    step = 1e-5 * np.eye(3)
    slopes = [
        (likelihood.value_and_gradient(w + e)[0] - likelihood.value_and_gradient(w - e)[0]) / 2e-5
        for e in step
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4)


def test_posterior_is_bayes_rule_on_kernel_densities(labelled, rng):
    X, y = labelled
    w = rng.exponential(size=3)
    posterior = KernelPosterior(X, y, 3, w)
    for x in rng.normal(size=(5, 3)):
        expected = oracles.kernel_posterior(x, X, y, [0, 1, 2], w)
        np.testing.assert_allclose(posterior.predict_proba(x[None])[0], expected)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_posterior_is_finite_far_from_the_data(offset, weight):
    # a naive exp gives 0/0 here; scikit-lego's Bayesian KDE classifier does
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    u = KernelPosterior(X, y, 2, np.full(50, weight)).predict_proba(X + offset)
    assert np.isfinite(u).all()
    np.testing.assert_allclose(u.sum(axis=1), 1.0)


def test_nca_hand_solved():
    # Two pairs of a class, each a distance apart in feature 0 only, classes far apart in
    # feature 1 only: feature 0 is worth nothing, feature 1 as much as the penalty lets it.
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    est = nk.NCA(penalty=0.1, tol=1e-8).fit(X, [0, 0, 1, 1])
    w = est.metric_.weights
    assert w[0] == 0.0
    # per object: log P = -log(1 + exp(-w1) + exp(-w1)) with w0 = 0, penalty 0.1 var = 0.025
    # 4 * 2 e^-w / (1 + 2 e^-w) = 0.025
    e = 0.025 / (8 - 2 * 0.025)
    assert w[1] == pytest.approx(-np.log(e), rel=1e-5)


def test_nca_does_not_depend_on_units(labelled):
    X, y = labelled
    units = np.array([1e-4, 1.0, 1e5])
    plain = nk.NCA(random_state=0).fit(X, y)
    scaled = nk.NCA(random_state=0).fit(X * units + 7, y)
    assert scaled.penalty_ == plain.penalty_
    np.testing.assert_allclose(scaled.metric_.weights * units**2, plain.metric_.weights, rtol=1e-3)


def test_nca_stops_at_a_stationary_point(labelled):
    X, y = labelled
    est = nk.NCA(penalty=2.0).fit(X, y)
    assert est.solution_.converged
    assert est.solution_.gap is None
    assert est.solution_.residual <= 1e-4
    with pytest.warns(ConvergenceWarning, match="NCA did not converge"):
        nk.NCA(penalty=2.0, max_iter=1).fit(X, y)


def test_lambda_selection_is_repeatable_and_on_the_list(labelled):
    X, y = labelled
    chosen = {nk.NCA(random_state=7).fit(X, y).penalty_ for _ in range(3)}
    assert len(chosen) == 1
    assert chosen <= {1.0, 2.0, 4.0, 8.0, 16.0}


@pytest.mark.parametrize("y", [[0, 1, 0], [0, 1, 2, 3, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]])
def test_lambda_selection_survives_tiny_sets(rng, y):
    X = rng.normal(size=(len(y), 2))
    for seed in range(10):
        est = nk.NCA(random_state=seed).fit(X, y)
        assert np.isfinite(est.metric_.weights).all()


def test_a_class_unseen_in_training_does_not_poison_the_choice(rng):
    z = rng.normal(size=(20, 2))
    codes = np.array([0] * 9 + [1] * 9 + [2, 3])
    for seed in range(20):
        rivals = [(1.0, False), (4.0, False), (0.0, True)]
        assert choose_kernel(z, codes, rivals, 1e-5, 100, seed) in rivals


def test_pooled_weights_are_one_in_units_of_the_spread(labelled, rng):
    X, y = labelled
    X = X * [1.0, 10.0, 0.1]
    clf = nk.KernelClassifier(pooled=True, tol=1e-8).fit(X, y)
    v = clf.weights_ * X.var(axis=0)
    np.testing.assert_allclose(v, v[0])
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    value = LeaveOneOut(z, y).value_and_gradient
    for other in (0.9, 1.1):
        assert value(v)[0] > value(other * v)[0]


def test_pooling_is_chosen_where_it_predicts_better(rng):
    y = np.repeat(np.arange(3), 20)
    all_matter = rng.normal(size=(60, 12)) + rng.normal(size=(3, 12))[y]
    one_matters = np.column_stack([y + 0.1 * rng.normal(size=60), rng.normal(size=(60, 11))])
    chosen = [
        nk.KernelClassifier(pooled=None, random_state=0).fit(X, y)
        for X in (all_matter, one_matters)
    ]
    assert [clf.pooled_ for clf in chosen] == [True, False]
    assert chosen[0].penalty_ == 0.0


def test_objects_alone_in_their_class_are_reported(labelled):
    X, y = labelled
    y[:2] = [7, 8]
    assert "2 object(s) alone in their class" in nk.NCA(penalty=1.0).fit(X, y).solution_.message
    with pytest.raises(ValueError, match="every class has one object only"):
        nk.NCA(penalty=1.0).fit(X, np.arange(len(X)))


def test_constant_features_get_no_weight(labelled):
    X, y = labelled
    X = np.column_stack([X, np.full(len(X), 1e9)])
    est = nk.NCA(penalty=1.0).fit(X, y)
    assert est.metric_.weights[3] == 0.0
    assert est.solution_.converged


def test_classifier_keeps_class_names_and_rejects_nonsense(labelled):
    X, y = labelled
    names = np.array(["a", "b", "c"])[y]
    clf = nk.KernelClassifier(penalty=0.5).fit(X, names)
    assert set(clf.predict(X)) <= {"a", "b", "c"}
    assert clf.score(X, names) > 0.4
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X))
    with pytest.raises(ValueError, match="two classes or more"):
        nk.KernelClassifier().fit(X, ["a"] * len(X))
    with pytest.raises(ValueError, match=r"KernelClassifier\(penalty=-1\)"):
        nk.KernelClassifier(penalty=-1).fit(X, names)
