"""Many classes that have little to do with the ratings: where a class term can only do harm.

30 classes of 8, as the synthetic study but for the model: a class moves the features it is drawn
with, seen and missing, by a small share of their variance.
"""

from __future__ import annotations

import numpy as np

from nearkin.experiments.synthetic import GenerativeModel, Mixture, Study, rate_all_pairs

N_FEATURES, N_MISSING = 20, 20
RATE_MISSING = 4.0  # what features miss counts a quarter of what they show


def weak_label_model(
    rng: np.random.Generator, n_classes: int, label_share: float
) -> GenerativeModel:
    """Sample a model in which classes explain ``label_share`` of the variance of each feature."""

    def one_class(D: int) -> Mixture:
        # x = sqrt(share) mu_c + sqrt(1 - share) e,  mu_c and e from N(0, I)  (D,)
        mean = np.sqrt(label_share) * rng.normal(size=(1, D))
        return Mixture(np.ones(1), mean, np.sqrt(1.0 - label_share) * np.eye(D)[None])

    return GenerativeModel(
        np.full(n_classes, 1.0 / n_classes),
        tuple(one_class(N_FEATURES) for _ in range(n_classes)),
        tuple(one_class(N_MISSING) for _ in range(n_classes)),
        rng.exponential(1.0, size=N_FEATURES),
        rng.exponential(1.0 / RATE_MISSING, size=N_MISSING),
    )


def draw_weak_labels(
    rng: np.random.Generator,
    n_classes: int = 30,
    per_class: int = 8,
    n_queries: int = 60,
    noise: float = 30.0,
    label_share: float = 0.05,
) -> Study:
    """Draw ``per_class`` training objects of each class, queries of any, and all ratings."""
    model = weak_label_model(rng, n_classes, label_share)
    own = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    c = np.concatenate([own, rng.integers(0, n_classes, n_queries)])
    x, z = model.features(c, rng)
    return rate_all_pairs(rng, model, x, z, c, len(own), noise)
