"""How good with how many ratings, and what more of them would bring."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.data import check_number
from nearkin.saturating import Saturating

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DRAWS = 500
NEEDS_MATPLOTLIB = "LearningCurve.plot needs matplotlib: pip install 'nearkin[figures]'"


class Gain(NamedTuple):
    """Expected gain in NDCG of ``more`` ratings beside the ``n_ratings`` there are."""

    mean: float
    low: float  # 95 % interval
    high: float
    more: int
    n_ratings: int

    def __str__(self) -> str:
        return (
            f"{self.more} ratings more than the {self.n_ratings} there are: NDCG {self.mean:+.4f} "
            f"[{self.low:+.4f}, {self.high:+.4f}]"
        )


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """NDCG of held-out objects by the number of ratings learned from.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Numbers of ratings learned from.
    scores : ndarray, shape (n_repeats, n_sizes, n_objects)
        NDCG of each object when it was held out, NaN where nobody rated it.
    n_ratings : int
        How many ratings there are. A fold learns from those among its training objects only.
    k : int
        NDCG at k.
    warned : ndarray of int, shape (n_sizes,)
        How many of the fits at each size warned.
    """

    sizes: Integers
    scores: Floats
    n_ratings: int
    k: int
    warned: Integers

    @property
    def n_repeats(self) -> int:
        """How often objects and ratings were drawn."""
        return len(self.scores)

    @cached_property
    def by_object(self) -> Floats:
        """Mean over the repeats, of the objects that have ratings  (n_sizes, n_scored)."""
        scored = ~np.isnan(self.scores).any(axis=(0, 1))
        mean: Floats = self.scores[:, :, scored].mean(axis=0)
        return mean

    @property
    def mean(self) -> Floats:
        """Mean NDCG at each size."""
        mean: Floats = self.by_object.mean(axis=1)
        return mean

    @property
    def standard_error(self) -> Floats:
        """Standard error of the mean over objects, at each size."""
        n = self.by_object.shape[1]
        error: Floats = self.by_object.std(axis=1, ddof=1) / np.sqrt(n)
        return error

    @cached_property
    def fitted(self) -> Saturating:
        """The curve ``a - b n^-c`` through the means."""
        if len(self.sizes) < 3:
            raise ValueError(
                f"LearningCurve: {len(self.sizes)} sizes do not show how it goes on; measure three "
                "or more."
            )
        return Saturating.fit(self.sizes, self.mean)

    @cached_property
    def resampled(self) -> Saturating:
        """Curves through means of objects and repeats drawn anew  (bootstrap)."""
        rng = np.random.default_rng(0)
        scored = self.scores[:, :, ~np.isnan(self.scores).any(axis=(0, 1))]
        R, _, n = scored.shape
        means = [
            scored[rng.integers(0, R, R)].mean(axis=0)[:, rng.integers(0, n, n)].mean(axis=1)
            for _ in range(DRAWS)
        ]
        return Saturating.fit(self.sizes, np.stack(means))

    def expected_gain(self, more: int = 50) -> Gain:
        """Return what ``more`` ratings, of random pairs, would add; with a 95 % interval.

        Read off the curve ``a - b n^-c`` at the number of ratings there are, which lies beyond the
        largest size that folds can learn from. The interval is that of curves through objects and
        repeats drawn anew: it knows nothing of other shapes than this one.
        """
        check_number("LearningCurve.expected_gain", "more", more, 1, whole=True)
        mean = float(self.fitted.gain(self.n_ratings, more))
        gains = self.resampled.gain(self.n_ratings, more)
        low, high = np.quantile(gains, [0.025, 0.975]).tolist()
        return Gain(mean, low, high, more, self.n_ratings)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return one dict for each size."""
        return [
            {
                "ratings": int(size),
                "ndcg": float(mean),
                "standard_error": float(error),
                "repeats": self.n_repeats,
                "warned": int(warned),
            }
            for size, mean, error, warned in zip(
                self.sizes, self.mean, self.standard_error, self.warned, strict=True
            )
        ]

    def to_dict(self, more: int = 50) -> dict[str, Any]:
        """Return the table, the fitted curve and the expected gain as plain values."""
        fitted = self.fitted
        return {
            "k": self.k,
            "n_ratings": self.n_ratings,
            "table": self.as_rows(),
            "curve": {name: float(getattr(fitted, name)) for name in "abc"},
            "expected_gain": self.expected_gain(more)._asdict(),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw means, standard errors and the fitted curve by matplotlib; return the axes."""
        try:
            from matplotlib import pyplot as plt  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ImportError(NEEDS_MATPLOTLIB) from error
        if ax is None:
            ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
        n = np.linspace(self.sizes[0], max(self.n_ratings, self.sizes[-1]), 200)
        curves = np.stack([self.resampled.at(size) for size in n])
        low, high = np.quantile(curves, [0.025, 0.975], axis=1)
        ax.fill_between(n, low, high, color="#56B4E9", alpha=0.3, linewidth=0)
        ax.plot(n, [float(self.fitted.at(size)) for size in n], color="#0072B2", label="fitted")
        ax.errorbar(
            self.sizes, self.mean, self.standard_error, fmt="o", color="black", label="held out"
        )
        ax.axvline(self.n_ratings, color="#999999", linestyle=":", label="ratings there are")
        ax.set(xlabel="ratings learned from", ylabel=f"NDCG@{self.k} of new objects")
        ax.legend(frameon=False, loc="lower right")
        return ax
