"""``nearkin export`` and ``nearkin import``: to and from other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options, output


class Target(StrEnum):
    """What can be written."""

    parquet = "parquet"
    pgvector = "pgvector"
    onnx = "onnx"


def export(
    folder: options.Fitted,
    to: Annotated[
        Target,
        typer.Option(help="parquet: vectors; pgvector: an SQL script; onnx: the distance itself."),
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    table: Annotated[
        str, typer.Option(help="Name of the table that the pgvector script makes.")
    ] = "nearkin_objects",
    as_json: output.AsJson = False,
) -> None:
    """Write a fitted model for another engine, with the recipe of a query's vector.

    Example: nearkin export my-study --to parquet --out vectors.parquet
    """
    from nearkin.model_file import load_model

    model = load_model(folder)
    if to is Target.onnx:
        from nearkin.onnx_export import export_onnx

        export_onnx(model, out)
    elif to is Target.pgvector:
        from nearkin.exports import export_pgvector

        export_pgvector(model, out, table)
    else:
        from nearkin.exports import export_parquet

        export_parquet(model, out)
    if as_json:
        output.show_json({"file": str(out), "to": to.value, "objects": len(model.objects)})
    else:
        print(f"Written: {out} ({len(model.objects)} objects)")


def import_(
    folder: Annotated[Path, typer.Argument(help="The study folder to make.")],
    objects: Annotated[Path, typer.Option(help="CSV or Parquet, one row for each object.")],
    ratings: Annotated[Path, typer.Option(help="CSV or Parquet, one row for each rating.")],
    id_: Annotated[str, typer.Option("--id", help="Column with the object's id.")] = "id",
    label: Annotated[str, typer.Option(help="Column with its class, if there is one.")] = "label",
    a: Annotated[str, typer.Option(help="Column with the first object of a pair.")] = "a",
    b: Annotated[str, typer.Option(help="Column with the second one.")] = "b",
    rating: Annotated[str, typer.Option(help="Column with the rating.")] = "rating",
    rater: Annotated[str, typer.Option(help="Column with the rater.")] = "rater",
    weight: Annotated[str, typer.Option(help="Column with a weight.")] = "weight",
    meta: options.Meta = None,
    feature: options.Feature = None,
    levels: options.Levels = 3,
    force: Annotated[bool, typer.Option("--force", help="Replace a study that is there.")] = False,
    as_json: output.AsJson = False,
) -> None:
    """Make a clean study folder from tables with other names, all bad rows reported.

    Example: nearkin import new-study --objects cases.csv --ratings pairs.csv --id case --a left
    --b right --rating score
    """
    from nearkin.study import StudyFolder, write_study
    from nearkin.tables import read_objects, read_ratings

    taken = [path for path in (folder / "objects.csv", folder / "ratings.csv") if path.exists()]
    if taken and not force:
        raise FileExistsError(f"{taken[0]} is there already; --force replaces it.")
    found = read_objects(
        objects, id=id_, label=label, features=feature or None, meta=meta or (), text_is_meta=True
    )
    rated = read_ratings(
        ratings, found, a=a, b=b, rating=rating, rater=rater, weight=weight, n_levels=levels
    )
    files = [str(path) for path in write_study(folder, StudyFolder("ratings", found, rated))]
    summary = {
        "files": files,
        "objects": len(found),
        "labelled": sum(value is not None for value in found.y),
        "features": found.feature_names,
        "meta": sorted(found.meta),
        "ratings": len(rated),
    }
    if as_json:
        output.show_json(summary)
        return
    print(
        f"{len(found)} objects ({summary['labelled']} labelled), {len(found.feature_names)} "
        f"features, {len(rated)} ratings"
    )
    print("Written: " + ", ".join(files))
    again = " ".join(f"--meta {name}" for name in meta or ())
    print(f"Next: nearkin fit {folder} {again}".rstrip())
