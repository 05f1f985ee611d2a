"""The results of the synthetic study: tables, figure, paired differences, verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.evaluation import paired_difference
from nearkin.experiments.figures import scores_by_size
from nearkin.experiments.methods import PAPER
from nearkin.experiments.report import difference_row, write_results, write_table
from nearkin.experiments.synthetic_study import BOUNDS, Settings, read_scores

Floats = NDArray[np.float64]
Scores = dict[str, Floats]


def write_report(folder: Path, settings: Settings) -> tuple[list[Path], list[str]]:
    """Write everything the study found; return the files and the verdicts."""
    scores = read_scores(folder, settings)
    files = [
        write_results(folder / "results.parquet", _results(scores, settings)),
        write_table(folder / "summary.csv", summary(scores, settings)),
        write_table(folder / "differences.csv", differences(scores, settings)),
    ]
    papers = {method: scores[method] for method in PAPER if method in scores}
    others = {
        method: scores[method]
        for method in settings.methods
        if method not in papers and method not in BOUNDS
    }
    panels = {"The paper's methods": papers}
    if others:
        panels["Beyond the paper"] = others
    files += scores_by_size(folder / "figure", settings.fractions, panels, settings.k)
    return files, verdicts(scores, settings)


def summary(scores: Scores, settings: Settings) -> list[dict[str, object]]:
    """Return mean, standard deviation and standard error by method and size."""
    n = settings.n_models
    return [
        {
            "method": method,
            "fraction": fraction,
            "mean": round(float(values[:, at].mean()), 6),
            "sd": round(float(values[:, at].std(ddof=1)) if n > 1 else 0.0, 6),
            "standard_error": round(float(values[:, at].std(ddof=1)) / n**0.5 if n > 1 else 0.0, 6),
            "models": n,
        }
        for method, values in scores.items()
        for at, fraction in enumerate(settings.fractions)
    ]


def differences(scores: Scores, settings: Settings) -> list[dict[str, object]]:
    """Return the paired differences of all methods from HYB, or from the first, by size."""
    base = "HYB" if "HYB" in scores else next(iter(scores))
    rows: list[dict[str, object]] = []
    for method, values in scores.items():
        if method == base:
            continue
        for at, fraction in enumerate(settings.fractions):
            d = paired_difference(values[:, at], scores[base][:, at])
            row = {"method": method, "minus": base, "fraction": fraction}
            rows.append(row | difference_row(d))
    return rows


def verdicts(scores: Scores, settings: Settings) -> list[str]:
    """Return one sentence on each claim of the paper that these methods can tell of."""
    others = [method for method in ("OR", "CO", "NCA") if method in scores]
    if "HYB" not in scores or not others:
        return []
    last = f"{settings.fractions[-1]:.1%}"
    leads = {m: paired_difference(scores["HYB"][:, -1], scores[m][:, -1]) for m in others}
    all_lead = all(lead.low > 0 for lead in leads.values())
    found = ", ".join(f"{m} {lead}" for m, lead in leads.items())
    sentences = [
        f"'HYB leads': {'holds' if all_lead else 'is not shown'} at {last} of the pairs; its mean "
        f"NDCG@{settings.k} minus that of {found} (95 % intervals)."
    ]
    if len(settings.fractions) > 1:
        rival = max(others, key=lambda m: float(scores[m][:, -1].mean()))
        lead = scores["HYB"] - scores[rival]
        growth = paired_difference(lead[:, -1], lead[:, 0])
        first = f"{settings.fractions[0]:.1%}"
        sentences.append(
            "'The advantage grows with the ratings': "
            f"{'holds' if growth.low > 0 else 'is not shown'}"
            f"; from {first} to {last} HYB's lead over {rival}, the best of the others, changes by "
            f"{growth}."
        )
    return sentences


def _results(scores: Scores, settings: Settings) -> dict[str, object]:
    """Return every score as columns of one table."""
    n, sizes = settings.n_models, len(settings.fractions)
    return {
        "model": np.tile(np.repeat(np.arange(n), sizes), len(scores)),
        "fraction": np.tile(settings.fractions, n * len(scores)),
        "method": np.repeat(list(scores), n * sizes),
        "ndcg": np.concatenate([values.ravel() for values in scores.values()]),
    }
