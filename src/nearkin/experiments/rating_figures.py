"""Figures about ratings: NDCG by how many there are and how they were chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.experiments.figures import COLOURS, MARKERS, pyplot, saved

Floats = NDArray[np.float64]


def scores_by_strategy(
    path: Path, shares: tuple[float, ...], panels: dict[str, dict[str, Floats]], k: int
) -> list[Path]:
    """Draw mean NDCG against the share of pairs rated, one panel for each method.

    ``panels`` maps a method to scores (n_models, n_shares) by strategy. A band is one standard
    error of the difference from the first strategy, on the same models.
    """
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(4.8 * len(panels), 4.2), squeeze=False)
    percent = 100 * np.asarray(shares)
    for axis, (title, scores) in zip(axes[0], panels.items(), strict=True):
        base = next(iter(scores.values()))
        for at, (strategy, values) in enumerate(scores.items()):
            mean, colour = values.mean(axis=0), COLOURS[at % len(COLOURS)]
            error = (values - base).std(axis=0) / np.sqrt(max(len(values) - 1, 1))
            axis.fill_between(percent, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
            axis.plot(percent, mean, marker=MARKERS[at], color=colour, label=strategy, ms=4)
        axis.set(title=title, xlabel="pairs rated (% of all training pairs)")
        axis.grid(axis="y", alpha=0.3)
        axis.legend(frameon=False, loc="lower right")
    axes[0][0].set_ylabel(f"NDCG@{k} of new objects")
    return saved(plt, figure, path)
