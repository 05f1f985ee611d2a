"""The appendix's generator, and the level of NDCG that each method reaches on it."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.experiments.synthetic import Mixture, draw_study, sample_model

# design note, section 4: 100 models, a plain prototype; (5 %, 15 %)
PROTOTYPE = {
    "NCA": (0.564, 0.564),
    "OR": (0.556, 0.563),
    "CO": (0.516, 0.526),
    "HYB": (0.568, 0.579),
    "HYB with OR": (0.605, 0.609),
}
N_MODELS = 24


def test_rates_are_rates_and_shares_are_shares():
    rng = np.random.default_rng(0)
    models = [sample_model(rng) for _ in range(200)]
    r = np.concatenate([m.r for m in models])
    r_missing = np.concatenate([m.r_missing for m in models])
    assert r.mean() == pytest.approx(1.0, rel=0.05)
    assert r_missing.mean() == pytest.approx(5.0, rel=0.05)
    shares = np.stack([m.class_shares for m in models])
    assert shares.shape == (200, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares.min() > 0.5 / 3.5
    first = models[0]
    assert [len(m.shares) for m in first.observed] == [5, 5, 5]
    assert [len(m.shares) for m in first.missing] == [2, 2, 2]


def test_mixture_has_the_moments_it_says():
    rng = np.random.default_rng(0)
    D = 3
    factors = rng.normal(scale=np.sqrt(1 / D), size=(1, D, D))
    x = Mixture(np.ones(1), np.array([[1.0, -2.0, 0.0]]), factors).sample(200_000, rng)
    np.testing.assert_allclose(x.mean(axis=0), [1.0, -2.0, 0.0], atol=0.02)
    np.testing.assert_allclose(np.cov(x.T), factors[0].T @ factors[0], atol=0.03)


def test_study_has_the_papers_sizes_and_shares():
    rng = np.random.default_rng(1)
    study = draw_study(rng)
    off = study.levels[~np.eye(200, dtype=bool)]
    assert len(off) == 39_800
    shares = [np.mean(off == level) for level in (1, 2, 3)]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=1e-3)
    assert study.query_levels.shape == (100, 100)
    assert len(study.training_ratings(0.05, rng)) == 495
    assert len(study.training_ratings(0.15, rng)) == 1485
    assert (np.diag(study.levels) == 0).all()


@pytest.fixture(scope="module")
def scores():
    """NDCG@10 of each method on each model, at 5 % and 15 % of the ratings."""
    kernel = nk.KernelClassifier(random_state=0)
    methods = {
        "NCA": nk.NCA(random_state=0),
        "OR": nk.OrdinalRegression(),
        "CO": nk.ConvexOptimization(),
        "HYB": nk.Hybrid(learner=nk.ConvexOptimization(), classifier=kernel, class_ridge=0),
        "HYB with OR": nk.Hybrid(classifier=kernel, class_ridge=0),
    }
    found = {name: ([], []) for name in methods}
    for seed in range(N_MODELS):
        rng = np.random.default_rng(seed)
        study = draw_study(rng)
        X, y = study.train
        for size, fraction in enumerate((0.05, 0.15)):
            ratings = study.training_ratings(fraction, rng)
            for name, est in methods.items():
                m = est.fit(X, y, ratings).metric_
                d = m.distances(m.points(study.queries), est.points_)
                found[name][size].append(nk.ndcg(d, study.query_levels).mean())
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("method", PROTOTYPE)
def test_level_of_each_method_agrees_with_the_prototype(scores, method):
    mean = scores[method].mean(axis=1)
    # both are means over draws of models: theirs of 100, ours of N_MODELS
    spread = scores[method].std(axis=1, ddof=1)
    error = spread * np.sqrt(1 / N_MODELS + 1 / 100)
    np.testing.assert_array_less(np.abs(mean - PROTOTYPE[method]), 2 * error)


def test_the_papers_claims(scores):
    hybrid = scores["HYB"][1]
    for other in ("OR", "CO", "NCA"):
        lead = hybrid - scores[other][1]
        assert lead.mean() > 2 * lead.std(ddof=1) / np.sqrt(N_MODELS), other
    assert scores["HYB"][1].mean() > scores["HYB"][0].mean()
    lead = scores["HYB with OR"][1] - hybrid
    assert lead.mean() > 2 * lead.std(ddof=1) / np.sqrt(N_MODELS)
