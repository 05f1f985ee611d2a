"""Features that repeat others are dropped before learning (section 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from nearkin.data import check_number
from nearkin.learners.common import read_features

BLOCK = 512  # features compared at once


class CorrelationFilter(SelectorMixin, TransformerMixin, BaseEstimator):
    """Drop each feature that is correlated with an earlier one that was kept.

    Features are taken in their order, so the outcome is always the same. Constant features
    correlate with nothing and tell no objects apart: they are dropped, too, with no partner.

    Parameters
    ----------
    threshold : float, default=0.95
        Largest absolute correlation of two features that are kept.

    Attributes
    ----------
    partner_ : ndarray of int, shape (n_features,)
        For a dropped feature the kept one that caused it; -1 for a kept or a constant feature.
    correlation_ : ndarray, shape (n_features,)
        The correlation with that partner; 0 where there is none.

    Examples
    --------
    >>> import nearkin as nk
    >>> X = [[1.0, 2.0, 5.0], [2.0, 4.0, 1.0], [3.0, 6.1, 2.0]]
    >>> dropping = nk.CorrelationFilter().fit(X)
    >>> dropping.get_support().tolist(), dropping.partner_.tolist()
    ([True, False, True], [-1, 0, -1])
    """

    def __init__(self, *, threshold: float = 0.95) -> None:
        self.threshold = threshold

    def fit(self, X: ArrayLike, y: Any = None) -> CorrelationFilter:
        """Choose the features to keep; y is not used."""
        check_number("CorrelationFilter", "threshold", self.threshold)
        x = read_features(self, X).astype(np.float64)
        z = _unit_columns(x)
        K = z.shape[1]
        self.partner_, self.correlation_ = np.full(K, -1), np.zeros(K)
        kept: NDArray[np.bool_] = np.zeros(K, dtype=bool)
        constant: NDArray[np.bool_] = ~np.any(z != 0, axis=0)
        for start in range(0, K, BLOCK):
            stop = min(start + BLOCK, K)
            earlier = np.flatnonzero(kept[:start])
            with_earlier = z[:, earlier].T @ z[:, start:stop]  # (n_kept, block)
            within = z[:, start:stop].T @ z[:, start:stop]
            for k in range(start, stop):
                own = start + np.flatnonzero(kept[start:k])
                rivals = np.concatenate([earlier, own])
                r = np.concatenate([with_earlier[:, k - start], within[own - start, k - start]])
                first = np.flatnonzero(np.abs(r) > self.threshold)
                if len(first):
                    self.partner_[k], self.correlation_[k] = rivals[first[0]], r[first[0]]
                else:
                    kept[k] = not constant[k]
        self.kept_ = kept
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        kept: NDArray[np.bool_] = self.kept_
        return kept


def _unit_columns(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return centred columns of length 1, and 0 for a constant one: products are correlations."""
    spread = x - x.mean(axis=0)
    length = np.sqrt(np.sum(spread * spread, axis=0))
    varies = length > 1e-12 * np.abs(x).max(axis=0)
    z: NDArray[np.float64] = spread / np.where(varies, length, np.inf)
    return z


class Preparation(TransformerMixin, BaseEstimator):
    """What is done to features before learning, in numbers that a model's file can hold.

    Parameters
    ----------
    correlated_above : float, optional
        Drop features as ``CorrelationFilter`` does; none by default.
    standardise : bool, default=False
        Give each feature mean 0 and variance 1. Learned weights do not need it.

    Attributes
    ----------
    kept_ : ndarray of int
        Columns that are kept.
    shift_, scale_ : ndarray
        ``(x - shift) / scale`` of those.
    partner_, correlation_ : ndarray
        As in ``CorrelationFilter``: why a feature was dropped.

    Examples
    --------
    >>> import nearkin as nk
    >>> X = [[1.0, 2.0, 5.0], [2.0, 4.0, 1.0], [3.0, 6.1, 3.0]]
    >>> nk.Preparation(correlated_above=0.95, standardise=True).fit_transform(X).round(2).tolist()
    [[-1.22, 1.22], [0.0, -1.22], [1.22, 0.0]]
    """

    def __init__(self, *, correlated_above: float | None = None, standardise: bool = False) -> None:
        self.correlated_above = correlated_above
        self.standardise = standardise

    def fit(self, X: ArrayLike, y: Any = None) -> Preparation:
        """Choose the features and their scales; y is not used."""
        x = read_features(self, X).astype(np.float64)
        K = x.shape[1]
        kept, self.partner_, self.correlation_ = np.arange(K), np.full(K, -1), np.zeros(K)
        if self.correlated_above is not None:
            dropping = CorrelationFilter(threshold=self.correlated_above).fit(x)
            kept = np.flatnonzero(dropping.get_support())
            self.partner_, self.correlation_ = dropping.partner_, dropping.correlation_
        if len(kept) == 0:
            raise ValueError(f"Preparation: all {K} features are constant.")
        self.kept_, self.shift_, self.scale_ = kept, np.zeros(len(kept)), np.ones(len(kept))
        if self.standardise:
            scaler = StandardScaler().fit(x[:, kept])
            self.shift_, self.scale_ = scaler.mean_, scaler.scale_
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the kept features, scaled."""
        check_is_fitted(self)
        x = read_features(self, X, reset=False).astype(np.float64)
        out: NDArray[np.float64] = (x[:, self.kept_] - self.shift_) / self.scale_
        return out


def paper_preparation(threshold: float = 0.95) -> Pipeline:
    """Return the preparation of section 4.2: drop correlated features, normalise the others."""
    return make_pipeline(CorrelationFilter(threshold=threshold), StandardScaler())
