"""The addends of one squared distance, as text, as HTML and as a picture.

An addend of a feature is never negative, so by itself it cannot say what brings a pair together.
Each is therefore held against its mean over all pairs of the collection: below it the feature
pulls these two together, above it, it pushes them apart; all these differences sum to the
difference between this pair's d2 and the mean one.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from nearkin.bundle import replaced
from nearkin.text import aligned, html_table, printable

MOST = 12
PICTURES = (".png", ".svg", ".pdf")
NEEDS_MATPLOTLIB = "a picture needs matplotlib: pip install 'nearkin[figures]'"
TOGETHER, APART, PLAIN = "#2a788e", "#d1603d", "#777777"


@dataclass(frozen=True)
class Part:
    """One addend of d2.

    ``query`` and ``item`` are the two objects' values, in original units for a feature. ``usual``
    is the mean addend over all pairs of the collection, None where there is none to compare with.
    """

    name: str
    kind: str  # feature, class pair, ratings, floor
    family: str
    addend: float
    share: float | None
    query: float | None = None
    item: float | None = None
    usual: float | None = None

    @property
    def lean(self) -> float | None:
        """How much it pushes apart (> 0) or pulls together (< 0), against the mean pair."""
        return None if self.usual is None else self.addend - self.usual


@dataclass(frozen=True)
class Explanation:
    """The addends of one squared distance.

    Attributes
    ----------
    query, item : str
        What the two are called.
    labels : tuple
        Their class labels, None where unknown.
    squared_distance : float
        d2. ``parts`` sum to it.
    usual_squared_distance : float or None
        The mean d2 over all pairs of the collection.
    parts : tuple of Part
        Every addend: one for each feature, one for each pair of classes that has a share in it,
        and what ratings said of either object itself.
    groups : tuple of Part
        The same, summed by family; a feature without a family stands for itself, and all class
        terms are one. Largest first.
    """

    query: str
    item: str
    labels: tuple[Any, Any]
    squared_distance: float
    usual_squared_distance: float | None
    parts: tuple[Part, ...]
    groups: tuple[Part, ...]

    @property
    def distance(self) -> float:
        """The distance itself."""
        return math.sqrt(self.squared_distance)

    @property
    def together(self) -> tuple[Part, ...]:
        """Groups that pull these two together against the mean pair, strongest first."""
        return tuple(part for lean, part in self._leaning() if lean < 0)

    @property
    def apart(self) -> tuple[Part, ...]:
        """Groups that push these two apart against the mean pair, strongest first."""
        return tuple(part for lean, part in self._leaning() if lean > 0)

    def _leaning(self) -> list[tuple[float, Part]]:
        leaning = [(part.lean, part) for part in self.groups if part.lean is not None]
        return sorted(leaning, key=lambda pair: -abs(pair[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        found = asdict(self) | {"distance": self.distance}
        for name in ("parts", "groups"):
            found[name] = [asdict(p) | {"lean": p.lean} for p in getattr(self, name)]
        return found

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def __str__(self) -> str:
        lines = aligned(table(self, MOST), left=("part of d2", "values", ""))
        head, *below = (printable(line) for line in (heading(self), *remarks(self)))
        return "\n".join([head, *lines, *below])

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_html(self, path: str | Path) -> None:
        """Write a page that needs nothing else, in one step."""
        title = escape(f"{self.query} and {self.item}")
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>{title}</title></head>"
            f'<body style="font-family:sans-serif">{as_html(self)}</body></html>\n'
        )
        with replaced(Path(path), binary=True) as file:
            file.write(page.encode())

    def save_figure(self, path: str | Path) -> None:
        """Draw the plot into a picture file, its kind by its name, without a screen."""
        path = Path(path)
        if path.suffix.lower() not in PICTURES:
            raise ValueError(f"{path}: pictures are written as {', '.join(PICTURES)} files.")
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ImportError(NEEDS_MATPLOTLIB) from error
        figure = Figure(figsize=picture_size(self), layout="constrained")
        draw(self, figure.add_subplot(), MOST)
        with replaced(path, binary=True) as file:
            figure.savefig(file, format=path.suffix[1:].lower(), dpi=150)

    def plot(self, ax: Any = None, most: int = MOST) -> Any:
        """Draw the largest groups as horizontal bars; return the matplotlib axes."""
        return draw(self, ax, most)


def heading(found: Explanation) -> str:
    """Return both objects with their labels, and the distance."""
    sides = (
        name if label is None else f"{name} ({label})"
        for name, label in zip((found.query, found.item), found.labels, strict=True)
    )
    text = f"{' and '.join(sides)}: distance {found.distance:.4g}"
    text += f", d2 = {found.squared_distance:.4g}"
    mean = found.usual_squared_distance
    return text if mean is None else f"{text} (mean pair of the collection: {mean:.4g})"


def table(found: Explanation, most: int | None = None) -> list[dict[str, str]]:
    """Return the groups as text cells, and the class terms in detail below them.

    Groups beyond ``most``, and those that weigh nothing in any pair, are one row.
    """
    weighty = [part for part in found.groups if part.addend or part.usual is None or part.usual]
    shown = weighty[:most]
    rows = [_cells(part, "") for part in shown]
    rest = [part for part in found.groups if part not in shown]
    if rest:
        addend = math.fsum(part.addend for part in rest)
        total = found.squared_distance
        share = addend / total if total else None
        rows.append(_cells(Part(f"{len(rest)} others", "family", "", addend, share), ""))
    detail = [p for p in found.parts if p.kind != "feature" or p.family != p.name]
    return rows + [_cells(part, "in it: ") for part in detail if abs(part.addend) > 0]


def _cells(part: Part, indent: str) -> dict[str, str]:
    values = "" if part.query is None else f"{part.query:.4g} against {part.item:.4g}"
    return {
        "part of d2": indent + part.name,
        "values": values,
        "addend": f"{part.addend:.4g}",
        "share": "" if part.share is None else f"{part.share:.0%}",
        "mean pair": "" if part.usual is None else f"{part.usual:.4g}",
        "": direction(part),
    }


def direction(part: Part) -> str:
    """Say which way a part moves the pair, against the mean pair."""
    if part.lean is None:
        return ""
    return "together" if part.lean < 0 else "apart" if part.lean > 0 else ""


def remarks(found: Explanation) -> list[str]:
    """Return the two lists that answer the question in words."""
    lines = []
    for what, parts in (
        ("Pulls them together, against the mean pair", found.together),
        ("Pushes them apart", found.apart),
    ):
        if parts:
            shown = ", ".join(f"{part.name} ({part.lean:+.3g})" for part in parts[:5])
            lines.append(f"{what}: {shown}")
    return lines


def as_html(found: Explanation) -> str:
    """Return a table with bars; every name is escaped."""
    rows = table(found)
    addends = [float(row["addend"]) for row in rows]
    low, high = min(0.0, *addends), max(0.0, *addends)
    reach = (high - low) or 1.0
    bars = []
    for row, addend in zip(rows, addends, strict=True):
        width, start = 100 * abs(addend) / reach, 100 * (min(addend, 0.0) - low) / reach
        colour = {"together": TOGETHER, "apart": APART}.get(row[""], PLAIN)
        place = f"width:{width:.1f}%;margin-left:{start:.1f}%"  # negative ones end at the zero
        bar = f'<div style="background:{colour};height:0.8em;{place}"></div>'
        bars.append(f'<td style="width:12em">{bar}</td>')
    return html_table(heading(found), rows, remarks(found), bars)


def draw(found: Explanation, ax: Any, most: int) -> Any:
    """Draw the largest groups as horizontal bars, with a tick at the mean pair's addend."""
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - an extra
        from matplotlib.lines import Line2D  # noqa: PLC0415
        from matplotlib.patches import Patch  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(NEEDS_MATPLOTLIB) from error
    shown = sorted(found.groups, key=lambda part: -max(abs(part.addend), part.usual or 0.0))[:most]
    shown = sorted(shown, key=lambda part: part.addend)
    if ax is None:
        ax = plt.subplots(figsize=picture_size(found), layout="constrained")[1]
    colours = {"together": TOGETHER, "apart": APART, "": PLAIN}
    at = range(len(shown))
    ax.barh(at, [p.addend for p in shown], color=[colours[direction(p)] for p in shown])
    ax.set_yticks(at, [_tick(part) for part in shown], parse_math=False)
    handles: list[Any] = [
        Patch(color=colours[way], label=text)
        for way, text in (("together", "nearer than the mean pair"), ("apart", "farther apart"))
        if any(direction(part) == way for part in shown)
    ]
    if found.usual_squared_distance is not None:
        for y, part in zip(at, shown, strict=True):
            ax.plot([part.usual] * 2, [y - 0.4, y + 0.4], color="black", linewidth=1.5)
        handles.append(Line2D([], [], color="black", label="mean pair"))
    ax.axvline(0.0, color="black", linewidth=0.6)
    rest = len(found.groups) - len(shown)
    left = f" ({rest} smaller ones not shown)" if rest else ""
    ax.set_xlabel(f"addends of $d^2$ = {found.squared_distance:.4g}{left}")
    ax.set_title(f"{found.query} and {found.item}", parse_math=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if handles:
        below = {"loc": "upper center", "bbox_to_anchor": (0.45, -0.09), "ncols": 3}
        ax.legend(handles=handles, frameon=False, **below)  # no bar or tick is under it
    return ax


def picture_size(found: Explanation) -> tuple[float, float]:
    """Return width and height in inches that fit the bars."""
    return 8.0, 1.6 + 0.36 * min(len(found.groups), MOST)


def _tick(part: Part) -> str:
    name = part.name if len(part.name) <= 40 else part.name[:39] + "…"
    return name if part.query is None else f"{name}\n{part.query:.4g} | {part.item:.4g}"
