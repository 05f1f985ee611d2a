"""The data sets of ``make bench-quality``, each in parts that hold objects out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import nearkin as nk
from nearkin.experiments import lidc_draws, synthetic_study
from nearkin.experiments.pictures import objects_with_pictures
from nearkin.experiments.weak_labels import draw_weak_labels
from nearkin.protocols import labels_of, leave_one_out, object_folds
from nearkin.study import objects_table, read_study

WEAK_RATINGS = 2_600


@dataclass(frozen=True)
class Case:
    """A data set; ``part(i)`` returns ``X, y, ratings, folds``.

    ``unit`` says what a standard error counts: parts (models, draws), each by its mean, or objects.
    """

    name: str
    about: str
    unit: str
    n_parts: int
    part: Callable


def synthetic_cases(n_models, seed):
    """Return the paper's synthetic study with the fewest and with the most ratings."""
    settings = synthetic_study.Settings(seed=seed)
    percent = [f"{fraction * 100:g} %" for fraction in settings.fractions]
    return [
        Case(
            f"synthetic, {percent[at]}",
            f"{n_models} models of the paper's appendix, {percent[at]} of the pairs of "
            f"{settings.n_train} objects rated; as many new objects are queries",
            "models",
            n_models,
            partial(synthetic_part, settings, at),
        )
        for at in (0, len(settings.fractions) - 1)
    ]


def synthetic_part(settings, at, model):
    study, samples = synthetic_study.draw_samples(settings, model)
    return held_out(study, samples[at])


def weak_label_case(n_draws, seed):
    return Case(
        "weak labels",
        f"{n_draws} draws: 30 classes of 8, barely related to the ratings (classes explain 5 % of "
        f"each feature), {WEAK_RATINGS:,} ratings; 60 new objects are queries",
        "draws",
        n_draws,
        partial(weak_label_part, seed),
    )


def weak_label_part(seed, draw):
    rng = np.random.default_rng([seed, draw])
    study = draw_weak_labels(rng)
    fraction = WEAK_RATINGS / (study.n_train * (study.n_train - 1))
    return held_out(study, study.training_ratings(fraction, rng))


def held_out(study, training_ratings):
    """Return a synthetic study in the form of the protocols: its test objects are one fold."""
    n_train, n = study.n_train, len(study.X)
    query, item = np.divmod(np.arange((n - n_train) * n_train), n_train)
    query += n_train
    ratings = nk.Ratings(
        np.concatenate([training_ratings.a, query]),
        np.concatenate([training_ratings.b, item]),
        np.concatenate([training_ratings.level, study.levels[query, item]]),
    )
    return study.X, study.y, ratings, [np.arange(n_train, n)]


def folder_case(folder, kind, picture, n_folds, seed):
    """Return human ratings from a folder; each fold is a part."""
    study = _study(folder, kind, picture)
    n = len(study.objects)
    return Case(
        folder.name if kind is None else f"{folder.name}, {kind}",
        f"{n} objects, {len(study.ratings):,} human ratings, {study.objects.X.shape[1]} features"
        + (" of the pictures" if picture else "")
        + (f"; {n_folds} folds of objects" if n_folds else "; each object held out in turn"),
        "objects",
        n_folds or n,
        partial(folder_part, folder, kind, picture, n_folds, seed),
    )


@lru_cache(maxsize=4)
def _study(folder, kind, picture):
    objects = objects_with_pictures(folder, picture) if picture else None
    return read_study(folder, kind, objects=objects)


def folder_part(folder, kind, picture, n_folds, seed, fold):
    study = _study(folder, kind, picture)
    n = len(study.objects)
    folds = object_folds(n, n_folds, seed) if n_folds else leave_one_out(n)
    return *_parts(study), [folds[fold]]


def lidc_case(n_draws, seed):
    settings = lidc_draws.Settings(seed=seed)
    return Case(
        "LIDC, derived",
        f"{n_draws} draws of {settings.n_objects} nodules, all pairs by two readers, ratings "
        "derived from attribute scores; each object held out in turn",
        "draws",
        n_draws,
        partial(lidc_part, settings),
    )


def lidc_part(settings, draw):
    study = lidc_draws.study_of_draw(settings, draw)
    return *_parts(study), leave_one_out(len(study.objects))


def _parts(study):
    return study.objects.X, labels_of(study.objects), study.ratings


def all_cases(data, models, draws, folds, seed):
    """Return the cases that can be run here, and notes on those that cannot."""
    cases, notes = [*synthetic_cases(models, seed), weak_label_case(draws, seed)], []
    for name, kind, picture in (
        ("shapes60", "visual", None),
        ("shapes60", "conceptual", None),
        ("objects92", None, "picture"),
    ):
        try:
            if data is None:
                raise FileNotFoundError("no folder of data was named (--data, NEARKIN_DATA)")
            objects_table(Path(data) / name)
        except FileNotFoundError as error:
            notes.append(f"{name}{f', {kind}' if kind else ''} left out: {error}")
        else:
            cases.append(folder_case(Path(data) / name, kind, picture, folds, seed))
    return [*cases, lidc_case(draws, seed)], notes
