"""Protocols: fit on some objects, rank them for others. Nothing of a test object leaks.

A fold holds out objects. Every rating that touches one leaves the training set, and everything
fitted (filters, scales, penalties, profiles) sees the training objects only. The held-out objects
are then queries against the training objects, scored by the ratings between the two.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from nearkin.data import Objects, Ratings, as_labels
from nearkin.evaluation import ndcg_of_gains
from nearkin.passes import single_blas
from nearkin.points import Points

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FoldScore:
    """What one method did on one fold: NDCG of each held-out object, NaN where it has no rating.

    ``error`` says why the method failed on the fold; all of ``ndcg`` is then NaN.
    """

    queries: Integers
    ndcg: Floats
    warnings: tuple[str, ...]
    seconds: float
    error: str = ""


def leave_one_out(n: int) -> list[Integers]:
    """Hold each object out once: the protocol of section 4.2."""
    return [np.array([i]) for i in range(n)]


def object_folds(n: int, n_folds: int, random_state: Any = 0) -> list[Integers]:
    """Deal the objects into folds at random."""
    order = check_random_state(random_state).permutation(n)
    return [np.sort(order[k::n_folds]) for k in range(min(n_folds, n))]


def random_holdouts(n: int, fraction: float, repeats: int, random_state: Any = 0) -> list[Integers]:
    """Hold out a share of the objects, at random, several times."""
    size = round(fraction * n)
    if not 0 < fraction < 1 or not 1 <= size <= n - 2:
        raise ValueError(
            f"random_holdouts(n={n}, fraction={fraction}): hold out at least one object, and leave "
            "two to learn from."
        )
    rng = check_random_state(random_state)
    return [np.sort(rng.permutation(n)[:size]) for _ in range(repeats)]


def gains_between(ratings: Ratings, queries: Integers, items: Integers) -> Floats:
    """Return the mean gain ``2^level - 1`` of each query and item, NaN where nobody rated."""
    n = 1 + int(max(np.max(part, initial=0) for part in (ratings.a, ratings.b, queries, items)))
    row, column = np.full(n, -1), np.full(n, -1)
    row[queries], column[items] = np.arange(len(queries)), np.arange(len(items))
    total, count = np.zeros((2, len(queries), len(items)))
    gain = 2.0**ratings.level - 1.0
    weight = np.ones(len(ratings)) if ratings.weight is None else ratings.weight
    for a, b in ((ratings.a, ratings.b), (ratings.b, ratings.a)):
        i, j = row[a], column[b]
        hit = (i >= 0) & (j >= 0)
        np.add.at(total, (i[hit], j[hit]), (weight * gain)[hit])
        np.add.at(count, (i[hit], j[hit]), weight[hit])
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)


def fit_without(
    estimator: Any,
    X: Floats,
    y: NDArray[Any] | None,
    ratings: Ratings,
    test: Integers,
    prepare: Any = None,
) -> tuple[Any, Points, Integers]:
    """Fit on all objects but ``test``; return the fit, those as queries, and the rows fitted on.

    The queries come as new objects do: without label or rating.
    """
    train = np.setdiff1d(np.arange(len(X)), test)
    x, queries = X[train], X[test]
    if prepare is not None:
        prepared = clone(prepare).fit(x)
        x, queries = prepared.transform(x), prepared.transform(queries)
    fitted = clone(estimator).fit(x, None if y is None else y[train], ratings.within(train))
    return fitted, fitted.metric_.points(queries), train


def score_fold(
    estimator: Any,
    X: Floats,
    y: NDArray[Any] | None,
    ratings: Ratings,
    test: Integers,
    k: int,
    prepare: Any = None,
) -> FoldScore:
    """Fit on all objects but ``test``; return the NDCG of those as queries."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, single_blas():
        warnings.simplefilter("always")
        fitted, queries, train = fit_without(estimator, X, y, ratings, test, prepare)
        d = fitted.metric_.distances(queries, fitted.points_)
    values = ndcg_of_gains(d, gains_between(ratings, test, train), k)
    said = tuple(sorted({str(warning.message) for warning in caught}))
    return FoldScore(test, values, said, time.perf_counter() - started)


def score_methods(
    methods: dict[str, Any],
    X: ArrayLike,
    y: ArrayLike | None,
    ratings: Ratings,
    folds: Sequence[Integers],
    *,
    prepare: Any = None,
    k: int = 10,
    keep_going: bool = False,
    n_jobs: int = -1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Floats], dict[str, list[FoldScore]]]:
    """Score every method on every fold; return NDCG by object (n,) and the folds.

    ``prepare`` is a transformer of features, fitted anew on the training objects of each fold. A
    method that fails on a fold is an error: it would not be a fair comparison without it. With
    ``keep_going`` the fold says so in its ``error`` instead, and the others go on.
    """
    x = np.asarray(X)
    labels = None if y is None else as_labels(y)
    jobs = [(name, fold) for fold in folds for name in methods]
    work = (
        joblib.delayed(_named_score)(
            name, keep_going, methods[name], x, labels, ratings, fold, k, prepare
        )
        for name, fold in jobs
    )
    scores = {name: np.full(len(x), np.nan) for name in methods}
    details: dict[str, list[FoldScore]] = {name: [] for name in methods}
    runner = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size="auto")
    for done, (name, score) in enumerate(runner(work), start=1):
        scores[name][score.queries] = score.ndcg
        details[name].append(score)
        if progress is not None:
            progress(done, len(jobs))
    return scores, details


def _named_score(
    name: str,
    keep_going: bool,
    method: Any,
    X: Floats,
    y: NDArray[Any] | None,
    ratings: Ratings,
    test: Integers,
    k: int,
    prepare: Any,
) -> tuple[str, FoldScore]:
    started = time.perf_counter()
    try:
        return name, score_fold(method, X, y, ratings, test, k, prepare)
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError) as error:
        if not keep_going:
            raise type(error)(f"{name}: {error}") from error
        nothing = np.full(len(test), np.nan)
        return name, FoldScore(test, nothing, (), time.perf_counter() - started, str(error))


def noise_ceiling(ratings: Ratings, n: int, k: int = 10) -> dict[Any, float]:
    """Return, for each rater, the mean NDCG of the rater's own ratings against all the others'.

    No distance can be expected to please raters more than they please each other.
    """
    if ratings.rater is None:
        return {}
    everyone = np.arange(n)
    ceiling = {}
    for rater in sorted(set(ratings.rater.tolist()), key=str):
        own = ratings.rater == rater
        if own.all():
            continue
        mine = gains_between(ratings[own], everyone, everyone)
        theirs = gains_between(ratings[~own], everyone, everyone)
        theirs = np.where(np.isnan(mine), np.nan, theirs)
        values = ndcg_of_gains(np.where(np.isnan(mine), np.inf, -mine), theirs, k)
        if not np.isnan(values).all():
            ceiling[rater] = float(np.nanmean(values))
    return ceiling


def labels_of(objects: Objects) -> NDArray[Any] | None:
    """Return the labels, or None where no object has one."""
    return None if all(label is None for label in objects.y) else objects.y
