"""The softmax over a labelled set: NCA's model and the kernel density classifier's posterior.

Written out, ``P(c) p(x | c)`` of section 3.4 is NCA's sum of ``exp(-d2_w)`` over the class
(equation 2), so both are one model. Everything stays in logs: far from all data the answer is
still a finite posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from nearkin.passes import in_threads, single_blas

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Factors = tuple[Floats, Floats]  # A, B with A @ B.T = -d2

BLOCK_ELEMENTS = 2**20
BLOCK_ROWS = 320  # a block of 320 x 320 stays in cache
MAX_CHUNKS = 16  # fixed, so that sums do not depend on the number of cores
LOWEST_LOGIT, LOWEST_SUM = -700.0, 1e-200  # just above underflow, and far from it


def squared_distances(A: Floats, B: Floats, w: Floats) -> Floats:
    """Return ``sum_k w_k (a_k - b_k)^2`` for all rows of A and B  (n_a, n_b)."""
    wA = A * w
    d2: Floats = np.sum(wA * A, axis=1)[:, None] + np.sum(w * B * B, axis=1) - 2.0 * (wA @ B.T)
    np.maximum(d2, 0.0, out=d2)
    return d2


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """Posterior over classes by Gaussian kernels on labelled objects.

    Parameters
    ----------
    x : ndarray, shape (n, K)
        Features of the labelled objects.
    codes : ndarray of int, shape (n,)
        Class of each, 0..n_classes-1.
    n_classes : int
        M.
    weights : ndarray, shape (K,)
        Kernel weights w.
    """

    x: Floats
    codes: Integers
    n_classes: int
    weights: Floats

    def log_proba(self, X: Floats) -> Floats:
        """Return log P(c | x) for each row of X  (n, M)."""
        center = self.x.mean(axis=0)
        x, X = self.x - center, np.asarray(X, dtype=np.float64) - center
        order = np.argsort(self.codes, kind="stable")
        members = np.split(order, np.searchsorted(self.codes[order], range(1, self.n_classes)))
        out = np.empty((len(X), self.n_classes))
        rows = max(1, BLOCK_ELEMENTS // len(x))
        for start in range(0, len(X), rows):
            d2 = squared_distances(X[start : start + rows], x, self.weights)
            for c, own in enumerate(members):
                # log P(c) p(x|c) up to a constant = log sum over class c of exp(-d2)
                out[start : start + rows, c] = logsumexp(-d2[:, own], axis=1)
        # Eq. 2 (and Bayes' rule, section 3.4): divide by the sum over all classes
        log_proba: Floats = out - logsumexp(out, axis=1, keepdims=True)
        return log_proba

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file needs to restore this posterior exactly."""
        return {"x": self.x, "codes": self.codes, "weights": self.weights}

    @classmethod
    def restored(
        cls, n_classes: int, x: Floats, codes: Integers, weights: Floats
    ) -> KernelPosterior:
        """Return the posterior that ``arrays`` described, if they fit together."""
        if x.ndim != 2 or codes.shape != x.shape[:1] or weights.shape != x.shape[1:]:
            raise ValueError("the classifier's arrays do not fit together")
        if len(x) == 0 or codes.min() < 0 or codes.max() >= n_classes or (weights < 0).any():
            raise ValueError("the classifier's codes or weights are out of range")
        return cls(x, codes, n_classes, weights)

    def predict_proba(self, X: Floats) -> Floats:
        """Return P(c | x) for each row of X  (n, M)."""
        return np.exp(self.log_proba(X))


class LeaveOneOut:
    """Equation 3: the leave-one-out log-likelihood of the labels, and its gradient in w.

    Objects alone in their class have no partner to be predicted from. They are left out of the
    sum (``n_alone`` says how many) but still compete in the denominators.

    The kernel is symmetric, so only pairs i < j are formed, twice: once for the sums of each row,
    once, weighted by them, for the gradient. Nothing of size n x n is kept.
    """

    def __init__(self, x: Floats, codes: Integers) -> None:
        order = np.argsort(codes, kind="stable")
        x = x - x.mean(axis=0)
        self.x, self.codes = np.ascontiguousarray(x[order]), codes[order]
        self.squares = self.x * self.x
        n = len(codes)
        self.partnered = np.bincount(codes)[self.codes] > 1
        self.n_counted = int(self.partnered.sum())
        self.n_alone = n - self.n_counted
        spans = [slice(start, min(start + BLOCK_ROWS, n)) for start in range(0, n, BLOCK_ROWS)]
        self.blocks = [(i, j) for at, i in enumerate(spans) for j in spans[at:]]

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        """Return sum_i log P(c_i | x_i, all but i) and its gradient (K,)."""
        factors = _negative_distance_factors(self.x[:, w > 0], w[w > 0])
        with single_blas():
            s, t = self._sum(lambda i, j: self._row_sums(factors, i, j))
            # rows whose sums a double cannot hold are done again in logs
            far = np.flatnonzero(self.partnered & (np.minimum(s, t) < LOWEST_SUM))
            near = self.partnered.copy()
            near[far] = False
            a, b = (_reciprocal(sums, near) for sums in (s, t))
            (gradient,) = self._sum(lambda i, j: (self._pull(factors, a, b, i, j),))
            value = float(np.sum(np.log(t[near]) - np.log(s[near])))
            for start in range(0, len(far), BLOCK_ROWS):
                more = self._in_logs(factors, far[start : start + BLOCK_ROWS])
                value, gradient = value + more[0], gradient + more[1]
        return value, gradient

    def _sum(self, part: Callable[[slice, slice], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        """Add ``part`` up over all pairs of blocks, in a fixed order, by all cores."""
        n_chunks = min(MAX_CHUNKS, len(self.blocks))

        def chunk(k: int) -> tuple[Floats, ...]:
            return reduce(_plus, (part(i, j) for i, j in self.blocks[k::n_chunks]))

        return reduce(_plus, in_threads(chunk, n_chunks))

    def _kernel(self, factors: Factors, i: slice, j: slice) -> tuple[Floats, Floats | None]:
        """Return exp(-d2) and the part of it within a class, None if there is none."""
        left, right = factors
        norms = right[:, -1]
        E: Floats = np.matmul(left[i], right[j].T)
        if 4.0 * max(norms[i].max(), norms[j].max()) > -LOWEST_LOGIT:
            # subnormal numbers would slow every product that follows
            np.maximum(E, LOWEST_LOGIT, out=E)
        np.exp(E, out=E)
        if i == j:
            np.fill_diagonal(E, 0.0)
        own = None
        if self.codes[i.stop - 1] >= self.codes[j.start]:  # sorted: else no class is in both
            own = E * (self.codes[i, None] == self.codes[j])
        return E, own

    def _row_sums(self, factors: Factors, i: slice, j: slice) -> tuple[Floats, ...]:
        """Return what a block adds to s_i = sum_j exp(-d2_ij), and to t_i, its own class's part."""
        sums, ones = np.zeros((2, len(self.x))), np.ones(BLOCK_ROWS)
        for total, kernel in zip(sums, self._kernel(factors, i, j), strict=True):
            if kernel is not None:
                total[i] += kernel @ ones[: kernel.shape[1]]
                if i != j:
                    total[j] += ones[: len(kernel)] @ kernel
        return sums[0], sums[1]

    def _pull(self, factors: Factors, a: Floats, b: Floats, i: slice, j: slice) -> Floats:
        """Return what a block adds to the gradient, with a = 1/s and b = 1/t  (K,)."""
        V, own = self._kernel(factors, i, j)
        # d/dd2_ij of the sum = E_ij / s_i - [own class] E_ij / t_i, and the same from j's side
        V *= _outer_sum(a[i], a[j])
        if own is not None:
            own *= _outer_sum(b[i], b[j])
            V -= own
        if i == j:
            V *= 0.5  # each pair stands there twice
        return self._weighted_squares(V, i, j)

    def _in_logs(self, factors: Factors, rows: Integers) -> tuple[float, Floats]:
        """Return value and gradient of some rows, whatever their distances from all others."""
        left, right = factors
        logits = left[rows] @ right.T  # -d2  (rows, n)
        logits[np.arange(len(rows)), rows] = -np.inf
        own = np.where(self.codes[rows, None] == self.codes, logits, -np.inf)
        log_s, log_t = (logsumexp(part, axis=1) for part in (logits, own))
        V = np.exp(logits - log_s[:, None]) - np.exp(own - log_t[:, None])
        return float(np.sum(log_t - log_s)), self._weighted_squares(V, rows, slice(None))

    def _weighted_squares(self, V: Floats, i: Any, j: Any) -> Floats:
        """Return ``sum_ij V_ij (x_ik - x_jk)^2`` for all k without forming differences  (K,)."""
        # = sum_i (sum_j V_ij) x_ik^2 + sum_j (sum_i V_ij) x_jk^2 - 2 sum_i x_ik (V x)_ik
        rows, columns = V @ np.ones(V.shape[1]), np.ones(V.shape[0]) @ V
        total: Floats = rows @ self.squares[i] + columns @ self.squares[j]
        total -= 2.0 * np.sum(self.x[i] * (V @ self.x[j]), axis=0)
        return total


def _outer_sum(a: Floats, b: Floats) -> Floats:
    """Return a_i + b_j; as a product it is several times faster than by broadcasting."""
    left, right = np.ones((len(a), 2)), np.ones((2, len(b)))
    left[:, 0], right[1] = a, b
    return left @ right


def _negative_distance_factors(x: Floats, w: Floats) -> Factors:
    """Return A, B with ``A @ B.T = -d2``: one product, nothing to add  (n, K + 2) each."""
    wx = x * w
    norm, ones = np.sum(wx * x, axis=1, keepdims=True), np.ones((len(x), 1))
    return np.hstack([2.0 * wx, -norm, -ones]), np.hstack([x, ones, norm])


def _reciprocal(sums: Floats, where: NDArray[np.bool_]) -> Floats:
    return np.divide(1.0, sums, out=np.zeros_like(sums), where=where)


def _plus(left: tuple[Floats, ...], right: tuple[Floats, ...]) -> tuple[Floats, ...]:
    return tuple(x + y for x, y in zip(left, right, strict=True))
