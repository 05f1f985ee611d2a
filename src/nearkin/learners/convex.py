"""CO: the convex programme of Xing et al. (section 3.2), solved with a certificate."""

from __future__ import annotations

from nearkin.convex_program import ConvexProgram
from nearkin.data import Ratings, check_number
from nearkin.learners.common import RatingLearner
from nearkin.pairs import PairFeatures
from nearkin.solvers import Solution, check_solver, minimise, to_numpy, warn_unless


class ConvexOptimization(RatingLearner):
    """Pull similar pairs together while the distances of dissimilar pairs sum to 1.

    ``min sum over similar pairs of d2`` subject to ``sum over dissimilar pairs of d >= 1`` and
    r >= 0. Only the top and the bottom level of the ratings count.

    Parameters
    ----------
    prior : float, default=1.0
        Number of pseudo-pairs: each column's cost among similar pairs grows by ``prior`` times
        its mean over all rated pairs. 0 is the paper's problem exactly, which has no solution
        when some column is zero in all similar pairs.
    tol : float, default=1e-8
        Largest relative duality gap: a proven bound on the distance from the optimum.
    max_iter : int, default=200
        Newton iterations at most.

    Attributes
    ----------
    metric_ : Metric
    solution_ : Solution
        ``solution_.gap`` is the certificate.
    points_ : Points
        The training objects: the database to search.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> X = np.array([[0.0, 5.0], [0.5, -5.0], [9.0, 5.0]])
    >>> ratings = nk.Ratings([0, 0], [1, 2], [3, 1])
    >>> est = nk.ConvexOptimization(prior=0).fit(X, ratings=ratings)
    >>> est.solution_.gap < 1e-8
    True
    >>> est.metric_.weights.round(6)  # sqrt(r_1) 9 = 1, and the second feature says nothing
    array([0.012346, 0.      ])
    """

    def __init__(self, *, prior: float = 1.0, tol: float = 1e-8, max_iter: int = 200) -> None:
        self.prior = prior
        self.tol = tol
        self.max_iter = max_iter

    def fit_pairs(self, features: PairFeatures, ratings: Ratings) -> Solution:
        """Return the coefficients of the pair features."""
        check_number("ConvexOptimization", "prior", self.prior)
        check_solver("ConvexOptimization", self.tol, self.max_iter)
        for level, what in ((ratings.n_levels, "similar"), (1, "dissimilar")):
            if not (ratings.level == level).any():
                raise ValueError(
                    f"ConvexOptimization: no {what} pair: none of the {len(ratings)} ratings has "
                    f"level {level} of 1..{ratings.n_levels}. It needs both ends of the scale; "
                    "OrdinalRegression needs any two levels."
                )
        objective = ConvexProgram(features, features.pairs(ratings), ratings.n_levels, self.prior)
        end = minimise(objective, self.tol, self.max_iter)
        theta, value = objective.rescaled(end.z)
        warn_unless(end.converged, "ConvexOptimization", end.message)
        gap = max(end.shortfall, 0.0)
        return Solution(to_numpy(theta), value, gap, None, end.n_iter, end.converged, end.message)
