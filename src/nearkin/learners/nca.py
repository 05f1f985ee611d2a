"""NCA: neighbourhood component analysis with one weight for each feature (section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from nearkin.data import UNLABELLED, Ratings, check_number, encode_labels
from nearkin.kernel import KernelPosterior, LeaveOneOut
from nearkin.learners.common import NearestTrained, names_of, provenance, read_features
from nearkin.metric import Metric
from nearkin.solvers import Solution, check_solver, lbfgsb, warn_unless

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PENALTIES = (1.0, 2.0, 4.0, 8.0, 16.0)  # appendix: lambda in {1, 2, 4, 8, 16}
VALIDATION_SHARE = 0.3


@dataclass(frozen=True)
class KernelFit:
    """Kernel weights learned from labels, and how."""

    weights: Floats
    solution: Solution
    penalty: float
    pooled: bool


class NCA(NearestTrained, BaseEstimator):
    """Weights that make each labelled object's class likely given its neighbours.

    ``max over r >= 0 of sum_i log P(c_i | x_i, all but i) - penalty * sum_k r_k var(x_k)``
    (equation 3 with the appendix's penalty; the variance makes it independent of feature
    units). Not convex: ``solution_`` reports a stationary point.

    Parameters
    ----------
    penalty : float, optional
        The appendix's lambda. By default it is chosen from {1, 2, 4, 8, 16} by the likelihood
        of a random 30 % of the labelled objects, then all of them are fitted.
    tol : float, default=1e-4
        Largest projected gradient of the mean log-likelihood.
    max_iter : int, default=500
        L-BFGS-B iterations at most.
    random_state : int, RandomState or None, default=None
        Makes the split for ``penalty`` repeatable.

    Attributes
    ----------
    metric_ : Metric
    solution_ : Solution
    points_ : Points
        The training objects: the database to search.
    penalty_ : float
        lambda as given or chosen.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> est = nk.NCA(penalty=1.0).fit(X, X[:, 0] > 0)
    >>> bool(est.metric_.weights[0] > 10 * est.metric_.weights[1])
    True
    """

    def __init__(
        self,
        *,
        penalty: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, ratings: Ratings | None = None) -> NCA:
        """Learn the distance from labels; ratings are not used.

        Parameters
        ----------
        X : array-like, shape (n_objects, K)
            Features.
        y : array-like, shape (n_objects,)
            Labels; None, NaN or -1 where unknown.
        ratings : ignored
            Present so that all methods are called alike.
        """
        x = read_features(self, X)
        codes, _ = labelled(y, len(x), "NCA")
        known = codes != UNLABELLED
        fit = fit_kernel(
            x[known].astype(np.float64),
            codes[known],
            caller="NCA",
            penalty=self.penalty,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        self.penalty_ = fit.penalty
        self.solution_ = fit.solution
        self.n_iter_ = fit.solution.n_iter
        self.metric_ = Metric(
            weights=fit.weights,
            center=x.mean(axis=0, dtype=np.float64),
            feature_names=names_of(self),
            provenance=provenance(self, fit.solution, len(x), 0),
        )
        self.points_ = self.metric_.points(x)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def labelled(y: ArrayLike | None, n: int, caller: str) -> tuple[Integers, NDArray[Any]]:
    """Return class codes and names, or an error if there is nothing to learn from them."""
    if y is None:
        raise ValueError(f"{caller} requires y to be passed, but the target y is None.")
    codes, classes = encode_labels(y, n)
    if len(classes) < 2:
        raise ValueError(
            f"{caller}: labels of two classes or more are needed; y has {len(classes)} class(es) "
            f"({classes.tolist()}) on {int((codes != UNLABELLED).sum())} of {n} objects; None, "
            "NaN and -1 mean unknown."
        )
    return codes, classes


def fit_kernel(
    x: Floats,
    codes: Integers,
    *,
    caller: str,
    penalty: float | None,
    tol: float,
    max_iter: int,
    random_state: Any,
    pooled: bool | None = False,
) -> KernelFit:
    """Learn kernel weights from labelled objects, choosing what is None."""
    if penalty is not None:
        check_number(caller, "penalty", penalty)
    check_solver(caller, tol, max_iter)
    # in units of the data's own spread; a constant feature tells no classes apart
    spread = x.std(axis=0)
    scale = np.where(spread > 1e-12 * np.abs(x).max(axis=0), spread, np.inf)
    z = (x - x.mean(axis=0)) / scale
    penalties = PENALTIES if penalty is None else (float(penalty),)
    rivals = [(value, False) for value in penalties] if not pooled else []
    rivals += [(0.0, True)] if pooled is not False else []
    penalty, pooled = choose_kernel(z, codes, rivals, tol, max_iter, random_state)
    w, solution, n_alone = maximise_likelihood(z, codes, penalty, tol, max_iter, pooled=pooled)
    if n_alone == len(codes):
        raise ValueError(
            f"{caller}: every class has one object only, so none has a neighbour of its own "
            "class; label more objects."
        )
    warn_unless(solution.converged, caller, solution.message)
    return KernelFit(w / scale**2, solution, penalty, pooled)


def maximise_likelihood(
    z: Floats,
    codes: Integers,
    penalty: float,
    tol: float,
    max_iter: int,
    *,
    pooled: bool = False,
    start: Any = None,
) -> tuple[Floats, Solution, int]:
    """Maximise equation 3 minus ``penalty * sum(w)`` over w >= 0, by L-BFGS-B.

    ``pooled`` gives all features one weight.
    """
    likelihood = LeaveOneOut(z, codes)
    n, K = max(likelihood.n_counted, 1), z.shape[1]
    # w = share @ v  (K,)
    share = np.ones((K, 1)) if pooled else np.eye(K)

    def objective(v: Floats) -> tuple[float, Floats]:
        w = share @ v
        value, gradient = likelihood.value_and_gradient(w)
        return (penalty * float(w.sum()) - value) / n, (penalty - gradient) @ share / n

    if likelihood.n_counted == 0:
        w = np.zeros(K)
        return (
            w,
            Solution(w, 0.0, None, 0.0, 0, True, "no object has a partner"),
            likelihood.n_alone,
        )
    start = np.full(share.shape[1], 0.5 / K) if start is None else start
    result = lbfgsb(objective, start, np.zeros(len(start)), tol, max_iter)
    w, v = share @ result.x, result.x
    residual = float(np.max(np.abs(v - np.maximum(v - result.jac, 0.0))))
    converged = residual <= tol
    message = f"residual {residual:.1e}, tolerance {tol:.1e}"
    message = f"converged ({message})" if converged else f"{result.message} ({message})"
    if likelihood.n_alone:
        message += f"; {likelihood.n_alone} object(s) alone in their class left out of the sum"
    solution = Solution(w, float(result.fun), None, residual, int(result.nit), converged, message)
    return w, solution, likelihood.n_alone


def choose_kernel(
    z: Floats,
    codes: Integers,
    rivals: Sequence[tuple[float, bool]],
    tol: float,
    max_iter: int,
    random_state: Any,
) -> tuple[float, bool]:
    """Choose lambda, and whether to pool, as the appendix does: by the likelihood of a random 30 %.

    Classes that the 70 % lack are left out of the comparison. With too few labels to split, the
    middle of the rivals is taken.
    """
    if len(rivals) == 1:
        return rivals[0]
    order = check_random_state(random_state).permutation(len(codes))
    n_valid = round(VALIDATION_SHARE * len(codes))
    valid, train = order[:n_valid], order[n_valid:]
    valid = valid[np.isin(codes[valid], codes[train])]
    if len(valid) == 0 or np.bincount(codes[train]).max() < 2 or len(set(codes[train])) < 2:
        return sorted(rivals)[len(rivals) // 2]
    classes, recoded = np.unique(codes[train], return_inverse=True)
    truth = np.searchsorted(classes, codes[valid])
    scores: list[float] = []
    last: Floats | None = None
    for penalty, pooled in rivals:
        start = None if pooled else last
        w, _, _ = maximise_likelihood(
            z[train], recoded, penalty, tol, max_iter, pooled=pooled, start=start
        )
        last = w
        posterior = KernelPosterior(z[train], recoded, len(classes), w)
        scores.append(float(posterior.log_proba(z[valid])[np.arange(len(valid)), truth].sum()))
    return rivals[int(np.argmax(scores))]
