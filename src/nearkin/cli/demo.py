"""``nearkin demo``: the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import output


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    draws: Annotated[int, typer.Option(min=1, help="Studies of 30 nodules to average over.")] = 3,
    jobs: output.Jobs = -1,
    as_json: output.AsJson = False,
) -> None:
    """Compare the methods on LIDC-IDRI, search by a learned distance, and explain an answer.

    Example: nearkin demo --draws 1 --out demo
    """
    from nearkin.experiments import lidc_draws
    from nearkin.experiments.demo import demonstrate
    from nearkin.experiments.demo_page import write_page
    from nearkin.experiments.lidc_report import summary, write_report

    settings = lidc_draws.Settings(n_draws=draws)
    study = out / f"methods-{settings.seed}"
    output.follow("studies", lidc_draws.run(study, settings, jobs), draws)
    files, verdicts = write_report(study, settings)
    rows = [
        {name: row[name] for name in ("method", "mean", "sd", "se")}
        for row in summary(lidc_draws.read_scores(study, settings))
    ]
    output.note("fitting a distance to 240 nodules ...")
    found = demonstrate(out)
    cells = [{n: str(v) if n == "method" else f"{v:.3f}" for n, v in row.items()} for row in rows]
    figure = next(path for path in files if path.suffix == ".png")
    page = write_page(out / "report.html", found, cells, verdicts, figure)
    if as_json:
        search, parts = found.neighbours.to_dict(), found.explanation.to_dict()
        shown = {"methods": rows, "verdicts": verdicts, "search": search, "explanation": parts}
        output.show_json(shown | {"report": page})
        return
    output.show_table(f"NDCG@{settings.k}, derived ratings, {draws} draws of 30 nodules", rows)
    print("\n".join(verdicts))
    print(f"\nA new nodule, its class unknown to the search (it is {found.true_class})")
    print(f"{found.neighbours}\n\n{found.explanation}\n\nReport: {page}")
