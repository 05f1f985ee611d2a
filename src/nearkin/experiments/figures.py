"""Figures in the paper's form, by matplotlib (extra ``nearkin[figures]``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.data import is_missing
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
    return saved(plt, figure, path)


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
    return saved(plt, figure, path)


def latent_space(path: Path, z: Floats, labels: NDArray[Any]) -> Path:
    """Draw the first two axes of an inferred space (n, J), coloured by class."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(5.4, 4.6))
    names = ["" if is_missing(label) else str(label) for label in labels]
    plane = np.column_stack([z, np.zeros(len(z))])[:, :2]
    for at, name in enumerate(sorted(set(names))):
        own = plane[np.array([other == name for other in names])]
        axis.scatter(
            *own.T,
            marker=MARKERS[at % len(MARKERS)],
            color=COLOURS[at % len(COLOURS)],
            label=name or "no label",
            alpha=0.85,
        )
    axis.set(xlabel="first axis", ylabel="second axis", aspect="equal")
    axis.set_title("Inferred features that the given ones miss", fontsize=11)
    axis.legend()
    axis.grid(alpha=0.3)
    return saved(plt, figure, path, (path.suffix,))[0]


def outlines(path: Path, curves: dict[str, Floats]) -> Path:
    """Draw closed curves (n, 2) side by side, each under its title, on one scale."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(curves), figsize=(1.7 * len(curves), 2.4), squeeze=False)
    reach = 0.55 * max(float(np.ptp(points, axis=0).max()) for points in curves.values())
    for at, (axis, (title, points)) in enumerate(zip(axes[0], curves.items(), strict=True)):
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        axis.fill(*(points - middle).T, color=COLOURS[1 if at == 0 else 0], alpha=0.75)
        axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
        axis.set_title(title, fontsize=9, parse_math=False)
    axes[0][0].set_xlabel(f"{2 * reach:.0f} mm wide", fontsize=8)
    return saved(plt, figure, path, (path.suffix,))[0]


def saved(
    plt: Any, figure: Any, path: Path, suffixes: tuple[str, ...] = (".png", ".svg")
) -> list[Path]:
    """Write a figure as PNG and SVG, the same bytes each time."""
    figure.tight_layout()
    paths = [path.with_suffix(suffix) for suffix in suffixes]
    with plt.rc_context({"svg.hashsalt": "nearkin"}):
        for target in paths:
            metadata = {"Date": None} if target.suffix == ".svg" else {}
            figure.savefig(target, dpi=150, metadata=metadata)
    plt.close(figure)
    return paths
