"""From a distance to the probability that a rater calls the pair similar, on held-out ratings.

Whole objects are held out, fold by fold, and come back as new queries, so nothing that is measured
here was fitted. Folds are comparable because a distance is counted by the share of the training
pairs that are nearer: CO's distances have no scale of their own, and under OR a constant can move
between Q and the thresholds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from nearkin.data import Ratings, as_labels, check_ratings
from nearkin.passes import single_blas
from nearkin.protocols import fit_without, object_folds
from nearkin.spread import Spread

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEWEST = 50  # comparisons of a held-out object with another one
BINS = 10
SMALLEST = 1e-12  # of a probability, in the logarithm


class HeldOut(NamedTuple):
    """Held-out objects compared: share of pairs nearer, the model's own P, what raters said.

    A rating is there twice where its two ends are in different folds, each once as the query.
    """

    share: Floats
    own: Floats  # NaN where the method has none
    similar: Floats
    weight: Floats
    fold: Integers


@dataclass(frozen=True, eq=False)
class Calibration:
    """P(a rater calls the pair similar), never rising with the distance.

    Attributes
    ----------
    threshold : float or None
        b of ``P = 1 / (1 + exp(d2 + b))``, where the ordinal model's own probability is used.
    shares, values : ndarray
        Otherwise: P at these shares of nearer pairs, linear in between.
    report : dict
        What held-out ratings say: log loss and Brier score of every candidate, which one was
        ``chosen``, and the ``table`` of predicted and observed frequencies of that one.
    """

    threshold: float | None
    shares: Floats
    values: Floats
    report: dict[str, Any]

    def similar(self, d: ArrayLike, spread: Spread) -> Floats:
        """Return P(similar) at distances d of a collection."""
        d = np.asarray(d, dtype=np.float64)
        if self.threshold is not None:
            # P(level <= L - 1) = S(d2 + b)
            own: Floats = expit(-(d * d + self.threshold))
            return own
        between: Floats = np.interp(spread.share(d), self.shares, self.values)
        return between

    def __str__(self) -> str:
        found = self.report
        lines = [
            f"P(similar): {found['chosen']}, from {found['n_pairs']} comparisons of held-out "
            f"objects ({found['base_rate']:.1%} similar)",
            "  log loss " + _listed(found["log_loss"]),
            "  Brier score " + _listed(found["brier"]),
            "  predicted observed comparisons",
        ]
        lines += [
            f"  {row['predicted']:9.3f} {row['observed']:8.3f} {row['n']:11d}"
            for row in found["table"]
        ]
        return "\n".join(lines)


def _listed(scores: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def calibrate(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    ratings: Ratings,
    *,
    prepare: Any = None,
    n_folds: int = 5,
    random_state: Any = 0,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Calibrate a method on ratings of objects it has not seen.

    Candidates are the ordinal model's own probability (where a likelihood was fitted), an
    isotonic regression on the held-out ratings, and the same probability for all pairs. The one
    with the smallest held-out log loss is taken, isotonic regression being fitted without the
    fold it is scored on: a method whose distances tell nothing gets the base rate.

    Parameters
    ----------
    estimator : estimator
        Unfitted, or fitted: it is cloned for each fold, and ``thresholds_`` read if it has any.
    X, y, ratings
        As for ``estimator.fit``. The top level of ``ratings`` is what counts as similar.
    prepare : transformer, optional
        Fitted anew in each fold.
    n_folds, random_state, n_jobs, progress
        As for ``select``.
    """
    x = np.asarray(X)
    check_ratings(ratings, len(x), "calibrate")
    labels = None if y is None else as_labels(y)
    folds = object_folds(len(x), n_folds, random_state)
    runner = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    work = (
        joblib.delayed(held_out)(estimator, x, labels, ratings, fold, number, prepare)
        for number, fold in enumerate(folds)
    )
    found = []
    for done, part in enumerate(runner(work), start=1):
        found.append(part)
        if progress is not None:
            progress(done, len(folds))
    pairs = HeldOut(*(np.concatenate(column) for column in zip(*found, strict=True)))
    n, n_similar = len(pairs.similar), int(pairs.similar.sum())
    if n < FEWEST or n_similar in (0, n):
        raise ValueError(
            f"calibrate: {n} comparisons link a held-out object with another one, {n_similar} of "
            f"them similar; at least {FEWEST} of both kinds together are needed."
        )
    return chosen(pairs, getattr(estimator, "thresholds_", None))


def held_out(
    estimator: Any,
    x: Floats,
    y: NDArray[Any] | None,
    ratings: Ratings,
    test: Integers,
    number: int,
    prepare: Any = None,
) -> HeldOut:
    """Fit without one fold of objects; return its ratings against the others."""
    with warnings.catch_warnings(), single_blas():
        warnings.simplefilter("ignore")  # the fit to all objects says what there is to say
        fitted, queries, train = fit_without(estimator, x, y, ratings, test, prepare)
    metric, items = fitted.metric_, fitted.points_
    query, item = np.full(len(x), -1), np.full(len(x), -1)
    query[test], item[train] = np.arange(len(test)), np.arange(len(train))
    ends = np.stack([ratings.a, ratings.b])
    ends = np.where(query[ends[:1]] >= 0, ends, ends[::-1])  # the held-out end first
    across = (query[ends[0]] >= 0) & (item[ends[1]] >= 0)
    d = metric.pair_distances(queries, items, query[ends[0, across]], item[ends[1, across]])
    own = np.full(len(d), np.nan)
    if hasattr(fitted, "thresholds_"):
        own = expit(-(d * d + fitted.thresholds_[-1]))
    weight = np.ones(len(ratings)) if ratings.weight is None else ratings.weight
    return HeldOut(
        Spread.of(metric, items).share(d),
        own,
        (ratings.level[across] == ratings.n_levels).astype(np.float64),
        weight[across],
        np.full(len(d), number),
    )


def chosen(pairs: HeldOut, thresholds: Floats | None) -> Calibration:
    """Return the candidate with the smallest held-out log loss, and the evidence."""
    isotonic, constant = np.empty_like(pairs.share), np.empty_like(pairs.share)
    for number in np.unique(pairs.fold):
        rest, here = pairs.fold != number, pairs.fold == number
        shares, values = monotone(pairs.share[rest], pairs.similar[rest], pairs.weight[rest])
        isotonic[here] = np.interp(pairs.share[here], shares, values)
        constant[here] = np.average(pairs.similar[rest], weights=pairs.weight[rest])
    predicted = {"base rate": constant, "isotonic": isotonic}
    if thresholds is not None and not np.isnan(pairs.own).any():
        predicted = {"ordinal model": pairs.own, **predicted}
    losses = {name: log_loss(p, pairs.similar, pairs.weight) for name, p in predicted.items()}
    best = min(losses, key=lambda name: round(losses[name], 9))  # the first of equals
    base = float(np.average(pairs.similar, weights=pairs.weight))
    report = {
        "chosen": best,
        "n_pairs": len(pairs.share),
        "base_rate": base,
        "log_loss": losses,
        "brier": {
            name: float(np.average((p - pairs.similar) ** 2, weights=pairs.weight))
            for name, p in predicted.items()
        },
        "table": reliability(predicted[best], pairs.similar),
    }
    if best == "ordinal model" and thresholds is not None:
        return Calibration(float(thresholds[-1]), np.empty(0), np.empty(0), report)
    if best == "base rate":
        return Calibration(None, np.zeros(1), np.array([base]), report)
    return Calibration(None, *monotone(pairs.share, pairs.similar, pairs.weight), report)


def monotone(share: Floats, similar: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return knots of the falling function of ``share`` that fits best.

    One pseudo-pair of the base rate stands beyond each end, so that no probability becomes 0 or
    1 because a handful of ratings agree.
    """
    base = np.average(similar, weights=weight)
    at = np.concatenate([[-1.0], share, [2.0]])
    fit = IsotonicRegression(increasing=False, out_of_bounds="clip")
    fit.fit(at, np.concatenate([[base], similar, [base]]), np.concatenate([[1.0], weight, [1.0]]))
    knots = np.clip(fit.X_thresholds_, 0.0, 1.0)
    return knots, np.asarray(fit.y_thresholds_, dtype=np.float64)


def log_loss(p: Floats, similar: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of what raters said."""
    likely = np.where(similar > 0, p, 1.0 - p)
    return float(-np.average(np.log(np.maximum(likely, SMALLEST)), weights=weight))


def reliability(p: Floats, similar: Floats, bins: int = BINS) -> list[dict[str, Any]]:
    """Return predicted against observed frequency in groups of pairs of about the same P."""
    order = np.argsort(p, kind="stable")
    return [
        {
            "predicted": float(p[rows].mean()),
            "observed": float(similar[rows].mean()),
            "n": len(rows),
        }
        for rows in np.array_split(order, min(bins, len(p)))
    ]
