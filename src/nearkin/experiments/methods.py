"""The methods that the experiments compare, by their names in the paper and beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator

from nearkin.classifiers import KernelClassifier
from nearkin.latent import LatentFeatures
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.missing import ItemProfiles
from nearkin.selection import select

PAPER = ("OR", "CO", "NCA", "HYB")
BEYOND = ("Euclidean", "HYB with OR", "Hybrid()", "ItemProfiles", "LatentFeatures", "Latent from x")

SELECT = "select"  # fits every candidate several times: compared only where it is asked for


class Selected(BaseEstimator):
    """What ``select`` chooses within the objects it is fitted to, as one more method.

    Scored like the others, it says what to expect of choosing: each fold makes its own choice,
    from what it may see.
    """

    def __init__(self, *, random_state: Any = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, ratings: Any = None) -> Selected:
        """Choose, and learn from all of the objects by what was chosen."""
        self.selection_ = select(X, y, ratings, random_state=self.random_state, n_jobs=1)
        best = self.selection_.best_estimator_
        self.metric_, self.points_ = best.metric_, best.points_
        return self


def estimator(method: str, seed: int) -> Any:
    """Return a method by its name; each takes features as they are."""
    kernel = KernelClassifier(random_state=seed)
    either = KernelClassifier(pooled=None, random_state=seed)
    make: dict[str, Callable[[], Any]] = {
        "OR": OrdinalRegression,
        "CO": ConvexOptimization,
        "NCA": lambda: NCA(random_state=seed),
        "HYB": lambda: Hybrid(learner=ConvexOptimization(), classifier=kernel, class_ridge=0),
        "HYB with OR": lambda: Hybrid(classifier=kernel, class_ridge=0),
        "Hybrid()": lambda: Hybrid(classifier=kernel),
        "ItemProfiles": lambda: Hybrid(classifier=either, missing=ItemProfiles()),
        "LatentFeatures": lambda: Hybrid(
            classifier=either, missing=LatentFeatures(n_starts=1, random_state=seed)
        ),
        "Latent from x": lambda: Hybrid(
            classifier=either,
            missing=LatentFeatures(n_starts=1, from_features=True, random_state=seed),
        ),
        "Euclidean": lambda: Euclidean(standardise=False),
        SELECT: lambda: Selected(random_state=seed),
    }
    if method not in make:
        raise ValueError(f"there is no method {method!r}; choose from {', '.join(make)}.")
    return make[method]()
