"""Columns of a collection in memory: they grow at their end, and turn text into plain arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Grown:
    """An array with room at its end, so that adding costs what is added.

    How many rows count is the owner's business: until it says so, nothing was added.
    """

    def __init__(self, rows: Array) -> None:
        self._room = rows

    def upto(self, n: int) -> Array:
        """Return the first n rows."""
        return self._room[:n]

    def write(self, start: int, rows: Array) -> None:
        """Write rows from ``start`` on; a wider type of number widens the whole array."""
        stop, dtype = start + len(rows), np.result_type(self._room, rows)
        room = self._room
        if stop > len(room) or dtype != room.dtype or not room.flags.writeable:
            size = max(stop, len(room) if stop <= len(room) else start + start // 2)
            room = np.zeros((size, *room.shape[1:]), dtype)
            room[:start] = self._room[:start]
        room[start:stop] = rows
        self._room = room


class TextColumn:
    """Text of each object, each different one kept once; None where there is none."""

    def __init__(self, codes: Array, values: Iterable[str]) -> None:
        self.codes, self.values = codes, list(values)

    def __len__(self) -> int:
        return len(self.codes)

    def among(self, wanted: Collection[str | None]) -> NDArray[np.bool_]:
        """Tell which objects have one of the wanted values  (n,)."""
        # one more place at the end, for the code -1
        hit = np.array([value in wanted for value in self.values] + [False], dtype=bool)
        return hit[self.codes]


class Texts:
    """The different values of a column so far, and the code of each."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = list(values)
        self._code_of = {value: code for code, value in enumerate(self.values)}

    def codes(self, texts: Sequence[str | None]) -> NDArray[np.int32]:
        """Return the code of each text, new ones included, -1 for None."""
        for text in texts:
            if text is not None and text not in self._code_of:
                self._code_of[text] = len(self.values)
                self.values.append(text)
        code_of = self._code_of
        return np.array([-1 if t is None else code_of[t] for t in texts], dtype=np.int32)


def packed(texts: Sequence[str]) -> tuple[Array, Array]:
    """Return texts as one array of bytes and where each of them ends."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), ends


def unpacked(data: Array, ends: Array) -> list[str]:
    """Return the texts of ``packed``."""
    raw, stops = np.asarray(data).tobytes(), [0, *ends.tolist()]
    if stops[-1] != len(raw) or (np.diff(stops) < 0).any():
        raise ValueError("a column of text is not whole")
    return [raw[low:high].decode("utf-8", "surrogatepass") for low, high in pairwise(stops)]
