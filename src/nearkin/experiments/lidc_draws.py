"""Section 4.2's study on LIDC-IDRI, drawn many times: 30 nodules, two readers, leave one out.

The paper had one set of 30 images. One set of 30 says little, so the study is repeated on many
draws, and methods are compared draw by draw. Resumable: each draw's scores are a file.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.experiments.lidc_study import lidc_study
from nearkin.experiments.real import METHODS, evaluate_study
from nearkin.experiments.resumable import Row, part_file, run_parts
from nearkin.passes import single_blas
from nearkin.study import StudyFolder

Floats = NDArray[np.float64]

COLUMNS = ("draw", "nodule", "method", "ndcg", "failure", "warnings")


@dataclass(frozen=True)
class Settings:
    """Every constant of the study; the defaults are the paper's, repeated 20 times."""

    n_draws: int = 20
    n_objects: int = 30
    feature_readers: int = 2
    malignancy: bool = False
    k: int = 10
    threshold: float = 0.95
    methods: tuple[str, ...] = METHODS
    seed: int = 0


@dataclass(frozen=True)
class DrawScores:
    """NDCG by method ``(n_draws, n_objects)``, and folds that failed or warned, by method."""

    ndcg: dict[str, Floats]
    failures: dict[str, int]
    warnings: dict[str, int]

    def complete(self) -> list[str]:
        """Return the methods that failed nowhere: only these are compared."""
        return [method for method in self.ndcg if not self.failures[method]]

    def means(self, method: str) -> Floats:
        """Return the mean NDCG of each draw  (n_draws,)."""
        mean: Floats = np.nanmean(self.ndcg[method], axis=1)
        return mean


def study_of_draw(settings: Settings, draw: int) -> StudyFolder:
    """Return the study of one draw; it does not depend on how many are drawn."""
    return lidc_study(
        settings.n_objects,
        feature_readers=settings.feature_readers,
        malignancy=settings.malignancy,
        seed=int(np.random.SeedSequence([settings.seed, draw]).generate_state(1)[0]),
    )


def score_draw(settings: Settings, draw: int, study: StudyFolder) -> list[Row]:
    """Return the NDCG of every method and nodule of a draw."""
    with single_blas():
        found = evaluate_study(
            study,
            settings.methods,
            k=settings.k,
            threshold=settings.threshold,
            seed=settings.seed,
            n_jobs=1,
        )
    return [
        (
            draw,
            str(study.objects.ids[fold.queries[0]]),
            method,
            float(fold.ndcg[0]),
            fold.error,
            len(fold.warnings),
        )
        for method in settings.methods
        for fold in found.folds[method]
    ]


def run(folder: Path, settings: Settings, n_jobs: int = -1) -> Iterator[int]:
    """Score what is not scored yet, yielding the number of finished draws."""
    constants = asdict(settings)
    constants.pop("n_draws")  # more draws may be added to a finished study

    def prepare(draw: int) -> Callable[[], list[Row]]:
        return partial(score_draw, settings, draw, study_of_draw(settings, draw))

    return run_parts(folder / "draws", constants, COLUMNS, prepare, settings.n_draws, n_jobs)


def read_scores(folder: Path, settings: Settings) -> DrawScores:
    """Return what is known of all draws."""
    shape = (settings.n_draws, settings.n_objects)
    ndcg = {method: np.full(shape, np.nan) for method in settings.methods}
    failures = dict.fromkeys(settings.methods, 0)
    warnings = dict.fromkeys(settings.methods, 0)
    for draw in range(settings.n_draws):
        place: dict[str, int] = {}
        with part_file(folder / "draws", draw).open(newline="") as file:
            for row in csv.DictReader(file):
                method, at = row["method"], place.setdefault(row["nodule"], len(place))
                ndcg[method][draw, at] = float(row["ndcg"])
                failures[method] += bool(row["failure"])
                warnings[method] += int(row["warnings"]) > 0
    return DrawScores(ndcg, failures, warnings)
