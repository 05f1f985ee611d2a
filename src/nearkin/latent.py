"""Latent features: multidimensional scaling, by the ordinal likelihood, of what features miss.

``d2 = d2_r + q (1 - u_i . u_j) + |z_i - z_j|^2``, with z inferred for each rated object and q one
cost of all pairs of different classes, which is what is left where ratings say little of single
classes. What is handed over is the expectation of the last term, so an object whose ratings leave
its z uncertain counts as farther away by the variance of its z, and objects with many and with few
ratings stay comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from nearkin.data import Pairs, Ratings, check_number
from nearkin.learners.ordinal import for_all_levels
from nearkin.missing import Completion, rated_rows
from nearkin.objectives import inverse, square_link
from nearkin.ordered_logit import OrderedLogitLink
from nearkin.pairs import Block, PairFeatures
from nearkin.passes import Terms, hessian_diagonal, sum_over_blocks
from nearkin.solvers import Solution, check_solver, lbfgsb, warn_unless

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SMALLEST_GAP = 1e-6  # between two thresholds


class LatentFeatures(BaseEstimator):
    """Infer z of rated objects: ``d2 = d2_r + q (1 - u_i . u_j) + |z_i - z_j|^2``.

    ``z_i = mean of its class + e_i``: multidimensional scaling, by the ordinal likelihood, of what
    features and one common cost q of different classes leave unexplained. A new object's z is that
    of a random member of its class, by its class probabilities. Not convex: the best of several
    starts is kept.

    Parameters
    ----------
    n_features : int, default=8
        Dimension of z.
    ridge : float, default=4.0
        Weight of half the squared class means and deviations e, in units of the log-likelihood.
    from_features : bool, default=False
        Let z follow the features, too: ``z_i = mean of its class + W x_i + e_i``. A new object's z
        is then predicted from its features and class probabilities. The paper takes z and x to be
        independent given the class; on people's own ratings this was seldom so.
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
        ridge: float = 4.0,
        from_features: bool = False,
        n_starts: int = 3,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.ridge = ridge
        self.from_features = from_features
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def complete(self, features: PairFeatures, ratings: Ratings, learner: Any) -> Completion:
        """Learn r, thresholds and z together; ``learner`` has no part in it."""
        for name in ("n_features", "n_starts"):
            check_number("LatentFeatures", name, getattr(self, name), 1, whole=True)
        check_number("LatentFeatures", "ridge", self.ridge, 1e-6)
        check_solver("LatentFeatures", self.tol, self.max_iter)
        rng = check_random_state(self.random_state)
        problem = LatentLikelihood(
            features, ratings, self.n_features, self.ridge, self.from_features
        )
        ends = [
            lbfgsb(problem, problem.start(rng), problem.lower, self.tol, self.max_iter)
            for _ in range(self.n_starts)
        ]
        best = min(ends, key=lambda end: float(end.fun))
        solution, found = self._solution(best, problem), self._handed_over(best.x, problem, ratings)
        used = np.unique(ratings.level)
        thresholds = for_all_levels(problem.split(best.x)[3], used, ratings.n_levels)
        theta = np.concatenate([found["weights"], found["class_costs"][problem.features.triangle]])
        return Completion(**found, solution=replace(solution, theta=theta), thresholds=thresholds)

    def _solution(self, best: Any, problem: LatentLikelihood) -> Solution:
        """Return how the solver ended, and warn if it did not converge."""
        residual = float(np.max(np.abs(best.x - np.maximum(best.x - best.jac, problem.lower))))
        converged = residual <= self.tol
        message = f"best of {self.n_starts} starts, residual {residual:.1e}"
        warn_unless(converged, "LatentFeatures", message)
        value, n_iter = float(best.fun), int(best.nit)
        return Solution(best.x, value, None, residual, n_iter, converged, message)

    def _handed_over(
        self, v: Floats, problem: LatentLikelihood, ratings: Ratings
    ) -> dict[str, Any]:
        """Return the parts of the distance, by their names in ``Completion``; keeps ``z_``."""
        r, common, z, _ = problem.split(v)
        centred = z - z.mean(axis=0)
        self.z_ = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
        variances = problem.variances(v)
        if not self.from_features:
            Q, b = expected_costs(z, variances, problem.features.u, ratings)
            return {"weights": r, "class_costs": Q + common, "profiles": b}
        # a new object's z varies as that of an unrated one; b = 0 for those, as everywhere
        prior = self.n_features / self.ridge
        rated = rated_rows(ratings, len(z))[:, None]
        return {
            "weights": r,
            "class_costs": common + 2.0 * prior,
            "profiles": np.outer(variances - prior, np.ones(len(common))),
            "unmeasured": np.where(rated, z, problem.predicted(v)),
            "completion": problem.completion(v),
        }


def expected_costs(
    z: Floats, variances: Floats, u: Floats, ratings: Ratings
) -> tuple[Floats, Floats]:
    """Return Q (M, M) and profiles b (n, M) that a new object sees: ``u . (Q u_j + b_j)``.

    The new object's z is that of a random member of its class, so the expected distance to j is
    ``B[c, j] = mean over i in class c of |z_i - z_j|^2 + v_i, plus v_j``, v being the variances
    of z. Q is the mean of B over the members of a class, and b what is left for a rated object.
    """
    share = u / u.sum(axis=0)  # (n, M)
    own = np.sum(z * z, axis=1) + variances  # E |z_i|^2 about the origin  (n,)
    B = (share.T @ own)[:, None] - 2.0 * (share.T @ z) @ z.T + own  # (M, n)
    Q = B @ share
    Q = np.maximum(0.5 * (Q + Q.T), 0.0)
    return Q, np.where(rated_rows(ratings, len(u))[:, None], B.T - u @ Q, 0.0)


class LatentLikelihood:
    """Mean negative log-likelihood in ``v = [t, q, increments of b, class means, deviations e]``.

    ``r = t / scale``, q is the common cost of two different classes, ``b = cumsum(increments)``
    and ``z = sources @ coefficients + e``, where sources (n, S) are u, so that the coefficients
    are class means, and perhaps the features. ``ridge / 2 * (|e|^2 + |coefficients|^2)`` stands
    beside the log-likelihood.
    """

    def __init__(
        self,
        features: PairFeatures,
        ratings: Ratings,
        n_latent: int,
        ridge: float,
        from_features: bool = False,
    ) -> None:
        merged = ratings.merged()
        levels, level = np.unique(merged.level, return_inverse=True)
        self.pairs = Pairs(merged.a, merged.b, level + 1, merged.weight)
        self.features = PairFeatures(features.x, features.u)
        self.sources = features.u
        if from_features:
            x = np.asarray(features.x, dtype=np.float64)
            spread = x.std(axis=0) * features.n_features**0.5
            self.per_spread = inverse(spread, spread > 0, np)
            self.sources = np.hstack([features.u, (x - x.mean(axis=0)) * self.per_spread])
        self.n_latent, self.ridge, self.n = n_latent, ridge, len(features.u)
        self.total = float(merged.weight.sum())
        self.share = np.bincount(level, merged.weight) / self.total
        self.K, self.P, self.M = features.n_features, len(levels) - 1, features.n_classes
        self.S = self.sources.shape[1]
        plain = PairFeatures(features.x)
        square = hessian_diagonal(plain, self.pairs, square_link, np.zeros(self.K))
        rms = np.sqrt(square / self.total)
        self.inverse_scale = inverse(rms, rms > 0, np)
        free = np.full((self.S + self.n) * n_latent, -np.inf)
        gaps = np.full(self.P - 1, SMALLEST_GAP)
        self.lower = np.concatenate([np.zeros(self.K + 1), [-np.inf], gaps, free])

    def start(self, rng: np.random.RandomState) -> Floats:
        """Return a random starting point: features alike, z small, thresholds by the levels."""
        below = np.cumsum(self.share)[:-1]
        b = np.log(below / (1.0 - below)) - 1.0
        coefficients = rng.normal(size=(self.S, self.n_latent))
        coefficients[self.M :] *= 0.1
        deviations = 0.1 * rng.normal(size=self.n * self.n_latent)
        gaps = np.maximum(np.diff(b), 1e-3)
        t = np.full(self.K + 1, 0.5 / self.K)
        return np.concatenate([t, b[:1], gaps, coefficients.ravel(), deviations])

    def split(self, v: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return r (K,), the common part of Q (M, M), z (n, J) and thresholds (P,)."""
        r, q, gaps, latent = self._parts(v)
        z = self.predicted(v) + latent.reshape(-1, self.n_latent)[self.S :]
        Q = q * (1.0 - np.eye(self.M))
        return r * self.inverse_scale, Q, z, np.cumsum(gaps)

    def _parts(self, v: Floats) -> list[Floats]:
        """Return t (K,), q (1,), increments (P,), and coefficients and deviations in one row."""
        return np.split(v, np.cumsum([self.K, 1, self.P]))

    def completion(self, v: Floats) -> Floats:
        """Return C of ``z = [u, x - mean] @ C`` for an object that has no ratings  (M + K, J)."""
        C = self._coefficients(v).copy()
        C[self.M :] *= self.per_spread[:, None]
        return C

    def predicted(self, v: Floats) -> Floats:
        """Return what z would be of each object without its ratings  (n, J)."""
        z: Floats = self.sources @ self._coefficients(v)
        return z

    def _coefficients(self, v: Floats) -> Floats:
        return self._parts(v)[3].reshape(-1, self.n_latent)[: self.S]

    def _sum(self, v: Floats, part: Callable[[Block, Pairs, Floats, Terms], Any]) -> Any:
        """Sum ``part`` of the difference in z and of the link's terms over blocks of pairs."""
        r, Q, z, b = self.split(v)
        link = OrderedLogitLink(b, self.features.xp)

        def of_block(block: Block, pairs: Pairs) -> Any:
            difference = z[pairs.a] - z[pairs.b]  # (n, J)
            d2 = block.d2(r, Q) + np.sum(difference * difference, axis=1)
            return part(block, pairs, difference, link(d2, pairs))

        return sum_over_blocks(self.features, self.pairs, of_block, self.n_latent)

    def _scattered(self, rows: Integers, values: Floats) -> Floats:
        """Return the sums of values (n_pairs, D) by object  (n, D)."""
        D = values.shape[1]
        at = rows[:, None] * D + np.arange(D)
        sums = np.bincount(at.ravel(), values.ravel(), self.n * D)
        return sums.reshape(self.n, D).astype(np.float64, copy=False)

    def __call__(self, v: Floats) -> tuple[float, Floats]:
        """Return value and gradient."""
        K, (c, d) = self.K, self.features.triangle

        def part(block: Block, pairs: Pairs, difference: Floats, terms: Terms) -> Any:
            # d |z_a - z_b|^2 = 2 (z_a - z_b) . (dz_a - dz_b)
            push = 2.0 * terms.first[:, None] * difference
            dz = self._scattered(pairs.a, push) - self._scattered(pairs.b, push)
            return terms.value, block.transpose(terms.first), terms.own, dz

        value, in_theta, own, dz = self._sum(v, part)
        in_r, in_q = in_theta[:K], in_theta[K:][c != d].sum(keepdims=True)
        _, _, increments, latent = self._parts(v)
        gaps, share = increments[1:], self.share[1:-1]
        # the last term of -log P: log(1 - exp(-gap)) of each inner level, times its share
        room = -np.expm1(-gaps)
        value = float(value) - self.total * float(share @ np.log(room))
        own = np.cumsum(own[::-1])[::-1].copy()  # the transpose of cumsum sums from the end
        own[1:] -= self.total * share * np.exp(-gaps) / room
        in_z = np.concatenate([(self.sources.T @ dz).ravel(), dz.ravel()]) + self.ridge * latent
        gradient = np.concatenate([in_r * self.inverse_scale, in_q, own, in_z])
        value += 0.5 * self.ridge * float(latent @ latent)
        return value / self.total, gradient / self.total

    def variances(self, v: Floats) -> Floats:
        """Return the posterior variance of each z_i, summed over its dimensions  (n,).

        Laplace's approximation, each object by itself: the trace of the inverse of
        ``H_i = ridge I + sum over pairs of i of 4 h d d' + 2 max(g, 0) I`` with d = z_i - z_j and
        g, h the link's derivatives. An unrated object has its prior's, J / ridge.
        """
        J = self.n_latent

        def part(block: Block, pairs: Pairs, difference: Floats, terms: Terms) -> Any:
            outer = difference[:, :, None] * difference[:, None, :]
            H = 4.0 * terms.second[:, None, None] * outer
            H += 2.0 * np.maximum(terms.first, 0.0)[:, None, None] * np.eye(J)
            H = H.reshape(-1, J * J)
            return (self._scattered(pairs.a, H) + self._scattered(pairs.b, H),)

        (H,) = self._sum(v, part)
        inverse_H = np.linalg.inv(H.reshape(self.n, J, J) + self.ridge * np.eye(J))
        variances: Floats = np.trace(inverse_H, axis1=1, axis2=2)
        return variances
