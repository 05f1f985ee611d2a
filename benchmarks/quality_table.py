"""Scores of methods on data sets as markdown: means, paired differences, and what failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

BASE = "Hybrid()"
BEGINNING, END = 90, 110  # characters of an error that are shown


@dataclass(frozen=True)
class Results:
    """What methods did on one data set.

    ``values`` holds, by method, the NDCG of each unit (NaN where it failed); ``failures`` what was
    raised and on how many fits; ``n_fits`` how many fits there were.
    """

    case: Any
    values: dict
    failures: dict
    n_fits: int

    @classmethod
    def of(cls, case, rows):
        """Gather rows ``{part, fold, query, method, ndcg, failure}`` of text."""
        by_unit, failures, fits = {}, {}, set()
        for row in rows:
            name = row["method"]
            unit = row["query"] if case.unit == "objects" else row["part"]
            by_unit.setdefault(name, {}).setdefault(unit, []).append(float(row["ndcg"]))
            failures.setdefault(name, {})[row["part"], row["fold"]] = row["failure"]
            fits.add((row["part"], row["fold"]))
        units = sorted({unit for scores in by_unit.values() for unit in scores}, key=int)
        values = {
            name: np.array([mean_of_scored(scores[unit]) for unit in units])
            for name, scores in by_unit.items()
        }
        said = {name: Counter(filter(None, texts.values())) for name, texts in failures.items()}
        return cls(case, values, said, len(fits))

    def complete(self):
        """Return the methods that failed nowhere, best first: only these are compared."""
        fine = [name for name in self.values if not self.failures[name]]
        return sorted(fine, key=lambda name: -np.nanmean(self.values[name]))

    def leaders(self):
        """Return the best method, and those behind it by no more than one standard error."""
        fine = self.complete()
        found = set(fine[:1])
        for name in fine[1:]:
            mean, error = mean_and_error(self.values[fine[0]] - self.values[name])
            if mean <= error:
                found.add(name)
        return found


def mean_of_scored(values):
    """Return the mean of what is no NaN; NaN of nothing."""
    scored = np.array(values)[~np.isnan(values)]
    return scored.mean() if len(scored) else np.nan


def mean_and_error(values):
    """Return a mean and its standard error over units."""
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return np.nan, np.nan
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


class Footnotes:
    """Numbers errors as they come."""

    def __init__(self):
        self.texts = []

    def number(self, text):
        if len(text) > BEGINNING + END:
            text = f"{text[:BEGINNING]} ... {text[-END:]}"
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


def score_cell(result, name, leaders, footnotes):
    """Return mean and standard error, in bold for leaders, or how often and why it failed."""
    if name not in result.values:
        return "-"
    mean, error = mean_and_error(result.values[name])
    failures = result.failures[name]
    if not failures:
        text = f"{mean:.3f} ± {error:.3f}"
        return f"**{text}**" if name in leaders else text
    count = sum(failures.values())
    late = sum(n for text, n in failures.items() if text.startswith("TimeoutError"))
    what = "time-out" if late == count else "fails"
    rest = "" if np.isnan(mean) else f", else {mean:.3f}"
    number = footnotes.number(failures.most_common(1)[0][0])
    return f"{what} {count} of {result.n_fits}{rest} [{number}]"


def difference_cell(result, name):
    """Return the paired difference from ``BASE`` and its standard error."""
    complete = result.complete()
    if name not in complete or BASE not in complete:
        return "-"
    mean, error = mean_and_error(result.values[name] - result.values[BASE])
    return f"{mean:+.3f} ± {error:.3f}"


def table(head, rows):
    return "\n".join(
        "| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)
    )


def write_tables(results, sources, limit):
    """Print both tables, the errors, and what the data sets are."""
    footnotes = Footnotes()
    names = [result.case.name for result in results]
    leaders = [result.leaders() for result in results]
    scores = [
        [name, source]
        + [
            score_cell(result, name, leading, footnotes)
            for result, leading in zip(results, leaders, strict=True)
        ]
        for name, source in sources.items()
    ]
    print("Mean NDCG@10 ± standard error\n")
    print(table(["method", "learns from", *names], scores) + "\n")
    for number, text in enumerate(footnotes.texts, start=1):
        print(f"- [{number}] `{text}`")
    differences = [
        [name, *(difference_cell(result, name) for result in results)]
        for name in sources
        if name != BASE
    ]
    print(f"\nMinus `{BASE}`, paired\n")
    print(table(["method", *names], differences) + "\n")
    for result in results:
        print(f"- {result.case.name}: {result.case.about}; standard errors over {result.case.unit}")
    print(f"- a fit had {limit:g} s")
    print(
        "- bold: the best, and what is behind it by no more than one standard error of the paired"
    )
    print("  difference; only methods that never failed are compared")
