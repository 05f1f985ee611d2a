"""``nearkin suggest``: what to rate next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options, output


def suggest(
    folder: options.Fitted,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="How many pairs.")] = 20,
    study: Annotated[
        Path | None, typer.Option(help="Folder with the ratings so far; FOLDER by default.")
    ] = None,
    ratings: options.Kind = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Length of a list of answers.")] = 10,
    per_object: Annotated[
        int | None, typer.Option(min=1, help="How often to suggest the same object at most.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Suggest rated pairs, too.")] = False,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the pairs to a .csv or .parquet file, too.")
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Name the pairs whose rating would teach a fitted model most.

    Example: nearkin suggest my-study -n 20
    """
    from nearkin.model_file import load_model
    from nearkin.suggestion import suggested
    from nearkin.writing import write_rows

    model = load_model(folder)
    rated = ratings_so_far(model, study or folder, ratings)
    found = suggested(
        model.metric,
        model.points,
        rated,
        n,
        k=k,
        per_object=per_object,
        again=again,
        random_state=seed,
    )
    rows = found.as_rows(model.objects.ids)
    if out is not None:
        write_rows(out, rows)
    if as_json:
        output.show_json(rows)
        return
    output.show_table("To rate next; gain: share of what is uncertain in the answers", rows)
    if out is not None:
        output.note(f"Written: {out}")


def ratings_so_far(model: Any, folder: Path, kind: str | None) -> Any:
    """Return the ratings that a study folder holds now, of the objects of a model."""
    from nearkin.study import ratings_table
    from nearkin.tables import read_ratings

    folder = folder if folder.is_dir() else folder.parent
    levels = int(model.about["n_levels"])
    return read_ratings(ratings_table(folder, kind)[1], model.objects, n_levels=levels)
