"""A study on disk: a folder with a table of objects and one or more tables of ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkin.data import Objects, Ratings
from nearkin.tables import TABLE_SUFFIXES, read_objects, read_ratings


@dataclass(frozen=True)
class StudyFolder:
    """The objects of a study, and one table of ratings of them."""

    name: str
    objects: Objects
    ratings: Ratings


def rating_tables(folder: str | Path) -> dict[str, Path]:
    """Return the tables of ratings in a folder by name: ``ratings_visual.csv`` is "visual"."""
    found = {}
    for path in sorted(Path(folder).glob("ratings*")):
        stem = path.name.split(".")[0]
        if path.name.removeprefix(stem) in TABLE_SUFFIXES:
            found[stem.removeprefix("ratings").lstrip("_-") or "ratings"] = path
    return found


def read_study(
    folder: str | Path,
    ratings: str | None = None,
    *,
    features: Sequence[str] | None = None,
    meta: Sequence[str] = (),
    n_levels: int = 3,
) -> StudyFolder:
    """Read ``objects.csv`` (or ``.parquet``) and one of the tables ``ratings*.csv``.

    Parameters
    ----------
    folder : path
    ratings : str, optional
        Which table of ratings, where there are several: "visual" for ``ratings_visual.csv``.
    features : sequence of str, optional
        Columns to use as features; by default all that hold numbers and are not ``meta``.
    meta : sequence of str, optional
        Columns to keep beside the features, to filter by; columns of text always are.
    n_levels : int, default=3
        Ratings run from 1 (dissimilar) to this.
    """
    folder = Path(folder)
    tables = rating_tables(folder)
    paths = [folder / f"objects{suffix}" for suffix in TABLE_SUFFIXES]
    objects_path = next((path for path in paths if path.is_file()), None)
    if objects_path is None or not tables:
        lacking = "objects.csv" if objects_path is None else "ratings.csv"
        raise FileNotFoundError(
            f"{folder}: there is no {lacking} (or .parquet). A study is a folder with a table of "
            "objects (id, label, features...) and a table of ratings (a, b, rating)."
        )
    if ratings is None and len(tables) > 1:
        raise ValueError(f"{folder} holds ratings of several kinds, {sorted(tables)}; name one.")
    name = next(iter(tables)) if ratings is None else ratings
    if name not in tables:
        raise ValueError(f"{folder} holds no ratings named {name!r}; found {sorted(tables)}.")
    objects = read_objects(objects_path, features=features, meta=meta, text_is_meta=True)
    return StudyFolder(name, objects, read_ratings(tables[name], objects, n_levels=n_levels))
