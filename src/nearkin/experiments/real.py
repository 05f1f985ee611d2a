"""The real-data study of section 4.2 on any study: prepare, hold out, learn, rank, score.

By default the paper's six steps: each object is held out in turn with its label and all its
ratings; the methods learn from the rest; the rest is ranked for it; NDCG@10 by its ratings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.data import check_number, check_ratings, encode_labels
from nearkin.evaluation import PairedDifference, paired_difference
from nearkin.experiments.methods import BEYOND, PAPER, SELECT, estimator
from nearkin.preparation import CorrelationFilter, paper_preparation
from nearkin.protocols import (
    FoldScore,
    labels_of,
    leave_one_out,
    noise_ceiling,
    random_holdouts,
    score_methods,
)
from nearkin.study import StudyFolder

Floats = NDArray[np.float64]

METHODS = (*PAPER, *BEYOND)
BASES = ("HYB", "Euclidean")


@dataclass(frozen=True)
class Evaluation:
    """What the methods did on one study.

    Attributes
    ----------
    study : StudyFolder
    k : int
        NDCG at k.
    scores : dict of ndarray, shape (n_objects,)
        NDCG of each object as a query (the mean over repeats), NaN where it has no rating.
    folds : dict of list of FoldScore
        By method.
    n_features : tuple of int
        Features given, and kept when nothing is held out.
    """

    study: StudyFolder
    k: int
    scores: dict[str, Floats]
    folds: dict[str, list[FoldScore]]
    n_features: tuple[int, int]

    def failures(self, method: str) -> list[str]:
        """Return why a method failed, once for each fold on which it did."""
        return [fold.error for fold in self.folds[method] if fold.error]

    def complete(self) -> list[str]:
        """Return the methods that failed nowhere: only these are compared."""
        return [method for method in self.scores if not self.failures(method)]

    def difference(self, method: str, base: str) -> PairedDifference:
        """Compare two methods query by query."""
        return paired_difference(self.scores[method], self.scores[base])


def evaluate_study(
    study: StudyFolder,
    methods: Sequence[str] = METHODS,
    *,
    k: int = 10,
    holdout: float | None = None,
    repeats: int = 1,
    threshold: float = 0.95,
    seed: int = 0,
    n_jobs: int = -1,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Score methods on objects that they have not seen.

    Parameters
    ----------
    study : StudyFolder
        From ``read_study`` or ``lidc_study``.
    methods : sequence of str
        Names from ``METHODS``, or ``"select"``: what ``select`` chooses within each fold.
    k : int, default=10
        NDCG at k.
    holdout : float, optional
        Hold out this share of the objects, ``repeats`` times; by default each object in turn.
    repeats : int, default=1
    threshold : float, default=0.95
        A feature more correlated than this with an earlier one is dropped, fold by fold.
    seed : int, default=0
    n_jobs : int, default=-1
        Processes; they change nothing but the time.
    progress : callable, optional
        Called with (done, total).

    Examples
    --------
    >>> import numpy as np, nearkin as nk
    >>> from nearkin.experiments.real import evaluate_study
    >>> from nearkin.study import StudyFolder
    >>> X = np.random.default_rng(0).normal(size=(12, 3))
    >>> a, b = np.triu_indices(12, k=1)
    >>> level = 3 - np.digitize((X[a, 0] - X[b, 0]) ** 2, [0.5, 2.0])
    >>> objects = nk.Objects(np.arange(12), X, np.array([None] * 12), ["size", "p", "q"])
    >>> study = StudyFolder("ratings", objects, nk.Ratings(a, b, level))
    >>> found = evaluate_study(study, ["CO", "Euclidean"], k=5, n_jobs=1)
    >>> found.difference("CO", "Euclidean").mean > 0
    True
    """
    known = (*METHODS, SELECT)
    unknown = [method for method in methods if method not in known]
    if unknown or not methods:
        raise ValueError(f"methods={list(methods)}: choose from {', '.join(known)}.")
    check_number("evaluate_study", "k", k, 1, whole=True)
    check_number("evaluate_study", "repeats", repeats, 1, whole=True)
    X, n = study.objects.X, len(study.objects)
    check_ratings(study.ratings, n, "evaluate_study")
    folds = leave_one_out(n)
    if holdout is not None:
        folds = random_holdouts(n, holdout, repeats, seed)
    _, details = score_methods(
        {method: estimator(method, seed) for method in dict.fromkeys(methods)},
        X,
        labels_of(study.objects),
        study.ratings,
        folds,
        prepare=paper_preparation(threshold),
        k=k,
        keep_going=True,
        n_jobs=n_jobs,
        progress=progress,
    )
    scores = {method: _by_object(details[method], n) for method in details}
    kept = int(CorrelationFilter(threshold=threshold).fit(X).get_support().sum())
    return Evaluation(study, k, scores, details, (X.shape[1], kept))


def _by_object(folds: list[FoldScore], n: int) -> Floats:
    """Return the mean NDCG of each object over the folds that held it out, NaN without any."""
    total, count = np.zeros((2, n))
    for fold in folds:
        scored = ~np.isnan(fold.ndcg)
        total[fold.queries[scored]] += fold.ndcg[scored]
        count[fold.queries[scored]] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def summary(found: Evaluation) -> list[dict[str, object]]:
    """Return one row for each method: its NDCG over queries, folds that failed or warned."""
    rows: list[dict[str, object]] = []
    for method, values in found.scores.items():
        failed = found.failures(method)
        scored = values[~np.isnan(values)]
        fine = len(scored) > 0 and not failed
        n, sd = len(scored), float(scored.std(ddof=1)) if len(scored) > 1 else 0.0
        folds = found.folds[method]
        rows.append(
            {
                "method": method,
                "ndcg": float(scored.mean()) if fine else float("nan"),
                "sd": sd if fine else float("nan"),
                "se": sd / max(n, 1) ** 0.5 if fine else float("nan"),
                "queries": n,
                "failed": len(failed),
                "warned": sum(bool(fold.warnings) for fold in folds),
                "seconds": sum(fold.seconds for fold in folds),
            }
        )
    return rows


def differences(found: Evaluation) -> list[dict[str, object]]:
    """Return the paired differences of the methods from HYB and from Euclidean."""
    complete = found.complete()
    rows: list[dict[str, object]] = []
    for base in BASES:
        for method in complete:
            if base in complete and method != base:
                d = found.difference(method, base)
                named: dict[str, object] = {"method": method, "minus": base}
                numbers = {"mean": d.mean, "low95": d.low, "high95": d.high, "wins": d.wins}
                rows.append(named | numbers)
    return rows


def extremes(found: Evaluation) -> list[dict[str, object]]:
    """Return each method's best, median and worst query."""
    ids = found.study.objects.ids
    rows: list[dict[str, object]] = []
    for method in found.complete():
        values = found.scores[method]
        order = np.argsort(-values, kind="stable")[: int((~np.isnan(values)).sum())]
        if len(order) == 0:
            continue
        places = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
        row: dict[str, object] = {"method": method}
        for place, at in places.items():
            row |= {place: str(ids[at]), f"ndcg_of_{place}": float(values[at])}
        rows.append(row)
    return rows


def rating_frequencies(study: StudyFolder) -> list[dict[str, object]]:
    """Return the paper's table 1: how often each rating was given."""
    ratings = study.ratings
    words = {1: "1 (dissimilar)", ratings.n_levels: f"{ratings.n_levels} (similar)"}
    weight = np.ones(len(ratings)) if ratings.weight is None else ratings.weight
    return [
        {
            "rating": words.get(level, str(level)),
            "count": int((ratings.level == level).sum()),
            "frequency": float(weight[ratings.level == level].sum() / weight.sum()),
        }
        for level in range(1, ratings.n_levels + 1)
    ]


def class_frequencies(study: StudyFolder) -> list[dict[str, object]]:
    """Return the paper's table 2: how many objects are of each class, or of none known."""
    codes, classes = encode_labels(study.objects.y, len(study.objects))
    names = [*map(str, classes), "(unknown)"]
    counts = np.bincount(np.where(codes < 0, len(classes), codes), minlength=len(names))
    return [
        {"class": name, "count": int(count), "frequency": float(count / len(codes))}
        for name, count in zip(names, counts, strict=True)
        if count or name != "(unknown)"
    ]


def ceiling(found: Evaluation) -> list[dict[str, object]]:
    """Return, where raters are known, each one's NDCG against all the others' ratings."""
    by_rater = noise_ceiling(found.study.ratings, len(found.study.objects), found.k)
    return [{"rater": str(rater), "ndcg": value} for rater, value in by_rater.items()]


def complaints(found: Evaluation) -> list[dict[str, object]]:
    """Return every failure and warning, how often it came, by method."""
    rows: list[dict[str, object]] = []
    for method, folds in found.folds.items():
        said = [("failure", fold.error) for fold in folds if fold.error]
        said += [("warning", text) for fold in folds for text in fold.warnings]
        for kind, text in dict.fromkeys(said):
            times = said.count((kind, text))
            rows.append({"method": method, "kind": kind, "folds": times, "text": text})
    return rows
