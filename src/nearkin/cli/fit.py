"""``nearkin fit`` and ``nearkin select``: from a study folder to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options, output

METHODS = (
    "hybrid, hybrid-profiles, hybrid-latent, hybrid-latent-x, or, co, nca, euclidean. By default "
    "hybrid, and or without labels."
)
SHOWN = 20


def fit(
    folder: options.Study,
    method: Annotated[
        str | None,
        typer.Option(help=METHODS + " select: the best of many by cross-validation."),
    ] = None,
    ratings: options.Kind = None,
    meta: options.Meta = None,
    feature: options.Feature = None,
    levels: options.Levels = 3,
    correlation: options.Correlation = 0.95,
    standardise: options.Standardise = False,
    folds: Annotated[int, typer.Option(min=2, help="Of objects, to calibrate on.")] = 5,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="The model's file; FOLDER/model.nearkin by default.")
    ] = None,
    jobs: output.Jobs = 1,
    as_json: output.AsJson = False,
) -> None:
    """Learn a distance from a study folder and keep it there.

    Example: nearkin fit my-study --meta patient
    """
    from nearkin.fitting import fit_model, method_named
    from nearkin.model_file import FILE, save_model
    from nearkin.preparation import Preparation

    objects, rated, _ = options.read(folder, ratings, feature, meta, levels)
    preparation = Preparation(correlated_above=correlation, standardise=standardise)
    if method == "select":
        chosen = cross_validated(objects, rated, preparation, seed, jobs)
        estimator = chosen.best_estimator_
        output.note(f"selected: {chosen.best_name_}")
    else:
        estimator = method_named(method, objects, seed)
    with output.progress("folds to calibrate on") as report:
        model = fit_model(
            objects,
            rated,
            estimator,
            preparation=preparation,
            n_folds=folds,
            n_jobs=jobs,
            progress=report,
        )
    file = folder / FILE if out is None else out
    save_model(model, file)
    found = {"file": str(file), **learned(model)}
    if as_json:
        output.show_json(found)
    else:
        show(found, model)


def learned(model: Any) -> dict[str, Any]:
    """Return what a model holds, as plain values."""
    metric, costs = model.metric, None
    if metric.class_costs is not None:
        names = [str(name) for name in metric.classes.tolist()]
        rows = (dict(zip(names, line, strict=True)) for line in metric.class_costs.tolist())
        costs = dict(zip(names, rows, strict=True))
    return {
        "about": model.about,
        "weights": model.weights(),
        "dropped": model.dropped(),
        "class_costs": costs,
        "calibration": None if model.calibration is None else model.calibration.report,
    }


def show(found: dict[str, Any], model: Any) -> None:
    """Print what was learned."""
    about = found["about"]
    print(f"{about['method']}: {about['n_objects']} objects, {about['n_ratings']} ratings")
    print(about["message"])
    rows = found["weights"]
    more = f" (the {SHOWN} weightiest of {len(rows)})" if len(rows) > SHOWN else ""
    title = f"Weights; share: of the mean pair's squared distance{more}"
    output.show_table(title, rows[:SHOWN])
    if found["class_costs"]:
        costs = [{"class": name, **line} for name, line in found["class_costs"].items()]
        output.show_table("Costs of class pairs", costs)
    for gone in found["dropped"]:
        why = f"repeats {gone['repeats']}" if gone["repeats"] else "is constant"
        print(f"dropped: {gone['feature']} {why} (correlation {gone['correlation']:.3f})")
    if model.calibration is not None:
        print(model.calibration)
    print(f"Written: {found['file']}")


def select(
    folder: options.Study,
    ratings: options.Kind = None,
    meta: options.Meta = None,
    feature: options.Feature = None,
    levels: options.Levels = 3,
    correlation: options.Correlation = 0.95,
    standardise: options.Standardise = False,
    folds: Annotated[int, typer.Option(min=2, help="Of objects.")] = 10,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="NDCG at this length.")] = 10,
    seed: options.Seed = 0,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Compare methods on objects held out of a study, and name the one to use.

    Example: nearkin select my-study --meta patient --folds 3
    """
    from nearkin.preparation import Preparation

    objects, rated, _ = options.read(folder, ratings, feature, meta, levels)
    preparation = Preparation(correlated_above=correlation, standardise=standardise)
    chosen = cross_validated(objects, rated, preparation, seed, jobs, folds, k)
    if as_json:
        output.show_json({"best": chosen.best_name_, "table": chosen.table_})
        return
    output.show_table(f"NDCG@{k} of objects held out, and lead over Euclidean", chosen.table_)
    print(f"Best: {chosen.best_name_} (a method must beat Euclidean by a standard error)")


def cross_validated(
    objects: Any,
    ratings: Any,
    preparation: Any,
    seed: int,
    jobs: int,
    folds: int = 10,
    k: int = 10,
) -> Any:
    """Return the choice among the methods worth trying."""
    from nearkin.protocols import labels_of
    from nearkin.selection import select as choose

    with output.progress("folds x methods") as report:
        return choose(
            objects.X,
            labels_of(objects),
            ratings,
            prepare=preparation,
            n_folds=folds,
            k=k,
            random_state=seed,
            n_jobs=jobs,
            progress=report,
        )
