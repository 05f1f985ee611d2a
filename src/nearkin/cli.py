"""The command line. Data goes to stdout, messages and progress to stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
except ImportError:  # pragma: no cover - tested in an environment without the extra
    sys.exit("the command line needs typer: pip install 'nearkin[cli]'")

app = typer.Typer(
    help="nearkin learns the distance that experts see, from ratings and class labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
reproduce = typer.Typer(help="Run the paper's experiments.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row.values()))
    Console().print(table)


@app.callback()
def main() -> None:
    """Learn and evaluate distances."""


@reproduce.command()
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
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the synthetic study of section 4.1; an interrupted run goes on where it stopped.

    Example: nearkin reproduce synthetic --models 10 --paper-only --out study
    """
    from nearkin.experiments.synthetic_report import summary, write_report
    from nearkin.experiments.synthetic_study import PAPER, Settings, read_scores, run

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
    _progress("models", models, run(out, settings, jobs))
    files, sentences = write_report(out, settings)
    rows = summary(read_scores(out, settings), settings)
    if as_json:
        found = {"summary": rows, "verdicts": sentences, "files": [str(file) for file in files]}
        print(json.dumps(found, indent=2))
        return
    _table(f"NDCG@{k}, {models} models", _by_method(rows))
    print("\n".join(sentences))
    print("Written: " + ", ".join(str(file) for file in files))


def _by_method(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each method, one column for each size."""
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = table.setdefault(row["method"], {"method": row["method"]})
        line[f"{row['fraction']:.1%}"] = row["mean"]
    return list(table.values())


def _progress(what: str, total: int, counts: Any) -> None:
    """Show on stderr how far a long job is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        for count in counts:
            bar.update(task, completed=count)


def run_app() -> None:
    """Run the command line: an error is one message, an interrupt a clean stop."""
    try:
        app()
    except (ValueError, TypeError, FileNotFoundError, ImportError, PermissionError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(
            "interrupted: what was finished is kept; run the same command to go on", file=sys.stderr
        )
        sys.exit(130)


if __name__ == "__main__":
    run_app()
