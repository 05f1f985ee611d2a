"""``nearkin evaluate``: the paper's real-data study on a user's own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import output

TABLES = {
    "rating_frequencies": "Ratings (table 1 of the paper)",
    "class_frequencies": "Classes (table 2)",
    "noise_ceiling": "Raters: NDCG of each one's ratings against all the others'",
    "summary": "NDCG of objects that were held out",
    "differences": "Paired differences, query by query, with 95 % intervals",
    "queries": "Best, median and worst query",
    "complaints": "Failures and warnings",
}


def evaluate(
    study: Annotated[Path, typer.Argument(help="Folder with objects.csv and ratings*.csv.")],
    ratings: Annotated[
        str | None, typer.Option(help="Which ratings, where there are several kinds.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method by name, or select; repeatable; all but select by default."),
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Length of the ranked list.")] = 10,
    holdout: Annotated[
        float | None, typer.Option(help="Hold out this share, not one object after the other.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often to hold out a share.")] = 5,
    correlation: Annotated[float, typer.Option(help="Drop features correlated above.")] = 0.95,
    levels: Annotated[int, typer.Option(min=2, help="Ratings run from 1 to this.")] = 3,
    meta: Annotated[list[str] | None, typer.Option(help="A column that is no feature.")] = None,
    pictures: Annotated[
        str | None, typer.Option(help="Column that names pictures, to take features from.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Every number follows from it.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for tables and figure.")] = None,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Compare methods on a study: hold objects out, learn from the rest, rank, score.

    Example: nearkin evaluate my-study --method HYB --method Euclidean --out results
    """
    from nearkin.experiments.pictures import objects_with_pictures
    from nearkin.experiments.real import METHODS, evaluate_study
    from nearkin.experiments.real_report import as_dict, write_report
    from nearkin.study import rating_tables, read_study

    objects = None if pictures is None else objects_with_pictures(study, pictures)
    kinds: list[Any] = [ratings] if ratings else sorted(rating_tables(study)) or [None]
    studies = [
        read_study(study, kind, meta=meta or (), n_levels=levels, objects=objects) for kind in kinds
    ]
    found = []
    for one in studies:
        output.note(f"{one.name}: {len(one.objects)} objects, {len(one.ratings)} ratings")
        with output.progress(f"{one.name}: folds x methods") as report:
            evaluation = evaluate_study(
                one,
                method or METHODS,
                k=k,
                holdout=holdout,
                repeats=repeats,
                threshold=correlation,
                seed=seed,
                n_jobs=jobs,
                progress=report,
            )
        tables = as_dict(evaluation)
        if out is not None:
            tables["files"] = write_report(out / one.name if len(studies) > 1 else out, evaluation)
        found.append(tables)
        if not as_json:
            show(tables)
    if as_json:
        output.show_json(found)


def show(tables: dict[str, Any]) -> None:
    """Print the tables of one kind of ratings."""
    print(
        f"{tables['ratings']}: {tables['n_objects']} objects, {tables['n_ratings']} ratings, "
        f"{tables['n_features']} features, of which {tables['n_features_kept']} are kept; "
        f"NDCG@{tables['k']}"
    )
    shown = tables | {"queries": [_short(row) for row in tables["queries"]]}
    for name, title in TABLES.items():
        if shown[name]:
            output.show_table(title, shown[name])
    if "files" in tables:
        print("Written: " + ", ".join(str(file) for file in tables["files"]))


def _short(row: dict[str, Any]) -> dict[str, str]:
    """Return the best, median and worst query of a method, each with its score in one cell."""
    places = {p: f"{row[p]} {row[f'ndcg_of_{p}']:.3f}" for p in ("best", "median", "worst")}
    return {"method": row["method"], **places}
