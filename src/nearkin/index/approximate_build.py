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
    if len(asked) < n_queries_for(recall):
        if len(asked) == N_QUERIES:
            _warn(f"{N_QUERIES} queries cannot tell whether {recall} of the nearest are found")
        return None
    trial = Trial(held, rest, as_queries(held.metric, held.objects.points[asked]), _ks(k, rest))
    best, greatest = None, 0.0
    limit = np.inf if any_speed else trial.exact_time
    for engine in engines:
        if best is not None and not _may_win(engine, trial, k, limit, recall):
            continue
        made = _made(engine, trial, k)
        depth, found = trial.tuned(made, k, limit, recall)
        logger.info("%s: %s (exact search: %.3g s)", engine, depth, trial.exact_time)
        greatest = max(greatest, found)
        if depth is not None:
            best, limit = replace(made, depths=(depth,)), depth.worth * trial.row_time
    if best is None:
        names = " or ".join(str(engine) for engine in engines)
        fast = "" if any_speed else " faster than exact search"
        _warn(f"{names} cannot surely find {recall} of the nearest{fast} (found {greatest:.4f})")
        return None
    for deeper in _ks(k, rest)[1:]:
        depth, _ = trial.tuned(best, deeper, trial.exact_time if not any_speed else np.inf, recall)
        if depth is None:
            break
        best = replace(best, depths=(*best.depths, depth))
    if any_speed:  # used even where it is slower
        depths = tuple(d._replace(worth=0.0) for d in best.depths)
        best = replace(best, depths=depths)
    return _completed(best, trial, apart)


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


def _ks(k: int, rest: Integers) -> list[int]:
    ks = [k]
    while ks[-1] * DEEPER <= min(DEEPEST, len(rest) // 8):
        ks.append(ks[-1] * DEEPER)
    return ks


def _may_win(engine: Engine, trial: Trial, k: int, limit: float, recall: float) -> bool:
    """Tell whether an engine is fast enough on a sample; on all objects it will be slower."""
    if len(trial.members) <= 2 * RACE:
        return True
    part = trial.among(trial.members[:RACE], k)
    depth, _ = part.tuned(_made(engine, part, k), k, limit, recall)
    if depth is None:
        logger.info("%s is too slow on %d objects already", engine, RACE)
    return depth is not None


def _made(engine: Engine, trial: Trial, k: int) -> Proposals:
    """Return an engine that holds the trial's objects, its alpha chosen on a sample of them."""
    alpha, metric = None, trial.held.metric
    if metric.n_classes and len(trial.members) >= 10 * len(trial.all):
        part = trial.among(trial.members[:SAMPLE], k)

        def recall(alpha: float) -> float:
            made = _filled(engine, part, alpha)
            ladder = engine.ladders(made.index, k)[0]
            return float(
                np.mean([part.attempt(made, k, e).recall for e in ladder[: len(ladder) // 2 + 1]])
            )

        points = trial.held.objects.points[part.members]
        alpha = best_alpha(Embedding.fitted(metric, points).alpha, recall)
    return _filled(engine, trial, alpha)


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
