"""A study on disk: a folder with a table of objects and one or more tables of ratings."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.bundle import replaced
from nearkin.data import Objects, Ratings, is_missing
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


def objects_table(folder: str | Path) -> Path:
    """Return the table of objects in a folder."""
    paths = [Path(folder) / f"objects{suffix}" for suffix in TABLE_SUFFIXES]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(_lacking(folder, "objects.csv"))
    return found


def _lacking(folder: str | Path, what: str) -> str:
    return (
        f"{folder}: there is no {what} (or .parquet). A study is a folder with a table of objects "
        "(id, label, features...) and a table of ratings (a, b, rating)."
    )


def read_study(
    folder: str | Path,
    ratings: str | None = None,
    *,
    features: Sequence[str] | None = None,
    meta: Sequence[str] = (),
    n_levels: int = 3,
    objects: Any = None,
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
    objects : DataFrame or dict of columns, optional
        Objects with other columns than the folder's table of them, such as features of pictures.
    """
    source = objects_table(folder) if objects is None else objects
    name, table = ratings_table(folder, ratings)
    known = read_objects(source, features=features, meta=meta, text_is_meta=True)
    return StudyFolder(name, known, read_ratings(table, known, n_levels=n_levels))


def ratings_table(folder: str | Path, name: str | None = None) -> tuple[str, Path]:
    """Return the name and the path of a folder's table of ratings, the only one or by name."""
    tables = rating_tables(folder)
    if not tables:
        raise FileNotFoundError(_lacking(folder, "ratings.csv"))
    if name is None and len(tables) > 1:
        raise ValueError(f"{folder} holds ratings of several kinds, {sorted(tables)}; name one.")
    name = next(iter(tables)) if name is None else name
    if name not in tables:
        raise ValueError(f"{folder} holds no ratings named {name!r}; found {sorted(tables)}.")
    return name, tables[name]


def write_study(folder: str | Path, study: StudyFolder) -> list[Path]:
    """Write a study as a folder of two CSV files that ``read_study`` reads; return them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    objects, ratings = study.objects, study.ratings
    labels = ["" if is_missing(label) else str(label) for label in objects.y]
    columns = {"id": objects.ids, "label": labels, **objects.meta}
    features = np.asarray(objects.X, dtype=np.float64).T.tolist()
    columns |= dict(zip(objects.feature_names, features, strict=True))
    ends = {"a": objects.ids[ratings.a], "b": objects.ids[ratings.b]}
    judged = {**ends, "rating": ratings.level, "rater": ratings.rater, "weight": ratings.weight}
    name = "ratings" if study.name == "ratings" else f"ratings_{study.name}"
    return [
        _write_csv(folder / "objects.csv", columns),
        _write_csv(folder / f"{name}.csv", judged),
    ]


def _write_csv(path: Path, columns: dict[str, Any]) -> Path:
    """Write the columns that are there; numbers keep all their digits."""
    given = {name: column for name, column in columns.items() if column is not None}
    with replaced(path) as file:
        writer = csv.writer(file)
        writer.writerow(given)
        writer.writerows(zip(*given.values(), strict=True))
    return path
