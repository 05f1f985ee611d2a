"""What ratings say about the missing features of a rated object, beyond its class.

The paper integrates the missing features z out class by class: Q is all that is left of them. But
a database object that was rated has shown something of its own z. Both parts here learn it, and
both hand it over in one form: a profile b_j (M,) for each rated object, so that

    d2(o, o_j) = d2_r + u . (Q u_j + b_j)

for a new object o, whose class probabilities u are all that is known of its z. An object without
ratings has b = 0 and falls back to its class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from nearkin.data import Pairs, Ratings, check_number
from nearkin.ordered_logit import OrderedLogitLink
from nearkin.pairs import PairFeatures
from nearkin.solvers import Solution, check_solver, lbfgsb, warn_unless

Floats = NDArray[np.float64]


class Completion(NamedTuple):
    """A distance that knows single objects: r (K,), Q (M, M), profiles b (n, M), and how.

    ``lift`` was added to every squared distance, and belongs off the learner's thresholds.
    """

    weights: Floats
    class_costs: Floats
    profiles: Floats | None
    solution: Solution
    lift: float = 0.0


class MissingPart(Protocol):
    """What ``Hybrid(missing=...)`` needs: a scikit-learn estimator with this one method."""

    def complete(self, features: PairFeatures, ratings: Ratings, learner: Any) -> Completion:
        """Learn the distance together with what ratings say of single objects."""


def lift_needed(Q: Floats, u: Floats, b: Floats) -> float:
    """Return what to add to Q so that ``Q u_j + b_j >= 0``: no new object is nearer than 0.

    Adding to all squared distances alike changes no ranking, and the thresholds take it up.
    """
    return float(max(0.0, -np.min(u @ Q + b)))


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
        rated = np.unique(np.concatenate([ratings.a, ratings.b]))
        longer = replace(features, profiled=rated, profile_ridge=self.ridge)
        solution = learner.fit_pairs(longer, ratings)
        r, Q, B = longer.split(np.asarray(solution.theta, dtype=np.float64))
        b = np.zeros_like(features.u)
        b[rated] = B
        lift = lift_needed(Q, features.u, b)
        return Completion(r, Q + lift, b, solution, lift)


class LatentFeatures(BaseEstimator):
    """Infer z of rated objects: ``d2 = d2_r + |z_i - z_j|^2``, ``z_i = mean of class + e_i``.

    Multidimensional scaling, by the ordinal likelihood, of what the features leave unexplained.
    A new object's z is a mixture over the database's classes. Not convex: the best of several
    starts is kept.

    Parameters
    ----------
    n_features : int, default=8
        Dimension of z.
    ridge : float, default=2.0
        Weight of half the squared deviations e, in units of the log-likelihood.
    n_starts : int, default=3
    tol : float, default=1e-4
        Largest projected gradient of the mean log-likelihood.
    max_iter : int, default=1000
    random_state : int, RandomState or None, default=0
        Makes the starts repeatable.

    Attributes
    ----------
    z_ : ndarray, shape (n_objects, n_features)
        The inferred space, along its principal axes.
    """

    z_: Floats

    def __init__(
        self,
        *,
        n_features: int = 8,
        ridge: float = 2.0,
        n_starts: int = 3,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.ridge = ridge
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def complete(self, features: PairFeatures, ratings: Ratings, learner: Any) -> Completion:
        """Learn r, thresholds and z together; ``learner`` has no part in it."""
        for name in ("n_features", "n_starts"):
            check_number("LatentFeatures", name, getattr(self, name), 1, whole=True)
        check_number("LatentFeatures", "ridge", self.ridge)
        check_solver("LatentFeatures", self.tol, self.max_iter)
        rng = check_random_state(self.random_state)
        problem = LatentLikelihood(features, ratings, self.n_features, self.ridge)
        ends = [
            lbfgsb(problem, problem.start(rng), problem.lower, self.tol, self.max_iter)
            for _ in range(self.n_starts)
        ]
        best = min(ends, key=lambda end: float(end.fun))
        r, z, _ = problem.split(best.x)
        residual = float(np.max(np.abs(best.x - np.maximum(best.x - best.jac, problem.lower))))
        converged = residual <= self.tol
        message = f"best of {self.n_starts} starts, residual {residual:.1e}"
        warn_unless(converged, "LatentFeatures", message)
        mean = z.mean(axis=0)
        self.z_ = (z - mean) @ np.linalg.svd(z - mean, full_matrices=False)[2].T
        u = features.u
        # B[c, j] = mean over class c of |z_i - z_j|^2  (M, n), and its class means Q
        share = u / u.sum(axis=0)
        square = np.sum(z * z, axis=1)
        B = (share.T @ square)[:, None] - 2.0 * (share.T @ z) @ z.T + square
        Q = B @ share
        Q = np.maximum(0.5 * (Q + Q.T), 0.0)
        rated = np.zeros(len(u), dtype=bool)
        rated[ratings.a] = rated[ratings.b] = True
        b = np.where(rated[:, None], B.T - u @ Q, 0.0)
        theta = np.concatenate([r, Q[np.triu_indices(len(Q))]])
        solution = Solution(
            theta, float(best.fun), None, residual, int(best.nit), converged, message
        )
        return Completion(r, Q, b, solution)


@dataclass
class LatentLikelihood:
    """Mean negative log-likelihood in ``[t, increments of b, class means, deviations e]``."""

    features: PairFeatures
    ratings: Ratings
    n_latent: int
    ridge: float

    def __post_init__(self) -> None:
        merged = self.ratings.merged()
        levels, level = np.unique(merged.level, return_inverse=True)
        self.pairs = Pairs(merged.a, merged.b, level + 1, merged.weight)
        x = np.asarray(self.features.x, dtype=np.float64)
        D = x[merged.a] - x[merged.b]
        self.squares = D * D
        rms = np.sqrt(np.average(self.squares**2, axis=0, weights=merged.weight))
        self.inverse_scale = np.where(rms > 0, 1.0 / np.where(rms > 0, rms, 1.0), 0.0)
        self.total = float(merged.weight.sum())
        self.share = np.bincount(level, merged.weight) / self.total
        n, pairs = len(x), np.arange(len(level))
        rows, columns = np.tile(pairs, 2), np.concatenate([merged.a, merged.b])
        signs = np.repeat([1.0, -1.0], len(level))
        self.incidence = csr_array((signs, (rows, columns)), shape=(len(level), n))
        self.n_thresholds = len(levels) - 1
        size = self.features.n_classes + n
        self.lower = np.concatenate(
            [
                np.zeros(x.shape[1]),
                [-np.inf],
                np.full(self.n_thresholds - 1, 1e-6),
                np.full(size * self.n_latent, -np.inf),
            ]
        )

    def start(self, rng: np.random.RandomState) -> Floats:
        """Return a random starting point: features alike, z small, thresholds by the levels."""
        K, M = self.features.n_features, self.features.n_classes
        below = np.cumsum(self.share)[:-1]
        b = np.log(below / (1.0 - below)) - 1.0
        means = rng.normal(size=M * self.n_latent)
        deviations = 0.1 * rng.normal(size=(len(self.lower) - K - len(b) - len(means)))
        gaps = np.maximum(np.diff(b), 1e-3)
        return np.concatenate([np.full(K, 0.5 / K), b[:1], gaps, means, deviations])

    def split(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Return r, z and thresholds."""
        K, P, M = self.features.n_features, self.n_thresholds, self.features.n_classes
        latent = v[K + P :].reshape(-1, self.n_latent)
        z = self.features.u @ latent[:M] + latent[M:]
        return v[:K] * self.inverse_scale, z, np.cumsum(v[K : K + P])

    def __call__(self, v: Floats) -> tuple[float, Floats]:
        """Return value and gradient."""
        K, P, M = self.features.n_features, self.n_thresholds, self.features.n_classes
        r, z, b = self.split(v)
        difference = self.incidence @ z
        d2 = self.squares @ r + np.sum(difference * difference, axis=1)
        link = OrderedLogitLink(b, self.features.xp)
        terms = link(d2, self.pairs)
        # d |z_a - z_b|^2 = 2 (z_a - z_b) (dz_a - dz_b)
        dz = 2.0 * (self.incidence.T @ (terms.first[:, None] * difference))
        gaps, share, e = v[K + 1 : K + P], self.share[1:-1], v[K + P + M * self.n_latent :]
        room = -np.expm1(-gaps)
        value = float(terms.value) - self.total * float(share @ np.log(room))
        own = np.cumsum(terms.own[::-1])[::-1].copy()
        own[1:] -= self.total * share * np.exp(-gaps) / room
        gradient = np.concatenate(
            [
                (self.squares.T @ terms.first) * self.inverse_scale,
                own,
                (self.features.u.T @ dz).ravel(),
                dz.ravel() + self.ridge * e,
            ]
        )
        return (value + 0.5 * self.ridge * float(e @ e)) / self.total, gradient / self.total
