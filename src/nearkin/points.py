"""Objects as a metric sees them, and the addends of the distance between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """Objects as a metric sees them: features ``x`` (n, K), class probabilities ``u`` (n, M)."""

    x: Floats
    u: Floats | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Any) -> Points:
        """Return the points in ``rows``, a single row number included."""
        rows = [rows] if isinstance(rows, int | np.integer) else rows
        return Points(self.x[rows], None if self.u is None else self.u[rows])


@dataclass(frozen=True, eq=False)
class Contributions:
    """The addends of d2 for pairs of points; together they sum to ``total``.

    ``features`` is (n, K); ``class_pairs`` (n, M, M), row for the query's class and column for
    the item's, or None without a class term.
    """

    features: Floats
    class_pairs: Floats | None
    feature_names: tuple[str, ...]
    classes: NDArray[Any] | None

    @property
    def total(self) -> Floats:
        """d2 of each pair (n,)."""
        total: Floats = self.features.sum(axis=1)
        return total if self.class_pairs is None else total + self.class_pairs.sum(axis=(1, 2))

    def named(self, row: int = 0) -> list[tuple[str, float]]:
        """Return (name, addend) of one pair, largest first."""
        rows = list(zip(self.feature_names, self.features[row].tolist(), strict=True))
        if self.class_pairs is not None and self.classes is not None:
            rows += [
                (f"class {c} - {d}", value)
                for c, line in zip(self.classes, self.class_pairs[row].tolist(), strict=True)
                for d, value in zip(self.classes, line, strict=True)
            ]
        return sorted(rows, key=lambda item: -item[1])
