"""Which engine an approximate index uses, and how hard it searches: chosen by measurement."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nearkin.index.embedding import Embedding
from nearkin.index.engines import Engine, add_vectors
from nearkin.index.inmemory import InMemory
from nearkin.index.proposals import BLOCK, Proposals, Space
from nearkin.index.trials import Trial, as_queries, n_queries_for
from nearkin.index.tuning import best_alpha

logger = logging.getLogger(__name__)
Integers = NDArray[np.int64]

N_QUERIES = 500  # objects held out of the engine while it is tuned
SAMPLE = 10_000  # objects on which alpha is chosen
RACE = 50_000  # objects on which an engine has to show that it may be the fastest
DEEPER, DEEPEST = 4, 1_000  # from one k to the next, and the last one
FAR = 4.0  # times as long as the longest query of the tuning


def build(
    held: InMemory, engines: Sequence[Engine], k: int, recall: float, *, any_speed: bool
) -> Proposals | None:
    """Return the fastest engine that finds the share ``recall``, or None if exact search is best.

    No object of the collection may have been removed. ``any_speed`` keeps an engine that is
    slower than exact search.
    """
    asked, apart, rest = held_out(held.objects.points.x)
    if n_queries_for(recall) > N_QUERIES:
        _warn(f"{N_QUERIES} queries cannot tell whether {recall} of the nearest are found")
    if len(asked) < n_queries_for(recall):
        return None
    ks = [k]
    while ks[-1] * DEEPER <= min(DEEPEST, len(rest) // 8):
        ks.append(ks[-1] * DEEPER)
    trial = Trial(held, rest, as_queries(held.metric, held.objects.points[asked]), ks)
    limit = np.inf if any_speed else trial.exact_time
    best = _fastest(engines, trial, k, limit, recall)
    if best is None:
        return None
    for deeper in ks[1:]:
        depth, _ = trial.tuned(best, deeper, limit, recall)
        if depth is None:
            break
        best = replace(best, depths=(*best.depths, depth))
    if any_speed:  # used even where it is slower
        best = replace(best, depths=tuple(depth._replace(worth=0.0) for depth in best.depths))
    return _completed(best, trial, apart)


def _fastest(
    engines: Sequence[Engine], trial: Trial, k: int, limit: float, recall: float
) -> Proposals | None:
    """Return the engine that finds enough in the shortest time below ``limit``, if one does."""
    best, greatest, alpha = None, 0.0, _alpha(engines[0], trial, k)
    fast = "" if limit == np.inf else " faster than exact search"
    for engine in engines:
        if best is not None and len(trial.members) > 2 * RACE:
            part = trial.among(trial.members[:RACE], k)
            # cells times their objects are n, so time grows with the root of n; a graph's does too
            soon = limit * (RACE / len(trial.members)) ** 0.5
            depth, _ = part.tuned(_filled(engine, part, alpha), k, soon, recall)
            if depth is None:
                logger.info("%s is too slow on %d objects already", engine, RACE)
                continue
        made = _filled(engine, trial, alpha)
        depth, found = trial.tuned(made, k, limit, recall)
        logger.info("%s: %s (exact search: %.3g s)", engine, depth, trial.exact_time)
        greatest = max(greatest, found)
        if depth is not None:
            best, limit = replace(made, depths=(depth,)), depth.worth * trial.row_time
    if best is None:
        names = " or ".join(str(engine) for engine in engines)
        _warn(f"{names} cannot surely find {recall} of the nearest{fast} (found {greatest:.4f})")
    return best


def held_out(x: NDArray[Any]) -> tuple[Integers, Integers, Integers]:
    """Return rows to search for, they and all copies of them, and all other rows at random.

    An object that has copies in the collection would be found too easily.
    """
    random = check_random_state(0)
    mix = random.normal(size=x.shape[1])
    blocks = (x[s : s + BLOCK] for s in range(0, len(x), BLOCK))
    # sums along rows give equal rows equal bits  (n,)
    sums = np.concatenate([(block * mix).sum(axis=1) for block in blocks])
    _, first, which = np.unique(sums, return_index=True, return_inverse=True)
    asked = random.permutation(len(first))[: min(N_QUERIES, len(first) // 4)]
    apart = np.isin(which, asked)
    return first[asked], np.flatnonzero(apart), random.permutation(np.flatnonzero(~apart))


def _alpha(engine: Engine, trial: Trial, k: int) -> float | None:
    """Return the weight of the class side with which an engine finds most on a sample."""
    if not trial.held.metric.n_classes or len(trial.members) < 10 * len(trial.all):
        return None
    part = trial.among(trial.members[:SAMPLE], k)

    def recall(alpha: float) -> float:
        made = _filled(engine, part, alpha)
        ladder = engine.ladders(made.index, k)[0]
        efforts = ladder[: len(ladder) // 2 + 1]
        return float(np.mean([part.attempt(made, k, effort).recall for effort in efforts]))

    points = trial.held.objects.points[part.members]
    return best_alpha(Embedding.fitted(trial.held.metric, points).alpha, recall)


def _filled(engine: Engine, trial: Trial, alpha: float | None) -> Proposals:
    points = trial.held.objects.points
    space = Space.around(trial.held.metric, points, alpha)
    x = space.items(points, trial.members)
    index = engine.trained(x)
    add_vectors(index, x)
    return Proposals(engine, index, space, trial.members)


def _completed(made: Proposals, trial: Trial, apart: Integers) -> Proposals:
    """Return the engine with the objects that were held out, ready for use."""
    add_vectors(made.index, made.space.items(trial.held.objects.points, apart))
    longest = np.linalg.norm(made.space.queries(trial.all), axis=1).max(initial=0.0)
    return replace(made, rows=np.concatenate([made.rows, apart]), reach=float(FAR * longest))


def _warn(why: str) -> None:
    warnings.warn(
        f"ApproximateIndex.build: {why}, so search stays exact; a smaller recall= may help.",
        RuntimeWarning,
        stacklevel=4,
    )
