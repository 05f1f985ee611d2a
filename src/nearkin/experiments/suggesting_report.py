"""What the experiment on suggested ratings found: tables, a figure, a sentence for each method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.evaluation import paired_difference
from nearkin.experiments.rating_figures import scores_by_strategy
from nearkin.experiments.report import difference_row, write_table
from nearkin.experiments.suggesting import RANDOM, Settings, read_scores

Floats = NDArray[np.float64]
Scores = dict[str, dict[str, Floats]]

DRAWS = 1000


def write_report(folder: Path, settings: Settings) -> tuple[list[Path], list[str]]:
    """Write what was found; return the files and the sentences."""
    scores = read_scores(folder, settings)
    files = [
        write_table(folder / "summary.csv", summary(scores, settings)),
        write_table(folder / "needed.csv", needed(scores, settings)),
    ]
    files += scores_by_strategy(folder / "figure", settings.shares, scores, settings.k)
    return files, sentences(needed(scores, settings), settings)


def summary(scores: Scores, settings: Settings) -> list[dict[str, object]]:
    """Return each mean, and its paired difference from random pairs."""
    rows: list[dict[str, object]] = []
    for method, curves in scores.items():
        for strategy, values in curves.items():
            for at, (share, size) in enumerate(zip(settings.shares, settings.sizes(), strict=True)):
                row = {"method": method, "strategy": strategy, "share": share, "ratings": size}
                row |= {"ndcg": round(float(values[:, at].mean()), 6)}
                lead = paired_difference(values[:, at], curves[RANDOM][:, at])
                over = {f"over_random_{name}": v for name, v in difference_row(lead).items()}
                rows.append(row | over)
    return rows


def needed(scores: Scores, settings: Settings) -> list[dict[str, object]]:
    """Return at how many ratings each strategy has the NDCG that random pairs have at a size.

    ``ratio`` is that number over the size, with a 95 % interval by drawing models anew.
    """
    sizes = np.array(settings.sizes(), dtype=np.float64)
    rows: list[dict[str, object]] = []
    for method, curves in scores.items():
        for strategy in curves:
            if strategy == RANDOM:
                continue
            for at in range(1, len(sizes)):
                ratio, low, high = needed_ratio(curves[strategy], curves[RANDOM], sizes, at)
                rows.append(
                    {
                        "method": method,
                        "strategy": strategy,
                        "share_of_random": settings.shares[at],
                        "ratings_of_random": int(sizes[at]),
                        "ratings": round(ratio * sizes[at], 1),
                        "ratio": round(ratio, 4),
                        "low95": round(low, 4),
                        "high95": round(high, 4),
                    }
                )
    return rows


def needed_ratio(
    values: Floats, base: Floats, sizes: Floats, at: int
) -> tuple[float, float, float]:
    """Return the share of ``sizes[at]`` at which ``values`` reach the base, and an interval."""
    rng = np.random.default_rng(0)
    n = len(values)
    drawn = [rng.integers(0, n, n) for _ in range(DRAWS)]
    ratios = [
        reached(values[rows].mean(axis=0), float(base[rows, at].mean()), sizes) / sizes[at]
        for rows in drawn
    ]
    ratio = reached(values.mean(axis=0), float(base[:, at].mean()), sizes) / sizes[at]
    low = float(np.quantile(ratios, 0.025, method="lower"))  # no mean of two: one may be inf
    return ratio, low, float(np.quantile(ratios, 0.975, method="higher"))


def reached(curve: Floats, value: float, sizes: Floats) -> float:
    """Return where a curve, linear between sizes, first has a value; inf if nowhere."""
    above = np.flatnonzero(curve >= value)
    if len(above) == 0:
        return float("inf")
    k = int(above[0])
    if k == 0:
        return float(sizes[0])
    share = (value - curve[k - 1]) / (curve[k] - curve[k - 1])
    return float(sizes[k - 1] + share * (sizes[k] - sizes[k - 1]))


def sentences(rows: list[dict[str, object]], settings: Settings) -> list[str]:
    """Return one sentence for each method and strategy, at the largest size."""
    return [
        f"{row['method']}: {row['strategy']} pairs have the NDCG of {row['ratings_of_random']} "
        + (
            f"random ones at {row['ratings']}: {row['ratio']:.0%} [{row['low95']:.0%}, "
            f"{row['high95']:.0%}] of the ratings."
            if np.isfinite(float(str(row["ratio"])))
            else "random ones nowhere."
        )
        for row in rows
        if row["share_of_random"] == settings.shares[-1]
    ]
