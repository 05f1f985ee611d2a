"""The demonstration: LIDC-IDRI nodules, methods compared, one search answered and explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.answers import Neighbours
from nearkin.classifiers import KernelClassifier
from nearkin.data import Objects
from nearkin.experiments.figures import latent_space, outlines
from nearkin.experiments.lidc_study import lidc_study, read_nodules
from nearkin.experiments.outlines import polygon_area
from nearkin.explanation import Explanation
from nearkin.fitting import fit_model
from nearkin.latent import LatentFeatures
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.missing import ItemProfiles, rated_rows
from nearkin.model import Model
from nearkin.preparation import Preparation
from nearkin.study import StudyFolder

N_OBJECTS, N_RATED = 241, 60  # the last one is the new nodule
N_NEAREST = 5


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration found: a model, a search for a new nodule, and why its first."""

    model: Model
    neighbours: Neighbours
    explanation: Explanation
    true_class: str
    n_ratings: int
    pictures: dict[str, Path]


def demonstrate(folder: Path, seed: int = 0) -> Demonstration:
    """Fit a distance to nodules of which some are rated, and search it for one more nodule."""
    study = lidc_study(N_OBJECTS, N_RATED, seed=seed)
    known, new = split_last_unrated(study)
    classifier = KernelClassifier(pooled=None, random_state=seed)
    method = Hybrid(
        learner=OrdinalRegression(ridge=1.0), classifier=classifier, missing=ItemProfiles()
    )
    preparation = Preparation(correlated_above=0.95)
    inferring = Hybrid(classifier=classifier, missing=LatentFeatures(random_state=seed))
    model = fit_model(known.objects, known.ratings, method, preparation=preparation)
    query = model.new(new.X, new.ids.tolist())[0]
    found = model.search(query, N_NEAREST)
    explanation = model.explain(query, found.results[0].id)
    pictures = {
        "latent": _latent_picture(folder / "latent.png", known, inferring, preparation),
        "neighbours": _outline_picture(folder / "neighbours.png", str(new.ids[0]), found),
        "explanation": folder / "explanation.png",
    }
    explanation.save_figure(pictures["explanation"])
    return Demonstration(model, found, explanation, str(new.y[0]), len(known.ratings), pictures)


def split_last_unrated(study: StudyFolder) -> tuple[StudyFolder, Objects]:
    """Return the study without its last unrated object, and that object."""
    objects, n = study.objects, len(study.objects)
    unrated = np.flatnonzero(~rated_rows(study.ratings, n))
    rest = np.setdiff1d(np.arange(n), unrated[-1:])
    return (
        replace(study, objects=rows_of(objects, rest), ratings=study.ratings.within(rest)),
        rows_of(objects, unrated[-1:]),
    )


def rows_of(objects: Objects, rows: NDArray[Any]) -> Objects:
    """Return some objects of a table."""
    meta = {name: column[rows] for name, column in objects.meta.items()}
    return Objects(objects.ids[rows], objects.X[rows], objects.y[rows], objects.feature_names, meta)


def _latent_picture(
    path: Path, study: StudyFolder, method: Hybrid, preparation: Preparation
) -> Path:
    """Draw the inferred space of the rated nodules."""
    X = preparation.fit_transform(study.objects.X)
    z = method.fit(X, study.objects.y, study.ratings).missing_.z_
    rated = rated_rows(study.ratings, len(z))
    return latent_space(path, z[rated], study.objects.y[rated])


def _outline_picture(path: Path, query: str, found: Neighbours) -> Path:
    """Draw the largest outline of the new nodule and of each that was found."""
    nodules = {nodule.id: nodule for nodule in read_nodules()}
    drawn = {}
    for key, title in [
        (query, "new"),
        *((r.id, f"{r.rank}: {r.label}\nd = {r.distance:.2f}") for r in found.results),
    ]:
        curves = [c.points for mark in nodules[key].marks for c in mark.contours if c.inside]
        drawn[title] = max(curves, key=polygon_area)
    return outlines(path, drawn)
