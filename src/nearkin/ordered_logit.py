"""OR's objective: the ordered logit of section 3.1, with d2 in the place of a linear predictor.

Columns are scaled by the data and the thresholds are sums of increments, so units change nothing
and the order of the thresholds cannot break.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from array_api_compat import device

from nearkin.data import Pairs
from nearkin.objectives import Evaluation, diagonal, inverse, kkt_residual, square_link
from nearkin.pairs import Array, PairFeatures
from nearkin.passes import Terms, accumulate, hessian_diagonal, hessian_product


def logistic(x: Array, xp: Any) -> tuple[Array, Array, Array]:
    """Return ``-log S(x)``, ``S(x)`` and ``S(-x)`` of the logistic function, none overflowing."""
    e = xp.exp(-xp.abs(x))
    large, small = 1.0 / (1.0 + e), e / (1.0 + e)
    up = x >= 0
    miss = xp.log1p(e) + xp.where(up, 0.0, -x)
    return miss, xp.where(up, large, small), xp.where(up, small, large)


class OrderedLogitLink:
    """Negative log-likelihood of ordinal regression, section 3.1, for any number of levels.

    With ``eta_v = d2 + b_v`` (b_0 = -inf, b_L = inf) and S the logistic function,
    ``P(sigma = v) = S(eta_v) - S(eta_{v-1})`` and

        -log P = softplus(-eta_v) + softplus(eta_{v-1}) - log(1 - exp(-(b_v - b_{v-1})))

    The last term does not depend on d2; the objective adds it. ``count`` is the number of pairs
    on the wrong side of one of their thresholds: at 0 the data are separable.
    """

    def __init__(self, thresholds: Array, xp: Any) -> None:
        self.xp = xp
        self.thresholds = thresholds
        inf = xp.full_like(thresholds[:1], xp.inf)
        self.edges = xp.concat([-inf, thresholds, inf])

    def __call__(self, d2: Array, pairs: Pairs) -> Terms:
        """Return the terms of a block of pairs."""
        xp, w = self.xp, pairs.weight
        upper = d2 + xp.take(self.edges, pairs.level, axis=0)  # eta_sigma      (n,)
        lower = d2 + xp.take(self.edges, pairs.level - 1, axis=0)  # eta_{sigma-1}  (n,)
        miss_upper, S_upper, not_upper = logistic(upper, xp)
        miss_lower, S_lower, not_lower = logistic(-lower, xp)
        g_upper, g_lower = -w * not_upper, w * not_lower
        h_upper, h_lower = w * S_upper * not_upper, w * S_lower * not_lower
        v = xp.arange(1, self.thresholds.shape[0] + 1, device=device(d2))
        is_upper = xp.astype(v[:, None] == pairs.level, xp.float64)  # (P, n)
        is_lower = xp.astype(v[:, None] + 1 == pairs.level, xp.float64)
        cross = h_upper * is_upper + h_lower * is_lower
        wrong = (upper <= 0) | (lower >= 0)
        return Terms(
            value=xp.sum(w * (miss_upper + miss_lower)),
            first=g_upper + g_lower,
            second=h_upper + h_lower,
            own=is_upper @ g_upper + is_lower @ g_lower,
            own_second=diagonal(xp.sum(cross, axis=1), xp),
            cross=cross,
            count=xp.sum(xp.astype(wrong, xp.int64)),
        )


class OrderedLogit:
    """Ordinal regression in scaled coefficients and increments of the thresholds.

    z is ``[t, c]`` with ``theta = t / scale`` (scale = root mean square of phi over the rated
    pairs) and ``b = cumsum(c)``: c_1 is free, the other increments are non-negative, so the order
    of the thresholds cannot break. Values are per unit of weight. Levels that nobody used get no
    threshold of their own.
    """

    certified = False

    def __init__(
        self,
        features: PairFeatures,
        pairs: Pairs,
        ridge: float = 0.0,
        feature_ridge: float = 0.0,
    ) -> None:
        xp = self.xp = features.xp
        self.features = features
        levels = xp.unique_values(pairs.level)
        self.levels = np.asarray([int(v) for v in levels])
        self.pairs = pairs._replace(level=xp.searchsorted(levels, pairs.level) + 1)
        self.total = float(xp.sum(pairs.weight))
        self.ridge = ridge
        self.share = features.floats(
            [
                float(xp.sum(xp.where(self.pairs.level == v, pairs.weight, 0.0))) / self.total
                for v in range(1, len(self.levels) + 1)
            ]
        )
        square = hessian_diagonal(features, pairs, square_link, features.zeros(features.n_columns))
        scale = xp.sqrt(square / self.total)
        self.inverse_scale = inverse(scale, scale > 0, xp)
        self.penalty, self.common = self._shrinkage(scale > 0, feature_ridge)
        p, P = features.n_columns, len(self.levels) - 1
        self.lower = xp.concat([features.lower, features.zeros(P)])
        self.lower[p] = -xp.inf
        # d2 is about 1 at the start, and the thresholds then match the shares of the levels
        below = xp.cumulative_sum(self.share)[:-1]
        b = xp.log(below / (1.0 - below)) - 1.0
        used = xp.astype((scale > 0) & (features.lower == 0), xp.float64)
        t = used / max(float(xp.sum(used)), 1.0)
        self.start = xp.concat([t, b[:1], b[1:] - b[:-1]])

    def _shrinkage(self, used: Array, feature_ridge: float) -> tuple[Array, Array]:
        """Return D (p,) and C (2, p) of the penalty ``t . (diag(D) - C^T C) t / 2``.

        Per unit of weight. A group of columns is shrunk to its own mean: ``diag(1) - 1 1^T / n``
        of n columns, features in units of t, costs of class pairs in their own.
        """
        xp, features, used = self.xp, self.features, self.xp.astype(used, self.xp.float64)
        ridge, shared = features.shrinkage()
        is_feature = features.zeros(features.n_columns)
        is_feature[: features.n_features] = used[: features.n_features]
        groups = [(feature_ridge, is_feature, used)]
        groups.append((features.class_ridge, shared * used, self.inverse_scale))
        rows = [
            (weight / max(float(xp.sum(group)), 1.0)) ** 0.5 * group * unit
            for weight, group, unit in groups
        ]
        penalty = self.ridge + feature_ridge * is_feature + ridge * self.inverse_scale**2
        return penalty / self.total, xp.stack(rows) / self.total**0.5

    @property
    def n_pairs(self) -> int:
        """What a pass costs."""
        return int(self.pairs.a.shape[0])

    def thinned(self, stride: int) -> OrderedLogit:
        """Return the same objective on every stride-th pair, in the same coefficients."""
        few = copy(self)
        few.pairs = self.pairs.at(slice(None, None, stride))
        few.total = float(self.xp.sum(few.pairs.weight))
        return few

    def split(self, z: Array) -> tuple[Array, Array]:
        """Return theta (p,) and the thresholds b (P,)."""
        p = self.features.n_columns
        return z[:p] * self.inverse_scale, self.xp.cumulative_sum(z[p:])

    def name(self, k: int) -> str:
        """Return the name of coefficient k."""
        p = self.features.n_columns
        return self.features.name(k) if k < p else f"threshold {k - p + 1}"

    def evaluate(self, z: Array, *, hessian: bool = False) -> Evaluation:
        """Return value, gradient and perhaps Hessian at z."""
        xp, p = self.xp, self.features.n_columns
        theta, b = self.split(z)
        t, gaps, share = z[:p], z[p + 1 :], self.share[1:-1]
        if bool(xp.any(gaps <= 0)):  # a level that is used has probability 0
            return Evaluation(float("inf"), z, None, 1)
        sums = accumulate(
            self.features, self.pairs, OrderedLogitLink(b, xp), theta, hessian=hessian
        )
        # the last term of -log P: log(1 - exp(-gap)) of each inner level, times its share
        room = -xp.expm1(-gaps)
        value = float(sums.value) / self.total - float(xp.sum(share * xp.log(room)))
        shrunk = self._penalty_slope(t)
        value += 0.5 * float(xp.sum(t * shrunk))
        # db_v / dc_j = 1 for v >= j  (P, P)
        P = b.shape[0]
        chain = xp.tril(xp.ones((P, P), dtype=xp.float64, device=device(b)))
        slope = sums.gradient / self.total
        own = chain.T @ slope[p:]
        own = xp.concat([own[:1], own[1:] - share * xp.exp(-gaps) / room])
        gradient = xp.concat([slope[:p] * self.inverse_scale + shrunk, own])
        H = self._hessian(sums.hessian / self.total, chain, gaps) if hessian else None
        return Evaluation(value, gradient, H, int(sums.count))

    def curvature(self, z: Array) -> tuple[Callable[[Array], Array], Array]:
        """Return the product with the Hessian at z, as a function, and the Hessian's diagonal."""
        xp, p = self.xp, self.features.n_columns
        theta, b = self.split(z)
        link, own = OrderedLogitLink(b, xp), self._own_curvature(z[p + 1 :])

        def product(v: Array) -> Array:
            raw = xp.concat([v[:p] * self.inverse_scale, xp.cumulative_sum(v[p:])])
            Hv = hessian_product(self.features, self.pairs, link, theta, raw) / self.total
            # the transpose of cumsum sums from the end
            back = xp.flip(xp.cumulative_sum(xp.flip(Hv[p:])))
            lost = xp.concat([self.common.T @ (self.common @ v[:p]), xp.zeros_like(b)])
            return xp.concat([Hv[:p] * self.inverse_scale, back]) + own * v - lost

        diagonal = hessian_diagonal(self.features, self.pairs, link, theta) / self.total
        diagonal = diagonal * self.inverse_scale**2 - xp.sum(self.common * self.common, axis=0)
        return product, own + xp.concat([diagonal, xp.ones_like(b)])

    def _own_curvature(self, gaps: Array) -> Array:
        """Return the diagonal of the Hessian that no pair carries, C^T C left out  (p + P,)."""
        xp = self.xp
        of_gaps = self.share[1:-1] * xp.exp(-gaps) / xp.expm1(-gaps) ** 2
        return xp.concat([self.penalty, xp.zeros_like(self.share[:1]), of_gaps])

    def _hessian(self, H: Array, chain: Array, gaps: Array) -> Array:
        xp, p, scale = self.xp, self.features.n_columns, self.inverse_scale
        top = scale[:, None] * xp.concat([H[:p, :p] * scale, H[:p, p:] @ chain], axis=1)
        bottom = chain.T @ xp.concat([H[p:, :p] * scale, H[p:, p:] @ chain], axis=1)
        C = xp.concat([self.common, self.features.zeros(2, chain.shape[0])], axis=1)
        return xp.concat([top, bottom]) + diagonal(self._own_curvature(gaps), xp) - C.T @ C

    def _penalty_slope(self, t: Array) -> Array:
        return self.penalty * t - self.common.T @ (self.common @ t)

    def shortfall(self, z: Array, evaluation: Evaluation) -> float:
        """Return the KKT residual, in units of the mean log-likelihood."""
        return kkt_residual(z, evaluation.gradient, self.lower, self.xp)

    def trouble(self, evaluation: Evaluation) -> str:
        """Say so when the thresholds already separate the levels without error."""
        if self.ridge > 0 or evaluation.count > 0:
            return ""
        return (
            "the ratings are separable: the distance sorts them without error, so the likelihood "
            "has no maximum and the coefficients would grow for ever; set ridge= to a positive "
            "number"
        )
