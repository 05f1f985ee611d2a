"""Other libraries' learners, called as nearkin's: ``fit(X, y, ratings)``, ``metric_``, ``points_``.

So the same protocols score them. Each gets what it can use: labels; pairs rated similar (+1) or
dissimilar (-1); quadruplets, of a pair that is rated more similar than another; or dissimilarities.
Each learns a map of features to a space with the Euclidean distance. Constructor defaults hold
unless a row or a comment says otherwise.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.linear_model import RidgeCV
from sklearn.manifold import smacof

from nearkin.data import UNLABELLED, encode_labels

PAIRS_AT_MOST = 1_000  # of ITML and full MMC, which take seconds for that many
QUADRUPLETS = 2_000


class Embedded:
    """The Euclidean distance after a map of features, in the place of ``nearkin.Metric``."""

    def __init__(self, embed):
        self.embed = embed

    def points(self, X):
        found = np.asarray(self.embed(X), dtype=np.float64)
        if not np.isfinite(found).all():
            raise ValueError("the learned map gives NaN or infinity")
        return found

    def distances(self, queries, points):
        return cdist(queries, points)


class Peer(BaseEstimator):
    """What the adapters share: ``make()`` returns the peer's own estimator.

    It is made anew for each fit: metric-learn 0.7.0 changes what its constructors are given, which
    scikit-learn's ``clone`` refuses.
    """

    def __init__(self, make, *, cap=None, seed=0):
        self.make = make
        self.cap = cap
        self.seed = seed

    def fit(self, X, y=None, ratings=None):
        self.model_ = self.make()
        self.learn(X, y, ratings)
        self.metric_ = Embedded(self.model_.transform)
        self.points_ = self.metric_.points(X)
        return self


class LabelPeer(Peer):
    """A learner from class labels; more neighbours than a class has members are not asked for."""

    def learn(self, X, y, ratings):
        codes, _ = encode_labels(y, len(X))
        known = codes != UNLABELLED
        if hasattr(self.model_, "n_neighbors"):
            smallest = int(np.unique(codes[known], return_counts=True)[1].min())
            self.model_.n_neighbors = max(1, min(self.model_.n_neighbors, smallest - 1))
        self.model_.fit(X[known], codes[known])


class PairPeer(Peer):
    """A learner from pairs that are similar (+1) or dissimilar (-1)."""

    def learn(self, X, y, ratings):
        a, b, sign = signed_pairs(ratings, self.cap, self.seed)
        self.learn_pairs(np.stack([X[a], X[b]], axis=1), sign)

    def learn_pairs(self, pairs, sign):
        self.model_.fit(pairs, sign)


class RepairedSDML(PairPeer):
    """SDML, without an argument that scikit-learn has dropped, and as strong as it can be solved.

    Its matrix ``I + balance_param * S`` grows with the number of pairs and is soon indefinite, so
    ``balance_param`` is lowered until it is not, and further while the graphical lasso fails.
    """

    def learn_pairs(self, pairs, sign):
        import metric_learn.sdml
        from sklearn.covariance import graphical_lasso

        def without_start(covariance, alpha, verbose=False, cov_init=None):
            return graphical_lasso(covariance, alpha, verbose=verbose)

        metric_learn.sdml.graphical_lasso = without_start
        try:
            self.lower_until_solved(pairs, sign)
        finally:
            metric_learn.sdml.graphical_lasso = graphical_lasso

    def lower_until_solved(self, pairs, sign, steps=5):
        difference = pairs[:, 0] - pairs[:, 1]
        lowest = np.linalg.eigvalsh((difference.T * sign) @ difference)[0]  # of S
        largest = min(self.model_.balance_param, 0.5 / max(-lowest, 1e-12))
        for step in range(steps):
            self.model_.balance_param = largest / 4**step
            try:
                self.model_.fit(pairs, sign)
            except RuntimeError:
                if step == steps - 1:
                    raise
            else:
                return


class QuadrupletPeer(Peer):
    """A learner from quadruplets ``(a, b, c, d)``: a and b are nearer than c and d."""

    def learn(self, X, y, ratings):
        self.model_.fit(X[quadruplets(ratings, self.cap, self.seed)])


class ScalingPeer(BaseEstimator):
    """Multidimensional scaling of the ratings, and a ridge regression from features to its space.

    The dissimilarity of a pair is ``n_levels + 1 - its mean level``. A rated object stands where
    scaling put it, any other one where the regression does.
    """

    def __init__(self, *, n_components=8, n_iter=300, seed=0):
        self.n_components = n_components
        self.n_iter = n_iter
        self.seed = seed

    def fit(self, X, y=None, ratings=None):
        a, b, level = mean_levels(ratings)
        target = np.full((len(X), len(X)), np.nan)
        target[a, b] = target[b, a] = ratings.n_levels + 1 - level
        rated = ~np.isnan(target).all(axis=1)
        Z = self.scaled(target[np.ix_(rated, rated)])
        self.regression_ = RidgeCV(np.logspace(-2, 4, 13)).fit(X[rated], Z)
        self.metric_ = Embedded(self.regression_.predict)
        self.points_ = self.metric_.points(X)
        self.points_[rated] = Z
        return self

    def scaled(self, target):
        """Return the place of each object; NaN in ``target`` where a pair has no rating."""
        known = ~np.isnan(target)
        filled = np.where(known, target, np.nanmean(target))
        np.fill_diagonal(filled, 0.0)
        Z, _ = smacof(
            filled,
            n_components=self.n_components,
            n_init=4,
            normalized_stress=False,
            random_state=self.seed,
        )
        return majorised(Z, target, known, self.n_iter)


def majorised(Z, target, known, n_iter):
    """Return Z after steps that lower the stress of the known pairs alone.

    SMACOF for weights 0 and 1: a pair that is not known is given the distance that it has.
    """
    for _ in range(n_iter):
        d = cdist(Z, Z)
        # Z <- B Z / n,  B_ij = -target_ij / d_ij, rows of B summing to 0  (n, n)
        B = -np.where(known & (d > 0), target / np.where(d > 0, d, 1.0), d > 0)
        np.fill_diagonal(B, 0.0)
        np.fill_diagonal(B, -B.sum(axis=1))
        Z = B @ Z / len(Z)
    return Z


def mean_levels(ratings):
    """Return each rated pair once: its ends ``a < b`` and its mean level."""
    pairs = ratings.merged()
    (a, b), at = np.unique([pairs.a, pairs.b], axis=1, return_inverse=True)
    at = at.ravel()
    level = np.bincount(at, pairs.weight * pairs.level) / np.bincount(at, pairs.weight)
    return a, b, level


def signed_pairs(ratings, cap=None, seed=0):
    """Return pairs whose mean level is nearest to the highest (+1) or to the lowest (-1)."""
    a, b, level = mean_levels(ratings)
    sign = np.where(level > ratings.n_levels - 0.5, 1, np.where(level < 1.5, -1, 0))
    used = np.flatnonzero(sign)
    if cap is not None and len(used) > cap:
        used = np.sort(np.random.default_rng(seed).choice(used, cap, replace=False))
    return a[used], b[used], sign[used]


def quadruplets(ratings, n, seed=0):
    """Return up to n random quadruplets (n, 4): the first pair's mean level is the higher one."""
    a, b, level = mean_levels(ratings)
    first, second = np.random.default_rng(seed).integers(0, len(a), (2, 4 * n))
    lower = level[first] < level[second]
    first, second = np.where(lower, second, first), np.where(lower, first, second)
    differ = np.flatnonzero(level[first] > level[second])[:n]
    first, second = first[differ], second[differ]
    return np.column_stack([a[first], b[first], a[second], b[second]])


def peer_methods(seed=0):
    """Return the peers by name, and what each learns from."""
    import metric_learn as ml
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    seeded, few = {"random_state": seed}, {"cap": PAIRS_AT_MOST, "seed": seed}
    many = {"cap": QUADRUPLETS, "seed": seed}
    return {
        "metric-learn RCA": (LabelPeer(ml.RCA), "labels"),
        "metric-learn LMNN": (LabelPeer(partial(ml.LMNN, **seeded)), "labels"),
        "metric-learn NCA": (LabelPeer(partial(ml.NCA, **seeded)), "labels"),
        "scikit-learn NCA": (
            LabelPeer(partial(NeighborhoodComponentsAnalysis, **seeded)),
            "labels",
        ),
        "metric-learn ITML": (PairPeer(partial(ml.ITML, **seeded), **few), "ratings"),
        "metric-learn MMC, diagonal": (PairPeer(partial(ml.MMC, diagonal=True)), "ratings"),
        "metric-learn MMC, full": (PairPeer(partial(ml.MMC, **seeded), **few), "ratings"),
        "metric-learn SDML": (PairPeer(partial(ml.SDML, **seeded)), "ratings"),
        "metric-learn SDML, repaired": (RepairedSDML(partial(ml.SDML, **seeded)), "ratings"),
        "metric-learn LSML": (QuadrupletPeer(partial(ml.LSML, **seeded), **many), "ratings"),
        "MDS and ridge regression": (ScalingPeer(seed=seed), "ratings"),
    }
