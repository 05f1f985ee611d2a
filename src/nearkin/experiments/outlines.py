"""Shape numbers of a drawn outline: closed polygons in mm, one or more in each slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

Floats = NDArray[np.float64]

N_POINTS = 64  # to which the boundary is resampled
N_HARMONICS = 8
ANGLES = np.linspace(0, np.pi, 36, endpoint=False)


class Contour(NamedTuple):
    """One closed curve ``points`` (n, 2) in the slice at height z, all in mm.

    ``inside`` is False for a hole.
    """

    z: float
    points: Floats
    inside: bool = True


def polygon_area(points: Floats) -> float:
    """Return the area that a closed polygon (n, 2) encloses."""
    # A = |sum_i x_i y_(i+1) - x_(i+1) y_i| / 2, about the mean to keep digits
    x, y = (points - points.mean(axis=0)).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def perimeter(points: Floats) -> float:
    """Return the length of a closed polygon (n, 2)."""
    steps = np.roll(points, -1, axis=0) - points
    return float(np.hypot(*steps.T).sum())


def resampled(points: Floats, n: int = N_POINTS) -> Floats:
    """Return n points (n, 2) at equal distances along a closed polygon."""
    closed = np.concatenate([points, points[:1]])
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    at = np.linspace(0, length[-1], n, endpoint=False)
    return np.column_stack([np.interp(at, length, closed[:, d]) for d in (0, 1)])


def slice_numbers(points: Floats, area: float) -> dict[str, float]:
    """Return shape numbers of one polygon (n, 2); ``area`` may be net of holes."""
    P = perimeter(points)
    boundary = resampled(points)
    center = boundary.mean(axis=0)
    radius = np.hypot(*(boundary - center).T)  # (N_POINTS,)
    mean = radius.mean() or 1.0
    # width along each direction: max - min of p . (cos t, sin t)
    widths = np.ptp(points @ np.stack([np.cos(ANGLES), np.sin(ANGLES)]), axis=0)
    axes = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(boundary.T)), 1e-12))
    hull_area, hull_perimeter = _hull(points, area, P)
    harmonics = np.abs(np.fft.rfft(radius / mean))[1 : N_HARMONICS + 1] * 2 / N_POINTS
    steps = np.diff(np.concatenate([boundary, boundary[:2]]), axis=0)
    turn = np.angle(np.exp(1j * np.diff(np.arctan2(steps[:, 1], steps[:, 0]))))
    turn *= np.sign(turn.sum()) or 1.0  # whichever way round it was drawn
    spread = radius.std() / mean
    numbers = {
        "area": area,
        "perimeter": P,
        "longest_width": widths.max(),
        "shortest_width": widths.min(),
        "circularity": 4 * np.pi * area / P**2 if P else 1.0,
        "elongation": axes[1] / axes[0],
        "solidity": area / hull_area,
        "convexity": hull_perimeter / P if P else 1.0,
        "extent": area / (np.prod(np.ptp(points, axis=0)) or area),
        "radius_spread": spread,
        "radius_skewness": float(np.mean((radius / mean - 1) ** 3)) / max(spread, 1e-6) ** 3,
        "roughness": float(np.abs(np.diff(radius, append=radius[0])).sum() / mean),
        "bending": float(np.mean(turn**2)),
        "concave_share": float(np.mean(turn < -1e-9)),
    }
    numbers |= {f"harmonic_{k}": value for k, value in enumerate(harmonics, start=1)}
    return {name: float(value) for name, value in numbers.items()}


def _hull(points: Floats, area: float, P: float) -> tuple[float, float]:
    """Return area and length of the convex hull; a polygon without area is its own."""
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return area, P
    return max(float(hull.volume), area), float(hull.area)


def outline_numbers(contours: Sequence[Contour], spacing: float) -> dict[str, float]:
    """Return the numbers of a whole outline: of its largest slice, and over slices.

    Parameters
    ----------
    contours : sequence of Contour
    spacing : float
        Distance of two slices in mm.
    """
    areas: dict[float, float] = {}
    lengths: dict[float, float] = {}
    centers: dict[float, Floats] = {}
    largest: dict[float, tuple[float, Floats]] = {}
    for z, points, inside in contours:
        size = polygon_area(points)
        areas[z] = areas.get(z, 0.0) + (size if inside else -size)
        if not inside:
            continue
        lengths[z] = lengths.get(z, 0.0) + perimeter(points)
        if z not in largest or size > largest[z][0]:
            largest[z] = size, points
            centers[z] = points.mean(axis=0)
    if not largest:
        raise ValueError("an outline without a closed curve that is no hole has no shape.")
    heights = sorted(largest)
    area = np.maximum([areas[z] for z in heights], 1e-3)  # a line or a point has none  (n_slices,)
    widest = heights[int(np.argmax(area))]
    numbers = slice_numbers(largest[widest][1], float(area.max()))
    volume = float(area.sum()) * spacing
    # what the sides show, and the two ends
    surface = sum(lengths[z] for z in heights) * spacing + area[0] + area[-1]
    diameter = float(np.cbrt(6 * volume / np.pi))
    height = heights[-1] - heights[0] + spacing
    path = np.array([centers[z] for z in heights])
    return numbers | {
        "volume": volume,
        "sphere_diameter": diameter,
        "surface": float(surface),
        "sphericity_of_outline": float(np.pi * diameter**2 / surface),
        "height": float(height),
        "flatness": float(height / max(numbers["longest_width"], 1e-3)),
        "area_variation": float(area.std() / area.mean()),
        "drift": float(np.hypot(*path.std(axis=0)) / diameter),
        "holes": float(sum(not contour.inside for contour in contours)),
    }
