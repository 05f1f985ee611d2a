"""OR: ordinal regression on pair features (section 3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.data import Ratings, check_number
from nearkin.learners.common import RatingLearner
from nearkin.ordered_logit import OrderedLogit
from nearkin.pairs import PairFeatures
from nearkin.solvers import Solution, check_solver, minimise, to_numpy, warn_unless


class OrdinalRegression(RatingLearner):
    """Ordered logit of the ratings, linear in the squared distance.

    ``P(level <= v) = 1 / (1 + exp(-d2 - b_v))`` with weights r >= 0 and thresholds
    b_1 <= b_2 <= ..., by maximum likelihood. Works for any number of levels.

    Parameters
    ----------
    ridge : float, default=0.0
        Weight of half the sum of squared coefficients, each in units of the root mean square of its
        column over the rated pairs (so feature units do not matter), beside the log-likelihood.
    feature_ridge : float, default=0.0
        Shrinks the weights of all features, in the same units, to one common weight: weight of half
        their squared deviations from it. Large, and what is learned is a Euclidean distance.
    tol : float, default=1e-8
        Largest KKT residual, in units of the mean log-likelihood.
    max_iter : int, default=200
        Newton iterations at most.

    Attributes
    ----------
    metric_ : Metric
    solution_ : Solution
    points_ : Points
        The training objects: the database to search.
    thresholds_ : ndarray, shape (n_levels - 1,)
        b_v. Infinite for levels at the ends of the scale that nobody used.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> X = np.array([[0.0], [1.0], [3.0], [3.5], [7.0]])
    >>> ratings = nk.Ratings([0, 0, 1, 2, 2, 0, 1], [1, 2, 2, 3, 4, 3, 3], [3, 2, 1, 3, 1, 1, 2])
    >>> est = nk.OrdinalRegression().fit(X, ratings=ratings)
    >>> est.solution_.converged
    True
    """

    thresholds_: NDArray[np.float64]

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        feature_ridge: float = 0.0,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        self.ridge = ridge
        self.feature_ridge = feature_ridge
        self.tol = tol
        self.max_iter = max_iter

    def fit_pairs(self, features: PairFeatures, ratings: Ratings) -> Solution:
        """Return the coefficients of the pair features; keeps ``thresholds_``."""
        for name in ("ridge", "feature_ridge"):
            check_number("OrdinalRegression", name, getattr(self, name))
        check_solver("OrdinalRegression", self.tol, self.max_iter)
        used = np.unique(ratings.level)
        if len(used) < 2:
            raise ValueError(
                f"OrdinalRegression: all {len(ratings)} ratings have level {used.tolist()}; "
                "ratings of two levels or more are needed."
            )
        objective = OrderedLogit(features, features.pairs(ratings), self.ridge, self.feature_ridge)
        end = minimise(objective, self.tol, self.max_iter)
        theta, b = (to_numpy(part) for part in objective.split(end.z))
        warn_unless(end.converged, "OrdinalRegression", end.message)
        self.thresholds_ = for_all_levels(b, used, ratings.n_levels)
        return Solution(
            theta, end.at.value, None, end.shortfall, end.n_iter, end.converged, end.message
        )


def for_all_levels(
    b: NDArray[np.float64], used: NDArray[np.int64], n_levels: int
) -> NDArray[np.float64]:
    """Place thresholds between used levels on the whole scale; unused levels have no room."""
    edges = np.concatenate([[-np.inf], b, [np.inf]])
    # threshold v lies above every used level <= v
    return edges[np.searchsorted(used, np.arange(1, n_levels), side="right")]
