"""HYB: ratings and labels in one distance (section 3.4).

HYB is no solver of its own: a soft classifier gives class probabilities u, and any learner of
ratings runs on pair features that have the class terms at their end.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from nearkin.classifiers import KernelClassifier
from nearkin.data import UNLABELLED, Ratings, check_number, check_ratings
from nearkin.learners.common import (
    NearestTrained,
    column_names,
    names_of,
    provenance,
    read_features,
)
from nearkin.learners.nca import labelled
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.metric import Metric
from nearkin.missing import Completion, with_unrated_filled
from nearkin.pairs import PairFeatures
from nearkin.points import Points
from nearkin.solvers import Solution


class PairLearner(Protocol):
    """What ``Hybrid(learner=...)`` needs: a scikit-learn estimator with this one method."""

    def fit_pairs(self, features: PairFeatures, ratings: Ratings) -> Solution:
        """Return non-negative coefficients of the pair features in ``Solution.theta``."""


class Hybrid(NearestTrained, BaseEstimator):
    """One distance from ordinal ratings and class labels.

    ``d2 = sum_k r_k (x_k - x'_k)^2 + u . Q u'``, where u is one-hot for a labelled object and
    the classifier's posterior for any other.

    Parameters
    ----------
    learner : estimator with ``fit_pairs``, optional
        Learns from ratings (the paper's algorithm B). ``OrdinalRegression()`` by default;
        ``ConvexOptimization()`` is the paper's choice. See ``PairLearner`` to write one.
    class_ridge : float, default=10.0
        Shrinks Q to one cost for all pairs of different classes: weight of half the squared
        deviations from it, in units of the log-likelihood (for CO: pseudo-pairs added to the cost
        of each class term). 0 is the paper's free Q.
    missing : ItemProfiles or LatentFeatures, optional
        Learns what ratings say of single database objects, beyond their class.
    classifier : classifier with ``predict_proba``, optional
        Learns from labels (the paper's algorithm A). ``KernelClassifier(random_state=0)`` by
        default.

    Attributes
    ----------
    metric_ : Metric
    solution_ : Solution
    points_ : Points
        The training objects, labels included: the database to search.
    learner_, classifier_, missing_
        The fitted parts.
    thresholds_ : ndarray, shape (n_levels - 1,)
        b_v of ``P(level <= v) = 1 / (1 + exp(-d2 - b_v))``; only where a likelihood was fitted.
    classes_ : ndarray
        Class names, in the order of ``metric_.class_costs``.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 3)), np.repeat(["cyst", "other"], 20)
    >>> a, b = np.triu_indices(40, k=1)
    >>> seen = (X[a, 0] - X[b, 0]) ** 2 + 2 * (y[a] != y[b]) + rng.normal(size=len(a))
    >>> est = nk.Hybrid().fit(X, y, nk.Ratings(a, b, 3 - np.digitize(seen, [1, 3])))
    >>> Q = est.metric_.class_costs
    >>> bool(Q[0, 1] > Q[0, 0])
    True
    """

    def __init__(
        self,
        *,
        learner: Any = None,
        classifier: Any = None,
        class_ridge: float = 10.0,
        missing: Any = None,
    ) -> None:
        self.learner = learner
        self.classifier = classifier
        self.class_ridge = class_ridge
        self.missing = missing

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, ratings: Ratings | None = None
    ) -> Hybrid:
        """Learn the distance.

        Parameters
        ----------
        X : array-like, shape (n_objects, K)
            Features.
        y : array-like, shape (n_objects,)
            Labels; None, NaN or -1 where unknown. Objects need neither a label nor a rating.
        ratings : Ratings
            Rated pairs of rows of X, labelled or not.
        """
        check_part("Hybrid", "learner", self.learner, "fit_pairs")
        check_part("Hybrid", "classifier", self.classifier, "predict_proba")
        check_part("Hybrid", "missing", self.missing, "complete")
        x = read_features(self, X)
        ratings = check_ratings(ratings, len(x), "Hybrid")
        codes, self.classes_ = labelled(y, len(x), "Hybrid")
        u = self._class_probabilities(x, codes)
        names = names_of(self)
        check_number("Hybrid", "class_ridge", self.class_ridge)
        columns = column_names(names, x.shape[1], self.classes_)
        features = PairFeatures(x, u, columns, float(self.class_ridge))
        self.learner_ = OrdinalRegression() if self.learner is None else clone(self.learner)
        found = self._learn(features, ratings)
        self.solution_ = found.solution
        center = x.mean(axis=0, dtype=np.float64)
        z = np.empty((len(x), 0)) if found.unmeasured is None else found.unmeasured
        self.metric_ = Metric(
            weights=np.concatenate([found.weights, np.ones(z.shape[1])]),
            class_costs=found.class_costs,
            profiled=found.profiles is not None,
            classes=self.classes_,
            classifier=getattr(self.classifier_, "posterior_", self.classifier_),
            center=np.concatenate([center, z.mean(axis=0)]),
            completion=found.completion,
            feature_names=names,
            provenance=provenance(self, self.solution_, len(x), len(ratings)),
        )
        self.points_ = Points(np.hstack([x, z.astype(x.dtype)]), u, found.profiles)
        return self

    def _learn(self, features: PairFeatures, ratings: Ratings) -> Completion:
        """Return the distance, with profiles of rated objects if they are asked for."""
        if self.missing is None:
            solution = self.learner_.fit_pairs(features, ratings)
            theta = checked_theta(solution, features.n_columns, self.learner_)
            r, Q, b = features.split(theta)
            found = Completion(r, with_unrated_filled(Q, features, ratings), b, solution)
        else:
            self.missing_ = clone(self.missing)
            found = self.missing_.complete(features, ratings, self.learner_)
        if hasattr(self.learner_, "thresholds_"):
            self.learner_.thresholds_ = self.learner_.thresholds_ - found.lift
        thresholds = getattr(self.learner_, "thresholds_", found.thresholds)
        if thresholds is not None:
            self.thresholds_ = thresholds
        return found

    def _class_probabilities(
        self, x: NDArray[np.float64], codes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return u: one-hot where the class is known, the posterior elsewhere  (n, M)."""
        known = codes != UNLABELLED
        classifier = (
            KernelClassifier(random_state=0) if self.classifier is None else clone(self.classifier)
        )
        self.classifier_ = classifier.fit(x[known], self.classes_[codes[known]])
        u = np.eye(len(self.classes_))[np.where(known, codes, 0)]
        if not known.all():
            u[~known] = self.classifier_.predict_proba(x[~known])
        return u

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def check_part(caller: str, name: str, part: Any, method: str) -> None:
    """Raise an error if a part that was passed in lacks its method."""
    if part is not None and not hasattr(part, method):
        raise TypeError(
            f"{caller}({name}={part!r}): a {name} must have the method {method}, which "
            f"{type(part).__name__} has not."
        )


def checked_theta(solution: Solution, n_columns: int, learner: Any) -> NDArray[np.float64]:
    """Return a learner's coefficients if they are ones."""
    theta = np.asarray(solution.theta, dtype=np.float64)
    if theta.shape != (n_columns,) or not np.isfinite(theta).all() or (theta < 0).any():
        raise ValueError(
            f"{type(learner).__name__}.fit_pairs returned theta of shape {theta.shape}; Hybrid "
            f"needs {n_columns} finite coefficients >= 0, one for each pair feature."
        )
    return theta
