"""The answer to a search, for people: how near, how sure, which classes, and whether known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nearkin.data import is_missing
from nearkin.text import aligned, html_table, printable


@dataclass(frozen=True)
class Neighbour:
    """One object that was found.

    ``percentile`` says which share of all pairs of the collection, in percent, are at most this
    far apart: small is near. ``similar`` is the probability that a rater calls the pair similar
    (the top level of the scale), None where it was not calibrated.
    """

    rank: int
    id: str
    label: Any
    distance: float
    percentile: float
    similar: float | None


@dataclass(frozen=True)
class ClassCount:
    """How many of the neighbours have a label, and which share of the collection has it."""

    label: Any
    count: int
    of: int
    collection: float

    def __str__(self) -> str:
        name = "no label" if self.label is None else self.label
        return f"{self.count} of {self.of} {name} (collection {self.collection:.0%})"


@dataclass(frozen=True)
class Neighbours:
    """The objects nearest to one query.

    Attributes
    ----------
    query : str
        Id of the query, or what it was called.
    results : tuple of Neighbour
        Nearest first.
    classes : tuple of ClassCount
        Most frequent first.
    outside : bool
        Whether the query lies outside of what the collection knows (see ``spread.Reach``).
    verdict : str
        That in words, and whether even the nearest is probably not similar.
    notes : tuple of str
        How the numbers came about.
    """

    query: str
    results: tuple[Neighbour, ...]
    classes: tuple[ClassCount, ...]
    outside: bool
    verdict: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.results)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return one dict for each neighbour: a table to print, or for a DataFrame."""
        return [{"query": self.query, **asdict(found)} for found in self.results]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def cells(self) -> list[dict[str, str]]:
        """Return the table of neighbours as text, column by column."""
        return [
            {
                "#": str(found.rank),
                "id": found.id,
                "label": "" if found.label is None else str(found.label),
                "distance": f"{found.distance:.4g}",
                "percentile": f"{found.percentile:.3g} %",
                "P(similar)": "" if found.similar is None else f"{found.similar:.2f}",
            }
            for found in self.results
        ]

    def __str__(self) -> str:
        table = aligned(self.cells(), left=("id", "label"))
        lines = [f"Nearest to {self.query}", *self.summary()]
        head, *below = (printable(line) for line in lines)
        return "\n".join([head, *table, *below])

    def summary(self) -> list[str]:
        """Return classes, verdict and notes as lines."""
        classes = [", ".join(str(found) for found in self.classes)] if self.classes else []
        return [*classes, self.verdict, *self.notes]

    def _repr_html_(self) -> str:
        return html_table(f"Nearest to {self.query}", self.cells(), self.summary())


def class_shares(labels: Sequence[Any]) -> dict[Any, float]:
    """Return the share of the collection that has each label; None is no label."""
    shares: dict[Any, float] = {}
    for label in labels:
        key = None if is_missing(label) else label
        shares[key] = shares.get(key, 0.0) + 1.0 / len(labels)
    return shares


def count_classes(labels: Sequence[Any], shares: dict[Any, float]) -> tuple[ClassCount, ...]:
    """Return how often each label stands among the neighbours, most frequent first."""
    if set(shares) <= {None}:
        return ()
    counts: dict[Any, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return tuple(
        ClassCount(label, count, len(labels), shares.get(label, 0.0))
        for label, count in sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    )


def verdict(nearest: float, limit: float, similar: float | None) -> tuple[bool, str]:
    """Say whether a query is outside of what the collection knows, and if not, how similar.

    ``nearest`` is its distance by features alone to the nearest object, ``limit`` the collection's.
    """
    if nearest > limit:
        # a limit of 0: the collection repeats its objects, or the metric weighs no feature
        times = f"{nearest / limit:.1f} times as far as" if limit > 0 else "farther than"
        return True, (
            f"OUTSIDE what I know: by its features it lies {times} the limit that 99 % of the "
            "collection keep from their nearest; do not rely on this answer."
        )
    if similar is not None and similar < 0.5:
        return False, (
            "Within what I know, but nothing is really similar: even for the nearest, "
            f"P(similar) is {similar:.2f}."
        )
    return False, "Within what I know."
