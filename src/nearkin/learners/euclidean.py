"""The plain Euclidean distance, as a method among the others: what learning has to beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from nearkin.data import Ratings
from nearkin.learners.common import NearestTrained, names_of, provenance, read_features
from nearkin.metric import Metric
from nearkin.solvers import Solution


class Euclidean(NearestTrained, BaseEstimator):
    """All features count alike, or each in units of its standard deviation.

    Parameters
    ----------
    standardise : bool, default=True
        Weigh each feature by one over its variance.

    Examples
    --------
    >>> import nearkin as nk
    >>> nk.Euclidean().fit([[0.0, 0.0], [2.0, 200.0]]).metric_.weights
    array([1.e+00, 1.e-04])
    """

    def __init__(self, *, standardise: bool = True) -> None:
        self.standardise = standardise

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, ratings: Ratings | None = None
    ) -> Euclidean:
        """Learn nothing but the scales; labels and ratings are not used."""
        x = read_features(self, X).astype(np.float64)
        variance = x.var(axis=0)
        weights = np.ones(x.shape[1])
        if self.standardise:
            weights = np.where(variance > 0, 1.0 / np.where(variance > 0, variance, 1.0), 0.0)
        self.solution_ = Solution(weights, 0.0, None, 0.0, 0, True, "nothing to solve")
        self.metric_ = Metric(
            weights=weights,
            center=x.mean(axis=0),
            feature_names=names_of(self),
            provenance=provenance(self, self.solution_, len(x), 0),
        )
        self.points_ = self.metric_.points(x)
        return self
