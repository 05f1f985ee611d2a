"""What every estimator does on entry: read X as numbers, and say clearly what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from nearkin._version import __version__
from nearkin.data import Ratings, check_finite, check_number, check_ratings
from nearkin.metric import Metric
from nearkin.nearest import Near, Neighbours
from nearkin.pairs import PairFeatures
from nearkin.points import Points
from nearkin.solvers import Solution

Floats = NDArray[np.float64]


def read_features(estimator: BaseEstimator, X: ArrayLike, *, reset: bool = True) -> Floats:
    """Return X as floats, and set the estimator's feature count and names."""
    # a copy: what the caller does with X later must not change what was fitted
    array: Floats = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        copy=True,
        ensure_min_samples=2 if reset else 1,
    )
    check_finite(array, type(estimator).__name__)
    return array


def names_of(estimator: BaseEstimator) -> tuple[str, ...] | None:
    """Return the feature names the estimator was fitted with, if any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def column_names(names: tuple[str, ...] | None, K: int, classes: NDArray[Any]) -> tuple[str, ...]:
    """Return names of the columns of phi, for messages."""
    features = names or tuple(f"feature {k}" for k in range(K))
    first, second = np.triu_indices(len(classes))
    pairs = zip(classes[first].tolist(), classes[second].tolist(), strict=True)
    return tuple(features) + tuple(f"class pair ({c}, {d})" for c, d in pairs)


def provenance(estimator: BaseEstimator, solution: Solution, n: int, n_ratings: int) -> Any:
    """Return how a metric came about, for its file."""
    return {
        "nearkin": __version__,
        "estimator": " ".join(repr(estimator).split()),
        "n_objects": n,
        "n_ratings": n_ratings,
        "gap": None if solution.gap is None else float(solution.gap),
        "residual": None if solution.residual is None else float(solution.residual),
        "converged": bool(solution.converged),
    }


class NearestTrained:
    """Search among the training objects, for estimators with ``metric_`` and ``points_``."""

    metric_: Metric
    points_: Points

    def kneighbors(self, X: ArrayLike, k: int = 5) -> Near:
        """Return distances and row numbers of the k nearest training objects.

        Exact; equal distances are broken by row number.

        Parameters
        ----------
        X : array-like, shape (n_queries, K)
            Features of the queries.
        k : int, default=5
            Number of neighbours.

        Returns
        -------
        distances, rows : ndarray, shape (n_queries, k)
            Nearest first.
        """
        check_is_fitted(self, "points_")
        caller = f"{type(self).__name__}.kneighbors"
        check_number(caller, "k", k, 1, whole=True)
        if k > len(self.points_):
            raise ValueError(f"{caller}(k={k}): there are {len(self.points_)} training objects.")
        return Neighbours.of(self.metric_, self.points_).search(self.metric_.points(X), k)


class RatingLearner(NearestTrained, BaseEstimator):
    """Fit shared by OR and CO: ratings in, one weight for each feature out.

    A subclass offers ``fit_pairs(features, ratings) -> Solution``, and with it can also be the
    learner of ``Hybrid``.
    """

    def fit_pairs(self, features: PairFeatures, ratings: Ratings) -> Solution:
        """Return the coefficients of the pair features."""
        raise NotImplementedError

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, ratings: Ratings | None = None
    ) -> RatingLearner:
        """Learn the distance from ratings; labels are not used.

        Parameters
        ----------
        X : array-like, shape (n_objects, K)
            Features.
        y : ignored
            Present so that all methods are called alike.
        ratings : Ratings
            Rated pairs of rows of X.
        """
        x = read_features(self, X)
        ratings = check_ratings(ratings, len(x), type(self).__name__)
        names = names_of(self)
        columns = column_names(names, x.shape[1], np.empty(0))
        self.solution_ = self.fit_pairs(PairFeatures(x, names=columns), ratings)
        self.metric_ = Metric(
            weights=self.solution_.theta,
            center=x.mean(axis=0, dtype=np.float64),
            feature_names=names,
            provenance=provenance(self, self.solution_, len(x), len(ratings)),
        )
        self.points_ = self.metric_.points(x)
        return self
