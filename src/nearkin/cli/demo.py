"""``nearkin demo``: the demonstration."""

from __future__ import annotations

from typing import Annotated

import typer

from nearkin.cli import output


def demo(
    models: Annotated[int, typer.Option(min=1, help="Synthetic models to average over.")] = 20,
    as_json: output.AsJson = False,
) -> None:
    """Compare the methods on the paper's synthetic model, and explain one search.

    Example: nearkin demo --models 2
    """
    from nearkin.experiments.demo import evaluate, main

    if not as_json:
        main(["--models", str(models)])
        return
    scores, _, _ = evaluate(models)
    rows = {name: {"mean": values.mean(), "sd": values.std()} for name, values in scores.items()}
    output.show_json({"models": models, "ndcg@10": rows})
