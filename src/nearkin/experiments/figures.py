"""Figures in the paper's form, by matplotlib (extra ``nearkin[figures]``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.experiments.methods import PAPER

Floats = NDArray[np.float64]

MARKERS = "os^Dvp<>*hX"
COLOURS = (  # Okabe and Ito: told apart by the colour-blind
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
    "#000000",
    "#999999",
)


def pyplot() -> Any:
    """Return matplotlib's pyplot without a screen, or say how to install it."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, loaded when it is needed
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'nearkin[figures]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt


def scores_by_size(
    path: Path, fractions: tuple[float, ...], panels: dict[str, dict[str, Floats]], k: int
) -> list[Path]:
    """Draw mean NDCG against the share of pairs rated, bars of one standard deviation.

    ``panels`` maps a title to scores (n_models, n_fractions) by method. Returns the PNG and SVG.
    """
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.4 * len(panels), 4.6), sharey=True, squeeze=False
    )
    percent = 100 * np.asarray(fractions)
    step = 0.02 * (np.ptp(percent) or 1.0)
    for axis, (title, scores) in zip(axes[0], panels.items(), strict=True):
        for at, (method, values) in enumerate(scores.items()):
            shift = (at - (len(scores) - 1) / 2) * step  # bars side by side, not on each other
            axis.errorbar(
                percent + shift,
                values.mean(axis=0),
                yerr=values.std(axis=0),
                marker=MARKERS[at % len(MARKERS)],
                color=COLOURS[at % len(COLOURS)],
                capsize=2.5,
                linewidth=1.4,
                markersize=5,
                label=method,
            )
        axis.set(title=title, xlabel="pairs rated (% of all training pairs)", xticks=percent)
        axis.grid(axis="y", alpha=0.3)
        axis.legend(fontsize=8, ncols=2, loc="upper left")
    axes[0][0].set_ylabel(f"NDCG@{k} (mean, one standard deviation)")
    low, high = axes[0][0].get_ylim()
    axes[0][0].set_ylim(low, high + 0.18 * (high - low))  # room for the legend
    return _saved(plt, figure, path)


def scores_by_method(
    path: Path, scores: dict[str, Floats], quantity: str, title: str
) -> list[Path]:
    """Draw the mean score of each method as a bar, with one standard deviation: figure 2's form.

    ``scores`` holds one number for each case; NaN is left out. Returns the PNG and SVG.
    """
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(1.6 + 0.95 * max(len(scores), 3), 4.6))
    means = np.array([np.nanmean(values) for values in scores.values()])
    spreads = np.array([np.nanstd(values) for values in scores.values()])
    colours = [COLOURS[0] if method in PAPER else COLOURS[-1] for method in scores]
    bars = axis.bar(range(len(scores)), means, yerr=spreads, capsize=4, color=colours, width=0.65)
    axis.bar_label(bars, [f"{mean:.3f}" for mean in means], label_type="center", color="white")
    names = [method.replace(" with ", "\nwith ") for method in scores]
    names = [
        name.replace("Features", "\nFeatures").replace("Profiles", "\nProfiles") for name in names
    ]
    axis.set_xticks(range(len(scores)), names)
    axis.set(title=title, ylabel=quantity)
    axis.set_ylim(0, min(1.0, 1.08 * float(np.max(means + spreads, initial=0.0))) or 1.0)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    return _saved(plt, figure, path)


def _saved(plt: Any, figure: Any, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG, the same bytes each time."""
    figure.tight_layout()
    paths = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    with plt.rc_context({"svg.hashsalt": "nearkin"}):
        for target in paths:
            metadata = {"Date": None} if target.suffix == ".svg" else {}
            figure.savefig(target, dpi=150, metadata=metadata)
    plt.close(figure)
    return paths
