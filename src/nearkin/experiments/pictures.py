"""A few hand-made numbers of a picture, so that a study of pictures can be evaluated as it lies.

Colour moments, a coarse thumbnail, histograms of gradient orientation: 89 numbers, no learning.
Needs Pillow (extra ``nearkin[pictures]``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.study import objects_table
from nearkin.tables import SHOWN, read_table

Floats = NDArray[np.float64]

SIDE = 64  # every picture is brought to this many pixels each way
TILES = 4  # of the thumbnail, each way
CELLS = 2  # of the orientations, each way
ORIENTATIONS = 8
CHANNELS = ("light", "red_green", "blue_yellow")


def picture_numbers(rgb: Floats) -> dict[str, float]:
    """Return the numbers of a picture (SIDE, SIDE, 3) with values from 0 to 1."""
    red, green, blue = np.moveaxis(rgb, -1, 0)
    light = (red + green + blue) / 3
    opponents = np.stack([light, red - green, blue - (red + green) / 2])  # (3, SIDE, SIDE)
    numbers = {}
    for name, channel in zip(CHANNELS, opponents, strict=True):
        spread = channel.std()
        skewness = np.mean((channel - channel.mean()) ** 3) / max(spread, 1e-3) ** 3
        numbers |= {f"{name}_mean": channel.mean(), f"{name}_sd": spread}
        numbers[f"{name}_skewness"] = skewness
        for (i, j), value in np.ndenumerate(_tiles(channel, TILES).mean(axis=(1, 3))):
            numbers[f"{name}_tile_{i}{j}"] = value
    down, right = np.gradient(light)
    strength = np.hypot(down, right)
    # orientation has no sign: an edge from dark to light is the same edge
    turn = np.mod(np.arctan2(down, right), np.pi) / np.pi * ORIENTATIONS
    way = np.minimum(turn.astype(int), ORIENTATIONS - 1)
    total = max(float(strength.sum()), 1e-12)
    for o in range(ORIENTATIONS):
        cells = _tiles(np.where(way == o, strength, 0.0), CELLS).sum(axis=(1, 3)) / total
        for (i, j), value in np.ndenumerate(cells):
            numbers[f"edges_{o}_cell_{i}{j}"] = value
    return {name: float(value) for name, value in numbers.items()}


def _tiles(channel: Floats, n: int) -> Floats:
    """Return (n, side, n, side): n times n tiles."""
    return channel.reshape(n, SIDE // n, n, SIDE // n)


def read_picture(path: Path) -> Floats:
    """Return a picture as (SIDE, SIDE, 3) with values from 0 to 1."""
    try:
        from PIL import Image  # noqa: PLC0415 - an extra, loaded when it is needed
    except ImportError as error:
        raise ImportError("pictures need Pillow: pip install 'nearkin[pictures]'") from error
    with Image.open(path) as picture:
        small = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float64) / 255


def objects_with_pictures(folder: str | Path, column: str) -> dict[str, list[Any]]:
    """Return the objects of a study, as columns, with the numbers of their pictures added.

    Parameters
    ----------
    folder : path
        A study, whose table of objects names the file of each one's picture, from this folder.
    column : str
        In which column.
    """
    table = read_table(objects_table(folder), "objects")
    numbers, unread = [], {}
    for row, name in enumerate(table.column(column)):
        try:
            numbers.append(picture_numbers(read_picture(Path(folder) / str(name))))
        except (OSError, ValueError) as error:
            unread[row] = f"{name}: {type(error).__name__}"
    examples = ", ".join(list(unread.values())[:SHOWN])
    table.complain(f"pictures that cannot be read ({examples})", unread)
    table.raise_problems()
    taken = sorted(set(numbers[0]) & set(table.columns))
    if taken:
        raise ValueError(f"{table.source}: columns {taken} are named like numbers of pictures.")
    return table.columns | {name: [one[name] for one in numbers] for name in numbers[0]}
