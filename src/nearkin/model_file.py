"""A model on disk: one file without pickle, written in one step, every part checked on reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.bundle import BundleError, read_bundle, write_bundle
from nearkin.calibration import Calibration
from nearkin.data import Objects
from nearkin.explaining import Usual
from nearkin.metric import Metric, require
from nearkin.model import Model
from nearkin.persistence import fingerprint, restored, restored_points
from nearkin.points import Points
from nearkin.preparation import Preparation
from nearkin.spread import Reach, Spread

KIND = "nearkin model"
FILE = "model.nearkin"
PREPARED = ("kept_", "shift_", "scale_", "partner_", "correlation_")


def save_model(model: Model, path: str | Path) -> None:
    """Write a model: afterwards the old file or the new one, never a mix.

    The file holds the features, labels and metadata of the collection: treat it as you treat them.
    A classifier that is not nearkin's is not saved: new objects then need a label.
    """
    metric, calibration, objects = model.metric, model.calibration, model.objects
    text = {
        "ids": objects.ids.tolist(),
        "labels": objects.y.tolist(),
        "meta": {name: column.tolist() for name, column in objects.meta.items()},
    }
    arrays: dict[str, Any] = metric.arrays()
    # x is the prepared X, and what is predicted behind it
    arrays |= {f"points_{name}": getattr(model.points, name) for name in ("u", "b")}
    arrays["points_z"] = model.points.x[:, metric.n_given :]
    arrays |= {f"prepared_{name}": getattr(model.preparation, name) for name in PREPARED}
    arrays |= {
        "X": objects.X,
        "text": np.frombuffer(json.dumps(text, default=_plain).encode(), dtype=np.uint8),
        "spread": model.spread.distances,
        "usual": model.usual.features,
    }
    if calibration is not None:
        arrays |= {"shares": calibration.shares, "similar": calibration.values}
    header = {
        "kind": KIND,
        "metric": metric.header(),
        "feature_names": objects.feature_names,
        "preparation": model.preparation.get_params(),
        "n_pairs": model.spread.n_pairs,
        "reach": model.reach.limit if np.isfinite(model.reach.limit) else None,
        "usual_classes": model.usual.classes,
        "threshold": None if calibration is None else calibration.threshold,
        "calibration": None if calibration is None else calibration.report,
        "about": model.about,
        "fingerprint": fingerprint(metric),
    }
    write_bundle(path, header, {k: v for k, v in arrays.items() if v is not None})


def load_model(path: str | Path) -> Model:
    """Read a model that ``save_model`` wrote; a folder stands for its ``model.nearkin``.

    Nothing in the file is executed; a damaged or truncated file is refused.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: there is no such model; fit one with: nearkin fit {path.parent}"
        )
    header, arrays = read_bundle(path, KIND)
    try:
        return _model(path, header, arrays)
    except BundleError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BundleError(f"{path} is not a complete {KIND}: {error}") from error


def _model(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    metric = restored(header["metric"], arrays)
    require(fingerprint(metric) == header["fingerprint"], "the metric that was fitted")
    objects = _objects(header, arrays)
    preparation = Preparation(**header["preparation"])
    for name in PREPARED:
        setattr(preparation, name, arrays[f"prepared_{name}"])
    K = objects.X.shape[1]
    preparation.n_features_in_ = K
    _check_preparation(preparation, K)
    x = np.hstack([preparation.transform(objects.X), arrays.pop("points_z")])
    stored = {"points_x": x, **arrays}
    points = restored_points(path, header["metric"], stored)
    require(len(points.x) == len(objects), "one point for each object")
    require(points.x.shape[1] == metric.n_features, "the features of the metric")
    return Model(
        metric,
        points,
        objects,
        preparation,
        Spread(arrays["spread"], int(header["n_pairs"])),
        Reach(float("inf") if header["reach"] is None else float(header["reach"])),
        _usual(metric, points, header, arrays),
        _calibration(header, arrays),
        dict(header["about"]),
    )


def _objects(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Objects:
    text = json.loads(arrays["text"].tobytes())
    ids, X = text["ids"], arrays["X"]
    columns = {"labels": text["labels"], **text["meta"]}
    require(X.shape == (len(ids), len(header["feature_names"])), "X: one row for each id")
    require(all(len(c) == len(ids) for c in columns.values()), "columns of equal length")
    read = {name: np.array([*column, None], dtype=object)[:-1] for name, column in columns.items()}
    labels = read.pop("labels")
    return Objects(np.array(ids, dtype=object), X, labels, header["feature_names"], read)


def _check_preparation(found: Preparation, K: int) -> None:
    n = len(found.kept_)
    fits = found.shift_.shape == found.scale_.shape == (n,)
    fits = fits and found.partner_.shape == found.correlation_.shape == (K,)
    require(fits and ((found.kept_ >= 0) & (found.kept_ < K)).all(), "preparation: of X's columns")
    require((found.scale_ > 0).all(), "preparation: scales > 0")
    require(((found.partner_ >= -1) & (found.partner_ < K)).all(), "preparation: partners")


def _usual(
    metric: Metric, points: Points, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> Usual:
    require(arrays["usual"].shape == (metric.n_given,), "usual: one for each feature")
    return Usual(arrays["usual"], float(header["usual_classes"]))


def _calibration(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Calibration | None:
    if header["calibration"] is None:
        return None
    shares, similar, threshold = arrays["shares"], arrays["similar"], header["threshold"]
    require(shares.shape == similar.shape and shares.ndim == 1, "calibration: knots")
    require((np.diff(shares) >= 0).all(), "calibration: rising shares")
    require(((similar >= 0) & (similar <= 1)).all(), "calibration: probabilities")
    require(threshold is not None or len(shares) > 0, "calibration: a threshold or knots")
    number = None if threshold is None else float(threshold)
    return Calibration(number, shares, similar, dict(header["calibration"]))


def _plain(value: Any) -> Any:
    """Return a number of NumPy's, or a date, as JSON can hold it."""
    return value.item() if isinstance(value, np.generic) else str(value)
