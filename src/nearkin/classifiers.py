"""The kernel density soft classifier of section 3.4: NCA's model, asked for its posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nearkin.kernel import KernelPosterior
from nearkin.learners.common import read_features
from nearkin.learners.nca import fit_kernel

Floats = NDArray[np.float64]


class KernelClassifier(ClassifierMixin, BaseEstimator):
    """Class posterior by Gaussian kernel densities with learned weights.

    The weights w are those of NCA (equation 3). Far from all data the posterior stays finite.

    Parameters
    ----------
    penalty, tol, max_iter, random_state
        As in :class:`NCA`.
    pooled : bool or None, default=False
        True gives all features one weight, in units of their spread: with few labels a better
        posterior, where all features matter. None takes whichever predicts a random 30 % of the
        labelled objects better, as for ``penalty``.

    Attributes
    ----------
    classes_ : ndarray
    posterior_ : KernelPosterior
        What predicts, and what is saved with a metric.
    weights_ : ndarray, shape (K,)
        w.
    solution_ : Solution
    penalty_ : float
    pooled_ : bool

    Examples
    --------
    >>> import nearkin as nk
    >>> clf = nk.KernelClassifier(penalty=0.1).fit([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1])
    >>> clf.predict([[0.5], [1e6]])
    array([0, 1])
    """

    def __init__(
        self,
        *,
        penalty: float | None = None,
        pooled: bool | None = False,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.pooled = pooled
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelClassifier:
        """Learn from labelled objects; every row needs a label."""
        if y is None:
            raise ValueError("KernelClassifier requires y to be passed, but the target y is None.")
        x = read_features(self, X).astype(np.float64)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if len(labels) != len(x):
            raise ValueError(f"KernelClassifier: X has {len(x)} rows, y has {len(labels)} labels.")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"KernelClassifier: labels of two classes or more are needed; y has 1 class "
                f"({self.classes_.tolist()})."
            )
        fit = fit_kernel(
            x,
            codes,
            caller="KernelClassifier",
            penalty=self.penalty,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
            pooled=self.pooled,
        )
        self.pooled_ = fit.pooled
        self.solution_, self.penalty_, self.weights_ = fit.solution, fit.penalty, fit.weights
        self.n_iter_ = fit.solution.n_iter
        self.posterior_ = KernelPosterior(x, codes, len(self.classes_), fit.weights)
        return self

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return log P(c | x)  (n, M)."""
        check_is_fitted(self)
        return self.posterior_.log_proba(read_features(self, X, reset=False))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return P(c | x)  (n, M)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])
