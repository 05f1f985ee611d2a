"""Options that several commands share, and how their text is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Study = Annotated[Path, typer.Argument(help="Folder with objects.csv and ratings.csv.")]
Fitted = Annotated[Path, typer.Argument(help="Folder that nearkin fit was run on, or its model.")]
Kind = Annotated[
    str | None, typer.Option("--ratings", help="Which ratings, where there are several kinds.")
]
Meta = Annotated[
    list[str] | None, typer.Option(help="A column that is no feature, to filter by; repeatable.")
]
Feature = Annotated[
    list[str] | None, typer.Option(help="A feature; repeatable; by default all columns of numbers.")
]
Levels = Annotated[int, typer.Option(min=2, help="Ratings run from 1 (dissimilar) to this.")]
Correlation = Annotated[
    float, typer.Option(min=0, max=1, help="Drop features correlated above this; 1 keeps all.")
]
Standardise = Annotated[
    bool, typer.Option(help="Give features variance 1; learned weights do not need it.")
]
Seed = Annotated[int, typer.Option(min=0, help="Every number follows from it.")]
Nearest = Annotated[int, typer.Option("-k", "--k", min=1, help="How many objects to return.")]
NewObjects = Annotated[
    Path | None, typer.Option("--features", help="CSV or Parquet of new objects, as objects.csv.")
]


def split(text: str, option: str) -> tuple[str, str]:
    """Return both sides of ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not of the form name=value", param_hint=option)
    return name, value


def grouped(texts: Sequence[str] | None, option: str) -> dict[str, list[str]]:
    """Return the values given for each name: one of them must hold."""
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, value = split(text, option)
        found.setdefault(name, []).append(value)
    return found


def read(
    folder: Path, kind: str | None, feature: Any, meta: Any, levels: int
) -> tuple[Any, Any, str]:
    """Return objects, ratings and the name of the ratings of a study folder."""
    from nearkin.study import read_study

    study = read_study(folder, kind, features=feature or None, meta=meta or (), n_levels=levels)
    return study.objects, study.ratings, study.name
