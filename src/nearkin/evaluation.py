"""NDCG (section 4.1, step 6), and the paired comparison of methods by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from nearkin.data import check_number, first_rows

Floats = NDArray[np.float64]


def ndcg(distances: ArrayLike, levels: ArrayLike, k: int = 10) -> Floats:
    """Return the normalised discounted cumulative gain at k of each query.

    ``DCG = sum over p = 1..k of (2^level(i_p) - 1) / log2(1 + p)`` for the k nearest items i_p,
    divided by the largest DCG that any ranking of the rated items reaches.

    Parameters
    ----------
    distances : array-like, shape (n_queries, n_items)
        Equal distances are broken by item order.
    levels : array-like, shape (n_queries, n_items) or (n_queries, n_items, n_ratings)
        Ratings 1..L, NaN where there is none. The gain of a pair with several ratings is the
        mean of their gains. Items without a rating are left out of the query's list.
    k : int, default=10
        Length of the list; shorter lists are used whole.

    Returns
    -------
    ndarray, shape (n_queries,)
        NaN for a query without ratings.

    Examples
    --------
    >>> import nearkin as nk
    >>> nk.ndcg([[0.1, 0.2, 0.3]], [[3, 1, 2]]).round(3)
    array([0.972])
    """
    d = np.asarray(distances, dtype=np.float64)
    sigma = np.asarray(levels, dtype=np.float64)
    if d.ndim != 2 or sigma.shape[:2] != d.shape or sigma.ndim not in (2, 3):
        raise ValueError(
            f"ndcg: distances has shape {d.shape}, levels {sigma.shape}; pass "
            "(n_queries, n_items) for both (levels may have a third axis of repeated ratings)."
        )
    check_number("ndcg", "k", k, 1, whole=True)
    if (sigma < 1).any():
        bad = (sigma < 1).reshape(len(sigma), -1).any(axis=1)
        raise ValueError(f"ndcg: levels below 1 for queries {first_rows(bad)}; use NaN for none.")
    return ndcg_of_gains(d, mean_gains(sigma), k)


def ndcg_of_gains(d: Floats, gains: Floats, k: int) -> Floats:
    """Return the NDCG at k of each query from gains, NaN where an item has none."""
    rated = ~np.isnan(gains)
    lost = (rated & np.isnan(d)).any(axis=1)
    if lost.any():
        raise ValueError(f"ndcg: NaN distances for queries {first_rows(lost)}.")
    gains = np.where(rated, gains, 0.0)
    d = np.where(rated, d, np.inf)
    # lexicographic: rated items first, then distance, then item order
    by_distance = np.lexsort((d, ~rated), axis=1)[:, :k]
    by_rating = np.sort(gains, axis=1)[:, ::-1][:, :k]
    discount = 1.0 / np.log2(np.arange(2, by_distance.shape[1] + 2))
    dcg = np.take_along_axis(gains, by_distance, axis=1) @ discount
    ideal = by_rating @ discount
    with np.errstate(invalid="ignore"):
        value: Floats = dcg / ideal
    return value


def mean_gains(levels: Floats) -> Floats:
    """Return ``2^level - 1``, averaged over repeated ratings; NaN where there is none."""
    gains: Floats = 2.0**levels - 1.0
    if gains.ndim == 2:
        return gains
    count = (~np.isnan(gains)).sum(axis=2)
    total = np.nansum(gains, axis=2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference of two methods on the same cases, and its confidence interval."""

    mean: float
    low: float
    high: float
    wins: float  # share of cases in which the first is better

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def paired_difference(
    first: ArrayLike, second: ArrayLike, confidence: float = 0.95
) -> PairedDifference:
    """Compare two methods case by case, by Student's t on the differences.

    Examples
    --------
    >>> from nearkin.evaluation import paired_difference
    >>> print(paired_difference([0.6, 0.7, 0.8], [0.5, 0.6, 0.6]))
    +0.1333 [-0.0101, +0.2768]
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    difference = difference[~np.isnan(difference)]
    n, mean = len(difference), float(difference.mean())
    if n < 2:
        return PairedDifference(mean, float("-inf"), float("inf"), float((difference > 0).mean()))
    error = float(difference.std(ddof=1)) / np.sqrt(n)
    reach = float(stdtrit(n - 1, 0.5 + confidence / 2) * error)
    return PairedDifference(mean, mean - reach, mean + reach, float((difference > 0).mean()))
