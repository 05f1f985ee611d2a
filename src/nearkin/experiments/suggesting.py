"""Is it worth asking which pairs to rate? The synthetic study with ratings that are asked for.

Each model starts from the same few random ratings of its training objects. Then ratings come in
batches, of random pairs or of those that a strategy picks from the fit so far, and after each
batch the method is fitted anew and scored on the test objects, as in section 4.1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from nearkin.data import Ratings
from nearkin.evaluation import ndcg
from nearkin.experiments.methods import estimator
from nearkin.experiments.resumable import part_file, run_models
from nearkin.experiments.synthetic import Study, draw_study, sample_model
from nearkin.information import OrdinalView, level_probabilities
from nearkin.passes import single_blas
from nearkin.suggestion import suggest_pairs

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Row = tuple[int, str, str, float, float]

RANDOM, SUGGESTED = "random", "suggested"
STRATEGIES = (RANDOM, "least certain", "nearest", SUGGESTED)
COLUMNS = ("model", "method", "strategy", "share", "ndcg")


@dataclass(frozen=True)
class Settings:
    """Every constant of the experiment; shares are of the 9,900 ordered training pairs."""

    n_models: int = 24
    n_objects: int = 200
    n_train: int = 100
    shares: tuple[float, ...] = (
        *(0.025, 0.0375, 0.05, 0.0625, 0.075, 0.0875),
        *(0.1, 0.1125, 0.125, 0.1375, 0.15),
    )
    methods: tuple[str, ...] = ("Hybrid()", "ItemProfiles", "LatentFeatures")
    strategies: tuple[str, ...] = STRATEGIES
    random_repeats: int = 3
    k: int = 10
    seed: int = 0

    def sizes(self) -> list[int]:
        """Return the numbers of ratings."""
        return [round(share * self.n_train * (self.n_train - 1)) for share in self.shares]


def score_model(settings: Settings, index: int) -> list[Row]:
    """Return the NDCG of every method, strategy and size on one model."""
    rng = np.random.default_rng([settings.seed, index])
    rows: list[Row] = []
    with single_blas():
        study = draw_study(rng, sample_model(rng), settings.n_objects, settings.n_train)
        for method in settings.methods:
            for strategy in settings.strategies:
                repeats = settings.random_repeats if strategy == RANDOM else 1
                curves = [grow(settings, study, method, strategy, index, r) for r in range(repeats)]
                for share, value in zip(settings.shares, np.mean(curves, axis=0), strict=True):
                    rows.append((index, method, strategy, share, float(value)))
    return rows


def grow(
    settings: Settings, study: Study, method: str, strategy: str, index: int, repeat: int
) -> list[float]:
    """Return the NDCG at each size, ratings being asked for by the strategy in between."""
    X, y = study.train
    a, b = np.triu_indices(settings.n_train, k=1)
    sizes = settings.sizes()
    start = np.random.default_rng([settings.seed, index, 0])
    further = np.random.default_rng([settings.seed, index, 1, repeat])
    rated = start.choice(len(a), size=sizes[0], replace=False)
    values: list[float] = []
    fitted: Any = None
    for size in sizes:
        if size > len(rated):
            ratings = Ratings(a[rated], b[rated], study.levels[a[rated], b[rated]])
            more = size - len(rated)
            new = pick(strategy, fitted, X, y, ratings, more, settings.k, further)
            rated = np.concatenate([rated, np.searchsorted(a * len(X) + b, new)])
        ratings = Ratings(a[rated], b[rated], study.levels[a[rated], b[rated]])
        fitted = estimator(method, index).fit(X, y, ratings)
        d = fitted.metric_.distances(fitted.metric_.points(study.queries), fitted.points_)
        values.append(float(ndcg(d, study.query_levels, k=settings.k).mean()))
    return values


def pick(
    strategy: str,
    fitted: Any,
    X: Floats,
    y: Integers,
    ratings: Ratings,
    n: int,
    k: int,
    rng: np.random.Generator,
) -> Integers:
    """Return n unrated pairs (a, b), a < b, as ``a * n_objects + b``."""
    N = len(X)
    if strategy == SUGGESTED:
        found = suggest_pairs(fitted, X, y, ratings, n, k=k)
        return found.a * N + found.b
    a, b = np.triu_indices(N, k=1)
    key = np.setdiff1d(a * N + b, ratings.a * N + ratings.b)
    if strategy == RANDOM:
        return rng.choice(key, size=n, replace=False)
    a, b = np.divmod(key, N)
    view = OrdinalView.of(fitted.metric_, fitted.points_, ratings, fitted.thresholds_)
    d2 = view.d2(a, b)
    worth = -d2
    if strategy == "least certain":
        worth = entr(level_probabilities(d2, view.thresholds)).sum(axis=1)
    return key[np.argsort(-worth, kind="stable")[:n]]


def run(folder: Path, settings: Settings, n_jobs: int = -1) -> Iterator[int]:
    """Score what is not scored yet, yielding the number of finished models."""
    return run_models(folder, settings, COLUMNS, score_model, n_jobs)


def read_scores(folder: Path, settings: Settings) -> dict[str, dict[str, Floats]]:
    """Return the scores of every method and strategy  (n_models, n_sizes)."""
    place = {share: at for at, share in enumerate(settings.shares)}
    shape = (settings.n_models, len(settings.shares))
    scores = {
        method: {strategy: np.full(shape, np.nan) for strategy in settings.strategies}
        for method in settings.methods
    }
    for k in range(settings.n_models):
        with part_file(folder / "models", k).open(newline="") as file:
            for row in csv.DictReader(file):
                at = place[float(row["share"])]
                scores[row["method"]][row["strategy"]][k, at] = float(row["ndcg"])
    return scores
