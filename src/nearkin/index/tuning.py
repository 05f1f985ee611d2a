"""What an approximate search chooses by measurement: the weight of the class side, the effort."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

Effort = TypeVar("Effort")

logger = logging.getLogger(__name__)
FACTORS = (0.25, 0.5, 1.0, 2.0)  # times the balanced alpha


def best_alpha(balanced: float, recall: Callable[[float], float]) -> float:
    """Return the weight of the class side (``Embedding.alpha``) that finds most on a sample."""
    found = {}
    for factor in FACTORS:
        found[balanced * factor] = recall(balanced * factor)
        logger.info("alpha %.3g: recall %.4f on a sample", *list(found.items())[-1])
    return max(found, key=found.__getitem__)


def least_effort(
    efforts: Iterable[Effort], recall: Callable[[Effort], float], wanted: float
) -> tuple[Effort, float] | tuple[None, float]:
    """Return the first effort that finds the share ``wanted``, None if none does; and its share.

    Efforts are in the order of what they cost. Without one, the share is the greatest found.
    """
    greatest = 0.0
    for effort in efforts:
        found = recall(effort)
        logger.info("effort %s: recall %.4f", effort, found)
        if found >= wanted:
            return effort, found
        greatest = max(greatest, found)
    return None, greatest
