"""Which pairs to rate next: those whose rating would teach most about what a search returns.

What a search returns is decided by the distances of a query to its nearest objects. So what is to
become small is their variance under the posterior of the ordinal model,

    V = sum over queries q and objects j of  exp(-rank of j for q / k)  var d2(q, j)

with the objects themselves as queries, as if they were new. Pairs are taken greedily: each is the
one that makes V smallest after those before it, so a pair that would repeat what another one
teaches comes late, and no object needs to be told to share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from nearkin.data import Ratings, check_number, check_ratings
from nearkin.greedy import Focus, Greedy
from nearkin.information import OrdinalView, Posterior, level_probabilities
from nearkin.metric import Metric
from nearkin.nearest import Neighbours
from nearkin.points import Points

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_PAIRS = 200_000  # candidates
MOST_QUERIES = 2_000
REACH = 5  # ranks that count, in units of k: exp(-5) is nothing


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Pairs to rate next, the most instructive first.

    Attributes
    ----------
    a, b : ndarray of int, shape (n,)
        Rows of X, a < b.
    gain : ndarray, shape (n,)
        Share of V (see above) that the rating is expected to take away, after those before it.
    information : ndarray, shape (n,)
        Nats that the rating is expected to tell about the model.
    probabilities : ndarray, shape (n, n_levels)
        P of each level, as the model sees it now.
    """

    a: Integers
    b: Integers
    gain: Floats
    information: Floats
    probabilities: Floats

    def __len__(self) -> int:
        return len(self.a)

    def as_rows(self, ids: ArrayLike | None = None) -> list[dict[str, Any]]:
        """Return one dict for each pair; with ``ids`` the objects are called by them."""
        names = None if ids is None else [str(name) for name in np.asarray(ids).tolist()]
        return [
            {
                "a": a if names is None else names[a],
                "b": b if names is None else names[b],
                "gain": float(self.gain[row]),
                "information": float(self.information[row]),
                **{f"P({v})": float(p) for v, p in enumerate(self.probabilities[row], start=1)},
            }
            for row, (a, b) in enumerate(zip(self.a.tolist(), self.b.tolist(), strict=True))
        ]


def suggest_pairs(
    est: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    ratings: Ratings,
    n: int = 20,
    *,
    k: int = 10,
    per_object: int | None = None,
    again: bool = False,
    random_state: Any = 0,
) -> Suggestions:
    """Suggest the n pairs whose rating would teach most.

    Parameters
    ----------
    est : fitted estimator
        Any that has ``metric_`` and ``points_``. What single objects lack is asked for where the
        estimator learns it (``Hybrid(missing=...)``).
    X, y
        What ``est`` was fitted to. More objects may follow: they can be suggested, too.
    ratings : Ratings
        All ratings so far, also those that came after the fit.
    n : int, default=20
        How many pairs.
    k : int, default=10
        How long a list of answers is: what lies beyond matters little.
    per_object : int, optional
        How often an object may be suggested; twice its even share by default, and at least twice.
    again : bool, default=False
        Suggest pairs that were rated before, too.
    random_state : int, default=0
        Of the sample of candidates where there are more than 200,000 pairs: half of them are
        objects with near ones, half random.

    Returns
    -------
    Suggestions

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> a, b = np.arange(20), np.arange(20) + 10
    >>> ratings = nk.Ratings(a, b, 3 - np.digitize((X[a, 0] - X[b, 0]) ** 2, [0.5, 2]))
    >>> est = nk.OrdinalRegression(ridge=1).fit(X, ratings=ratings)
    >>> found = nk.suggest_pairs(est, X, None, ratings, n=3)
    >>> len(found), set(zip(found.a, found.b)) & set(zip(a, b))
    (3, set())
    """
    points = points_of(est, X, y)
    ratings = check_ratings(ratings, len(points), "suggest_pairs")
    return suggested(
        est.metric_,
        points,
        ratings,
        n,
        thresholds=getattr(est, "thresholds_", None),
        k=k,
        per_object=per_object,
        again=again,
        random_state=random_state,
    )


def points_of(est: Any, X: ArrayLike, y: ArrayLike | None) -> Points:
    """Return the fitted objects as they are in ``est``, and any that follow as new ones."""
    if not hasattr(est, "metric_") or not hasattr(est, "points_"):
        raise ValueError(f"suggest_pairs(est={type(est).__name__}): fit the estimator first.")
    fitted: Points = est.points_
    everything: Points = est.metric_.points(X, y)
    known, K = len(fitted), est.metric_.n_given
    if len(everything) < known or not np.array_equal(everything.x[:known, :K], fitted.x[:, :K]):
        raise ValueError(
            f"suggest_pairs: X has {len(everything)} rows, and est was fitted to {known} others; "
            "pass the X of the fit, perhaps with more objects at its end."
        )
    return fitted if len(everything) == known else fitted.joined(everything[slice(known, None)])


def suggested(
    metric: Metric,
    points: Points,
    ratings: Ratings,
    n: int,
    *,
    thresholds: Floats | None = None,
    k: int = 10,
    per_object: int | None = None,
    again: bool = False,
    random_state: Any = 0,
) -> Suggestions:
    """Suggest pairs for a metric and its objects; see ``suggest_pairs``.

    ``thresholds`` are those of the likelihood that the metric maximises, if it does.
    """
    check_number("suggest_pairs", "n", n, 1, whole=True)
    check_number("suggest_pairs", "k", k, 1, whole=True)
    share = -(-4 * n // len(points))  # an even share is 2 n / n_objects
    most = max(2, share) if per_object is None else per_object
    check_number("suggest_pairs", "per_object", most, 1, whole=True)
    view = OrdinalView.of(metric, points, ratings, thresholds)
    focus = nearest_pairs(metric, points, k, random_state)
    a, b = candidates(len(points), focus, None if again else ratings, random_state)
    if len(a) < n:
        raise ValueError(
            f"suggest_pairs(n={n}): only {len(a)} pairs of the {len(points)} objects are left to "
            "rate; ask for fewer, or pass again=True to rate some once more."
        )
    greedy = Greedy(view, Posterior.of(view, ratings), focus, a, b)
    rows, gains, information = greedy.take(n, most)
    d2 = view.d2(a[rows], b[rows])
    probabilities = level_probabilities(d2, view.thresholds)
    return Suggestions(a[rows], b[rows], gains, information, probabilities)


def nearest_pairs(metric: Metric, points: Points, k: int, random_state: Any) -> Focus:
    """Return each object as a new query with its nearest others, weighed ``exp(-rank / k)``."""
    n = len(points)
    queries = np.arange(n)
    if n > MOST_QUERIES:
        queries = np.sort(check_random_state(random_state).permutation(n)[:MOST_QUERIES])
    as_new = Points(points.x[queries], None if points.u is None else points.u[queries])
    near = Neighbours.of(metric, points).search(as_new, min(n, REACH * k + 1)).rows
    others = near != queries[:, None]
    rank = np.cumsum(others, axis=1) - 1  # among the others, 0 for the nearest
    query = np.broadcast_to(queries[:, None], near.shape)
    weight = np.exp(-rank / k) / len(queries)
    return Focus(query[others], near[others], weight[others])


def candidates(
    n: int, focus: Focus, rated: Ratings | None, random_state: Any
) -> tuple[Integers, Integers]:
    """Return the pairs to choose from, a < b and sorted, without those that were rated."""
    if n * (n - 1) // 2 <= MOST_PAIRS:
        a, b = np.triu_indices(n, k=1)
        key = a * n + b
    else:
        rng = check_random_state(random_state)
        near = np.argsort(-focus.weight, kind="stable")[: MOST_PAIRS // 2]
        one = rng.randint(0, n, MOST_PAIRS // 2)
        other = (one + 1 + rng.randint(0, n - 1, MOST_PAIRS // 2)) % n
        ends = np.concatenate([[focus.query[near], focus.item[near]], [one, other]], axis=1)
        key = np.unique(ends.min(axis=0) * n + ends.max(axis=0))
    if rated is not None:
        low, high = np.minimum(rated.a, rated.b), np.maximum(rated.a, rated.b)
        key = key[~np.isin(key, low * n + high)]
    a, b = np.divmod(key, n)
    return a, b
