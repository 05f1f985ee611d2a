"""Learning curves are measured here: folds of objects, and more and more of their ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from nearkin.curve import LearningCurve
from nearkin.data import Ratings, as_labels, check_number, check_ratings
from nearkin.protocols import FoldScore, object_folds, score_fold

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEWEST = 16  # ratings among the training objects of a fold


def learning_curve(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    ratings: Ratings,
    *,
    sizes: Sequence[int] | None = None,
    n_folds: int = 5,
    n_repeats: int = 3,
    k: int = 10,
    prepare: Any = None,
    random_state: Any = 0,
    n_jobs: int = -1,
    progress: Callable[[int, int], None] | None = None,
) -> LearningCurve:
    """Measure NDCG on objects held out, learning from more and more of the ratings.

    In each fold the ratings among its training objects are put in a random order, and as many of
    them learned from as ``sizes`` say. A held-out object is scored by all of its ratings, and
    none of them is learned from.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fit.
    X, y, ratings
        As for ``estimator.fit``.
    sizes : sequence of int, optional
        Numbers of ratings to learn from; by default six, up to all that each fold has.
    n_folds : int, default=5
        Of objects. Two folds leave a quarter of the ratings to learn from, five two thirds, ten
        four fifths.
    n_repeats : int, default=3
        How often to draw folds and the order of ratings.
    k : int, default=10
        NDCG at k.
    prepare : transformer, optional
        Of features; fitted anew in each fold.
    random_state : int, default=0
    n_jobs : int, default=-1
        Processes; they change nothing but the time.
    progress : callable, optional
        Called with (done, total).

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin as nk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 8))
    >>> a, b = np.triu_indices(30, k=1)
    >>> seen = (X[a, 0] - X[b, 0]) ** 2 + rng.normal(size=len(a))
    >>> ratings = nk.Ratings(a, b, 3 - np.digitize(seen, [0.5, 2]))
    >>> curve = nk.learning_curve(
    ...     nk.OrdinalRegression(ridge=1), X, None, ratings, sizes=[20, 60, 200], n_jobs=1
    ... )
    >>> bool(curve.mean[2] > curve.mean[0])
    True
    """
    x = np.asarray(X)
    ratings = check_ratings(ratings, len(x), "learning_curve")
    labels = None if y is None else as_labels(y)
    check_number("learning_curve", "n_folds", n_folds, 2, whole=True)
    check_number("learning_curve", "n_repeats", n_repeats, 1, whole=True)
    check_number("learning_curve", "k", k, 1, whole=True)
    draws = drawn(ratings, len(x), n_folds, n_repeats, random_state)
    sizes = checked_sizes(sizes, min(len(draw.order) for draw in draws))
    work = (
        joblib.delayed(_score)(estimator, x, labels, ratings, draw, at, size, k, prepare)
        for draw in draws
        for at, size in enumerate(sizes)
    )
    scores = np.full((n_repeats, len(sizes), len(x)), np.nan)
    warned = np.zeros(len(sizes), dtype=np.int64)
    total = len(draws) * len(sizes)
    runner = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for done, (repeat, at, fold) in enumerate(runner(work), start=1):
        scores[repeat, at, fold.queries] = fold.ndcg
        warned[at] += bool(fold.warnings)
        if progress is not None:
            progress(done, total)
    if np.isnan(scores).any(axis=(0, 1)).all():
        raise ValueError("learning_curve: no rating links a held-out object with another one.")
    return LearningCurve(np.array(sizes), scores, len(ratings), k, warned)


class Draw(NamedTuple):
    """One fold: its objects, and the ratings that touch none of them, in random order."""

    repeat: int
    test: Integers
    order: Integers


def drawn(ratings: Ratings, n: int, n_folds: int, n_repeats: int, random_state: Any) -> list[Draw]:
    """Return all folds of all repeats."""
    rng = check_random_state(random_state)
    draws = []
    for repeat in range(n_repeats):
        for test in object_folds(n, n_folds, rng):
            touched = np.isin(ratings.a, test) | np.isin(ratings.b, test)
            draws.append(Draw(repeat, test, rng.permutation(np.flatnonzero(~touched))))
    return draws


def checked_sizes(sizes: Sequence[int] | None, largest: int) -> list[int]:
    """Return the sizes in rising order, once every fold can learn from as many ratings."""
    if sizes is None:
        if largest < FEWEST:
            raise ValueError(
                f"learning_curve: a fold has only {largest} ratings among its training objects; "
                f"at least {FEWEST} are needed, or give sizes=."
            )
        rising = np.geomspace(largest / 8, largest, 6).round().astype(int).tolist()
        return sorted(set(rising))
    for size in sizes:
        check_number("learning_curve", "sizes", size, 2, whole=True)
    rising = sorted({int(size) for size in sizes})
    if not rising or rising[-1] > largest:
        raise ValueError(
            f"learning_curve(sizes={list(sizes)}): give sizes up to {largest}, the ratings that "
            "every fold has among its training objects; more folds leave more of them."
        )
    return rising


def _score(
    estimator: Any,
    x: Floats,
    y: NDArray[Any] | None,
    ratings: Ratings,
    draw: Draw,
    at: int,
    size: int,
    k: int,
    prepare: Any,
) -> tuple[int, int, FoldScore]:
    """Score one fold with the first ``size`` ratings of its order, and all of its test objects."""
    kept = np.ones(len(ratings), dtype=bool)
    kept[draw.order[size:]] = False
    try:
        return draw.repeat, at, score_fold(estimator, x, y, ratings[kept], draw.test, k, prepare)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"learning_curve: with {size} ratings the fit failed ({error}); give larger sizes=."
        ) from error
