"""Metrics and points from files, every number checked. Nothing in a file is executed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.bundle import BundleError, read_bundle
from nearkin.kernel import KernelPosterior
from nearkin.metric import KIND, Metric, require
from nearkin.points import Points


def load_metric(path: str | Path) -> Metric:
    """Read a metric that ``Metric.save`` wrote. Nothing in the file is executed."""
    header, arrays = read_bundle(path, KIND)
    try:
        return restored(header, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BundleError(f"{path} is not a complete nearkin metric: {error}") from error


def load_points(path: str | Path) -> Points:
    """Read the points that ``Metric.save(path, points)`` wrote beside the metric."""
    return restored_points(path, *read_bundle(path, KIND))


def restored_points(
    path: str | Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> Points:
    """Return the points of a file that was read."""
    x, u, b = (arrays.get(f"points_{name}") for name in ("x", "u", "b"))
    if x is None:
        raise BundleError(f"{path} holds no points; save them with metric.save(path, points).")
    M = 0 if header["classes"] is None else len(header["classes"])
    fits = x.ndim == 2 and all(part is None or part.shape == (len(x), M) for part in (u, b))
    if not fits:
        raise BundleError(f"{path}: the points do not fit together.")
    return Points(x, u, b)


def fingerprint(metric: Metric) -> str:
    """Return a hash of all that distances and nearkin's own classifier depend on.

    Vectors made by one metric are worthless to another: what stores them stores this, too.
    """
    parts = metric.arrays()
    arrays = {name: np.ascontiguousarray(v) for name, v in parts.items() if v is not None}
    header = {
        "arrays": {name: [array.dtype.str, array.shape] for name, array in arrays.items()},
        "classes": None if metric.classes is None else metric.classes.tolist(),
        "feature_names": metric.feature_names,
        "profiled": metric.profiled,
    }
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Metric:
    """Return the metric of a file that was read."""
    Q, classifier = arrays.get("class_costs"), None
    classes = None if header["classes"] is None else np.array(header["classes"])
    if header["classifier"]["saved"]:
        parts = (arrays[f"classifier_{name}"] for name in ("x", "codes", "weights"))
        classifier = KernelPosterior.restored(0 if Q is None else len(Q), *parts)
    metric = Metric(
        arrays["weights"],
        Q,
        classes,
        classifier,
        arrays.get("center"),
        header["feature_names"],
        header["provenance"],
        bool(header["profiled"]),
        arrays.get("completion"),
    )
    fits = classifier is None or classifier.x.shape[1] == metric.n_given
    require(fits, "classifier features")
    return metric
