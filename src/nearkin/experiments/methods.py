"""The methods that the experiments compare, by their names in the paper and beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearkin.classifiers import KernelClassifier
from nearkin.latent import LatentFeatures
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.missing import ItemProfiles

PAPER = ("OR", "CO", "NCA", "HYB")
BEYOND = ("Euclidean", "HYB with OR", "Hybrid()", "ItemProfiles", "LatentFeatures")


def estimator(method: str, seed: int) -> Any:
    """Return a method by its name; each takes features as they are."""
    kernel = KernelClassifier(random_state=seed)
    make: dict[str, Callable[[], Any]] = {
        "OR": OrdinalRegression,
        "CO": ConvexOptimization,
        "NCA": lambda: NCA(random_state=seed),
        "HYB": lambda: Hybrid(learner=ConvexOptimization(), classifier=kernel, class_ridge=0),
        "HYB with OR": lambda: Hybrid(classifier=kernel, class_ridge=0),
        "Hybrid()": lambda: Hybrid(classifier=kernel),
        "ItemProfiles": lambda: Hybrid(classifier=kernel, missing=ItemProfiles()),
        "LatentFeatures": lambda: Hybrid(
            classifier=kernel, missing=LatentFeatures(n_starts=1, random_state=seed)
        ),
        "Euclidean": lambda: Euclidean(standardise=False),
    }
    if method not in make:
        raise ValueError(f"there is no method {method!r}; choose from {', '.join(make)}.")
    return make[method]()
