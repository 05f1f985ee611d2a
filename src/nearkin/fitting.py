"""From a study to a model: prepare, fit, calibrate, measure the collection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from nearkin.calibration import Calibration, calibrate
from nearkin.classifiers import KernelClassifier
from nearkin.data import Objects, Ratings, encode_labels
from nearkin.explaining import Usual
from nearkin.latent import LatentFeatures
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.missing import ItemProfiles
from nearkin.model import Model
from nearkin.preparation import Preparation
from nearkin.protocols import labels_of
from nearkin.spread import Reach, Spread

Progress = Callable[[int, int], None]


def named_methods(random_state: Any = 0) -> dict[str, Any]:
    """Return the methods to fit by name. A ridge of 1 keeps sparse ratings from running away."""
    ordinal, kernel = OrdinalRegression(ridge=1.0), KernelClassifier(random_state=random_state)
    latent = LatentFeatures(random_state=random_state)
    from_x = LatentFeatures(from_features=True, random_state=random_state)
    return {
        "hybrid": Hybrid(learner=ordinal, classifier=kernel),
        "hybrid-profiles": Hybrid(learner=ordinal, classifier=kernel, missing=ItemProfiles()),
        "hybrid-latent": Hybrid(classifier=kernel, missing=latent),
        "hybrid-latent-x": Hybrid(classifier=kernel, missing=from_x),
        "or": ordinal,
        "co": ConvexOptimization(),
        "nca": NCA(random_state=random_state),
        "euclidean": Euclidean(),
    }


def method_named(name: str | None, objects: Objects, random_state: Any = 0) -> Any:
    """Return a method by name; without one, the hybrid if two classes have labels, else OR."""
    methods = named_methods(random_state)
    if name is None:
        _, classes = encode_labels(labels_of(objects), len(objects))
        name = "hybrid" if len(classes) > 1 else "or"
    if name not in methods:
        raise ValueError(f"there is no method {name!r}; choose among {', '.join(methods)}.")
    return methods[name]


def fit_model(
    objects: Objects,
    ratings: Ratings,
    estimator: Any = None,
    *,
    preparation: Preparation | None = None,
    n_folds: int = 5,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Model:
    """Fit a method to a study, and calibrate it on objects held out in turn.

    Parameters
    ----------
    objects : Objects
        As from ``read_objects``.
    ratings : Ratings
        As from ``read_ratings``.
    estimator : estimator, optional
        ``Hybrid()`` by default.
    preparation : Preparation, optional
        Nothing is done to the features by default.
    n_folds, n_jobs, progress
        Of the calibration.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 2)), np.repeat(["cyst", "other"], 20)
    >>> objects = nk.Objects([f"o{i}" for i in range(40)], X, y, ["size", "tint"])
    >>> a, b = np.triu_indices(40, k=1)
    >>> seen = (X[a, 0] - X[b, 0]) ** 2 + 2 * (y[a] != y[b]) + rng.normal(size=len(a))
    >>> model = nk.fit_model(objects, nk.Ratings(a, b, 3 - np.digitize(seen, [1, 3])))
    >>> model.search("o3", k=5).classes[0].label
    'cyst'
    >>> model.explain("o3", "o30").groups[0].name
    'size'
    """
    estimator = Hybrid() if estimator is None else clone(estimator)
    preparation = Preparation() if preparation is None else clone(preparation)
    y = labels_of(objects)
    fitted = estimator.fit(preparation.fit_transform(objects.X), y, ratings)
    names = objects.feature_names or [f"x{k}" for k in range(objects.X.shape[1])]
    metric = replace(fitted.metric_, feature_names=[names[k] for k in preparation.kept_])
    points = fitted.points_
    return Model(
        metric,
        points,
        replace(objects, feature_names=list(names)),
        preparation,
        Spread.of(metric, points),
        Reach.of(metric, points),
        Usual.of(metric, points),
        calibrated(fitted, objects, ratings, preparation, n_folds, n_jobs, progress),
        {
            "method": " ".join(repr(estimator).split()),
            "message": fitted.solution_.message,
            "converged": bool(fitted.solution_.converged),
            "n_objects": len(objects),
            "n_ratings": len(ratings),
            "n_levels": ratings.n_levels,
            "thresholds": finite_thresholds(fitted),
        },
    )


def finite_thresholds(fitted: Any) -> list[float] | None:
    """Return b_v of a likelihood; None without one, or where a level was never used."""
    thresholds = getattr(fitted, "thresholds_", None)
    if thresholds is None or not np.isfinite(thresholds).all():
        return None
    return [float(b) for b in thresholds]


def calibrated(
    fitted: Any,
    objects: Objects,
    ratings: Ratings,
    preparation: Preparation,
    n_folds: int,
    n_jobs: int,
    progress: Progress | None,
) -> Calibration | None:
    """Return the calibration, or None and a warning that says why there is none."""
    try:
        return calibrate(
            fitted,
            objects.X,
            labels_of(objects),
            ratings,
            prepare=preparation,
            n_folds=n_folds,
            n_jobs=n_jobs,
            progress=progress,
        )
    except ValueError as error:
        warnings.warn(f"no P(similar) can be given: {error}", UserWarning, stacklevel=3)
        return None
