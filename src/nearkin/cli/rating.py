"""``nearkin curve`` and ``nearkin suggest``: how many ratings, and which next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options, output
from nearkin.cli.fit import METHODS


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
        thresholds=model.about.get("thresholds"),
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


def curve(
    folder: options.Study,
    method: Annotated[str | None, typer.Option(help=METHODS)] = None,
    more: Annotated[int, typer.Option(min=1, help="Ratings that might come.")] = 50,
    size: Annotated[
        list[int] | None, typer.Option(help="A number of ratings to learn from; repeatable.")
    ] = None,
    ratings: options.Kind = None,
    meta: options.Meta = None,
    feature: options.Feature = None,
    levels: options.Levels = 3,
    correlation: options.Correlation = 0.95,
    standardise: options.Standardise = False,
    folds: Annotated[int, typer.Option(min=2, help="Of objects.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often to deal objects to folds.")] = 3,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="NDCG at this length.")] = 10,
    seed: options.Seed = 0,
    figure: Annotated[Path | None, typer.Option(help="Draw a .png, .svg or .pdf.")] = None,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Measure what more and more ratings bring, and say what further ones would.

    Example: nearkin curve my-study --method or --repeats 1 --figure curve.png
    """
    from nearkin.fitting import method_named
    from nearkin.learning import learning_curve
    from nearkin.preparation import Preparation
    from nearkin.protocols import labels_of

    objects, rated, _ = options.read(folder, ratings, feature, meta, levels)
    with output.progress("folds x sizes") as report:
        found = learning_curve(
            method_named(method, objects, seed),
            objects.X,
            labels_of(objects),
            rated,
            sizes=size or None,
            n_folds=folds,
            n_repeats=repeats,
            k=k,
            prepare=Preparation(correlated_above=correlation, standardise=standardise),
            random_state=seed,
            n_jobs=jobs,
            progress=report,
        )
    if figure is not None:
        found.plot().figure.savefig(figure, dpi=150)
    if as_json:
        output.show_json({**found.to_dict(more), "figure": None if figure is None else str(figure)})
        return
    output.show_table(f"NDCG@{k} of objects held out, by ratings learned from", found.as_rows())
    print(found.expected_gain(more))
    if figure is not None:
        output.note(f"Written: {figure}")


def ratings_so_far(model: Any, folder: Path, kind: str | None) -> Any:
    """Return the ratings that a study folder holds now, of the objects of a model."""
    from nearkin.study import ratings_table
    from nearkin.tables import read_ratings

    folder = folder if folder.is_dir() else folder.parent
    levels = int(model.about["n_levels"])
    return read_ratings(ratings_table(folder, kind)[1], model.objects, n_levels=levels)
