"""The synthetic study of section 4.1, whole: all models, sizes and methods, resumable.

A folder holds ``settings.json``, a file of scores for each finished model, and, at the end, the
results. A run that was interrupted goes on where it stopped; every number follows from the seed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.classifiers import KernelClassifier
from nearkin.data import Ratings
from nearkin.evaluation import ndcg
from nearkin.experiments.methods import BEYOND, PAPER, estimator
from nearkin.experiments.resumable import part_file, run_models
from nearkin.experiments.synthetic import GenerativeModel, Study, draw_study, sample_model
from nearkin.metric import Metric
from nearkin.passes import single_blas

Floats = NDArray[np.float64]
Row = tuple[int, float, str, float]

BOUNDS = ("true r, Q and our u", "true r and z")
COLUMNS = ("model", "fraction", "method", "ndcg")


@dataclass(frozen=True)
class Settings:
    """Every constant of the study; the defaults are the paper's."""

    n_models: int = 100
    n_objects: int = 200
    n_train: int = 100
    noise: float = 50.0
    fractions: tuple[float, ...] = (0.05, 0.075, 0.10, 0.125, 0.15)
    k: int = 10
    n_features: int = 20
    n_missing: int = 20
    n_classes: int = 3
    observed_parts: int = 5
    missing_parts: int = 2
    rate_observed: float = 1.0
    rate_missing: float = 0.2
    methods: tuple[str, ...] = (*PAPER, *BEYOND, *BOUNDS)
    seed: int = 0


def draw_samples(settings: Settings, index: int) -> tuple[Study, list[Ratings]]:
    """Return the objects of one model, and its training ratings of each size."""
    rng = np.random.default_rng([settings.seed, index])
    model = sample_model(
        rng,
        settings.n_features,
        settings.n_missing,
        settings.n_classes,
        settings.observed_parts,
        settings.missing_parts,
        settings.rate_observed,
        settings.rate_missing,
    )
    study = draw_study(rng, model, settings.n_objects, settings.n_train, settings.noise)
    return study, [study.training_ratings(fraction, rng) for fraction in settings.fractions]


def score_model(settings: Settings, index: int) -> list[Row]:
    """Return the NDCG of every method and size on one model."""
    with single_blas():
        study, samples = draw_samples(settings, index)
        rows: list[Row] = []
        for method in settings.methods:
            # what learns from labels alone, or from nothing, is the same at every size
            once = method in ("NCA", "Euclidean", *BOUNDS)
            value = 0.0
            for size, (fraction, ratings) in enumerate(
                zip(settings.fractions, samples, strict=True)
            ):
                if size == 0 or not once:
                    d = _distances(method, study, ratings, index)
                    value = float(ndcg(d, study.query_levels, k=settings.k).mean())
                rows.append((index, fraction, method, value))
    return rows


def _distances(method: str, study: Study, ratings: Any, seed: int) -> Floats:
    X, y = study.train
    if method in BOUNDS:
        return _bound(method, study, seed)
    fitted = estimator(method, seed).fit(X, y, ratings)
    d: Floats = fitted.metric_.distances(fitted.metric_.points(study.queries), fitted.points_)
    return d


def _bound(method: str, study: Study, seed: int) -> Floats:
    """Return squared distances by the truth: what no method of its kind can beat."""
    X, y = study.train
    truth = Metric(study.model.r)
    d2 = truth.distances(truth.points(study.queries), truth.points(X), squared=True)
    if method == "true r and z":
        missing = Metric(study.model.r_missing)
        z, z_queries = study.Z[: study.n_train], study.Z[study.n_train :]
        return d2 + missing.distances(missing.points(z_queries), missing.points(z), squared=True)
    u = KernelClassifier(random_state=seed).fit(X, y).predict_proba(study.queries)
    return d2 + u @ true_class_costs(study.model)[np.unique(y)][:, y]


def true_class_costs(model: GenerativeModel) -> Floats:
    """Return Q_cc' = E[d2 of the missing features | c, c'] of two independent objects (M, M)."""
    # E z^2 = sum of shares (mu^2 + diag(F^T F)) for a mixture of N(mu, F^T F)
    mean = np.stack([m.shares @ m.means for m in model.missing])
    square = np.stack(
        [m.shares @ (m.means**2 + np.sum(m.factors**2, axis=1)) for m in model.missing]
    )
    own = square @ model.r_missing
    Q: Floats = own[:, None] + own - 2.0 * (mean * model.r_missing) @ mean.T
    return Q


def run(folder: Path, settings: Settings, n_jobs: int = -1) -> Iterator[int]:
    """Score what is not scored yet, yielding the number of finished models."""
    return run_models(folder, settings, COLUMNS, score_model, n_jobs)


def model_file(folder: Path, index: int) -> Path:
    """Return where the scores of a model are kept."""
    return part_file(folder / "models", index)


def read_scores(folder: Path, settings: Settings) -> dict[str, Floats]:
    """Return the scores of every method  (n_models, n_fractions)."""
    place = {fraction: at for at, fraction in enumerate(settings.fractions)}
    shape = (settings.n_models, len(settings.fractions))
    scores = {method: np.full(shape, np.nan) for method in settings.methods}
    for k in range(settings.n_models):
        with model_file(folder, k).open(newline="") as file:
            for row in csv.DictReader(file):
                at = place[float(row["fraction"])]
                scores[row["method"]][k, at] = float(row["ndcg"])
    return scores
