"""The results of the draws of LIDC-IDRI: tables, figure 2, paired differences, verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearkin.evaluation import paired_difference
from nearkin.experiments.figures import scores_by_method
from nearkin.experiments.lidc_draws import DrawScores, Settings, read_scores
from nearkin.experiments.real import BASES
from nearkin.experiments.report import difference_row, write_results, write_table


def write_report(folder: Path, settings: Settings) -> tuple[list[Path], list[str]]:
    """Write everything the study found; return the files and the verdict."""
    scores = read_scores(folder, settings)
    n_draws, n = settings.n_draws, settings.n_objects
    columns = {
        "draw": np.tile(np.repeat(np.arange(n_draws), n), len(scores.ndcg)),
        "method": np.repeat(list(scores.ndcg), n_draws * n),
        "ndcg": np.concatenate([values.ravel() for values in scores.ndcg.values()]),
    }
    files = [
        write_results(folder / "results.parquet", columns),
        write_table(folder / "summary.csv", summary(scores)),
        write_table(folder / "differences.csv", differences(scores)),
        *scores_by_method(
            folder / "figure",
            {method: scores.means(method) for method in scores.complete()},
            f"NDCG@{settings.k} (mean, one standard deviation of {n_draws} draws)",
            f"LIDC-IDRI, derived ratings: {n} nodules, leave one out",
        ),
    ]
    return files, verdicts(scores, settings)


def summary(scores: DrawScores) -> list[dict[str, object]]:
    """Return one row for each method: its NDCG, how it varies by draw and by query, failures."""
    rows: list[dict[str, object]] = []
    for method, values in scores.ndcg.items():
        fine = not scores.failures[method]
        means = scores.means(method) if fine else np.full(len(values), np.nan)
        n = len(means)
        sd = float(means.std(ddof=1)) if n > 1 else 0.0
        rows.append(
            {
                "method": method,
                "mean": round(float(means.mean()), 6),
                "sd": round(sd, 6),
                "se": round(sd / n**0.5, 6),
                "sd_queries": round(float(np.nanstd(values, axis=1).mean()), 6) if fine else "",
                "draws": n,
                "failed": scores.failures[method],
                "warned": scores.warnings[method],
            }
        )
    return rows


def differences(scores: DrawScores) -> list[dict[str, object]]:
    """Return the paired differences, draw by draw, from HYB and from Euclidean."""
    complete = scores.complete()
    rows: list[dict[str, object]] = []
    for base in BASES:
        for method in complete:
            if base in complete and method != base:
                difference = paired_difference(scores.means(method), scores.means(base))
                rows.append({"method": method, "minus": base} | difference_row(difference))
    return rows


def verdicts(scores: DrawScores, settings: Settings) -> list[str]:
    """Return one sentence on the paper's claim that HYB leads by a significant margin."""
    complete = scores.complete()
    others = [method for method in ("OR", "CO", "NCA") if method in complete]
    if "HYB" not in complete or not others:
        return []
    leads = {m: paired_difference(scores.means("HYB"), scores.means(m)) for m in others}
    holds = all(lead.low > 0 for lead in leads.values())
    found = ", ".join(f"{method} {lead}" for method, lead in leads.items())
    return [
        f"'HYB leads by a significant margin': {'holds' if holds else 'is not shown'} on "
        f"{settings.n_draws} draws of {settings.n_objects} nodules with derived ratings; its mean "
        f"NDCG@{settings.k} minus that of {found} (95 % intervals)."
    ]
