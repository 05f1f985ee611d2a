"""``nearkin reproduce``: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import output

app = typer.Typer(help="Run the paper's experiments.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Keep ``synthetic`` a command of its own while it is the only one."""


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


def _by_method(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each method, one column for each size."""
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = table.setdefault(row["method"], {"method": row["method"]})
        line[f"{row['fraction']:.1%}"] = row["mean"]
    return list(table.values())
