"""An index of a model's collection: built beside it, and checked against exact search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from nearkin import index as indexes
from nearkin.index.where import Where
from nearkin.model import Model
from nearkin.nearest import Neighbours

QUERIES = 200
EXACT, APPROXIMATE = "exact", "approximate"
CLASSES = {EXACT: "ExactIndex", APPROXIMATE: "ApproximateIndex"}


def index_folder(folder: str | Path, kind: str) -> Path:
    """Return where a study folder keeps an index of a kind."""
    return Path(folder) / f"index-{kind}"


def contents(model: Model) -> dict[str, Any]:
    """Return what an index is given: points, ids, labels and metadata."""
    objects = model.objects
    return {
        "points": model.points,
        "ids": objects.ids.tolist(),
        "labels": objects.y,
        "meta": objects.meta,
    }


def build_index(model: Model, folder: str | Path, kind: str) -> Any:
    """Build an index of the collection and write it into the study's folder."""
    index = getattr(indexes, CLASSES[kind])(model.metric)
    index.add(**contents(model))
    if kind == APPROXIMATE:
        index.build()  # choose and tune the engine now, not at the first search
    index.save(index_folder(folder, kind))
    return index


def open_index(model: Model, folder: str | Path, kind: str) -> Any:
    """Read an index, every checksum checked; one of another metric is refused as stale."""
    place = index_folder(folder, kind)
    if not place.exists():
        option = " --approximate" if kind == APPROXIMATE else ""
        raise FileNotFoundError(
            f"{place}: there is no such index; build it: nearkin index build {folder}{option}"
        )
    return getattr(indexes, CLASSES[kind]).load(place, model.metric)


def build_in_postgres(model: Model, url: str, name: str) -> Any:
    """Put the collection, with a graph, in the place of what the database has by this name."""
    index = indexes.PostgresIndex(model.metric, url, name)
    return index.replace(**contents(model))


def open_in_postgres(model: Model, url: str, name: str) -> Any:
    """Return an index of a database; none, or one of another metric, is an error."""
    try:
        return indexes.PostgresIndex.open(model.metric, url, name)
    except LookupError as error:
        hint = "build it: nearkin index build FOLDER --postgres URL"
        raise FileNotFoundError(f"{error} {hint}") from error


def check_index(model: Model, index: Any, k: int = 10, n_queries: int = QUERIES) -> dict[str, Any]:
    """Compare an index with exact search of the model, objects of the collection as queries.

    Returns
    -------
    dict
        ``objects`` in the index and in the ``collection``, ``recall``: the share of the k nearest
        that it finds, ``worst`` query's, and ``distance_error``: the largest relative error of a
        distance that it returned.
    """
    n = len(model.objects)
    rows = np.sort(check_random_state(0).permutation(n)[:n_queries])
    k = min(k, n - 1)
    ids = model.objects.ids
    found = index.search(model.points[rows], k, [Where(exclude_ids=[ids[row]]) for row in rows])
    exact = Neighbours.of(model.metric, model.points)
    shares, error = [], 0.0
    for at, row in enumerate(rows):
        allowed = np.arange(n) != row
        near = exact.search(model.points[[row]], k, allowed)
        true = dict(zip(ids[near.rows[0]].tolist(), near.distances[0].tolist(), strict=True))
        shares.append(sum(key in true for key in found.ids[at]) / k)
        for key, d in zip(found.ids[at].tolist(), found.distances[at].tolist(), strict=True):
            if true.get(key):
                error = max(error, abs(d - true[key]) / true[key])
    return {
        "objects": len(index),
        "collection": n,
        "queries": len(rows),
        "k": k,
        "recall": float(np.mean(shares)),
        "worst": float(np.min(shares)),
        "distance_error": error,
    }
