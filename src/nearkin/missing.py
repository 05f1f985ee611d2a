"""What ratings say about the missing features of a rated object, beyond its class.

The paper integrates the missing features z out class by class: Q is all that is left of them. But
a database object that was rated has shown something of its own z. ``ItemProfiles`` here and
``LatentFeatures`` in ``latent.py`` learn it, and hand it over in one form: a profile b_j (M,) for
each rated object, so that

    d2(o, o_j) = d2_r + u . (Q u_j + b_j)

for a new object o, whose class probabilities u are all that is known of its z. An object without
ratings has b = 0 and falls back to its class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from nearkin.data import Ratings, check_number
from nearkin.objectives import column_sums
from nearkin.pairs import PairFeatures
from nearkin.solvers import Solution

Floats = NDArray[np.float64]


class Completion(NamedTuple):
    """A distance that knows single objects: r (K,), Q (M, M), profiles b (n, M), and how.

    ``lift`` was added to every squared distance, and belongs off the learner's thresholds.
    ``thresholds`` are those of the ordered logit where the learner had no part in it.
    ``unmeasured`` are J further features of the objects (n, J), each of weight 1, and
    ``completion`` (M + K, J) predicts them from u and centred features.
    """

    weights: Floats
    class_costs: Floats
    profiles: Floats | None
    solution: Solution
    lift: float = 0.0
    thresholds: Floats | None = None
    unmeasured: Floats | None = None
    completion: Floats | None = None


class MissingPart(Protocol):
    """What ``Hybrid(missing=...)`` needs: a scikit-learn estimator with this one method."""

    def complete(self, features: PairFeatures, ratings: Ratings, learner: Any) -> Completion:
        """Learn the distance together with what ratings say of single objects."""


def lift_needed(Q: Floats, u: Floats, b: Floats) -> float:
    """Return what to add to Q so that ``Q u_j + b_j >= 0``: no new object is nearer than 0.

    Adding to all squared distances alike changes no ranking, and the thresholds take it up.
    """
    return float(max(0.0, -np.min(u @ Q + b)))


def rated_rows(ratings: Ratings, n: int) -> NDArray[np.bool_]:
    """Tell which of n objects have ratings."""
    rated = np.zeros(n, dtype=bool)
    rated[ratings.a] = rated[ratings.b] = True
    return rated


def with_unrated_filled(Q: Floats, features: PairFeatures, ratings: Ratings) -> Floats:
    """Return Q with the mean of its kind where no rating shows a pair of classes.

    Nothing was learned there, and 0 would put never compared classes nearest of all.
    """
    seen = features.split(column_sums(features, features.pairs(ratings)))[1] > 0
    same = np.eye(len(Q), dtype=bool)
    filled = Q.copy()
    for kind in (same, ~same):
        if (kind & seen).any():
            filled[kind & ~seen] = Q[kind & seen].mean()
    return filled


class ItemProfiles(BaseEstimator):
    """Each rated object corrects its own column of Q; convex.

    In training both ends of a pair are corrected: ``d2 = d2_r + u . Q u' + u . b' + b . u'``, with
    ``ridge / 2 * |b|^2`` beside the log-likelihood. The learner must be one of likelihoods
    (``OrdinalRegression``): profiles may be negative.

    Parameters
    ----------
    ridge : float, default=1.0
        Weight of half the squared profiles, in units of the log-likelihood.

    Examples
    --------
    >>> import nearkin as nk
    >>> nk.Hybrid(missing=nk.ItemProfiles(ridge=2.0))
    Hybrid(missing=ItemProfiles(ridge=2.0))
    """

    def __init__(self, *, ridge: float = 1.0) -> None:
        self.ridge = ridge

    def complete(self, features: PairFeatures, ratings: Ratings, learner: Any) -> Completion:
        """Learn profiles as further columns of the pair features."""
        check_number("ItemProfiles", "ridge", self.ridge, 1e-6)
        rated = np.flatnonzero(rated_rows(ratings, len(features.u)))
        longer = replace(features, profiled=rated, profile_ridge=self.ridge)
        solution = learner.fit_pairs(longer, ratings)
        r, Q, B = longer.split(np.asarray(solution.theta, dtype=np.float64))
        b = np.zeros_like(features.u)
        b[rated] = B
        Q = with_unrated_filled(Q, features, ratings)
        lift = lift_needed(Q, features.u, b)
        return Completion(r, Q + lift, b, solution, lift)
