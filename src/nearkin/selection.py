"""Which method should I use, and how sure are you? Choice by cross-validated NDCG over objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.classifiers import KernelClassifier
from nearkin.data import Ratings, check_ratings, encode_labels
from nearkin.evaluation import paired_difference
from nearkin.latent import LatentFeatures
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.missing import ItemProfiles
from nearkin.protocols import FoldScore, object_folds, score_methods

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Selection:
    """What ``select`` found.

    Attributes
    ----------
    best_name_ : str
    best_estimator_ : estimator
        Fitted to all of the data.
    table_ : list of dict
        Every candidate, best first: mean NDCG over queries, its standard error, the paired
        difference from the best Euclidean distance with its 95 % interval, warnings, seconds.
    scores_ : dict
        Held-out NDCG of each object, by candidate.
    """

    best_name_: str
    best_estimator_: Any
    table_: list[dict[str, Any]]
    scores_: dict[str, Floats]


def candidates(n_classes: int, random_state: Any = 0) -> dict[str, Any]:
    """Return the methods worth trying, by name; without classes those that need none."""
    found: dict[str, Any] = {
        "Euclidean": Euclidean(standardise=False),
        "Euclidean, standardised": Euclidean(),
        "OR": OrdinalRegression(ridge=1.0),
        "OR, feature ridge 30": OrdinalRegression(ridge=1.0, feature_ridge=30.0),
        "OR, feature ridge 300": OrdinalRegression(ridge=1.0, feature_ridge=300.0),
        "CO": ConvexOptimization(),
        "CO, prior 1000": ConvexOptimization(prior=1000.0),
    }
    if n_classes < 2:
        return found
    kernel = KernelClassifier(pooled=None, random_state=random_state)
    ordinal = OrdinalRegression(ridge=1.0)
    found["NCA"] = NCA(random_state=random_state)
    found["HYB with CO, prior 1000"] = Hybrid(
        learner=ConvexOptimization(prior=1000.0), classifier=kernel
    )
    for class_ridge in (1.0, 10.0, 100.0):
        found[f"HYB, class ridge {class_ridge:g}"] = Hybrid(
            learner=ordinal, classifier=kernel, class_ridge=class_ridge
        )
    for ridge in (1.0, 4.0):
        found[f"HYB with profiles, ridge {ridge:g}"] = Hybrid(
            learner=ordinal, classifier=kernel, missing=ItemProfiles(ridge=ridge)
        )
    for ridge in (4.0, 16.0):
        found[f"HYB with latent features, ridge {ridge:g}"] = Hybrid(
            classifier=kernel,
            missing=LatentFeatures(ridge=ridge, n_starts=1, random_state=random_state),
        )
        found[f"HYB with latent features from x, ridge {ridge:g}"] = Hybrid(
            classifier=kernel,
            missing=LatentFeatures(
                ridge=ridge, from_features=True, n_starts=1, random_state=random_state
            ),
        )
    return found


def select(
    X: ArrayLike,
    y: ArrayLike | None,
    ratings: Ratings,
    *,
    methods: dict[str, Any] | None = None,
    prepare: Any = None,
    n_folds: int = 10,
    k: int = 10,
    random_state: Any = 0,
    n_jobs: int = -1,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Choose a method by NDCG on objects it has not seen, and fit it to all of the data.

    A method must beat the Euclidean distance by more than one standard error of the difference,
    or the Euclidean distance is returned.

    Parameters
    ----------
    X, y, ratings
        As for ``Hybrid.fit``.
    methods : dict of estimators, optional
        Candidates by name; ``candidates(n_classes)`` by default. The Euclidean distances are
        always among them.
    prepare : transformer, optional
        Of features; fitted anew in each fold, and on all of the data for the best method.
    n_folds : int, default=10
        Objects are dealt into this many folds; whole objects are held out.
    k : int, default=10
        NDCG at k.
    random_state : int, default=0
        Makes folds and candidates repeatable.
    n_jobs : int, default=-1
        Processes.
    progress : callable, optional
        Called with (done, total).
    """
    n = len(np.asarray(X))
    ratings = check_ratings(ratings, n, "select")
    _, classes = encode_labels(y, n)
    plain = candidates(0)
    euclidean = {name: est for name, est in plain.items() if name.startswith("Euclidean")}
    chosen = candidates(len(classes), random_state) if methods is None else {**euclidean, **methods}
    folds = object_folds(n, n_folds, random_state)
    scores, details = score_methods(
        chosen, X, y, ratings, folds, prepare=prepare, k=k, n_jobs=n_jobs, progress=progress
    )
    if all(np.isnan(values).all() for values in scores.values()):
        raise ValueError("select: no rating links a held-out object with another one.")
    means = {name: float(np.nanmean(values)) for name, values in scores.items()}
    base = max(euclidean, key=lambda name: means[name])
    order = sorted(means, key=lambda name: -means[name])
    table = [_row(name, scores[name], scores[base], details[name]) for name in order]
    best = order[0] if _stands_out(scores[order[0]] - scores[base]) else base
    x = X if prepare is None else prepare.fit_transform(X)
    return Selection(best, chosen[best].fit(x, y, ratings), table, scores)


def _row(name: str, scores: Floats, base: Floats, folds: list[FoldScore]) -> dict[str, Any]:
    """Return a candidate's line of the table."""
    values, lead = scores[~np.isnan(scores)], paired_difference(scores, base)
    return {
        "method": name,
        "ndcg": float(values.mean()),
        "standard_error": float(values.std(ddof=1)) / len(values) ** 0.5,
        "over_euclidean": lead.mean,
        "low95": lead.low,
        "high95": lead.high,
        "seconds": sum(fold.seconds for fold in folds),
        "warnings": len({text for fold in folds for text in fold.warnings}),
    }


def _stands_out(difference: Floats) -> bool:
    """Tell whether a lead, query by query, is more than one standard error."""
    lead = difference[~np.isnan(difference)]
    error = float(lead.std(ddof=1)) / len(lead) ** 0.5 if len(lead) > 1 else 0.0
    return float(lead.mean()) > error
