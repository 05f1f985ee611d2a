"""The softmax over a labelled set: NCA's model and the kernel density classifier's posterior.

Written out, ``P(c) p(x | c)`` of section 3.4 is NCA's sum of ``exp(-d2_w)`` over the class
(equation 2), so both are one model. Everything stays in logs: far from all data the answer is
still a finite posterior.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from nearkin.passes import in_threads, single_blas

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK_ELEMENTS = 2**20
MAX_CHUNKS = 16  # fixed, so that sums do not depend on the number of cores
SAFE_LOGIT, LOWEST_LOGIT = -500.0, -700.0  # far from underflow, and just above it


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
    """

    def __init__(self, x: Floats, codes: Integers) -> None:
        order = np.argsort(codes, kind="stable")
        x = x - x.mean(axis=0)
        self.x, codes = np.ascontiguousarray(x[order]), codes[order]
        n = len(codes)
        edges = [0, *np.flatnonzero(np.diff(codes) != 0) + 1, n]
        spans = list(pairwise(edges))
        self.n_alone = sum(high - low == 1 for low, high in spans)
        self.n_counted = n - self.n_alone
        largest = max(high - low for low, high in spans)
        rows = self.rows = max(1, min(BLOCK_ELEMENTS // n, largest))
        self.workspaces: SimpleQueue[Floats] = SimpleQueue()
        self.blocks = [
            (start, min(start + rows, high), low, high)
            for low, high in spans
            if high - low > 1
            for start in range(low, high, rows)
        ]

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        """Return sum_i log P(c_i | x_i, all but i) and its gradient (K,)."""
        work = self.n_counted * len(self.x)
        n_chunks = min(MAX_CHUNKS, len(self.blocks), -(-work // BLOCK_ELEMENTS))

        left, right = _negative_distance_factors(self.x[:, w > 0], w[w > 0])
        right = np.ascontiguousarray(right.T)

        def chunk(k: int) -> tuple[float, Floats]:
            mine = self.blocks[k::n_chunks]
            with self._workspace() as space:
                parts = (self._block(left, right, space, *block) for block in mine)
                return reduce(_plus, parts)

        with single_blas():
            return reduce(_plus, in_threads(chunk, n_chunks))

    @contextmanager
    def _workspace(self) -> Iterator[Floats]:
        """Lend an array that outlives the block: fresh pages for each cost more than its sums."""
        try:
            space = self.workspaces.get_nowait()
        except Empty:
            space = np.empty((self.rows, len(self.x)))
        yield space
        self.workspaces.put(space)

    def _block(
        self,
        left: Floats,
        right: Floats,
        space: Floats,
        start: int,
        stop: int,
        low: int,
        high: int,
    ) -> tuple[float, Floats]:
        """Rows start..stop, whose class is the rows low..high."""
        x, everyone, own = self.x[start:stop], self.x, self.x[low:high]
        logits = np.matmul(left[start:stop], right, out=space[: stop - start])  # -d2  (rows, n)
        logits[np.arange(stop - start), np.arange(start, stop)] = -np.inf
        q, t, log_t = _exponentials(logits[:, low:high].copy())
        p, s, log_s = _exponentials(logits)
        # d/dd2_ij log P_i = p_ij / s_i - q_ij / t_i = W_ij, whose rows sum to 0, so
        # sum_ij W_ij (x_ik - x_jk)^2 = sum_j (sum_i W_ij) x_jk^2 - 2 sum_i x_ik (W x)_ik   (K,)
        gradient = (1.0 / s) @ p @ (everyone * everyone) - (1.0 / t) @ q @ (own * own)
        gradient -= 2.0 * np.sum(x * ((p @ everyone) / s[:, None] - (q @ own) / t[:, None]), axis=0)
        return float(np.sum(log_t - log_s)), gradient


def _negative_distance_factors(x: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return A, B with ``A @ B.T = -d2``: one product, nothing to add  (n, K + 2) each."""
    wx = x * w
    norm, ones = np.sum(wx * x, axis=1, keepdims=True), np.ones((len(x), 1))
    return np.hstack([2.0 * wx, -norm, -ones]), np.hstack([x, ones, norm])


def _exponentials(logits: Floats) -> tuple[Floats, Floats, Floats]:
    """Return exp(logits) up to a factor for each row, the sums of rows, and the true sums' logs.

    Overwrites its argument. Only rows that might vanish are shifted.
    """
    top = logits.max(axis=1)
    shift = np.where(top < SAFE_LOGIT, top, 0.0)
    if shift.any():
        logits -= shift[:, None]
    # subnormal numbers would slow every product that follows
    np.maximum(logits, LOWEST_LOGIT, out=logits)
    e: Floats = np.exp(logits, out=logits)
    total: Floats = e.sum(axis=1)
    return e, total, np.log(total) + shift


def _plus(left: tuple[float, Floats], right: tuple[float, Floats]) -> tuple[float, Floats]:
    return left[0] + right[0], left[1] + right[1]
